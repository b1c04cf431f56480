//! [`Following`]: the Redis that the server follows, and how far it has come.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock::now_ms;

/// The address of a Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Master {
    /// Its name or IP address.
    pub host: String,
    /// Its TCP port.
    pub port: u16,
}

/// State of the connection to the master.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// There is none. It is tried again.
    Down,
    /// The keys come as a file.
    Copying,
    /// Changes come as they happen.
    Up,
}

/// The master as it was set, and the number of this setting.
#[derive(Debug, Clone, Default)]
struct Wanted {
    number: u64,
    master: Option<Master>,
}

/// Which Redis the server follows, and how far it has come.
#[derive(Debug, Default)]
pub struct Following {
    wanted: Mutex<Wanted>,
    changed: Condvar,
    /// True while the keys belong to a master, so that clients may not change them.
    refuses: AtomicBool,
    copying: AtomicBool,
    up: AtomicBool,
    offset: AtomicU64,
    refused: AtomicU64,
    heard_ms: AtomicU64,
}

impl Following {
    /// Follows a master from now on, or none.
    pub fn follow(&self, master: Option<Master>) {
        let mut wanted = self.wanted.lock();
        if wanted.master == master {
            return;
        }
        if master.is_some() {
            self.refuses.store(true, Ordering::SeqCst);
            self.offset.store(0, Ordering::SeqCst);
            self.refused.store(0, Ordering::SeqCst);
        }
        *wanted = Wanted { number: wanted.number + 1, master };
        self.changed.notify_all();
    }

    /// Returns the master, and the number of this setting.
    pub fn wanted(&self) -> (u64, Option<Master>) {
        let wanted = self.wanted.lock();
        (wanted.number, wanted.master.clone())
    }

    /// True if the master was set anew since the setting of this number.
    pub fn has_changed(&self, number: u64) -> bool {
        self.wanted.lock().number != number
    }

    /// Waits until the master is set anew, or for this time.
    pub fn wait(&self, number: u64, most: Duration) {
        let mut wanted = self.wanted.lock();
        if wanted.number == number {
            self.changed.wait_for(&mut wanted, most);
        }
    }

    /// True if clients may not change keys.
    pub fn refuses_changes(&self) -> bool {
        self.refuses.load(Ordering::Relaxed)
    }

    /// True if no master is wanted, and the last changes of the old one are still being made.
    pub fn is_ending(&self) -> bool {
        self.refuses.load(Ordering::SeqCst) && self.wanted.lock().master.is_none()
    }

    /// Permits changes by clients, if no master is wanted.
    pub(crate) fn ended(&self) {
        let wanted = self.wanted.lock();
        if wanted.master.is_none() {
            self.refuses.store(false, Ordering::SeqCst);
        }
    }

    /// Sets the state of the connection.
    pub(crate) fn set_state(&self, state: LinkState) {
        self.copying.store(state == LinkState::Copying, Ordering::SeqCst);
        self.up.store(state == LinkState::Up, Ordering::SeqCst);
    }

    /// Returns the state of the connection.
    pub fn state(&self) -> LinkState {
        match (self.up.load(Ordering::SeqCst), self.copying.load(Ordering::SeqCst)) {
            (true, _) => LinkState::Up,
            (_, true) => LinkState::Copying,
            _ => LinkState::Down,
        }
    }

    /// Sets the place in the master's stream up to which changes are made.
    pub(crate) fn set_offset(&self, offset: u64) {
        self.offset.store(offset, Ordering::SeqCst);
    }

    /// Returns that place.
    pub fn offset(&self) -> u64 {
        self.offset.load(Ordering::SeqCst)
    }

    /// Counts a change that the server has refused.
    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the number of changes that the server has refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::SeqCst)
    }

    /// Records that the master has sent bytes.
    pub(crate) fn heard(&self) {
        self.heard_ms.store(now_ms(), Ordering::Relaxed);
    }

    /// Seconds since the master has sent bytes; `None` if it never has.
    pub fn silent_s(&self) -> Option<u64> {
        let heard_ms = self.heard_ms.load(Ordering::Relaxed);
        (heard_ms > 0).then(|| now_ms().saturating_sub(heard_ms) / 1000)
    }
}
