//! [`ReadAhead`]: the pages that Linux reads and maps around a faulting page of a mapped file.

use std::ops::Range;

use ebbtide_core::{PAGE_BYTES, PageId};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::config::Os;

/// The kernel's decisions at a fault on a mapped file (Linux, `mm/filemap.c` and `mm/readahead.c`),
/// without time.
///
/// A fault on an uncached page reads the pages around it, half of them before it. It marks one page
/// in the last quarter. A fault on the marked page reads as many pages again, behind the cached
/// ones. A fault for a load also maps the cached pages of the aligned block around it.
///
/// Faults on absent pages add to a count, and faults on cached pages subtract from it. While the
/// count is above `os.read_ahead_misses`, only the faulting page is read. All threads share this
/// state, as they share an open file.
#[derive(Serialize, Deserialize)]
pub(super) struct ReadAhead {
    /// Pages read at once.
    pages: u64,
    /// Pages in a block. A block is mapped at once.
    block: u64,
    /// Pages of the file.
    end: u64,
    misses: u64,
    /// Above this many misses, read-ahead counts as useless (`MMAP_LOTSAMISS`).
    misses_max: u64,
    /// Pages that are cached or in flight and not mapped, and whether they are marked.
    unmapped: FxHashMap<PageId, bool>,
}

/// Misses are counted up to this many times the number at which read-ahead stops.
const COUNTED_TIMES: u64 = 10;

/// Pages to read. One of them is marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) pages: Range<u64>,
    pub(super) marked: u64,
}

impl ReadAhead {
    /// The state of `os` for a file of `pages` pages, or `None` if nothing is read ahead.
    pub(super) fn new(os: &Os, pages: u64) -> Option<ReadAhead> {
        let whole = |bytes: u64| bytes / PAGE_BYTES as u64;
        (whole(os.read_ahead.0) > 0).then(|| ReadAhead {
            pages: whole(os.read_ahead.0),
            block: whole(os.fault_around.0).max(1),
            end: pages,
            misses: 0,
            misses_max: os.read_ahead_misses,
            unmapped: FxHashMap::default(),
        })
    }

    /// Whether an access to `page`, which is resident, faults.
    #[inline]
    pub(super) fn faults(&self, page: PageId) -> bool {
        self.unmapped.contains_key(&page)
    }

    /// Handles a fault on `page`, which is absent. Returns the pages to read, including `page`.
    pub(super) fn absent(&mut self, page: PageId) -> Wanted {
        self.misses = (self.misses + 1).min(self.misses_max.saturating_mul(COUNTED_TIMES));
        if self.misses > self.misses_max {
            return Wanted { pages: page.0..page.0 + 1, marked: u64::MAX };
        }
        let start = page.0.saturating_sub(self.pages / 2);
        let marked = start + self.pages - self.pages / 4;
        Wanted { pages: start..(start + self.pages).min(self.end), marked }
    }

    /// Handles a fault on `page`, which is cached or in flight. `is_cached` is true for pages that
    /// have arrived, `is_known` also for pages in flight. Returns the pages to read.
    pub(super) fn cached(
        &mut self,
        page: PageId,
        write: bool,
        is_cached: impl Fn(PageId) -> bool,
        is_known: impl Fn(PageId) -> bool,
    ) -> Option<Wanted> {
        if !write {
            let faults = self.faults(page);
            self.map_around(page, is_cached);
            if faults && !self.faults(page) {
                return None;
            }
        }
        self.misses = self.misses.saturating_sub(1);
        let marked = self.unmapped.remove(&page);
        if marked != Some(true) {
            return None;
        }
        let near = page.0 + 1..(page.0 + 1 + self.pages).min(self.end);
        let start = near.into_iter().find(|next| !is_known(PageId(*next)))?;
        Some(Wanted { pages: start..(start + self.pages).min(self.end), marked: start })
    }

    /// Maps the cached pages of the block of `page` that are not marked.
    fn map_around(&mut self, page: PageId, is_cached: impl Fn(PageId) -> bool) {
        let first = page.0 - page.0 % self.block;
        for near in (first..first + self.block).map(PageId) {
            if self.unmapped.get(&near) == Some(&false) && is_cached(near) {
                self.unmapped.remove(&near);
                self.misses = self.misses.saturating_sub(1);
            }
        }
    }

    /// Records that `page` is being read ahead.
    pub(super) fn reads(&mut self, page: PageId, marked: bool) {
        self.unmapped.insert(page, marked);
    }

    /// Forgets `page`. It has left DRAM, or its waiting thread maps it.
    pub(super) fn forget(&mut self, page: PageId) {
        self.unmapped.remove(&page);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::*;

    /// The defaults of Linux.
    const LINUX: &str = "hams-mmap-linux";

    /// The page cache of a file. No page leaves it, and each read page arrives at once.
    struct File {
        ahead: ReadAhead,
        cached: RefCell<BTreeSet<u64>>,
    }

    /// The cost of a load of a page.
    #[derive(Debug, PartialEq, Eq)]
    enum Cost {
        Nothing,
        Fault,
        Read(u64),
    }

    impl File {
        fn new(pages: u64) -> File {
            let os = crate::designs::resolve(LINUX, &[]).expect("a shipped design").os;
            let ahead = ReadAhead::new(&os, pages).expect("it reads ahead");
            File { ahead, cached: RefCell::default() }
        }

        fn read(&mut self, Wanted { pages, marked }: Wanted, faulting: Option<u64>) -> u64 {
            let new: Vec<u64> = pages.filter(|page| !self.cached.borrow().contains(page)).collect();
            for page in &new {
                self.cached.borrow_mut().insert(*page);
                if Some(*page) != faulting {
                    self.ahead.reads(PageId(*page), *page == marked);
                }
            }
            new.len() as u64
        }

        fn load(&mut self, page: u64) -> Cost {
            if !self.cached.borrow().contains(&page) {
                let wanted = self.ahead.absent(PageId(page));
                return Cost::Read(self.read(wanted, Some(page)));
            }
            if !self.ahead.faults(PageId(page)) {
                return Cost::Nothing;
            }
            let known = |page: PageId| self.cached.borrow().contains(&page.0);
            match self.ahead.cached(PageId(page), false, known, known) {
                Some(wanted) => Cost::Read(self.read(wanted, None)),
                None => Cost::Fault,
            }
        }
    }

    #[test]
    fn a_file_read_in_order_is_read_by_32_pages_and_mapped_by_16() {
        let mut file = File::new(10_000);
        let costs: Vec<Cost> = (1_600..1_920).map(|page| file.load(page)).collect();
        let reads: Vec<_> =
            (1_600..).zip(&costs).filter(|(_, cost)| matches!(cost, Cost::Read(_))).collect();
        // 16 pages before the first page and 16 from it on, and then 32 at each mark.
        let places: Vec<u64> = reads.iter().map(|(page, _)| *page).collect();
        assert_eq!(places[..4], [1_600, 1_608, 1_616, 1_648]);
        assert!(reads.iter().all(|(_, cost)| **cost == Cost::Read(32)), "{reads:?}");
        let faults = costs.iter().filter(|cost| **cost == Cost::Fault).count();
        assert!((10..=30).contains(&faults), "{faults} faults beside");
    }

    #[test]
    fn pages_read_at_random_are_soon_read_alone() {
        let mut file = File::new(1 << 30);
        let costs: Vec<Cost> = (0..200).map(|n| file.load((n * 7_919 + 3) * 1_000)).collect();
        assert!(costs[..100].iter().all(|cost| *cost == Cost::Read(32)));
        assert!(costs[100..].iter().all(|cost| *cost == Cost::Read(1)));
    }

    #[test]
    fn reads_in_order_bring_read_ahead_back() {
        let mut file = File::new(1 << 30);
        (0..120).for_each(|n| {
            file.load((n * 7_919 + 3) * 1_000);
        });
        assert_eq!(file.load(9), Cost::Read(1));
        let found = (0..40).map(|n| file.load((n * 7_919 + 3) * 1_000 + 1));
        assert!(found.filter(|cost| *cost == Cost::Fault).count() == 40, "neighbours are cached");
        assert_eq!(file.load(5_000), Cost::Read(32));
    }

    #[test]
    fn a_store_maps_its_own_page_alone() {
        let mut file = File::new(1_000);
        file.load(100);
        let known = |_: PageId| true;
        assert_eq!(file.ahead.cached(PageId(101), true, known, known), None);
        assert!(!file.ahead.faults(PageId(101)) && file.ahead.faults(PageId(102)));
        assert_eq!(file.ahead.cached(PageId(102), false, known, known), None);
        assert!(!file.ahead.faults(PageId(111)) && file.ahead.faults(PageId(112)));
        file.ahead.forget(PageId(112));
        assert!(!file.ahead.faults(PageId(112)));
    }
}
