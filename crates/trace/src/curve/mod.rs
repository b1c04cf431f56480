//! Miss-ratio curves: the miss ratio of a page cache as a function of its size.
//!
//! * [`StackDistances`]: LRU at every size, exactly, in one pass. Memory grows with the pages
//!   touched.
//! * [`SampledDistances`]: the same from a sample, in fixed memory and several times faster.
//! * [`PolicyCaches`]: any replacement policy of `core`, simulated at chosen sizes.
//!
//! Each counts accesses and returns a [`Curve`].

mod lru_stack;
mod page_table;
mod policy_caches;
mod recent_pages;
mod sampled_distances;
mod stack_distances;
mod use_times;

pub use policy_caches::PolicyCaches;
pub use sampled_distances::{Sample, SampledDistances};
pub use stack_distances::StackDistances;

use ebbtide_core::{PAGE_BYTES, PageId};

use crate::{Access, Op};

/// Calls `touch` with every page of `accesses` in order, and true if it is written. An access
/// touches every page that it covers. Hints are skipped.
pub fn pages_of(accesses: &[Access], mut touch: impl FnMut(PageId, bool)) {
    for access in accesses.iter().filter(|access| access.op != Op::Hint) {
        let first = access.address.page().0;
        let last_byte = access.address.0.saturating_add(u64::from(access.bytes.max(1)) - 1);
        for page in first..=last_byte / PAGE_BYTES as u64 {
            touch(PageId(page), access.is_write());
        }
    }
}

/// Calls `part` with the accesses of `batch` in order, in parts that touch at most `pages_max`
/// pages each. A longer access is split between pages, so that [`pages_of`] finds the same pages in
/// all parts. A caller can stop between two parts: a batch of accesses of 4 GiB takes a minute.
///
/// # Errors
/// The first error of `part`.
pub fn in_parts<E>(
    batch: &[Access],
    pages_max: u64,
    mut part: impl FnMut(&[Access]) -> Result<(), E>,
) -> Result<(), E> {
    let (mut start, mut pages) = (0, 0);
    for (index, access) in batch.iter().enumerate() {
        let covered = covered_pages(access);
        if pages + covered > pages_max {
            part(&batch[start..index])?;
            (start, pages) = (index, 0);
        }
        if covered > pages_max {
            pieces(access, pages_max, &mut part)?;
            start = index + 1;
        } else {
            pages += covered;
        }
    }
    part(&batch[start..])
}

/// The pages that an access covers.
fn covered_pages(access: &Access) -> u64 {
    let last_byte = access.address.0.saturating_add(u64::from(access.bytes.max(1)) - 1);
    last_byte / PAGE_BYTES as u64 - access.address.page().0 + 1
}

/// Calls `part` with pieces of `access` of at most `pages_max` pages, one after the other.
fn pieces<E>(
    access: &Access,
    pages_max: u64,
    part: &mut impl FnMut(&[Access]) -> Result<(), E>,
) -> Result<(), E> {
    let (mut rest, mut left) = (*access, access.bytes);
    while left > 0 {
        let to_border = pages_max * PAGE_BYTES as u64 - rest.address.page_offset() as u64;
        rest.bytes = left.min(u32::try_from(to_border).unwrap_or(u32::MAX));
        part(&[rest])?;
        left -= rest.bytes;
        // The end of the last piece may be that of the address space.
        rest.address.0 = rest.address.0.wrapping_add(u64::from(rest.bytes));
    }
    Ok(())
}

/// The numbers of misses and of pages written back, by the size of DRAM.
///
/// Counts are floating-point numbers, since those of a sample are estimates.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    accesses: u64,
    pages: f64,
    cold: f64,
    /// The counts of sizes from `pages` on, up to the next step; ascending. A smaller size than the
    /// first always misses.
    steps: Vec<Step>,
}

/// The counts of a cache of one size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Pages of DRAM.
    pub pages: u64,
    /// Accesses that miss, the first to each page included.
    pub misses: f64,
    /// Dirty pages that are evicted and so written to flash.
    pub write_backs: f64,
}

impl Curve {
    /// Returns the number of page touches counted: the base of all ratios.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Returns the number of distinct pages touched; an estimate from a sample.
    pub fn pages(&self) -> f64 {
        self.pages
    }

    /// Returns the share of accesses that are the first to their page. They miss at any size.
    pub fn cold_ratio(&self) -> f64 {
        self.cold / self.all()
    }

    /// Returns the sizes at which the counts change, ascending, with their counts.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the share of accesses that miss with `pages` pages of DRAM, from 0 to 1.
    pub fn miss_ratio(&self, pages: u64) -> f64 {
        self.at(pages).misses / self.all()
    }

    /// Returns the pages written back per access with `pages` pages of DRAM.
    pub fn write_back_ratio(&self, pages: u64) -> f64 {
        self.at(pages).write_backs / self.all()
    }

    /// Returns the fewest pages of DRAM with which at most the share `ratio` of the accesses miss.
    /// `None` if no size is enough.
    pub fn pages_for(&self, ratio: f64) -> Option<u64> {
        if ratio >= 1.0 {
            return Some(0);
        }
        let enough = self.steps.partition_point(|step| step.misses / self.all() > ratio);
        self.steps.get(enough).map(|step| step.pages)
    }

    /// Returns the knee of the curve in pages of DRAM, for a dataset of `dataset_pages` pages. It
    /// is the point farthest below the line that joins the curve's ends. Beyond it, another percent
    /// of the data in DRAM avoids less than a percent of the avoidable misses.
    pub fn knee(&self, dataset_pages: u64) -> u64 {
        let (most, least) = (self.all(), self.at(dataset_pages).misses);
        let below = |step: &Step| {
            let share = step.pages as f64 / dataset_pages.max(1) as f64;
            1.0 - share - (step.misses - least) / (most - least).max(f64::MIN_POSITIVE)
        };
        let inside = self.steps.iter().filter(|step| step.pages <= dataset_pages);
        let farthest = inside.max_by(|a, b| below(a).total_cmp(&below(b)));
        farthest.map_or(0, |step| step.pages)
    }

    /// Returns the mean number of distinct pages in a window of `accesses` accesses (Denning and
    /// Schwartz, CACM 1972). The next access of a window is to a new page if it misses in a cache
    /// of the pages touched so far. The result is at most the number of pages counted.
    pub fn working_set(&self, accesses: f64) -> u64 {
        let (mut pages, mut made) = (0, 0.0);
        while made < accesses && (pages as f64) < self.pages() {
            made += 1.0 / self.miss_ratio(pages);
            pages += 1;
        }
        pages
    }

    /// Returns the curve of the accesses since `before`, for example to leave out a warm-up.
    /// `before` must be an earlier curve of the same counter.
    #[must_use]
    pub fn since(&self, before: &Curve) -> Curve {
        let mut sizes: Vec<u64> =
            self.steps.iter().chain(&before.steps).map(|step| step.pages).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let change = |pages| {
            let (now, then) = (self.at(pages), before.at(pages));
            let misses = (now.misses - then.misses).max(0.0);
            Step { pages, misses, write_backs: (now.write_backs - then.write_backs).max(0.0) }
        };
        Curve {
            accesses: self.accesses - before.accesses,
            pages: self.pages,
            cold: (self.cold - before.cold).max(0.0),
            steps: sizes.into_iter().map(change).collect(),
        }
    }

    /// Returns the curve of a sample, corrected by the error of the same sample under another
    /// policy. `exact` and `sampled` are that policy's curves, of all pages and of the same sample.
    /// A sample has too many or too few popular pages, which moves the misses of all policies by
    /// about the same ratio.
    #[must_use]
    pub fn corrected(&self, exact: &Curve, sampled: &Curve) -> Curve {
        let ratio = |of: f64, over: f64| if of > 0.0 && over > 0.0 { of / over } else { 1.0 };
        let correct = |step: &Step| {
            let (exact, sampled) = (exact.at(step.pages), sampled.at(step.pages));
            let misses = step.misses * ratio(exact.misses, sampled.misses);
            let write_backs = step.write_backs * ratio(exact.write_backs, sampled.write_backs);
            let misses = misses.min(self.accesses as f64);
            Step { pages: step.pages, misses, write_backs: write_backs.min(misses) }
        };
        Curve { steps: self.steps.iter().map(correct).collect(), ..self.clone() }
    }

    /// Returns the largest and the mean absolute difference of the two curves' miss ratios over
    /// `sizes`, in pages.
    pub fn error(&self, other: &Curve, sizes: &[u64]) -> (f64, f64) {
        let apart = |&size: &u64| (self.miss_ratio(size) - other.miss_ratio(size)).abs();
        let apart: Vec<f64> = sizes.iter().map(apart).collect();
        let mean = apart.iter().sum::<f64>() / apart.len().max(1) as f64;
        (apart.into_iter().fold(0.0, f64::max), mean)
    }

    fn all(&self) -> f64 {
        self.accesses.max(1) as f64
    }

    fn at(&self, pages: u64) -> Step {
        let after = self.steps.partition_point(|step| step.pages <= pages);
        match after.checked_sub(1) {
            Some(last) => Step { pages, ..self.steps[last] },
            None => Step { pages, misses: self.accesses as f64, write_backs: 0.0 },
        }
    }

    /// The curve of a histogram of distances: `(distance, reuses, write-backs)`, ascending. An
    /// access hits in sizes of at least its distance; a page is written back in smaller ones.
    fn from_distances(
        accesses: u64,
        pages: f64,
        cold: f64,
        distances: impl DoubleEndedIterator<Item = (u64, f64, f64)>,
    ) -> Curve {
        let (mut misses, mut write_backs) = (cold, 0.0);
        let mut steps = Vec::new();
        for (distance, reuses, rewrites) in distances.rev() {
            steps.push(Step { pages: distance, misses, write_backs });
            misses += reuses;
            write_backs += rewrites;
        }
        if steps.last().is_some_and(|step| step.pages > 1) || steps.is_empty() {
            // One frame misses nearly always, but it is a valid cache.
            steps.push(Step { pages: 1, misses, write_backs });
        }
        steps.reverse();
        Curve { accesses, pages, cold, steps }
    }
}
