//! LRU: gives up the page that was used longest ago (Belady, IBM Systems Journal 1966). Exact, so
//! it must be told of every hit.

use super::list::Lists;
use super::{Frames, Geometry, Position, Replacement};
use crate::addr::{FrameId, PageId};

/// Least recently used: a list a set, least recent in front.
#[derive(Clone)]
pub(super) struct Lru {
    geometry: Geometry,
    by_recency: Lists,
}

impl Lru {
    pub(super) fn new(geometry: Geometry) -> Lru {
        Lru { geometry, by_recency: Lists::new(geometry.frames(), geometry.sets) }
    }

    pub(super) fn memory_bytes(geometry: Geometry) -> usize {
        size_of::<Lru>() + Lists::memory_bytes(geometry.frames(), geometry.sets)
    }
}

impl Replacement for Lru {
    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.by_recency.push_back(self.geometry.set_of(frame), frame);
    }

    fn insert_ahead(&mut self, frame: FrameId, page: PageId, at: Position) {
        if at == Position::MostRecent {
            return self.insert(frame, page);
        }
        let (set, before) = (self.geometry.set_of(frame), at.behind(self.geometry.ways));
        self.by_recency.insert_behind(set, before, frame);
    }

    fn touch(&mut self, frame: FrameId) {
        self.by_recency.move_to_back(self.geometry.set_of(frame), frame);
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let least_recent = self.by_recency.iter(set).find(|&frame| !frames.is_pinned(frame))?;
        self.by_recency.remove(least_recent);
        Some(least_recent)
    }

    fn remove(&mut self, frame: FrameId) {
        self.by_recency.remove(frame);
    }
}
