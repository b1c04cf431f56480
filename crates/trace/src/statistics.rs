//! [`Statistics`]: the properties of a trace that the CXL-flash paper tabulates (ATC'23, Tables 2
//! and 5).

use std::collections::VecDeque;
use std::fmt;

use ebbtide_core::{LINE_BYTES, PAGE_BYTES, PageId, Time};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use crate::curve::pages_of;
use crate::{Access, Op, Source, TraceError};

/// The stride of an access is its distance to the nearest of this many accesses before it (Weinberg
/// et al., SC'05).
const WINDOW: usize = 32;

/// Properties of a trace. Hints are counted and otherwise ignored. An access touches every page
/// that it covers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statistics {
    /// Reads and writes.
    pub accesses: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Hints.
    pub hints: u64,
    /// Threads with at least one access.
    pub threads: u64,
    /// Bytes of the distinct pages accessed.
    pub footprint_bytes: u64,
    /// Mean time between accesses, in nanoseconds.
    pub inter_arrival_ns: f64,
    /// 0 to 1: the mean of 1/stride. An access's stride is its distance in lines to the nearest of
    /// the 32 accesses before it, at least 1. An access of the same line counts 0 (Weinberg et al.,
    /// SC'05). The CXL-flash paper does not define its measure.
    pub spatial_locality: f64,
    /// 0 to 1: the mean over touched pages of 1 - log(d + 1) / log(N + 1). Here d is the number of
    /// accesses since the page was last touched, and N the number of all accesses. The first touch
    /// of a page counts 0 (after Weinberg et al., who count distinct addresses). This differs from
    /// the reuse probability of the synthetic traces in the CXL-flash reproduction.
    pub temporal_locality: f64,
    /// The share of accesses whose physical address is known.
    pub physical_share: f64,
    /// Shares of all touches that go to the hottest pages, for several shares of pages.
    pub hottest: Vec<Hottest>,
    /// Touches of pages in equal parts of the footprint, in the order of addresses.
    pub heat: Vec<u64>,
    /// Pages in each part of `heat`; the last may have fewer.
    pub heat_pages: u64,
}

/// The share of touches that go to the hottest pages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Hottest {
    /// The hottest pages, as a share of all touched pages.
    pub pages_share: f64,
    /// Share of all touches. An access touches every page that it covers.
    pub accesses_share: f64,
}

/// The number of parts: lines of 64 letters.
const HEAT_PARTS: u64 = 64 * 12;

#[derive(Default)]
struct Page {
    count: u64,
    /// The number of its last access.
    last: u64,
}

/// Collects statistics access by access. Memory grows with the footprint, not with the length.
#[derive(Default)]
struct Gatherer {
    reads: u64,
    writes: u64,
    hints: u64,
    threads: FxHashSet<u32>,
    /// The thread of the last access.
    thread: Option<u32>,
    physical: u64,
    first: Option<Time>,
    last: Time,
    pages: FxHashMap<PageId, Page>,
    /// The pages that all accesses touch, counted once an access.
    touches: u64,
    recent: VecDeque<u64>,
    nearness: f64,
    /// Sum over re-accesses of log(d + 1).
    distances: f64,
}

impl Statistics {
    /// Reads `source` to its end and returns its statistics.
    ///
    /// # Errors
    /// [`TraceError`] if the source cannot be read to its end.
    pub fn gather(source: &mut dyn Source) -> Result<Statistics, TraceError> {
        let (mut gatherer, mut batch) = (Gatherer::default(), Vec::new());
        while source.fill(&mut batch)? {
            batch.iter().for_each(|access| gatherer.push(access));
        }
        Ok(gatherer.finish())
    }
}

impl Gatherer {
    fn push(&mut self, access: &Access) {
        match access.op {
            Op::Read => self.reads += 1,
            Op::Write => self.writes += 1,
            Op::Hint => {
                self.hints += 1;
                return;
            }
        }
        if self.thread.replace(access.thread) != Some(access.thread) {
            self.threads.insert(access.thread);
        }
        self.physical += u64::from(access.frame.is_some());
        self.first.get_or_insert(access.at);
        self.last = access.at;
        let line = access.address.0 / LINE_BYTES as u64;
        let stride = self.recent.iter().map(|other| line.abs_diff(*other)).min();
        self.nearness +=
            stride.filter(|&stride| stride > 0).map_or(0.0, |stride| 1.0 / stride as f64);
        if self.recent.len() == WINDOW {
            self.recent.pop_front();
        }
        self.recent.push_back(line);
        let number = self.reads + self.writes;
        pages_of(std::slice::from_ref(access), |page, _| {
            let page = self.pages.entry(page).or_default();
            if page.count > 0 {
                self.distances += ((number - page.last) as f64 + 1.0).ln();
            }
            page.count += 1;
            page.last = number;
            self.touches += 1;
        });
    }

    fn finish(self) -> Statistics {
        let accesses = self.reads + self.writes;
        let of_all = |sum: f64| if accesses > 0 { sum / accesses as f64 } else { 0.0 };
        let of_touches = |sum: f64| sum / self.touches.max(1) as f64;
        let again = self.touches - self.pages.len() as u64;
        let longest = (accesses as f64 + 1.0).ln();
        let closeness = if again > 0 { again as f64 - self.distances / longest } else { 0.0 };
        let span = self.first.map_or(0, |first| self.last.since(first).as_ps());
        let mut pages: Vec<_> =
            self.pages.iter().map(|(page, known)| (*page, known.count)).collect();
        pages.sort_unstable();
        let heat_pages = (pages.len() as u64).div_ceil(HEAT_PARTS).max(1);
        let heat = pages
            .chunks(heat_pages as usize)
            .map(|part| part.iter().map(|(_, count)| count).sum())
            .collect();
        let mut counts: Vec<_> = pages.iter().map(|(_, count)| *count).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hottest = [0.01, 0.03, 0.1].map(|share| {
            let top = (counts.len() as f64 * share).ceil() as usize;
            let sum: u64 = counts[..top.min(counts.len())].iter().sum();
            Hottest { pages_share: share, accesses_share: of_touches(sum as f64) }
        });
        Statistics {
            accesses,
            reads: self.reads,
            writes: self.writes,
            hints: self.hints,
            threads: self.threads.len() as u64,
            footprint_bytes: (pages.len() * PAGE_BYTES) as u64,
            inter_arrival_ns: span as f64 / 1e3 / accesses.saturating_sub(1).max(1) as f64,
            spatial_locality: of_all(self.nearness),
            temporal_locality: of_touches(closeness),
            physical_share: of_all(self.physical as f64),
            hottest: hottest.to_vec(),
            heat,
            heat_pages,
        }
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Statistics { accesses, reads, hints, .. } = self;
        let reads = 100.0 * *reads as f64 / (*accesses).max(1) as f64;
        writeln!(f, "accesses           {accesses}, and {hints} hints")?;
        writeln!(f, "threads            {}", self.threads)?;
        writeln!(f, "reads:writes       {reads:.0}:{:.0}", 100.0 - reads)?;
        let mebibytes = self.footprint_bytes as f64 / (1 << 20) as f64;
        writeln!(f, "footprint          {mebibytes:.1} MiB of 4 KiB pages")?;
        writeln!(f, "inter-arrival      {:.0} ns", self.inter_arrival_ns)?;
        writeln!(f, "spatial locality   {:.2}", self.spatial_locality)?;
        writeln!(f, "temporal locality  {:.2}", self.temporal_locality)?;
        writeln!(f, "physical address   of {:.1}% of the accesses", 100.0 * self.physical_share)?;
        for Hottest { pages_share, accesses_share } in &self.hottest {
            let (pages, share) = (100.0 * pages_share, 100.0 * accesses_share);
            writeln!(f, "hottest {pages:>3.0}% pages  take {share:.1}% of the accesses")?;
        }
        let pages = self.heat_pages;
        writeln!(
            f,
            "\nA letter is {pages} pages, in the order of addresses; darker means hotter:"
        )?;
        let hottest = self.heat.iter().max().map_or(0.0, |&most| (most as f64 + 1.0).ln());
        for line in self.heat.chunks(64) {
            let shade = |count: &u64| {
                let level = (*count as f64 + 1.0).ln() / hottest * (SHADES.len() - 1) as f64;
                SHADES[level.round() as usize]
            };
            writeln!(f, "  {}", line.iter().map(shade).collect::<String>())?;
        }
        Ok(())
    }
}

/// Letters from cold to hot. Each step is a constant factor of accesses.
const SHADES: [char; 10] = [' ', '.', ':', '-', '=', '+', '*', '#', '%', '@'];
