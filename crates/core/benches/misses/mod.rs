//! Hits and misses in a warm cache, for measuring a policy's decisions.

use ebbtide_core::replacement::{Geometry, Replacement};
use ebbtide_core::{FrameId, PageId};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64;

use super::touches::Touches;

/// Pages of the address space for each frame.
pub(crate) const PAGES_A_FRAME: usize = 32;

/// Misses whose pages are announced to the policy before they are inserted, as the engine's cores
/// do with the misses of a turn.
const MISSES_A_TURN: usize = 32;

/// Hits between two misses; with Zipf's law and 3% of the pages cached, about three.
const HITS_A_MISS: usize = 3;

/// A cache with its policy, and the frames that are hit and the pages that are missed.
pub(crate) struct Misses {
    policy: Box<dyn Replacement>,
    geometry: Geometry,
    touches: Touches,
    hits: Vec<u32>,
    pages: Vec<PageId>,
    at: usize,
}

impl Misses {
    /// Fills a cache of `geometry` and warms it up. The stream repeats after at least `length`
    /// misses.
    pub(crate) fn new(
        mut policy: Box<dyn Replacement>,
        geometry: Geometry,
        length: usize,
    ) -> Misses {
        let frames = geometry.frames();
        let pages = (PAGES_A_FRAME * frames) as u64;
        let frame_rank = Zipf::new(frames as f64, 0.99).expect("valid parameters");
        // Drawn beforehand, so that only the policy is measured.
        let length = length.next_multiple_of(MISSES_A_TURN);
        let mut random = Pcg64::seed_from_u64(1);
        let hit = |_| frame_rank.sample(&mut random) as u32 - 1;
        let hits = (0..HITS_A_MISS * length).map(hit).collect();
        let mut random = Pcg64::seed_from_u64(2);
        let drawn = (0..length).map(|_| PageId(random.random_range(0..pages))).collect();
        for frame in 0..frames as u32 {
            policy.insert(FrameId(frame), PageId(u64::from(frame)));
        }
        let touches = Touches::new(frames);
        let mut misses = Misses { policy, geometry, touches, hits, pages: drawn, at: 0 };
        (0..Misses::warm_up(geometry)).for_each(|_| misses.step());
        misses
    }

    /// Returns the number of misses before the cache is warm.
    pub(crate) fn warm_up(geometry: Geometry) -> usize {
        4 * geometry.frames()
    }

    /// A few hits, then a miss.
    pub(crate) fn step(&mut self) {
        let at = self.at;
        let page = at % self.pages.len();
        if page.is_multiple_of(MISSES_A_TURN) {
            self.policy.recall(&self.pages[page..page + MISSES_A_TURN]);
        }
        for hit in 0..HITS_A_MISS {
            self.touches.hit(FrameId(self.hits[(HITS_A_MISS * at + hit) % self.hits.len()]));
        }
        let set = at % self.geometry.sets;
        let frame = self.policy.victim(set, &mut self.touches).expect("nothing is pinned");
        self.touches.clear(frame);
        self.policy.insert(frame, self.pages[page]);
        self.policy.look_around(&mut self.touches);
        self.at += 1;
    }
}
