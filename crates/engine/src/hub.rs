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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use parking_lot::{Condvar, Mutex};

    use super::*;

    const FIBER: Waiter = Waiter { core: 1, fiber: 7 };

    /// Sleeps until it is called, however long that takes, and counts the calls.
    #[derive(Default)]
    struct Deep {
        woken: Mutex<bool>,
        news: Condvar,
        slept: AtomicU32,
        calls: AtomicU32,
    }

    impl Sleeper for Deep {
        fn sleep(&self, _at_most: Duration) {
            self.slept.fetch_add(1, Ordering::Relaxed);
            let mut woken = self.woken.lock();
            self.news.wait_while(&mut woken, |woken| !*woken);
            *woken = false;
        }

        fn wake(&self) {
            self.calls.fetch_add(1, Ordering::Relaxed);
            *self.woken.lock() = true;
            self.news.notify_one();
        }
    }

    fn hub() -> (Hub, Arc<Deep>) {
        let sleeper = Arc::new(Deep::default());
        (Hub::new(vec![Arc::new(Deep::default()), sleeper.clone()]), sleeper)
    }

    #[test]
    fn a_core_that_is_awake_is_told_without_a_call() {
        let (hub, sleeper) = hub();
        hub.wake(FIBER, Outcome::Retry);
        hub.rouse(1);
        assert!(matches!(hub.next(1), Some((7, Outcome::Retry))));
        assert!(hub.next(1).is_none() && hub.next(0).is_none());
        assert_eq!(sleeper.calls.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_core_with_a_letter_or_something_else_to_do_does_not_go_to_sleep() {
        let (hub, sleeper) = hub();
        hub.sleep(1, Duration::MAX, || true);
        hub.wake(FIBER, Outcome::Retry);
        hub.sleep(1, Duration::MAX, || false);
        assert_eq!(sleeper.slept.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn letters_come_in_order() {
        let (hub, _) = hub();
        for frame in 0..100 {
            hub.wake(FIBER, Outcome::Installed(FrameId(frame)));
        }
        for frame in 0..100 {
            assert!(matches!(hub.next(1), Some((7, Outcome::Installed(f))) if f.0 == frame));
        }
    }

    /// The sleeper has no time limit: a letter that nobody calls for would hang this.
    #[test]
    fn no_letter_to_a_core_on_its_way_to_sleep_is_lost() {
        const LETTERS: u32 = if cfg!(miri) { 100 } else { 20_000 };
        let (hub, _) = hub();
        let read = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for letter in 0..LETTERS {
                    // One at a time, so that the reader is about to sleep before each.
                    while read.load(Ordering::Relaxed) < letter {
                        std::thread::yield_now();
                    }
                    hub.wake(FIBER, Outcome::Retry);
                }
            });
            while read.load(Ordering::Relaxed) < LETTERS {
                match hub.next(1) {
                    Some(_) => drop(read.fetch_add(1, Ordering::Relaxed)),
                    None => hub.sleep(1, Duration::MAX, || false),
                }
            }
        });
    }
}
