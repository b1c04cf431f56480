//! [`NuRand`]: TPC-C's non-uniform random numbers.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Non-uniform random numbers of `first..first + len` (TPC-C rev. 5.11, clause 2.1.6): `((random(0,
/// A) | random(first, last)) + C) mod len + first`.
///
/// Each bit of A is set with probability 3/4, so a number with more of these bits (before C is
/// added) is more popular. Numbers that differ in the lowest bits only have similar popularity, so
/// whole pages of rows in key order are hot or cold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NuRand {
    first: u64,
    len: u64,
    /// The constant A.
    a: u64,
    /// The constant C, `0..=A`.
    c: u64,
}

impl NuRand {
    /// Customer numbers, from 1; A is 1,023 for the standard's 3,000.
    pub fn customers(len: u32, seed: u64) -> NuRand {
        NuRand::new(1, len, 1024, 3000, seed)
    }

    /// Item numbers, from 1; A is 8,191 for the standard's 100,000.
    pub fn items(len: u32, seed: u64) -> NuRand {
        NuRand::new(1, len, 8192, 100_000, seed)
    }

    /// Last names, from 0; A is 255 for the standard's 1,000.
    pub fn names(len: u32, seed: u64) -> NuRand {
        NuRand::new(0, len, 256, 1000, seed)
    }

    /// In the standard, A spans `standard_a` of `standard_len` numbers. For another length it spans
    /// the same part, rounded down to whole bits. `seed` selects C.
    fn new(first: u64, len: u32, standard_a: u64, standard_len: u64, seed: u64) -> NuRand {
        assert!(len > 0, "random numbers of an empty range");
        let len = u64::from(len);
        let spanned = (len * standard_a / standard_len).max(1);
        let a = (1 << spanned.ilog2()) - 1;
        NuRand { first, len, a, c: seed % (a + 1) }
    }

    /// Draws one number.
    #[inline]
    pub fn draw(&self, rng: &mut Pcg64Mcg) -> u32 {
        let last = self.first + self.len - 1;
        let low: u64 = rng.random_range(0..=self.a);
        let any: u64 = rng.random_range(self.first..=last);
        (((low | any) + self.c) % self.len + self.first) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::job_rng;

    #[test]
    fn the_standard_sizes_have_the_standard_constants() {
        let a =
            [NuRand::customers(3000, 0).a, NuRand::items(100_000, 0).a, NuRand::names(1000, 0).a];
        assert_eq!(a, [1023, 8191, 255]);
        assert_eq!([NuRand::items(100, 9).a, NuRand::names(1, 9).a], [7, 0]);
        assert_eq!(NuRand::items(100_000, 3 * 8192 + 17).c, 17);
    }

    #[test]
    fn numbers_stay_in_range_and_all_occur() {
        for (numbers, first, len) in [
            (NuRand::customers(3, 5), 1, 3),
            (NuRand::items(100, 5), 1, 100),
            (NuRand::names(7, 5), 0, 7),
        ] {
            let mut rng = job_rng(3, 0);
            let mut seen = vec![false; len];
            (0..10_000).for_each(|_| seen[numbers.draw(&mut rng) as usize - first] = true);
            assert!(seen.iter().all(|&seen| seen), "{numbers:?}");
        }
    }

    #[test]
    fn a_fifth_of_the_items_is_asked_for_five_times_in_six() {
        // Leutenegger and Dias, SIGMOD'93, find 84% of stock accesses on 20% of the rows.
        let items = NuRand::items(100_000, 1234);
        let mut rng = job_rng(4, 0);
        let mut asked = vec![0u32; 100_000];
        (0..2_000_000).for_each(|_| asked[items.draw(&mut rng) as usize - 1] += 1);
        asked.sort_unstable_by(|a, b| b.cmp(a));
        let hot: u32 = asked[..20_000].iter().sum();
        assert!((0.82..0.87).contains(&(f64::from(hot) / 2e6)), "{hot}");
    }
}
