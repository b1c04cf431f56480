//! [`RecoveryWork`]: an estimate of the work of a recovery, made before it.

use std::fmt;

use super::geometry::{Geometry, SUPERBLOCKS};

/// Reads a second for the estimate of time: those of a slow NVMe drive.
const READS_PER_S: f64 = 50_000.0;

/// The total reads and writes of a recovery. Known once the log was read for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecoveryWork {
    /// Pages with stores that are only in the log. Each is read at most once and written.
    pub pages: u64,
    /// Portions of pages that fit in the DRAM for recovery.
    pub portions: u64,
    /// Blocks of the log with records, and the next one. They are read once for each portion.
    pub log_blocks: u64,
    /// Blocks that are read once: superblocks, the base map, the log ring, and copies to check.
    pub once_blocks: u64,
}

impl RecoveryWork {
    pub(super) fn new(
        geometry: &Geometry,
        pages: usize,
        pages_at_once: usize,
        log_blocks: u64,
        copies: u64,
    ) -> RecoveryWork {
        RecoveryWork {
            pages: pages as u64,
            portions: pages.div_ceil(pages_at_once) as u64,
            log_blocks: log_blocks + 1,
            once_blocks: SUPERBLOCKS + geometry.base_blocks() + geometry.log_blocks + 1 + copies,
        }
    }

    /// Returns the most blocks that are read.
    pub fn reads_max(&self) -> u64 {
        self.once_blocks + self.portions * self.log_blocks + self.pages
    }
}

/// Writes the text for a progress bar.
impl fmt::Display for RecoveryWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reads, pages) = (self.reads_max(), self.pages);
        let seconds = reads as f64 / READS_PER_S;
        write!(
            f,
            "recovering {pages} pages with at most {reads} reads, {seconds:.1} s at 50,000 a second"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gibibyte_of_cache_is_recovered_in_ten_seconds() {
        // 16 GiB of pages and half as many spare ones, a log of 256 MiB that is half full.
        let geometry = Geometry { id: 1, pages: 4 << 20, slots: 6 << 20, log_blocks: 64 << 10 };
        let frames = 1 << 18;
        let work = RecoveryWork::new(&geometry, 250_000, frames / 2, 32 << 10, 0);
        assert_eq!(work.portions, 2);
        assert!(work.reads_max() < 400_000, "{work}");
        let said = "recovering 250000 pages with at most 389304 reads, 7.8 s at 50,000 a second";
        assert_eq!(work.to_string(), said);
    }
}
