//! [`PageTable`]: what is known of each page, in one flat table.

use std::hint::black_box;

use ebbtide_core::PageId;

/// No page has so many times of use at once; also the mark of a page with no write outstanding.
pub(super) const NEVER: u32 = u32::MAX;

/// When a page was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) last: u32,
    /// The greatest distance since the last write; [`NEVER`] without one.
    pub(super) since_write: u32,
}

/// A hash table by page with linear probing: whether a page is there and its uses are one line of
/// memory away, which can be asked for ahead of time.
pub(super) struct PageTable {
    /// A power of two of them.
    slots: Vec<Slot>,
    len: usize,
}

/// Empty where the last use is [`NEVER`].
#[derive(Clone, Copy)]
struct Slot {
    page: PageId,
    uses: Uses,
}

const EMPTY: Slot = Slot { page: PageId(0), uses: Uses { last: NEVER, since_write: NEVER } };

impl Slot {
    fn is_empty(&self) -> bool {
        self.uses.last == NEVER
    }
}

/// Slots of a new table.
const SLOTS_MIN: usize = 64;

impl PageTable {
    pub(super) fn new() -> PageTable {
        PageTable { slots: vec![EMPTY; SLOTS_MIN], len: 0 }
    }

    /// Pages in it.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Asks memory for what is known of `page`, without waiting for it.
    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        // A plain load that nothing depends on: the core goes on while it is under way.
        black_box(self.slots[self.home(page)].uses.last);
    }

    /// What is known of `page`.
    #[inline]
    pub(super) fn get_mut(&mut self, page: PageId) -> Option<&mut Uses> {
        let at = self.find(page);
        let slot = &mut self.slots[at];
        if slot.is_empty() { None } else { Some(&mut slot.uses) }
    }

    /// Puts a page in that is not there.
    pub(super) fn insert(&mut self, page: PageId, uses: Uses) {
        if self.len * 3 >= self.slots.len() * 2 {
            self.grow();
        }
        let at = self.find(page);
        debug_assert!(self.slots[at].is_empty() && uses.last != NEVER);
        self.slots[at] = Slot { page, uses };
        self.len += 1;
    }

    /// What is known of all pages, in no order.
    pub(super) fn values(&self) -> impl Iterator<Item = &Uses> {
        self.slots.iter().filter(|slot| !slot.is_empty()).map(|slot| &slot.uses)
    }

    /// The same, to be changed.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Uses> {
        self.slots.iter_mut().filter(|slot| !slot.is_empty()).map(|slot| &mut slot.uses)
    }

    /// Where `page` is, or would be put.
    #[inline]
    fn find(&self, page: PageId) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(page);
        while self.slots[at].page != page && !self.slots[at].is_empty() {
            at = (at + 1) & mask;
        }
        at
    }

    /// Where the search for `page` begins: the high bits of a product, which neighbours share least
    /// (Knuth, The Art of Computer Programming 6.4).
    #[inline]
    fn home(&self, page: PageId) -> usize {
        let hash = (page.0 ^ page.0 >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (64 - self.slots.len().ilog2())) as usize
    }

    fn grow(&mut self) {
        let twice = vec![EMPTY; 2 * self.slots.len()];
        let slots = std::mem::replace(&mut self.slots, twice);
        for slot in slots.into_iter().filter(|slot| !slot.is_empty()) {
            let at = self.find(slot.page);
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pages_are_known_as_in_a_map(
            steps in prop::collection::vec(0..200_u64, 0..2000), shift in 0..50_u32,
        ) {
            let (mut table, mut map) = (PageTable::new(), BTreeMap::new());
            for (time, page) in (0..).zip(steps) {
                let (page, uses) = (PageId(page << shift), Uses { last: time, since_write: 0 });
                table.prefetch(page);
                prop_assert_eq!(table.get_mut(page).copied(), map.get(&page).copied());
                match table.get_mut(page) {
                    Some(known) => *known = uses,
                    None => table.insert(page, uses),
                }
                map.insert(page, uses);
                prop_assert_eq!(table.len(), map.len());
            }
            let mut left: Vec<u32> = table.values().map(|uses| uses.last).collect();
            left.sort_unstable();
            let mut expected: Vec<u32> = map.values().map(|uses| uses.last).collect();
            expected.sort_unstable();
            prop_assert_eq!(left, expected);
        }
    }
}
