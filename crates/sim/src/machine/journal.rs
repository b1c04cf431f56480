//! [`Journal`]: the steps of single misses on their cores.

use ebbtide_core::{PageId, Time};
use rustc_hash::FxHashMap;

use crate::memory_side::{Request, Waiter};

/// An access that missed, with the times of its steps.
#[derive(Debug, Clone)]
pub(crate) struct Missed {
    pub(crate) waiter: Waiter,
    pub(crate) page: PageId,
    pub(crate) write: bool,
    /// The core issued the access.
    pub(crate) issued: Time,
    /// The core had the page's translation.
    pub(crate) translated: Time,
    /// No cache on the chip had the line.
    pub(crate) looked: Time,
    /// Memory replied that the page is absent.
    pub(crate) replied: Time,
    /// The pipeline was flushed.
    pub(crate) flushed: Time,
    /// The core had switched to another thread.
    pub(crate) left: Time,
    /// Memory reported that the page arrived.
    pub(crate) arrived: Time,
    /// The core chose the thread again.
    pub(crate) chosen: Time,
    /// The core had switched back to the thread.
    pub(crate) resumed: Time,
    /// The line arrived.
    pub(crate) done: Time,
    /// How often the repeated access missed again.
    pub(crate) repeats: u32,
}

impl Missed {
    /// A miss with the `times` of its issue, its translation, its lookup on the chip and memory's
    /// reply.
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

/// Current misses, and those that are complete.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    open: FxHashMap<(u32, u32), Missed>,
    pub(crate) over: Vec<Missed>,
}

impl Journal {
    /// A miss begins, or its repeated access missed again.
    pub(crate) fn begin(&mut self, missed: Missed) {
        let repeats = |open: &mut Missed| open.repeats += 1;
        self.open.entry(key(missed.waiter)).and_modify(repeats).or_insert(missed);
    }

    /// The current miss of `waiter`, if the journal has its beginning.
    pub(crate) fn of(&mut self, waiter: Waiter) -> Option<&mut Missed> {
        self.open.get_mut(&key(waiter))
    }

    /// Ends the access of `waiter`, which is complete.
    pub(crate) fn end(&mut self, waiter: Waiter, at: Time) {
        if let Some(missed) = self.open.remove(&key(waiter)) {
            self.over.push(Missed { done: at, ..missed });
        }
    }
}

fn key(waiter: Waiter) -> (u32, u32) {
    (waiter.core, waiter.thread)
}
