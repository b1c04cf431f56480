//! [`LruStack`]: pages in the order of their last use, and their stack distances.

use ebbtide_core::PageId;

use super::page_table::{NEVER, PageTable, Uses};
use super::use_times::UseTimes;

/// The distances of one access. They determine its effect in caches of all sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reuse {
    /// The number of distinct pages used since the page's last use, itself included: the smallest
    /// LRU cache that still holds it. `None` if the page is new.
    pub(super) distance: Option<u32>,
    /// For a write after an earlier write, the greatest distance since that write. Smaller caches
    /// have written the page back in between.
    pub(super) rewrite: Option<u32>,
}

/// Pages in the order of their last use. Every use gets the next of its [`UseTimes`], and the time
/// of the page's previous use is deleted.
pub(super) struct LruStack {
    pages: PageTable,
    times: UseTimes,
}

impl LruStack {
    /// An empty stack.
    pub(super) fn new() -> LruStack {
        LruStack { pages: PageTable::new(), times: UseTimes::new() }
    }

    /// The number of pages.
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Prefetches the state of `page`, which is about to be used.
    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        self.pages.prefetch(page);
    }

    /// Counts a use of `page`.
    #[inline]
    pub(super) fn touch(&mut self, page: PageId, write: bool) -> Reuse {
        if self.times.is_full() {
            self.pages.values_mut().for_each(|uses| uses.last = self.times.before(uses.last));
            self.times.restart();
        }
        let Some(uses) = self.pages.get_mut(page) else {
            assert!(self.pages.len() < (NEVER / 8) as usize, "too many pages for 32-bit times");
            let last = self.times.give();
            self.pages.insert(page, Uses { last, since_write: if write { 0 } else { NEVER } });
            return Reuse { distance: None, rewrite: None };
        };
        let distance = self.times.since(uses.last);
        let since_write = match uses.since_write {
            NEVER => NEVER,
            most => most.max(distance),
        };
        uses.since_write = if write { 0 } else { since_write };
        self.times.strike(uses.last);
        uses.last = self.times.give();
        let rewrite = (write && since_write != NEVER).then_some(since_write);
        Reuse { distance: Some(distance), rewrite }
    }

    /// For every dirty page, the greatest distance since its last write, as if it were used now.
    /// Smaller caches have written it back.
    pub(super) fn outstanding(&self) -> impl Iterator<Item = u32> {
        let written = self.pages.values().filter(|uses| uses.since_write != NEVER);
        written.map(|uses| self.times.since(uses.last).max(uses.since_write))
    }
}
