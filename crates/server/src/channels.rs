//! [`Channels`]: subscriptions of the clients on all cores.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::client_id::ClientId;
use crate::glob;

/// The channel of [`Topic::Commands`].
pub const COMMANDS: &[u8] = b"";

/// What a client subscribes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// A channel.
    Channel,
    /// All channels that match a pattern.
    Pattern,
    /// A channel of one slot of a cluster. It has nothing to do with a [`Topic::Channel`] of the
    /// same name.
    ShardChannel,
    /// All commands (`MONITOR`). Its only channel is [`COMMANDS`].
    Commands,
}

/// A message that was published.
#[derive(Debug, Clone)]
pub struct Message {
    /// The kind of the client's subscription.
    pub topic: Topic,
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

/// Subscribed clients by channel, by pattern and by channel of a slot.
#[derive(Debug, Default)]
pub struct Channels {
    subscribed: Mutex<Subscribed>,
    /// True if a client subscribes to all commands.
    is_monitored: AtomicBool,
}

#[derive(Debug, Default)]
struct Subscribed {
    channels: Subscribers,
    patterns: Subscribers,
    shard_channels: Subscribers,
    commands: Subscribers,
}

impl Subscribed {
    fn of(&mut self, topic: Topic) -> &mut Subscribers {
        match topic {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
            Topic::ShardChannel => &mut self.shard_channels,
            Topic::Commands => &mut self.commands,
        }
    }
}

impl Channels {
    /// Subscribes a client to a channel or a pattern.
    pub fn subscribe(&self, client: Subscriber, channel: &[u8], topic: Topic) {
        let mut subscribed = self.subscribed.lock();
        subscribed.of(topic).entry(channel.to_vec()).or_default().push(client);
        self.is_monitored.store(!subscribed.commands.is_empty(), Ordering::Relaxed);
    }

    /// Ends a subscription. Does nothing if there is none.
    pub fn unsubscribe(&self, client: ClientId, channel: &[u8], topic: Topic) {
        let mut subscribed = self.subscribed.lock();
        let map = subscribed.of(topic);
        if let Some(list) = map.get_mut(channel) {
            list.retain(|(subscriber, _)| *subscriber != client);
            if list.is_empty() {
                map.remove(channel);
            }
        }
        self.is_monitored.store(!subscribed.commands.is_empty(), Ordering::Relaxed);
    }

    /// Calls `send` for each subscriber of a channel and returns their number. Calls of `publish`
    /// exclude each other, so all clients get all messages in the same order. Patterns match
    /// channels, but none of a slot.
    pub fn publish(
        &self,
        (channel, topic): (&[u8], Topic),
        text: &[u8],
        mut send: impl FnMut(Subscriber, Message),
    ) -> usize {
        let mut subscribed = self.subscribed.lock();
        let (name, text): (Arc<[u8]>, Arc<[u8]>) = (channel.into(), text.into());
        let message =
            |topic, pattern| Message { topic, pattern, channel: name.clone(), text: text.clone() };
        let mut count = 0;
        for client in subscribed.of(topic).get(channel).into_iter().flatten() {
            send(*client, message(topic, None));
            count += 1;
        }
        let patterns = (topic == Topic::Channel).then_some(&subscribed.patterns);
        for (pattern, clients) in patterns.into_iter().flatten() {
            if glob::matches(pattern, channel) {
                let pattern: Arc<[u8]> = pattern.as_slice().into();
                let message = || message(Topic::Pattern, Some(pattern.clone()));
                clients.iter().for_each(|client| send(*client, message()));
                count += clients.len();
            }
        }
        count
    }

    /// Channels with subscribers, and the number of subscribers.
    pub fn names(&self, topic: Topic) -> Vec<(Vec<u8>, usize)> {
        let mut subscribed = self.subscribed.lock();
        subscribed.of(topic).iter().map(|(name, list)| (name.clone(), list.len())).collect()
    }

    /// True if a client subscribes to all commands.
    pub fn is_monitored(&self) -> bool {
        self.is_monitored.load(Ordering::Relaxed)
    }

    /// Number of patterns with subscribers.
    pub fn pattern_count(&self) -> usize {
        self.subscribed.lock().patterns.len()
    }
}
