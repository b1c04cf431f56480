//! A backside driven by hand, at times and over a device of the test's making.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use ebbtide_core::prefetch::{Metrics, Prefetcher};
use ebbtide_core::replacement::{Admission, PolicyKind};
use ebbtide_core::{PAGE_BYTES, Placement};
use parking_lot::Mutex;

use super::*;
use crate::cache::nodes::Nodes;
use crate::cache::{Cache, Division, PageState};
use crate::device::{Completion, Request, Sleeper, SocketQueue};
use crate::host::clock::Clock;
use crate::miss::core_shared::{PageWrites, WriteGate};
use crate::net::{NetEvent, NetRequest};
use crate::sync::counters::Counters;
use crate::sync::departures::Departures;
use crate::sync::epoch::Epochs;
use crate::sync::mailbox::{Mailboxes, Waiter};

const PAGES: u64 = 1024;
const FIBERS: usize = 512;

/// Requests that the device has not answered yet.
#[derive(Default)]
struct Asked {
    staged: Vec<Request>,
    submitted: Vec<Request>,
    answered: Vec<Completion>,
    submits: u32,
    /// True if the device takes no requests.
    full: bool,
    busy: bool,
    held_back: bool,
    network_events: bool,
}

impl Asked {
    fn take_staged(&mut self) {
        if !self.full {
            self.submitted.append(&mut self.staged);
        }
    }
}

/// A device that answers when the test lets it.
struct Answers(Arc<Mutex<Asked>>);

impl Queue for Answers {
    fn push(&mut self, request: Request) {
        self.0.lock().staged.push(request);
    }

    fn submit(&mut self) {
        let mut asked = self.0.lock();
        asked.submits += 1;
        asked.take_staged();
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.0.lock().answered);
    }

    fn set_busy(&mut self, busy: bool) {
        self.0.lock().busy = busy;
    }

    fn has_held_back(&mut self) -> bool {
        self.0.lock().held_back
    }

    fn sockets(&mut self) -> Option<&mut dyn SocketQueue> {
        Some(self)
    }

    fn unsubmitted(&self) -> usize {
        self.0.lock().staged.len()
    }

    fn in_flight(&self) -> usize {
        self.0.lock().submitted.len()
    }

    fn sleeper(&self) -> Arc<dyn Sleeper> {
        Arc::new(Wakes::default())
    }
}

impl SocketQueue for Answers {
    fn request(&mut self, requests: &mut Vec<NetRequest>) {
        requests.clear();
    }

    fn has_events(&self) -> bool {
        self.0.lock().network_events
    }

    fn take_events(&mut self, _into: &mut Vec<NetEvent>) {}
}

/// Counts how often a core was woken.
#[derive(Default)]
struct Wakes(AtomicU32);

impl Sleeper for Wakes {
    fn sleep(&self, _at_most: Duration) {}

    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The first core of an engine. Its time stands still unless the test moves it.
struct Core {
    pool: Arc<CoreShared>,
    backside: Backside,
    /// Fibers that wait for nothing.
    idle: Vec<u32>,
    asked: Arc<Mutex<Asked>>,
    wakes: Arc<Wakes>,
}

const LIMITS: Limits =
    Limits { depth: 256, batch_max: 32, hold: None, reserve: 16, prefetches_max: 4 };

fn us(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

/// The state of `cores` cores over `frames` frames, whose cores wake by `wakes`.
fn shared_by(cores: usize, frames: usize, wakes: &Arc<Wakes>) -> CoreShared {
    let policy = (Division::new(None, 1, frames, PAGES), Admission::Always, PolicyKind::Fifo);
    let cache = Cache::new(PAGES, frames, policy, (cores, FIBERS), false).expect("memory");
    let nodes = Nodes::one(cores);
    CoreShared {
        cache: Arc::new(cache),
        epochs: Epochs::with_barrier(cores, None),
        mailboxes: Mailboxes::new((0..cores).map(|_| wakes.clone() as Arc<dyn Sleeper>).collect()),
        counters: Counters::new(cores),
        driven: (0..cores).map(|_| CachePadded::default()).collect(),
        placement: Mutex::new(Placement::new(2 * PAGES, PAGES)),
        in_place: false,
        base_offset: 0,
        spare: CoreShared::all_spare(&nodes, frames),
        nodes,
        write_health: PageWrites::default(),
        departures: Departures::default(),
        write_gate: WriteGate::new(Box::new(|| Ok(()))),
        last_page: (PAGES as u32 - 1, PAGE_BYTES),
        extent: None,
        persist: None,
        clock: Clock::start(),
    }
}

impl Core {
    /// One of `cores` cores over `frames` frames.
    fn of(cores: usize, frames: usize) -> Core {
        Core::with(cores, frames, |_| {})
    }

    /// As above, after `change` has changed the shared state.
    fn with(cores: usize, frames: usize, change: impl FnOnce(&mut CoreShared)) -> Core {
        let wakes = Arc::new(Wakes::default());
        let mut shared = shared_by(cores, frames, &wakes);
        change(&mut shared);
        let pool = Arc::new(shared);
        let asked = Arc::new(Mutex::new(Asked::default()));
        let queue = Box::new(Answers(asked.clone()));
        let backside = Backside::new(0, LIMITS, queue, None, pool.clone());
        Core { pool, backside, idle: (0..FIBERS as u32).rev().collect(), asked, wakes }
    }

    /// A job misses on `page`.
    fn miss(&mut self, page: u64, now: Time) {
        let page = PageId(page);
        let fiber = self.idle.pop().expect("a fiber that does not wait");
        let found = self.backside.miss(page, Waiter { core: 0, fiber }, now);
        assert_eq!(found, Lookup::Absent);
    }

    fn advance(&mut self, now: Time, drive: Drive) {
        self.backside.advance(0, now, drive);
    }

    /// The device answers all requests: successfully, or with an error.
    fn answer(&mut self, well: bool) {
        let asked = &mut *self.asked.lock();
        for request in asked.submitted.drain(..) {
            let result = if well { Ok(request.bytes()) } else { Err(io::ErrorKind::Other.into()) };
            asked.answered.push(Completion { token: request.token(), result });
        }
    }

    /// Jobs use the pages that have arrived.
    fn use_arrived(&mut self) -> usize {
        let mut wakes = Vec::new();
        self.backside.take_own_wakes(&mut wakes);
        for (fiber, outcome) in &wakes {
            self.idle.push(*fiber);
            let Outcome::Installed(frame) = outcome else { panic!("{outcome:?}") };
            self.backside.settle(&mut vec![*frame]);
        }
        wakes.len()
    }

    /// Brings `pages` in, one by one, and gives the policy their frames.
    fn bring(&mut self, pages: std::ops::Range<u64>) {
        for page in pages {
            self.advance(us(0), Drive::Idle);
            self.miss(page, us(0));
            self.advance(us(0), Drive::Idle);
            self.answer(true);
            self.advance(us(0), Drive::Idle);
            assert_eq!(self.use_arrived(), 1);
        }
        self.advance(us(0), Drive::Idle);
        assert!(self.backside.is_idle());
    }

    fn mark_dirty(&self, page: u64) {
        let PageState::Resident(frame) = self.pool.cache.state(PageId(page)) else {
            panic!("page {page} is not there")
        };
        self.pool.cache.hit_path().mark_dirty(frame);
    }

    fn drop_page(&mut self, page: u64, now: Time) {
        self.backside.drop_page(PageId(page), 0, now);
    }

    fn submitted(&self) -> usize {
        self.asked.lock().submitted.len()
    }

    /// Pages in the writes that the device has and has not answered.
    fn being_written(&self) -> usize {
        let writes = |request: &&Request| request.direction() == Direction::Write;
        self.asked.lock().submitted.iter().filter(writes).map(|write| write.pages().len()).sum()
    }
}

fn busy(runnable: usize) -> Drive {
    Drive::Busy { runnable }
}

#[test]
fn a_backside_is_idle_when_nothing_waits_and_nothing_is_under_way() {
    let mut core = Core::of(1, 64);
    assert!(core.backside.is_idle() && !core.backside.waits_without_device());
    // It has no frame before it is driven.
    core.miss(0, us(0));
    assert!(core.backside.is_starved() && core.backside.waits_without_device());
    assert!(!core.backside.is_idle(), "a miss waits for a frame");
    core.advance(us(0), Drive::Idle);
    assert!(!core.backside.is_starved() && !core.backside.waits_without_device());
    assert!(!core.backside.is_idle(), "a read is under way");
    core.answer(true);
    core.advance(us(0), Drive::Idle);
    assert!(core.backside.is_idle());
    core.use_arrived();
    core.mark_dirty(0);
    core.drop_page(0, us(0));
    assert!(!core.backside.is_idle(), "a changed page waits to be written");
    assert!(!core.backside.waits_without_device(), "nothing goes on without a write");
}

#[test]
fn a_victim_that_another_core_may_use_is_neither_free_nor_forgotten() {
    let mut core = Core::of(2, 64);
    core.pool.epochs.core(1).awake();
    core.bring(0..1);
    core.pool.epochs.core(1).enter();
    core.drop_page(0, us(0));
    assert!(!core.backside.is_idle() && core.backside.waits_without_device());
    assert!(!core.backside.is_starved());
    let state = core.pool.cache.state(PageId(0));
    assert!(matches!(state, PageState::Leaving(_)), "{state:?}");
    core.pool.epochs.core(1).exit();
    core.advance(us(0), Drive::Idle);
    assert!(core.backside.is_idle() && !core.backside.waits_without_device());
    assert_eq!(core.pool.cache.state(PageId(0)), PageState::Absent(0));
}

#[test]
fn a_miss_waits_for_a_victim_in_its_grace_period_also_when_nothing_can_be_written() {
    let mut core = Core::of(2, 64);
    core.pool.epochs.core(1).awake();
    core.bring(0..1);
    core.pool.epochs.core(1).enter();
    core.drop_page(0, us(0));
    core.pool.spare[0].lock().clear();
    core.backside.free.clear();
    while !core.backside.write_back.fails() {
        core.backside.write_back.note_failure();
    }
    core.miss(7, us(0));
    core.advance(us(0), Drive::Idle);
    assert!(core.backside.is_starved(), "it has not failed");
    core.pool.epochs.core(1).exit();
    core.advance(us(0), Drive::Idle);
    core.advance(us(0), Drive::Idle);
    assert_eq!(core.submitted(), 1, "it has the victim's frame");
}

#[test]
fn a_core_fills_frames_of_its_own_node_and_gives_others_back() {
    let nodes = Nodes::of(2, &[0, 1], PAGES as usize, &[(0, vec![0]), (1, vec![1])]);
    let mut core = Core::with(2, PAGES as usize, |shared| {
        shared.spare = CoreShared::all_spare(&nodes, PAGES as usize);
        shared.nodes = nodes;
    });
    let node_of = |core: &Core, page| {
        let PageState::Resident(frame) = core.pool.cache.state(PageId(page)) else { panic!() };
        core.pool.nodes.of_frame(frame)
    };
    core.bring(0..1);
    assert_eq!(node_of(&core, 0), 0);
    // Where its own node has none, another one's are better than waiting.
    core.pool.spare[0].lock().clear();
    core.backside.free.clear();
    core.bring(1..2);
    assert_eq!(node_of(&core, 1), 1);
    let spare = |core: &Core| [0, 1].map(|node| core.pool.spare[node].lock().len());
    core.backside.free.clear();
    let [near, far] = spare(&core);
    core.drop_page(0, us(0));
    core.drop_page(1, us(0));
    core.backside.hand_over_far();
    assert_eq!((core.backside.free.len(), spare(&core)), (1, [near, far + 1]));
}

#[test]
fn every_frame_whose_grace_period_is_not_over_is_on_its_way_to_be_free() {
    let epochs = Epochs::new(2);
    let mut evictions = Evictions::default();
    for (frames, count) in [(vec![], 0), (vec![FrameId(4)], 1), (vec![FrameId(2), FrameId(9)], 3)] {
        evictions.begin(&epochs, frames, us(0));
        assert_eq!(evictions.frame_count(), count);
    }
}

#[test]
fn a_busy_core_drives_its_backside_before_its_misses_take_most_free_frames() {
    let mut core = Core::of(1, 256);
    core.backside.limits.hold = Some(Span::from_us(1_000));
    let busy = Drive::Busy { runnable: 1 };
    core.advance(us(0), busy);
    let half = core.backside.free.len() / 2;
    assert!(half > 0 && half < LIMITS.batch_max);
    assert!(core.backside.may_rest((half, Some(us(1))), busy, us(2)));
    assert!(!core.backside.may_rest((half + 1, Some(us(1))), busy, us(2)));
    assert!(!core.backside.may_rest((half, Some(us(1))), Drive::Idle, us(2)));
}

#[test]
fn a_page_that_needs_no_write_for_a_checkpoint_stays_where_it_is() {
    for cores in [1, 2] {
        let mut core = Core::of(cores, 64);
        core.bring(0..1);
        let frame = core.pool.cache.choose_page(PageId(0)).expect("it is there");
        core.backside.cleaning.insert(frame);
        core.backside.take_over(vec![frame], 0, us(0));
        assert_eq!(core.pool.cache.state(PageId(0)), PageState::Resident(frame));
        assert!(core.backside.is_idle() && core.backside.cleaning.is_empty());
    }
}

#[test]
fn a_busy_core_gives_the_policy_its_new_frames_many_at_once_and_an_idle_one_each() {
    let mut core = Core::of(1, 256);
    let known = |core: &Core, page| {
        let frame = core.pool.cache.choose_page(PageId(page));
        let over = Event::GivenUpAtOnce { changed: false, stays: false };
        frame
            .inspect(|_| assert!(core.pool.cache.apply(PageId(page), over).has(Effect::Free)))
            .is_some()
    };
    core.advance(us(0), Drive::Idle);
    for page in 0..SETTLE_AT as u64 {
        core.advance(us(0), busy(0));
        assert!(!known(&core, 0), "{page} frames are few");
        core.miss(page, us(0));
        core.advance(us(0), busy(0));
        core.answer(true);
        core.advance(us(0), busy(0));
        assert_eq!(core.use_arrived(), 1);
    }
    core.advance(us(0), busy(0));
    assert!(known(&core, 0) && known(&core, SETTLE_AT as u64 - 1));
    core.bring(100..101);
    assert!(known(&core, 100));
}

#[test]
fn what_the_device_holds_back_is_known() {
    let mut core = Core::of(1, 64);
    assert!(!core.backside.ring().has_held_back());
    core.asked.lock().held_back = true;
    assert!(core.backside.ring().has_held_back());
}

#[test]
fn the_device_is_told_whether_the_core_has_jobs_to_run() {
    let mut core = Core::of(1, 64);
    for (drive, is_busy) in [(busy(0), true), (Drive::Idle, false), (Drive::Help, false)] {
        core.advance(us(0), drive);
        assert_eq!(core.asked.lock().busy, is_busy, "{drive:?}");
    }
}

#[test]
fn a_core_that_sleeps_is_roused_for_what_another_took_from_its_sockets() {
    let mut core = Core::of(2, 64);
    let mut wakes_after = |by, events| {
        core.pool.mailboxes.set_running(0, false);
        core.asked.lock().network_events = events;
        let before = core.wakes.0.load(Ordering::Relaxed);
        core.backside.advance(by, us(0), Drive::Help);
        core.wakes.0.load(Ordering::Relaxed) - before
    };
    assert_eq!(wakes_after(1, true), 1);
    assert_eq!(wakes_after(1, false), 0, "there is nothing to tell");
    assert_eq!(wakes_after(0, true), 0, "it does so itself");
}

/// A core that misses every 10 us when it has work, and sometimes has none for long. Its device
/// takes 100 us. It last ran out of work at 100 ms.
fn paced() -> Core {
    let mut core = Core::of(1, 512);
    for round in 0..=100 {
        let at = 500 * round;
        core.advance(us(at), Drive::Idle);
        core.miss(round, us(at + 10));
        core.advance(us(at + 10), Drive::Idle);
        core.answer(true);
        core.advance(us(at + 110), Drive::Idle);
        core.use_arrived();
    }
    core.advance(us(101_000), Drive::Idle);
    core
}

#[test]
fn time_without_work_is_no_part_of_the_pace_by_which_requests_are_held() {
    for (runnable, held) in [(9, true), (8, false)] {
        let mut core = paced();
        core.miss(500, us(101_010));
        // The miss itself is not under way yet.
        core.advance(us(101_010), busy(runnable + 1));
        // At every pace, a busy core may keep it for 20 us.
        core.advance(us(101_030), busy(runnable + 1));
        assert_eq!(core.submitted() == 0, held, "{runnable} more jobs");
    }
}

#[test]
fn reads_that_a_busy_core_sees_late_do_not_make_its_requests_wait_less_or_more() {
    let mut core = paced();
    for round in 0..50 {
        let at = 102_000 + 1_000 * round;
        core.advance(us(at), Drive::Idle);
        core.miss(200 + round, us(at + 10));
        core.advance(us(at + 10), Drive::Idle);
        core.answer(true);
        core.advance(us(at + 910), busy(0));
        core.use_arrived();
    }
    core.advance(us(200_000), Drive::Idle);
    core.miss(500, us(200_010));
    core.advance(us(200_010), busy(10));
    // At every pace, a busy core may keep it for 20 us.
    core.advance(us(200_030), busy(10));
    assert_eq!(core.submitted(), 0, "ten jobs still hide a read");
}

/// A core with `free` free frames and no others left, and 100 changed pages that wait to be
/// written.
fn writes(free: usize) -> Core {
    let mut core = Core::of(1, 200);
    core.bring(0..180);
    (0..100).for_each(|page| core.mark_dirty(page));
    core.pool.spare[0].lock().clear();
    (0..100).for_each(|page| core.drop_page(page, us(0)));
    core.backside.free.truncate(free);
    core
}

#[test]
fn a_core_with_time_writes_few_pages_at_once_unless_it_lacks_frames() {
    for (free, drive, written) in
        [(4, Drive::Idle, 32), (3, Drive::Idle, 64), (4, busy(0), 64), (8, Drive::Idle, 32)]
    {
        let mut core = writes(free);
        core.advance(us(0), drive);
        assert_eq!(core.being_written(), written, "{free} free frames, {drive:?}");
        assert_eq!(core.submitted(), 1, "neighbours go together");
        for page in 100..180 {
            let state = core.pool.cache.state(PageId(page));
            assert!(matches!(state, PageState::Resident(_)), "frames enough are coming");
        }
    }
}

#[test]
fn pages_that_leave_together_are_side_by_side_on_flash_as_in_memory() {
    let mut core = Core::of(1, 64);
    core.bring(0..32);
    (0..32).for_each(|page| core.mark_dirty(page));
    // In an order without neighbours: no page follows the one before it.
    (0..32).for_each(|at| core.drop_page(at * 7 % 32, us(0)));
    core.advance(us(0), Drive::Idle);
    assert_eq!((core.submitted(), core.being_written()), (1, 32));
    core.answer(true);
    core.advance(us(0), Drive::Idle);
    let slots = (0..32).map(|page| match core.pool.cache.state(PageId(page)) {
        PageState::Absent(slot) => slot,
        state => panic!("page {page}: {state:?}"),
    });
    let slots: Vec<u32> = slots.collect();
    assert!(slots.windows(2).all(|pair| pair[1] == pair[0] + 1), "{slots:?}");
}

/// The slot of each of `pages`, which are on flash alone.
fn slots(core: &Core, pages: std::ops::Range<u64>) -> Vec<u32> {
    let slot = |page| match core.pool.cache.state(PageId(page)) {
        PageState::Absent(slot) => slot,
        state => panic!("page {page}: {state:?}"),
    };
    pages.map(slot).collect()
}

#[test]
fn neighbours_are_written_at_once_though_a_core_with_time_writes_few_pages() {
    for backwards in [false, true] {
        let mut core = Core::of(1, 200);
        core.bring(0..160);
        (0..160).for_each(|page| core.mark_dirty(page));
        // Of the 32 pages that are written at once the last two are the first of six neighbours.
        (0..30).for_each(|at| core.drop_page(2 * at, us(0)));
        let six = |at: u64| 100 + if backwards { 5 - at } else { at };
        (0..6).for_each(|at| core.drop_page(six(at), us(0)));
        core.drop_page(120, us(0));
        core.advance(us(0), Drive::Idle);
        assert_eq!(core.being_written(), 36);
        core.answer(true);
        core.advance(us(0), Drive::Idle);
        let slots = slots(&core, 100..106);
        assert!(slots.windows(2).all(|pair| pair[1] == pair[0] + 1), "{slots:?}");
    }
}

#[test]
fn neighbours_get_slots_side_by_side_though_smaller_holes_come_first() {
    let mut core = Core::of(1, 64);
    core.bring(0..32);
    (0..32).for_each(|page| core.mark_dirty(page));
    {
        let mut placement = core.pool.placement.lock();
        // Holes of three are filled before a segment that is empty.
        while placement.free_count() > 0 {
            placement.take(64);
        }
        for hole in 0..8 {
            (0..3).for_each(|slot| placement.release(1024 + 8 * hole + slot));
        }
        placement.take(3);
        (0..64).for_each(|slot| placement.release(1024 + 64 + slot));
    }
    [1, 3, 10, 11, 12, 13, 14, 20].iter().for_each(|page| core.drop_page(*page, us(0)));
    core.advance(us(0), Drive::Idle);
    core.answer(true);
    core.advance(us(0), Drive::Idle);
    let slots = slots(&core, 10..15);
    assert!(slots.windows(2).all(|pair| pair[1] == pair[0] + 1), "{slots:?}");
}

#[test]
fn frames_are_taken_many_at_a_time_once_those_left_after_all_misses_are_few() {
    for (free, left) in [(11, LIMITS.reserve), (12, 8)] {
        let mut core = Core::of(1, 200);
        (0..4).for_each(|page| core.miss(page, us(0)));
        core.pool.take_spare(0, free, &mut core.backside.free);
        core.advance(us(0), Drive::Idle);
        assert_eq!((core.submitted(), core.backside.free.len()), (4, left), "of {free} frames");
    }
}

#[test]
fn frames_beyond_twice_the_reserve_go_to_other_cores() {
    for (free, kept) in [(2 * LIMITS.reserve, 2 * LIMITS.reserve), (40, LIMITS.reserve)] {
        let mut core = Core::of(2, 100);
        core.pool.take_spare(0, free, &mut core.backside.free);
        core.advance(us(0), Drive::Idle);
        assert_eq!(core.backside.free.len(), kept);
        assert_eq!(core.pool.spare[0].lock().len(), 100 - kept);
    }
}

#[test]
fn few_pages_are_under_way_ahead_of_demand() {
    let mut core = Core::of(1, 200);
    core.advance(us(0), Drive::Idle);
    for round in 1..3 {
        (0..10).for_each(|page| {
            core.backside.fetch_ahead(PageId(100 * round + page), us(0));
        });
        core.advance(us(0), Drive::Idle);
        assert_eq!(core.submitted(), LIMITS.prefetches_max);
        core.answer(true);
        core.advance(us(0), Drive::Idle);
    }
}

/// Wants the two pages that follow a miss, and records the arrivals that are reported to it.
struct Notes(Arc<Mutex<Vec<(u64, bool)>>>);

impl Prefetcher for Notes {
    fn demand(&mut self, page: PageId, _: Demand, _: &Metrics, candidates: &mut Vec<PageId>) {
        candidates.extend([PageId(page.0 + 1), PageId(page.0 + 2)]);
    }

    fn arrived(&mut self, page: PageId, prefetched: bool) {
        self.0.lock().push((page.0, prefetched));
    }
}

#[test]
fn a_prefetcher_is_told_once_of_each_page_that_arrived_and_of_none_that_did_not() {
    let mut core = Core::of(1, 200);
    let told = Arc::new(Mutex::new(Vec::new()));
    let prefetcher = Prefetching::new(Box::new(Notes(told.clone())), PAGES);
    core.backside.prefetch = Prefetch::new(Some(prefetcher), LIMITS.prefetches_max);
    core.advance(us(0), Drive::Idle);
    core.miss(10, us(0));
    core.advance(us(0), Drive::Idle);
    assert_eq!((core.submitted(), told.lock().len()), (3, 0), "they are under way");
    core.answer(true);
    core.advance(us(0), Drive::Idle);
    told.lock().sort_unstable();
    assert_eq!(*told.lock(), [(10, false), (11, true), (12, true)]);
    core.advance(us(0), Drive::Idle);
    assert_eq!(told.lock().len(), 3, "once");

    core.backside.look_ahead(PageId(20), Demand::Miss, us(0));
    for _ in 0..requests::ATTEMPTS_MAX {
        core.advance(us(0), Drive::Idle);
        core.answer(false);
    }
    core.advance(us(0), Drive::Idle);
    assert_eq!(core.pool.counters.snapshot().read_errors, 2);
    assert_eq!(told.lock().len(), 3, "neither page could be read");
}

#[test]
fn a_core_may_have_more_requests_than_it_has_lists_for() {
    let mut core = Core::of(1, 64);
    core.backside.requests = Requests::new(2, core.pool.clone());
    core.advance(us(0), Drive::Idle);
    (0..5).for_each(|page| core.miss(page, us(0)));
    core.advance(us(0), Drive::Idle);
    core.answer(true);
    core.advance(us(0), Drive::Idle);
    assert_eq!(core.use_arrived(), 5);
    for page in (0..5).map(PageId) {
        assert!(matches!(core.pool.cache.state(page), PageState::Resident(_)), "{page:?}");
    }
}

#[test]
fn the_time_that_a_request_was_held_is_no_part_of_what_a_read_takes() {
    let mut core = paced();
    let held_ns = |core: &Core| core.pool.counters.snapshot().held_ns;
    let before_ns = held_ns(&core);
    for round in 0..50 {
        let at = 102_000 + 1_000 * round;
        core.advance(us(at), Drive::Idle);
        core.miss(200 + round, us(at + 10));
        core.advance(us(at + 10), busy(200));
        assert_eq!(core.submitted(), 0, "held");
        core.advance(us(at + 300), Drive::Idle);
        core.answer(true);
        core.advance(us(at + 400), Drive::Idle);
        core.use_arrived();
    }
    assert_eq!(held_ns(&core) - before_ns, 50 * 290_000, "it is counted by itself");
    core.advance(us(200_000), Drive::Idle);
    core.miss(500, us(200_010));
    core.advance(us(200_010), busy(10));
    // At every pace, a busy core may keep it for 20 us.
    core.advance(us(200_030), busy(10));
    assert_eq!(core.submitted(), 0, "ten jobs still hide a read");
}

#[test]
fn a_core_enters_the_kernel_for_what_it_holds_back_but_not_for_another_core() {
    let mut core = Core::of(2, 64);
    core.asked.lock().held_back = true;
    for (drive, entries) in [(Drive::Help, 0), (Drive::Idle, 1)] {
        core.asked.lock().submits = 0;
        core.advance(us(0), drive);
        assert_eq!(core.asked.lock().submits, entries, "{drive:?}");
    }
}

/// A core that holds requests for 50 us.
fn holding() -> Core {
    let mut core = Core::of(1, 64);
    core.backside.limits.hold = Some(Span::from_us(50));
    core.advance(us(0), Drive::Idle);
    core
}

#[test]
fn a_request_is_held_from_when_it_was_made() {
    let mut core = holding();
    for (page, made) in [(1, 100), (2, 1000)] {
        core.miss(page, us(made));
        core.advance(us(made + 49), busy(9));
        assert_eq!(core.submitted(), page as usize - 1, "page {page}");
        core.advance(us(made + 50), busy(9));
        assert_eq!(core.submitted(), page as usize, "page {page}");
    }
}

#[test]
fn what_a_full_device_left_behind_is_handed_over_after_as_long_again() {
    let mut core = holding();
    core.asked.lock().full = true;
    core.miss(1, us(100));
    core.advance(us(150), busy(9));
    assert_eq!((core.submitted(), core.asked.lock().submits), (0, 1));
    core.asked.lock().full = false;
    core.advance(us(199), busy(9));
    assert_eq!(core.submitted(), 0);
    core.advance(us(200), busy(9));
    assert_eq!(core.submitted(), 1);
}

#[test]
fn a_page_that_another_core_has_brought_wakes_its_waiter_by_mail() {
    let mut core = Core::of(2, 64);
    core.advance(us(0), Drive::Idle);
    core.miss(1, us(0));
    core.advance(us(0), Drive::Idle);
    core.answer(true);
    core.backside.advance(1, us(0), Drive::Help);
    assert_eq!(core.use_arrived(), 0, "its core may sleep");
    assert!(matches!(core.pool.mailboxes.next(0), Some((0, Outcome::Installed(_)))));
}

#[test]
fn a_run_that_fails_is_one_failure_and_each_of_its_pages_is_tried_alone_once() {
    let mut core = writes(8);
    core.advance(us(0), Drive::Idle);
    assert_eq!((core.submitted(), core.being_written()), (1, 32));
    let mut tries = 0;
    while core.submitted() == 1 {
        core.answer(false);
        core.backside.reap(us(0), true);
        core.asked.lock().take_staged();
        tries += 1;
    }
    assert_eq!((tries, core.submitted()), (requests::ATTEMPTS_MAX, 32), "each page alone");
    core.answer(false);
    core.backside.reap(us(0), true);
    assert_eq!(core.asked.lock().staged.len(), 0, "once");
    assert!(!core.backside.write_back.fails());
    assert_eq!(core.pool.counters.snapshot().write_errors, 32);
}

#[test]
fn a_backside_says_what_is_under_way() {
    let mut core = Core::of(1, 64);
    core.advance(us(0), Drive::Idle);
    core.miss(7, us(0));
    core.advance(us(0), Drive::Idle);
    core.miss(9, us(0));
    let said = format!("{:?}", core.backside);
    for part in ["submitted: 1", "not_submitted: 1", "slots: [(Read, 7), (Read, 9)]"] {
        assert!(said.contains(part), "{said}");
    }
}

/// Some file systems leave what follows the end of a file in the buffer as it was.
#[test]
fn what_follows_the_end_of_the_last_page_is_cleared_in_its_frame() {
    let mut core = Core::with(1, 64, |shared| shared.last_page.1 = 100);
    (0..64).for_each(|frame| core.pool.cache.fill(FrameId(frame), &[7; PAGE_BYTES]));
    core.advance(us(0), Drive::Idle);
    core.miss(PAGES - 1, us(0));
    core.advance(us(0), Drive::Idle);
    let mut asked = core.asked.lock();
    let token = asked.submitted.pop().expect("a read").token();
    asked.answered.push(Completion { token, result: Ok(100) });
    drop(asked);
    core.advance(us(0), Drive::Idle);
    assert_eq!(core.use_arrived(), 1);
    let PageState::Resident(frame) = core.pool.cache.state(PageId(PAGES - 1)) else {
        panic!("it is not there")
    };
    core.pool.cache.with_contents(frame, |bytes| {
        assert!(bytes[..100].iter().all(|&byte| byte == 7), "what was read");
        assert!(bytes[100..].iter().all(|&byte| byte == 0), "what another page has left");
    });
}
