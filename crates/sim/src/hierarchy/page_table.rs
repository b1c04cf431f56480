//! [`PageTable`]: addresses of the page-table entries that a walk fetches.

use ebbtide_core::{Addr, PAGE_BYTES, PageId};

/// Bytes of an entry.
const ENTRY_BYTES: u64 = 8;

/// Entries of a node, which is a page.
const NODE_ENTRIES: u64 = PAGE_BYTES as u64 / ENTRY_BYTES;

/// The lowest levels of a radix tree over the data's pages. They lie one after another behind the
/// data.
#[derive(Debug, Clone)]
pub(crate) struct PageTable {
    /// The first page of each level, from the leaves up, and the page behind the last level.
    starts: Vec<PageId>,
}

impl PageTable {
    /// The lowest `levels` levels over `pages` pages of data.
    pub(crate) fn new(pages: u64, levels: u32) -> PageTable {
        let mut starts = vec![PageId(pages)];
        let mut nodes = pages;
        for _ in 0..levels {
            nodes = nodes.div_ceil(NODE_ENTRIES);
            starts.push(PageId(starts[starts.len() - 1].0 + nodes));
        }
        PageTable { starts }
    }

    /// Number of levels.
    pub(crate) fn levels(&self) -> usize {
        self.starts.len() - 1
    }

    /// The entry of `level` in the walk to `page`. Level 0 is the leaves.
    pub(crate) fn entry(&self, level: usize, page: PageId) -> Addr {
        let index = page.0 / NODE_ENTRIES.pow(level as u32);
        Addr(self.starts[level].start().0 + index * ENTRY_BYTES)
    }

    /// Number of pages of the data and the page table.
    pub(crate) fn end(&self) -> u64 {
        self.starts[self.levels()].0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_covers_512_times_as_much_as_the_one_below_it() {
        let table = PageTable::new(1_000_000, 3);
        // 1954 nodes of leaves, 4 above them, and one above those.
        assert_eq!(table.end(), 1_000_000 + 1_954 + 4 + 1);
        let page = PageId(512 * 512 + 513);
        let place = |level| table.entry(level, page).0 - 1_000_000 * PAGE_BYTES as u64;
        assert_eq!(place(0), page.0 * 8);
        assert_eq!(place(1), 1_954 * 4096 + (512 + 1) * 8);
        assert_eq!(place(2), 1_958 * 4096 + 8);
        let last = PageId(999_999);
        assert!((0..3).all(|level| table.entry(level, last).page().0 < table.end()));
    }
}
