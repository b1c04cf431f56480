//! The replacement policy, in as many parts as the cores need.
//!
//! A part is an instance of the policy with its own lock. A hash assigns every page to a part, so
//! cores that miss at the same time seldom want the same lock. Frames belong to no part. A frame
//! takes a *place* in the part of the page that it holds, and leaves it when that page is given up.
//! A part has a few places more than its share of the frames. If all are taken, the next part takes
//! the frame. Victims come from the fuller of two parts, so that all parts stay about as full. This
//! is the power of two choices (Mitzenmacher, IEEE Transactions on Parallel and Distributed Systems
//! 2001).
//!
//! A single part has one place for each frame, with the same number.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use ebbtide_core::replacement::{Admission, Frames, Geometry, PolicyKind, Replacement};
use ebbtide_core::{FrameId, PageId};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

use super::{Cache, NOWHERE};

/// Cores for each part. A core that misses every 14 µs takes the lock once for an insertion and a
/// victim. The default policy holds it for about 190 ns. Eight cores hold it for a tenth of the
/// time.
const CORES_A_PART: usize = 8;

/// A part with fewer frames would decide by chance.
const FRAMES_OF_PART_MIN: usize = 1024;

/// How many parts a policy has, of how many places and pages each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    /// The parts are two to this power.
    log2: u32,
    places: usize,
    pages: u64,
}

impl Division {
    /// The division of `frames` frames over `pages` pages into `parts` parts, rounded up to a power
    /// of two. Without `parts`, the number suits `cores` cores and the number of frames.
    pub(crate) fn new(parts: Option<usize>, cores: usize, frames: usize, pages: u64) -> Division {
        let suit = || cores.div_ceil(CORES_A_PART).min(frames / FRAMES_OF_PART_MIN).max(1);
        let parts = parts.unwrap_or_else(suit).next_power_of_two();
        let share = frames.div_ceil(parts);
        let places = if parts == 1 { frames } else { share + share / 16 + 16 };
        Division { log2: parts.ilog2(), places, pages: pages.div_ceil(parts as u64) }
    }

    fn parts(self) -> usize {
        1 << self.log2
    }

    fn geometry(self) -> Geometry {
        Geometry::fully_associative(self.places)
    }

    /// An upper bound on the memory of all parts, in bytes.
    pub(crate) fn memory_bytes(self, admission: Admission, policy: PolicyKind) -> usize {
        let of_places = if self.parts() == 1 { 0 } else { 2 * size_of::<u32>() };
        let part = admission.memory_bytes(policy, self.geometry(), self.pages);
        self.parts() * (part + self.places * of_places)
    }

    /// The part that `page` belongs to, and its number there. As many pages in a row as there are
    /// parts belong to one part each.
    fn part_of(self, page: PageId) -> (usize, PageId) {
        let (row, column) = (page.0 >> self.log2, page.0 as usize);
        let hash = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ((column ^ hash as usize) & (self.parts() - 1), PageId(row))
    }
}

/// All parts of the policy of a cache.
pub(super) struct Policies {
    division: Division,
    parts: Box<[CachePadded<Part>]>,
    /// The frame in each place of one part after the other. Empty if there is one part only.
    frames: Box<[AtomicU32]>,
    /// Where the next victims come from.
    turn: CachePadded<AtomicUsize>,
}

struct Part {
    guarded: Mutex<Guarded>,
    /// How many frames it knows, if there are several parts. Changed while it is locked.
    known: AtomicUsize,
}

struct Guarded {
    policy: Box<dyn Replacement>,
    /// Places that no frame has taken, unless there is one part only.
    free: Vec<u32>,
}

/// A frame for the policy, with its part and the number of its page there.
struct Insertion {
    part: usize,
    frame: FrameId,
    page: PageId,
}

/// A part that is locked.
pub(super) struct Locked<'a> {
    part: &'a Part,
    guarded: MutexGuard<'a, Guarded>,
    marks: Marks<'a>,
}

impl Policies {
    pub(super) fn new(division: Division, admission: Admission, policy: PolicyKind) -> Policies {
        let (parts, places) = (division.parts(), division.places);
        let several = parts > 1;
        let part = |_| {
            let policy = admission.build(policy, division.geometry(), division.pages, 0);
            let free = if several { (0..places as u32).rev().collect() } else { Vec::new() };
            let guarded = Mutex::new(Guarded { policy, free });
            CachePadded::new(Part { guarded, known: AtomicUsize::new(0) })
        };
        let frames = if several { parts * places } else { 0 };
        Policies {
            division,
            parts: (0..parts).map(part).collect(),
            frames: (0..frames).map(|_| AtomicU32::new(NOWHERE)).collect(),
            turn: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// Adds frames whose pages are published to the policy.
    pub(super) fn insert(&self, cache: &Cache, installed: &mut Vec<FrameId>) {
        let part_of = |&frame: &FrameId| {
            let (part, page) = self.division.part_of(cache.page_in(frame));
            Insertion { part, frame, page }
        };
        let mut insertions: SmallVec<[Insertion; 32]> = installed.iter().map(part_of).collect();
        if self.parts.len() > 1 {
            insertions.sort_unstable_by_key(|insertion| insertion.part);
        }
        for of_part in insertions.chunk_by(|one, next| one.part == next.part) {
            self.insert_into(cache, of_part);
        }
        installed.clear();
    }

    /// Adds frames whose pages belong to the same part.
    fn insert_into(&self, cache: &Cache, insertions: &[Insertion]) {
        let home = insertions[0].part;
        let pages: SmallVec<[PageId; 32]> =
            insertions.iter().map(|insertion| insertion.page).collect();
        let mut locked = self.lock(cache, home);
        locked.guarded.policy.recall(&pages);
        for &Insertion { frame, page, .. } in insertions {
            if !locked.insert(frame, page) {
                drop(locked);
                self.insert_elsewhere(cache, home, frame, page);
                locked = self.lock(cache, home);
            }
        }
    }

    /// Puts a frame whose part, `home`, is full into another one.
    fn insert_elsewhere(&self, cache: &Cache, home: usize, frame: FrameId, page: PageId) {
        let mut others = (home + 1..).map(|part| part % self.parts.len());
        // The parts have more places than there are frames.
        while !others.any(|part| self.lock(cache, part).insert(frame, page)) {}
    }

    /// Takes at most `count` frames off the policy, to give up their pages. With `unchanged`, takes
    /// unchanged pages only.
    pub(super) fn victims(&self, cache: &Cache, count: usize, unchanged: bool) -> Vec<FrameId> {
        let mut victims = Vec::with_capacity(count);
        let first = self.fuller();
        for part in (first..first + self.parts.len()).map(|part| part % self.parts.len()) {
            let mut locked = self.lock(cache, part);
            locked.marks.pins_changed = unchanged;
            while victims.len() < count {
                let Some(frame) = locked.victim() else { break };
                victims.push(frame);
            }
            if victims.len() == count {
                break;
            }
        }
        victims
    }

    /// The fuller of two parts, each time of the next two.
    fn fuller(&self) -> usize {
        if self.parts.len() == 1 {
            return 0;
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let two = [turn, turn + 1].map(|turn| turn % self.parts.len());
        let known = two.map(|part| self.parts[part].known.load(Ordering::Relaxed));
        two[usize::from(known[1] > known[0])]
    }

    /// The part that knows `frame`, locked, if one does.
    pub(super) fn knowing<'a>(&'a self, cache: &'a Cache, frame: FrameId) -> Option<Locked<'a>> {
        self.knowing_in(cache, frame, cache.table.record(frame).place()?)
    }

    /// The part with `place`, locked, if `frame` is there by then.
    fn knowing_in<'a>(
        &'a self,
        cache: &'a Cache,
        frame: FrameId,
        place: u32,
    ) -> Option<Locked<'a>> {
        let locked = self.lock(cache, place as usize / self.division.places);
        (cache.table.record(frame).place() == Some(place)).then_some(locked)
    }

    fn lock<'a>(&'a self, cache: &'a Cache, number: usize) -> Locked<'a> {
        let part = &self.parts[number];
        let first = number * self.division.places;
        let frames = self.frames.get(first..first + self.division.places).unwrap_or_default();
        Locked {
            part,
            guarded: part.guarded.lock(),
            marks: Marks { cache, first, frames, pins_changed: false },
        }
    }
}

impl Locked<'_> {
    /// Puts `frame` with the page of this number under this part of the policy, if there is a
    /// place.
    fn insert(&mut self, frame: FrameId, page: PageId) -> bool {
        let mut own = frame;
        if !self.marks.frames.is_empty() {
            let Some(free) = self.guarded.free.pop() else { return false };
            self.marks.frames[free as usize].store(frame.0, Ordering::Relaxed);
            own = FrameId(free);
            self.count();
        }
        self.marks.cache.table.record(frame).set_place((self.marks.first + own.index()) as u32);
        self.guarded.policy.insert(own, page);
        self.guarded.policy.look_around(&mut self.marks);
        true
    }

    fn victim(&mut self) -> Option<FrameId> {
        let own = self.guarded.policy.victim(0, &mut self.marks)?;
        Some(self.leave(own))
    }

    /// Evicts `frame`, a frame of this part, if the policy lets it leave early. Returns true if it
    /// did.
    pub(super) fn leave_early(&mut self, frame: FrameId) -> bool {
        let place = self.marks.cache.table.record(frame).place().expect("this part knows it");
        let own = FrameId(place - self.marks.first as u32);
        let leaves = self.guarded.policy.leave_early(own, &mut self.marks);
        if leaves {
            self.leave(own);
        }
        leaves
    }

    /// Makes this part forget `frame`, which it knows.
    pub(super) fn remove(&mut self, frame: FrameId) {
        let place = self.marks.cache.table.record(frame).place().expect("this part knows it");
        let own = FrameId(place - self.marks.first as u32);
        self.guarded.policy.remove(own);
        self.leave(own);
    }

    /// Frees the place `own`, which the policy has forgotten. Returns the frame that was there.
    fn leave(&mut self, own: FrameId) -> FrameId {
        let frame = self.marks.frame(own);
        self.marks.cache.table.record(frame).set_place(NOWHERE);
        if !self.marks.frames.is_empty() {
            self.guarded.free.push(own.0);
            self.count();
        }
        frame
    }

    fn count(&self) {
        let known = self.marks.frames.len() - self.guarded.free.len();
        self.part.known.store(known, Ordering::Relaxed);
    }
}

/// How a part of the policy sees the frames.
struct Marks<'a> {
    cache: &'a Cache,
    /// The first place of the part.
    first: usize,
    /// The frames in its places, if there are several parts.
    frames: &'a [AtomicU32],
    /// Whether changed pages must stay now, because they cannot be written.
    pins_changed: bool,
}

impl Marks<'_> {
    fn frame(&self, own: FrameId) -> FrameId {
        self.frames.get(own.index()).map_or(own, |frame| FrameId(frame.load(Ordering::Relaxed)))
    }
}

impl Frames for Marks<'_> {
    fn take_touches(&mut self, own: FrameId) -> u8 {
        let mark = &self.cache.table.touches()[self.frame(own).index()];
        let touches = mark.load(Ordering::Relaxed);
        if touches != 0 {
            mark.store(0, Ordering::Relaxed);
        }
        touches
    }

    fn is_dirty(&self, own: FrameId) -> bool {
        self.cache.is_dirty(self.frame(own))
    }

    fn is_pinned(&self, own: FrameId) -> bool {
        // Other frames that must stay are not known to the policy yet.
        self.pins_changed && self.is_dirty(own)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use std::collections::HashSet;

    use ebbtide_core::replacement::TOUCHES_MAX;

    use super::super::testing::{bring, give_up, give_up_page, release};
    use super::super::{Effect, PageState};
    use super::*;

    const POLICY: PolicyKind = PolicyKind::MiniSim;

    fn cache(parts: usize, frames: usize, pages: u64, policy: PolicyKind) -> Cache {
        let division = Division::new(Some(parts), 1, frames, pages);
        Cache::new(pages, frames, (division, Admission::Always, policy), (1, 1), false)
            .expect("memory")
    }

    fn install(cache: &Cache, page: PageId, frame: FrameId) {
        bring(cache, page, frame, false);
    }

    fn known(cache: &Cache) -> Vec<usize> {
        cache.policies.parts.iter().map(|part| part.known.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn every_page_has_a_number_of_its_own_in_one_part_and_pages_in_a_row_have_different_ones() {
        const PAGES: u64 = 1000;
        for parts in [1, 2, 8, 16] {
            let division = Division::new(Some(parts), 1, 64, PAGES);
            let of: Vec<_> = (0..PAGES).map(|page| division.part_of(PageId(page))).collect();
            assert_eq!(of.iter().collect::<HashSet<_>>().len(), PAGES as usize);
            assert!(of.iter().all(|(part, page)| *part < parts && page.0 < division.pages));
            for row in of.chunks_exact(parts) {
                let own: HashSet<_> = row.iter().map(|(part, _)| part).collect();
                assert_eq!(own.len(), parts, "{row:?}");
            }
            // Pages far apart by as many as there are parts do not all have the same one.
            let every: HashSet<_> = of.iter().step_by(parts).map(|(part, _)| part).collect();
            assert_eq!(every.len(), parts);
        }
    }

    #[test]
    fn a_policy_has_a_part_for_eight_cores_with_frames_to_choose_among() {
        let parts = |cores, frames| Division::new(None, cores, frames, 1 << 20).parts();
        assert_eq!([1, 8, 9, 16, 17, 64].map(|cores| parts(cores, 1 << 16)), [1, 1, 2, 2, 4, 8]);
        assert_eq!([500, 2_000, 4_000, 8_000].map(|frames| parts(64, frames)), [1, 1, 4, 8]);
    }

    #[test]
    fn the_memory_of_all_parts_is_within_what_is_said() {
        let (pages, frames) = (100_000, 8_000);
        let one = Division::new(Some(1), 1, frames, pages);
        let policy =
            Admission::Always.memory_bytes(POLICY, Geometry::fully_associative(frames), pages);
        assert_eq!(one.memory_bytes(Admission::Always, POLICY), policy);
        let four = Division::new(Some(4), 1, frames, pages);
        let part = Admission::Always.memory_bytes(POLICY, four.geometry(), pages / 4);
        let policies = Policies::new(four, Admission::Always, POLICY);
        let own = size_of_val(&*policies.frames)
            + policies
                .parts
                .iter()
                .map(|part| 4 * part.guarded.lock().free.capacity())
                .sum::<usize>();
        assert_eq!(four.memory_bytes(Admission::Always, POLICY), 4 * part + own);
    }

    #[test]
    fn a_frame_whose_part_is_full_goes_to_another_part_and_comes_back_from_there() {
        let (frames, pages) = (256, 100_000);
        let cache = cache(4, frames, pages, PolicyKind::Fifo);
        let division = cache.policies.division;
        let of_one_part = (0..pages).map(PageId).filter(|&page| division.part_of(page).0 == 2);
        let pages: Vec<PageId> = of_one_part.take(frames).collect();
        for (number, &page) in pages.iter().enumerate() {
            install(&cache, page, FrameId(number as u32));
        }
        cache.settle(&mut (0..frames as u32).map(FrameId).collect());
        let places = division.places;
        assert_eq!(known(&cache), [places, frames - 3 * places, places, places]);
        let last = pages[frames - 1];
        assert_eq!(give_up_page(&cache, last, 0), Some(FrameId(frames as u32 - 1)));
        assert_eq!(known(&cache)[1], frames - 3 * places - 1);
        let mut victims = give_up(&cache, frames, 0);
        victims.sort_unstable();
        assert_eq!(victims, (0..frames as u32 - 1).map(FrameId).collect::<Vec<_>>());
        assert_eq!(known(&cache), [0; 4]);
        let busy = |page: &PageId| matches!(cache.state(*page), PageState::Leaving(_));
        assert!(pages.iter().all(busy));
    }

    #[test]
    fn a_frame_that_has_left_its_place_before_the_part_was_locked_is_not_known_there() {
        let cache = cache(4, 64, 64, PolicyKind::Fifo);
        let frame = FrameId(5);
        install(&cache, PageId(30), frame);
        cache.settle(&mut vec![frame]);
        let place = cache.table.record(frame).place().expect("it is known");
        assert!(cache.policies.knowing_in(&cache, frame, place).is_some());
        assert_eq!(give_up(&cache, 1, 0), [frame]);
        assert!(cache.policies.knowing_in(&cache, frame, place).is_none());
        // A page of another part.
        let home = |page| cache.policies.division.part_of(page).0;
        let page = (0..64).map(PageId).find(|&page| home(page) != home(PageId(30)));
        install(&cache, page.expect("there are four parts"), frame);
        cache.settle(&mut vec![frame]);
        assert!(cache.policies.knowing_in(&cache, frame, place).is_none());
        assert!(cache.policies.knowing(&cache, frame).is_some());
    }

    #[test]
    fn the_policy_sees_which_frames_were_touched_and_written() {
        for parts in [1, 4] {
            let cache = cache(parts, 64, 64, PolicyKind::Fifo);
            let (page, frame) = (PageId(30), FrameId(5));
            install(&cache, page, frame);
            cache.settle(&mut vec![frame]);
            let place = cache.table.record(frame).place().expect("it is known");
            let mut marks = cache.policies.knowing(&cache, frame).expect("it is known").marks;
            let (hits, own) = (cache.hit_path(), FrameId(place - marks.first as u32));
            assert_eq!((marks.take_touches(own), marks.is_dirty(own)), (0, false));
            (0..2 * TOUCHES_MAX).for_each(|_| hits.touch(frame));
            hits.mark_dirty(frame);
            assert_eq!((marks.take_touches(own), marks.is_dirty(own)), (TOUCHES_MAX, true));
            assert_eq!(marks.take_touches(own), 0, "they are taken once");
        }
    }

    /// Misses of skewed accesses to 100,000 pages, frames being settled and given up in batches.
    fn misses(parts: usize, frames: usize) -> usize {
        const PAGES: u64 = 100_000;
        let cache = cache(parts, frames, PAGES, POLICY);
        let mut free: Vec<FrameId> = (0..frames as u32).map(FrameId).collect();
        let (mut installed, mut misses, mut random) = (Vec::new(), 0, 1u64);
        for access in 0..1_000_000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let even = (random >> 11) as f64 / (1u64 << 53) as f64;
            let page = PageId((PAGES as f64 * even.powi(4)) as u64 * 61_803 % PAGES);
            if let PageState::Resident(frame) = cache.state(page) {
                cache.hit_path().touch(frame);
                continue;
            }
            misses += usize::from(access >= 500_000);
            if free.is_empty() {
                cache.settle(&mut installed);
                free = give_up(&cache, 32, 0);
                assert_eq!(free.len(), 32);
                for page in free.iter().map(|&frame| cache.page_in(frame)) {
                    assert!(release(&cache, page).has(Effect::Free));
                }
            }
            let frame = free.pop().expect("some were given up");
            install(&cache, page, frame);
            installed.push(frame);
        }
        let known = known(&cache);
        assert!(
            known.iter().max() <= known.iter().min().map(|least| least + 64).as_ref(),
            "{known:?}"
        );
        misses
    }

    #[test]
    fn eight_parts_choose_as_well_as_one_and_stay_about_as_full() {
        let [one, eight] = [1, 8].map(|parts| misses(parts, 8_000));
        assert!(eight.abs_diff(one) <= one / 50, "{eight} misses in place of {one}");
    }

    #[test]
    fn cores_that_settle_and_give_up_at_once_neither_lose_a_frame_nor_get_one_twice() {
        const FRAMES: u32 = 512;
        const CORES: u32 = 4;
        const ROUNDS: usize = 2_000;
        let cache = &cache(4, FRAMES as usize, 4096, POLICY);
        let run = |core: u32| {
            let mut own: Vec<FrameId> =
                (core..FRAMES).step_by(CORES as usize).map(FrameId).collect();
            // Other pages than those of the other cores, in turns.
            let mut pages = (0..1024).cycle().map(|page| PageId(page * 4 + u64::from(core)));
            let mut others = (0..4096).cycle().step_by(37).map(PageId);
            for _ in 0..ROUNDS {
                for &frame in &own {
                    let absent = |page: &PageId| matches!(cache.state(*page), PageState::Absent(_));
                    install(cache, pages.find(absent).expect("there are more pages"), frame);
                }
                cache.settle(&mut own);
                own = give_up(cache, (FRAMES / CORES / 2) as usize, core as usize);
                // Pages of all cores, which may be on their way.
                own.extend(
                    (0..16).filter_map(|_| give_up_page(cache, others.next()?, core as usize)),
                );
                for &frame in &own {
                    let page = cache.page_in(frame);
                    assert_eq!(cache.state(page), PageState::Leaving(frame));
                    assert!(release(cache, page).has(Effect::Free));
                }
            }
            own
        };
        let mut frames: Vec<FrameId> = std::thread::scope(|scope| {
            let cores: Vec<_> = (0..CORES).map(|core| scope.spawn(move || run(core))).collect();
            cores.into_iter().flat_map(|core| core.join().expect("it ends")).collect()
        });
        frames.extend(give_up(cache, FRAMES as usize, 0));
        frames.sort_unstable();
        assert_eq!(frames, (0..FRAMES).map(FrameId).collect::<Vec<_>>());
    }
}
