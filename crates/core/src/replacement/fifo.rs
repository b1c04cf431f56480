//! FIFO: gives up the page that was installed longest ago (Belady, IBM Systems Journal 1966).

use serde::{Deserialize, Serialize};

use super::eviction_order::EvictionOrder;
use super::{Frames, Geometry, Replacement};
use crate::addr::{FrameId, PageId};
use crate::archive::Archive;

/// First in, first out: the oldest in front.
#[derive(Serialize, Deserialize)]
pub(super) struct Fifo {
    queues: EvictionOrder,
}

impl Fifo {
    pub(super) fn new(geometry: Geometry) -> Fifo {
        Fifo { queues: EvictionOrder::new(geometry) }
    }

    pub(super) fn memory_bytes(geometry: Geometry) -> usize {
        size_of::<Fifo>() + EvictionOrder::memory_bytes(geometry)
    }
}

impl Replacement for Fifo {
    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.queues.push_back(frame);
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let oldest = self.queues.iter(set).find(|&frame| !frames.is_pinned(frame))?;
        self.queues.remove(oldest);
        Some(oldest)
    }

    fn remove(&mut self, frame: FrameId) {
        self.queues.remove(frame);
    }

    fn state(&mut self, archive: &mut Archive<'_>) {
        archive.part(self);
    }
}
