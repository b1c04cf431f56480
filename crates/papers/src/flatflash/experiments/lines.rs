//! [`Lines`]: FlatFlash's microbenchmark, which touches 64 bytes after the other or at random
//! (ASPLOS'19 §5.1).

use ebbtide_core::{Addr, LINE_BYTES, Memory, PAGE_BYTES, PageId};
use ebbtide_workloads::{Workload, Wrong};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Lines that a job touches: a page's worth.
pub(super) const LINES: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// Reads or writes a line at a time, each in the order of addresses or any of them. A word of a line
/// holds its own address, which is checked.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    pub(super) pages: u64,
    pub(super) random: bool,
    pub(super) write: bool,
    pub(super) seed: u64,
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
