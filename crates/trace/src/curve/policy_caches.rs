//! [`PolicyCaches`]: caches of chosen sizes under any replacement policy, simulated.

use ebbtide_core::replacement::{Frames, Geometry, PolicyKind, Replacement, TOUCHES_MAX};
use ebbtide_core::{FrameId, PageId};
use rustc_hash::FxHashMap;

use super::{Curve, Sample, Step, pages_of};
use crate::Access;

/// Caches of several sizes under one replacement policy of `core`, simulated in one pass.
///
/// With a sample of the pages, each cache is scaled down by the same factor. So time and memory
/// stay bounded (miniature simulations, Waldspurger et al., ATC'17).
pub struct PolicyCaches {
    sample: Sample,
    /// Numbers of pages in the order of their first access, since policies keep arrays of pages.
    ids: FxHashMap<PageId, u32>,
    caches: Vec<Cache>,
    accesses: u64,
}

impl PolicyCaches {
    /// Returns empty caches under the policy `kind`, one for each number of pages in `sizes`.
    /// `seed` is for policies that draw random numbers.
    pub fn new(kind: PolicyKind, sizes: &[u64], sample: Sample, seed: u64) -> PolicyCaches {
        let caches = sizes.iter().map(|&size| {
            let frames = ((size as f64 * sample.rate()).round() as usize).max(1);
            Cache::new(kind, size, frames, sample.pages().max(1), seed)
        });
        let ids = FxHashMap::default();
        PolicyCaches { sample, ids, caches: caches.collect(), accesses: 0 }
    }

    /// Runs `accesses` through all caches.
    ///
    /// # Panics
    /// When they touch more pages of the sample than the sample's number of pages.
    pub fn read(&mut self, accesses: &[Access]) {
        pages_of(accesses, |page, write| self.touch(page, write));
    }

    /// Runs an access to `page` through all caches.
    ///
    /// # Panics
    /// As [`read`](PolicyCaches::read).
    pub fn touch(&mut self, page: PageId, write: bool) {
        self.accesses += 1;
        if !self.sample.contains(page) {
            return;
        }
        let next = self.ids.len() as u32;
        let id = *self.ids.entry(page).or_insert(next);
        assert!(u64::from(id) < self.sample.pages(), "more pages than the sample has");
        self.caches.iter_mut().for_each(|cache| cache.access(id, write));
    }

    /// Returns the curve of the accesses counted so far, with a step for each size.
    pub fn curve(&self) -> Curve {
        let weight = 1.0 / self.sample.rate();
        let mut steps: Vec<Step> = self.caches.iter().map(|cache| cache.step(weight)).collect();
        steps.sort_by_key(|step| step.pages);
        let pages = self.ids.len() as f64 * weight;
        Curve { accesses: self.accesses, pages, cold: pages, steps }
    }
}

/// One cache.
struct Cache {
    size: u64,
    policy: Box<dyn Replacement>,
    needs_every_hit: bool,
    /// The frame of each page; [`ABSENT`] if the page is not cached.
    frame_of: Vec<u32>,
    page_in: Vec<u32>,
    marks: Marks,
    misses: u64,
    write_backs: u64,
}

const ABSENT: u32 = u32::MAX;

/// The state of each frame that the policy may read.
struct Marks {
    touches: Vec<u8>,
    dirty: Vec<bool>,
}

impl Frames for Marks {
    fn take_touches(&mut self, frame: FrameId) -> u8 {
        std::mem::take(&mut self.touches[frame.index()])
    }

    fn is_dirty(&self, frame: FrameId) -> bool {
        self.dirty[frame.index()]
    }

    fn is_pinned(&self, _frame: FrameId) -> bool {
        false
    }
}

impl Cache {
    fn new(kind: PolicyKind, size: u64, frames: usize, pages: u64, seed: u64) -> Cache {
        // More frames than pages would stay empty.
        let frames = frames.min(pages as usize);
        Cache {
            size,
            policy: kind.build(Geometry::fully_associative(frames), pages, seed),
            needs_every_hit: kind.needs_every_hit(),
            frame_of: vec![ABSENT; pages as usize],
            page_in: Vec::with_capacity(frames),
            marks: Marks { touches: vec![0; frames], dirty: vec![false; frames] },
            misses: 0,
            write_backs: 0,
        }
    }

    fn access(&mut self, page: u32, write: bool) {
        let frame = self.frame_of[page as usize];
        if frame != ABSENT {
            if self.needs_every_hit {
                self.policy.touch(FrameId(frame));
            }
            let touches = &mut self.marks.touches[frame as usize];
            *touches = (*touches + 1).min(TOUCHES_MAX);
            self.marks.dirty[frame as usize] |= write;
            return;
        }
        self.misses += 1;
        let frame = if self.page_in.len() < self.marks.dirty.len() {
            self.page_in.push(page);
            FrameId(self.page_in.len() as u32 - 1)
        } else {
            let victim = self.policy.victim(0, &mut self.marks).expect("no frame is pinned");
            let old = std::mem::replace(&mut self.page_in[victim.index()], page);
            self.frame_of[old as usize] = ABSENT;
            self.write_backs += u64::from(self.marks.dirty[victim.index()]);
            victim
        };
        self.frame_of[page as usize] = frame.0;
        self.marks.touches[frame.index()] = 0;
        self.marks.dirty[frame.index()] = write;
        self.policy.insert(frame, PageId(u64::from(page)));
        self.policy.look_around(&mut self.marks);
    }

    fn step(&self, weight: f64) -> Step {
        let misses = self.misses as f64 * weight;
        Step { pages: self.size, misses, write_backs: self.write_backs as f64 * weight }
    }
}
