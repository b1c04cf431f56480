//! Sealed words: a number of 40 bits under 24 bits of its seal, in a word that never tears.
//!
//! A graph in memory is words of this kind throughout, so every number a job reads is checked, at
//! no access more and without a latch: one that rotted, or comes from another place or another
//! dataset, passes one time in 16 million. (One that is merely *old* passes; what becomes of it is
//! said by each program.)

use ebbtide_core::{Addr, Memory};

use crate::Wrong;
use ebbtide_structures::sealed::Seals;

/// Bits of the number in a word.
const NUMBER_BITS: u32 = 40;

/// The greatest number that a word holds.
pub(super) const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1;

/// Bits of a `f64` that a word leaves out: the last of its 52 bits of fraction.
const LEFT_OUT_BITS: u32 = u64::BITS - NUMBER_BITS;

/// Seals and opens the words of one dataset.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words {
    pub(super) seals: Seals,
}

impl Words {
    /// The word at `at` that holds `number`, at most [`NUMBER_MAX`].
    #[inline]
    pub(super) fn close(self, at: Addr, number: u64) -> u64 {
        debug_assert!(number <= NUMBER_MAX, "{number} does not fit in a word");
        self.seals.seal(at, &[number]) << NUMBER_BITS | number
    }

    /// The number in `word`, which was read at `at`.
    #[inline]
    pub(super) fn open(self, at: Addr, word: u64) -> Result<u64, Wrong> {
        let number = word & NUMBER_MAX;
        if self.close(at, number) != word { Err(broken(at)) } else { Ok(number) }
    }

    /// Reads the number at `at`.
    #[inline]
    pub(super) fn read<M: Memory>(self, memory: &mut M, at: Addr) -> Result<u64, Wrong> {
        self.open(at, memory.load(at))
    }

    /// Stores `number` at `at`.
    #[inline]
    pub(super) fn write<M: Memory>(self, memory: &mut M, at: Addr, number: u64) {
        memory.store(at, self.close(at, number));
    }
}

#[cold]
#[inline(never)]
fn broken(at: Addr) -> Wrong {
    Wrong(format!("the word at {at:?} does not match its seal"))
}

/// A non-negative `value` as the number of a word, rounded to 28 bits of fraction: to within
/// 2 parts in 10⁹.
#[inline]
pub(super) fn from_f64(value: f64) -> u64 {
    debug_assert!(value >= 0.0 && value.is_finite());
    (value.to_bits() + (1 << (LEFT_OUT_BITS - 1))) >> LEFT_OUT_BITS
}

/// The value that [`from_f64`] made a number of.
#[inline]
pub(super) fn to_f64(number: u64) -> f64 {
    f64::from_bits(number << LEFT_OUT_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Kind;
    use proptest::prelude::*;

    fn words(seed: u64) -> Words {
        Words { seals: Seals::new(Kind::Gups as u64, 1, seed) }
    }

    proptest! {
        #[test]
        fn a_word_is_opened_where_it_was_closed_and_nowhere_else(
            number in 0..=NUMBER_MAX, index in 0u64..1 << 43, by in 1u64..1 << 30, bit in 0..64u32,
        ) {
            let at = Addr(index * 8);
            let word = words(1).close(at, number);
            prop_assert_eq!(words(1).open(at, word), Ok(number));
            prop_assert!(words(1).open(at, word ^ 1 << bit).is_err());
            prop_assert!(words(1).open(at + by * 8, word).is_err());
            prop_assert!(words(2).open(at, word).is_err());
        }

        #[test]
        fn values_keep_nearly_nine_digits(value in 1e-30f64..1e30) {
            let kept = to_f64(from_f64(value));
            prop_assert!((kept / value - 1.0).abs() < 2e-9);
            prop_assert_eq!(from_f64(kept), from_f64(value));
        }
    }

    #[test]
    fn zero_is_kept_and_zeros_are_no_word() {
        assert_eq!(to_f64(from_f64(0.0)), 0.0);
        assert!(words(0).open(Addr(0), 0).is_err());
    }
}
