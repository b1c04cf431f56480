//! [`Numbering`]: renumbers a set of numbers without gaps.

/// The greatest vertex number that is read.
pub(super) const VERTEX_MAX: u32 = u32::MAX - 1;

/// `number` as a vertex number, if it is not too large.
pub(super) fn vertex(number: u64) -> Option<u32> {
    u32::try_from(number).ok().filter(|&number| number <= VERTEX_MAX)
}

/// A set of numbers that counts the smaller members of each. It takes a bit for every number up to
/// the greatest, and half as much again for counts.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    /// The members, 64 bits a word.
    bits: Vec<u64>,
    /// The number of members before each word.
    before: Vec<u32>,
}

impl Numbering {
    /// Adds `number`.
    #[inline]
    pub(super) fn insert(&mut self, number: u32) {
        let word = number as usize / 64;
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        self.bits[word] |= 1 << (number % 64);
    }

    /// Computes the counts after all numbers were added.
    pub(super) fn finish(&mut self) -> u32 {
        let mut count = 0;
        self.before.clear();
        self.before.extend(self.bits.iter().map(|word| {
            count += word.count_ones();
            count - word.count_ones()
        }));
        count
    }

    /// The number of members that are smaller than the member `number`.
    #[inline]
    pub(super) fn number(&self, number: u32) -> u32 {
        let word = number as usize / 64;
        let smaller = self.bits[word] & ((1 << (number % 64)) - 1);
        self.before[word] + smaller.count_ones()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn numbers_keep_their_order_and_lose_their_gaps(
            numbers in prop::collection::btree_set(0u32..3000, 0..200),
        ) {
            let numbers: BTreeSet<u32> = numbers;
            let mut numbering = Numbering::default();
            numbers.iter().rev().for_each(|&number| numbering.insert(number));
            prop_assert_eq!(numbering.finish() as usize, numbers.len());
            let found = numbers.iter().map(|&number| numbering.number(number));
            prop_assert!(found.eq(0..numbers.len() as u32));
        }
    }
}
