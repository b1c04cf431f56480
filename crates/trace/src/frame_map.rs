//! [`FrameMap`]: virtual to physical pages, as an operating system with fragmented memory assigns
//! them.

use ebbtide_core::PageId;
use rustc_hash::FxHashMap;

/// Assigns physical pages in runs when virtual pages are first touched. Neighbours in a run of
/// virtual pages are neighbours in memory, and runs lie in random order. Long runs model a freshly
/// started system, short runs a fragmented memory.
#[derive(Debug, Clone)]
pub struct FrameMap {
    run_pages: u64,
    /// The number of runs in memory, a power of two.
    runs: u64,
    seed: u64,
    /// Where each run of virtual pages lies.
    placed: FxHashMap<u64, u64>,
}

impl FrameMap {
    /// Returns the map of a memory of `frames` pages, assigned in runs of `run_pages` pages. `seed`
    /// selects the order of the runs.
    ///
    /// # Panics
    /// Unless both are powers of two and `run_pages` is at most `frames`.
    pub fn fragmented(frames: u64, run_pages: u64, seed: u64) -> FrameMap {
        let powers = frames.is_power_of_two() && run_pages.is_power_of_two();
        assert!(powers && run_pages <= frames, "{frames} frames in runs of {run_pages}");
        FrameMap { run_pages, runs: frames / run_pages, seed, placed: FxHashMap::default() }
    }

    /// Returns the physical page of `page`. Assigns its run if it has none. `None` if all runs of
    /// memory are assigned.
    pub fn frame(&mut self, page: PageId) -> Option<PageId> {
        let (run, within) = (page.0 / self.run_pages, page.0 % self.run_pages);
        let place = match self.placed.get(&run) {
            Some(place) => *place,
            None => {
                let number = self.placed.len() as u64;
                let place = (number < self.runs).then(|| self.shuffled(number))?;
                self.placed.insert(run, place);
                place
            }
        };
        Some(PageId(place * self.run_pages + within))
    }

    /// The place of the run that was assigned as number `number`. Each step is a bijection, so no
    /// two runs share a place.
    fn shuffled(&self, number: u64) -> u64 {
        let mask = self.runs - 1;
        let half = (self.runs.ilog2() / 2).max(1);
        let step = |at: u64, round: u64| {
            let key = self.seed.wrapping_add(round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let at = at.wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(key >> 7) & mask;
            at ^ at >> half
        };
        (0..4).fold(number, step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_pages_share_a_frame_and_memory_can_be_full() {
        for run_pages in [1, 4, 64] {
            let mut map = FrameMap::fragmented(64, run_pages, 3);
            let frames: Vec<_> =
                (1_000..2_000).step_by(1).map(|page| map.frame(PageId(page))).collect();
            let given: HashSet<_> = frames.iter().flatten().collect();
            // The first run may begin in the middle.
            assert!(given.len() as u64 >= 64 - run_pages && given.len() <= 64);
            assert_eq!(given.len(), frames.iter().flatten().count());
            assert!(given.iter().all(|frame| frame.0 < 64));
            assert_eq!(frames.last(), Some(&None));
        }
    }

    #[test]
    fn neighbours_stay_neighbours_within_a_run_alone() {
        let mut map = FrameMap::fragmented(1 << 20, 16, 1);
        let frames: Vec<u64> =
            (0..1 << 12).map(|page| map.frame(PageId(page)).unwrap().0).collect();
        let broken = frames.windows(2).filter(|pair| pair[1] != pair[0] + 1).count();
        assert!((240..=255).contains(&broken), "{broken}");
        assert_eq!(map.frame(PageId(7)).unwrap().0, frames[7]);
    }

    #[test]
    fn another_seed_is_another_memory() {
        let frames = |seed| {
            let mut map = FrameMap::fragmented(1 << 16, 1, seed);
            (0..100).map(|page| map.frame(PageId(page)).unwrap().0).collect::<Vec<_>>()
        };
        assert_ne!(frames(1), frames(2));
        assert_eq!(frames(1), frames(1));
    }
}
