//! [`RecentPages`]: the pages of the last accesses, and the number of distinct ones among them.

use ebbtide_core::PageId;

/// The number of accesses kept.
const ACCESSES: usize = 4096;

/// The pages of the last [`ACCESSES`] accesses.
pub(super) struct RecentPages {
    /// Indexed by the number of the access.
    ring: Vec<PageId>,
    /// A hash set with linear probing. An entry is a page and the round of its insertion.
    /// Incrementing `round` empties the set.
    seen: Vec<(PageId, u64)>,
    round: u64,
}

impl RecentPages {
    /// No accesses yet.
    pub(super) fn new() -> RecentPages {
        let (ring, seen) = (vec![PageId(0); ACCESSES], vec![(PageId(0), 0); 2 * ACCESSES]);
        RecentPages { ring, seen, round: 0 }
    }

    /// Its memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&self.ring[..]) + size_of_val(&self.seen[..])
    }

    /// Access number `number` is to `page`.
    #[inline]
    pub(super) fn push(&mut self, number: u64, page: PageId) {
        self.ring[number as usize % ACCESSES] = page;
    }

    /// The number of accesses it reaches back.
    pub(super) fn reach(&self) -> u64 {
        ACCESSES as u64
    }

    /// The number of distinct pages of accesses `from..to`, all within reach.
    pub(super) fn distinct(&mut self, from: u64, to: u64) -> u32 {
        debug_assert!(to - from <= ACCESSES as u64);
        self.round += 1;
        // Uses no more of the set than these accesses need, to keep the rest out of the core's
        // caches.
        let places = 2 * ((to - from) as usize).next_power_of_two();
        let mut count = 0;
        for number in from..to {
            let page = self.ring[number as usize % ACCESSES];
            let mut at = (page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % places;
            while self.seen[at].1 == self.round && self.seen[at].0 != page {
                at = (at + 1) % places;
            }
            count += u32::from(self.seen[at].1 != self.round);
            self.seen[at] = (page, self.round);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn distinct_pages_are_counted_in_any_part_of_the_last_accesses() {
        let mut recent = RecentPages::new();
        let page = |number: u64| PageId(number * number % 1009);
        let mut number = 0;
        for end in [1, 10, 4096, 4097, 9000] {
            while number < end {
                recent.push(number, page(number));
                number += 1;
            }
            for length in [0, 1, 2, 9, 1000, 4096] {
                let from = end.saturating_sub(length);
                let expected: BTreeSet<PageId> = (from..end).map(page).collect();
                assert_eq!(recent.distinct(from, end) as usize, expected.len(), "{from}..{end}");
            }
        }
    }
}
