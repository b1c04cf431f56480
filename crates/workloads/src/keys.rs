//! The keys of jobs: their popularity, and where they lie.
//!
//! A key's *rank* is its popularity: rank 0 is the most popular. [`Ranks`] draws ranks. A
//! [`Scatter`] assigns them to the places of a structure.

use ebbtide_core::choice;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::permutation::Permutation;
use ebbtide_structures::hash::mix;

choice! {
    /// How keys of different popularity are laid over pages.
    #[derive(Default)]
    pub enum Scatter as "scatter" {
        /// Keys of consecutive ranks share a page, and the pages are shuffled. Hot data clusters,
        /// as data does that was created together or is sorted by age.
        #[default]
        Pages = "pages",
        /// Every key is shuffled alone: YCSB's hashed ("scrambled") Zipfian. A page holds hot and
        /// cold keys alike, the worst case for a cache of pages.
        Keys = "keys",
    }
}

/// A bijection between ranks and places, where places are grouped into pages.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    shuffle: Permutation,
    /// The number of consecutive ranks that stay together.
    together: u64,
}

impl Places {
    /// Lays `pages · per_page` ranks over as many places, `per_page` of them to a page.
    pub(crate) fn new(pages: u64, per_page: u64, scatter: Scatter, seed: u64) -> Places {
        match scatter {
            Scatter::Pages => Places { shuffle: Permutation::new(pages, seed), together: per_page },
            Scatter::Keys => {
                Places { shuffle: Permutation::new(pages * per_page, seed), together: 1 }
            }
        }
    }

    /// The place of the key of rank `rank`.
    #[inline]
    pub(crate) fn place(&self, rank: u64) -> u64 {
        match self.together {
            1 => self.shuffle.apply(rank),
            n => self.shuffle.apply(rank / n) * n + rank % n,
        }
    }

    /// The rank of the key at `place`.
    #[inline]
    pub(crate) fn rank(&self, place: u64) -> u64 {
        match self.together {
            1 => self.shuffle.invert(place),
            n => self.shuffle.invert(place / n) * n + place % n,
        }
    }
}

/// Draws ranks `0..n` with Zipfian popularity: rank `r` with probability `∝ 1 / (r + 1)^θ`.
///
/// Exact rejection sampling in constant time and space for any `n`, with the draws of
/// `rand_distr::Zipf`. Nearly all draws are accepted by a bound that takes no power. The 53-bit
/// uniform numbers have over 10⁴ values for the rarest of 2³³ ranks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ranks {
    theta: f64,
    /// The area under the envelope: 1 for the first rank, then `x^-θ` from 1 to `n`.
    area: f64,
    /// `1 / (1 - θ)`, or 0 if θ is 1.
    inverse: f64,
    /// The slope of the bound: at most `1 - slope·u` of the envelope is lost at a share `u`.
    slope: f64,
    len: u64,
}

/// More than powers of 2⁵³ ranks are rounded by.
const ROUNDING: f64 = 1e-9;

impl Ranks {
    /// Ranks `0..len` with skew `theta`: 0 is uniform, 0.99 is YCSB's.
    ///
    /// # Panics
    /// When `len` is 0 or above 2⁵³, or `theta` is negative or not finite.
    pub fn new(len: u64, theta: f64) -> Ranks {
        assert!((1..=1 << 53).contains(&len), "{len} ranks");
        assert!(theta.is_finite() && theta >= 0.0, "Zipf θ = {theta}");
        let n = len as f64;
        let (area, inverse) = if theta == 1.0 {
            (1.0 + n.ln(), 0.0)
        } else {
            let inverse = 1.0 / (1.0 - theta);
            ((n.powf(1.0 - theta) - theta) * inverse, inverse)
        };
        Ranks { theta, area, inverse, slope: theta.max(1.0), len }
    }

    /// Draws one rank.
    #[inline]
    pub fn draw(&self, rng: &mut Pcg64Mcg) -> u64 {
        loop {
            let drawn = self.under_envelope(rng.random());
            let rank = (drawn + 1.0).floor();
            // Below the envelope `drawn^-θ` the ranks have `rank^-θ`. Bernoulli's inequality bounds
            // the ratio of the two, for θ < 1 by that of θ = 1.
            let height: f64 = rng.random();
            let certain = 1.0 - self.slope * (rank - drawn) / rank - ROUNDING;
            if rank == 1.0
                || height < certain
                || height < rank.powf(-self.theta) * drawn.powf(self.theta)
            {
                // Rounding may reach one beyond the last rank.
                return (rank as u64 - 1).min(self.len - 1);
            }
        }
    }

    /// The place below which a share `share` of the envelope's area lies.
    #[inline]
    fn under_envelope(&self, share: f64) -> f64 {
        let area = share * self.area;
        if area <= 1.0 {
            area
        } else if self.theta == 1.0 {
            (area - 1.0).exp()
        } else {
            (area * (1.0 - self.theta) + self.theta).powf(self.inverse)
        }
    }
}

/// The random numbers of job `job` in the stream `seed`. Jobs are independent of each other.
#[inline]
pub(crate) fn job_rng(seed: u64, job: u64) -> Pcg64Mcg {
    let high = mix(seed ^ mix(job));
    let low = mix(high ^ job);
    Pcg64Mcg::new(u128::from(high) << 64 | u128::from(low))
}

/// The instructions of part `part` of `parts`, which spread a job's `instructions` over its
/// accesses.
#[inline]
pub(crate) fn share(instructions: u64, part: u64, parts: u64) -> u64 {
    let upto = |part| (u128::from(instructions) * u128::from(part) / u128::from(parts)) as u64;
    upto(part + 1) - upto(part)
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, Zipf};

    use super::*;

    /// Pearson's χ² of `draws` ranks of `0..len` against the exact probabilities.
    fn chi_square(len: u64, theta: f64, draws: u64) -> f64 {
        let ranks = Ranks::new(len, theta);
        let mut rng = job_rng(11, 0);
        let mut seen = vec![0u64; len as usize];
        (0..draws).for_each(|_| seen[ranks.draw(&mut rng) as usize] += 1);
        let weight = |rank: usize| ((rank + 1) as f64).powf(-theta);
        let total: f64 = (0..seen.len()).map(weight).sum();
        let excess = |(rank, &n): (usize, &u64)| {
            let expected = draws as f64 * weight(rank) / total;
            (n as f64 - expected).powi(2) / expected
        };
        seen.iter().enumerate().map(excess).sum()
    }

    #[test]
    fn drawn_ranks_have_the_exact_zipf_frequencies() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.2] {
            // 99 degrees of freedom: above 148.2 one time in a thousand. The seed is fixed.
            let found = chi_square(100, theta, 300_000);
            assert!(found < 148.2, "θ = {theta}: χ² = {found}");
        }
    }

    #[test]
    fn ranks_are_drawn_as_rand_distr_draws_them() {
        for theta in [0.0, 0.3, 0.99, 1.0, 1.2, 3.0, 20.0] {
            for len in [1, 2, 3, 100, 1 << 20, 1 << 33, 1 << 53] {
                let (ranks, zipf) = (Ranks::new(len, theta), Zipf::new(len as f64, theta).unwrap());
                let (mut rng, mut other) = (job_rng(3, len), job_rng(3, len));
                for draw in 0..20_000 {
                    let expected = (zipf.sample(&mut other) as u64 - 1).min(len - 1);
                    assert_eq!(ranks.draw(&mut rng), expected, "draw {draw} of {len}, {theta}");
                }
            }
        }
    }

    #[test]
    fn a_wrong_skew_fails_the_same_test() {
        let ranks = Ranks::new(100, 0.9);
        let mut rng = job_rng(11, 0);
        let hottest = (0..300_000).filter(|_| ranks.draw(&mut rng) == 0).count() as f64;
        let expected = 300_000.0 / (1..=100).map(|r| f64::from(r).powf(-0.99)).sum::<f64>();
        assert!((hottest - expected).powi(2) / expected > 148.2);
    }

    #[test]
    fn eight_billion_ranks_are_drawn_by_the_decades_of_the_exact_sum() {
        let (len, theta, draws) = (1u64 << 33, 0.99, 200_000);
        let ranks = Ranks::new(len, theta);
        let mut rng = job_rng(5, 0);
        let mut below = [0u32; 34];
        for _ in 0..draws {
            let rank = ranks.draw(&mut rng);
            assert!(rank < len);
            (0..34).filter(|&b| rank < 1 << b).for_each(|b| below[b] += 1);
        }
        // Σ r^-θ for r ≤ n by Euler–Maclaurin; exact to 1e-9 from n = 1 on once the constant is
        // taken from a sum of the first thousand.
        let integral = |n: f64| {
            n.powf(1.0 - theta) / (1.0 - theta) + n.powf(-theta) / 2.0
                - theta * n.powf(-theta - 1.0) / 12.0
        };
        let thousand: f64 = (1..=1000).map(|r| f64::from(r).powf(-theta)).sum();
        let sum = |n: f64| thousand + integral(n) - integral(1000.0);
        for (b, &drawn) in below.iter().enumerate().skip(10) {
            let share = sum((1u64 << b) as f64) / sum(len as f64);
            let found = f64::from(drawn) / f64::from(draws);
            // Four standard deviations of a share of 200,000 draws.
            let tolerance = 4.0 * (share * (1.0 - share) / f64::from(draws)).sqrt() + 1e-9;
            assert!((found - share).abs() < tolerance, "2^{b}: {found} against {share}");
        }
    }

    #[test]
    fn places_are_a_bijection_that_keeps_pages_together_or_not() {
        for scatter in [Scatter::Pages, Scatter::Keys] {
            let places = Places::new(37, 64, scatter, 9);
            let mut hit = vec![false; 37 * 64];
            let mut same_page = 0;
            for rank in 0..37 * 64 {
                let place = places.place(rank);
                assert_eq!(places.rank(place), rank);
                assert!(!std::mem::replace(&mut hit[place as usize], true));
                same_page += u32::from(places.place(rank / 64 * 64) / 64 == place / 64);
            }
            match scatter {
                Scatter::Pages => assert_eq!(same_page, 37 * 64),
                Scatter::Keys => assert!(same_page < 200),
            }
        }
    }

    #[test]
    fn shares_add_up_and_are_even() {
        for instructions in [0, 1, 7, 10_000, u64::MAX] {
            let shares: Vec<u64> = (0..4).map(|part| share(instructions, part, 4)).collect();
            assert_eq!(shares.iter().sum::<u64>(), instructions);
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn a_scatter_is_found_by_its_name() {
        for (name, scatter) in Scatter::ALL.map(|scatter| (scatter.name(), scatter)) {
            assert_eq!(name.parse::<Scatter>(), Ok(scatter));
            assert_eq!(scatter.name(), name);
        }
        assert!("page".parse::<Scatter>().unwrap_err().to_string().contains("'pages'"));
    }
}
