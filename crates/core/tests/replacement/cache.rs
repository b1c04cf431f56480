//! A small cache that drives a replacement policy, for the tests of this folder.

use ebbtide_core::replacement::{Frames, Geometry, PolicyKind, Replacement, TOUCHES_MAX};
use ebbtide_core::{Archive, FrameId, PageId};

/// What the policy may ask of each frame.
#[derive(Clone)]
pub(crate) struct Marks {
    pub(crate) touches: Vec<u8>,
    pub(crate) dirty: Vec<bool>,
    pub(crate) pinned: Vec<bool>,
}

impl Frames for Marks {
    fn take_touches(&mut self, frame: FrameId) -> u8 {
        std::mem::take(&mut self.touches[frame.index()])
    }

    fn is_dirty(&self, frame: FrameId) -> bool {
        self.dirty[frame.index()]
    }

    fn is_pinned(&self, frame: FrameId) -> bool {
        self.pinned[frame.index()]
    }
}

/// A cache of `geometry`. Page `p` belongs to set `p mod sets`.
pub(crate) struct Cache {
    pub(crate) geometry: Geometry,
    pub(crate) marks: Marks,
    pub(crate) page_in: Vec<Option<PageId>>,
    needs_every_hit: bool,
    policy: Box<dyn Replacement>,
}

impl Cache {
    pub(crate) fn new(kind: PolicyKind, geometry: Geometry, pages: u64) -> Cache {
        Cache::with_policy(kind.build(geometry, pages, 1), kind.needs_every_hit(), geometry)
    }

    pub(crate) fn with_policy(
        policy: Box<dyn Replacement>,
        needs_every_hit: bool,
        geometry: Geometry,
    ) -> Cache {
        let frames = geometry.frames();
        Cache {
            geometry,
            marks: Marks {
                touches: vec![0; frames],
                dirty: vec![false; frames],
                pinned: vec![false; frames],
            },
            page_in: vec![None; frames],
            needs_every_hit,
            policy,
        }
    }

    /// The same cache under a new policy of `kind`, which is given the state of this one's.
    pub(crate) fn archived(&mut self, kind: PolicyKind, pages: u64) -> Cache {
        let bytes = Archive::bytes_of(|archive| self.policy.state(archive));
        let mut other = Cache::new(kind, self.geometry, pages);
        assert!(Archive::restore(&bytes, |archive| other.policy.state(archive)), "{kind}");
        (other.marks, other.page_in) = (self.marks.clone(), self.page_in.clone());
        other
    }

    pub(crate) fn set_of(&self, page: PageId) -> usize {
        page.index() % self.geometry.sets
    }

    pub(crate) fn frames_of(&self, set: usize) -> std::ops::Range<usize> {
        set * self.geometry.ways..(set + 1) * self.geometry.ways
    }

    pub(crate) fn frame_of(&self, page: PageId) -> Option<FrameId> {
        self.frames_of(self.set_of(page))
            .find(|&frame| self.page_in[frame] == Some(page))
            .map(|frame| FrameId(frame as u32))
    }

    /// Reads or writes `page`; whether it missed. With all frames of its set pinned, a miss leaves
    /// the page out.
    pub(crate) fn access(&mut self, page: PageId, write: bool) -> bool {
        if let Some(frame) = self.frame_of(page) {
            if self.needs_every_hit {
                self.policy.touch(frame);
            }
            let touches = &mut self.marks.touches[frame.index()];
            *touches = (*touches + 1).min(TOUCHES_MAX);
            self.marks.dirty[frame.index()] |= write;
            return false;
        }
        let set = self.set_of(page);
        let free = self.frames_of(set).find(|&frame| self.page_in[frame].is_none());
        if let Some(frame) = free.map(|frame| FrameId(frame as u32)).or_else(|| self.evict(set)) {
            self.page_in[frame.index()] = Some(page);
            self.marks.touches[frame.index()] = 0;
            self.marks.dirty[frame.index()] = write;
            self.policy.insert(frame, page);
            self.policy.look_around(&mut self.marks);
        }
        true
    }

    /// Has the policy give up a frame of `set`, checking that it may.
    pub(crate) fn evict(&mut self, set: usize) -> Option<FrameId> {
        let frames = self.frames_of(set);
        let may_go =
            |cache: &Cache, at: usize| cache.page_in[at].is_some() && !cache.marks.pinned[at];
        let Some(frame) = self.policy.victim(set, &mut self.marks) else {
            assert!(!frames.into_iter().any(|at| may_go(self, at)), "none given up of some");
            return None;
        };
        assert!(frames.contains(&frame.index()), "{frame:?} is not of set {set}");
        assert!(may_go(self, frame.index()), "{frame:?} is not known or pinned");
        self.page_in[frame.index()] = None;
        Some(frame)
    }

    /// Drops `page` if it is cached and not pinned.
    pub(crate) fn invalidate(&mut self, page: PageId) {
        if let Some(frame) = self.frame_of(page).filter(|frame| !self.marks.pinned[frame.index()]) {
            self.page_in[frame.index()] = None;
            self.policy.remove(frame);
        }
    }

    /// Misses among reads of `pages`.
    pub(crate) fn misses(&mut self, pages: impl IntoIterator<Item = u64>) -> usize {
        pages.into_iter().filter(|&page| self.access(PageId(page), false)).count()
    }
}
