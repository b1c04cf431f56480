//! The miss table (AstriFlash's MSRs, CXL-flash's MSHRs): the pages on their way from flash, with
//! their waiters. A page in flight is read only once, for all its waiters.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use ebbtide_core::PageId;

/// The outcome of a miss in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begin {
    /// The page was not in flight: the caller starts the read.
    Started,
    /// The page is in flight: the waiter was added to its entry.
    Merged,
    /// No entry is free, or the page's entry has no room for a waiter. The waiter was *not* added
    /// and must try again after a completion.
    Full,
}

/// Pages in flight with their waiters. Both numbers are bounded.
///
/// `W` identifies a waiter.
#[derive(Debug)]
pub(crate) struct MissTable<W> {
    entries: FxHashMap<PageId, Vec<W>>,
    spare: Vec<Vec<W>>,
    entries_max: usize,
    waiters_max: usize,
    /// Entries without room for another waiter.
    filled: usize,
}

impl<W> MissTable<W> {
    /// A table of `entries_max` pages with `waiters_max` waiters each, including the one that
    /// starts the read.
    ///
    /// # Panics
    /// If either bound is zero.
    pub(crate) fn new(entries_max: usize, waiters_max: usize) -> MissTable<W> {
        assert!(entries_max > 0, "a miss table needs room for a page");
        assert!(waiters_max > 0, "a miss table entry needs room for a waiter");
        MissTable {
            entries: FxHashMap::with_capacity_and_hasher(entries_max, Default::default()),
            spare: Vec::new(),
            entries_max,
            waiters_max,
            filled: 0,
        }
    }

    /// Enters a miss on `page` by `waiter`.
    pub(crate) fn begin(&mut self, page: PageId, waiter: W) -> Begin {
        let in_flight = self.entries.len();
        match self.entries.entry(page) {
            Entry::Occupied(mut entry) => {
                let waiters = entry.get_mut();
                if waiters.len() == self.waiters_max {
                    return Begin::Full;
                }
                waiters.push(waiter);
                self.filled += usize::from(waiters.len() == self.waiters_max);
                Begin::Merged
            }
            Entry::Vacant(_) if in_flight == self.entries_max => Begin::Full,
            Entry::Vacant(entry) => {
                let waiters = entry.insert(self.spare.pop().unwrap_or_default());
                waiters.push(waiter);
                self.filled += usize::from(self.waiters_max == 1);
                Begin::Started
            }
        }
    }

    /// Frees the entry of `page`, whose read has ended, with or without an error. Passes each
    /// waiter, in the order of arrival, to `wake`. Returns whether there was an entry. A prefetched
    /// page has none.
    pub(crate) fn complete(&mut self, page: PageId, wake: impl FnMut(W)) -> bool {
        let Some(mut waiters) = self.entries.remove(&page) else { return false };
        self.filled -= usize::from(waiters.len() == self.waiters_max);
        waiters.drain(..).for_each(wake);
        self.spare.push(waiters);
        true
    }

    /// Whether `page` is in flight.
    pub(crate) fn contains(&self, page: PageId) -> bool {
        self.entries.contains_key(&page)
    }

    /// Pages in flight.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether some miss would find no room: no entry is free, or one has no room for a waiter.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() == self.entries_max || self.filled > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_page_in_flight_is_started_once_and_wakes_everyone_in_order() {
        let mut table = MissTable::new(4, 4);
        assert_eq!(table.begin(PageId(7), 'a'), Begin::Started);
        assert_eq!(table.begin(PageId(7), 'b'), Begin::Merged);
        assert_eq!(table.begin(PageId(8), 'c'), Begin::Started);
        let mut woken = Vec::new();
        assert!(table.complete(PageId(7), |waiter| woken.push(waiter)));
        assert!(!table.complete(PageId(9), |_| unreachable!("nobody waits for it")));
        assert_eq!(woken, ['a', 'b']);
        assert!(!table.contains(PageId(7)) && table.contains(PageId(8)));
        assert_eq!(table.entries[&PageId(8)], ['c']);
        assert_eq!(table.begin(PageId(7), 'd'), Begin::Started);
    }

    #[test]
    fn a_full_table_takes_no_page_and_a_full_entry_no_waiter() {
        let mut table = MissTable::new(1, 2);
        assert_eq!(table.begin(PageId(1), 0), Begin::Started);
        assert_eq!(table.begin(PageId(2), 1), Begin::Full);
        assert_eq!(table.begin(PageId(1), 2), Begin::Merged);
        assert_eq!(table.begin(PageId(1), 3), Begin::Full);
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn a_table_knows_how_many_pages_are_in_flight() {
        let mut table = MissTable::new(3, 1);
        assert_eq!(table.len(), 0);
        for page in 1..=3 {
            table.begin(PageId(page), ());
        }
        assert_eq!(table.len(), 3);
        for page in 1..=2 {
            table.complete(PageId(page), drop);
        }
        assert_eq!(table.len(), 1);
        table.complete(PageId(3), drop);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn an_entry_for_one_waiter_is_full_at_once_and_no_longer_when_it_is_complete() {
        let mut table = MissTable::new(2, 1);
        assert!(!table.is_full());
        table.begin(PageId(1), ());
        assert!(table.is_full());
        table.complete(PageId(1), drop);
        assert!(!table.is_full());
    }

    proptest! {
        /// Compares with the simple model: a list of (page, waiter) pairs.
        #[test]
        fn every_waiter_is_woken_exactly_once(
            steps in prop::collection::vec((0u64..6, any::<bool>()), 0..200)
        ) {
            let mut table = MissTable::new(3, 3);
            let mut model: Vec<(u64, usize)> = Vec::new();
            for (id, (page, complete)) in steps.into_iter().enumerate() {
                let waiting: Vec<usize> =
                    model.iter().filter(|(p, _)| *p == page).map(|(_, w)| *w).collect();
                if complete && !waiting.is_empty() {
                    let mut woken = Vec::new();
                    table.complete(PageId(page), |waiter| woken.push(waiter));
                    prop_assert_eq!(woken, waiting);
                    model.retain(|(p, _)| *p != page);
                } else {
                    let mut pages: Vec<u64> = model.iter().map(|(p, _)| *p).collect();
                    pages.sort_unstable();
                    pages.dedup();
                    let expected = match (waiting.len(), pages.len()) {
                        (0, 3) | (3, _) => Begin::Full,
                        (0, _) => Begin::Started,
                        _ => Begin::Merged,
                    };
                    prop_assert_eq!(table.begin(PageId(page), id), expected);
                    if expected != Begin::Full {
                        model.push((page, id));
                    }
                }
                let waiters = |page| model.iter().filter(|(p, _)| *p == page).count();
                let (counts, mut pages) = (model.iter().map(|(p, _)| waiters(*p)), Vec::new());
                let filled = counts.max() == Some(3);
                pages.extend(model.iter().map(|(p, _)| *p));
                pages.sort_unstable();
                pages.dedup();
                prop_assert_eq!(table.is_full(), filled || pages.len() == 3);
            }
        }
    }
}
