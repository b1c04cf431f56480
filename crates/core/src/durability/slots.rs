//! [`Slots`]: the slots on flash that are free, and those that will be once the log is on the
//! device.

use std::collections::VecDeque;

use super::Lsn;
use super::slot_set::SlotSet;
use crate::placement::{Placement, Run};

/// The slots of the persist part.
///
/// The slot that a page leaves stays as it is until the record of the page's next slot is on the
/// device. A crash before that goes back to the old slot.
#[derive(Debug)]
pub(super) struct Slots {
    placement: Placement,
    /// Slots that become free once the log is on the device up to a place, in the order of those
    /// places.
    leaving: VecDeque<(Lsn, u32)>,
    /// The slots that a copy of the store needs, while there is one.
    held: Option<Held>,
    count: u64,
}

/// The slots that a copy of the store needs. They stay as they are until they are copied.
#[derive(Debug)]
struct Held {
    /// Slots that are not copied yet.
    needed: SlotSet,
    /// Needed slots that hold no page any more.
    left: SlotSet,
    left_count: usize,
    /// The copy has all needed slots before this one.
    next: u32,
}

impl Slots {
    /// Makes the table of `slots` slots. Those for which `is_used` is true hold a page.
    pub(super) fn new(slots: u64, is_used: impl Fn(u32) -> bool) -> Slots {
        let mut placement = Placement::new(slots, slots);
        (0..slots as u32).filter(|&slot| !is_used(slot)).for_each(|slot| placement.release(slot));
        Slots { placement, leaving: VecDeque::new(), held: None, count: slots }
    }

    /// Takes a run of at most `count_max` free slots.
    pub(super) fn take(&mut self, count_max: u32) -> Option<Run> {
        self.placement.take(count_max)
    }

    /// Takes a run of free slots for groups of these sizes, as [`Placement::take_for`] does.
    pub(super) fn take_for(&mut self, groups: &[u32]) -> Option<Run> {
        self.placement.take_for(groups)
    }

    /// Notes that a page has left `slot`. The record of that ends at `end`.
    pub(super) fn leave(&mut self, slot: u32, end: Lsn) {
        debug_assert!(self.leaving.back().is_none_or(|&(last, _)| last <= end));
        self.leaving.push_back((end, slot));
    }

    /// Frees slots, now that the log is on the device up to `durable`.
    pub(super) fn settle(&mut self, durable: Lsn) {
        while let Some((_, slot)) = self.leaving.pop_front_if(|(end, _)| *end <= durable) {
            match &mut self.held {
                Some(held) if held.needed.contains(slot) => {
                    held.left.insert(slot);
                    held.left_count += 1;
                }
                _ => self.placement.release(slot),
            }
        }
    }

    /// Begins a copy. From now on a slot that a page leaves becomes free only once it is
    /// [copied](Slots::copied).
    pub(super) fn hold(&mut self) {
        let (needed, left) = (SlotSet::full(self.count), SlotSet::empty(self.count));
        self.held = Some(Held { needed, left, left_count: 0, next: 0 });
    }

    /// Returns true if slots are held for a copy.
    pub(super) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Sets the slots that the copy needs.
    pub(super) fn copy_needs(&mut self, slots: &SlotSet) {
        let Some(held) = &mut self.held else { return };
        held.needed.keep(slots);
        let free: Vec<u32> =
            held.left.from(0).filter(|slot| !held.needed.contains(*slot)).collect();
        free.into_iter().for_each(|slot| self.free_left(slot));
    }

    /// Returns the slots to copy next, at most `count_max`. Empty when the copy has all.
    ///
    /// They come in order, since neighbours are read and written together. But slots that pages
    /// have left come first while they outnumber the free ones, since copying frees them.
    pub(super) fn next_to_copy(&mut self, count_max: usize) -> Vec<u32> {
        let left_first = self.left_outnumber_free();
        let Some(held) = &mut self.held else { return Vec::new() };
        if left_first {
            return held.left.from(0).take(count_max).collect();
        }
        let next: Vec<u32> = held.needed.from(held.next).take(count_max).collect();
        held.next = next.last().map_or(held.next, |last| last + 1);
        next
    }

    /// Returns true if more slots are kept for the copy alone than are free.
    pub(super) fn left_outnumber_free(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.left_count as u64 > self.free_count())
    }

    /// Notes that these slots are copied.
    pub(super) fn copied(&mut self, slots: &[u32]) {
        for &slot in slots {
            if let Some(held) = &mut self.held {
                held.needed.remove(slot);
            }
            self.free_left(slot);
        }
    }

    /// Frees a slot if it was kept for the copy alone.
    fn free_left(&mut self, slot: u32) {
        if let Some(held) = &mut self.held
            && held.left.remove(slot)
        {
            held.left_count -= 1;
            self.placement.release(slot);
        }
    }

    /// Frees all slots that were kept for the copy alone.
    fn free_all_left(&mut self) {
        let left: Vec<u32> = self.held.iter().flat_map(|held| held.left.from(0)).collect();
        left.into_iter().for_each(|slot| self.free_left(slot));
    }

    /// Ends the copy.
    pub(super) fn let_go(&mut self) {
        self.free_all_left();
        self.held = None;
    }

    /// Frees `slot`, which was taken and holds nothing needed.
    pub(super) fn release(&mut self, slot: u32) {
        self.placement.release(slot);
    }

    /// Notes that `slot` could not be written.
    pub(super) fn retire(&mut self, slot: u32) {
        self.placement.retire(slot);
    }

    /// Free slots.
    pub(super) fn free_count(&self) -> u64 {
        self.placement.free_count()
    }

    /// Returns true if most of the slots without a page wait for a flush.
    pub(super) fn wants_flush(&self) -> bool {
        self.free_count() < self.leaving.len() as u64
    }

    /// Returns the number of slots that will be free when the log is on the device, or the copy has
    /// them.
    pub(super) fn leaving_count(&self) -> usize {
        self.leaving.len() + self.held.as_ref().map_or(0, |held| held.left_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots() -> Slots {
        Slots::new(10, |slot| slot < 6)
    }

    /// Copies the slots one by one. Returns them in that order.
    fn copy_all(slots: &mut Slots) -> Vec<u32> {
        let mut order = Vec::new();
        loop {
            let next = slots.next_to_copy(1);
            let [slot] = next[..] else { break order };
            slots.copied(&next);
            order.push(slot);
        }
    }

    #[test]
    fn slots_are_copied_in_order_until_those_that_pages_left_outnumber_the_free_ones() {
        for (left, order) in
            [(vec![5, 7], [0, 1, 2, 3, 4, 5, 6, 7]), (vec![3, 5, 7], [3, 0, 1, 2, 4, 5, 6, 7])]
        {
            let mut slots = Slots::new(10, |slot| slot < 8);
            slots.hold();
            slots.copy_needs(&(0..8).fold(SlotSet::empty(10), |mut needed, slot| {
                needed.insert(slot);
                needed
            }));
            left.iter().for_each(|slot| slots.leave(*slot, Lsn(0)));
            slots.settle(Lsn(0));
            assert_eq!(copy_all(&mut slots), order, "{left:?}");
            assert_eq!((slots.free_count(), slots.leaving_count()), (2 + left.len() as u64, 0));
        }
    }

    #[test]
    fn a_slot_that_a_copy_needs_becomes_free_once_it_is_copied() {
        let mut slots = slots();
        slots.hold();
        (0..3).for_each(|slot| slots.leave(slot, Lsn(u64::from(slot))));
        slots.settle(Lsn(9));
        assert_eq!((slots.free_count(), slots.leaving_count()), (4, 3));
        let mut needed = SlotSet::empty(10);
        [1, 2, 4, 5].into_iter().for_each(|slot| needed.insert(slot));
        slots.copy_needs(&needed);
        assert_eq!((slots.free_count(), slots.leaving_count()), (5, 2), "it needs no slot 0");
        assert_eq!(copy_all(&mut slots), [1, 2, 4, 5]);
        assert_eq!((slots.free_count(), slots.leaving_count()), (7, 0));
        slots.leave(4, Lsn(10));
        slots.settle(Lsn(10));
        assert_eq!(slots.free_count(), 8, "it is copied");
    }

    #[test]
    fn slots_become_free_when_a_copy_ends_early() {
        let mut slots = slots();
        slots.hold();
        slots.leave(0, Lsn(0));
        slots.leave(1, Lsn(7));
        slots.settle(Lsn(3));
        assert!(slots.is_held() && slots.free_count() == 4);
        slots.let_go();
        assert_eq!((slots.free_count(), slots.leaving_count()), (5, 1));
        slots.settle(Lsn(7));
        assert_eq!(slots.leaving_count(), 0);
    }
}
