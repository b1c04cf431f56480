//! [`Slots`]: which places on flash are free, and which will be once the log is on the device.

use std::collections::VecDeque;

use super::Lsn;
use crate::placement::{Placement, Run};

/// The slots of the persist part.
///
/// The slot that a page leaves stays as it is until the record of the page's next place is on the
/// device: a crash before that goes back to it.
#[derive(Debug)]
pub(super) struct Slots {
    placement: Placement,
    /// Slots that are free once the log is on the device up to a place; in the order of those.
    leaving: VecDeque<(Lsn, u32)>,
    /// While the store is copied: how many may be leaving before that is given up.
    held_max: Option<usize>,
}

impl Slots {
    /// `slots` slots, of which those that `is_used` names hold a page.
    pub(super) fn new(slots: u64, is_used: impl Fn(u32) -> bool) -> Slots {
        let mut placement = Placement::new(slots, slots);
        (0..slots as u32).filter(|&slot| !is_used(slot)).for_each(|slot| placement.release(slot));
        Slots { placement, leaving: VecDeque::new(), held_max: None }
    }

    /// Takes a run of at most `count_max` free slots.
    pub(super) fn take(&mut self, count_max: u32) -> Option<Run> {
        self.placement.take(count_max)
    }

    /// Takes a run of free slots for groups of these sizes, as [`Placement::take_for`] does.
    pub(super) fn take_for(&mut self, groups: &[u32]) -> Option<Run> {
        self.placement.take_for(groups)
    }

    /// A page has left `slot`, as the record that ends at `end` says.
    pub(super) fn leave(&mut self, slot: u32, end: Lsn) {
        debug_assert!(self.leaving.back().is_none_or(|&(last, _)| last <= end));
        self.leaving.push_back((end, slot));
        self.held_max = self.held_max.filter(|max| self.leaving.len() <= *max);
    }

    /// The log is on the device up to `durable`.
    pub(super) fn settle(&mut self, durable: Lsn) {
        if self.held_max.is_none() {
            self.free_up_to(durable);
        }
    }

    /// As [`settle`](Slots::settle), also while slots are held.
    pub(super) fn free_up_to(&mut self, durable: Lsn) {
        while let Some((_, slot)) = self.leaving.pop_front_if(|(end, _)| *end <= durable) {
            self.placement.release(slot);
        }
    }

    /// From now on no slot that a page leaves becomes free, until more than `max` of them wait.
    pub(super) fn hold(&mut self, max: usize) {
        self.held_max = Some(max);
    }

    /// Whether slots are still held.
    pub(super) fn is_held(&self) -> bool {
        self.held_max.is_some()
    }

    /// Holds them no longer.
    pub(super) fn let_go(&mut self, durable: Lsn) {
        self.held_max = None;
        self.settle(durable);
    }

    /// `slot` was taken and holds nothing that is needed.
    pub(super) fn release(&mut self, slot: u32) {
        self.placement.release(slot);
    }

    /// `slot` could not be written.
    pub(super) fn retire(&mut self, slot: u32) {
        self.placement.retire(slot);
    }

    /// Free slots.
    pub(super) fn free_count(&self) -> u64 {
        self.placement.free_count()
    }

    /// Whether most of the slots without a page wait for a flush.
    pub(super) fn wants_flush(&self) -> bool {
        !self.is_held() && self.free_count() < self.leaving.len() as u64
    }

    /// Slots that will be free when the log is on the device.
    pub(super) fn leaving_count(&self) -> usize {
        self.leaving.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_slots_stay_until_they_are_let_go_or_too_many() {
        for let_go in [true, false] {
            let mut slots = Slots::new(10, |slot| slot < 6);
            assert_eq!(slots.free_count(), 4);
            slots.hold(2);
            (0..2).for_each(|slot| slots.leave(slot, Lsn(u64::from(slot))));
            slots.settle(Lsn(9));
            assert!(slots.is_held() && !slots.wants_flush());
            assert_eq!((slots.free_count(), slots.leaving_count()), (4, 2));
            if let_go {
                slots.let_go(Lsn(9));
            } else {
                slots.leave(2, Lsn(2));
                assert!(!slots.is_held(), "given up");
                slots.settle(Lsn(9));
            }
            assert_eq!(slots.leaving_count(), 0);
        }
    }
}
