//! [`SampledDistances`]: LRU at every size from a sample of pages and of accesses.

use std::collections::BinaryHeap;

use ebbtide_core::PageId;
use rustc_hash::FxHashMap;

use super::recent_pages::RecentPages;
use super::use_times::UseTimes;
use super::{Curve, pages_of};
use crate::Access;

/// The hashes that belong to a sample: those below a bound, or all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Below(Option<u64>);

impl Below {
    #[inline]
    fn admits(self, hash: u64) -> bool {
        self.0.is_none_or(|bound| hash < bound)
    }

    /// The share of all hashes.
    fn rate(self) -> f64 {
        self.0.map_or(1.0, |bound| bound as f64 / 2_f64.powi(64))
    }
}

/// A sample of pages: those whose hash lies below a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    below: Below,
    pages: u64,
}

impl Sample {
    /// Returns a sample that contains every page. `pages` is their number.
    pub fn all(pages: u64) -> Sample {
        Sample { below: Below(None), pages }
    }

    /// Returns true if `page` belongs to the sample.
    #[inline]
    pub fn contains(&self, page: PageId) -> bool {
        self.below.admits(hash(page.0))
    }

    /// Returns the sampled share of pages, from 0 to 1.
    pub fn rate(&self) -> f64 {
        self.below.rate()
    }

    /// Returns the number of pages in the sample.
    pub fn pages(&self) -> u64 {
        self.pages
    }
}

/// Spreads numbers evenly (the finalizer of MurmurHash3).
#[inline]
fn hash(number: u64) -> u64 {
    let mut hash = number;
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// The hash of an access's number, which decides whether the access is sampled. 31 bits, so it is
/// never [`NONE`].
#[inline]
fn lot(access: u64) -> u32 {
    // Numbers that no page has. Otherwise accesses would be sampled together with the pages of a
    // sweep.
    (hash(access | 1 << 63) >> 33) as u32
}

/// Estimates the misses and write-backs of LRU caches of every size in bounded memory.
///
/// Distances are measured in a sample of pages, as in SHARDS of fixed size (Waldspurger et al.,
/// FAST'15). Pages are sampled by hash, and those with the highest hashes are dropped when there
/// are too many. A distance is scaled by the current sampling rate. SHARDS uses the same sample to
/// count uses, so its error is large when a hot page is sampled or missed. Here uses have their own
/// sample, taken from the accesses to all pages. The page of a sampled access is followed to its
/// next use, whose distance counts. So the result does not depend on how hot a page is. The
/// distance of a near use is counted exactly in the accesses in between.
///
/// Miss ratios of smooth curves are within 0.01 to 0.02 of the exact ones. The tests and the
/// benchmark of this crate measure the error, and [`Curve::error`] computes it. A distance that
/// spans `n` sampled pages has a relative error of about `1/√n`. So the size at a step of a curve,
/// such as a loop's, has the same relative error.
pub struct SampledDistances {
    pages_max: usize,
    below: Below,
    /// The number of pages for which a sampled page stands.
    weight: f64,
    /// The pages in the sample, and those that are followed.
    pages: FxHashMap<PageId, Followed>,
    /// The last uses of the sampled pages.
    times: UseTimes,
    recent: RecentPages,
    /// The sampled pages, the highest hash first.
    by_hash: BinaryHeap<(u64, PageId)>,
    /// The sampling rate when pages that are not followed were last dropped.
    tidied: f64,
    accesses: u64,
    cold: f64,
    /// Reuses and rewrites by bucket of distance.
    distances: Vec<(f64, f64)>,
}

/// The state of a page.
#[derive(Debug, Clone, Copy)]
struct Followed {
    /// The number of its last access.
    number: u64,
    /// The time of that access, in times of the sample.
    last: u32,
    /// The hash of that access; [`NONE`] if it was not sampled.
    access: u32,
    /// The same of the last write.
    write: u32,
    /// The bucket of the greatest distance since that write.
    since_write: u32,
}

/// The hash of an access that is not sampled.
const NONE: u32 = u32::MAX;

impl Followed {
    /// Whether one of the accesses is still sampled.
    fn by(self, below: Below) -> bool {
        chosen(self.access, below) || chosen(self.write, below)
    }
}

/// Ratio of the sampling rates of pages and accesses. Accesses are sampled at the rate of pages at
/// first, and at this fraction of it once pages are dropped. This gives enough accesses for
/// precision, and few enough for speed.
const SPARSE: u64 = 4;

/// Whether the access with the hash `lot` is sampled.
#[inline]
fn chosen(lot: u32, below: Below) -> bool {
    lot != NONE && below.0.is_none_or(|bound| u64::from(lot) << 33 < bound / SPARSE)
}

/// A next use within this many times the weight in accesses is near, and the accesses in between
/// are searched.
const NEAR: f64 = 8.0;

impl SampledDistances {
    /// The number of pages of a sample that takes about three megabytes of memory.
    pub const PAGES: usize = 1 << 14;

    /// Returns a counter with at most `pages_max` sampled pages; 0 counts as 1.
    pub fn new(pages_max: usize) -> SampledDistances {
        SampledDistances {
            pages_max: pages_max.max(1),
            below: Below(None),
            weight: 1.0,
            pages: FxHashMap::default(),
            times: UseTimes::new(),
            recent: RecentPages::new(),
            by_hash: BinaryHeap::new(),
            tidied: 1.0,
            accesses: 0,
            cold: 0.0,
            distances: vec![(0.0, 0.0); BUCKETS],
        }
    }

    /// Counts the pages of `accesses` in order.
    pub fn read(&mut self, accesses: &[Access]) {
        pages_of(accesses, |page, write| self.touch(page, write));
    }

    /// Counts an access to `page`.
    #[inline]
    pub fn touch(&mut self, page: PageId, write: bool) {
        self.recent.push(self.accesses, page);
        self.accesses += 1;
        let (hash, lot) = (hash(page.0), lot(self.accesses));
        let sampled = self.below.admits(hash);
        let lot = if chosen(lot, self.below) { lot } else { NONE };
        if sampled || lot != NONE || self.pages.contains_key(&page) {
            self.follow(page, write, sampled.then_some(hash), lot);
        }
    }

    /// Counts an access to a page that is sampled by its hash or followed, or that is followed from
    /// this access on.
    fn follow(&mut self, page: PageId, write: bool, sampled: Option<u64>, lot: u32) {
        if self.times.is_full() {
            self.pages.values_mut().for_each(|page| page.last = self.times.before(page.last));
            self.times.restart();
        }
        let (below, number) = (self.below, self.accesses - 1);
        let Some(&known) = self.pages.get(&page) else {
            let last = if sampled.is_some() { self.times.give() } else { self.times.now() };
            let write = if write { lot } else { NONE };
            let followed = Followed { number, last, access: lot, write, since_write: 0 };
            self.pages.insert(page, followed);
            if let Some(hash) = sampled {
                self.cold += self.weight;
                self.by_hash.push((hash, page));
                self.shrink();
            }
            return;
        };
        let mut followed = Followed { number, access: lot, ..known };
        if known.by(below) {
            let distance = bucket(self.distance(&known, sampled.is_some(), number));
            followed.since_write = known.since_write.max(distance as u32);
            if chosen(known.access, below) {
                self.distances[distance].0 += self.access_weight();
            }
            if write && chosen(known.write, below) {
                self.distances[followed.since_write as usize].1 += self.access_weight();
            }
        }
        if write {
            (followed.write, followed.since_write) = (lot, 0);
        }
        if sampled.is_some() {
            self.times.strike(known.last);
            followed.last = self.times.give();
        } else if followed.by(below) {
            followed.last = self.times.now();
        } else {
            self.pages.remove(&page);
            return;
        }
        self.pages.insert(page, followed);
    }

    /// The distance of access number `number` to a page with the state `known`.
    fn distance(&mut self, known: &Followed, sampled: bool, number: u64) -> u64 {
        let between = number - known.number - 1;
        let near = self.recent.reach().min((NEAR * self.weight) as u64);
        if self.weight > 1.0 && between < near {
            return 1 + u64::from(self.recent.distinct(known.number + 1, number));
        }
        // A sampled page is itself among those used since.
        let others = self.times.since(known.last) - u32::from(sampled);
        1 + (f64::from(others) * self.weight) as u64
    }

    /// The number of accesses for which a sampled access stands.
    fn access_weight(&self) -> f64 {
        self.below.0.map_or(1.0, |_| self.weight * SPARSE as f64)
    }

    /// Drops sampled pages while there are too many.
    fn shrink(&mut self) {
        while self.by_hash.len() > self.pages_max {
            let Some(&(highest, _)) = self.by_hash.peek() else { return };
            self.below = Below(Some(highest));
            self.weight = 1.0 / self.below.rate();
            while let Some(&(hash, page)) = self.by_hash.peek()
                && hash >= highest
            {
                self.by_hash.pop();
                let known = self.pages[&page];
                self.times.strike(known.last);
                if !known.by(self.below) {
                    self.pages.remove(&page);
                }
            }
        }
        if self.below.rate() < 0.9 * self.tidied {
            self.tidied = self.below.rate();
            let below = self.below;
            self.pages.retain(|page, known| below.admits(hash(page.0)) || known.by(below));
        }
    }

    /// The sample of pages.
    pub fn sample(&self) -> Sample {
        Sample { below: self.below, pages: self.by_hash.len() as u64 }
    }

    /// Returns the bytes of the followed pages, their times and the recent accesses. The queue of
    /// sampled pages and the histogram of distances are not included.
    pub fn memory_bytes(&self) -> usize {
        // One byte a slot in addition to its contents.
        self.pages.capacity() * (size_of::<(PageId, Followed)>() + 1)
            + self.times.memory_bytes()
            + self.recent.memory_bytes()
    }

    /// Returns the curve of the accesses counted so far.
    pub fn curve(&self) -> Curve {
        let mut distances = self.distances.clone();
        for (page, known) in &self.pages {
            if chosen(known.write, self.below) {
                // As if the page were used now.
                let sampled = self.below.admits(hash(page.0));
                let others = self.times.since(known.last) - u32::from(sampled);
                let distance = bucket(1 + (f64::from(others) * self.weight) as u64);
                distances[distance.max(known.since_write as usize)].1 += self.access_weight();
            }
        }
        let seen = distances.iter().enumerate().filter(|(_, counts)| **counts != (0.0, 0.0));
        let seen = seen.map(|(at, counts)| (middle(at), counts.0, counts.1));
        let pages = self.by_hash.len() as f64 * self.weight;
        Curve::from_distances(self.accesses, pages, self.cold, seen)
    }
}

/// Distances up to this have a bucket each; greater ones have a relative precision of one part in
/// this.
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
