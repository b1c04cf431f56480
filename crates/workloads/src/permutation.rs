//! [`Permutation`]: a seeded, invertible shuffle of `0..n` that is computed and not stored.

use ebbtide_structures::hash::mix;

/// A pseudo-random bijection of `0..n` onto itself for any `n`, without a table, in a few
/// nanoseconds.
///
/// A four-round Feistel network over pairs `(left, right)` with `left < a` and `right < 2ᵏ`. The
/// product `a·2ᵏ` exceeds `n` by less than `√n`. (Black and Rogaway, "Ciphers with Arbitrary Finite
/// Domains", CT-RSA'02: §5, and §4's cycle walking for the few values from `n` on.) It is not a
/// cipher.
#[derive(Debug, Clone)]
pub(crate) struct Permutation {
    len: u64,
    lefts: u64,
    right_bits: u32,
    round_keys: [u64; 4],
}

impl Permutation {
    /// The permutation of `0..len` that `seed` selects.
    ///
    /// # Panics
    /// When `len` is 0 or above 2⁶².
    pub fn new(len: u64, seed: u64) -> Permutation {
        assert!((1..=1 << 62).contains(&len), "a permutation of {len} values");
        let right_bits = len.ilog2() / 2;
        let lefts = len.div_ceil(1 << right_bits);
        let round_keys = std::array::from_fn(|round| mix(seed.wrapping_add(mix(round as u64 + 1))));
        Permutation { len, lefts, right_bits, round_keys }
    }

    /// The number of values.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The image of `value`.
    #[inline]
    pub fn apply(&self, value: u64) -> u64 {
        debug_assert!(value < self.len);
        let mut value = value;
        loop {
            let (mut left, mut right) = self.split(value);
            left = self.add_left(left, self.left_of(right, 0));
            right = self.add_right(right, self.right_of(left, 1));
            left = self.add_left(left, self.left_of(right, 2));
            right = self.add_right(right, self.right_of(left, 3));
            value = left << self.right_bits | right;
            if value < self.len {
                return value;
            }
        }
    }

    /// The inverse of [`apply`](Permutation::apply).
    #[inline]
    pub fn invert(&self, value: u64) -> u64 {
        debug_assert!(value < self.len);
        let mut value = value;
        loop {
            let (mut left, mut right) = self.split(value);
            right = self.add_right(right, self.right_of(left, 3).wrapping_neg());
            left = self.add_left(left, self.lefts - self.left_of(right, 2));
            right = self.add_right(right, self.right_of(left, 1).wrapping_neg());
            left = self.add_left(left, self.lefts - self.left_of(right, 0));
            value = left << self.right_bits | right;
            if value < self.len {
                return value;
            }
        }
    }

    #[inline]
    fn split(&self, value: u64) -> (u64, u64) {
        (value >> self.right_bits, value & self.right_mask())
    }

    #[inline]
    fn right_mask(&self) -> u64 {
        (1 << self.right_bits) - 1
    }

    /// The sum of two left halves modulo `lefts`. The second may be `lefts` itself.
    #[inline]
    fn add_left(&self, left: u64, other: u64) -> u64 {
        let sum = left + other;
        if sum >= self.lefts { sum - self.lefts } else { sum }
    }

    #[inline]
    fn add_right(&self, right: u64, other: u64) -> u64 {
        right.wrapping_add(other) & self.right_mask()
    }

    /// A left half that follows from `right`. There are at most 2³¹, so 32 random bits are scaled.
    #[inline]
    fn left_of(&self, right: u64, round: usize) -> u64 {
        (self.random_bits(right, round) * self.lefts) >> 32
    }

    #[inline]
    fn right_of(&self, left: u64, round: usize) -> u64 {
        self.random_bits(left, round) & self.right_mask()
    }

    /// The round function: 32 bits that depend on all of `half` and on the round.
    #[inline]
    fn random_bits(&self, half: u64, round: usize) -> u64 {
        let mut hash = (half ^ self.round_keys[round]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        hash >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_small_permutation_is_a_bijection() {
        for len in 1..300 {
            let permutation = Permutation::new(len, len ^ 7);
            let mut hit = vec![false; len as usize];
            for value in 0..len {
                let to = permutation.apply(value);
                assert!(!std::mem::replace(&mut hit[to as usize], true), "{len}: {to} twice");
                assert_eq!(permutation.invert(to), value);
            }
        }
    }

    #[test]
    fn a_shuffle_leaves_few_values_in_place_and_few_neighbours_together() {
        let len = 100_003;
        let permutation = Permutation::new(len, 1);
        let fixed = (0..len).filter(|&v| permutation.apply(v) == v).count();
        let together = (1..len)
            .filter(|&v| permutation.apply(v).abs_diff(permutation.apply(v - 1)) <= 8)
            .count();
        // 1 and 16 are expected of a random one.
        assert!(fixed < 8, "{fixed} fixed points");
        assert!(together < 50, "{together} neighbours stay together");
    }

    #[test]
    fn the_top_of_the_range_is_spread_evenly() {
        // The hottest 4,096 of a million values over 16 parts: 256 each, 15.5 standard deviation.
        let permutation = Permutation::new(1 << 20, 3);
        let mut parts = [0u32; 16];
        (0..4096).for_each(|v| parts[(permutation.apply(v) >> 16) as usize] += 1);
        assert!(parts.iter().all(|&n| (180..340).contains(&n)), "{parts:?}");
    }

    #[test]
    fn seeds_give_different_permutations() {
        let (a, b) = (Permutation::new(1000, 1), Permutation::new(1000, 2));
        assert!((0..1000).filter(|&v| a.apply(v) == b.apply(v)).count() < 20);
    }

    proptest! {
        #[test]
        fn invert_undoes_apply_at_any_size(
            len in 1u64..=1 << 62, seed: u64, values in prop::collection::vec(any::<u64>(), 20),
        ) {
            let permutation = Permutation::new(len, seed);
            for value in values.into_iter().map(|v| v % len) {
                let to = permutation.apply(value);
                prop_assert!(to < len);
                prop_assert_eq!(permutation.invert(to), value);
                prop_assert_eq!(permutation.apply(permutation.invert(value)), value);
            }
        }
    }
}
