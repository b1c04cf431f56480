//! Counters, wear and lifetime of a device.

use ebbtide_core::{PAGE_BYTES, Span};
use serde::Serialize;

/// Counters of a device since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Completed reads, those from the write buffer included.
    pub reads: u64,
    /// Reads served from the write buffer.
    pub buffer_reads: u64,
    /// Host writes of 4 KiB that were programmed to flash.
    pub writes: u64,
    /// Pages of 4 KiB programmed for the host, padding included.
    pub host_pages_programmed: u64,
    /// Pages of 4 KiB programmed by collections, padding included.
    pub gc_pages_programmed: u64,
    /// Valid pages of 4 KiB that collections moved.
    pub gc_pages_moved: u64,
    /// Blocks erased. Each erasure ends a collection.
    pub erases: u64,
    /// Reads that waited for a collection.
    pub reads_blocked_by_gc: u64,
    /// Writes whose program waited for a collection.
    pub writes_blocked_by_gc: u64,
    /// Total time that reads waited for planes and channels.
    pub read_queued: Span,
    /// Total time that writes waited in the write buffer and for planes and channels.
    pub write_queued: Span,
    /// Operations that were suspended for reads.
    pub suspensions: u64,
    /// Total time that planes spent on collections.
    pub gc_busy: Span,
    /// Total time of all commands between submission and completion. Divided by the elapsed time,
    /// it is the mean queue depth.
    pub commands_time: Span,
}

impl Counters {
    /// Returns the pages programmed, padding included, per page that the host wrote; 1 if it wrote
    /// none.
    pub fn write_amplification(&self) -> f64 {
        if self.writes == 0 {
            return 1.0;
        }
        (self.host_pages_programmed + self.gc_pages_programmed) as f64 / self.writes as f64
    }

    /// Returns the share of reads that waited for a collection, from 0 to 1; 0 without reads.
    pub fn read_share_blocked_by_gc(&self) -> f64 {
        share(self.reads_blocked_by_gc, self.reads)
    }

    /// Returns the share of all commands that waited for a collection, from 0 to 1; 0 without
    /// commands (claims AS39, AS40).
    pub fn share_blocked_by_gc(&self) -> f64 {
        let blocked = self.reads_blocked_by_gc + self.writes_blocked_by_gc;
        share(blocked, self.reads + self.writes)
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Counters of one drive since the start. Over all drives they add up to the device's
/// [`Counters`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DriveCounters {
    /// Completed reads, those from the write buffer included.
    pub reads: u64,
    /// Host writes of 4 KiB that were programmed to flash.
    pub writes: u64,
    /// Blocks erased.
    pub erases: u64,
}

impl DriveCounters {
    /// Returns the counts since an `earlier` time of the same drive.
    pub fn since(self, earlier: DriveCounters) -> DriveCounters {
        DriveCounters {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            erases: self.erases - earlier.erases,
        }
    }
}

/// Wear of the blocks of a device since the start. Ageing before the start does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wear {
    /// Erasures of the most erased block.
    pub erases_max: u32,
    /// Mean erasures of a block, over all blocks of the device.
    pub erases_mean: f64,
}

/// How long a device lasts at its rate of writes: its rated erasures divided by the erasures per
/// time, with level wear. The formula is that of the CXL-flash paper's simulator (ATC'23).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lifetime {
    hours: f64,
}

impl Lifetime {
    /// Returns the lifetime of `raw_bytes` of flash that endure `cycles` erasures, if `pages` pages
    /// of 4 KiB are programmed every `elapsed`. Infinite if `pages` is 0.
    pub fn new(raw_bytes: u64, cycles: u32, pages: u64, elapsed: Span) -> Lifetime {
        let endured = raw_bytes as f64 * f64::from(cycles);
        let seconds = elapsed.as_ps() as f64 * 1e-12;
        Lifetime { hours: endured * seconds / (pages as f64 * PAGE_BYTES as f64) / 3600.0 }
    }

    /// Returns the lifetime in years of 2,080 hours: the CXL-flash paper's working year of 52 weeks
    /// of 40 hours.
    pub fn working_years(&self) -> f64 {
        self.hours / 2080.0
    }

    /// Returns the lifetime in calendar years of 365.25 days.
    pub fn years(&self) -> f64 {
        self.hours / (365.25 * 24.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_agree_with_the_published_examples() {
        // The CXL-flash paper: Radiosity, 1.0 M writes in 113.6 s, 407 years; Page Rank, 25.7 M in
        // 22.2 s, 3.1.
        let radiosity = Lifetime::new(1 << 40, 100_000, 1_000_000, Span::from_us(113_600_000));
        assert!((radiosity.working_years() - 407.0).abs() < 1.0, "{radiosity:?}");
        let page_rank = Lifetime::new(1 << 40, 100_000, 25_700_000, Span::from_us(22_200_000));
        assert!((page_rank.working_years() - 3.1).abs() < 0.05, "{page_rank:?}");
        assert!((page_rank.years() - 0.74).abs() < 0.01, "{page_rank:?}");
    }

    #[test]
    fn what_is_not_written_lasts_for_ever() {
        assert!(Lifetime::new(1 << 40, 3000, 0, Span::from_us(1)).years().is_infinite());
        assert_eq!(Counters::default().write_amplification(), 1.0);
        assert_eq!(Counters::default().share_blocked_by_gc(), 0.0);
    }
}
