//! [`Log`]: requests and logins that were refused.

use std::collections::VecDeque;

/// Default of [`Log::kept_max`], as in Redis.
const KEPT: usize = 128;

/// Maximum number of entries.
pub const KEPT_MAX: usize = 1024;

/// Bytes of an object or a name that are kept, and of the facts about a client.
const NAME_BYTES_KEPT: usize = 256;
const CLIENT_BYTES_KEPT: usize = 512;

/// Entries that are compared with a new one.
const COMPARED: usize = 10;

/// Milliseconds within which equal refusals make one entry.
const TOGETHER_MS: u64 = 60_000;

/// What was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// A command.
    Command,
    /// A key.
    Key,
    /// A channel.
    Channel,
    /// A login.
    Login,
}

impl Reason {
    /// Its name in `ACL LOG`.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Login => "auth",
        }
    }
}

/// Where a command was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    /// As a request.
    Top,
    /// Between `MULTI` and `EXEC`, or in `EXEC`.
    Transaction,
    /// In a script.
    Script,
}

impl Context {
    /// Its name in `ACL LOG`.
    pub fn name(self) -> &'static str {
        match self {
            Context::Top => "toplevel",
            Context::Transaction => "multi",
            Context::Script => "lua",
        }
    }
}

/// A refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// What was refused.
    pub reason: Reason,
    /// Where.
    pub context: Context,
    /// The command, key or channel.
    pub object: Vec<u8>,
    /// The user.
    pub user: Vec<u8>,
}

/// Equal refusals.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The refusal. Long names are cut.
    pub refusal: Refusal,
    /// How often it happened.
    pub count: u64,
    /// When it happened last, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Facts about the last client.
    pub client: Vec<u8>,
}

/// Refusals, latest first.
#[derive(Debug)]
pub struct Log {
    entries: VecDeque<Entry>,
    kept_max: usize,
}

impl Default for Log {
    fn default() -> Log {
        Log { entries: VecDeque::new(), kept_max: KEPT }
    }
}

impl Log {
    /// Adds a refusal, or counts it with an equal one of the last minute.
    pub fn add(&mut self, mut refusal: Refusal, at_ms: u64, client: &[u8]) {
        refusal.object.truncate(NAME_BYTES_KEPT);
        refusal.user.truncate(NAME_BYTES_KEPT);
        let client = client[..client.len().min(CLIENT_BYTES_KEPT)].to_vec();
        let mut compared = self.entries.iter().take(COMPARED);
        let place = compared.position(|entry| {
            entry.refusal == refusal && at_ms.abs_diff(entry.at_ms) <= TOGETHER_MS
        });
        let before = place.and_then(|place| self.entries.remove(place));
        let count = before.map_or(0, |entry| entry.count) + 1;
        self.entries.push_front(Entry { refusal, count, at_ms, client });
        self.entries.truncate(self.kept_max);
    }

    /// The entries, latest first.
    pub fn entries(&self) -> &VecDeque<Entry> {
        &self.entries
    }

    /// Discards all entries.
    pub fn reset(&mut self) {
        self.entries.clear();
    }

    /// Maximum number of entries that are kept.
    pub fn kept_max(&self) -> usize {
        self.kept_max
    }

    /// Keeps at most this many entries, and at most [`KEPT_MAX`].
    pub fn keep(&mut self, kept_max: usize) {
        self.kept_max = kept_max.min(KEPT_MAX);
        self.entries.truncate(self.kept_max);
    }
}
