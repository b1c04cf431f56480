//! [`SlotSet`]: a set of slots with one bit each.

const BITS: u32 = u64::BITS;

/// A set of slots.
#[derive(Debug, Clone)]
pub struct SlotSet {
    words: Vec<u64>,
    slots: u64,
}

impl SlotSet {
    /// The empty set, for a store of `slots` slots.
    pub fn empty(slots: u64) -> SlotSet {
        SlotSet { words: vec![0; slots.div_ceil(u64::from(BITS)) as usize], slots }
    }

    /// The set of all of `slots` slots.
    pub(super) fn full(slots: u64) -> SlotSet {
        let mut full = SlotSet::empty(slots);
        full.words.fill(u64::MAX);
        full
    }

    /// Returns the bytes of DRAM of a set for a store of `slots` slots.
    pub const fn bytes(slots: u64) -> usize {
        slots.div_ceil(BITS as u64) as usize * size_of::<u64>()
    }

    /// Adds a slot. Ignores a number beyond the last slot.
    pub fn insert(&mut self, slot: u32) {
        if u64::from(slot) < self.slots {
            self.words[(slot / BITS) as usize] |= 1 << (slot % BITS);
        }
    }

    /// Removes a slot. Returns true if it was in the set.
    pub(super) fn remove(&mut self, slot: u32) -> bool {
        let (word, bit) = (&mut self.words[(slot / BITS) as usize], 1 << (slot % BITS));
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }

    pub(super) fn contains(&self, slot: u32) -> bool {
        self.words[(slot / BITS) as usize] & 1 << (slot % BITS) != 0
    }

    /// Removes all slots that are not in `other`.
    pub(super) fn keep(&mut self, other: &SlotSet) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word &= other);
    }

    /// The slots from `first` on, in order.
    pub(super) fn from(&self, first: u32) -> impl Iterator<Item = u32> {
        let index = (first / BITS) as usize;
        let words = self.words.iter().enumerate().skip(index);
        let of_word = move |(place, word): (usize, &u64)| {
            let below = if place == index { (1 << (first % BITS)) - 1 } else { 0 };
            let mut left = word & !below;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                (bit < BITS).then(|| place as u32 * BITS + bit)
            })
        };
        words.flat_map(of_word).take_while(|slot| u64::from(*slot) < self.slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_gives_its_slots_in_order() {
        let mut set = SlotSet::empty(200);
        [150, 3, 64, 63, 199, 200].into_iter().for_each(|slot| set.insert(slot));
        assert_eq!(set.from(0).collect::<Vec<_>>(), [3, 63, 64, 150, 199]);
        assert_eq!(set.from(64).collect::<Vec<_>>(), [64, 150, 199]);
        assert!(set.remove(64) && !set.remove(64) && !set.contains(64));
        let mut full = SlotSet::full(200);
        assert_eq!(full.from(0).count(), 200);
        full.keep(&set);
        assert_eq!(full.from(0).collect::<Vec<_>>(), [3, 63, 150, 199]);
    }
}
