//! The miss table (AstriFlash's MSRs, CXL-flash's MSHRs): which pages are on their way from flash,
//! and who waits for each. A page in flight is read once, however many ask for it.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::addr::PageId;

/// What to do for a job that missed on a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// Nobody had asked: the caller starts the read.
    Started,
    /// The page is in flight: the waiter was added to its entry.
    Merged,
    /// No entry is free, or the page's entry holds as many waiters as it can: the waiter was *not*
    /// added and must try again after a completion.
    Full,
}

/// The smallest hash table.
const BUCKETS_MIN: usize = 4;

/// Pages in flight with their waiters, bounded in both.
///
/// `W` identifies a waiter: a fiber on a core in the engine, a request in the simulator.
#[derive(Debug)]
pub struct MissTable<W> {
    entries: FxHashMap<PageId, Vec<W>>,
    spare: Vec<Vec<W>>,
    entries_max: usize,
    waiters_max: usize,
    /// Entries with as many waiters as they can hold.
    filled: usize,
    peak: usize,
}

impl<W> MissTable<W> {
    /// A table of `entries_max` pages with `waiters_max` waiters each (the one that starts the read
    /// included).
    ///
    /// # Panics
    /// If either bound is zero.
    pub fn new(entries_max: usize, waiters_max: usize) -> MissTable<W> {
        assert!(entries_max > 0, "a miss table needs room for a page");
        assert!(waiters_max > 0, "a miss table entry needs room for a waiter");
        MissTable {
            entries: FxHashMap::with_capacity_and_hasher(entries_max, Default::default()),
            spare: Vec::new(),
            entries_max,
            waiters_max,
            filled: 0,
            peak: 0,
        }
    }

    /// Bytes that a table of `entries_max` pages takes from the start.
    pub const fn table_bytes(entries_max: usize) -> usize {
        // The hash table fills seven of eight buckets, each with an entry and a byte of control.
        let buckets = (entries_max * 8 / 7 + 1).next_power_of_two();
        let buckets = if buckets < BUCKETS_MIN { BUCKETS_MIN } else { buckets };
        buckets * (size_of::<(PageId, Vec<W>)>() + 1)
    }

    /// Bytes that a page in flight takes beyond [`table_bytes`](MissTable::table_bytes) for the list of
    /// its waiters, up to four of them.
    pub const ENTRY_BYTES: usize = size_of::<Vec<W>>() + 4 * size_of::<W>() + 16;

    /// A miss on `page` by `waiter`.
    pub fn begin(&mut self, page: PageId, waiter: W) -> Begin {
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
                self.peak = self.peak.max(in_flight + 1);
                Begin::Started
            }
        }
    }

    /// The read of `page` has ended, well or badly: frees its entry and hands each waiter, in the
    /// order they came, to `wake`. Says whether there was an entry; a page that was fetched ahead of
    /// any demand has none.
    pub fn complete(&mut self, page: PageId, wake: impl FnMut(W)) -> bool {
        let Some(mut waiters) = self.entries.remove(&page) else { return false };
        self.filled -= usize::from(waiters.len() == self.waiters_max);
        waiters.drain(..).for_each(wake);
        self.spare.push(waiters);
        true
    }

    /// Whether `page` is in flight.
    pub fn contains(&self, page: PageId) -> bool {
        self.entries.contains_key(&page)
    }

    /// Pages in flight with their waiters, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (PageId, &[W])> {
        self.entries.iter().map(|(&page, waiters)| (page, &waiters[..]))
    }

    /// Pages in flight.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether some miss would find no room: no entry is free, or one holds as many waiters as it
    /// can.
    pub fn is_full(&self) -> bool {
        self.entries.len() == self.entries_max || self.filled > 0
    }

    /// The most pages that were ever in flight at once.
    pub fn peak(&self) -> usize {
        self.peak
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
        assert_eq!(table.iter().collect::<Vec<_>>(), [(PageId(8), &['c'][..])]);
        assert_eq!(table.begin(PageId(7), 'd'), Begin::Started);
    }

    #[test]
    fn a_full_table_takes_no_page_and_a_full_entry_no_waiter() {
        let mut table = MissTable::new(1, 2);
        assert_eq!(table.begin(PageId(1), 0), Begin::Started);
        assert_eq!(table.begin(PageId(2), 1), Begin::Full);
        assert_eq!(table.begin(PageId(1), 2), Begin::Merged);
        assert_eq!(table.begin(PageId(1), 3), Begin::Full);
        assert_eq!((table.len(), table.peak()), (1, 1));
    }

    #[test]
    fn the_bytes_that_a_table_is_said_to_take_are_those_it_takes_at_most_doubled() {
        for entries_max in 1..=1000 {
            let table = MissTable::<u64>::new(entries_max, 1);
            let buckets = (table.entries.capacity() * 8).div_ceil(7);
            let bytes = buckets * (size_of::<(PageId, Vec<u64>)>() + 1);
            let said = MissTable::<u64>::table_bytes(entries_max);
            assert!((bytes..=2 * bytes).contains(&said), "{said} for {bytes} bytes");
        }
    }

    #[test]
    fn the_bytes_that_a_page_in_flight_is_said_to_take_hold_a_list_of_four_waiters() {
        /// What an allocator keeps of an allocation.
        const ALLOCATION_BYTES: usize = 16;
        let mut table = MissTable::new(1, 4);
        for waiter in 0u64..4 {
            table.begin(PageId(1), waiter);
        }
        table.complete(PageId(1), drop);
        let list = table.spare.pop().expect("the list is kept for the next page");
        let bytes = size_of_val(&list) + list.capacity() * size_of::<u64>() + ALLOCATION_BYTES;
        let said = MissTable::<u64>::ENTRY_BYTES;
        assert!((bytes..=2 * bytes).contains(&said), "{said} for {bytes} bytes");
    }

    #[test]
    fn a_table_knows_how_many_pages_are_in_flight_and_were_at_most() {
        let mut table = MissTable::new(3, 1);
        assert!(table.is_empty() && table.peak() == 0);
        for page in 1..=3 {
            table.begin(PageId(page), ());
        }
        assert_eq!((table.len(), table.is_empty(), table.peak()), (3, false, 3));
        for page in 1..=2 {
            table.complete(PageId(page), drop);
        }
        assert_eq!((table.len(), table.is_empty(), table.peak()), (1, false, 3));
        table.complete(PageId(3), drop);
        assert_eq!((table.len(), table.is_empty(), table.peak()), (0, true, 3));
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
        /// Against the obvious model: a list of (page, waiter) pairs.
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
