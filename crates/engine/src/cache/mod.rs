//! The frontside: the DRAM cache that all cores share.
//!
//! [`Cache`] has the frames and the replacement policy. Its [`PageTable`](page_table) has the state
//! of every page: *absent*, *resident* in a frame, or on the way between. The hit path loads that
//! state once. Every change of it is an event that is applied to a locked page, so no fiber waits
//! for a page that has just arrived.
//!
//! A page that was fetched ahead of demand is *ahead* in its frame. The hit path treats it as a
//! miss. So the engine notices the first use at no cost to other accesses.

mod changed;
mod hit_path;
mod hit_table;
mod neighbours;
pub(crate) mod nodes;
mod page_table;
mod policies;
mod slot_table;

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use ebbtide_core::replacement::{Admission, PolicyKind};
use ebbtide_core::{FrameId, PAGE_BYTES, PageId};

use crate::device::FrameMemory;
use crate::host::mapping::Mapping;
use crate::host::prefetched::prefetch;
use crate::sync::mailbox::Waiter;
pub(crate) use hit_path::HitPath;
use hit_table::HitTable;
pub(crate) use page_table::{
    BLANK, CORES_MAX, Change, Effect, Effects, Event, FIBERS_MAX, FRAMES_MAX, Held, Last,
    LockedPage, PAGE_STATE_BYTES, POISONED, PageState, SLOTS_MAX, WaitLists,
};
#[cfg(all(test, loom))]
pub(crate) use page_table::{Cause, Stage, step};
use page_table::{FrameRecord, MISSING, NOWHERE, PageTable};
pub(crate) use policies::Division;
use policies::Policies;

/// Bytes of DRAM that each frame costs, without the table of resident pages. They are the page, its
/// touches and dirty mark, and its metadata.
pub(crate) const FRAME_BYTES: usize =
    PAGE_BYTES + 2 * size_of::<AtomicU8>() + size_of::<FrameRecord>();

/// The DRAM cache.
pub(crate) struct Cache {
    frames: Mapping,
    table: PageTable,
    policies: Policies,
}

impl Cache {
    /// A cache of `frames` frames over `pages` pages, all blank or absent and in their own slots,
    /// for `cores` cores of `threads` fibers.
    pub(crate) fn new(
        pages: u64,
        frames: usize,
        (division, admission, policy): (Division, Admission, PolicyKind),
        fibers: (usize, usize),
        blank: bool,
    ) -> io::Result<Cache> {
        Ok(Cache {
            frames: Mapping::zeroed(frames * PAGE_BYTES)?,
            table: PageTable::new(pages, frames, fibers, blank)?,
            policies: Policies::new(division, admission, policy),
        })
    }

    /// Sets where an absent page is: in `slot`, or one of the two marks. Only before the cache is
    /// used.
    pub(crate) fn place(&mut self, page: PageId, slot: u32) {
        self.table.place(page, slot);
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
        self.table.touches().len()
    }

    /// The data of the hit path, as plain pointers.
    pub(crate) fn hit_path(&self) -> HitPath {
        HitPath {
            lookup: self.table.hits().lookup(),
            states: self.table.words(),
            pages: self.table.pages(),
            frames: self.frames.base(),
            touches: self.table.touches().as_ptr(),
            dirty: self.table.dirty().as_ptr(),
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
        // SAFETY: within the mapping, and no other thread stores to a frame whose page moves.
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
        self.table.record(frame).page()
    }

    /// Whether the page in `frame` was written since it was read or written back. Final once the
    /// page was given up and a grace period is over.
    pub(crate) fn is_dirty(&self, frame: FrameId) -> bool {
        self.table.dirty()[frame.index()].load(Ordering::Relaxed) != 0
    }

    /// Where the page in `frame` has its copy on flash, up to date or not.
    pub(crate) fn slot_of(&self, frame: FrameId) -> Option<u32> {
        let slot = self.table.record(frame).slot();
        (slot != BLANK).then_some(slot)
    }

    /// Locks `page`. Its state changes by events that are applied to the result.
    #[inline]
    pub(crate) fn lock(&self, page: PageId) -> LockedPage<'_> {
        self.table.lock(page)
    }

    /// Applies `event` to `page`.
    #[inline(always)]
    pub(crate) fn apply(&self, page: PageId, event: Event) -> Change {
        self.lock(page).apply(event)
    }

    /// Where `page` is. It may be elsewhere by the time that the caller looks at the answer.
    pub(crate) fn state(&self, page: PageId) -> PageState {
        self.table.state(page)
    }

    /// Pages on their way with the fibers that wait for them.
    pub(crate) fn waited_for(&self) -> Vec<(PageId, Vec<Waiter>)> {
        self.table.waiting().waited_for()
    }

    /// Calls `wake` for each fiber that waited for a page, in the order of arrival. The page need
    /// not be locked.
    pub(crate) fn wake(&self, waiting: Last, wake: impl FnMut(Waiter)) {
        self.table.waiting().wake(waiting, wake);
    }

    /// Prefetches the data that changes when `page` comes or goes. It has left the core's caches
    /// since.
    pub(crate) fn prefetch(&self, page: PageId) {
        self.table.prefetch(page);
    }

    /// As [`prefetch`](Cache::prefetch), with the metadata of the frame that `page` comes into.
    pub(crate) fn prefetch_arrival(&self, page: PageId, frame: FrameId) {
        self.prefetch(page);
        prefetch(self.table.record(frame));
    }

    /// Puts published frames under the policy, which may then evict them.
    pub(crate) fn settle(&self, installed: &mut Vec<FrameId>) {
        self.policies.insert(self, installed);
    }

    /// Lets the policy choose at most `count` victims, which it forgets. The caller gives up their
    /// pages. With `unchanged`, the policy chooses among unchanged pages only. The result may then
    /// contain a page that a job writes to at the same time.
    pub(crate) fn choose(&self, count: usize, unchanged: bool) -> Vec<FrameId> {
        let victims = self.policies.victims(self, count, unchanged);
        victims.iter().for_each(|&frame| self.prefetch(self.page_in(frame)));
        victims
    }

    /// Takes the resident `page` off the policy, to give it up. `None` if it is not resident, or
    /// not under the policy.
    pub(crate) fn choose_page(&self, page: PageId) -> Option<FrameId> {
        let (PageState::Resident(frame) | PageState::Ahead(frame)) = self.state(page) else {
            return None;
        };
        let mut locked = self.policies.knowing(self, frame)?;
        // Another page may have come to the frame before this part was locked.
        if self.page_in(frame) != page {
            return None;
        }
        locked.remove(frame);
        Some(frame)
    }

    /// Unpublishes the pages in these frames for `core`. The policy no longer knows the frames.
    /// They may be looked at, written back or reused only after a grace period.
    pub(crate) fn unpublish(&self, frames: &[FrameId], core: usize) {
        for &frame in frames {
            let change = self.apply(self.page_in(frame), Event::GivenUp { core });
            debug_assert!(change.has(Effect::AwaitGrace) && change.frame == frame);
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod testing;

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use ebbtide_core::prefetch::Origin;

    use super::testing::{bring, give_up, give_up_page, release};
    use super::*;

    const PAGE: PageId = PageId(70);
    const FRAME: FrameId = FrameId(3);
    const FIBER: Waiter = Waiter { core: 0, fiber: 1 };

    fn cache() -> Cache {
        let policy = (Division::new(None, 1, 4, 100), Admission::Always, PolicyKind::Fifo);
        Cache::new(100, 4, policy, (3, 4), false).unwrap()
    }

    fn publish(cache: &Cache, ahead: bool) {
        if ahead {
            let begun = cache.apply(PAGE, Event::Expected { core: 0, frame: FRAME });
            assert!(begun.has(Effect::FillAhead));
            assert_eq!(cache.apply(PAGE, Event::Arrived).waiting, Last::NONE);
        } else {
            bring(cache, PAGE, FRAME, false);
        }
    }

    #[test]
    fn a_page_is_found_at_once_from_its_arrival_until_it_is_given_up() {
        let cache = cache();
        publish(&cache, false);
        assert_eq!(cache.hit_path().find_at_once(PAGE), Some(FRAME));
        cache.settle(&mut vec![FRAME]);
        assert_eq!(give_up(&cache, 1, 2), [FRAME]);
        assert_eq!(cache.hit_path().find(PAGE), None);
        assert_eq!(cache.state(PAGE), PageState::Leaving(FRAME));
        let asked = cache.apply(PAGE, Event::Asked { waiter: FIBER, frame: None });
        assert_eq!((asked.mover, asked.frame), (2, FRAME));
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
            assert!(cache.apply(PAGE, Event::Used).has(Effect::NoteFirstUse));
            assert_eq!(cache.hit_path().find(PAGE), Some(FRAME));
            assert_eq!(cache.hit_path().find_at_once(PAGE), Some(FRAME));
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
            bring(&cache, page, frame, false);
        }
        cache.settle(&mut (0..pages).map(FrameId).collect());
        cache
    }

    #[test]
    fn as_many_frames_are_given_up_as_asked_for_and_only_their_pages_leave() {
        for parts in [1, 4] {
            gives_up_as_many(&full_in_parts(8, parts));
        }
    }

    fn gives_up_as_many(cache: &Cache) {
        let victims = give_up(cache, 3, 0);
        assert_eq!(victims.len(), 3);
        for frame in (0..8).map(FrameId) {
            let state = cache.state(PageId(u64::from(frame.0)));
            let given_up = victims.contains(&frame);
            assert_eq!(state == PageState::Leaving(frame), given_up);
            assert_eq!(state == PageState::Resident(frame), !given_up);
        }
        assert_eq!(give_up(cache, 9, 0).len(), 5, "there are no more");
    }

    #[test]
    fn a_page_that_found_its_line_full_is_found_all_the_same_and_gets_a_place_later() {
        /// Pages this far apart have the same own place in the table of twelve frames.
        const APART: u64 = 32;
        let policy = (Division::new(None, 1, 12, 400), Admission::Always, PolicyKind::Fifo);
        let cache = Cache::new(400, 12, policy, (1, 1), false).expect("memory");
        let pages = (0..9).map(|number| PageId(APART * number));
        for (page, frame) in pages.zip((0..).map(FrameId)) {
            bring(&cache, page, frame, false);
        }
        cache.settle(&mut (0..9).map(FrameId).collect());
        let (last, hit_path) = (PageId(8 * APART), cache.hit_path());
        assert_eq!(hit_path.find_if_likely(last), Some(FrameId(8)));
        assert_eq!(give_up_page(&cache, PageId(0), 0), Some(FrameId(0)));
        assert_eq!(hit_path.find_if_likely(last), None, "there is a free place");
        assert_eq!(hit_path.find(last), Some(FrameId(8)));
        cache.lock(last).remember();
        cache.lock(last).remember();
        assert_eq!(hit_path.find_if_likely(last), Some(FrameId(8)));
        assert_eq!(give_up_page(&cache, last, 0), Some(FrameId(8)));
        assert_eq!(hit_path.find(last), None);
        cache.lock(last).remember();
        assert_eq!(hit_path.find(last), None, "it is on its way out");
    }

    #[test]
    fn a_page_is_given_up_once_and_keeps_its_slot() {
        for parts in [1, 2] {
            let cache = full_in_parts(4, parts);
            let frame = give_up_page(&cache, PageId(2), 0).expect("it is there");
            assert_eq!((frame, cache.slot_of(frame)), (FrameId(2), Some(2)));
            assert_eq!(give_up_page(&cache, PageId(2), 0), None);
            assert_eq!(give_up(&cache, 4, 0).len(), 3, "the policy knows it no longer");
        }
    }

    #[test]
    fn a_frame_knows_which_page_it_last_held_and_how_that_had_come() {
        let cache = cache();
        assert_eq!(cache.table.record(FRAME).holds().page(), None);
        publish(&cache, false);
        assert_eq!(cache.table.record(FRAME).holds().page(), Some((PAGE, Origin::Demand)));
        let cache = self::cache();
        publish(&cache, true);
        assert_eq!(cache.table.record(FRAME).holds().page(), Some((PAGE, Origin::Unused)));
        assert!(cache.apply(PAGE, Event::Used).has(Effect::NoteFirstUse));
        assert_eq!(cache.table.record(FRAME).holds().page(), Some((PAGE, Origin::Used)));
    }

    #[test]
    fn a_page_that_the_policy_does_not_know_yet_is_not_given_up() {
        let cache = cache();
        for _ in 0..2 {
            publish(&cache, false);
            assert_eq!(give_up_page(&cache, PAGE, 0), None);
            assert_eq!(cache.state(PAGE), PageState::Resident(FRAME));
            // Next, of a frame that it knew before.
            cache.settle(&mut vec![FRAME]);
            assert_eq!(give_up_page(&cache, PAGE, 0), Some(FRAME));
            assert!(release(&cache, PAGE).has(Effect::Free));
        }
    }

    #[test]
    fn a_cache_says_what_it_takes() {
        let cache = full(640);
        assert_eq!(cache.memory().bytes, cache.frame_count() * PAGE_BYTES);
        let marks = size_of_val(cache.table.touches()) + size_of_val(cache.table.dirty());
        let records = cache.frame_count() * size_of::<FrameRecord>();
        let frames = cache.memory().bytes + marks + records;
        assert_eq!(cache.frame_count() * FRAME_BYTES, frames);
        assert_eq!(Cache::frames_bytes(8), 8 * FRAME_BYTES + HitTable::bytes(8));
    }
}
