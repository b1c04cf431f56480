//! [`SampledDistances`]: LRU at every size from a sample of pages.

use std::collections::BinaryHeap;

use ebbtide_core::PageId;

use super::stack::{LruStack, Reuse};
use super::{Curve, pages_of};
use crate::Access;

/// Which pages stand for all: those whose hash lies below a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Hashes from here on do not count; `None` if all do.
    below: Option<u64>,
    pages: u64,
}

impl Sample {
    /// Every page of `pages` in all.
    pub fn all(pages: u64) -> Sample {
        Sample { below: None, pages }
    }

    /// Whether `page` is one of them.
    #[inline]
    pub fn contains(&self, page: PageId) -> bool {
        self.below.is_none_or(|below| hash(page) < below)
    }

    /// The share of all pages that they are, 0 to 1.
    pub fn rate(&self) -> f64 {
        self.below.map_or(1.0, rate_of)
    }

    /// How many of them were touched.
    pub fn pages(&self) -> u64 {
        self.pages
    }
}

/// The share of hashes below `below`.
fn rate_of(below: u64) -> f64 {
    below as f64 / 2_f64.powi(64)
}

/// Spreads page numbers evenly (the finalizer of MurmurHash3).
#[inline]
fn hash(page: PageId) -> u64 {
    let mut hash = page.0;
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// Estimates what LRU caches of every size would miss and write back, in memory that does not grow:
/// SHARDS (Waldspurger and others, FAST 2015) at fixed size, with its adjustment.
///
/// Pages are sampled by hash; when there are too many, those of the highest hashes go and the
/// threshold drops. An access to a page of the sample stands for as many as the rate at that moment
/// says, and its distance is scaled likewise. Ratios relate to all accesses, sampled or not, which
/// cancels most of the error of hot pages that are in the sample or not (the adjustment).
pub struct SampledDistances {
    pages_max: usize,
    below: Option<u64>,
    weight: f64,
    stack: LruStack,
    /// The pages of the sample, the highest hash first.
    by_hash: BinaryHeap<(u64, PageId)>,
    accesses: u64,
    cold: f64,
    /// Reuses and rewrites by bucket of distance.
    distances: Vec<(f64, f64)>,
}

impl SampledDistances {
    /// As many pages in the sample as keep the error near a hundredth, and a megabyte of memory.
    pub const PAGES: usize = 1 << 14;

    /// Nothing counted yet; at most `pages_max` pages will be followed, at least one.
    pub fn new(pages_max: usize) -> SampledDistances {
        SampledDistances {
            pages_max: pages_max.max(1),
            below: None,
            weight: 1.0,
            stack: LruStack::new(),
            by_hash: BinaryHeap::new(),
            accesses: 0,
            cold: 0.0,
            distances: vec![(0.0, 0.0); BUCKETS],
        }
    }

    /// Counts `accesses`.
    pub fn read(&mut self, accesses: &[Access]) {
        pages_of(accesses, |page, write| self.touch(page, write));
    }

    /// Counts an access to `page`.
    #[inline]
    pub fn touch(&mut self, page: PageId, write: bool) {
        self.accesses += 1;
        let hash = hash(page);
        if self.below.is_none_or(|below| hash < below) {
            self.follow(page, write, hash);
        }
    }

    fn follow(&mut self, page: PageId, write: bool, hash: u64) {
        let Reuse { distance, rewrite } = self.stack.touch(page, write);
        let Some(distance) = distance else {
            self.cold += self.weight;
            self.by_hash.push((hash, page));
            return self.shrink();
        };
        self.distances[scaled(distance, self.weight)].0 += self.weight;
        if let Some(most) = rewrite {
            self.distances[scaled(most, self.weight)].1 += self.weight;
        }
    }

    /// Lets pages go while there are too many.
    fn shrink(&mut self) {
        while self.by_hash.len() > self.pages_max {
            let Some(&(highest, _)) = self.by_hash.peek() else { return };
            while let Some(&(hash, page)) = self.by_hash.peek()
                && hash >= highest
            {
                self.by_hash.pop();
                self.stack.forget(page);
            }
            self.below = Some(highest);
            self.weight = 1.0 / rate_of(highest);
        }
    }

    /// The pages followed.
    pub fn sample(&self) -> Sample {
        Sample { below: self.below, pages: self.by_hash.len() as u64 }
    }

    /// The curve of what was counted so far.
    pub fn curve(&self) -> Curve {
        let mut distances = self.distances.clone();
        for most in self.stack.outstanding() {
            distances[scaled(most, self.weight)].1 += self.weight;
        }
        let seen = distances.iter().enumerate().filter(|(_, counts)| **counts != (0.0, 0.0));
        let seen = seen.map(|(at, counts)| (middle(at), counts.0, counts.1));
        let pages = self.by_hash.len() as f64 * self.weight;
        Curve::from_distances(self.accesses, pages, self.cold, seen)
    }
}

/// The bucket of a distance that stands for `weight` times as much.
fn scaled(distance: u32, weight: f64) -> usize {
    bucket((f64::from(distance) * weight) as u64)
}

/// Distances up to this are told apart; above, to one part in as many.
const FINE: u64 = 256;

/// Up to 2⁶⁴ pages.
const BUCKETS: usize = (2 * FINE + 56 * FINE) as usize;

/// The bucket of `distance`: a logarithm with `FINE` steps an octave.
fn bucket(distance: u64) -> usize {
    if distance < 2 * FINE {
        return distance as usize;
    }
    let octave = distance.ilog2() - FINE.ilog2();
    (u64::from(octave) * FINE + (distance >> octave)) as usize
}

/// The middle of the distances in a bucket.
fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * FINE {
        return bucket;
    }
    let octave = bucket / FINE - 1;
    ((bucket - octave * FINE) << octave) + (1 << (octave - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_as_fine_as_promised() {
        for distance in (0..2000).chain((0..54).map(|shift| (1 << shift) + 1)).chain([1 << 63]) {
            let near = middle(bucket(distance));
            let error = near.abs_diff(distance) as f64 / distance.max(1) as f64;
            assert!(error <= 1.0 / FINE as f64, "{distance} is counted as {near}");
            assert!(bucket(distance) < BUCKETS);
        }
    }
}
