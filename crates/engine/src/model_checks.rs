//! Model checks: what two or three threads may do, in every order or in many drawn ones.
//!
//! Built with `--cfg loom` (`.ci/run` has the command), they try every order that the memory model
//! allows for grace periods. A membarrier is modelled as sequentially consistent fences of all
//! threads: a model checker cannot interrupt a thread as the kernel does. The checks without a
//! barrier have no such fences, which would hide that others are missing.
//!
//! They also try every order of two cores that change one page by the table of transitions.
//!
//! Built with `--cfg shuttle`, they try drawn orders of mailboxes, lists of waiters and the page
//! table. Shuttle models sequential consistency.

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
        page.state.store(GONE, Ordering::Release);
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

#[cfg(loom)]
mod transitions {
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use crate::cache::{Cause, Effect, Effects, Stage, step};

    /// What a read brings into the frame.
    const CONTENTS: u64 = 7;

    /// A page, its lock and its frame, as the page table has them.
    struct Page {
        /// The stage, and whether a fiber waits.
        locked: Mutex<(Stage, bool)>,
        /// As the hit path sees the page: whether it is resident.
        word: AtomicU64,
        frame: AtomicU64,
    }

    impl Page {
        fn new(stage: Stage) -> Arc<Page> {
            Arc::new(Page {
                locked: Mutex::new((stage, false)),
                word: AtomicU64::new(u64::from(stage == Stage::Resident)),
                frame: AtomicU64::new(if stage == Stage::Resident { CONTENTS } else { 0 }),
            })
        }

        fn apply(&self, cause: Cause) -> Effects {
            let mut locked = self.locked.lock().unwrap();
            let (stage, waited_for) = *locked;
            let row = step(stage, cause, waited_for).expect("it can happen");
            let has = |effect| row.effects.has(effect);
            let waits = has(Effect::Join) || cause_waits(cause, row.effects);
            let woken = has(Effect::Install) || has(Effect::Fail);
            *locked = (row.to, (waited_for || waits) && !woken);
            self.word.store(u64::from(row.to == Stage::Resident), Ordering::Release);
            row.effects
        }

        /// Brings the page if it is this core's to bring. Returns true if it was.
        fn ask(&self) -> bool {
            let effects = self.apply(Cause::Asked { frame: true });
            let brings = effects.has(Effect::Fill);
            if brings {
                self.frame.store(CONTENTS, Ordering::Relaxed);
                assert!(self.apply(Cause::Arrived).has(Effect::Install));
            }
            brings
        }

        /// One hit or miss of the hit path.
        fn look(&self) {
            if self.word.load(Ordering::Acquire) == 1 {
                assert_eq!(self.frame.load(Ordering::Relaxed), CONTENTS, "a page without contents");
            }
        }
    }

    fn cause_waits(cause: Cause, effects: Effects) -> bool {
        matches!(cause, Cause::Asked { .. }) && effects.has(Effect::Fill)
    }

    #[test]
    fn a_page_that_two_cores_ask_for_is_read_once_and_seen_with_its_contents() {
        loom::model(|| {
            let page = Page::new(Stage::Absent);
            let [one, other] = [page.clone(), page.clone()];
            let asks = thread::spawn(move || one.ask());
            let looks = thread::spawn(move || other.look());
            let here = page.ask();
            page.look();
            let there = asks.join().unwrap();
            looks.join().unwrap();
            assert!(here ^ there, "one core brings the page");
            assert_eq!(*page.locked.lock().unwrap(), (Stage::Resident, false));
        });
    }

    /// A fiber that asks for a page on its way out gets it, or brings it again. It never stays in
    /// the list of a page that is gone.
    #[test]
    fn a_fiber_that_asks_for_a_page_on_its_way_out_is_not_forgotten() {
        for changed in [false, true] {
            loom::model(move || {
                let page = Page::new(Stage::Resident);
                let asker = page.clone();
                let asks = thread::spawn(move || asker.ask());
                page.apply(Cause::GivenUp);
                let mut effects = page.apply(Cause::GraceOver { changed, stays: false });
                if changed {
                    assert_eq!(effects, Effects::of(&[Effect::Write]));
                    page.apply(Cause::Sent);
                    effects = page.apply(Cause::Written { stays: false });
                }
                let stays = effects.has(Effect::Install);
                let brought = asks.join().unwrap();
                let (stage, waited_for) = *page.locked.lock().unwrap();
                assert!(!waited_for, "the fiber waits for ever");
                assert!(!(stays && brought), "a page that stays is not read");
                assert_eq!(stage == Stage::Resident, stays || brought);
            });
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

    pub(super) fn mailboxes(cores: usize) -> Arc<Mailboxes> {
        let sleeper = || Arc::new(Deep::default()) as Arc<dyn Sleeper>;
        Arc::new(Mailboxes::new((0..cores).map(|_| sleeper()).collect()))
    }

    /// Receives one message, asleep until it comes. Returns its fiber.
    fn receive_fiber(mailboxes: &Mailboxes, core: usize) -> u32 {
        receive_both(mailboxes, core).0
    }

    /// As above, with the outcome alone.
    pub(super) fn receive(mailboxes: &Mailboxes, core: usize) -> Outcome {
        receive_both(mailboxes, core).1
    }

    fn receive_both(mailboxes: &Mailboxes, core: usize) -> (u32, Outcome) {
        loop {
            match mailboxes.next(core) {
                Some(message) => return message,
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
                let mut received: Vec<u32> = (0..4).map(|_| receive_fiber(&mailboxes, 0)).collect();
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
            assert_eq!(receive_fiber(&shared.mailboxes, core as usize), 0);
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

#[cfg(shuttle)]
mod page_table {
    use std::sync::Arc;
    use std::time::Duration;

    use ebbtide_core::replacement::{Admission, PolicyKind};
    use ebbtide_core::{FrameId, PageId};
    use shuttle::rand::{Rng, thread_rng};
    use shuttle::sync::Mutex;
    use shuttle::sync::atomic::{AtomicU32, Ordering};
    use shuttle::thread;

    use super::wake_ups::{mailboxes, receive};
    use crate::cache::{Cache, Change, Division, Effect, Event, PageState};
    use crate::sync::mailbox::{Mailboxes, Outcome, Waiter};

    const ORDERS: usize = 5_000;
    const PAGES: u64 = 2;
    const ASKERS: u32 = 2;
    const ASKS: u32 = 2;

    /// Cores that ask for two pages, one that evicts, and a single frame.
    struct Shared {
        cache: Cache,
        mailboxes: Arc<Mailboxes>,
        /// The frame, while no page has it.
        spare: Mutex<Vec<FrameId>>,
        /// The frame, while its page may be given up.
        settled: Mutex<Vec<FrameId>>,
        asks_left: AtomicU32,
    }

    impl Shared {
        fn install(&self, change: &Change) {
            let mut outcome = Some(Outcome::Installed(change.frame));
            self.cache.wake(change.waiting, |waiter| {
                self.mailboxes.wake(waiter, outcome.take().unwrap_or(Outcome::Retry));
            });
            if outcome.is_some() {
                self.settled.lock().unwrap().push(change.frame);
            }
        }

        /// Reads the page.
        fn fill(&self, page: PageId) {
            thread::yield_now();
            let arrived = self.cache.apply(page, Event::Arrived);
            self.install(&arrived);
        }

        /// Core `core` asks for `page` until it has used it.
        fn ask(&self, core: u32, page: PageId) {
            loop {
                let waiter = Waiter { core, fiber: 0 };
                let frame = self.spare.lock().unwrap().pop();
                let change = self.cache.apply(page, Event::Asked { waiter, frame });
                if let Some(frame) = frame.filter(|_| !change.has(Effect::Fill)) {
                    self.spare.lock().unwrap().push(frame);
                }
                if change.has(Effect::Use) {
                    return;
                } else if change.has(Effect::Fill) {
                    self.fill(page);
                } else if change.has(Effect::FindFrame) {
                    self.find_frame(core, page);
                }
                if let Outcome::Installed(frame) = receive(&self.mailboxes, core as usize) {
                    assert_eq!(self.cache.state(page), PageState::Resident(frame));
                    self.settled.lock().unwrap().push(frame);
                    return;
                }
            }
        }

        fn find_frame(&self, core: u32, page: PageId) {
            loop {
                let spare = self.spare.lock().unwrap().pop();
                if let Some(frame) = spare {
                    let found = Event::FrameFound { core: core as usize, frame };
                    assert!(self.cache.apply(page, found).has(Effect::Fill));
                    return self.fill(page);
                }
                thread::yield_now();
            }
        }

        /// Evicts the page in the frame, if there is one. The page is changed or not, and its
        /// write fails or not.
        fn evict(&self, core: usize) {
            let settled = self.settled.lock().unwrap().pop();
            let Some(frame) = settled else { return thread::yield_now() };
            let page = self.cache.page_in(frame);
            assert!(self.cache.apply(page, Event::GivenUp { core }).has(Effect::AwaitGrace));
            thread::yield_now();
            let changed = thread_rng().gen_bool(0.5);
            let over = Event::GraceOver { changed, stays: false };
            let mut change = self.cache.apply(page, over);
            if change.has(Effect::Write) {
                assert!(self.cache.apply(page, Event::Sent).is_nothing());
                thread::yield_now();
                change = match thread_rng().gen_bool(0.5) {
                    true => self.cache.apply(page, Event::Written { slot: 5, stays: false }),
                    false => self.cache.apply(page, Event::Kept { slot: None }),
                };
            }
            match change.has(Effect::Free) {
                true => self.spare.lock().unwrap().push(frame),
                false => self.install(&change),
            }
        }
    }

    /// No fiber waits for ever, and the frame is never lost or given twice.
    #[test]
    fn cores_that_share_a_frame_all_use_their_pages_in_every_order() {
        shuttle::check_random(
            || {
                let division = Division::new(None, 1, 1, PAGES);
                let policy = (division, Admission::Always, PolicyKind::Fifo);
                let fibers = (ASKERS as usize, 1);
                let shared = Arc::new(Shared {
                    cache: Cache::new(PAGES, 1, policy, fibers, false).expect("memory"),
                    mailboxes: mailboxes(ASKERS as usize),
                    spare: Mutex::new(vec![FrameId(0)]),
                    settled: Mutex::new(Vec::new()),
                    asks_left: AtomicU32::new(ASKERS * ASKS),
                });
                let asker = |core: u32| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        for number in 0..ASKS {
                            shared.ask(core, PageId(u64::from(core + number) % PAGES));
                            shared.asks_left.fetch_sub(1, Ordering::SeqCst);
                        }
                    })
                };
                let askers: Vec<_> = (0..ASKERS).map(asker).collect();
                while shared.asks_left.load(Ordering::SeqCst) > 0 {
                    shared.evict(ASKERS as usize);
                }
                askers.into_iter().for_each(|asker| asker.join().unwrap());
                let held =
                    shared.spare.lock().unwrap().len() + shared.settled.lock().unwrap().len();
                assert_eq!(held, 1, "there is one frame");
                assert_eq!(shared.cache.waited_for(), []);
                assert!((0..ASKERS as usize).all(|core| shared.mailboxes.next(core).is_none()));
            },
            ORDERS,
        );
    }
}
