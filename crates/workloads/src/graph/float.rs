//! A `f64` as a number of [`NUMBER_BITS`] bits, which a graph stores in a checksummed word.

use ebbtide_structures::checksum::NUMBER_BITS;

/// Bits of a `f64` that the number leaves out: the last of its 52 bits of fraction.
const LEFT_OUT_BITS: u32 = u64::BITS - NUMBER_BITS;

/// A non-negative `value` as a number, rounded to 28 bits of fraction: to within
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
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_keep_nearly_nine_digits(value in 1e-30f64..1e30) {
            let kept = to_f64(from_f64(value));
            prop_assert!((kept / value - 1.0).abs() < 2e-9);
            prop_assert_eq!(from_f64(kept), from_f64(value));
        }
    }

    #[test]
    fn zero_is_kept() {
        assert_eq!(to_f64(from_f64(0.0)), 0.0);
    }
}
