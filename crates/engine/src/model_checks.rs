//! Model checks: what two or three threads may do, in every order or in many drawn ones.
//!
//! Built with `--cfg loom` (`.ci/run` has the command), they try every order that the memory model allows
//! for grace periods. A membarrier is modelled as sequentially consistent fences of all threads: a model
//! checker cannot interrupt a thread as the kernel does. The checks without a barrier have no such fences,
//! which would hide that others are missing.
//!
//! Built with `--cfg shuttle`, they try drawn orders of mailboxes and lists of waiters. Shuttle models
//! sequential consistency.

#[cfg(loom)]
mod grace_periods {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering, fence};
    use loom::thread;

    use crate::sync::epoch::Epochs;

    /// In the state of the page: it is not there.
    const GONE: u64 = 0;
    const RESIDENT: u64 = 1;
    /// In the frame: it was reused.
    const OTHERS: u64 = 99;
    const UNTOUCHED: u64 = 7;

    fn run_fence() -> bool {
        fence(Ordering::SeqCst);
        true
    }

    struct Page {
        state: AtomicU64,
        frame: AtomicU64,
        dirty: AtomicU64,
    }

    /// The order of the other core's calls and sleeps.
    #[derive(Clone, Copy)]
    struct Calls {
        count: u64,
        /// It begins asleep.
        wakes: bool,
        /// It ends asleep.
        sleeps: bool,
    }

    const AWAKE: Calls = Calls { count: 2, wakes: false, sleeps: false };

    /// One memory call. Returns the word in the frame if the page is there.
    fn load(epochs: &Epochs, page: &Page) -> Option<u64> {
        let presence = epochs.core(1);
        presence.enter();
        let resident = page.state.load(Ordering::Acquire) == RESIDENT;
        let found = resident.then(|| page.frame.load(Ordering::Relaxed));
        presence.exit();
        found
    }

    /// A store within a memory call. It writes the frame first, then the dirty mark if that
    /// changes. Returns true if the page was there.
    fn store(epochs: &Epochs, page: &Page, value: u64) -> bool {
        let presence = epochs.core(1);
        presence.enter();
        let resident = page.state.load(Ordering::Acquire) == RESIDENT;
        if resident {
            page.frame.store(value, Ordering::Relaxed);
            if page.dirty.load(Ordering::Relaxed) == 0 {
                page.dirty.store(1, Ordering::Relaxed);
            }
        }
        presence.exit();
        resident
    }

    /// Core 0 unpublishes the page while core 1 makes its calls. If the grace period is over, with
    /// a barrier or not, core 0 does `then`. Returns the results of both.
    fn evict_beside<R: 'static>(
        barrier: bool,
        calls: Calls,
        then: impl Fn(&Page) -> R,
        call: impl Fn(&Epochs, &Page, u64) -> bool + Copy + Send + 'static,
    ) -> (Option<R>, u64) {
        let page = Page {
            state: AtomicU64::new(RESIDENT),
            frame: AtomicU64::new(UNTOUCHED),
            dirty: AtomicU64::new(0),
        };
        let run_fence: fn() -> bool = run_fence;
        let epochs = Epochs::with_barrier(2, barrier.then_some(run_fence));
        if !calls.wakes {
            epochs.core(1).awake();
        }
        let shared = Arc::new((epochs, page));
        let others = shared.clone();
        let other = thread::spawn(move || {
            let (epochs, page) = &*others;
            if calls.wakes {
                epochs.core(1).awake();
            }
            let found = (1..=calls.count).filter(|number| call(epochs, page, *number)).count();
            if calls.sleeps {
                epochs.core(1).sleep();
            }
            found as u64
        });
        let (epochs, page) = &*shared;
        page.state.swap(GONE, Ordering::AcqRel);
        let mut moment = epochs.begin_grace();
        if barrier && !epochs.is_over(moment, 0) {
            epochs.run_barrier([&mut moment]);
        }
        let evicted = epochs.is_over(moment, 0).then(|| then(page));
        (evicted, other.join().unwrap())
    }

    /// No call finds the contents of another page in its frame.
    fn check_reuse(barrier: bool, calls: Calls) {
        loom::model(move || {
            let reuse = |page: &Page| page.frame.store(OTHERS, Ordering::Relaxed);
            evict_beside(barrier, calls, reuse, |epochs, page, _| {
                let found = load(epochs, page);
                assert_ne!(found, Some(OTHERS), "a frame was reused within a call");
                found.is_some()
            });
        });
    }

    /// A frozen frame has every earlier store, and a dirty mark that shows it. A page that counts
    /// as clean is not written, so a missing mark would lose its stores.
    fn check_freezing(barrier: bool, calls: Calls) {
        loom::model(move || {
            let look = |page: &Page| {
                (page.dirty.load(Ordering::Relaxed), page.frame.load(Ordering::Relaxed))
            };
            let (frozen, stored) = evict_beside(barrier, calls, look, |epochs, page, number| {
                store(epochs, page, UNTOUCHED + number)
            });
            if let Some(frozen) = frozen {
                assert_eq!(frozen, (u64::from(stored > 0), UNTOUCHED + stored));
            }
        });
    }

    #[test]
    fn a_frame_is_never_reused_within_a_call() {
        check_reuse(false, AWAKE);
    }

    #[test]
    fn a_frame_is_never_reused_within_a_call_after_a_barrier() {
        check_reuse(true, AWAKE);
    }

    #[test]
    fn a_frame_is_never_reused_within_a_call_of_a_core_that_wakes_up() {
        for barrier in [false, true] {
            check_reuse(barrier, Calls { count: 1, wakes: true, sleeps: true });
        }
    }

    #[test]
    fn a_frozen_page_has_every_store_and_the_mark_that_says_so() {
        check_freezing(false, AWAKE);
    }

    #[test]
    fn a_page_frozen_after_a_barrier_has_every_store_and_the_mark_that_says_so() {
        check_freezing(true, AWAKE);
    }

    #[test]
    fn a_page_frozen_beside_a_core_that_falls_asleep_has_every_store() {
        for barrier in [false, true] {
            check_freezing(barrier, Calls { count: 1, wakes: false, sleeps: true });
        }
    }
}

#[cfg(shuttle)]
mod wake_ups {
    use std::sync::Arc;
    use std::time::Duration;

    use ebbtide_core::PageId;
    use shuttle::sync::atomic::{AtomicU32, Ordering};
    use shuttle::sync::{Condvar, Mutex};
    use shuttle::thread;

    use crate::cache::{Last, WaitLists};
    use crate::device::Sleeper;
    use crate::sync::mailbox::{Mailboxes, Outcome, Waiter};

    const ORDERS: usize = 20_000;

    /// Sleeps until it is called, however long that takes: a lost call is a deadlock, which shuttle
    /// finds.
    #[derive(Default)]
    struct Deep {
        woken: Mutex<bool>,
        news: Condvar,
    }

    impl Sleeper for Deep {
        fn sleep(&self, _at_most: Duration) {
            let mut woken = self.woken.lock().unwrap();
            while !*woken {
                woken = self.news.wait(woken).unwrap();
            }
            *woken = false;
        }

        fn wake(&self) {
            *self.woken.lock().unwrap() = true;
            self.news.notify_one();
        }
    }

    fn mailboxes(cores: usize) -> Arc<Mailboxes> {
        let sleeper = || Arc::new(Deep::default()) as Arc<dyn Sleeper>;
        Arc::new(Mailboxes::new((0..cores).map(|_| sleeper()).collect()))
    }

    /// Receives one message, asleep until it comes.
    fn receive(mailboxes: &Mailboxes, core: usize) -> u32 {
        loop {
            match mailboxes.next(core) {
                Some((fiber, _)) => return fiber,
                None => mailboxes.sleep(core, Duration::MAX, || false),
            }
        }
    }

    #[test]
    fn no_message_to_a_core_on_its_way_to_sleep_is_lost() {
        shuttle::check_random(
            || {
                let mailboxes = mailboxes(3);
                let send = |from: u32| {
                    let mailboxes = mailboxes.clone();
                    thread::spawn(move || {
                        for message in 0..2 {
                            let waiter = Waiter { core: 0, fiber: 10 * from + message };
                            mailboxes.wake(waiter, Outcome::Retry);
                        }
                    })
                };
                let senders = [send(1), send(2)];
                let mut received: Vec<u32> = (0..4).map(|_| receive(&mailboxes, 0)).collect();
                received.sort_unstable();
                assert_eq!(received, [10, 11, 20, 21]);
                assert!(mailboxes.next(0).is_none());
                senders.into_iter().for_each(|sender| sender.join().unwrap());
            },
            ORDERS,
        );
    }

    /// Two cores miss on one page while a third brings it: it is read once, and both go on.
    #[test]
    fn every_core_that_misses_on_a_page_under_way_is_woken_once() {
        const ABSENT: u32 = 0;
        const BUSY: u32 = 1;
        const RESIDENT: u32 = 2;
        const PAGE: PageId = PageId(7);
        struct Shared {
            mailboxes: Arc<Mailboxes>,
            lists: WaitLists,
            /// The fibers that wait for the page, under the lock of its shard.
            waiting: Mutex<Last>,
            state: AtomicU32,
            reads: AtomicU32,
        }
        fn complete(shared: &Shared) {
            let mut locked = shared.waiting.lock().unwrap();
            shared.state.store(RESIDENT, Ordering::SeqCst);
            let waiting = std::mem::replace(&mut *locked, Last::NONE);
            drop(locked);
            shared.lists.wake(waiting, |waiter| shared.mailboxes.wake(waiter, Outcome::Retry));
        }
        fn miss(shared: &Arc<Shared>, core: u32) {
            let mut waiting = shared.waiting.lock().unwrap();
            if shared.state.load(Ordering::SeqCst) == RESIDENT {
                return;
            }
            let first = *waiting == Last::NONE;
            *waiting = shared.lists.append(*waiting, PAGE, Waiter { core, fiber: 0 });
            let started = shared.state.swap(BUSY, Ordering::SeqCst) == ABSENT;
            assert_eq!(started, first);
            drop(waiting);
            if started {
                shared.reads.fetch_add(1, Ordering::SeqCst);
                let device = shared.clone();
                thread::spawn(move || complete(&device));
            }
            assert_eq!(receive(&shared.mailboxes, core as usize), 0);
            assert_eq!(shared.state.load(Ordering::SeqCst), RESIDENT);
        }
        shuttle::check_random(
            || {
                let shared = Arc::new(Shared {
                    mailboxes: mailboxes(2),
                    lists: WaitLists::new(2, 1),
                    waiting: Mutex::new(Last::NONE),
                    state: AtomicU32::new(ABSENT),
                    reads: AtomicU32::new(0),
                });
                let other = shared.clone();
                let second = thread::spawn(move || miss(&other, 1));
                miss(&shared, 0);
                second.join().unwrap();
                assert_eq!(shared.reads.load(Ordering::SeqCst), 1);
                assert!((0..2).all(|core| shared.mailboxes.next(core).is_none()));
            },
            ORDERS,
        );
    }
}
