//! Last in, first out: gives up the page that was installed last.

use serde::{Deserialize, Serialize};

use super::{Frames, Geometry, Replacement};
use crate::addr::{FrameId, PageId};
use crate::archive::Archive;

/// A stack of frames for each set.
#[derive(Serialize, Deserialize)]
pub(super) struct LastInFirstOut {
    geometry: Geometry,
    stacks: Vec<Vec<FrameId>>,
}

impl LastInFirstOut {
    pub(super) fn new(geometry: Geometry) -> LastInFirstOut {
        let stacks = vec![Vec::with_capacity(geometry.ways); geometry.sets];
        LastInFirstOut { geometry, stacks }
    }

    pub(super) fn memory_bytes(geometry: Geometry) -> usize {
        let stack = size_of::<Vec<FrameId>>() + geometry.ways * size_of::<FrameId>();
        size_of::<LastInFirstOut>() + geometry.sets * stack
    }
}

impl Replacement for LastInFirstOut {
    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.stacks[self.geometry.set_of(frame)].push(frame);
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let stack = &mut self.stacks[set];
        let last = stack.iter().rposition(|frame| !frames.is_pinned(*frame))?;
        Some(stack.remove(last))
    }

    fn remove(&mut self, frame: FrameId) {
        self.stacks[self.geometry.set_of(frame)].retain(|known| *known != frame);
    }

    fn state(&mut self, archive: &mut Archive<'_>) {
        archive.part(self);
    }
}
