//! Admission: which pages may stay for long.
//!
//! FlatFlash moves a page to DRAM only once the page has enough accesses in the SSD's own small
//! cache. The CPU reads single lines from that cache (ASPLOS'19 §3.4). Software cannot do that: a
//! page must be in DRAM to be read at all. Only the decision of FlatFlash remains here. A new page
//! is *on probation*, in an eighth of the frames, which replaces the SSD's cache. Algorithm 1 may
//! promote it to the other frames, and the replacement policy manages those. Otherwise it leaves
//! before any of them.

use super::linked_lists::LinkedLists;
use super::{Frames, Geometry, PolicyKind, Replacement};
use crate::addr::{FrameId, PageId};
use crate::choice;
use crate::promotion::{Adaptive, Parameters, Reset};

/// One frame in this many is for pages on probation. This is an assumption: FlatFlash has two
/// caches of different sizes and no such share.
const PROBATION_SHARE: usize = 8;

choice! {
    /// The pages that a replacement policy manages.
    pub enum Admission as "admission" {
        /// Every page, as soon as it is installed.
        Always = "always",
        /// A page that FlatFlash's Algorithm 1 promotes (resets `windowed`).
        Adaptive = "adaptive",
    }
}

impl Admission {
    /// Returns an upper bound on the memory of this admission and `policy`, in bytes.
    pub fn memory_bytes(self, policy: PolicyKind, geometry: Geometry, pages: u64) -> usize {
        let own = match self {
            Admission::Always => 0,
            Admission::Adaptive => Probation::memory_bytes(geometry),
        };
        own + policy.memory_bytes(geometry, pages)
    }

    /// Builds this admission in front of `policy`, with no frame yet. The other arguments are as
    /// for [`PolicyKind::build`].
    ///
    /// # Panics
    /// If `geometry` has no frame.
    pub fn build(
        self,
        policy: PolicyKind,
        geometry: Geometry,
        pages: u64,
        seed: u64,
    ) -> Box<dyn Replacement> {
        let admitted = policy.build(geometry, pages, seed);
        match self {
            Admission::Always => admitted,
            Admission::Adaptive => {
                Box::new(Probation::new(admitted, policy.needs_every_hit(), geometry))
            }
        }
    }
}

/// Frames on probation, in a queue for each set. They leave before the frames of `admitted`.
struct Probation {
    geometry: Geometry,
    admitted: Box<dyn Replacement>,
    /// True if hits are reported as they happen, so they must not be collected as touches too.
    every_hit: bool,
    promotion: Adaptive,
    queues: LinkedLists,
    lengths: Vec<usize>,
    on_probation: Vec<bool>,
    page_of: Vec<PageId>,
}

impl Probation {
    fn new(admitted: Box<dyn Replacement>, every_hit: bool, geometry: Geometry) -> Probation {
        let frames = geometry.frames();
        Probation {
            geometry,
            admitted,
            every_hit,
            promotion: Adaptive::new(frames, Parameters::default(), Reset::Windowed),
            queues: LinkedLists::new(frames, geometry.sets),
            lengths: vec![0; geometry.sets],
            on_probation: vec![false; frames],
            page_of: vec![PageId(0); frames],
        }
    }

    fn memory_bytes(geometry: Geometry) -> usize {
        let count = size_of::<u64>();
        let per_frame = count + size_of::<bool>() + size_of::<PageId>();
        size_of::<Probation>()
            + LinkedLists::memory_bytes(geometry.frames(), geometry.sets)
            + geometry.frames() * per_frame
            + geometry.sets * size_of::<usize>()
    }

    fn leave(&mut self, frame: FrameId) {
        self.queues.remove(frame);
        self.lengths[self.geometry.set_of(frame)] -= 1;
        self.on_probation[frame.index()] = false;
        self.promotion.evict(frame);
    }

    /// Counts accesses to a page on probation. Promotes the page if that is due, and returns true
    /// if it did.
    fn count(&mut self, frame: FrameId, accesses: u8) -> bool {
        let promote = (0..accesses).any(|_| self.promotion.access(frame));
        if promote {
            self.leave(frame);
            self.admitted.insert(frame, self.page_of[frame.index()]);
        }
        promote
    }

    /// The oldest page on probation that was not touched since it was last looked at.
    fn victim_on_probation(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let length = self.lengths[set];
        for step in 0..2 * length {
            let frame = self.queues.front(set)?;
            if !frames.is_pinned(frame) {
                let touches = if self.every_hit { 0 } else { frames.take_touches(frame) };
                if self.count(frame, touches) {
                    continue;
                }
                // Hits that arrive during the search must not keep the queue turning.
                if touches == 0 || step >= length {
                    self.leave(frame);
                    return Some(frame);
                }
            }
            self.queues.move_to_back(set, frame);
        }
        None
    }
}

impl Replacement for Probation {
    fn insert(&mut self, frame: FrameId, page: PageId) {
        let set = self.geometry.set_of(frame);
        self.page_of[frame.index()] = page;
        self.on_probation[frame.index()] = true;
        self.queues.push_back(set, frame);
        self.lengths[set] += 1;
        // The access that missed.
        self.count(frame, 1);
    }

    fn touch(&mut self, frame: FrameId) {
        if !self.on_probation[frame.index()] {
            self.admitted.touch(frame);
        } else if !self.count(frame, 1) {
            self.queues.move_to_back(self.geometry.set_of(frame), frame);
        }
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let target = (self.geometry.ways / PROBATION_SHARE).max(1);
        let is_full = self.lengths[set] >= target;
        let first = if is_full { self.victim_on_probation(set, frames) } else { None };
        // Either part may hold nothing but pinned frames, and a search among those on probation may
        // promote all of them.
        first
            .or_else(|| self.admitted.victim(set, frames))
            .or_else(|| self.victim_on_probation(set, frames))
            .or_else(|| self.admitted.victim(set, frames))
    }

    fn recall(&self, pages: &[PageId]) {
        self.admitted.recall(pages);
    }

    fn look_around(&mut self, frames: &mut dyn Frames) {
        self.admitted.look_around(frames);
    }

    fn remove(&mut self, frame: FrameId) {
        if self.on_probation[frame.index()] {
            self.leave(frame);
        } else {
            self.admitted.remove(frame);
        }
    }
}
