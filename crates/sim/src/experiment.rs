//! [`simulate`]: one design under one program, from a cold machine to an [`Outcome`].

use std::time::Instant;

use ebbtide_core::{Span, Stopped, Watch};
use ebbtide_flash::{Counters as Flash, Lifetime as Wear};
use ebbtide_workloads::{Kind, Program, Scatter, Shape};
use serde::Serialize;

use crate::calibration::Calibration;
use crate::config::Config;
use crate::designs::{self, Parts};
use crate::machine::{
    Coherence, Distribution, Load, Machine, MissedAccesses, ServiceParts, SimError, WORK_UNITS,
};
use crate::memory_side::Counters;
use crate::offered::Offered;
use crate::timeline::Timeline;
use crate::warm::{Steady, WARM_SHARE};

/// What to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The machine.
    pub config: Config,
    /// The program.
    pub workload: Kind,
    /// Jobs measured.
    pub jobs: u64,
    /// Selects layout, job stream and arrivals.
    pub seed: u64,
    /// How jobs come; a rate is a share of what DRAM-only can do.
    pub arrivals: Offered,
}

/// What the warm-up came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WarmUp {
    /// Jobs that ran in no time, until evictions kept up with misses.
    pub untimed_jobs: u64,
    /// Evictions over misses in the last window of those.
    pub evictions_per_miss: f64,
    /// Jobs that then ran in time and were not counted.
    pub timed_jobs: u64,
    /// Misses of a plain LRU cache of as many frames, a job.
    pub lru_misses_per_job: f64,
    /// A job's time without added computing, in DRAM, in nanoseconds.
    pub bare_job_ns: f64,
    /// What a job computes besides, in nanoseconds: as `workload.work_us` says, or so that plain LRU
    /// misses at the wished interval.
    pub work_ns: f64,
}

/// What a run gave.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The design.
    pub design: String,
    /// The program.
    pub workload: String,
    /// Every parameter.
    pub config: Config,
    /// Of layout, job stream and arrivals.
    pub seed: u64,
    /// Load.
    pub arrivals: Offered,
    /// Jobs measured.
    pub jobs: u64,
    /// How the machine was brought into steady state.
    pub warm_up: WarmUp,
    /// Accesses measured.
    pub accesses: u64,
    /// Simulated time they took.
    pub simulated_ns: u64,
    /// Host time of the whole run.
    pub wall_s: f64,
    /// Accesses per second of host time, over the measured part.
    pub accesses_per_wall_s: f64,
    /// Share of the cores' time in which they executed, or waited for no more than the chip and what
    /// DRAM has: neither for a page, nor for a job.
    pub busy_share: f64,
    /// Written lines that left the last-level cache.
    pub lines_written_back: u64,
    /// Between cores' own caches.
    pub coherence: Coherence,
    /// Throughput.
    pub jobs_per_s: f64,
    /// The same over DRAM-only's on the same jobs.
    pub ratio_to_dram: f64,
    /// Execution between misses of a core, in microseconds.
    pub miss_interval_us: f64,
    /// What the memory side counted.
    #[serde(rename = "dram_cache")]
    pub memory: Counters,
    /// The flash device, since the start of the measured part.
    pub flash: FlashOutcome,
    /// Per access that left the chip, from the moment it was issued.
    pub latency_ns: Distribution,
    /// Per access that left the chip, from its entry to memory.
    pub device_latency_ns: Distribution,
    /// Accesses that missed.
    pub missed: MissedAccesses,
    /// Per job, from its start.
    pub service_ns: Distribution,
    /// What that goes into.
    pub service_parts: ServiceParts,
    /// Per job, from its arrival.
    pub response_ns: Distribution,
    /// Years until the flash is worn out at this rate.
    pub lifetime_years: Option<Lifetime>,
}

/// The flash device over the measured part.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FlashOutcome {
    /// Pages read.
    pub reads: u64,
    /// Pages written by the host.
    pub writes: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Pages of 4 KiB sensed in the array: those read, unless the write buffer had them, and those
    /// that collections moved.
    pub array_reads: u64,
    /// Pages of 4 KiB programmed, padding and collections included.
    pub pages_programmed: u64,
    /// Pages programmed per page written.
    pub write_amplification: f64,
    /// Share of requests that waited for garbage collection.
    pub gc_blocked_share: f64,
}

/// SPEC C4 in both of its years.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lifetime {
    /// Round the clock.
    pub round_the_clock: f64,
    /// In the paper's year of 2,080 hours.
    pub working_hours: f64,
}

impl FlashOutcome {
    /// All that a device counted.
    pub(crate) fn since_start(counters: &Flash) -> FlashOutcome {
        flash_outcome(Some(&Flash::default()), Some(counters))
    }
}

impl Lifetime {
    pub(crate) fn new(wear: Wear) -> Lifetime {
        Lifetime { round_the_clock: wear.years(), working_hours: wear.working_years() }
    }
}

/// Runs `plan` to its end.
///
/// # Errors
/// [`SimError`]; nothing is reported for a run that did not end.
pub fn simulate(plan: &Plan) -> Result<Outcome, SimError> {
    let watch = Watch::unattended();
    Simulation::warmed(plan, watch)?.measure(watch)
}

/// A machine in steady state, and how it came to be there.
pub struct Simulation {
    plan: Plan,
    clock: Instant,
    machine: Machine,
    warm_up: WarmUp,
    dram_jobs_per_s: f64,
}

impl Simulation {
    /// Builds the machine of `plan`, calibrates the jobs' computing, and warms it up.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn warmed(plan: &Plan, watch: Watch<'_>) -> Result<Simulation, SimError> {
        Simulation::warmed_of(plan, designs::compose(&plan.config)?, watch)
    }

    /// The same of `parts`, whatever design the plan names: for designs that are not in the list.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn warmed_of(plan: &Plan, parts: Parts, watch: Watch<'_>) -> Result<Simulation, SimError> {
        crate::warm::alone(plan, parts, watch)
    }

    /// Goes on with `machine`, which is warm, in time until it has settled. The whole run began at
    /// `clock`.
    pub(crate) fn settled(
        plan: &Plan,
        clock: Instant,
        mut machine: Machine,
        calibration: Calibration,
        steady: Steady,
        watch: Watch<'_>,
    ) -> Result<Simulation, SimError> {
        let Calibration { lru_misses_per_job, bare_job_ns, work, dram_jobs_per_s } = calibration;
        machine.set_work(work);
        machine.set_load(match plan.arrivals {
            Offered::Saturating => Load::Saturating,
            Offered::PoissonShare(share) => {
                Load::Poisson { jobs_per_s: share * dram_jobs_per_s, seed: plan.seed }
            }
        });
        let timed_jobs = (plan.jobs / 4).max(machine.threads() as u64);
        watched_run(&mut machine, timed_jobs, |share| {
            watch.tell("settling", WARM_SHARE + share * (SETTLED_SHARE - WARM_SHARE))
        })?;
        let Steady { untimed_jobs, evictions_per_miss } = steady;
        let warm_up = WarmUp {
            untimed_jobs,
            evictions_per_miss,
            timed_jobs,
            lru_misses_per_job,
            bare_job_ns,
            work_ns: work.as_ps() as f64 / 1e3,
        };
        Ok(Simulation { plan: plan.clone(), clock, machine, warm_up, dram_jobs_per_s })
    }

    /// Measures the jobs of the plan.
    ///
    /// # Errors
    /// [`SimError`]; nothing is reported for a run that did not end.
    pub fn measure(&mut self, watch: Watch<'_>) -> Result<Outcome, SimError> {
        let Simulation { plan, machine, warm_up, .. } = self;
        let before = machine.take_measured();
        let clock = Instant::now();
        let simulated = watched_run(machine, plan.jobs, |share| {
            watch.tell("measuring", SETTLED_SHARE + share * (1.0 - SETTLED_SHARE))
        })?;
        let measured_s = clock.elapsed().as_secs_f64();
        let measured = machine.take_measured();
        let jobs_per_s = plan.jobs as f64 * 1e12 / simulated.as_ps() as f64;
        let misses = measured.counters.cache.misses.max(1) as f64;
        let cores_ps = simulated.as_ps() as f64 * plan.config.cores.count as f64;
        let execution_ns = (warm_up.bare_job_ns + warm_up.work_ns) * plan.jobs as f64;
        Ok(Outcome {
            design: plan.config.design.clone(),
            workload: plan.workload.name().to_string(),
            config: plan.config.clone(),
            seed: plan.seed,
            arrivals: plan.arrivals,
            jobs: plan.jobs,
            warm_up: warm_up.clone(),
            accesses: measured.accesses,
            simulated_ns: simulated.as_ns(),
            wall_s: self.clock.elapsed().as_secs_f64(),
            accesses_per_wall_s: measured.accesses as f64 / measured_s,
            busy_share: (1.0 - measured.waited.as_ps() as f64 / cores_ps).max(0.0),
            lines_written_back: measured.lines_written_back,
            coherence: measured.coherence,
            jobs_per_s,
            ratio_to_dram: jobs_per_s / self.dram_jobs_per_s,
            miss_interval_us: execution_ns / misses / 1e3,
            memory: measured.counters,
            lifetime_years: measured.lifetime.map(Lifetime::new),
            flash: flash_outcome(before.flash.as_ref(), measured.flash.as_ref()),
            latency_ns: measured.access,
            device_latency_ns: measured.device,
            missed: measured.missed,
            service_ns: measured.service,
            service_parts: measured.service_parts,
            response_ns: measured.response,
        })
    }

    /// Goes on until some hundred misses were seen, and tells how the one of median length fared;
    /// `None` if nothing misses.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn typical_miss(&mut self) -> Result<Option<Timeline>, SimError> {
        let story = self.machine.run_noting(STORY_JOBS_MAX, STORIES)?;
        Ok(Timeline::typical(&story))
    }
}

/// Misses that a typical one is chosen from.
const STORIES: usize = 500;

/// Jobs that may run until there are as many.
const STORY_JOBS_MAX: u64 = 20_000;

/// Where the timed warm-up ends.
const SETTLED_SHARE: f64 = 0.6;

/// Jobs run between two words about it.
const WATCHED_JOBS: u64 = 1_000;

/// Runs `jobs` jobs as [`Machine::run`] does, and tells which share of them is done.
fn watched_run(
    machine: &mut Machine,
    jobs: u64,
    tell: impl Fn(f64) -> Result<(), Stopped>,
) -> Result<Span, SimError> {
    let (start, mut time) = (machine.completed(), Span::ZERO);
    loop {
        let done = machine.completed() - start;
        if done >= jobs {
            return Ok(time);
        }
        tell(done as f64 / jobs as f64)?;
        time = time + machine.run((jobs - done).min(WATCHED_JOBS))?;
    }
}

/// The program of `plan`.
pub(crate) fn program(plan: &Plan) -> Result<Program, SimError> {
    let shape = Shape {
        dataset_bytes: plan.config.dataset.size.0,
        theta: plan.config.workload.theta,
        scatter: Scatter::Pages,
        seed: plan.seed,
        work_instructions: WORK_UNITS,
    };
    Ok(plan.workload.build(&shape)?)
}

fn flash_outcome(before: Option<&Flash>, after: Option<&Flash>) -> FlashOutcome {
    let (Some(before), Some(after)) = (before, after) else { return FlashOutcome::default() };
    let programmed = |c: &Flash| c.host_pages_programmed + c.gc_pages_programmed;
    let blocked = |c: &Flash| c.reads_blocked_by_gc + c.writes_blocked_by_gc;
    let sensed = |c: &Flash| c.reads - c.buffer_reads + c.gc_pages_moved;
    let (reads, writes) = (after.reads - before.reads, after.writes - before.writes);
    let programmed = programmed(after) - programmed(before);
    FlashOutcome {
        reads,
        writes,
        erases: after.erases - before.erases,
        array_reads: sensed(after) - sensed(before),
        pages_programmed: programmed,
        write_amplification: if writes == 0 { 1.0 } else { programmed as f64 / writes as f64 },
        gc_blocked_share: (blocked(after) - blocked(before)) as f64
            / (reads + writes).max(1) as f64,
    }
}
