//! Fig. 13: durable metadata in blocks and in small pieces (FlatFlash, ASPLOS'19 §3.5, §5.5).

use std::collections::{BTreeMap, HashMap};

use ebbtide_core::{LINE_BYTES, Span};
use ebbtide_workloads::file_metadata::{
    FILE_SYSTEMS, FileSystem, OPERATIONS, Operation, Piece, Places,
};
use serde::Serialize;

/// The times of a device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prices {
    /// Writing a page.
    pub(crate) page: Span,
    /// Posting a line.
    pub(crate) line: Span,
    /// The read that verifies a posted line.
    pub(crate) verify: Span,
}

/// FlatFlash (ASPLOS'19) Table 2, and §3.3 for the page (FL7, FL9). Software time is left out,
/// which favours blocks.
pub(crate) const PRICES: Prices =
    Prices { page: Span::from_us(16), line: Span::from_ns(600), verify: Span::from_ns(4_800) };

/// The SSD-Cache of an SSD of 32 GiB, in pages.
pub(crate) const SSD_CACHE_PAGES: usize = 10_240;

/// An operation on a file system, over blocks and over FlatFlash.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FileRow {
    /// The file system.
    pub file_system: &'static str,
    /// The operation.
    pub operation: &'static str,
    /// Pages of metadata that the block file system writes.
    pub pages: f64,
    /// Bytes of metadata that FlatFlash writes instead.
    pub bytes: f64,
    /// Time for durable metadata on blocks divided by that on FlatFlash.
    pub gain: f64,
    /// Pages that reach flash, with data: of blocks divided by FlatFlash's.
    pub lifetime: f64,
}

/// Each operation on each file system, over an SSD-Cache of `cache_pages`.
pub(crate) fn rows(prices: Prices, cache_pages: usize, seed: u64) -> Vec<FileRow> {
    let mut rows = Vec::new();
    for FileSystem { name, consistency } in FILE_SYSTEMS {
        for operation in OPERATIONS {
            let pages: u64 = operation.changes.iter().map(|pieces| consistency.pages(pieces)).sum();
            let pieces = || operation.changes.iter().copied().flatten();
            let lines: u64 = pieces().map(|piece| piece.bytes().div_ceil(LINE_BYTES as u64)).sum();
            let blocks_ps = pages * prices.page.as_ps();
            // Each piece must be durable before the next, because the next depends on it.
            let lines_ps =
                lines * prices.line.as_ps() + pieces().count() as u64 * prices.verify.as_ps();
            let data = operation.data_pages as f64;
            rows.push(FileRow {
                file_system: name,
                operation: operation.name,
                pages: pages as f64,
                bytes: pieces().map(|piece| piece.bytes() as f64).sum(),
                gain: blocks_ps as f64 / lines_ps as f64,
                lifetime: (pages as f64 + data)
                    / (reaching_flash(operation, cache_pages, seed) + data),
            });
        }
    }
    rows
}

/// Pages of metadata an operation that leave an SSD-Cache of `cache_pages` for flash, under LRU in
/// steady state. There are a million directories with equal probability (assumption).
fn reaching_flash(operation: Operation, cache_pages: usize, seed: u64) -> f64 {
    let mut pages = Places::new(seed);
    let mut cache = DirtyPages::new(cache_pages);
    let mut run = |cache: &mut DirtyPages| {
        for piece in operation.changes.iter().copied().flatten() {
            cache.write((*piece, pages.of(*piece)));
        }
    };
    for _ in 0..FILL_MAX {
        if cache.written > 0 {
            break;
        }
        run(&mut cache);
    }
    cache.written = 0;
    (0..FOLLOWED).for_each(|_| run(&mut cache));
    cache.written as f64 / FOLLOWED as f64
}

/// An SSD-Cache that is not full after this many operations never fills.
const FILL_MAX: u64 = 200_000;

/// Operations whose pages are followed from the SSD-Cache to flash.
const FOLLOWED: u64 = 20_000;

/// Dirty pages under LRU, by kind and place.
struct DirtyPages {
    last: HashMap<(Piece, u64), u64>,
    order: BTreeMap<u64, (Piece, u64)>,
    size: usize,
    now: u64,
    /// Pages written to flash.
    written: u64,
}

impl DirtyPages {
    fn new(size: usize) -> DirtyPages {
        let (last, order) = (HashMap::new(), BTreeMap::new());
        DirtyPages { last, order, size, now: 0, written: 0 }
    }

    fn write(&mut self, page: (Piece, u64)) {
        self.now += 1;
        if let Some(before) = self.last.insert(page, self.now) {
            self.order.remove(&before);
        }
        self.order.insert(self.now, page);
        if self.order.len() > self.size
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.last.remove(&oldest);
            self.written += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use ebbtide_core::PAGE_BYTES;
    use ebbtide_workloads::file_metadata::Piece::Entry;

    use super::*;

    #[test]
    fn creating_a_file_writes_what_the_paper_prints() {
        // §3.5 (FL26): 16 to 116 KB in blocks, and pieces of 8 to 256 bytes instead.
        let create = OPERATIONS[0].changes[0];
        for FileSystem { name, consistency } in FILE_SYSTEMS {
            let bytes = consistency.pages(create) * PAGE_BYTES as u64;
            assert!((16 << 10..=116 << 10).contains(&bytes), "{name}: {bytes}");
        }
        assert!(create.iter().all(|piece| (8..=256).contains(&piece.bytes())));
    }

    #[test]
    fn pieces_cost_less_time_and_less_flash_than_blocks_everywhere() {
        let rows = rows(PRICES, 1_000, 1);
        assert_eq!(rows.len(), FILE_SYSTEMS.len() * OPERATIONS.len());
        assert!(rows.iter().all(|row| row.gain > 1.0 && row.lifetime > 1.0));
    }

    #[test]
    fn dirty_pages_reach_flash_once_they_are_the_oldest() {
        let mut pages = DirtyPages::new(2);
        for place in [1, 2, 1, 3, 1, 3] {
            pages.write((Entry, place));
        }
        // Only page 2 was evicted, for page 3.
        assert_eq!(pages.written, 1);
    }
}
