//! LRU: gives up the page that was used longest ago (Belady, IBM Systems Journal 1966). Exact, so
//! it must see every hit.

use serde::{Deserialize, Serialize};

use super::eviction_order::EvictionOrder;
use super::{Frames, Geometry, Position, Replacement};
use crate::addr::{FrameId, PageId};
use crate::archive::Archive;

/// Least recently used: the least recent in front.
#[derive(Serialize, Deserialize)]
pub(super) struct Lru {
    geometry: Geometry,
    by_recency: EvictionOrder,
}

impl Lru {
    pub(super) fn new(geometry: Geometry) -> Lru {
        Lru { geometry, by_recency: EvictionOrder::new(geometry) }
    }

    pub(super) fn memory_bytes(geometry: Geometry) -> usize {
        size_of::<Lru>() + EvictionOrder::memory_bytes(geometry)
    }
}

impl Replacement for Lru {
    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.by_recency.push_back(frame);
    }

    fn insert_ahead(&mut self, frame: FrameId, _page: PageId, at: Position) {
        self.by_recency.insert_behind(at.behind(self.geometry.ways), frame);
    }

    fn touch(&mut self, frame: FrameId) {
        self.by_recency.move_to_back(frame);
    }

    fn expect(&self, set: usize) {
        self.by_recency.expect(set);
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let least_recent = self.by_recency.iter(set).find(|&frame| !frames.is_pinned(frame))?;
        self.by_recency.remove(least_recent);
        Some(least_recent)
    }

    fn remove(&mut self, frame: FrameId) {
        self.by_recency.remove(frame);
    }

    fn state(&mut self, archive: &mut Archive<'_>) {
        archive.part(self);
    }
}
