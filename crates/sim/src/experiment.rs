//! [`simulate`]: one design under one program, from a cold machine to an [`Outcome`].

use std::time::Instant;

use ebbtide_core::{Span, Stopped, Watch};

use crate::calibration::Calibration;
use crate::designs::{self, Parts};
use crate::kept;
use crate::machine::{Load, Machine, SimError};
use crate::offered::Offered;
use crate::outcome::{FlashUse, Half, Lifetime, Outcome, WarmUp, flash_outcome};
use crate::plan::Plan;
use crate::stages;
use crate::timeline::Timeline;
use crate::warm::{Steady, Warming};

/// Runs `plan` to its end.
///
/// # Errors
/// [`SimError`]. A run that does not end gives no outcome.
pub fn simulate(plan: &Plan) -> Result<Outcome, SimError> {
    let watch = Watch::unattended();
    Simulation::warmed(plan, watch)?.measure(watch)
}

/// A machine in steady state.
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

    /// The same with `parts` instead of the parts of the plan's design, for designs outside the
    /// list.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn warmed_of(plan: &Plan, parts: Parts, watch: Watch<'_>) -> Result<Simulation, SimError> {
        let clock = Instant::now();
        let program = plan.program()?;
        let mut machine = Machine::of_program(&plan.config, parts, program.clone())?;
        let mut warming = Warming::new(&plan.config);
        let count = |in_dram: &mut Machine, watch: Watch<'_>| {
            warming.counting(plan, in_dram, &mut machine, watch)
        };
        let calibration = kept::calibration(plan, &program, count, watch)?;
        let steady = watch.within(stages::CALIBRATED, stages::WARM, |watch| {
            warming.finish(&mut machine, watch)
        })?;
        Simulation::settled(plan, clock, machine, calibration, steady, watch)
    }

    /// Runs `machine`, which is warm, in virtual time until it has settled. `clock` is the start of
    /// the whole run.
    pub(crate) fn settled(
        plan: &Plan,
        clock: Instant,
        mut machine: Machine,
        calibration: Calibration,
        steady: Steady,
        watch: Watch<'_>,
    ) -> Result<Simulation, SimError> {
        let miss_interval_us = calibration.miss_interval_us();
        let Calibration { lru_misses_per_job, job_ns, work, dram_jobs_per_s } = calibration;
        machine.set_work(work);
        machine.set_load(match plan.arrivals {
            Offered::Saturating => Load::Saturating,
            Offered::PoissonShare(share) => {
                Load::Poisson { jobs_per_s: share * dram_jobs_per_s, seed: plan.seed }
            }
        });
        let timed_jobs = (plan.jobs / 4).max(machine.threads() as u64);
        watch.within(stages::WARM, stages::SETTLED, |watch| {
            watched_run(&mut machine, timed_jobs, |share| watch.tell("settling", share))
        })?;
        let Steady { untimed_jobs, evictions_per_miss } = steady;
        let warm_up = WarmUp {
            untimed_jobs,
            evictions_per_miss,
            timed_jobs,
            lru_misses_per_job,
            job_ns,
            work_ns: work.as_ps() as f64 / 1e3,
            miss_interval_us: miss_interval_us.is_finite().then_some(miss_interval_us),
        };
        Ok(Simulation { plan: plan.clone(), clock, machine, warm_up, dram_jobs_per_s })
    }

    /// Measures the jobs of the plan.
    ///
    /// # Errors
    /// [`SimError`]. A run that does not end gives no outcome.
    pub fn measure(&mut self, watch: Watch<'_>) -> Result<Outcome, SimError> {
        let Simulation { plan, machine, warm_up, .. } = self;
        let before = machine.take_measured();
        let (busy_before, _) = machine.planes_busy();
        let clock = Instant::now();
        let (middle, half) = (stages::SETTLED.midpoint(1.0), plan.jobs / 2);
        let start = machine.completed();
        let first = watch.within(stages::SETTLED, middle, |watch| {
            watched_run(machine, half, |share| watch.tell("measuring", share / 2.0))
        })?;
        let (flash, first_jobs) = (machine.flash_counters(), machine.completed() - start);
        let second_jobs = plan.jobs - first_jobs.min(plan.jobs);
        let second = watch.within(middle, 1.0, |watch| {
            watched_run(machine, second_jobs, |share| watch.tell("measuring", 0.5 + share / 2.0))
        })?;
        let simulated = first + second;
        let measured_s = clock.elapsed().as_secs_f64();
        let measured = machine.take_measured();
        let jobs_per_s = plan.jobs as f64 * 1e12 / simulated.as_ps() as f64;
        let misses = measured.counters.cache.misses.max(1) as f64;
        let cores_ps = simulated.as_ps() as f64 * plan.config.cores.count as f64;
        let execution_ns = warm_up.job_ns * plan.jobs as f64;
        let halves = [
            Half::new(first_jobs, first, [before.flash.as_ref(), flash.as_ref()]),
            Half::new(second_jobs, second, [flash.as_ref(), measured.flash.as_ref()]),
        ];
        let (busy, planes) = machine.planes_busy();
        let commands_time = |flash: &Option<ebbtide_flash::Counters>| {
            flash.map_or(Span::ZERO, |flash| flash.commands_time)
        };
        let less = |a: Span, b: Span| Span::from_ps(a.as_ps() - b.as_ps());
        let commands = less(commands_time(&measured.flash), commands_time(&before.flash));
        let flash_use = FlashUse::new(simulated, commands, less(busy, busy_before), planes);
        let offered_jobs_per_s = match plan.arrivals {
            Offered::Saturating => None,
            Offered::PoissonShare(share) => Some(share * self.dram_jobs_per_s),
        };
        Ok(Outcome {
            halves,
            offered_jobs_per_s,
            page_walks: measured.page_walks,
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
            flash: flash_outcome(before.flash.as_ref(), measured.flash.as_ref())
                .with_drives(&before.drives, &measured.drives),
            flash_use,
            latency_ns: measured.access,
            device_latency_ns: measured.device,
            missed: measured.missed,
            service_ns: measured.service,
            service_parts: measured.service_parts,
            response_ns: measured.response,
        })
    }

    /// Runs some hundred more misses. Returns the steps of the miss of median length, or `None` if
    /// nothing misses.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn typical_miss(&mut self) -> Result<Option<Timeline>, SimError> {
        let story = self.machine.run_noting(STORY_JOBS_MAX, STORIES)?;
        Ok(Timeline::typical(&story))
    }
}

/// Number of misses that a typical one is chosen from.
const STORIES: usize = 500;

/// The most jobs that run for these misses.
const STORY_JOBS_MAX: u64 = 20_000;

/// Jobs between two reports of progress.
const WATCHED_JOBS: u64 = 1_000;

/// Runs `jobs` jobs as [`Machine::run`] does, and reports the completed share to `tell`.
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
