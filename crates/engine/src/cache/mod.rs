//! The frontside: the DRAM cache that all cores share, and the state of every page.
//!
//! A page is *absent*, *resident* in a frame, or *busy*: on its way into a frame, or being given
//! up. The hit path loads that state once. Every change of it happens under the lock of the page's
//! shard, so no fiber waits for a page that has just arrived.
//!
//! A page fetched ahead of demand is *coming*, then *ahead* in its frame. The hit path treats both
//! as misses. So the engine notices the first use at no cost to other accesses.

mod hit_path;
mod hit_table;
mod neighbours;
pub(crate) mod nodes;
mod page_state;
mod policies;
mod slot_table;
mod wait_lists;

use std::io;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use ebbtide_core::prefetch::Origin;
use ebbtide_core::replacement::{Admission, PolicyKind};
use ebbtide_core::{FrameId, PAGE_BYTES, PageId};
use parking_lot::{Mutex, MutexGuard};

use crate::device::FrameMemory;
use crate::host::mapping::Mapping;
use crate::host::prefetched::prefetch;
use crate::sync::mailbox::Waiter;
pub(crate) use hit_path::HitPath;
use hit_table::HitTable;
pub(crate) use page_state::{
    BLANK, CORES_MAX, FRAMES_MAX, PAGE_STATE_BYTES, POISONED, PageState, SLOTS_MAX,
};
pub(crate) use policies::Division;
use policies::{NOWHERE, Policies};
use wait_lists::LAST_BITS;
pub(crate) use wait_lists::{FIBERS_MAX, Last, WaitLists};

/// The word of a frame without a page. Otherwise the word names the page and its [`Origin`].
const HOLDS_NOTHING: u32 = u32::MAX;
const ORIGIN_SHIFT: u32 = 30;
const ORIGINS: [Origin; 3] = [Origin::Demand, Origin::Used, Origin::Unused];

/// The value of [`Contents::moving`] while `core` moves a page that `waiting` wait for.
fn moving(core: usize, waiting: Last) -> u32 {
    debug_assert!(core < CORES_MAX);
    (core as u32) << LAST_BITS | waiting.word()
}

fn holding(page: PageId, origin: Origin) -> u32 {
    page.0 as u32 | (origin as u32) << ORIGIN_SHIFT
}

/// Per-frame metadata of the miss path. Fits one cache line.
struct Contents {
    /// The page, and its origin. Set when the page starts on its way in.
    holds: AtomicU32,
    /// Where that page has its copy on flash, up to date or not, or [`BLANK`].
    slot: AtomicU32,
    /// While that page is on its way: the core that moves it in or out, and the fibers that wait
    /// for it.
    moving: AtomicU32,
    /// Where the replacement policy keeps the frame, or [`NOWHERE`]. Changed under the lock of that part of
    /// the policy.
    place: AtomicU32,
}

/// Bytes of DRAM that each frame costs, without the table of resident pages. They are the page, its
/// touches and dirty mark, and its metadata.
pub(crate) const FRAME_BYTES: usize =
    PAGE_BYTES + 2 * size_of::<AtomicU8>() + size_of::<Contents>();

/// How a page has come to be in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Installed {
    /// Where its copy on flash is.
    pub(crate) slot: Option<u32>,
    /// Whether that is older.
    pub(crate) dirty: bool,
    /// Whether it was fetched ahead of demand.
    pub(crate) ahead: bool,
}

/// The locked shard of a page. Other threads that change the states of its pages, or their lists of
/// waiters, wait for the lock.
pub(crate) type Shard<'a> = MutexGuard<'a, ()>;

const SHARDS: usize = 16;

/// The DRAM cache.
pub(crate) struct Cache {
    frames: Mapping,
    states: Mapping,
    hits: HitTable,
    touches: Box<[AtomicU8]>,
    dirty: Box<[AtomicU8]>,
    contents: Box<[Contents]>,
    pages: u64,
    shards: [Mutex<()>; SHARDS],
    waiting: WaitLists,
    policies: Policies,
}

impl Cache {
    /// A cache of `frames` frames over `pages` pages, all blank or absent and in their own slots, for
    /// `cores` cores of `threads` fibers.
    pub(crate) fn new(
        pages: u64,
        frames: usize,
        (division, admission, policy): (Division, Admission, PolicyKind),
        (cores, threads): (usize, usize),
        blank: bool,
    ) -> io::Result<Cache> {
        assert!(frames > 0 && frames < FRAMES_MAX, "{frames} frames cannot be numbered");
        let contents = || Contents {
            holds: AtomicU32::new(HOLDS_NOTHING),
            slot: AtomicU32::new(BLANK),
            moving: AtomicU32::new(0),
            place: AtomicU32::new(NOWHERE),
        };
        let marks = || (0..frames).map(|_| AtomicU8::new(0)).collect();
        assert!(pages <= SLOTS_MAX, "{pages} pages cannot be numbered");
        let cache = Cache {
            frames: Mapping::zeroed(frames * PAGE_BYTES)?,
            states: Mapping::zeroed(pages as usize * PAGE_STATE_BYTES)?,
            hits: HitTable::new(frames)?,
            touches: marks(),
            dirty: marks(),
            contents: (0..frames).map(|_| contents()).collect(),
            pages,
            shards: std::array::from_fn(|_| Mutex::new(())),
            waiting: WaitLists::new(cores, threads),
            policies: Policies::new(division, admission, policy),
        };
        for page in (0..pages).map(PageId) {
            let slot = if blank { BLANK } else { page.0 as u32 };
            cache.state_word(page).store(PageState::Absent(slot).word(), Ordering::Relaxed);
        }
        Ok(cache)
    }

    /// Sets where an absent page is: in `slot`, or one of the two marks. Only before the cache is
    /// used.
    pub(crate) fn place(&mut self, page: PageId, slot: u32) {
        self.state_word(page).store(PageState::Absent(slot).word(), Ordering::Relaxed);
    }

    /// Bytes that `frames` frames take.
    pub(crate) fn frames_bytes(frames: usize) -> usize {
        frames * FRAME_BYTES + HitTable::bytes(frames)
    }

    /// Bytes of the lists of waiters, for `fibers` fibers.
    pub(crate) fn wait_lists_bytes(fibers: usize) -> usize {
        WaitLists::bytes(fibers)
    }

    pub(crate) fn frame_count(&self) -> usize {
        self.touches.len()
    }

    /// The data of the hit path, as plain pointers.
    pub(crate) fn hit_path(&self) -> HitPath {
        HitPath {
            lookup: self.hits.lookup(),
            states: self.states.base().cast_const().cast(),
            pages: self.pages,
            frames: self.frames.base(),
            touches: self.touches.as_ptr(),
            dirty: self.dirty.as_ptr(),
        }
    }

    /// The memory of all frames.
    pub(crate) fn memory(&self) -> FrameMemory {
        FrameMemory { base: self.frames.base(), bytes: self.frame_count() * PAGE_BYTES }
    }

    /// The memory of a frame.
    pub(crate) fn frame_memory(&self, frame: FrameId) -> *mut u8 {
        assert!(frame.index() < self.frame_count(), "{frame:?} does not exist");
        // SAFETY: the frame lies within the mapping, as just checked.
        unsafe { self.frames.base().add(frame.index() * PAGE_BYTES) }
    }

    /// Runs `look` on the contents of a frame that no job uses now: its page is on its way in or
    /// out.
    pub(crate) fn with_contents<R>(
        &self,
        frame: FrameId,
        look: impl FnOnce(&[u8; PAGE_BYTES]) -> R,
    ) -> R {
        // SAFETY: within the mapping, and no other thread stores to a frame whose page is busy.
        look(unsafe { &*self.frame_memory(frame).cast::<[u8; PAGE_BYTES]>() })
    }

    /// Copies `bytes` into a frame that holds no page yet.
    pub(crate) fn fill(&self, frame: FrameId, bytes: &[u8; PAGE_BYTES]) {
        // SAFETY: a whole frame, and no other thread looks at one that holds no page.
        unsafe { self.frame_memory(frame).copy_from_nonoverlapping(bytes.as_ptr(), PAGE_BYTES) };
    }

    /// Fills a frame that holds no page yet with zeros from `first` on.
    pub(crate) fn clear_end(&self, frame: FrameId, first: usize) {
        assert!(first <= PAGE_BYTES, "a page has no byte {first}");
        // SAFETY: within the frame, and no other thread looks at one that holds no page.
        unsafe { self.frame_memory(frame).add(first).write_bytes(0, PAGE_BYTES - first) };
    }

    /// The page that `frame` holds or last held.
    pub(crate) fn page_in(&self, frame: FrameId) -> PageId {
        let word = self.contents[frame.index()].holds.load(Ordering::Relaxed);
        debug_assert_ne!(word, HOLDS_NOTHING, "{frame:?} was never used");
        PageId(u64::from(word & ((1 << ORIGIN_SHIFT) - 1)))
    }

    /// The page that `frame`, which is free, last held, and its origin.
    pub(crate) fn left_by(&self, frame: FrameId) -> Option<(PageId, Origin)> {
        let word = self.contents[frame.index()].holds.load(Ordering::Relaxed);
        (word != HOLDS_NOTHING)
            .then(|| (self.page_in(frame), ORIGINS[(word >> ORIGIN_SHIFT) as usize]))
    }

    /// Whether the page in `frame` was written since it was read or written back. Final once the
    /// page was unpublished and a grace period is over.
    pub(crate) fn is_dirty(&self, frame: FrameId) -> bool {
        self.dirty[frame.index()].load(Ordering::Relaxed) != 0
    }

    /// Locks the shard that `page` belongs to.
    pub(crate) fn shard(&self, page: PageId) -> Shard<'_> {
        // Neighbouring pages are often missed together: spread them.
        self.shards[page.index() % SHARDS].lock()
    }

    /// Pages on their way with the fibers that wait for them.
    pub(crate) fn waited_for(&self) -> Vec<(PageId, Vec<Waiter>)> {
        self.waiting.waited_for()
    }

    fn state_word(&self, page: PageId) -> &AtomicU32 {
        assert!(page.0 < self.pages, "{page:?} does not exist");
        // SAFETY: within the mapping, as just checked; states are only accessed as this type.
        unsafe { &*self.states.base().cast::<AtomicU32>().add(page.index()) }
    }

    /// Where `page` is; final while its shard is locked.
    pub(crate) fn state(&self, page: PageId) -> PageState {
        PageState::of_word(self.state_word(page).load(Ordering::Acquire))
    }

    /// Prefetches the data that changes when `page` comes or goes. It has left the core's caches
    /// since.
    pub(crate) fn prefetch(&self, page: PageId) {
        prefetch(self.state_word(page));
        self.hits.prefetch(page);
    }

    /// As [`prefetch`](Cache::prefetch), with the metadata of the frame that `page` comes into.
    pub(crate) fn prefetch_arrival(&self, page: PageId, frame: FrameId) {
        self.prefetch(page);
        prefetch(&raw const self.contents[frame.index()]);
    }

    fn set_state(&self, page: PageId, state: PageState) {
        self.state_word(page).store(state.word(), Ordering::Release);
    }

    /// Notes that `core` starts to move a page without a frame from `slot` into `frame`. The fibers
    /// that wait for it go on waiting.
    pub(crate) fn begin_fetch(
        &self,
        page: PageId,
        (slot, frame): (u32, FrameId),
        core: usize,
        _shard: &Shard<'_>,
    ) {
        let last = match self.state(page) {
            PageState::Starved(last) => last,
            _ => Last::NONE,
        };
        self.set_out(page, (slot, frame), (core, last), PageState::Busy(frame));
    }

    /// `core` starts to move an absent page in ahead of demand, from `slot` into `frame`.
    pub(crate) fn begin_ahead(
        &self,
        page: PageId,
        (slot, frame): (u32, FrameId),
        core: usize,
        _shard: &Shard<'_>,
    ) {
        self.set_out(page, (slot, frame), (core, Last::NONE), PageState::Coming(frame));
    }

    /// Begins to move a page without a frame into one. The page has this state until it arrives.
    fn set_out(
        &self,
        page: PageId,
        (slot, frame): (u32, FrameId),
        (core, last): (usize, Last),
        state: PageState,
    ) {
        debug_assert!(self.state(page).frame().is_none(), "{page:?} has a frame");
        let contents = &self.contents[frame.index()];
        contents.holds.store(holding(page, Origin::Demand), Ordering::Relaxed);
        contents.moving.store(moving(core, last), Ordering::Relaxed);
        // A thread that sees this slot with the previous page of the frame also sees that the page
        // has gone.
        contents.slot.store(slot, Ordering::Release);
        self.set_state(page, state);
    }

    /// `waiter` asks for an absent page in `slot`, and its core has no frame for it yet.
    pub(crate) fn begin_starved(
        &self,
        page: PageId,
        slot: u32,
        waiter: Waiter,
        _shard: &Shard<'_>,
    ) {
        debug_assert_eq!(self.state(page), PageState::Absent(slot));
        let last = self.waiting.append(Last::NONE, page, waiter);
        self.waiting.set_slot(last, slot);
        self.set_state(page, PageState::Starved(last));
    }

    /// Adds `waiter` to the list of a page that is busy or starved. Returns the core that moves the
    /// page and sends the outcome, and the frame if there is one.
    pub(crate) fn wait(
        &self,
        page: PageId,
        waiter: Waiter,
        _shard: &Shard<'_>,
    ) -> (usize, Option<FrameId>) {
        match self.state(page) {
            PageState::Starved(last) => {
                let seeker = self.waiting.first(last).expect("a page starves for somebody");
                let last = self.waiting.append(last, page, waiter);
                self.set_state(page, PageState::Starved(last));
                (seeker.core as usize, None)
            }
            PageState::Busy(frame) => {
                let (core, last) = self.moving(frame);
                let last = self.waiting.append(last, page, waiter);
                self.contents[frame.index()].moving.store(moving(core, last), Ordering::Relaxed);
                (core, Some(frame))
            }
            state => unreachable!("{page:?} is {state:?}: nobody waits for it"),
        }
    }

    /// True if a fiber waits for the busy page in `frame`. Final while its shard is locked.
    pub(crate) fn is_waited_for(&self, frame: FrameId, _shard: &Shard<'_>) -> bool {
        self.moving(frame).1 != Last::NONE
    }

    /// Calls `wake` for each fiber that waited for a page, in the order of arrival. Its shard need
    /// no longer be locked.
    pub(crate) fn wake(&self, waiting: Last, wake: impl FnMut(Waiter)) {
        self.waiting.wake(waiting, wake);
    }

    /// Returns the core that moves the page in `frame` in or out, and the fibers that wait for it.
    /// Final while the shard of that page is locked.
    fn moving(&self, frame: FrameId) -> (usize, Last) {
        let word = self.contents[frame.index()].moving.load(Ordering::Relaxed);
        ((word >> LAST_BITS) as usize, Last::of_word(word & !(u32::MAX << LAST_BITS)))
    }

    /// As [`moving`](Cache::moving), but returns only the waiting fibers. The caller must wake
    /// them.
    fn take_waiting(&self, frame: FrameId) -> Last {
        let (core, last) = self.moving(frame);
        if last != Last::NONE {
            self.contents[frame.index()].moving.store(moving(core, Last::NONE), Ordering::Relaxed);
        }
        last
    }

    /// A job asks for a page that is coming into `frame`, which becomes busy.
    pub(crate) fn await_coming(&self, page: PageId, frame: FrameId, _shard: &Shard<'_>) {
        debug_assert_eq!(self.state(page), PageState::Coming(frame));
        self.set_state(page, PageState::Busy(frame));
    }

    /// A job asks for a page that was fetched ahead, in `frame`. It becomes resident unless it is being
    /// evicted. Returns whether it is resident.
    pub(crate) fn use_ahead(&self, page: PageId, frame: FrameId, _shard: &Shard<'_>) -> bool {
        let (ahead, resident) = (PageState::Ahead(frame).word(), PageState::Resident(frame).word());
        let word = self.state_word(page);
        let used =
            word.compare_exchange(ahead, resident, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if used {
            self.contents[frame.index()]
                .holds
                .store(holding(page, Origin::Used), Ordering::Relaxed);
            // While a part of the policy that knows the frame is locked, no core gives the page up.
            if let Some(_locked) = self.policies.knowing(self, frame) {
                self.hits.add(page, frame);
            }
        }
        used
    }

    /// Adds a resident page in `frame` to the table of resident pages, if it found no place there
    /// when it arrived.
    pub(crate) fn remember(&self, page: PageId, frame: FrameId) {
        // While a part of the policy that knows the frame is locked, no core gives the page up.
        if let Some(_locked) = self.policies.knowing(self, frame)
            && self.state(page) == PageState::Resident(frame)
            && self.hits.lookup().find_in_line(page).is_err()
        {
            self.hits.add(page, frame);
        }
    }

    /// Makes a page that was on its way in or out absent: it is on flash only, in `slot`. Returns
    /// the fibers that wait for it and will not get it.
    #[must_use = "they wait"]
    pub(crate) fn set_absent(&self, page: PageId, slot: u32, _shard: &Shard<'_>) -> Last {
        let waiting = match self.state(page) {
            PageState::Starved(last) => last,
            state => state.frame().map_or(Last::NONE, |frame| self.take_waiting(frame)),
        };
        self.set_absent_alone(page, slot);
        waiting
    }

    /// As [`set_absent`](Cache::set_absent), for a page without waiters: it became
    /// busy a moment ago, and no other core exists that might have asked since.
    pub(crate) fn set_absent_alone(&self, page: PageId, slot: u32) {
        debug_assert!(!matches!(self.state(page), PageState::Resident(_) | PageState::Ahead(_)));
        self.set_state(page, PageState::Absent(slot));
    }

    /// Publishes a page that was on its way: it is in `frame` and may be used from now on. Returns
    /// the fibers that wait for it.
    #[must_use = "they wait"]
    pub(crate) fn publish(
        &self,
        page: PageId,
        frame: FrameId,
        installed: Installed,
        _shard: &Shard<'_>,
    ) -> Last {
        let Installed { slot, dirty, ahead } = installed;
        let state = self.state(page);
        debug_assert!([PageState::Busy(frame), PageState::Coming(frame)].contains(&state));
        let (origin, state) = match (state, ahead) {
            (PageState::Coming(_), _) => (Origin::Unused, PageState::Ahead(frame)),
            (_, true) => (Origin::Used, PageState::Resident(frame)),
            (_, false) => (Origin::Demand, PageState::Resident(frame)),
        };
        self.contents[frame.index()].holds.store(holding(page, origin), Ordering::Relaxed);
        self.contents[frame.index()].slot.store(slot.unwrap_or(BLANK), Ordering::Relaxed);
        self.touches[frame.index()].store(0, Ordering::Relaxed);
        self.dirty[frame.index()].store(u8::from(dirty), Ordering::Relaxed);
        let waiting = self.take_waiting(frame);
        self.set_state(page, state);
        if origin != Origin::Unused {
            // No core gives the page up before the policy knows its frame.
            self.hits.add(page, frame);
        }
        waiting
    }

    /// Where the page in `frame` has its copy on flash, up to date or not.
    pub(crate) fn slot_of(&self, frame: FrameId) -> Option<u32> {
        let slot = self.contents[frame.index()].slot.load(Ordering::Relaxed);
        (slot != BLANK).then_some(slot)
    }

    /// Puts published frames under the policy, which may then evict them.
    pub(crate) fn settle(&self, installed: &mut Vec<FrameId>) {
        self.policies.insert(self, installed);
    }

    /// Lets the policy choose at most `count` victims for `core` and unpublishes their pages, which stay
    /// busy. The frames may be looked at, written back or reused only after a grace period.
    pub(crate) fn give_up(&self, count: usize, core: usize) -> Vec<FrameId> {
        self.unpublish_all(self.policies.victims(self, count, false), core)
    }

    /// As above, but the policy chooses among unchanged pages only. The result may contain a page
    /// that a job writes to at the same time.
    pub(crate) fn give_up_unchanged(&self, count: usize, core: usize) -> Vec<FrameId> {
        self.unpublish_all(self.policies.victims(self, count, true), core)
    }

    fn unpublish_all(&self, victims: Vec<FrameId>, core: usize) -> Vec<FrameId> {
        victims.iter().for_each(|&frame| self.prefetch(self.page_in(frame)));
        victims.iter().for_each(|&frame| self.unpublish(frame, core));
        victims
    }

    /// Takes the resident `page` off the policy and unpublishes it, as [`give_up`](Cache::give_up) does.
    /// `None` if it is not resident, or not under the policy.
    pub(crate) fn give_up_page(&self, page: PageId, core: usize) -> Option<FrameId> {
        let (PageState::Resident(frame) | PageState::Ahead(frame)) = self.state(page) else {
            return None;
        };
        let mut locked = self.policies.knowing(self, frame)?;
        // Another page may have come to the frame before this part was locked.
        if self.page_in(frame) != page {
            return None;
        }
        locked.remove(frame);
        drop(locked);
        self.unpublish(frame, core);
        Some(frame)
    }

    /// Where the policy keeps `frame`, if it knows it.
    fn place_of(&self, frame: FrameId) -> Option<u32> {
        let place = self.contents[frame.index()].place.load(Ordering::Relaxed);
        (place != NOWHERE).then_some(place)
    }

    fn set_place(&self, frame: FrameId, place: u32) {
        self.contents[frame.index()].place.store(place, Ordering::Relaxed);
    }

    /// Makes the page in `frame`, which the policy no longer knows, busy on behalf of `core`.
    fn unpublish(&self, frame: FrameId, core: usize) {
        let page = self.page_in(frame);
        // No shard: no other thread changes a resident page's state. A fiber that finds it resident
        // under the shard's lock only goes back to the hit path to look again. The first use of a
        // page that was fetched ahead changes its state only while the page is still ahead.
        let busy = PageState::Busy(frame).word();
        self.contents[frame.index()].moving.store(moving(core, Last::NONE), Ordering::Relaxed);
        let state = PageState::of_word(self.state_word(page).swap(busy, Ordering::AcqRel));
        let here = [PageState::Resident(frame), PageState::Ahead(frame)];
        debug_assert!(here.contains(&state), "{page:?} is elsewhere");
        self.hits.remove(page);
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    const PAGE: PageId = PageId(70);
    const FRAME: FrameId = FrameId(3);
    const FIBER: Waiter = Waiter { core: 0, fiber: 1 };

    fn cache() -> Cache {
        let policy = (Division::new(None, 1, 4, 100), Admission::Always, PolicyKind::Fifo);
        Cache::new(100, 4, policy, (3, 4), false).unwrap()
    }

    fn publish(cache: &Cache, ahead: bool) {
        let shard = cache.shard(PAGE);
        if ahead {
            cache.begin_ahead(PAGE, (70, FRAME), 0, &shard);
        } else {
            cache.begin_fetch(PAGE, (70, FRAME), 0, &shard);
        }
        let installed = Installed { slot: Some(70), dirty: false, ahead };
        assert_eq!(cache.publish(PAGE, FRAME, installed, &shard), Last::NONE);
    }

    #[test]
    fn a_page_is_found_at_once_from_its_arrival_until_it_is_given_up() {
        let cache = cache();
        publish(&cache, false);
        assert_eq!(cache.hit_path().find_at_once(PAGE), Some(FRAME));
        cache.settle(&mut vec![FRAME]);
        assert_eq!(cache.give_up(1, 2), [FRAME]);
        assert_eq!(cache.hit_path().find(PAGE), None);
        assert_eq!(cache.state(PAGE), PageState::Busy(FRAME));
        let mover = cache.wait(PAGE, FIBER, &cache.shard(PAGE));
        assert_eq!(mover, (2, Some(FRAME)));
    }

    #[test]
    fn a_page_that_was_fetched_ahead_is_found_from_its_first_use_on() {
        for settled in [true, false] {
            let cache = cache();
            publish(&cache, true);
            if settled {
                cache.settle(&mut vec![FRAME]);
            }
            assert_eq!(cache.hit_path().find(PAGE), None, "the first use is to be noticed");
            assert!(cache.use_ahead(PAGE, FRAME, &cache.shard(PAGE)));
            assert_eq!(cache.hit_path().find(PAGE), Some(FRAME));
            assert_eq!(cache.hit_path().find_at_once(PAGE), settled.then_some(FRAME));
        }
    }

    /// A cache whose every page is in the frame of its number, known to the policy.
    fn full(pages: u32) -> Cache {
        full_in_parts(pages, 1)
    }

    fn full_in_parts(pages: u32, parts: usize) -> Cache {
        let division = Division::new(Some(parts), 1, pages as usize, pages.into());
        let policy = (division, Admission::Always, PolicyKind::Fifo);
        let cache =
            Cache::new(u64::from(pages), pages as usize, policy, (1, 1), false).expect("memory");
        for number in 0..pages {
            let (page, frame) = (PageId(u64::from(number)), FrameId(number));
            let shard = cache.shard(page);
            cache.begin_fetch(page, (number, frame), 0, &shard);
            let installed = Installed { slot: Some(number), dirty: false, ahead: false };
            let _nobody = cache.publish(page, frame, installed, &shard);
        }
        cache.settle(&mut (0..pages).map(FrameId).collect());
        cache
    }

    #[test]
    fn as_many_frames_are_given_up_as_asked_for_and_only_their_pages_become_busy() {
        for parts in [1, 4] {
            gives_up_as_many(&full_in_parts(8, parts));
        }
    }

    fn gives_up_as_many(cache: &Cache) {
        let victims = cache.give_up(3, 0);
        assert_eq!(victims.len(), 3);
        for frame in (0..8).map(FrameId) {
            let state = cache.state(PageId(u64::from(frame.0)));
            let given_up = victims.contains(&frame);
            assert_eq!(state == PageState::Busy(frame), given_up);
            assert_eq!(state == PageState::Resident(frame), !given_up);
        }
        assert_eq!(cache.give_up(9, 0).len(), 5, "there are no more");
    }

    #[test]
    fn a_page_that_found_its_line_full_is_found_all_the_same_and_gets_a_place_later() {
        /// Pages this far apart have the same own place in the table of twelve frames.
        const APART: u64 = 32;
        let policy = (Division::new(None, 1, 12, 400), Admission::Always, PolicyKind::Fifo);
        let cache = Cache::new(400, 12, policy, (1, 1), false).expect("memory");
        let pages = (0..9).map(|number| PageId(APART * number));
        for (page, frame) in pages.zip((0..).map(FrameId)) {
            let shard = cache.shard(page);
            cache.begin_fetch(page, (page.0 as u32, frame), 0, &shard);
            let installed = Installed { slot: Some(page.0 as u32), dirty: false, ahead: false };
            assert_eq!(cache.publish(page, frame, installed, &shard), Last::NONE);
        }
        cache.settle(&mut (0..9).map(FrameId).collect());
        let (last, hit_path) = (PageId(8 * APART), cache.hit_path());
        assert_eq!(hit_path.find_if_likely(last), Some(FrameId(8)));
        assert_eq!(cache.give_up_page(PageId(0), 0), Some(FrameId(0)));
        assert_eq!(hit_path.find_if_likely(last), None, "there is a free place");
        assert_eq!(hit_path.find(last), Some(FrameId(8)));
        cache.remember(last, FrameId(8));
        cache.remember(last, FrameId(8));
        assert_eq!(hit_path.find_if_likely(last), Some(FrameId(8)));
        assert_eq!(cache.give_up_page(last, 0), Some(FrameId(8)));
        assert_eq!(hit_path.find(last), None);
        cache.remember(last, FrameId(8));
        assert_eq!(hit_path.find(last), None, "it is on its way out");
    }

    #[test]
    fn a_page_is_given_up_once_and_keeps_its_slot() {
        for parts in [1, 2] {
            let cache = full_in_parts(4, parts);
            let frame = cache.give_up_page(PageId(2), 0).expect("it is there");
            assert_eq!((frame, cache.slot_of(frame)), (FrameId(2), Some(2)));
            assert_eq!(cache.give_up_page(PageId(2), 0), None);
            assert_eq!(cache.give_up(4, 0).len(), 3, "the policy knows it no longer");
        }
    }

    #[test]
    fn a_frame_knows_which_page_it_last_held_and_how_that_had_come() {
        let cache = cache();
        assert_eq!(cache.left_by(FRAME), None);
        publish(&cache, false);
        assert_eq!(cache.left_by(FRAME), Some((PAGE, Origin::Demand)));
        let cache = self::cache();
        publish(&cache, true);
        assert_eq!(cache.left_by(FRAME), Some((PAGE, Origin::Unused)));
        assert!(cache.use_ahead(PAGE, FRAME, &cache.shard(PAGE)));
        assert_eq!(cache.left_by(FRAME), Some((PAGE, Origin::Used)));
    }

    #[test]
    fn a_page_that_the_policy_does_not_know_yet_is_not_given_up() {
        let cache = cache();
        for _ in 0..2 {
            publish(&cache, false);
            assert_eq!(cache.give_up_page(PAGE, 0), None);
            assert_eq!(cache.state(PAGE), PageState::Resident(FRAME));
            // Next, of a frame that it knew before.
            cache.settle(&mut vec![FRAME]);
            assert_eq!(cache.give_up_page(PAGE, 0), Some(FRAME));
            cache.set_absent_alone(PAGE, 70);
        }
    }

    #[test]
    fn a_cache_says_what_it_takes() {
        let cache = full(640);
        assert_eq!(cache.memory().bytes, cache.frame_count() * PAGE_BYTES);
        let marks = size_of_val(&*cache.touches) + size_of_val(&*cache.dirty);
        let frames = cache.memory().bytes + marks + size_of_val(&*cache.contents);
        assert_eq!(cache.frame_count() * FRAME_BYTES, frames);
        assert_eq!(Cache::frames_bytes(8), 8 * FRAME_BYTES + HitTable::bytes(8));
    }
}
