//! [`Lines`]: FlatFlash's microbenchmark, which touches 64 bytes at a time, in order or at random
//! (ASPLOS'19 §5.1).

use std::ops::Range;

use ebbtide_core::{Addr, FullMemory, LINE_BYTES, PAGE_BYTES, PageId};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::{ALL_LINES, Corrupt, PageBytes, Workload};

/// Lines that a job touches, as many as a page has.
const LINES: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// Reads or writes the lines of pages that are spread over a file. The file is divided into equal
/// parts, and one random page of each is used. A job touches 64 lines, as many as a page has. Every
/// word holds its own address, so readers can check it.
#[derive(Debug, Clone)]
pub struct Lines {
    /// Number of pages that are touched.
    pub pages: u64,
    /// Number of pages of the file, a multiple of `pages`.
    pub file_pages: u64,
    /// True if lines are chosen at random, false if in the order of addresses.
    pub random: bool,
    /// True if lines are written, false if they are read.
    pub write: bool,
    /// Seed of the random choices.
    pub seed: u64,
}

impl Lines {
    /// The page of the file that the page `number` of those touched is.
    fn page(&self, number: u64) -> PageId {
        let stretch = self.file_pages / self.pages;
        let place = Pcg64Mcg::seed_from_u64(self.seed ^ number.wrapping_mul(SPREAD))
            .random_range(0..stretch);
        PageId(number * stretch + place)
    }
}

/// 2⁶⁴ divided by the golden ratio, whose multiples are well spread.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Workload for Lines {
    fn size_bytes(&self) -> u64 {
        self.file_pages * PAGE_BYTES as u64
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        let bytes = lines.start * LINE_BYTES..lines.end * LINE_BYTES;
        let first = page.start().0 + bytes.start as u64;
        for (at, bytes) in (first..).step_by(8).zip(out[bytes].as_chunks_mut::<8>().0) {
            *bytes = at.to_le_bytes();
        }
        lines
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        let mut rng = Pcg64Mcg::seed_from_u64(self.seed ^ job.wrapping_mul(SPREAD));
        let lines = self.pages * LINES;
        for step in 0..LINES {
            let line = match self.random {
                true => rng.random_range(0..lines),
                false => (job * LINES + step) % lines,
            };
            let at = self.page(line / LINES).start().0 + line % LINES * LINE_BYTES as u64;
            let at = Addr(at);
            if self.write {
                memory.store(at, at.0);
            } else if memory.load::<u64>(at) != at.0 {
                return Err(Corrupt(format!("the line at {at:?} does not hold its address")));
            }
        }
        Ok(())
    }

    fn writes(&self) -> bool {
        self.write
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_spread_over_the_file_and_keep_their_order() {
        let lines =
            |file_pages| Lines { pages: 100, file_pages, random: false, write: false, seed: 1 };
        let alone = lines(100);
        assert!((0..100).all(|number| alone.page(number) == PageId(number)));
        let spread = lines(12_800);
        let places: Vec<u64> = (0..100).map(|number| spread.page(number).0).collect();
        assert!(places.iter().zip(0..).all(|(place, number)| place / 128 == number));
        let low = places.iter().filter(|place| **place % 128 < 64).count();
        assert!((30..70).contains(&low), "{low} of a hundred in the lower half of their stretch");
    }
}
