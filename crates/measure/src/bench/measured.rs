//! [`Measured`]: the measurements of one memory. Its figures are computed from them.

use ebbtide_core::durability::Policy;

use super::options::Mode;
use super::protocol::{Calibration, Committed, Latency, SlowestJobs, Window};
use super::round::{Round, Turn};
use super::spread::Spread;

/// The measurements of one workload in one memory, at one load.
#[derive(Clone, Copy)]
pub(super) struct Measured<'a> {
    pub(super) workload: &'static str,
    pub(super) mode: Mode,
    pub(super) cores: usize,
    /// Offered load as a share of DRAM-only's throughput; `None` in a closed loop.
    pub(super) load: Option<f64>,
    pub(super) calibration: &'a Calibration,
    /// The rounds of this memory.
    pub(super) rounds: &'a [&'a Round],
    /// The rounds of DRAM-only for the comparison, repeated if there are fewer.
    pub(super) dram: &'a [&'a Round],
    /// All measured rounds, including replaced ones.
    pub(super) rounds_measured: usize,
    pub(super) threads_per_core: Option<usize>,
    pub(super) page_cache_bytes: Option<u64>,
    /// The most memory that it used in the rounds, with the kernel's, where a group counted it.
    pub(super) peak_bytes: Option<u64>,
    /// The DRAM budget.
    pub(super) budget_bytes: u64,
    /// When a transaction is acknowledged in [`Mode::Durable`].
    pub(super) durability: Option<Policy>,
    /// The cost of a read through a raw ring, in [`Mode::Ebbtide`].
    pub(super) raw_ring: Option<RawRingCost>,
    /// Throughput divided by DRAM-only's without work added to jobs, in [`Mode::Ebbtide`].
    pub(super) ratio_without_work: Option<f64>,
}

/// The cost of page reads through a ring between the jobs of a program in DRAM.
#[derive(Clone, Copy)]
pub(super) struct RawRingCost {
    /// CPU time of a read, with the kernel's threads, in microseconds.
    pub(super) cpu_us_per_read: Spread,
    /// Reads handed to the kernel at a time, as many as the engine handed over.
    pub(super) batch: u32,
    /// The most reads in flight, as many as the engine had.
    pub(super) in_flight: u32,
}

/// One round of a memory, with the memories that it is compared with.
pub(super) struct Sample<'a> {
    pub(super) of: &'a Measured<'a>,
    pub(super) turn: &'a Turn,
    /// DRAM-only.
    pub(super) dram: &'a Turn,
    /// Extend memory, if it was measured.
    extend: Option<&'a Turn>,
}

impl<'a> Measured<'a> {
    /// Returns a sample for each round of the memory.
    pub(super) fn samples(&'a self) -> Vec<Sample<'a>> {
        let turns = self.dram.iter().filter_map(|round| round.get(&Mode::Dram));
        let mut dram = turns.collect::<Vec<_>>().into_iter().cycle();
        let sample = |round: &'a &'a Round| {
            let turn = round.get(&self.mode)?;
            Some(Sample { of: self, turn, dram: dram.next()?, extend: round.get(&Mode::Ebbtide) })
        };
        self.rounds.iter().filter_map(sample).collect()
    }

    fn windows(&self) -> impl Iterator<Item = &Window> {
        self.rounds.iter().filter_map(|round| Some(&round.get(&self.mode)?.window))
    }

    /// True if the store survives crashes, and extend memory was measured in every round too.
    pub(super) fn survives_crashes(&self) -> bool {
        let compared = self.rounds.iter().all(|round| round.contains_key(&Mode::Ebbtide));
        self.mode == Mode::Durable && self.durability.is_some() && compared
    }

    /// By how much its peak exceeds the budget. DRAM-only has none.
    pub(super) fn over_budget_bytes(&self) -> Option<u64> {
        let over = self.peak_bytes?.saturating_sub(self.budget_bytes);
        (self.mode != Mode::Dram && over > 0).then_some(over)
    }
}

impl Sample<'_> {
    /// Jobs per second divided by DRAM-only's.
    pub(super) fn ratio_to_dram(&self) -> f64 {
        self.turn.jobs_per_s() / self.dram.jobs_per_s()
    }

    /// Execution of a job in DRAM, in microseconds.
    pub(super) fn job_us(&self) -> f64 {
        self.of.cores as f64 * 1e6 / self.dram.jobs_per_s()
    }

    /// From a job's arrival to its end. In a closed loop a job arrives when it starts.
    pub(super) fn response_us(&self) -> Latency {
        let window = &self.turn.window;
        if self.of.load.is_some() { window.response_us } else { window.service_us }
    }

    /// `count` in this round, per second.
    pub(super) fn per_s(&self, count: u64) -> f64 {
        count as f64 / self.turn.window.seconds
    }

    /// Counts of a round that missed; `None` for DRAM-only.
    pub(super) fn missed(&self) -> Option<&Window> {
        let window = &self.turn.window;
        (self.of.mode != Mode::Dram && window.misses > 0).then_some(window)
    }

    /// Counts of an engine of Ebbtide.
    pub(super) fn engine(&self) -> Option<&Window> {
        (!matches!(self.of.mode, Mode::Dram | Mode::Paging)).then_some(&self.turn.window)
    }

    /// Times of the slowest jobs of a round in an open loop.
    pub(super) fn loaded(&self) -> Option<SlowestJobs> {
        self.of.load.map(|_| self.turn.window.slowest)
    }

    /// Counts, if every round wrote.
    pub(super) fn wrote(&self) -> Option<&Window> {
        let all = self.of.windows().all(|window| window.write_requests > 0);
        all.then_some(&self.turn.window)
    }

    /// Counts, if any round prefetched.
    pub(super) fn prefetched(&self) -> Option<&Window> {
        let any = self.of.windows().any(|window| window.fetched_ahead > 0);
        any.then_some(&self.turn.window)
    }

    /// Extend memory in the same round, for a store that survives crashes.
    pub(super) fn extend(&self) -> Option<&Turn> {
        self.extend.filter(|_| self.of.survives_crashes())
    }

    /// Transactions of a store that survives crashes.
    pub(super) fn committed(&self) -> Option<&Committed> {
        self.extend().map(|_| &self.turn.window.committed)
    }
}
