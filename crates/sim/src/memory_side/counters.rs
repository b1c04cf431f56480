//! [`Counters`]: the counters of a memory.

use ebbtide_core::LINE_BYTES;
use serde::Serialize;

/// Events of a memory since its counters were last taken. The counters of a part that it does not
/// have stay zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// The cache of pages in front of flash.
    #[serde(flatten)]
    pub cache: CacheCounters,
    /// A cache that fetches footprints.
    #[serde(flatten)]
    pub footprints: FootprintCounters,
    /// Host DRAM, the device's DRAM and the link between them.
    #[serde(flatten)]
    pub traffic: TrafficCounters,
    /// A log of written lines.
    #[serde(flatten)]
    pub log: LogCounters,
    /// Promotion to host DRAM.
    #[serde(flatten)]
    pub promotion: PromotionCounters,
    /// A device whose cache is durable.
    #[serde(flatten)]
    pub durability: DurabilityCounters,
    /// Page tables that point into flash.
    #[serde(flatten)]
    pub relocation: RelocationCounters,
}

/// Counters of a cache of pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CacheCounters {
    /// Accesses to resident pages.
    pub hits: u64,
    /// Accesses to pages in flight. They wait and start no read.
    pub hits_under_miss: u64,
    /// Accesses that started a read of a page from flash.
    pub misses: u64,
    /// Misses that no access waits for. A dirty line left the chip, and its page was absent.
    pub write_back_misses: u64,
    /// Pages that the operating system read in addition to the requested ones.
    pub read_ahead: u64,
    /// Misses on pages in flight, in a memory that does not merge them.
    pub repeated_reads: u64,
    /// Clean pages evicted.
    pub evictions_clean: u64,
    /// Dirty pages evicted, which are written to flash.
    pub evictions_dirty: u64,
    /// Accesses that memory did not accept.
    pub stalls: u64,
    /// The most pages in flight at once.
    pub in_flight_peak: u64,
}

/// Counters of a cache that fetches footprints instead of whole pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FootprintCounters {
    /// Accesses to absent lines of resident pages. Each started a read, and that read is not among
    /// the misses.
    pub underpredictions: u64,
    /// Bytes fetched from flash.
    pub refilled_bytes: u64,
}

/// Data that moves through DRAM and over the link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct TrafficCounters {
    /// Bytes read and written within host DRAM to make copies.
    pub copied_bytes: u64,
    /// Bytes written into and read from the flash device's own DRAM.
    pub device_dram_bytes: u64,
    /// Lines that the chip read from host DRAM or wrote back to it, and tag lookups there.
    pub dram_lines: u64,
    /// Pages written into host DRAM, in whole or in part, without copies.
    pub dram_pages_in: u64,
    /// Lines of `dram_pages_in`.
    pub dram_page_lines_in: u64,
    /// Pages read from host DRAM, in whole or in part, without copies.
    pub dram_pages_out: u64,
    /// Lines of `dram_pages_out`.
    pub dram_page_lines_out: u64,
    /// Bytes of data over the link between host and flash, in both directions.
    pub link_bytes: u64,
}

/// Counters of a log of written lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct LogCounters {
    /// Lines appended.
    pub log_appends: u64,
    /// Appended lines that replace an older version in the log.
    pub log_rewrites: u64,
    /// Reads of lines whose page was not cached and that the log held.
    pub log_reads: u64,
    /// Pages that compaction read from flash, to merge lines into them.
    pub log_pages_read: u64,
    /// Pages that compaction wrote to flash.
    pub log_pages_written: u64,
    /// Lines merged into `log_pages_written`.
    pub log_lines_merged: u64,
}

/// Counters of promotion to host DRAM.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PromotionCounters {
    /// Pages that began to move from the device to host DRAM.
    pub promotions: u64,
    /// Promotions dropped because the look-aside buffer or host DRAM was full.
    pub promotions_dropped: u64,
    /// Promoted pages evicted.
    pub demotions: u64,
    /// Demoted pages written to flash.
    pub demotions_written: u64,
}

/// Counters of a device whose cache is durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct DurabilityCounters {
    /// Stores that were durable when the core went on.
    pub durable_writes: u64,
    /// Dirty pages of the device's cache written to flash with their blocks.
    pub pages_cleaned: u64,
    /// Other pages of those blocks, read and written with them.
    pub pages_carried: u64,
}

/// Counters of a device that moves pages while page tables point to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RelocationCounters {
    /// Pages that a write or a garbage collection moved in flash.
    pub pages_moved_in_flash: u64,
    /// Accesses through a stale page-table entry.
    pub redirected: u64,
    /// Interrupts that made the host update a batch of page-table entries.
    pub page_tables_mended: u64,
}

impl CacheCounters {
    /// Pages evicted.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions_clean + self.evictions_dirty
    }
}

impl Counters {
    /// Pages that entered the cache in front of flash.
    pub(crate) fn came(&self) -> u64 {
        self.cache.misses + self.cache.read_ahead
    }

    /// Pages that left the cache in front of flash, evicted or promoted.
    pub(crate) fn left(&self) -> u64 {
        self.cache.evictions() + self.promotion.promotions
    }
}

impl TrafficCounters {
    /// Adds `count` pages that came over the link into host DRAM, with `lines` lines in all.
    pub(super) fn pages_in(&mut self, count: u64, lines: u64) {
        self.dram_pages_in += count;
        self.dram_page_lines_in += lines;
        self.link_bytes += lines * LINE_BYTES as u64;
    }

    /// Adds `count` pages that went over the link out of host DRAM, with `lines` lines in all.
    pub(super) fn pages_out(&mut self, count: u64, lines: u64) {
        self.dram_pages_out += count;
        self.dram_page_lines_out += lines;
        self.link_bytes += lines * LINE_BYTES as u64;
    }
}
