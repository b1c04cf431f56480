//! CLOCK: FIFO that gives a touched page a second chance (Corbató, MIT Project MAC 1968).

use serde::{Deserialize, Serialize};

use super::eviction_order::EvictionOrder;
use super::{Frames, Geometry, Replacement};
use crate::addr::{FrameId, PageId};
use crate::archive::Archive;

/// A ring for each set, as an order with the hand at its front. A frame that the hand passes moves
/// to the back.
#[derive(Serialize, Deserialize)]
pub(super) struct Clock {
    geometry: Geometry,
    rings: EvictionOrder,
    /// Frames in each ring.
    known: Vec<usize>,
}

impl Clock {
    pub(super) fn new(geometry: Geometry) -> Clock {
        Clock { geometry, rings: EvictionOrder::new(geometry), known: vec![0; geometry.sets] }
    }

    pub(super) fn memory_bytes(geometry: Geometry) -> usize {
        size_of::<Clock>()
            + EvictionOrder::memory_bytes(geometry)
            + geometry.sets * size_of::<usize>()
    }
}

impl Replacement for Clock {
    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.rings.push_back(frame);
        self.known[self.geometry.set_of(frame)] += 1;
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let known = self.known[set];
        for step in 0..2 * known {
            let frame = self.rings.front(set)?;
            // The first turn clears every mark. The second takes the first frame it finds, so that
            // hits that arrive in between cannot keep the hand turning.
            let second_turn = step >= known;
            if !frames.is_pinned(frame) && (frames.take_touches(frame) == 0 || second_turn) {
                self.remove(frame);
                return Some(frame);
            }
            self.rings.move_to_back(frame);
        }
        None
    }

    fn remove(&mut self, frame: FrameId) {
        self.rings.remove(frame);
        self.known[self.geometry.set_of(frame)] -= 1;
    }

    fn state(&mut self, archive: &mut Archive<'_>) {
        archive.part(self);
    }
}
