//! LRU: gives up the page that was used longest ago (Belady, IBM Systems Journal 1966). CFLRU,
//! clean-first LRU, saves flash writes: among pages that were used about as long ago, clean ones
//! leave first (Park et al., CASES 2006). Both are exact, so they must see every hit.

use serde::{Deserialize, Serialize};

use super::eviction_order::EvictionOrder;
use super::{Frames, Geometry, Position, Replacement};
use crate::addr::{FrameId, PageId};
use crate::archive::Archive;

/// The clean-first region is half a set, but at most this many frames (the ATC'23 CXL-flash study).
const CLEAN_FIRST_MAX: usize = 4_096;

/// Least recently used: the least recent in front. The victim is the least recent clean page of the
/// clean-first region, the `clean_first` least recent frames of the set. When the region holds
/// none, it is the least recent page of all.
#[derive(Serialize, Deserialize)]
pub(super) struct Lru {
    geometry: Geometry,
    clean_first: usize,
    by_recency: EvictionOrder,
}

impl Lru {
    pub(super) fn new(geometry: Geometry) -> Lru {
        Lru { geometry, clean_first: 0, by_recency: EvictionOrder::new(geometry) }
    }

    /// CFLRU.
    pub(super) fn clean_first(geometry: Geometry) -> Lru {
        let few = geometry.ways < CLEAN_FIRST_MAX;
        let clean_first = if few { geometry.ways / 2 } else { CLEAN_FIRST_MAX };
        Lru { clean_first, ..Lru::new(geometry) }
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
        let mut region = self.by_recency.iter(set).take(self.clean_first);
        let clean = region.find(|&frame| !frames.is_pinned(frame) && !frames.is_dirty(frame));
        drop(region);
        let least_recent = || self.by_recency.iter(set).find(|&frame| !frames.is_pinned(frame));
        let victim = clean.or_else(least_recent)?;
        self.by_recency.remove(victim);
        Some(victim)
    }

    fn remove(&mut self, frame: FrameId) {
        self.by_recency.remove(frame);
    }

    fn state(&mut self, archive: &mut Archive<'_>) {
        archive.part(self);
    }
}
