//! Placement: the slots on flash that dirty pages are written to.
//!
//! To write every page back to its old place costs one request a page. An address space that need
//! not survive the process can put pages anywhere. So dirty pages that leave together are written
//! together.
//!
//! The *slots* (page-sized places on flash) are handed out in runs of neighbours. They come from
//! the emptiest *segment*, which has 64 slots. No page is moved to make room, so none is written
//! more than once. With spare slots, segments empty themselves as their pages are written
//! elsewhere. Log-structured stores fill holes in this way instead of cleaning ("hole plugging",
//! Matthews et al., SOSP 1997).

/// Slots in a segment.
const SEGMENT: u64 = 64;

const NONE: u32 = u32::MAX;

/// A run of neighbouring slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first slot.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// The free slots, and where the longest runs of them are likely to be.
#[derive(Debug)]
pub struct Placement {
    /// Free slots of each segment, a bit each.
    free: Vec<u64>,
    /// Doubly linked lists of segments, one list for each number of free slots.
    heads: [u32; SEGMENT as usize + 1],
    /// The lists of segments with a free slot that are not empty. The lowest bit is for one slot.
    filled: u64,
    next: Vec<u32>,
    previous: Vec<u32>,
    /// The segment being filled; in no list.
    open: u32,
    free_count: u64,
    /// Slots that could not be written.
    retired: Vec<u32>,
}

/// The most slots that are remembered as retired.
const RETIRED_MAX: usize = 1024;

impl Placement {
    /// Makes the table of `slots` slots. The first `used` hold a page.
    ///
    /// # Panics
    /// If there are fewer slots than pages, or more than 2³⁰.
    pub fn new(slots: u64, used: u64) -> Placement {
        assert!(used <= slots && slots <= 1 << 30, "{used} pages in {slots} slots");
        let segments = slots.div_ceil(SEGMENT) as usize;
        let mut placement = Placement {
            free: vec![0; segments],
            heads: [NONE; SEGMENT as usize + 1],
            filled: 0,
            next: vec![NONE; segments],
            previous: vec![NONE; segments],
            open: NONE,
            free_count: slots - used,
            retired: Vec::new(),
        };
        for slot in used..slots {
            placement.free[(slot / SEGMENT) as usize] |= 1 << (slot % SEGMENT);
        }
        // The last first, so that equal segments are filled from the start.
        for segment in (0..segments as u32).rev() {
            placement.link(segment);
        }
        placement
    }

    /// An upper bound on the memory of a placement of `slots` slots, in bytes.
    pub const fn memory_bytes(slots: u64) -> usize {
        slots.div_ceil(SEGMENT) as usize * (size_of::<u64>() + 2 * size_of::<u32>()) + 8192
    }

    /// Slots that hold no page.
    pub fn free_count(&self) -> u64 {
        self.free_count
    }

    /// Takes a run of at most `count_max` free slots; `None` if no slot is free. Retired slots are
    /// free again when no other slot is.
    ///
    /// # Panics
    /// If `count_max` is zero.
    pub fn take(&mut self, count_max: u32) -> Option<Run> {
        assert!(count_max > 0, "a run has at least one slot");
        self.take_room(1, |room| room.min(count_max))
    }

    /// Takes a run for as many groups of these sizes as it has room for, in order. The pages of a
    /// group will be read together. No group is divided if the first fits in the segment being
    /// filled or in the emptiest other one. Otherwise the run holds a part of the first group. All
    /// else is as in [`take`](Placement::take).
    ///
    /// # Panics
    /// If there is no group, or the first is empty.
    pub fn take_for(&mut self, groups: &[u32]) -> Option<Run> {
        let first = groups[0];
        assert!(first > 0, "a group has at least one page");
        self.take_room(first, |room| {
            let mut count = first.min(room);
            for group in &groups[1..] {
                if count + group > room {
                    break;
                }
                count += group;
            }
            count
        })
    }

    /// Takes as many free slots as `count_in` returns for a run of them. The run has at least
    /// `whole` slots if there is such a one.
    fn take_room(&mut self, whole: u32, count_in: impl FnOnce(u32) -> u32) -> Option<Run> {
        if self.free_count == 0 {
            std::mem::take(&mut self.retired).into_iter().for_each(|slot| self.release(slot));
        }
        if self.open == NONE || self.free[self.open as usize] == 0 {
            self.reopen()?;
        }
        if self.room_in(self.open, whole).is_none() {
            let emptiest = self.emptiest();
            if emptiest.is_some_and(|segment| self.room_in(segment, whole).is_some()) {
                self.reopen()?;
            }
        }
        let free = self.free[self.open as usize];
        let start = self.room_in(self.open, whole).unwrap_or(free.trailing_zeros());
        let count = count_in((free >> start).trailing_ones());
        let taken = if count == 64 { u64::MAX } else { ((1 << count) - 1) << start };
        self.free[self.open as usize] &= !taken;
        self.free_count -= u64::from(count);
        Some(Run { first: self.open * SEGMENT as u32 + start, count })
    }

    /// Returns where `count` free slots in a row begin in a segment, if there are that many.
    fn room_in(&self, segment: u32, count: u32) -> Option<u32> {
        let mut free = self.free[segment as usize];
        // Each bit that remains begins a run one slot longer.
        for _ in 1..count.min(SEGMENT as u32 + 1) {
            free &= free >> 1;
        }
        (free != 0).then(|| free.trailing_zeros())
    }

    /// Retires `slot`, which could not be written. It holds no page, and is used again only when no
    /// other slot is free. From the 1,025th retired slot on, a slot becomes free at once.
    ///
    /// # Panics
    /// If it held no page.
    pub fn retire(&mut self, slot: u32) {
        let (segment, bit) = (slot / SEGMENT as u32, 1 << (u64::from(slot) % SEGMENT));
        assert!(self.free[segment as usize] & bit == 0, "slot {slot} is free already");
        if self.retired.len() < RETIRED_MAX {
            self.retired.push(slot);
        } else {
            self.release(slot);
        }
    }

    /// Frees `slot`: it no longer holds a page.
    ///
    /// # Panics
    /// If it held none.
    pub fn release(&mut self, slot: u32) {
        let (segment, bit) = (slot / SEGMENT as u32, 1 << (u64::from(slot) % SEGMENT));
        assert!(self.free[segment as usize] & bit == 0, "slot {slot} is free already");
        if segment != self.open {
            self.unlink(segment);
        }
        self.free[segment as usize] |= bit;
        self.free_count += 1;
        if segment != self.open {
            self.link(segment);
        }
    }

    /// The emptiest segment that has a free slot and is not open.
    fn emptiest(&self) -> Option<u32> {
        let most = (u64::BITS - self.filled.leading_zeros()) as usize;
        (most > 0).then(|| self.heads[most])
    }

    /// Opens the emptiest segment that has a free slot.
    fn reopen(&mut self) -> Option<()> {
        let emptiest = self.emptiest()?;
        if self.open != NONE {
            self.link(self.open);
        }
        self.unlink(emptiest);
        self.open = emptiest;
        Some(())
    }

    fn set_head(&mut self, list: usize, segment: u32) {
        self.heads[list] = segment;
        // Full segments are in a list without a bit.
        let bit = 1u64.checked_shl((list as u32).wrapping_sub(1)).unwrap_or(0);
        self.filled = if segment == NONE { self.filled & !bit } else { self.filled | bit };
    }

    fn list(&self, segment: u32) -> usize {
        self.free[segment as usize].count_ones() as usize
    }

    fn link(&mut self, segment: u32) {
        let list = self.list(segment);
        let head = self.heads[list];
        self.next[segment as usize] = head;
        self.previous[segment as usize] = NONE;
        if head != NONE {
            self.previous[head as usize] = segment;
        }
        self.set_head(list, segment);
    }

    fn unlink(&mut self, segment: u32) {
        let (next, previous) = (self.next[segment as usize], self.previous[segment as usize]);
        match previous {
            NONE => self.set_head(self.list(segment), next),
            previous => self.next[previous as usize] = next,
        }
        if next != NONE {
            self.previous[next as usize] = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn fresh_slots_are_handed_out_in_whole_segments() {
        let mut placement = Placement::new(256, 64);
        assert_eq!(placement.take(1000), Some(Run { first: 64, count: 64 }));
        assert_eq!(placement.take(10), Some(Run { first: 128, count: 10 }));
        assert_eq!(placement.take(60), Some(Run { first: 138, count: 54 }));
        assert_eq!(placement.free_count(), 64);
    }

    #[test]
    fn without_a_free_slot_there_is_no_run() {
        let mut placement = Placement::new(70, 70);
        assert_eq!(placement.take(4), None);
        placement.release(66);
        placement.release(67);
        assert_eq!(placement.take(4), Some(Run { first: 66, count: 2 }));
        assert_eq!(placement.take(4), None);
    }

    /// Runs of 3, 5 and 8 free slots among 16 of the first segment, and all of the second but one.
    fn with_holes() -> Placement {
        let mut placement = Placement::new(128, 128);
        (0..3).chain(5..10).chain(12..20).for_each(|slot| placement.release(slot));
        placement
    }

    #[test]
    fn a_group_gets_the_first_run_that_holds_it_and_takes_others_along_that_fit() {
        let run = |first, count| Some(Run { first, count });
        for (groups, expected) in [
            (&[1][..], run(0, 1)),
            (&[3], run(0, 3)),
            (&[4], run(5, 4)),
            (&[6], run(12, 6)),
            (&[1, 1, 1, 1], run(0, 3)),
            (&[2, 2], run(0, 2)),
            (&[4, 2], run(5, 4)),
            (&[5, 2], run(5, 5)),
            (&[6, 2, 1], run(12, 8)),
        ] {
            let mut placement = with_holes();
            assert_eq!(placement.take_for(groups), expected, "{groups:?}");
            let taken = u64::from(expected.map_or(0, |run: Run| run.count));
            assert_eq!(placement.free_count(), 16 - taken);
        }
    }

    #[test]
    fn a_group_is_divided_only_if_neither_the_open_nor_the_emptiest_segment_has_room_for_it() {
        let mut placement = with_holes();
        assert_eq!(placement.take_for(&[9]), Some(Run { first: 0, count: 3 }));
        // Now the first segment is open and has 13 free slots, the second 12 in a row.
        (70..82).for_each(|slot| placement.release(slot));
        assert_eq!(placement.take_for(&[9]), Some(Run { first: 70, count: 9 }));
        // The second is open. The first has more free slots, but no nine in a row.
        assert_eq!(placement.take_for(&[9]), Some(Run { first: 79, count: 3 }));
        assert_eq!(placement.take_for(&[9]), Some(Run { first: 5, count: 5 }));
    }

    /// Groups of five pages, and one single page for every three groups. Each step writes any of
    /// them.
    #[test]
    fn groups_that_are_written_again_and_again_stay_together() {
        const GROUPS: usize = 3_000;
        let size = |group: usize| if group.is_multiple_of(4) { 1 } else { 5 };
        let used: usize = (0..GROUPS).map(size).sum();
        let mut placement = Placement::new(used as u64 * 5 / 4, used as u64);
        let mut places: Vec<Vec<u32>> = Vec::new();
        let mut next = 0;
        for group in 0..GROUPS {
            places.push((next..next + size(group) as u32).collect());
            next += size(group) as u32;
        }
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1);
        let mut freed: std::collections::VecDeque<Vec<u32>> = std::collections::VecDeque::new();
        for _ in 0..10_000 {
            let batch: BTreeSet<usize> = (0..8).map(|_| random.random_range(0..GROUPS)).collect();
            let mut batch: Vec<usize> = batch.into_iter().collect();
            // A page has its old slot until some time after it was written.
            for &group in &batch {
                freed.push_back(std::mem::take(&mut places[group]));
            }
            while freed.len() > 100 {
                let slots = freed.pop_front().expect("there are more");
                slots.into_iter().for_each(|slot| placement.release(slot));
            }
            while !batch.is_empty() {
                let left = |group: &usize| (size(*group) - places[*group].len()) as u32;
                let sizes: Vec<u32> = batch.iter().map(left).collect();
                let run = placement.take_for(&sizes).expect("there are spare slots");
                for slot in run.first..run.first + run.count {
                    let group = batch[0];
                    places[group].push(slot);
                    if places[group].len() == size(group) {
                        batch.remove(0);
                    }
                }
            }
        }
        let gaps =
            |slots: &Vec<u32>| slots.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        let parts: usize = places.iter().filter(|slots| slots.len() > 1).map(|s| 1 + gaps(s)).sum();
        let mean = parts as f64 / places.iter().filter(|slots| slots.len() > 1).count() as f64;
        assert!(mean < 1.1, "groups of five pages lie in {mean:.3} parts");
    }

    #[test]
    fn with_half_as_many_spare_slots_as_pages_runs_stay_long() {
        const PAGES: u32 = 1 << 14;
        let mut placement = Placement::new(u64::from(PAGES) * 3 / 2, u64::from(PAGES));
        let mut place: Vec<u32> = (0..PAGES).collect();
        let mut random = rand_pcg::Pcg64Mcg::seed_from_u64(1);
        let (mut pages, mut runs) = (0, 0);
        for round in 0..20_000 {
            let batch: BTreeSet<u32> = (0..16).map(|_| random.random_range(0..PAGES)).collect();
            let mut batch: Vec<u32> = batch.into_iter().collect();
            batch.iter().for_each(|&page| placement.release(place[page as usize]));
            while !batch.is_empty() {
                let run = placement.take(batch.len() as u32).expect("there are spare slots");
                for slot in run.first..run.first + run.count {
                    place[batch.pop().expect("a run is no longer than asked") as usize] = slot;
                }
                if round > 10_000 {
                    pages += run.count;
                    runs += 1;
                }
            }
        }
        let mean = f64::from(pages) / f64::from(runs);
        assert!(mean > 2.0, "uniformly written pages leave in runs of {mean:.2}");
    }

    #[test]
    fn a_retired_slot_is_taken_only_when_no_other_is_free() {
        let mut placement = Placement::new(100, 98);
        assert_eq!(placement.take(1), Some(Run { first: 98, count: 1 }));
        placement.retire(98);
        placement.release(5);
        let taken = [placement.take(2), placement.take(2)].map(|run| run.expect("a free slot"));
        assert!(taken.iter().all(|run| run.count == 1 && run.first != 98), "{taken:?}");
        assert_eq!(placement.take(2), Some(Run { first: 98, count: 1 }));
        assert_eq!(placement.take(2), None);
    }

    #[test]
    fn a_slot_is_retired_or_released_only_while_it_holds_a_page() {
        // Within a segment, so that a slot's neighbours are free and taken.
        let used = 130;
        for slot in 0..200 {
            for end in [Placement::retire, Placement::release] {
                let mut placement = Placement::new(200, used);
                let ended = std::panic::catch_unwind(move || end(&mut placement, slot));
                assert_eq!(ended.is_ok(), u64::from(slot) < used, "slot {slot}");
            }
        }
    }

    #[test]
    fn no_slot_is_lost_when_more_are_retired_than_are_remembered() {
        let slots = 2 * RETIRED_MAX as u64;
        let mut placement = Placement::new(slots, slots);
        (0..slots as u32).for_each(|slot| placement.retire(slot));
        assert_eq!(placement.free_count(), slots - RETIRED_MAX as u64);
        let mut taken = 0;
        while let Some(run) = placement.take(64) {
            taken += u64::from(run.count);
        }
        assert_eq!(taken, slots);
    }

    #[test]
    fn the_bytes_that_a_placement_is_said_to_take_are_those_it_takes_and_hardly_more() {
        for slots in [1, 64, 65, 5_000, 1 << 20] {
            let mut placement = Placement::new(slots, slots);
            (0..slots.min(2_000) as u32).for_each(|slot| placement.retire(slot));
            let Placement { free, next, previous, retired, .. } = &placement;
            let numbers = next.capacity() + previous.capacity() + retired.capacity();
            let lists = size_of_val(&free[..]) + numbers * size_of::<u32>();
            let bytes = size_of::<Placement>() + lists;
            let said = Placement::memory_bytes(slots);
            assert!((bytes..=bytes + 8192).contains(&said), "{said} for {bytes} bytes");
        }
    }

    proptest! {
        /// Against the obvious model: a set of free slots.
        #[test]
        fn every_slot_has_one_owner(steps in prop::collection::vec((any::<bool>(), 1u32..70), 1..300)) {
            let (slots, used) = (200u64, 130u64);
            let mut placement = Placement::new(slots, used);
            let mut free: BTreeSet<u32> = (used as u32..slots as u32).collect();
            for (take, amount) in steps {
                if take {
                    match placement.take(amount) {
                        None => prop_assert!(free.is_empty()),
                        Some(run) => {
                            prop_assert!(run.count >= 1 && run.count <= amount);
                            for slot in run.first..run.first + run.count {
                                prop_assert!(free.remove(&slot), "slot {} was not free", slot);
                            }
                        }
                    }
                } else if let Some(slot) = (0..slots as u32).cycle().skip(amount as usize * 7)
                    .take(slots as usize).find(|slot| !free.contains(slot))
                {
                    placement.release(slot);
                    free.insert(slot);
                }
                prop_assert_eq!(placement.free_count(), free.len() as u64);
            }
        }
    }
}
