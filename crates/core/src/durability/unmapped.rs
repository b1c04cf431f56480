//! [`Unmapped`]: the pages whose latest stores are only in the log.
//!
//! Recovery must begin before the first such store of every page. A page stays in this set until a
//! record of a copy that has the store is on the device. To be evicted or stored to again does not
//! change that.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use rustc_hash::FxHashMap;

use super::Lsn;
use crate::addr::PageId;

/// Stands for no place in the log.
const NONE: Lsn = Lsn::ZERO;

/// A search for pages to clean ends after this many pages, or four times the number wanted if that
/// is more.
const LOOKS_MAX: usize = 256;

/// So many pages are few enough to look through for every copy.
const FEW_PAGES: usize = 64;

/// The state of the stores to a page since the first that is only in the log.
#[derive(Clone, Copy, Debug)]
struct Stores {
    first: Lsn,
    last: Lsn,
    /// Where the record of the newest copy ends, if it is not on the device yet.
    mapped: Lsn,
    /// The first store that no such copy has.
    open: Lsn,
    /// The first store that the copy under way lacks, or [`NOT_FROZEN`].
    lacks: Lsn,
}

/// Means that no copy is under way.
const NOT_FROZEN: Lsn = Lsn(u64::MAX);

/// The pages with stores that are only in the log.
#[derive(Debug, Default)]
pub(super) struct Unmapped {
    pages: FxHashMap<PageId, Stores>,
    /// All pages, ordered by their first such store.
    by_first: BTreeSet<(Lsn, PageId)>,
    /// Map records that are not on the device yet, ordered by their ends.
    mapping: VecDeque<(Lsn, PageId)>,
    /// Where the last search for pages to clean has ended.
    hand: (Lsn, PageId),
}

impl Unmapped {
    /// An upper bound on the memory of a page, in bytes: its place in the table, its place in the
    /// order, and its map record. The table may be as little as 7/16 full.
    pub(super) const PAGE_BYTES_MAX: usize =
        (size_of::<(PageId, Stores)>() + 1) * 16 / 7 + 4 * size_of::<(Lsn, PageId)>();

    /// How many pages there are.
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Map records that are not on the device yet.
    pub(super) fn mapping_len(&self) -> usize {
        self.mapping.len()
    }

    /// Notes that the record that begins at `start` stores to `page`.
    pub(super) fn note_store(&mut self, page: PageId, start: Lsn) {
        let by_first = &mut self.by_first;
        let stores = self.pages.entry(page).or_insert_with(|| {
            by_first.insert((start, page));
            Stores { first: start, last: start, mapped: NONE, open: start, lacks: NOT_FROZEN }
        });
        stores.last = start;
        if stores.open == NONE {
            stores.open = start;
        }
        if stores.lacks == NONE {
            stores.lacks = start;
        }
    }

    /// Notes that a copy of `page` with all stores so far is about to be written.
    pub(super) fn freeze(&mut self, page: PageId) {
        if let Some(stores) = self.pages.get_mut(&page) {
            stores.lacks = NONE;
        }
    }

    /// Notes the map record, ending at `end`, of the copy of `page` that was frozen last.
    pub(super) fn note_mapped(&mut self, page: PageId, end: Lsn) {
        let Some(stores) = self.pages.get_mut(&page) else { return };
        // Otherwise none of this was stored yet when it was frozen.
        if stores.lacks != NOT_FROZEN {
            stores.open = stores.lacks;
        }
        stores.lacks = NOT_FROZEN;
        stores.mapped = end;
        self.mapping.push_back((end, page));
    }

    /// Notes that the log is on the device up to `durable`.
    pub(super) fn settle(&mut self, durable: Lsn) {
        while let Some((end, page)) = self.mapping.pop_front_if(|(end, _)| *end <= durable) {
            let Some(stores) = self.pages.get_mut(&page) else { continue };
            // Otherwise there is a newer record, and the page stays until that one is on the
            // device.
            if stores.mapped != end {
                continue;
            }
            stores.mapped = NONE;
            self.by_first.remove(&(stores.first, page));
            if stores.open == NONE {
                self.pages.remove(&page);
            } else {
                stores.first = stores.open;
                self.by_first.insert((stores.first, page));
            }
        }
    }

    /// Returns the first store that is only in the log.
    pub(super) fn first(&self) -> Option<Lsn> {
        self.by_first.first().map(|&(first, _)| first)
    }

    /// Returns pages with stores before `target` that are in no copy yet, the oldest first.
    pub(super) fn to_clean(&self, target: Lsn) -> impl Iterator<Item = PageId> {
        let old = self.by_first.range(..(target, PageId(0)));
        old.map(|&(_, page)| page).filter(move |page| {
            let open = self.pages[page].open;
            open != NONE && open < target
        })
    }

    /// True if there are few pages and copies have all of their stores before `target`. It is
    /// called for every copy, so it does not look through many pages.
    pub(super) fn is_cleaned(&self, target: Lsn) -> bool {
        self.pages.len() <= FEW_PAGES && self.to_clean(target).next().is_none()
    }

    /// Returns at most `count` pages that are in no copy yet, the oldest first, from where the last
    /// call ended. Pages that are stored to again and again are left out, unless there are no
    /// others, because jobs would have to wait for them. One call looks at a few pages only, since
    /// jobs wait for the lock.
    pub(super) fn next_to_clean(&mut self, tail: Lsn, count: usize) -> Vec<PageId> {
        let looks = self.by_first.len().min(LOOKS_MAX.max(4 * count));
        let behind = self.by_first.range((Excluded(self.hand), Unbounded));
        let around = behind.chain(self.by_first.range(..=self.hand)).take(looks);
        let (mut cold, mut hot, mut hand) = (Vec::new(), Vec::new(), self.hand);
        for &(first, page) in around {
            if cold.len() == count {
                break;
            }
            hand = (first, page);
            let Stores { last, open, .. } = self.pages[&page];
            if open == NONE {
                continue;
            }
            let is_cold = last.0 - first.0 <= (tail.0 - first.0) / 2;
            if is_cold { &mut cold } else { &mut hot }.push(page);
        }
        self.hand = hand;
        if cold.is_empty() && looks == self.by_first.len() {
            hot.truncate(count);
            return hot;
        }
        cold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: PageId = PageId(5);

    #[test]
    fn a_page_stays_until_a_record_that_covers_it_is_on_the_device() {
        let mut unmapped = Unmapped::default();
        unmapped.note_store(PAGE, Lsn(10));
        unmapped.note_store(PAGE, Lsn(20));
        unmapped.freeze(PAGE);
        unmapped.note_store(PAGE, Lsn(30));
        unmapped.note_mapped(PAGE, Lsn(45));
        assert_eq!(unmapped.first(), Some(Lsn(10)), "the record is not on the device");
        unmapped.settle(Lsn(44));
        assert_eq!(unmapped.first(), Some(Lsn(10)));
        unmapped.settle(Lsn(45));
        assert_eq!(unmapped.first(), Some(Lsn(30)), "it was stored to again");
        unmapped.freeze(PAGE);
        unmapped.note_mapped(PAGE, Lsn(60));
        unmapped.settle(Lsn(60));
        assert_eq!((unmapped.first(), unmapped.len()), (None, 0));
    }

    #[test]
    fn a_page_that_is_written_twice_waits_for_the_second_record() {
        let mut unmapped = Unmapped::default();
        for (store, end) in [(10, 15), (20, 25)] {
            unmapped.note_store(PAGE, Lsn(store));
            unmapped.freeze(PAGE);
            unmapped.note_mapped(PAGE, Lsn(end));
        }
        unmapped.note_store(PAGE, Lsn(30));
        unmapped.settle(Lsn(15));
        assert_eq!(unmapped.first(), Some(Lsn(10)), "the second record may be lost");
        unmapped.settle(Lsn(25));
        assert_eq!((unmapped.first(), unmapped.mapping_len()), (Some(Lsn(30)), 0));
    }

    #[test]
    fn pages_that_are_stored_to_all_the_time_are_cleaned_last() {
        let (mut unmapped, hot) = (Unmapped::default(), PageId(1));
        for at in 1..9 {
            unmapped.note_store(hot, Lsn(at * 10));
            unmapped.note_store(PageId(1 + at), Lsn(at * 10 + 5));
        }
        assert_eq!(unmapped.next_to_clean(Lsn(100), 2), [PageId(2), PageId(3)]);
        (2..10).for_each(|page| unmapped.freeze(PageId(page)));
        (2..10).for_each(|page| unmapped.note_mapped(PageId(page), Lsn(90 + page)));
        assert_eq!(unmapped.next_to_clean(Lsn(100), 2), [hot], "there is no other");
    }

    #[test]
    fn all_pages_are_cleaned_once_each_has_a_copy() {
        let mut unmapped = Unmapped::default();
        let pages = [1, 2].map(PageId);
        pages.iter().for_each(|&page| unmapped.note_store(page, Lsn(10 * page.0)));
        for page in pages {
            assert!(!unmapped.is_cleaned(Lsn(30)), "page {page:?} has no copy");
            unmapped.freeze(page);
            unmapped.note_mapped(page, Lsn(30 + page.0));
        }
        unmapped.note_store(pages[0], Lsn(40));
        assert!(unmapped.is_cleaned(Lsn(30)), "the last store is later");
        assert!(!unmapped.is_cleaned(Lsn(50)));
    }

    #[test]
    fn many_pages_do_not_count_as_cleaned() {
        let mut unmapped = Unmapped::default();
        let many = FEW_PAGES as u64 + 1;
        for page in 1..=many {
            unmapped.note_store(PageId(page), Lsn(page));
            unmapped.freeze(PageId(page));
            unmapped.note_mapped(PageId(page), Lsn(1000 + page));
        }
        assert!(!unmapped.is_cleaned(Lsn(1000)));
        unmapped.settle(Lsn(1001));
        assert!(unmapped.is_cleaned(Lsn(1000)), "one page fewer");
    }

    #[test]
    fn a_copy_that_could_not_be_written_covers_nothing() {
        let mut unmapped = Unmapped::default();
        unmapped.note_store(PAGE, Lsn(10));
        unmapped.freeze(PAGE);
        unmapped.note_store(PAGE, Lsn(20));
        // The write fails; the next one has both stores.
        assert_eq!(unmapped.to_clean(Lsn(15)).collect::<Vec<_>>(), [PAGE]);
        unmapped.freeze(PAGE);
        unmapped.note_mapped(PAGE, Lsn(40));
        assert_eq!(unmapped.to_clean(Lsn(15)).count(), 0);
        unmapped.settle(Lsn(40));
        assert_eq!(unmapped.first(), None);
    }
}
