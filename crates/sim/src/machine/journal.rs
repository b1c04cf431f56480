//! [`Journal`]: how single misses fare on their cores, written while somebody wants to know.

use ebbtide_core::{PageId, Time};
use rustc_hash::FxHashMap;

use crate::memory_side::{Request, Waiter};

/// An access that found its page missing: when what happened to it.
#[derive(Debug, Clone)]
pub(crate) struct Missed {
    pub(crate) waiter: Waiter,
    pub(crate) page: PageId,
    pub(crate) write: bool,
    /// The core began with the access.
    pub(crate) issued: Time,
    /// It had the page's translation.
    pub(crate) translated: Time,
    /// No cache on the chip had the line.
    pub(crate) looked: Time,
    /// Memory replied that the page is not there.
    pub(crate) replied: Time,
    /// The pipeline was flushed.
    pub(crate) flushed: Time,
    /// The core had switched to another thread.
    pub(crate) left: Time,
    /// Memory told that the page is there.
    pub(crate) arrived: Time,
    /// The core chose the thread again.
    pub(crate) chosen: Time,
    /// It had switched back to it.
    pub(crate) resumed: Time,
    /// The line was there.
    pub(crate) done: Time,
    /// How often the page was gone again when the access was repeated.
    pub(crate) repeats: u32,
}

impl Missed {
    /// A miss that was issued, translated, looked for on the chip and replied to at `times`.
    pub(crate) fn new(request: Request, times: [Time; 4]) -> Missed {
        let Request { page, write, waiter, .. } = request;
        let [issued, translated, looked, replied] = times;
        Missed {
            waiter,
            page,
            write,
            issued,
            translated,
            looked,
            replied,
            flushed: replied,
            left: replied,
            arrived: replied,
            chosen: replied,
            resumed: replied,
            done: replied,
            repeats: 0,
        }
    }
}

/// Misses under way, and those that are over.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    open: FxHashMap<(u32, u32), Missed>,
    pub(crate) over: Vec<Missed>,
}

impl Journal {
    /// A miss begins, or its repeated access has missed again.
    pub(crate) fn begin(&mut self, missed: Missed) {
        let repeats = |open: &mut Missed| open.repeats += 1;
        self.open.entry(key(missed.waiter)).and_modify(repeats).or_insert(missed);
    }

    /// The miss that `waiter` has under way, if its beginning was seen.
    pub(crate) fn of(&mut self, waiter: Waiter) -> Option<&mut Missed> {
        self.open.get_mut(&key(waiter))
    }

    /// The access of `waiter` is done.
    pub(crate) fn end(&mut self, waiter: Waiter, at: Time) {
        if let Some(missed) = self.open.remove(&key(waiter)) {
            self.over.push(Missed { done: at, ..missed });
        }
    }
}

fn key(waiter: Waiter) -> (u32, u32) {
    (waiter.core, waiter.thread)
}
