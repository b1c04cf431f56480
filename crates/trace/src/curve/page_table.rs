//! [`PageTable`]: a hash table of the last uses of pages.

use std::hint::black_box;

use ebbtide_core::PageId;

/// The mark of an empty slot and of a page without an outstanding write. No time reaches it.
pub(super) const NEVER: u32 = u32::MAX;

/// The last uses of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) last: u32,
    /// The greatest distance since the last write; [`NEVER`] if the page is clean.
    pub(super) since_write: u32,
}

/// A hash table with linear probing. A look-up reads one line of memory in most cases, which can be
/// prefetched.
pub(super) struct PageTable {
    /// Their number is a power of two.
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

/// The number of slots of a new table.
const SLOTS_MIN: usize = 64;

impl PageTable {
    pub(super) fn new() -> PageTable {
        PageTable { slots: vec![EMPTY; SLOTS_MIN], len: 0 }
    }

    /// The number of pages.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Prefetches the slot of `page`.
    #[inline]
    pub(super) fn prefetch(&self, page: PageId) {
        // Nothing depends on this load, so the core continues while it is under way.
        black_box(self.slots[self.home(page)].uses.last);
    }

    /// The uses of `page`, if it is present.
    #[inline]
    pub(super) fn get_mut(&mut self, page: PageId) -> Option<&mut Uses> {
        let at = self.find(page);
        let slot = &mut self.slots[at];
        if slot.is_empty() { None } else { Some(&mut slot.uses) }
    }

    /// Inserts a page that is not present.
    pub(super) fn insert(&mut self, page: PageId, uses: Uses) {
        if self.len * 3 >= self.slots.len() * 2 {
            self.grow();
        }
        let at = self.find(page);
        debug_assert!(self.slots[at].is_empty() && uses.last != NEVER);
        self.slots[at] = Slot { page, uses };
        self.len += 1;
    }

    /// The uses of all pages, in no order.
    pub(super) fn values(&self) -> impl Iterator<Item = &Uses> {
        self.slots.iter().filter(|slot| !slot.is_empty()).map(|slot| &slot.uses)
    }

    /// The same, to be changed.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Uses> {
        self.slots.iter_mut().filter(|slot| !slot.is_empty()).map(|slot| &mut slot.uses)
    }

    /// The slot of `page`, or the slot it would get.
    #[inline]
    fn find(&self, page: PageId) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = self.home(page);
        while self.slots[at].page != page && !self.slots[at].is_empty() {
            at = (at + 1) & mask;
        }
        at
    }

    /// The slot at which the search for `page` begins: the high bits of a product (Knuth, The Art
    /// of Computer Programming, §6.4).
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
