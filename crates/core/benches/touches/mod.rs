//! A cache as its replacement policy sees it, for measuring policies. It has the touches of each
//! frame; no frame is dirty or pinned.

use ebbtide_core::FrameId;
use ebbtide_core::replacement::{Frames, TOUCHES_MAX};

/// How often each frame was hit since the policy last asked.
pub(crate) struct Touches(Vec<u8>);

impl Touches {
    /// Touches of a cache with `frames` frames; none yet.
    pub(crate) fn new(frames: usize) -> Touches {
        Touches(vec![0; frames])
    }

    /// Counts a hit.
    pub(crate) fn hit(&mut self, frame: FrameId) {
        let touches = &mut self.0[frame.index()];
        *touches = (*touches + 1).min(TOUCHES_MAX);
    }

    /// Forgets the hits of the page that was in the frame.
    pub(crate) fn clear(&mut self, frame: FrameId) {
        self.0[frame.index()] = 0;
    }
}

impl Frames for Touches {
    fn take_touches(&mut self, frame: FrameId) -> u8 {
        std::mem::take(&mut self.0[frame.index()])
    }

    fn is_dirty(&self, _frame: FrameId) -> bool {
        false
    }

    fn is_pinned(&self, _frame: FrameId) -> bool {
        false
    }
}
