//! [`Pause`]: a time in which commands of clients wait (`CLIENT PAUSE`).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::waiting::Waiter;

/// The commands that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paused {
    /// All commands.
    All,
    /// Commands that may change keys or publish messages.
    Writes,
}

#[derive(Debug)]
struct Current {
    /// When it ends, in milliseconds since the Unix epoch.
    until_ms: u64,
    paused: Paused,
    /// Clients with a command that waits.
    waiters: BTreeSet<Waiter>,
}

/// The current pause, if there is one.
#[derive(Debug, Default)]
pub struct Pause {
    /// False if there is none, so that a check costs one load.
    is_set: AtomicBool,
    current: Mutex<Option<Current>>,
}

impl Pause {
    /// Begins a pause instead of the current one. Returns the clients whose commands have waited
    /// for that one.
    pub fn begin(&self, until_ms: u64, paused: Paused) -> BTreeSet<Waiter> {
        self.replace(Some(Current { until_ms, paused, waiters: BTreeSet::new() }))
    }

    /// Ends the pause. Returns the clients whose commands have waited for it.
    pub fn end(&self) -> BTreeSet<Waiter> {
        self.replace(None)
    }

    fn replace(&self, with: Option<Current>) -> BTreeSet<Waiter> {
        let mut current = self.current.lock();
        self.is_set.store(with.is_some(), Ordering::SeqCst);
        std::mem::replace(&mut *current, with).map(|before| before.waiters).unwrap_or_default()
    }

    /// True if there is a pause. Then no key expires and none is evicted.
    pub fn is_on(&self, now_ms: u64) -> bool {
        self.is_set.load(Ordering::Relaxed)
            && self.current.lock().as_ref().is_some_and(|pause| pause.until_ms > now_ms)
    }

    /// Number of clients whose commands wait for the end of the pause.
    pub fn clients(&self, now_ms: u64) -> usize {
        let current = self.current.lock();
        current.as_ref().filter(|pause| pause.until_ms > now_ms).map_or(0, |p| p.waiters.len())
    }

    /// Forgets a client that waits no more.
    pub fn leave(&self, waiter: Waiter) {
        if let Some(pause) = &mut *self.current.lock() {
            pause.waiters.remove(&waiter);
        }
    }

    /// Returns when the pause ends, in milliseconds since the Unix epoch, if a command of `waiter`
    /// has to wait for that. `writes` returns true if the command may change keys.
    pub fn until_ms(
        &self,
        waiter: Waiter,
        now_ms: u64,
        writes: impl FnOnce() -> bool,
    ) -> Option<u64> {
        if !self.is_set.load(Ordering::SeqCst) {
            return None;
        }
        let mut current = self.current.lock();
        if current.as_ref().is_some_and(|pause| pause.until_ms <= now_ms) {
            // The time has woken its waiters.
            *current = None;
            self.is_set.store(false, Ordering::SeqCst);
        }
        let pause = current.as_mut()?;
        let waits = pause.paused == Paused::All || writes();
        waits.then(|| {
            pause.waiters.insert(waiter);
            pause.until_ms
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_at_its_time_or_when_it_is_told() {
        let pause = Pause::default();
        let (one, other) = ((1, 0), (2, 0));
        assert_eq!(pause.until_ms(one, 0, || true), None);
        assert!(pause.begin(10, Paused::Writes).is_empty());
        assert_eq!(pause.until_ms(one, 9, || false), None);
        assert_eq!(pause.until_ms(one, 9, || true), Some(10));
        assert_eq!(pause.begin(20, Paused::All), BTreeSet::from([one]));
        assert_eq!(pause.until_ms(other, 10, || false), Some(20));
        assert_eq!(pause.end(), BTreeSet::from([other]));
        assert_eq!(pause.until_ms(one, 10, || true), None);
        pause.begin(20, Paused::All);
        assert_eq!(pause.until_ms(one, 20, || true), None);
        assert!(pause.end().is_empty());
        pause.begin(30, Paused::All);
        [one, other].into_iter().for_each(|waiter| _ = pause.until_ms(waiter, 20, || true));
        assert_eq!((pause.clients(29), pause.clients(30)), (2, 0));
        pause.leave(one);
        assert_eq!(pause.end(), BTreeSet::from([other]));
    }
}
