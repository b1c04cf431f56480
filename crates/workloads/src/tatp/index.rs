//! The secondary index of the mix: from `sub_nbr` to `s_id`.
//!
//! A hash table with one word an entry. Subscribers are never added or removed, so the hash is a
//! permutation of the numbers in use. There are no collisions, and every look-up is one probe on
//! one page, as in a well-filled hash index. (The subscriber could be computed too. Then the three
//! transactions that have a `sub_nbr` would miss once less than in a database.)
//!
//! With [`Scatter::Pages`] numbers that are neighbours share a page, as when
//! they are hashed by their common prefix; with [`Scatter::Keys`] entries lie
//! in random order.

use ebbtide_core::{Addr, FullMemory, PAGE_BYTES, PageId};

use super::rows::Digits;
use crate::Corrupt;
use crate::keys::{Places, Scatter};
use ebbtide_structures::checksum::Checksums;
use ebbtide_structures::image::Line;

const ENTRY_BYTES: u64 = 8;
const ENTRIES_PER_LINE: u64 = 8;
pub(super) const ENTRIES_PER_PAGE: u64 = PAGE_BYTES as u64 / ENTRY_BYTES;

/// The index of subscribers `1..=subscribers`. An entry is an `s_id`, 0 for none.
#[derive(Debug, Clone)]
pub(super) struct NumberIndex {
    first: PageId,
    subscribers: u64,
    /// Subscriber, from 0, to entry.
    hash: Places,
    checksums: Checksums,
}

impl NumberIndex {
    /// The number of its pages.
    pub(super) fn pages(subscribers: u64) -> u64 {
        subscribers.div_ceil(ENTRIES_PER_PAGE)
    }

    /// The index that starts at page `first`.
    pub(super) fn new(
        first: PageId,
        subscribers: u64,
        scatter: Scatter,
        seed: u64,
        checksums: Checksums,
    ) -> NumberIndex {
        let pages = NumberIndex::pages(subscribers);
        let hash = Places::new(pages, ENTRIES_PER_PAGE, scatter, seed);
        NumberIndex { first, subscribers, hash, checksums }
    }

    /// The subscriber with this number. The caller checks the number in the subscriber's row.
    pub(super) fn find<M: FullMemory>(
        &self,
        memory: &mut M,
        sub_nbr: Digits,
    ) -> Result<Option<u64>, Corrupt> {
        let Some(number) = sub_nbr.number().filter(|n| (1..=self.subscribers).contains(n)) else {
            return Ok(None);
        };
        let at = self.address(self.hash.place(number - 1));
        self.checksums.read_number(memory, at).map(Some)
    }

    /// The line `line` of its page `page`.
    pub(super) fn image(&self, page: u64, line: u64) -> Line {
        std::array::from_fn(|i| {
            let entry = page * ENTRIES_PER_PAGE + line * ENTRIES_PER_LINE + i as u64;
            let s_id = self.hash.rank(entry) + 1;
            let s_id = if s_id > self.subscribers { 0 } else { s_id };
            self.checksums.number_word(self.address(entry), s_id)
        })
    }

    fn address(&self, entry: u64) -> Addr {
        self.first.start() + entry * ENTRY_BYTES
    }
}
