//! [`Names`]: the keys of items, in hashed tables and in sorted ones.

use super::key::{Key, fnv64};
use crate::keys::Scatter;
use crate::permutation::Permutation;

/// How items get their names.
#[derive(Debug, Clone)]
pub(super) enum Names {
    /// The client's hashed names.
    Hashed,
    /// Names in an order that can be computed.
    Sorted(Sorted),
}

impl Names {
    /// The number in the name of `item`, which is cheaper than the whole name.
    #[inline]
    pub(super) fn number(&self, item: u64) -> u64 {
        match self {
            Names::Hashed => fnv64(item),
            Names::Sorted(sorted) => sorted.number(item),
        }
    }

    /// The key of `item`.
    #[inline]
    pub(super) fn key(&self, item: u64) -> Key {
        match self {
            Names::Hashed => Key::hashed(item),
            Names::Sorted(sorted) => sorted.key(item),
        }
    }
}

/// Names that are spread as evenly as hashes and whose order can be computed.
///
/// An image of sorted data needs the rank of each name, and the client's hashes cannot be sorted
/// without a table of them. So the range of its hashes, 2⁶³ numbers, is divided into as many equal
/// parts as there are initial items. An item's name is at a random place of one part. The item that
/// replaces it gets a name in the same part, so the order never changes. Numbers are written with
/// 19 digits (the client's `zeropadding=19`), so that names sort as their numbers do.
#[derive(Debug, Clone)]
pub(super) struct Sorted {
    window: u64,
    part: u64,
    /// The part of an item of the first window; `None` if parts are in the order of insertion.
    order: Option<Permutation>,
}

impl Sorted {
    /// Names for `window` items at a time. With [`Scatter::Pages`] items of consecutive numbers
    /// have neighbouring names; with [`Scatter::Keys`] their order is random.
    pub(super) fn new(window: u64, scatter: Scatter, seed: u64) -> Sorted {
        let order = match scatter {
            Scatter::Pages => None,
            Scatter::Keys => Some(Permutation::new(window, seed)),
        };
        Sorted { window, part: (1 << 63) / window, order }
    }

    /// The key of `item`.
    #[inline]
    pub(super) fn key(&self, item: u64) -> Key {
        Key::sorted(item, self.number(item))
    }

    /// The number in the name of `item`.
    #[inline]
    fn number(&self, item: u64) -> u64 {
        let residue = item % self.window;
        let part = self.order.as_ref().map_or(residue, |order| order.apply(residue));
        part * self.part + self.within(item)
    }

    /// The initial item whose name has the rank `rank`.
    pub(super) fn at_first(&self, rank: u64) -> u64 {
        self.order.as_ref().map_or(rank, |order| order.invert(rank))
    }

    /// Returns the place of a name within its part: in the first half for initial items, later
    /// alternately in the third and the last quarter. So the first replacement of an item sorts
    /// after it, in the same border node of an index. Two items that are present at the same time
    /// have different names.
    #[inline]
    fn within(&self, item: u64) -> u64 {
        let random = ebbtide_structures::hash::mix(item);
        let quarter = self.part / 4;
        match item / self.window {
            0 => random % (2 * quarter),
            turn => (2 + turn % 2) * quarter + random % quarter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SCATTERS: [Scatter; 2] = [Scatter::Pages, Scatter::Keys];

    proptest! {
        #[test]
        fn names_sort_by_part_and_replacements_follow_the_first(
            window in 1u64..1 << 36,
            scatter in prop::sample::select(&SCATTERS),
            rank: u64,
            turn in 1u64..1000,
        ) {
            let sorted = Sorted::new(window, scatter, 3);
            let rank = rank % window;
            let item = sorted.at_first(rank);
            let part = rank * sorted.part..(rank + 1) * sorted.part;
            let first = sorted.key(item);
            prop_assert!(part.contains(&first.number));
            let [one, next] = [turn, turn + 1].map(|turn| sorted.key(item + turn * window));
            prop_assert!(part.contains(&one.number) && part.contains(&next.number));
            prop_assert!(first.number < one.number && first.number < next.number);
            prop_assert_ne!(one.number, next.number);
            prop_assert_eq!(first.text() < one.text(), first.number < one.number);
            prop_assert_eq!(one.text() < next.text(), one.number < next.number);
        }
    }

    #[test]
    fn names_have_nineteen_digits_always() {
        let sorted = Sorted::new(1 << 36, Scatter::Pages, 1);
        assert!((0..100).all(|item| sorted.key(item).text().len() == 23));
    }
}
