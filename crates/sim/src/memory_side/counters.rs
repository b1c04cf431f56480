//! [`Counters`]: what a memory counts.

use std::ops::AddAssign;

use ebbtide_core::{LINE_BYTES, PAGE_BYTES};
use serde::Serialize;

/// How often what happened, since the counters were last taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Accesses to resident pages.
    pub hits: u64,
    /// Accesses to pages that were on their way: they wait, but start no read.
    pub hits_under_miss: u64,
    /// Accesses that started a read from flash.
    pub misses: u64,
    /// Those of them to pages that were on their way, in a memory that does not merge them.
    pub repeated_reads: u64,
    /// Unwritten pages given up.
    pub evictions_clean: u64,
    /// Written pages given up, which go to flash.
    pub evictions_dirty: u64,
    /// Accesses that found the frontside stalled.
    pub stalls: u64,
    /// The most pages that were on their way at once.
    pub in_flight_peak: u64,
    /// Accesses to lines of resident pages that were not fetched with them: each started a read that
    /// is none of `misses`. Only of a DRAM cache that fetches footprints.
    pub underpredictions: u64,
    /// Bytes fetched from flash into such a DRAM cache, which has whole pages sent otherwise.
    pub refilled_bytes: u64,
    /// Bytes read and written within DRAM, to keep a copy.
    pub copied_bytes: u64,
    /// Bytes written into and read from the flash device's own DRAM.
    pub device_dram_bytes: u64,
    /// Lines that the chip read from host DRAM, and looks at tags there.
    pub dram_lines: u64,
    /// Pages written into host DRAM, whole or in part, copies apart.
    pub dram_pages_in: u64,
    /// Lines of those.
    pub dram_page_lines_in: u64,
    /// Pages read from host DRAM, whole or in part, copies apart.
    pub dram_pages_out: u64,
    /// Lines of those.
    pub dram_page_lines_out: u64,
    /// Bytes of data over the link between host and flash, either way.
    pub link_bytes: u64,
    /// Pages that began to move from the device to host DRAM.
    pub promotions: u64,
    /// Pages that should have, but for which there was no room.
    pub promotions_dropped: u64,
    /// Promoted pages given up.
    pub demotions: u64,
    /// Those of them that went to flash.
    pub demotions_written: u64,
    /// Stores that were durable when the core went on.
    pub durable_writes: u64,
    /// Written pages of a device's cache that went to flash with their blocks.
    pub pages_cleaned: u64,
    /// Other pages of those blocks, which were read and written again with them.
    pub pages_carried: u64,
    /// Pages that a write or a collection left elsewhere in flash than page tables said.
    pub pages_moved_in_flash: u64,
    /// Accesses that the device served by an old place.
    pub redirected: u64,
    /// Interrupts that had the host mend its page tables, a batch each.
    pub page_tables_mended: u64,
}

/// What moved between host DRAM and a flash device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// To host DRAM.
    pub(crate) came: Pages,
    /// From it.
    pub(crate) went: Pages,
}

/// So many pages, whole or in part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    pub(crate) count: u64,
    pub(crate) lines: u64,
}

impl Pages {
    /// So many whole ones.
    pub(crate) fn whole(count: u64) -> Pages {
        Pages { count, lines: count * (PAGE_BYTES / LINE_BYTES) as u64 }
    }

    /// What was moved of them.
    pub(crate) fn bytes(self) -> u64 {
        self.lines * LINE_BYTES as u64
    }
}

impl AddAssign for Pages {
    fn add_assign(&mut self, more: Pages) {
        self.count += more.count;
        self.lines += more.lines;
    }
}

impl Counters {
    /// Pages that left the cache in front of flash, to make room or for host DRAM.
    pub fn left(&self) -> u64 {
        self.evictions_clean + self.evictions_dirty + self.promotions
    }

    /// Counts transfers over the link, to host DRAM and from it.
    pub(crate) fn moved(&mut self, Moved { came, went }: Moved) {
        self.dram_pages_in += came.count;
        self.dram_page_lines_in += came.lines;
        self.dram_pages_out += went.count;
        self.dram_page_lines_out += went.lines;
        self.link_bytes += came.bytes() + went.bytes();
    }
}
