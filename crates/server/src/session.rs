//! [`Session`]: what a connection is in the middle of.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ebbtide_core::durability::Lsn;

use crate::channels::Message;
use crate::large::Staged;
use crate::resp::Protocol;

/// The number of a connection. It is never used again.
pub type ClientId = u64;

/// Commands that wait for `EXEC`.
#[derive(Debug, Default)]
pub struct Queued {
    /// The commands.
    pub commands: Vec<QueuedCommand>,
    /// Bytes of all arguments.
    pub bytes: usize,
    /// Whether a command could not be queued, so that `EXEC` fails.
    pub failed: bool,
}

/// A command that waits for `EXEC`.
#[derive(Debug)]
pub struct QueuedCommand {
    /// Its name and arguments.
    pub words: Vec<Vec<u8>>,
    /// Those arguments that lie in memory.
    pub staged: Vec<Staged>,
}

/// What a connection is in the middle of.
#[derive(Debug, Default)]
pub struct Session {
    /// Its number.
    pub id: ClientId,
    /// The name that the client gave itself.
    pub name: Vec<u8>,
    /// The database that its commands work on.
    pub database: usize,
    /// The version of the protocol that it has chosen.
    pub protocol: Protocol,
    /// Whether it gave the password, or none is needed.
    pub authenticated: bool,
    /// Between `MULTI` and `EXEC`.
    pub queued: Option<Queued>,
    /// Keys watched for `EXEC`, by database.
    pub watched: BTreeSet<(usize, Vec<u8>)>,
    /// Whether a watched key was changed.
    pub broken: Arc<AtomicBool>,
    /// Channels that it is subscribed to.
    pub channels: BTreeSet<Vec<u8>>,
    /// Patterns of channels that it is subscribed to.
    pub patterns: BTreeSet<Vec<u8>>,
    /// Bytes that its subscriptions take.
    pub subscribed_bytes: usize,
    /// Bytes that the keys that it watches take.
    pub watched_bytes: usize,
    /// Channels and texts of the messages of the `EXEC` under way.
    pub published: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    /// The last change that its replies tell of.
    pub written: Lsn,
    /// What must survive a crash, whatever the durability, before its replies go.
    pub saved: Lsn,
    /// Whether the connection is closed after its replies.
    pub closing: bool,
    /// Whether the reply to the command under way is dropped (`CLIENT REPLY`).
    pub silent: Silent,
    /// Whether the command under way told of subscriptions, which a client gets in any case.
    pub pushed: bool,
}

/// Which replies a client does not want.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Silent {
    /// It wants all.
    #[default]
    Never,
    /// Not the next one.
    Next,
    /// Not this one.
    Now,
    /// None until it says so.
    Always,
}

impl Session {
    /// Bytes of memory that it holds.
    pub fn held_bytes(&self) -> usize {
        let queued = self.queued.as_ref().map_or(0, |queued| queued.bytes);
        self.subscribed_bytes + self.watched_bytes + queued + self.name.len() * 2
    }

    /// Whether it subscribes to what a message was sent to.
    pub fn wants(&self, message: &Message) -> bool {
        match &message.pattern {
            Some(pattern) => self.patterns.contains(&**pattern),
            None => self.channels.contains(&*message.channel),
        }
    }

    /// Subscriptions of both kinds.
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }
}
