//! [`Channels`]: subscriptions of the clients on all cores.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::client_id::ClientId;
use crate::glob;

/// A message that was published.
#[derive(Debug, Clone)]
pub struct Message {
    /// The pattern that matched; `None` for a subscription to the channel.
    pub pattern: Option<Arc<[u8]>>,
    /// The channel.
    pub channel: Arc<[u8]>,
    /// The text.
    pub text: Arc<[u8]>,
}

/// A subscribed client, and its core.
pub type Subscriber = (ClientId, usize);

type Subscribers = BTreeMap<Vec<u8>, Vec<Subscriber>>;

/// Subscribed clients by channel and by pattern.
#[derive(Debug, Default)]
pub struct Channels {
    subscribed: Mutex<Subscribed>,
}

#[derive(Debug, Default)]
struct Subscribed {
    channels: Subscribers,
    patterns: Subscribers,
}

impl Subscribed {
    fn of_kind(&mut self, pattern: bool) -> &mut Subscribers {
        if pattern { &mut self.patterns } else { &mut self.channels }
    }
}

impl Channels {
    /// Subscribes a client to a channel or, with `pattern`, to all channels that match.
    pub fn subscribe(&self, client: Subscriber, channel: &[u8], pattern: bool) {
        let mut subscribed = self.subscribed.lock();
        subscribed.of_kind(pattern).entry(channel.to_vec()).or_default().push(client);
    }

    /// Ends a subscription. Does nothing if there is none.
    pub fn unsubscribe(&self, client: ClientId, channel: &[u8], pattern: bool) {
        let mut subscribed = self.subscribed.lock();
        let map = subscribed.of_kind(pattern);
        if let Some(list) = map.get_mut(channel) {
            list.retain(|(subscriber, _)| *subscriber != client);
            if list.is_empty() {
                map.remove(channel);
            }
        }
    }

    /// Calls `send` for each subscriber of a channel and returns their number. Calls of `publish`
    /// exclude each other, so all clients get all messages in the same order.
    pub fn publish(
        &self,
        channel: &[u8],
        text: &[u8],
        mut send: impl FnMut(Subscriber, Message),
    ) -> usize {
        let subscribed = self.subscribed.lock();
        let (name, text): (Arc<[u8]>, Arc<[u8]>) = (channel.into(), text.into());
        let message = |pattern| Message { pattern, channel: name.clone(), text: text.clone() };
        let mut count = 0;
        for client in subscribed.channels.get(channel).into_iter().flatten() {
            send(*client, message(None));
            count += 1;
        }
        for (pattern, clients) in &subscribed.patterns {
            if glob::matches(pattern, channel) {
                let pattern: Arc<[u8]> = pattern.as_slice().into();
                clients.iter().for_each(|client| send(*client, message(Some(pattern.clone()))));
                count += clients.len();
            }
        }
        count
    }

    /// Channels with subscribers, and the number of subscribers.
    pub fn names(&self) -> Vec<(Vec<u8>, usize)> {
        let subscribed = self.subscribed.lock();
        subscribed.channels.iter().map(|(name, list)| (name.clone(), list.len())).collect()
    }

    /// Number of patterns with subscribers.
    pub fn pattern_count(&self) -> usize {
        self.subscribed.lock().patterns.len()
    }
}
