//! The keys of jobs: their popularity, and where they lie.
//!
//! A key's *rank* is its popularity: rank 0 is the most popular. [`Ranks`] draws ranks. A
//! [`Scatter`] assigns them to the places of a structure.

mod ranks;

use std::ops::RangeInclusive;

use ebbtide_core::choice;
use rand_pcg::Pcg64Mcg;

use crate::permutation::Permutation;
use ebbtide_structures::hash::mix;

pub(crate) use ranks::Ranks;

/// The skews that a run may have, from a uniform popularity on. With 10, nearly all draws are the
/// first rank.
pub const SKEWS: RangeInclusive<f64> = 0.0..=10.0;

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
    use super::*;

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
