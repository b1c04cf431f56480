//! [`Relocations`]: pages that moved within flash while page tables still name their old places.

use rustc_hash::FxHashSet;

use crate::addr::PageId;

/// A device's knowledge of the page tables that point into it (FlatFlash, ASPLOS'19 §3.2).
///
/// Page tables may hold the device's own translation. A page that is written anew, or moved by a
/// collection, then leaves a stale entry that names its old place. The device keeps both places of
/// such a page, so an access by a stale entry is still served. When a batch of stale entries is
/// complete, one interrupt makes the host mend them all.
#[derive(Clone, Debug)]
pub struct Relocations {
    stale: FxHashSet<PageId>,
    batch: usize,
}

impl Relocations {
    /// No page has moved yet. Entries are mended `batch` at a time.
    ///
    /// # Panics
    /// If that is none.
    pub fn new(batch: usize) -> Relocations {
        assert!(batch > 0, "an interrupt mends an entry at least");
        Relocations { stale: FxHashSet::default(), batch }
    }

    /// Notes that `page` moved. Once a batch is complete, returns its pages in order: the host
    /// mends their entries now. A page that moves twice before that is in the batch once.
    pub fn moved(&mut self, page: PageId) -> Option<Vec<PageId>> {
        self.stale.insert(page);
        if self.stale.len() < self.batch {
            return None;
        }
        let mut pages: Vec<PageId> = self.stale.drain().collect();
        pages.sort_unstable();
        Some(pages)
    }

    /// Returns true if the entry of `page` names an old place.
    #[inline]
    pub fn is_stale(&self, page: PageId) -> bool {
        !self.stale.is_empty() && self.stale.contains(&page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_stale_until_a_batch_is_mended_at_once() {
        let mut relocations = Relocations::new(3);
        assert_eq!(relocations.moved(PageId(9)), None);
        assert_eq!(relocations.moved(PageId(4)), None);
        assert!(relocations.is_stale(PageId(9)) && !relocations.is_stale(PageId(5)));
        assert_eq!(relocations.moved(PageId(5)), Some(vec![PageId(4), PageId(5), PageId(9)]));
        assert!(![4, 5, 9].iter().any(|page| relocations.is_stale(PageId(*page))));
    }

    #[test]
    fn a_page_that_moves_twice_has_one_entry_to_mend() {
        let mut relocations = Relocations::new(2);
        assert_eq!(relocations.moved(PageId(1)), None);
        assert_eq!(relocations.moved(PageId(1)), None);
        assert_eq!(relocations.moved(PageId(2)), Some(vec![PageId(1), PageId(2)]));
    }
}
