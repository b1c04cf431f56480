//! [`Calibration`]: measurements of a program's jobs with all data in DRAM. They calibrate every
//! design.
//!
//! A job without computing waits for DRAM that all cores use at once. With computing it waits less.
//! So the calibration measures jobs with added computing, until they miss at the wanted interval.

use std::mem::take;

use ebbtide_core::{Span, Watch};
use ebbtide_workloads::Program;

use crate::core_side::CoreSide;
use crate::designs::Parts;
use crate::machine::{Machine, SimError};
use crate::memory_side::{AllDram, PlainLru};
use crate::plan::{Plan, jobs_in_dram_max};
use crate::stages;

/// Jobs in DRAM, and the computing with which they miss at the wanted interval.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Calibration {
    /// Misses per job of a plain LRU cache of `workload.lru_share` of the data.
    pub(crate) lru_misses_per_job: f64,
    /// Time of a job with its added computing, in nanoseconds.
    pub(crate) job_ns: f64,
    /// Added computing of a job.
    pub(crate) work: Span,
    /// Throughput with that computing.
    pub(crate) dram_jobs_per_s: f64,
}

/// Evictions keep up with misses once they reach this share of the misses of a window of jobs.
const STEADY_SHARE: f64 = 0.99;

/// Jobs between two checks of the misses.
pub(crate) const WARM_BATCH: u64 = 256;

/// The most jobs of a window, for programs that never miss because their data fits.
pub(crate) const WINDOW_JOBS_MAX: u64 = 4_000_000;

/// Misses of a window of the warm-up, for a cache of `frames` frames.
pub(crate) fn window_misses(frames: u64) -> u64 {
    (frames / 4).max(1_000)
}

/// Whether evictions keep up with misses.
pub(crate) fn is_steady(left: u64, misses: u64) -> bool {
    left as f64 >= STEADY_SHARE * misses as f64
}

/// Whether pages come so rarely in `window` jobs that a cache will not fill in any useful time.
pub(crate) fn is_rare(pages: u64, window: u64) -> bool {
    window >= RARE_JOBS && pages < window / RARE_JOBS_A_PAGE
}

/// Length of a window in jobs. In a shorter window, pages do not count as rare.
const RARE_JOBS: u64 = 1 << 18;

/// Pages come rarely if there are fewer than one in this many jobs.
const RARE_JOBS_A_PAGE: u64 = 512;

/// The stage of progress of runs in DRAM.
const IN_DRAM: &str = "running in DRAM";

/// Accesses over all cores after which a run in DRAM ends earlier.
const ACCESSES: u64 = 8_000_000;

/// Jobs per core between two checks of the accesses.
const JOBS_STEP: u64 = 20;

/// The most measurements that a calibration takes. The first has no added computing.
const ROUNDS_MAX: u32 = 8;

/// The measured interval differs from the wanted one by no more than this share.
const INTERVAL_ERROR_MAX: f64 = 0.005;

/// The machine of `plan` with all data in DRAM, before its first job of `program`.
///
/// # Errors
/// [`SimError`] when it cannot be built.
pub(crate) fn in_dram(plan: &Plan, program: &Program) -> Result<Machine, SimError> {
    let memory_side = Box::new(AllDram::new(&plan.config));
    let parts = Parts { core_side: CoreSide::Block, memory_side };
    Machine::of_program(&plan.config, parts, program.clone())
}

impl Calibration {
    /// Measures the jobs of `machine`, the machine of `plan` [in DRAM](in_dram). It is warm, and
    /// `lru_misses_per_job` was counted while it warmed up.
    pub(crate) fn new(
        plan: &Plan,
        mut machine: Machine,
        lru_misses_per_job: f64,
        watch: Watch<'_>,
    ) -> Result<Calibration, SimError> {
        let workload = &plan.config.workload;
        let cores = plan.config.cores.count as f64;
        let wanted_ns = lru_misses_per_job * workload.miss_interval_us * 1e3;
        let mut work_ns = workload.work_us.map_or(0.0, |us| us * 1e3);
        let mut from = stages::COUNTED;
        for round in 1.. {
            let work = Span::from_ps((work_ns * 1e3) as u64);
            machine.set_work(work);
            let to = from.midpoint(stages::CALIBRATED);
            let timed = |watch: Watch<'_>| rate(plan, &mut machine, watch);
            let dram_jobs_per_s = watch.within(from, to, timed)?;
            let job_ns = 1e9 * cores / dram_jobs_per_s;
            let missing_ns = wanted_ns - job_ns;
            let is_there = missing_ns.abs() <= INTERVAL_ERROR_MAX * wanted_ns
                || work_ns == 0.0 && missing_ns < 0.0;
            if is_there || workload.work_us.is_some() || round == ROUNDS_MAX {
                return Ok(Calibration { lru_misses_per_job, job_ns, work, dram_jobs_per_s });
            }
            work_ns = (work_ns + missing_ns).max(0.0);
            from = to;
        }
        unreachable!("the last round returns")
    }

    /// Execution between two misses of the plain LRU cache on a core, in microseconds. Infinite if
    /// nothing misses.
    pub(crate) fn miss_interval_us(&self) -> f64 {
        self.job_ns / self.lru_misses_per_job / 1e3
    }
}

/// A count of the misses of a plain LRU cache, batch by batch, until that cache is in steady state.
pub(crate) struct Count {
    lru: PlainLru,
    /// Misses of a window.
    enough: u64,
    /// Misses of the windows before this one.
    filled: u64,
    /// Jobs of this window.
    window: u64,
}

impl Count {
    /// A count for the jobs of `plan`, with an empty cache.
    pub(crate) fn new(plan: &Plan) -> Count {
        let lru = PlainLru::new(&plan.config);
        let enough = window_misses(lru.frames());
        Count { lru, enough, filled: 0, window: 0 }
    }

    /// Runs a batch of untimed jobs on `machine`. Returns the misses per job once they are known.
    ///
    /// # Errors
    /// [`SimError`].
    pub(crate) fn batch(
        &mut self,
        machine: &mut Machine,
        watch: Watch<'_>,
    ) -> Result<Option<f64>, SimError> {
        // The window after the one that fills the cache ends the count.
        let misses = self.filled + self.lru.counters().misses;
        let share = misses as f64 / (self.lru.frames() + self.enough) as f64;
        watch.tell("counting misses", share.min(1.0))?;
        machine.warm(WARM_BATCH, Some(&mut self.lru))?;
        self.window += WARM_BATCH;
        let misses = self.lru.counters().misses;
        let rare = is_rare(misses, self.window);
        if misses < self.enough && self.window < WINDOW_JOBS_MAX && !rare {
            return Ok(None);
        }
        let (counters, window) = (self.lru.take_counters(), take(&mut self.window));
        self.filled += counters.misses;
        let is_known = rare || is_steady(counters.evictions(), counters.misses);
        Ok(is_known.then(|| counters.misses as f64 / window as f64))
    }
}

/// Runs untimed jobs on `machine` and on a plain LRU cache until that cache is in steady state.
/// Returns the misses of that cache per job.
///
/// # Errors
/// [`SimError`].
pub(crate) fn plain_lru(
    plan: &Plan,
    machine: &mut Machine,
    watch: Watch<'_>,
) -> Result<f64, SimError> {
    let mut count = Count::new(plan);
    loop {
        if let Some(misses_per_job) = count.batch(machine, watch)? {
            return Ok(misses_per_job);
        }
    }
}

/// Jobs per second. A quarter as many jobs run first and are not counted.
fn rate(plan: &Plan, machine: &mut Machine, watch: Watch<'_>) -> Result<f64, SimError> {
    let cores = plan.config.cores.count as u64;
    let step = JOBS_STEP * cores;
    machine.take_accesses();
    let mut run = |jobs_max: u64, accesses_max: u64, watch: Watch<'_>| {
        let (mut jobs, mut accesses, mut time) = (0, 0, Span::ZERO);
        while jobs < jobs_max && accesses < accesses_max {
            let of_jobs = jobs as f64 / jobs_max as f64;
            watch.tell(IN_DRAM, of_jobs.max(accesses as f64 / accesses_max as f64))?;
            time = time + machine.run(step)?;
            jobs += step;
            accesses += machine.take_accesses();
        }
        Ok::<f64, SimError>(jobs as f64 * 1e12 / time.as_ps() as f64)
    };
    let jobs = jobs_in_dram_max(cores);
    watch.within(0.0, 0.2, |watch| run(jobs / 4, ACCESSES / 4, watch))?;
    watch.within(0.2, 1.0, |watch| run(jobs, ACCESSES, watch))
}
