//! Wake-ups between cores: a mailbox for each core, and the protocol that wakes a sleeping core.

use std::fmt;
use std::sync::Arc;
#[cfg(not(all(test, shuttle)))]
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

#[cfg(all(test, shuttle))]
use shuttle::sync::atomic::{AtomicBool, Ordering, fence};

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use ebbtide_core::FrameId;

use crate::device::Sleeper;

/// A fiber that waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub(crate) core: u32,
    pub(crate) fiber: u32,
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fiber {} of core {}", self.fiber, self.core)
    }
}

/// The result that a waiting fiber gets when it is woken.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Look again.
    Retry,
    /// The page was in DRAM when the core looked. Or it was fetched ahead, and this is its first
    /// use.
    Here { first_use: bool },
    /// The page is in this frame, which stays until this fiber has used it and then settles it.
    Installed(FrameId),
    /// The device cannot read the page.
    Failed(Arc<str>),
    /// No frame can be freed for the page, because writes to the device fail.
    NoFrame,
    /// The word will never change: this many jobs wait on words, and no other runs or can start.
    Deadlocked(u32),
}

/// The wake-ups for one core's fibers.
struct Mailbox {
    wakes: SegQueue<(u32, Outcome)>,
    asleep: AtomicBool,
    sleeper: Arc<dyn Sleeper>,
}

/// The mailboxes of all cores.
pub(crate) struct Mailboxes {
    boxes: Box<[CachePadded<Mailbox>]>,
}

impl Mailboxes {
    pub(crate) fn new(sleepers: Vec<Arc<dyn Sleeper>>) -> Mailboxes {
        let mailbox = |sleeper| {
            CachePadded::new(Mailbox {
                wakes: SegQueue::new(),
                asleep: AtomicBool::new(false),
                sleeper,
            })
        };
        Mailboxes { boxes: sleepers.into_iter().map(mailbox).collect() }
    }

    /// Sends `waiter` its outcome, and wakes its core if that sleeps.
    pub(crate) fn wake(&self, waiter: Waiter, outcome: Outcome) {
        self.boxes[waiter.core as usize].wakes.push((waiter.fiber, outcome));
        self.rouse(waiter.core as usize);
    }

    /// Wakes `core` if it sleeps, to look for work.
    pub(crate) fn rouse(&self, core: usize) {
        let mailbox = &self.boxes[core];
        // Pairs with the fence in `sleep`: either we see it asleep or it sees our message.
        fence(Ordering::SeqCst);
        if mailbox.asleep.load(Ordering::Relaxed) && mailbox.asleep.swap(false, Ordering::Relaxed) {
            mailbox.sleeper.wake();
        }
    }

    /// The next message to `core`.
    #[inline]
    pub(crate) fn next(&self, core: usize) -> Option<(u32, Outcome)> {
        // Taking from a queue runs a fence even if there is nothing to take.
        let wakes = &self.boxes[core].wakes;
        if wakes.is_empty() { None } else { wakes.pop() }
    }

    /// Whether no message waits for `core`.
    pub(crate) fn is_empty(&self, core: usize) -> bool {
        self.boxes[core].wakes.is_empty()
    }

    /// Whether `core` sleeps and no message waits for it.
    pub(crate) fn is_quiet(&self, core: usize) -> bool {
        let mailbox = &self.boxes[core];
        mailbox.asleep.load(Ordering::Acquire) && mailbox.wakes.is_empty()
    }

    /// Notes whether `core` runs. A core that does not run counts as asleep.
    pub(crate) fn set_running(&self, core: usize, running: bool) {
        self.boxes[core].asleep.store(!running, Ordering::Release);
    }

    /// Lets `core` sleep until a message or a completion comes, or `at_most` is over. Returns at
    /// once when `anything_else` reports more work.
    pub(crate) fn sleep(&self, core: usize, at_most: Duration, anything_else: impl Fn() -> bool) {
        let mailbox = &self.boxes[core];
        mailbox.asleep.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if mailbox.wakes.is_empty() && !anything_else() {
            mailbox.sleeper.sleep(at_most);
        }
        mailbox.asleep.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(shuttle))]
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

    fn mailboxes() -> (Mailboxes, Arc<Deep>) {
        let sleeper = Arc::new(Deep::default());
        (Mailboxes::new(vec![Arc::new(Deep::default()), sleeper.clone()]), sleeper)
    }

    #[test]
    fn a_core_that_is_awake_is_told_without_a_call() {
        let (mailboxes, sleeper) = mailboxes();
        mailboxes.wake(FIBER, Outcome::Retry);
        mailboxes.rouse(1);
        assert!(matches!(mailboxes.next(1), Some((7, Outcome::Retry))));
        assert!(mailboxes.next(1).is_none() && mailboxes.next(0).is_none());
        assert_eq!(sleeper.calls.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_core_with_a_message_or_something_else_to_do_does_not_go_to_sleep() {
        let (mailboxes, sleeper) = mailboxes();
        mailboxes.sleep(1, Duration::MAX, || true);
        mailboxes.wake(FIBER, Outcome::Retry);
        mailboxes.sleep(1, Duration::MAX, || false);
        assert_eq!(sleeper.slept.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn messages_come_in_order() {
        let (mailboxes, _) = mailboxes();
        for frame in 0..100 {
            mailboxes.wake(FIBER, Outcome::Installed(FrameId(frame)));
        }
        for frame in 0..100 {
            assert!(matches!(mailboxes.next(1), Some((7, Outcome::Installed(f))) if f.0 == frame));
        }
    }

    /// The sleeper has no time limit: a message without a wake-up would hang this.
    #[test]
    fn no_message_to_a_core_on_its_way_to_sleep_is_lost() {
        const MESSAGES: u32 = if cfg!(miri) { 100 } else { 20_000 };
        let (mailboxes, _) = mailboxes();
        let read = AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for message in 0..MESSAGES {
                    // One at a time, so that the reader is about to sleep before each.
                    while read.load(Ordering::Relaxed) < message {
                        std::thread::yield_now();
                    }
                    mailboxes.wake(FIBER, Outcome::Retry);
                }
            });
            while read.load(Ordering::Relaxed) < MESSAGES {
                match mailboxes.next(1) {
                    Some(_) => drop(read.fetch_add(1, Ordering::Relaxed)),
                    None => mailboxes.sleep(1, Duration::MAX, || false),
                }
            }
        });
    }
}
