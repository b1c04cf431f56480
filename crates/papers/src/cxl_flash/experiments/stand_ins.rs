//! Stand-ins for the study's five real programs, whose traces are not at hand: made up from the six
//! figures of Table 5 and from nothing else.
//!
//! An access goes on with the line after the one before with the probability that Table 5 gives as
//! spatial locality. Otherwise it goes elsewhere: with the probability that it gives as temporal
//! locality to one of the [`REUSED`] pages where it last went, the later the likelier (a logarithmic
//! distance); otherwise to a page of the footprint, which is, locality in space holding of pages as
//! of lines, the page after the last such page with the one probability and any page with the other.
//! Whether lines are read or written is decided whenever it goes elsewhere. Accesses come as a
//! Poisson process. The paper does not define its two localities; these are assumptions, made before
//! any claim was tried, and what they decide that Table 5 does not is varied ([`Open`]).

use ebbtide_core::{PAGE_BYTES, PageId};
use ebbtide_trace::{Access, Op, Source, TraceError};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::recording::{BATCH, access};

/// How far back accesses return, in pages gone to.
pub(crate) const REUSED: usize = 1_024;

const LINES_A_PAGE: u64 = 64;

/// One thing that Table 5 leaves open, made otherwise than the generator makes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Open {
    /// Nothing.
    Fixed,
    /// Pages gone to anew are of so many MiB, which move through the footprint once a run.
    WorkingSet(u64),
    /// Accesses return to any of so many pages where they last went, all alike likely.
    Returns(usize),
    /// The share of the pages gone to anew that come after the last such page.
    InOrder(f64),
}

impl Open {
    /// What it is called; nothing for the fixed generator.
    pub(crate) fn name(self) -> String {
        match self {
            Open::Fixed => String::new(),
            Open::WorkingSet(mib) => format!("{mib} MiB"),
            Open::Returns(pages) => format!("returns {pages} pages back"),
            Open::InOrder(share) => format!("{:.0}% in order", 100.0 * share),
        }
    }

    /// Pages where accesses last went, to which they may return.
    fn reused(self) -> usize {
        if let Open::Returns(pages) = self { pages } else { REUSED }
    }

    /// Pages of which those gone to anew are.
    fn working_set(self, of: &StandIn) -> u64 {
        let Open::WorkingSet(mib) = self else { return of.pages() };
        of.pages().min((mib << 20) / PAGE_BYTES as u64)
    }

    fn in_order(self, of: &StandIn) -> f64 {
        if let Open::InOrder(share) = self { share } else { of.spatial }
    }
}

/// A real program, as Table 5 has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StandIn {
    /// What the paper calls it.
    pub(crate) name: &'static str,
    /// Mean time between accesses.
    pub(crate) interval_ns: f64,
    /// Accesses of a run.
    pub(crate) accesses: u64,
    /// Share of reads.
    pub(crate) reads: f64,
    /// Footprint.
    pub(crate) gib: f64,
    /// Locality in space.
    pub(crate) spatial: f64,
    /// Locality in time.
    pub(crate) temporal: f64,
}

/// All five.
pub(crate) const STAND_INS: [StandIn; 5] = [
    stand_in("BERT", 297.0, 41, 0.73, 0.5, 0.64, 0.66),
    stand_in("Page Rank", 51.0, 435, 0.68, 3.7, 0.40, 0.42),
    stand_in("Radiosity", 1863.0, 61, 0.84, 1.6, 0.93, 0.87),
    stand_in("XZ", 237.0, 71, 0.55, 0.9, 0.31, 0.38),
    stand_in("YCSB", 1137.0, 110, 0.65, 1.8, 0.56, 0.55),
];

const fn stand_in(
    name: &'static str,
    interval_ns: f64,
    million_accesses: u64,
    reads: f64,
    gib: f64,
    spatial: f64,
    temporal: f64,
) -> StandIn {
    let accesses = million_accesses * 1_000_000;
    StandIn { name, interval_ns, accesses, reads, gib, spatial, temporal }
}

impl StandIn {
    /// Pages of its footprint.
    pub(crate) fn pages(&self) -> u64 {
        (self.gib * (1 << 30) as f64) as u64 / PAGE_BYTES as u64
    }

    /// How many accesses go to `pages` pages anew.
    pub(crate) fn accesses_to_fill(&self, pages: u64) -> u64 {
        (pages as f64 / ((1.0 - self.spatial) * (1.0 - self.temporal))) as u64
    }

    /// Its first `accesses` accesses, by virtual addresses.
    pub(crate) fn trace(&self, accesses: u64, open: Open, seed: u64) -> MadeUp {
        MadeUp {
            of: *self,
            open,
            random: Pcg64Mcg::seed_from_u64(seed),
            made: 0,
            left: accesses,
            at_ps: 0.0,
            line: 0,
            write: false,
            gone_to: vec![PageId(0); open.reused()],
            times_gone: 0,
            swept: 0,
        }
    }
}

/// A stand-in's accesses, made as they are read.
pub(crate) struct MadeUp {
    of: StandIn,
    open: Open,
    random: Pcg64Mcg,
    made: u64,
    left: u64,
    at_ps: f64,
    line: u64,
    write: bool,
    /// A ring of the pages last gone to.
    gone_to: Vec<PageId>,
    times_gone: usize,
    swept: u64,
}

impl MadeUp {
    fn chance(&mut self, of: f64) -> bool {
        self.random.random::<f64>() < of
    }

    fn step(&mut self) -> Access {
        self.made += 1;
        self.at_ps -= self.of.interval_ns * 1e3 * (1.0 - self.random.random::<f64>()).ln();
        let lines = self.of.pages() * LINES_A_PAGE;
        if self.chance(self.of.spatial) {
            self.line = (self.line + 1) % lines;
        } else {
            self.write = !self.chance(self.of.reads);
            let page = self.elsewhere();
            let oldest = self.times_gone % self.gone_to.len();
            self.gone_to[oldest] = page;
            self.times_gone += 1;
            self.line = page.0 * LINES_A_PAGE + self.random.random_range(0..LINES_A_PAGE);
        }
        access(self.at_ps as u64, self.line, if self.write { Op::Write } else { Op::Read })
    }

    fn elsewhere(&mut self) -> PageId {
        if self.times_gone > 0 && self.chance(self.of.temporal) {
            let reach = self.gone_to.len().min(self.times_gone) as f64;
            let by_chance = self.random.random::<f64>();
            let back = match self.open {
                Open::Returns(_) => 1 + (reach * by_chance) as usize,
                _ => reach.powf(by_chance) as usize,
            };
            return self.gone_to[(self.times_gone - back) % self.gone_to.len()];
        }
        let pages = self.open.working_set(&self.of);
        let share_of_run = self.made as f64 / self.of.accesses as f64;
        let first = ((self.of.pages() - pages) as f64 * share_of_run) as u64;
        if self.chance(self.open.in_order(&self.of)) {
            self.swept = (self.swept + 1) % pages;
            return PageId(first + self.swept);
        }
        PageId(first + self.random.random_range(0..pages))
    }
}

impl Source for MadeUp {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        let count = self.left.min(BATCH as u64);
        batch.extend((0..count).map(|_| self.step()));
        self.left -= count;
        Ok(count > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Pages of the second half of so many accesses of the first stand-in.
    fn pages(accesses: u64, open: Open) -> BTreeSet<u64> {
        let mut trace = STAND_INS[0].trace(accesses, open, 1);
        let (mut batch, mut pages, mut seen) = (Vec::new(), BTreeSet::new(), 0);
        while trace.fill(&mut batch).unwrap() {
            for access in &batch {
                seen += 1;
                if seen > accesses / 2 {
                    pages.insert(access.address.page().0);
                }
            }
        }
        pages
    }

    #[test]
    fn a_working_set_holds_the_pages_gone_to_anew_and_moves_on() {
        let all = pages(400_000, Open::Fixed);
        let some = pages(400_000, Open::WorkingSet(16));
        // 4096 pages, some 620 that they move on by, and lines that run over the end of a page.
        assert!(some.len() < 5_000 && all.len() > 3 * some.len(), "{} {}", some.len(), all.len());
        let (first, last) = (some.first().unwrap(), some.last().unwrap());
        assert!(*first > 0 && last - first < 5_000, "{first} to {last}");
    }

    #[test]
    fn so_many_accesses_go_to_so_many_pages_anew() {
        let accesses = STAND_INS[0].accesses_to_fill(10_000);
        // In order they are all different.
        let reached = pages(2 * accesses, Open::InOrder(1.0)).len();
        assert!((9_500..12_000).contains(&reached), "{reached}");
    }
}
