//! Wake-ups between cores: who is told that what a fiber waited for is there, and how a sleeping
//! core hears of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use ebbtide_core::FrameId;

use crate::device::Sleeper;

/// A fiber that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiter {
    pub(crate) core: u32,
    pub(crate) fiber: u32,
}

/// What a waiting fiber is told.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Look again.
    Retry,
    /// The page is in this frame, which stays until this fiber has used it and then settles it.
    Installed(FrameId),
    /// The device cannot read the page.
    Failed(Arc<str>),
}

/// A core's letter box.
struct Inbox {
    wakes: SegQueue<(u32, Outcome)>,
    asleep: AtomicBool,
    sleeper: Arc<dyn Sleeper>,
}

/// The letter boxes of all cores.
pub(crate) struct Hub {
    inboxes: Box<[CachePadded<Inbox>]>,
}

impl Hub {
    pub(crate) fn new(sleepers: Vec<Arc<dyn Sleeper>>) -> Hub {
        let inbox = |sleeper| {
            CachePadded::new(Inbox {
                wakes: SegQueue::new(),
                asleep: AtomicBool::new(false),
                sleeper,
            })
        };
        Hub { inboxes: sleepers.into_iter().map(inbox).collect() }
    }

    /// Tells `waiter` its outcome, waking its core if it sleeps.
    pub(crate) fn wake(&self, waiter: Waiter, outcome: Outcome) {
        self.inboxes[waiter.core as usize].wakes.push((waiter.fiber, outcome));
        self.rouse(waiter.core as usize);
    }

    /// Wakes `core` if it sleeps: there is something for it to look at.
    pub(crate) fn rouse(&self, core: usize) {
        let inbox = &self.inboxes[core];
        // Pairs with the fence in `sleep`: either we see it asleep or it sees our letter.
        fence(Ordering::SeqCst);
        if inbox.asleep.load(Ordering::Relaxed) && inbox.asleep.swap(false, Ordering::Relaxed) {
            inbox.sleeper.wake();
        }
    }

    /// The next letter to `core`.
    #[inline]
    pub(crate) fn next(&self, core: usize) -> Option<(u32, Outcome)> {
        self.inboxes[core].wakes.pop()
    }

    /// Lets `core` sleep until a letter or a completion comes, or `at_most` is over; returns at once
    /// when `anything_else` says that there is more to do.
    pub(crate) fn sleep(&self, core: usize, at_most: Duration, anything_else: impl Fn() -> bool) {
        let inbox = &self.inboxes[core];
        inbox.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if inbox.wakes.is_empty() && !anything_else() {
            inbox.sleeper.sleep(at_most);
        }
        inbox.asleep.store(false, Ordering::Relaxed);
    }
}
