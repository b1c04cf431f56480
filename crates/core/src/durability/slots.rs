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
}

impl Slots {
    /// `slots` slots, of which those that `is_used` names hold a page.
    pub(super) fn new(slots: u64, is_used: impl Fn(u32) -> bool) -> Slots {
        let mut placement = Placement::new(slots, slots);
        (0..slots as u32).filter(|&slot| !is_used(slot)).for_each(|slot| placement.release(slot));
        Slots { placement, leaving: VecDeque::new() }
    }

    /// Takes a run of at most `count_max` free slots.
    pub(super) fn take(&mut self, count_max: u32) -> Option<Run> {
        self.placement.take(count_max)
    }

    /// A page has left `slot`, as the record that ends at `end` says.
    pub(super) fn leave(&mut self, slot: u32, end: Lsn) {
        debug_assert!(self.leaving.back().is_none_or(|&(last, _)| last <= end));
        self.leaving.push_back((end, slot));
    }

    /// The log is on the device up to `durable`.
    pub(super) fn settle(&mut self, durable: Lsn) {
        while let Some((_, slot)) = self.leaving.pop_front_if(|(end, _)| *end <= durable) {
            self.placement.release(slot);
        }
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

    /// Slots that will be free when the log is on the device.
    pub(super) fn leaving_count(&self) -> usize {
        self.leaving.len()
    }
}
