//! [`greatest`]: binary search for the greatest number that fits.

/// The greatest of `low..=high` for which `fits` holds. It must hold for `low`, and for every
/// number below one for which it holds.
pub(crate) fn greatest(low: u64, high: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (low, high);
    while low < high {
        let middle = high - (high - low) / 2;
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_that_fits_is_found_wherever_it_lies() {
        for last in 3..=20 {
            assert_eq!(greatest(3, 20, |n| n <= last), last);
        }
    }
}
