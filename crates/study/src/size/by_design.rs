//! [`Tried`]: a size of DRAM on the design itself, simulated under the program.
//!
//! The models of `least_dram` use the costs of a miss on an idle machine. The simulated design also
//! has large pages, sets, and buses that all misses share. So [`DesignRuns`] simulates the
//! recommendation of the models, and raises it until it meets the objective.

use ebbtide_core::{Bytes, LINE_BYTES, PAGE_BYTES, Watch};
use ebbtide_report::bytes;
use ebbtide_sim::config::Config;
use ebbtide_sim::{Offered, Outcome, Plan, Shared};
use serde::Serialize;

use super::{INTERVAL_SHARE, Input, SizeError, SizeOptions};
use crate::runs::RunError;

/// The figures of a simulated design with one size of DRAM.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tried {
    /// The size of DRAM, in bytes.
    pub dram_bytes: u64,
    /// Throughput relative to DRAM-only, with a job always waiting.
    pub throughput_kept: f64,
    /// p99 response at the offered load, in microseconds. `None` if the design is overloaded.
    pub p99_us: Option<f64>,
    /// Mean misses of a job.
    pub misses_per_job: f64,
    /// Execution between misses, in microseconds. `None` if nothing misses.
    pub miss_interval_us: Option<f64>,
    /// Mean pages of 4 KiB that a job reads from flash.
    pub reads_per_job: f64,
    /// Mean pages of 4 KiB written to flash for a job.
    pub writes_per_job: f64,
}

/// Jobs of a measured run. A hundred of them are beyond the p99.
const JOBS: u64 = 10_000;

/// The most data of a run. Larger data is simulated at a scale.
const DATA_MAX: u64 = 4 << 30;

/// Runs of a design under the program of a sizing.
pub(super) struct DesignRuns<'a> {
    design: &'a Config,
    options: &'a SizeOptions,
    /// Size of the data in bytes, and of its simulated part.
    data: u64,
    simulated: u64,
}

impl<'a> DesignRuns<'a> {
    /// The runs of `design` under the program of `options`. `None` for a trace, which has no jobs.
    pub(super) fn new(design: &'a Config, options: &'a SizeOptions) -> Option<DesignRuns<'a>> {
        let Input::Workload { dataset_bytes: data, .. } = options.input else { return None };
        Some(DesignRuns { design, options, data, simulated: data.min(DATA_MAX) })
    }

    /// Possible sizes of the design's DRAM in bytes, from `least` on and below all data. They are a
    /// fifth or whole sets apart. If there is any size, the largest is included.
    pub(super) fn sizes(&self, least: u64) -> Vec<u64> {
        let page = PAGE_BYTES as u64;
        let (unit, doubles) = match (&self.design.mos, self.design.dram_cache.ways as u64) {
            (Some(mos), _) => (mos.page.0, false),
            (None, 0) => (page, false),
            (None, ways) => (ways * page, true),
        };
        let mut sizes = Vec::new();
        let mut units = least.div_ceil(unit).max(1);
        if doubles {
            units = units.next_power_of_two();
        }
        while units * unit < self.data {
            sizes.push(units * unit);
            units = if doubles { 2 * units } else { units + (units / 5).max(1) };
        }
        if sizes.is_empty() {
            let most = (self.data - 1) / unit;
            let most = if doubles { most.checked_ilog2().map_or(0, |log| 1 << log) } else { most };
            sizes.extend(Some(most * unit).filter(|size| *size > 0));
        }
        sizes
    }

    /// Returns the result of the least of `sizes` for which `meets` holds, or else of the last one.
    /// `None` without sizes. More DRAM does no harm, so most sizes need no run.
    pub(super) fn least(
        &self,
        sizes: &[u64],
        meets: impl Fn(&Tried) -> bool,
        watch: Watch<'_>,
    ) -> Result<Option<Result<Tried, Tried>>, SizeError> {
        let Some(last) = sizes.len().checked_sub(1) else { return Ok(None) };
        let mut shared = Shared::default();
        let mut number_of_runs = 0;
        let mut run = |place: usize| {
            number_of_runs += 1;
            let share = 1.0 - 1.0 / f64::from(number_of_runs);
            let to = share.midpoint(1.0);
            watch.within(share, to, |watch| self.run(sizes[place], &mut shared, watch))
        };
        // All sizes below `low` fail.
        let (mut low, mut step) = (0, 1);
        let (mut high, mut found) = loop {
            let place = (low + step - 1).min(last);
            let tried = run(place)?;
            if meets(&tried) {
                break (place, tried);
            }
            if place == last {
                return Ok(Some(Err(tried)));
            }
            (low, step) = (place + 1, 2 * step);
        };
        while low < high {
            let middle = low.midpoint(high);
            let tried = run(middle)?;
            if meets(&tried) {
                (high, found) = (middle, tried);
            } else {
                low = middle + 1;
            }
        }
        Ok(Some(Ok(found)))
    }

    /// Simulates the design with `dram_bytes` of DRAM. `shared` keeps the common work of trials.
    pub(super) fn run(
        &self,
        dram_bytes: u64,
        shared: &mut Shared,
        watch: Watch<'_>,
    ) -> Result<Tried, SizeError> {
        let mut outcome = |arrivals, from, to| {
            let plan = self.plan(dram_bytes, arrivals);
            let run = |watch: Watch<'_>| shared.warmed(&plan, watch)?.measure(watch);
            watch.within(from, to, run).map_err(|error| match RunError::of(&plan, error) {
                RunError::Stopped(stopped) => stopped.into(),
                failed => SizeError::Simulation(Box::new(failed)),
            })
        };
        let saturated = outcome(Offered::Saturating, 0.0, 0.5)?;
        let offered = outcome(Offered::PoissonShare(self.options.load), 0.5, 1.0)?;
        Ok(Tried::new(dram_bytes, &saturated, &offered))
    }

    /// The plan of a run with `dram_bytes` of DRAM for all data.
    fn plan(&self, dram_bytes: u64, arrivals: Offered) -> Plan {
        let Input::Workload { name, theta, miss_interval_us, seed, .. } = self.options.input else {
            unreachable!("only a program is tried");
        };
        let design = self.design.clone();
        let whole = design.dataset.size.0;
        let mut config = design.scaled(self.simulated, whole);
        config.cores.count = self.options.cores as usize;
        config.dataset.size = Bytes(self.simulated);
        config.dram_cache.size = Bytes(self.scaled(dram_bytes));
        // A line cache has one slice a core. Each has a power of two of sets.
        let of_a_set = u64::from(self.options.cores) * (config.llc.ways * LINE_BYTES) as u64;
        let sets = (config.llc.size.0 / of_a_set).max(1);
        config.llc.size = Bytes(of_a_set << sets.ilog2());
        config.workload.theta = theta;
        config.workload.miss_interval_us = miss_interval_us;
        config.workload.lru_share = Some(INTERVAL_SHARE);
        Plan { config, workload: name, jobs: JOBS, seed, arrivals }
    }

    /// The simulated part of `dram_bytes`: all of it, or the share of the simulated data.
    fn scaled(&self, dram_bytes: u64) -> u64 {
        if self.simulated == self.data {
            return dram_bytes;
        }
        let wanted = u128::from(dram_bytes) * u128::from(self.simulated) / u128::from(self.data);
        let smaller = DesignRuns { data: self.simulated, ..*self };
        smaller.sizes(wanted as u64).first().copied().unwrap_or(dram_bytes)
    }

    /// A note if runs have less data than the program.
    pub(super) fn scaled_note(&self) -> Option<String> {
        let [simulated, data] = [self.simulated, self.data].map(|size| bytes(size as f64));
        let is_scaled = self.simulated < self.data;
        is_scaled.then(|| format!("designs were simulated with {simulated} of the {data} of data"))
    }
}

impl Tried {
    /// The figures of two runs: one with a job always waiting, and one at the offered load.
    fn new(dram_bytes: u64, saturated: &Outcome, offered: &Outcome) -> Tried {
        let a_job = |count: u64| count as f64 / offered.jobs as f64;
        let misses = offered.memory.cache.misses;
        Tried {
            dram_bytes,
            throughput_kept: saturated.ratio_to_dram,
            p99_us: (!offered.is_overloaded()).then(|| offered.response_ns.p99 as f64 / 1e3),
            misses_per_job: a_job(misses),
            miss_interval_us: (misses > 0).then_some(offered.miss_interval_us),
            reads_per_job: a_job(offered.flash.reads),
            writes_per_job: a_job(offered.flash.writes),
        }
    }
}
