//! CFLRU: clean-first LRU (Park et al., CASES 2006). It gives up clean pages before dirty ones that
//! were used about as long ago, to save flash writes. Exact, so it must see every hit.

use serde::{Deserialize, Serialize};

use super::eviction_order::EvictionOrder;
use super::{Frames, Geometry, Position, Replacement};
use crate::addr::{FrameId, PageId};
use crate::archive::Archive;

/// The clean-first region is half a set, but at most this many frames (the ATC'23 CXL-flash study).
const WINDOW_MAX: usize = 4_096;

/// LRU whose victim is the least recent clean page of the clean-first region: the `window` least
/// recent frames of the set. When the region holds none, the least recent page of all.
#[derive(Serialize, Deserialize)]
pub(super) struct Cflru {
    geometry: Geometry,
    window: usize,
    by_recency: EvictionOrder,
}

impl Cflru {
    pub(super) fn new(geometry: Geometry) -> Cflru {
        let window = if geometry.ways < WINDOW_MAX { geometry.ways / 2 } else { WINDOW_MAX };
        Cflru { geometry, window, by_recency: EvictionOrder::new(geometry) }
    }

    pub(super) fn memory_bytes(geometry: Geometry) -> usize {
        size_of::<Cflru>() + EvictionOrder::memory_bytes(geometry)
    }
}

impl Replacement for Cflru {
    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.by_recency.push_back(frame);
    }

    fn insert_ahead(&mut self, frame: FrameId, _page: PageId, at: Position) {
        self.by_recency.insert_behind(at.behind(self.geometry.ways), frame);
    }

    fn touch(&mut self, frame: FrameId) {
        self.by_recency.move_to_back(frame);
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let region = self.by_recency.iter(set).take(self.window);
        let clean = region.into_iter().find(|&f| !frames.is_pinned(f) && !frames.is_dirty(f));
        let victim =
            clean.or_else(|| self.by_recency.iter(set).find(|&frame| !frames.is_pinned(frame)))?;
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
