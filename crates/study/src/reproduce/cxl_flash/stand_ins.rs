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
//! any claim was tried.

use ebbtide_core::PageId;
use ebbtide_trace::{Access, Op, Source, TraceError};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::recording::{BATCH, access};

/// How far back accesses return, in pages gone to.
pub(super) const REUSED: usize = 1_024;

const LINES_A_PAGE: u64 = 64;

/// A real program, as Table 5 has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct StandIn {
    /// What the paper calls it.
    pub(super) name: &'static str,
    /// Mean time between accesses.
    pub(super) interval_ns: f64,
    /// Accesses of a run.
    pub(super) accesses: u64,
    /// Share of reads.
    pub(super) reads: f64,
    /// Footprint.
    pub(super) gib: f64,
    /// Locality in space.
    pub(super) spatial: f64,
    /// Locality in time.
    pub(super) temporal: f64,
}

/// All five.
pub(super) const STAND_INS: [StandIn; 5] = [
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
    pub(super) fn pages(&self) -> u64 {
        (self.gib * (1 << 30) as f64) as u64 / 4096
    }

    /// Its first `accesses` accesses, by virtual addresses; they return up to `reused` pages back.
    pub(super) fn trace(&self, accesses: u64, reused: usize, seed: u64) -> MadeUp {
        MadeUp {
            of: *self,
            random: Pcg64Mcg::seed_from_u64(seed),
            left: accesses,
            at_ps: 0.0,
            line: 0,
            write: false,
            gone_to: vec![PageId(0); reused],
            times_gone: 0,
            swept: 0,
        }
    }
}

/// A stand-in's accesses, made as they are read.
pub(super) struct MadeUp {
    of: StandIn,
    random: Pcg64Mcg,
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
            let back = reach.powf(self.random.random::<f64>()) as usize;
            return self.gone_to[(self.times_gone - back) % self.gone_to.len()];
        }
        let pages = self.of.pages();
        if self.chance(self.of.spatial) {
            self.swept = (self.swept + 1) % pages;
            return PageId(self.swept);
        }
        PageId(self.random.random_range(0..pages))
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
