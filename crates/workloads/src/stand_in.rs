//! [`StandIn`]: a made-up trace with six figures of a program whose own trace is not at hand.
//!
//! The CXL-flash study (ATC'23 Table 5) prints six figures of each real program. These are the
//! interval between accesses, their number, the share of reads, the footprint, and the localities
//! in space and in time.
//!
//! An access goes to the line after the last one with the probability of spatial locality.
//! Otherwise it goes elsewhere. With the probability of temporal locality it goes to one of the
//! [`REUSED`] pages of recent accesses. More recent pages are likelier, by the logarithm of the
//! distance. Otherwise it goes to a page of the footprint. With the probability of spatial locality
//! this is the page after the last such page, else any page. A new choice between reading and
//! writing is made whenever an access goes elsewhere. Accesses are a Poisson process. The study
//! does not define its two localities. These definitions are assumptions, and [`Open`] varies the
//! parameters that the six figures leave open.

use ebbtide_core::{PAGE_BYTES, PageId};
use ebbtide_trace::{Access, Op, Source, TraceError, line_access};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// How far back accesses return by default, counted in visits to pages.
pub const REUSED: usize = 1_024;

const LINES_A_PAGE: u64 = 64;

/// Accesses in a batch.
const BATCH: u64 = 2_048;

/// A property of a program that the six figures leave open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Open {
    /// No variation: new pages, returns and order as the six figures give them.
    Fixed,
    /// New pages come from a window of this many MiB. It moves through the footprint once per run.
    WorkingSet(u64),
    /// Accesses return to any of the last pages with equal probability. The value is their number.
    Returns(usize),
    /// The share of new pages that follow the last new page.
    InOrder(f64),
}

impl Open {
    /// Returns the name in notes; empty for [`Open::Fixed`].
    pub fn name(self) -> String {
        match self {
            Open::Fixed => String::new(),
            Open::WorkingSet(mib) => format!("{mib} MiB"),
            Open::Returns(pages) => format!("returns {pages} pages back"),
            Open::InOrder(share) => format!("{:.0}% in order", 100.0 * share),
        }
    }

    /// Pages to which accesses may return.
    fn reused(self) -> usize {
        if let Open::Returns(pages) = self { pages } else { REUSED }
    }

    /// Pages of the window that new pages come from.
    fn working_set(self, of: &StandIn) -> u64 {
        let Open::WorkingSet(mib) = self else { return of.pages() };
        of.pages().min((mib << 20) / PAGE_BYTES as u64)
    }

    fn in_order(self, of: &StandIn) -> f64 {
        if let Open::InOrder(share) = self { share } else { of.spatial }
    }
}

/// Six figures of a program (CXL-flash, ATC'23, Table 5). [`trace`](StandIn::trace) makes up a
/// trace with these figures.
#[derive(Debug, Clone, Copy)]
pub struct StandIn {
    /// The name of the program.
    pub name: &'static str,
    /// Mean time between accesses, in nanoseconds.
    pub interval_ns: f64,
    /// Number of accesses of a run.
    pub accesses: u64,
    /// Share of reads, from 0 to 1.
    pub reads: f64,
    /// Footprint in GiB.
    pub gib: f64,
    /// Locality in space, from 0 to 1: the probability that an access goes to the next line.
    pub spatial: f64,
    /// Locality in time, from 0 to 1: the probability that any other access returns to a recent
    /// page.
    pub temporal: f64,
}

impl StandIn {
    /// Returns the number of pages of the footprint.
    pub fn pages(&self) -> u64 {
        (self.gib * (1 << 30) as f64) as u64 / PAGE_BYTES as u64
    }

    /// Returns the mean number of accesses until `pages` new pages are visited.
    pub fn accesses_to_fill(&self, pages: u64) -> u64 {
        (pages as f64 / ((1.0 - self.spatial) * (1.0 - self.temporal))) as u64
    }

    /// Returns a trace of `accesses` accesses with virtual addresses. `seed` selects them.
    pub fn trace(&self, accesses: u64, open: Open, seed: u64) -> MadeUp {
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

/// The accesses of a [`StandIn`], made while they are read.
pub struct MadeUp {
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
        line_access(self.at_ps as u64, self.line, if self.write { Op::Write } else { Op::Read })
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
        let count = self.left.min(BATCH);
        batch.extend((0..count).map(|_| self.step()));
        self.left -= count;
        Ok(count > 0)
    }
}
