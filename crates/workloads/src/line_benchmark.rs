//! [`Lines`]: FlatFlash's microbenchmark, which touches 64 bytes at a time, in order or at random
//! (ASPLOS'19 §5.1).

use ebbtide_core::{Addr, LINE_BYTES, Memory, PAGE_BYTES, PageId};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::{Workload, Wrong};

/// Lines that a job touches, as many as a page has.
const LINES: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// Reads or writes lines. A job touches as many as a page has. Every word holds its own address,
/// which readers check.
#[derive(Debug, Clone)]
pub struct Lines {
    /// Size of the image in pages.
    pub pages: u64,
    /// Whether lines are chosen at random instead of in the order of addresses.
    pub random: bool,
    /// Whether lines are written instead of read.
    pub write: bool,
    /// Seed of the random choice.
    pub seed: u64,
}

impl Workload for Lines {
    fn size_bytes(&self) -> u64 {
        self.pages * PAGE_BYTES as u64
    }

    fn image(&self, page: PageId, out: &mut [u8; PAGE_BYTES]) {
        for (word, bytes) in (0..).zip(out.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&(page.start().0 + word * 8).to_le_bytes());
        }
    }

    fn run<M: Memory>(&self, job: u64, memory: &mut M) -> Result<(), Wrong> {
        let mut rng = Pcg64Mcg::seed_from_u64(self.seed ^ job.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let lines = self.pages * LINES;
        for step in 0..LINES {
            let line = match self.random {
                true => rng.random_range(0..lines),
                false => (job * LINES + step) % lines,
            };
            let at = Addr(line * LINE_BYTES as u64);
            if self.write {
                memory.store(at, at.0);
            } else if memory.load::<u64>(at) != at.0 {
                return Err(Wrong(format!("the line at {at:?} does not hold its address")));
            }
        }
        Ok(())
    }

    fn writes(&self) -> bool {
        self.write
    }
}
