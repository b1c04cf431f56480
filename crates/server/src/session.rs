//! [`Session`]: state of a connection between commands.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ebbtide_core::durability::Lsn;

use crate::acl::{Account, Refusal};
use crate::channels::{Message, Topic};
use crate::client_id::ClientId;
use crate::events::Events;
use crate::large::Staged;
use crate::protocol::Protocol;
use crate::script::Interpreter;

/// Commands queued between `MULTI` and `EXEC`.
#[derive(Debug, Default)]
pub struct Queued {
    /// The commands.
    pub commands: Vec<QueuedCommand>,
    /// Bytes of all arguments.
    pub bytes: usize,
    /// True if a command could not be queued, so that `EXEC` fails.
    pub failed: bool,
}

/// A command queued for `EXEC`.
#[derive(Debug)]
pub struct QueuedCommand {
    /// Its name and arguments.
    pub words: Vec<Vec<u8>>,
    /// The arguments that lie in memory.
    pub staged: Vec<Staged>,
}

impl QueuedCommand {
    /// Its name and arguments, as commands take them.
    pub fn arguments(&self) -> Vec<&[u8]> {
        self.words.iter().map(Vec::as_slice).collect()
    }
}

/// A message that others get once the commands that published it have taken effect.
#[derive(Debug)]
pub struct Published {
    /// Its channel, and the kind of that.
    pub channel: (Vec<u8>, Topic),
    /// Its text.
    pub text: Vec<u8>,
    /// True if the client that published it has to get it, too.
    pub to_self: bool,
}

/// DRAM bytes of a message or an event that waits, apart from its bytes.
const WAITING_BYTES: usize = 160;

/// Messages in the order of their publishing.
#[derive(Debug, Default)]
pub struct Messages {
    /// The messages.
    pub list: Vec<Published>,
    /// Their DRAM bytes.
    bytes: usize,
}

impl Messages {
    /// Adds a message.
    pub fn add(&mut self, message: Published) {
        self.bytes += message.channel.0.len() + message.text.len() + WAITING_BYTES;
        self.list.push(message);
    }
}

/// Lines of text.
#[derive(Debug, Default)]
pub struct Lines {
    /// The lines.
    pub list: Vec<Vec<u8>>,
    /// Their DRAM bytes.
    pub bytes: usize,
}

/// State of a connection between commands.
#[derive(Debug, Default)]
pub struct Session {
    /// Number of the connection.
    pub id: ClientId,
    /// The client's name for itself.
    pub name: Vec<u8>,
    /// Database of its commands.
    pub database: usize,
    /// The protocol version that it has chosen.
    pub protocol: Protocol,
    /// Its user; `None` before it has logged in.
    pub user: Option<Arc<Account>>,
    /// True if it is of the follower, and makes the changes of a master. It needs no user.
    pub follows: bool,
    /// Queued commands, between `MULTI` and `EXEC`.
    pub queued: Option<Queued>,
    /// Keys watched for `EXEC`, by database.
    pub watched: BTreeSet<(usize, Vec<u8>)>,
    /// Set when a watched key changes.
    pub broken: Arc<AtomicBool>,
    /// Subscribed channels.
    pub channels: BTreeSet<Vec<u8>>,
    /// Subscribed patterns.
    pub patterns: BTreeSet<Vec<u8>>,
    /// Subscribed channels of one slot.
    pub shard_channels: BTreeSet<Vec<u8>>,
    /// [`COMMANDS`](crate::channels::COMMANDS), if it subscribes to all commands.
    pub commands: BTreeSet<Vec<u8>>,
    /// DRAM bytes of its subscriptions.
    pub subscribed_bytes: usize,
    /// DRAM bytes of its watched keys.
    pub watched_bytes: usize,
    /// Messages published by the current `EXEC` or script.
    pub published: Option<Messages>,
    /// Events of keys that are published when the current command has taken effect.
    pub events: Events,
    /// Lines about the commands of the current `EXEC` or script, for clients that monitor.
    pub monitored: Lines,
    /// What was refused to the current command, for the log.
    pub refused: Vec<Refusal>,
    /// The interpreter for the scripts of the current `EXEC`.
    pub(crate) interpreter: Option<Interpreter>,
    /// True while a script runs.
    pub(crate) in_script: bool,
    /// The last change that its replies report.
    pub written: Lsn,
    /// Place in the log that must be durable before its replies are sent, under every policy.
    pub saved: Lsn,
    /// True if the use of a key by its commands does not count for eviction (`CLIENT NO-TOUCH`).
    pub no_touch: bool,
    /// True if the connection closes after its replies.
    pub closing: bool,
    /// Replies that the client does not want (`CLIENT REPLY`).
    pub silent: Silent,
    /// The command that waits for an element of a key, or for the end of a pause.
    pub blocked: Option<Box<Blocked>>,
    /// While a command that waits runs again: when its time is over.
    pub resumed: Option<Option<u64>>,
    /// Set if the command that waits must end instead; true for an error.
    pub unblocked: Option<bool>,
    /// True if the current command replied with subscriptions. They are sent even if replies are
    /// off.
    pub pushed: bool,
}

/// Refusals of a command that come into the log. A script may cause many.
const REFUSED_MAX: usize = 16;

/// A command that waits for an element of a key, or for the end of a pause.
#[derive(Debug, Default)]
pub struct Blocked {
    /// Its name and arguments.
    pub words: Vec<Vec<u8>>,
    /// The arguments that lie in memory.
    pub staged: Vec<Staged>,
    /// True if it waits for the end of a pause, and has not run yet.
    pub is_postponed: bool,
    /// The database of its keys.
    pub database: usize,
    /// The keys that it waits for.
    pub keys: Vec<Vec<u8>>,
    /// When its time is over, in milliseconds since the Unix epoch; `None` for never.
    pub deadline_ms: Option<u64>,
}

impl Blocked {
    /// Bytes of DRAM that it holds, here and in the queues of its keys.
    fn held_bytes(&self) -> usize {
        const WORD_BYTES: usize = 64;
        let words = self.words.iter().map(|word| word.len() * 3 + WORD_BYTES * 3);
        words.sum::<usize>() + self.staged.len() * size_of::<Staged>()
    }
}

/// Replies that a client does not want.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Silent {
    /// It wants all replies.
    #[default]
    Never,
    /// It does not want the next reply.
    Next,
    /// It does not want the reply to the current command.
    Now,
    /// It wants no reply until `CLIENT REPLY ON`.
    Always,
}

impl Session {
    /// Begins the current command again, because its last attempt did not take effect.
    pub fn start_over(&mut self) {
        self.events.clear();
        self.monitored = Lines::default();
        self.refused.clear();
    }

    /// DRAM bytes of what the current `EXEC` or script announces once it has taken effect.
    pub fn announced_bytes(&self) -> usize {
        let messages = self.published.as_ref().map_or(0, |messages| messages.bytes);
        messages + self.events.key_bytes() + self.events.len() * WAITING_BYTES
    }

    /// Notes that something was refused to the current command.
    pub fn refuse(&mut self, refusal: Refusal) {
        if self.refused.len() < REFUSED_MAX {
            self.refused.push(refusal);
        }
    }

    /// Bytes of DRAM that the session holds.
    pub fn held_bytes(&self) -> usize {
        let queued = self.queued.as_ref().map_or(0, |queued| queued.bytes);
        let blocked = self.blocked.as_ref().map_or(0, |blocked| blocked.held_bytes());
        self.subscribed_bytes + self.watched_bytes + queued + blocked + self.name.len() * 2
    }

    /// True if it still has the subscription that a message comes from.
    pub fn subscribes_to(&mut self, message: &Message) -> bool {
        let name = message.pattern.as_ref().unwrap_or(&message.channel);
        self.subscribed(message.topic).contains(&**name)
    }

    /// Its subscriptions of a kind.
    pub fn subscribed(&mut self, topic: Topic) -> &mut BTreeSet<Vec<u8>> {
        match topic {
            Topic::Channel => &mut self.channels,
            Topic::Pattern => &mut self.patterns,
            Topic::ShardChannel => &mut self.shard_channels,
            Topic::Commands => &mut self.commands,
        }
    }

    /// True if its user may use all channels that it subscribes to.
    pub fn may_subscribe(&self) -> bool {
        let Some(user) = self.user.as_ref().map(|account| account.user()) else { return true };
        let mut channels = self.channels.iter().chain(&self.shard_channels);
        channels.all(|channel| user.may_subscribe(channel, false))
            && self.patterns.iter().all(|pattern| user.may_subscribe(pattern, true))
    }

    /// Number of all subscriptions.
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len() + self.shard_channels.len()
    }
}
