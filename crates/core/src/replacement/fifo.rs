//! FIFO: gives up the page that was installed longest ago.

use std::collections::VecDeque;

use super::{Frames, Geometry, Replacement};
use crate::addr::{FrameId, PageId};

/// First in, first out, a queue a set.
pub(super) struct Fifo {
    geometry: Geometry,
    queues: Vec<VecDeque<FrameId>>,
}

impl Fifo {
    pub(super) fn new(geometry: Geometry) -> Fifo {
        let queue = || VecDeque::with_capacity(geometry.ways);
        Fifo { geometry, queues: (0..geometry.sets).map(|_| queue()).collect() }
    }

    pub(super) fn memory_bytes(geometry: Geometry) -> usize {
        geometry.sets * (size_of::<VecDeque<FrameId>>() + geometry.ways * size_of::<FrameId>())
    }
}

impl Replacement for Fifo {
    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.queues[self.geometry.set_of(frame)].push_back(frame);
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let queue = &mut self.queues[set];
        let oldest = queue.iter().position(|&frame| !frames.is_pinned(frame))?;
        queue.remove(oldest)
    }

    fn remove(&mut self, frame: FrameId) {
        self.queues[self.geometry.set_of(frame)].retain(|&known| known != frame);
    }
}
