//! [`Spread`]: the bijection from items to places of a table.

use crate::keys::Scatter;

/// A bijection of `0..pages·per_page` onto itself that is cheap enough for every look-up.
///
/// One of the four rounds of the Feistel network of a `Permutation`. It rotates the high part of a
/// number by a hash of the low part. Neighbouring numbers get to different pages. This is enough
/// here, because the client's hash has scrambled the popularity of items before. With
/// [`Scatter::Pages`] only pages are permuted, and consecutive numbers share a page.
#[derive(Debug, Clone)]
pub(super) struct Spread {
    /// The number of consecutive numbers that are moved together.
    len: u64,
    together: u64,
    /// The number of high parts. The low part has `low_bits` bits.
    highs: u64,
    low_bits: u32,
    key: u64,
}

impl Spread {
    /// The bijection that `seed` selects.
    pub(super) fn new(pages: u64, per_page: u64, scatter: Scatter, seed: u64) -> Spread {
        let (len, together) = match scatter {
            Scatter::Pages => (pages, per_page),
            Scatter::Keys => (pages * per_page, 1),
        };
        assert!((1..=1 << 62).contains(&len), "{len} numbers");
        let low_bits = len.ilog2() / 2;
        Spread { len, together, highs: len.div_ceil(1 << low_bits), low_bits, key: seed }
    }

    /// The image of `number`.
    #[inline]
    pub(super) fn apply(&self, number: u64) -> u64 {
        match self.together {
            1 => self.walk(number, |high, turn| high + turn),
            n => self.walk(number / n, |high, turn| high + turn) * n + number % n,
        }
    }

    /// The inverse of [`apply`](Spread::apply).
    pub(super) fn invert(&self, place: u64) -> u64 {
        let n = self.together;
        self.walk(place / n, |high, turn| high + self.highs - turn) * n + place % n
    }

    /// Rotates the high part, repeatedly while the result is beyond the end, which is rare.
    #[inline]
    fn walk(&self, number: u64, turned: impl Fn(u64, u64) -> u64) -> u64 {
        let low = number & ((1 << self.low_bits) - 1);
        let hash = (low ^ self.key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        // At most 2³¹ + 1 high parts.
        let turn = (hash * self.highs) >> 32;
        let mut high = number >> self.low_bits;
        loop {
            high = turned(high, turn);
            high = if high >= self.highs { high - self.highs } else { high };
            let number = high << self.low_bits | low;
            if number < self.len {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SCATTERS: [Scatter; 2] = [Scatter::Pages, Scatter::Keys];

    #[test]
    fn every_small_spread_is_a_bijection() {
        for (pages, scatter) in (1..100).flat_map(|pages| SCATTERS.map(|s| (pages, s))) {
            let spread = Spread::new(pages, 3, scatter, pages ^ 7);
            let mut hit = vec![false; 3 * pages as usize];
            for number in 0..3 * pages {
                let place = spread.apply(number);
                assert!(!std::mem::replace(&mut hit[place as usize], true), "{place} twice");
                assert_eq!(spread.invert(place), number);
            }
        }
    }

    #[test]
    fn neighbours_are_far_apart_or_share_a_page() {
        let share_a_page = |scatter, window: u64| {
            let spread = Spread::new(10_000, 63, scatter, 5);
            let page = |number| spread.apply(number) / 63;
            let mut pages: Vec<u64> = (300_000..300_000 + window).map(page).collect();
            pages.sort_unstable();
            pages.dedup();
            pages.len()
        };
        assert_eq!(share_a_page(Scatter::Pages, 63), 2);
        // Of 1,000 at random, 48 would find their page taken.
        assert!(share_a_page(Scatter::Keys, 1000) > 930);
        // Thrown at random over 10,000 pages, 10,000 would reach 6,321 of them.
        assert!(share_a_page(Scatter::Keys, 10_000) > 6_000);
    }

    proptest! {
        #[test]
        fn invert_undoes_apply_at_any_size(
            pages in 1u64..=1 << 50, scatter in prop::sample::select(&SCATTERS), seed: u64,
            number: u64,
        ) {
            let spread = Spread::new(pages, 63, scatter, seed);
            let number = number % (63 * pages);
            let place = spread.apply(number);
            prop_assert!(place < 63 * pages);
            prop_assert_eq!(spread.invert(place), number);
            prop_assert_eq!(spread.apply(spread.invert(place)), place);
        }
    }
}
