//! [`PlainLru`]: a fully associative cache of pages under exact LRU that only counts misses.

use std::collections::VecDeque;
use std::hint::black_box;

use ebbtide_core::PageId;

use super::counters::CacheCounters;
use crate::config::Config;
use crate::hierarchy::{after, follower};

/// A plain LRU cache of all frames of a machine. Its misses calibrate the computing of jobs.
///
/// Each access appends its page to a list of uses. A use is current if it is its page's last one,
/// so the first current use belongs to the least recently used page. Outdated uses are dropped when
/// they come to the front, or all at once when the list is long. An access reads one line of host
/// memory. A linked list would read four.
pub struct PlainLru {
    frames: usize,
    table: Table,
    /// The page of each use, from the oldest on.
    uses: VecDeque<PageId>,
    /// The number of the use in front.
    front: u64,
    last: Option<PageId>,
    counters: CacheCounters,
}

impl PlainLru {
    /// An empty, fully associative cache of `workload.lru_share` of the data, at least one page.
    pub fn new(config: &Config) -> PlainLru {
        PlainLru::of(config.lru_pages() as usize)
    }

    fn of(frames: usize) -> PlainLru {
        PlainLru {
            frames,
            table: Table::new(frames),
            uses: VecDeque::new(),
            front: 0,
            last: None,
            counters: CacheCounters::default(),
        }
    }

    /// Loads the entry of `page` into the host's caches, ahead of an access.
    #[inline]
    pub fn expect(&self, page: PageId) {
        black_box(self.table.entries[self.table.home(page)].page);
    }

    /// Records a job's access to `page`.
    #[inline]
    pub fn access(&mut self, page: PageId) {
        if self.last.replace(page) == Some(page) {
            self.counters.hits += 1;
            return;
        }
        let now = self.front + self.uses.len() as u64;
        self.uses.push_back(page);
        if self.table.use_again(page, now) {
            self.counters.hits += 1;
        } else {
            self.counters.misses += 1;
            if self.table.len == self.frames {
                self.evict();
                self.counters.evictions_clean += 1;
            }
            self.table.insert(page, now);
        }
        if self.uses.len() > USES_A_FRAME * self.frames.max(1 << 10) {
            self.drop_outdated();
        }
    }

    /// Removes the least recently used page.
    fn evict(&mut self) {
        while let Some(page) = self.uses.pop_front() {
            self.front += 1;
            if self.table.remove(page, self.front - 1) {
                return;
            }
        }
    }

    /// Drops all uses that are not current, and numbers the others anew.
    fn drop_outdated(&mut self) {
        let (table, mut number, mut kept) = (&mut self.table, self.front, self.front);
        self.uses.retain(|page| {
            let is_current = table.renumber(*page, number, kept);
            number += 1;
            kept += u64::from(is_current);
            is_current
        });
    }

    /// Number of frames.
    pub fn frames(&self) -> u64 {
        self.frames as u64
    }

    /// The counters since they were last taken.
    pub fn counters(&self) -> &CacheCounters {
        &self.counters
    }

    /// The counters since the last call.
    pub fn take_counters(&mut self) -> CacheCounters {
        std::mem::take(&mut self.counters)
    }
}

/// The most uses per frame in the list.
const USES_A_FRAME: usize = 4;

/// The resident pages with their last uses: a hash table with linear probing, at most two
/// thirds full.
struct Table {
    entries: Vec<Entry>,
    len: usize,
}

#[derive(Clone, Copy)]
struct Entry {
    page: PageId,
    used: u64,
}

impl Entry {
    const EMPTY: Entry = Entry { page: PageId(u64::MAX), used: 0 };

    fn is_empty(self) -> bool {
        self.page == Entry::EMPTY.page
    }
}

impl Table {
    /// An empty table for `pages` pages.
    fn new(pages: usize) -> Table {
        Table { entries: vec![Entry::EMPTY; (pages + pages / 2 + 2).next_power_of_two()], len: 0 }
    }

    /// Where the search for `page` begins.
    #[inline]
    fn home(&self, page: PageId) -> usize {
        let hash = page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (u64::BITS - self.entries.len().trailing_zeros())) as usize
    }

    /// Where `page` is, or the empty place where it would be.
    #[inline]
    fn find(&self, page: PageId) -> usize {
        let mut place = self.home(page);
        while self.entries[place].page != page && !self.entries[place].is_empty() {
            place = after(place, self.entries.len());
        }
        place
    }

    /// Sets the last use of `page` to `now`, if the page is resident. Returns whether it is.
    #[inline]
    fn use_again(&mut self, page: PageId, now: u64) -> bool {
        let place = self.find(page);
        let entry = &mut self.entries[place];
        let is_resident = !entry.is_empty();
        if is_resident {
            entry.used = now;
        }
        is_resident
    }

    /// Adds `page`, which is absent, with its last use.
    fn insert(&mut self, page: PageId, used: u64) {
        let place = self.find(page);
        self.entries[place] = Entry { page, used };
        self.len += 1;
    }

    /// Changes the number of the last use of `page` from `from` to `to`. Returns whether `from` was
    /// its last use.
    #[inline]
    fn renumber(&mut self, page: PageId, from: u64, to: u64) -> bool {
        let place = self.find(page);
        let entry = &mut self.entries[place];
        let is_last = !entry.is_empty() && entry.used == from;
        if is_last {
            entry.used = to;
        }
        is_last
    }

    /// Removes `page`, if its last use is `used`. Returns whether it was removed.
    fn remove(&mut self, page: PageId, used: u64) -> bool {
        let mut hole = self.find(page);
        if self.entries[hole].is_empty() || self.entries[hole].used != used {
            return false;
        }
        while let Some(moved) = follower(hole, self.entries.len(), |place| {
            let entry = self.entries[place];
            (!entry.is_empty()).then(|| self.home(entry.page))
        }) {
            self.entries[hole] = self.entries[moved];
            hole = moved;
        }
        self.entries[hole] = Entry::EMPTY;
        self.len -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_misses_as_a_list_in_the_order_of_last_uses_does(
            frames in 1..40usize,
            pages in 1..80u64,
            draws in prop::collection::vec((any::<u16>(), any::<u16>()), 1..400),
        ) {
            let (mut lru, mut model) = (PlainLru::of(frames), Vec::new());
            let (mut misses, mut evictions) = (0, 0);
            for (one, other) in draws {
                // Low numbers are more frequent.
                let page = PageId(u64::from(one.min(other)) % pages);
                match model.iter().position(|known| *known == page) {
                    Some(place) => _ = model.remove(place),
                    None => {
                        misses += 1;
                        if model.len() == frames {
                            model.remove(0);
                            evictions += 1;
                        }
                    }
                }
                model.push(page);
                lru.access(page);
                if one % 16 == 0 {
                    lru.drop_outdated();
                }
                let counters = lru.counters();
                prop_assert_eq!((counters.misses, counters.evictions()), (misses, evictions));
            }
        }
    }
}
