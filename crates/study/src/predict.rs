//! The simulator's prediction of a bench, from the measured costs of a miss on this machine.
//!
//! The program's real code runs on the simulated machine with the engine's own replacement policy.
//! The bench provides the program, the DRAM and the calibrated length of a job. The costs of a miss
//! come from a [`Profile`](ebbtide_measure::bench::Profile), measured with other programs. No
//! parameter is fitted to the bench.

use ebbtide_core::prefetch::PrefetcherKind;
use ebbtide_core::replacement::{Admission, PolicyKind};
use ebbtide_core::schedule::{Discipline, Wakeup as Arrive};
use ebbtide_core::{Bytes, LINE_BYTES, PAGE_BYTES, Span, Stopped, Watch};
use ebbtide_engine::Budget;
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::{Parts, resolve};
use ebbtide_sim::memory_side::{AllDram, SoftwareCache, SoftwareCosts};
use ebbtide_sim::{CoreSide, Machine, SimError, Switching, WORK_UNITS};
use ebbtide_workloads::Workload;

use ebbtide_measure::bench::{
    BenchRun, Conditions, Effect, Figure, Mode, ModeCosts, ReadsAt, Value,
};
use thiserror::Error;

/// The error of a failed prediction.
#[derive(Debug, Error)]
pub enum PredictError {
    /// The simulator cannot reproduce the bench's setup, or it fails.
    #[error("cannot predict: {0}")]
    Simulation(String),
    /// The prediction was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl From<SimError> for PredictError {
    fn from(error: SimError) -> PredictError {
        PredictError::Simulation(error.to_string())
    }
}

/// Adds the simulator's prediction to each outcome of `measured`, and the simulated effect to each
/// tested technique. Modes without measured costs of a miss get no prediction.
///
/// # Errors
/// [`PredictError`] when the simulator cannot reproduce a bench's setup, or when `watch` requests a
/// stop.
pub fn predict(measured: &mut BenchRun, watch: Watch<'_>) -> Result<(), PredictError> {
    let BenchRun { report, conditions } = measured;
    let (mut expected, count) = (Vec::new(), conditions.len() as f64);
    for (number, conditions) in conditions.iter().enumerate() {
        let outcome = &mut report.results[conditions.outcome];
        let stage = format!("{}: predicting {}", outcome.workload, outcome.mode);
        watch.tell(&stage, number as f64 / count)?;
        let Some(predicted) = (Prediction { conditions }).expected()? else { continue };
        let mut set = |figure, value| outcome.figures.insert(figure, Value::Number(value));
        set(Figure::PredictedJobsPerS, predicted.jobs_per_s);
        set(Figure::PredictedMissesPerJob, predicted.misses_per_job);
        if let Some(jobs_per_s) = outcome.number(Figure::JobsPerS) {
            let error = predicted.jobs_per_s / jobs_per_s - 1.0;
            outcome.figures.insert(Figure::PredictionError, Value::Number(error));
        }
        expected.push((outcome.workload, outcome.mode, predicted));
    }
    for tried in &mut report.tried {
        let of = |wanted: Mode| {
            let mut own = expected.iter().filter(|(workload, ..)| *workload == tried.workload);
            own.find(|(_, mode, _)| *mode == wanted).map(|(.., expected)| expected)
        };
        tried.simulated = of(Mode::Plain).zip(of(Mode::Ebbtide)).map(|(plain, tried)| Effect {
            misses_per_job_without: plain.misses_per_job,
            misses_per_job_with: tried.misses_per_job,
            speedup: tried.jobs_per_s / plain.jobs_per_s,
        });
    }
    Ok(())
}

/// The prediction of one outcome.
struct Prediction<'a> {
    conditions: &'a Conditions,
}

/// Predicted figures.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Expected {
    jobs_per_s: f64,
    /// Reads from flash that a job waits for. Zero in DRAM.
    misses_per_job: f64,
}

/// Jobs a core to measure in simulated DRAM. As many warm up.
const BARE_JOBS: u64 = 5_000;

/// The most jobs a core that warm up or are measured, for a bench of any length. This bounds the
/// time of a prediction.
const JOBS_MAX: u64 = 300_000;

/// Jobs a core between two checks of the simulated clock.
const STRETCH: u64 = 64;

impl Prediction<'_> {
    /// The prediction for the mode of the setup. `None` if its costs are unknown.
    ///
    /// # Errors
    /// [`PredictError`] when the simulator cannot reproduce that setup.
    fn expected(&self) -> Result<Option<Expected>, PredictError> {
        let cores = self.conditions.setup.cpus.len();
        if self.conditions.setup.mode == Mode::Dram {
            let jobs_per_s = cores as f64 * 1e9 / self.conditions.calibration.job_ns;
            return Ok(Some(Expected { jobs_per_s, misses_per_job: 0.0 }));
        }
        let Some(costs) = self.conditions.profile.mode(self.conditions.setup.mode) else {
            return Ok(None);
        };
        let (frames, policy) = self.cache(costs)?;
        let config = self.config(frames)?;
        let bare_ns = self.bare_job_ns(&config)?;
        let work_ns = (self.conditions.calibration.job_ns - bare_ns).max(0.0);
        let parts = self.parts(&config, costs, frames, policy)?;
        let program = self.conditions.program.clone().with_work(WORK_UNITS);
        let mut machine = Machine::of_program(&config, parts, program)?;
        machine.set_work(Span::from_ps((work_ns * 1e3) as u64));
        Ok(Some(self.measured(&mut machine, cores as u64)?))
    }

    /// Frames of the mode's DRAM cache, and the policy that manages them.
    fn cache(&self, costs: &ModeCosts) -> Result<(u64, PolicyKind), PredictError> {
        let pages = self.conditions.program.size_bytes() / PAGE_BYTES as u64;
        if self.conditions.setup.mode == Mode::Paging {
            let bytes = self.conditions.setup.dram_bytes.saturating_sub(costs.lost_bytes);
            // CLOCK is most similar to the kernel's two lists with second chances (assumption).
            return Ok(((bytes / PAGE_BYTES as u64).clamp(16, pages), PolicyKind::Clock));
        }
        let options = self.conditions.engine_options();
        let budget = Budget::divide(&options, pages);
        let budget = budget.map_err(|error| PredictError::Simulation(error.to_string()))?;
        Ok((budget.frames as u64, options.tuning.replacement))
    }

    /// A machine of as many cores, whose memory is DRAM with a cache of `frames` frames. Its own
    /// caches, and the DRAM behind them, take nearly no time. Software looks up the page of every
    /// access, so the policy must see the accesses that hit in a cache. The time of accesses is
    /// part of the calibrated length of a job.
    fn config(&self, frames: u64) -> Result<Config, PredictError> {
        let lines = |count: usize| Bytes((count * LINE_BYTES) as u64);
        let mut config = resolve("astriflash", &[])
            .map_err(|error| PredictError::Simulation(error.to_string()))?;
        config.l1.size = lines(config.l1.ways);
        config.llc.size = lines(config.llc.ways * self.conditions.setup.cpus.len());
        config.dram.ras_cycles = 1;
        config.cores.count = self.conditions.setup.cpus.len();
        // The measured costs already include the overlap on this machine.
        (config.cores.store_buffer, config.cores.miss_registers) = (0, 0);
        config.dataset.size = Bytes(self.conditions.program.size_bytes());
        config.dram_cache.size = Bytes(frames * PAGE_BYTES as u64);
        config.workload.theta = self.conditions.setup.theta;
        Ok(config)
    }

    /// A job's time in simulated DRAM without added work, in nanoseconds.
    fn bare_job_ns(&self, config: &Config) -> Result<f64, SimError> {
        let memory_side = Box::new(AllDram::new(config));
        let parts = Parts { core_side: CoreSide::Block, memory_side };
        let program = self.conditions.program.clone().with_work(WORK_UNITS);
        let mut machine = Machine::of_program(config, parts, program)?;
        let cores = config.cores.count as u64;
        machine.warm(BARE_JOBS * cores, None)?;
        let time = machine.run(BARE_JOBS * cores)?;
        Ok(time.as_ps() as f64 / 1e3 / BARE_JOBS as f64)
    }

    fn parts(
        &self,
        config: &Config,
        costs: &ModeCosts,
        frames: u64,
        policy: PolicyKind,
    ) -> Result<Parts, PredictError> {
        let us = |us: f64| Span::from_ps((us * 1e6) as u64);
        let threads = match self.conditions.setup.mode {
            Mode::Dram | Mode::Sync => 1,
            Mode::Paging => self.conditions.threads_per_core.unwrap_or(1),
            Mode::Ebbtide | Mode::Mapped | Mode::Plain | Mode::Durable => {
                self.conditions.engine_options().threads_per_core()
            }
        };
        let discipline = match self.conditions.setup.mode {
            Mode::Ebbtide | Mode::Mapped | Mode::Plain | Mode::Durable => {
                self.conditions.setup.tuning.scheduler
            }
            _ => Discipline::Priority,
        };
        let core_side = match self.conditions.setup.mode {
            // The cost of a miss includes the read.
            Mode::Dram | Mode::Sync => CoreSide::Block,
            Mode::Paging | Mode::Ebbtide | Mode::Mapped | Mode::Plain | Mode::Durable => {
                CoreSide::Switch(Switching {
                    threads,
                    discipline,
                    looks_after_jobs: true,
                    arrivals: Arrive::Notified,
                    // The cost of a miss includes switches.
                    flush: Span::ZERO,
                    switch_out: Span::ZERO,
                    switch_in: Span::ZERO,
                    forward_progress: true,
                    stores_go_past: false,
                })
            }
        };
        let transfers = match self.conditions.setup.mode {
            Mode::Dram | Mode::Sync => vec![(1, Span::ZERO)],
            _ => self
                .conditions
                .profile
                .reads
                .iter()
                .map(|at: &ReadsAt| (at.in_flight, us(at.mean_us)))
                .collect(),
        };
        // The kernel has none of the engine's techniques against misses.
        let (admission, prefetcher, hints, ahead_max) = match self.conditions.setup.mode {
            Mode::Dram | Mode::Paging => (Admission::Always, PrefetcherKind::None, false, 0),
            Mode::Sync | Mode::Ebbtide | Mode::Mapped | Mode::Plain | Mode::Durable => {
                let options = self.conditions.engine_options();
                let ahead_max = options.ahead_max() * self.conditions.setup.cpus.len();
                {
                    let tuning = options.tuning;
                    (tuning.admission, tuning.prefetch, tuning.hints, ahead_max as u64)
                }
            }
        };
        let costs = SoftwareCosts {
            frames,
            policy,
            admission,
            prefetcher,
            hints,
            ahead_max,
            miss: us(costs.miss_us),
            write_back: us(costs.write_back_us),
            pages_per_write: costs.pages_per_write,
            transfers,
            in_flight_max: threads * self.conditions.setup.cpus.len(),
        };
        let memory_side = SoftwareCache::new(config, costs)
            .map_err(|error| PredictError::Simulation(error.to_string()))?;
        Ok(Parts { core_side, memory_side: Box::new(memory_side) })
    }

    /// The result of `machine` in the bench's time. It starts empty, as the mode did.
    fn measured(&self, machine: &mut Machine, cores: u64) -> Result<Expected, SimError> {
        run_for(machine, self.conditions.warm_up_s, cores)?;
        machine.take_counters();
        let (jobs, time) = run_for(machine, self.conditions.measured_s, cores)?;
        let misses = machine.take_counters().cache.misses;
        Ok(Expected {
            jobs_per_s: jobs as f64 * 1e12 / time.as_ps() as f64,
            misses_per_job: misses as f64 / jobs as f64,
        })
    }
}

/// Runs `machine` for `seconds` of simulated time. Returns the jobs that ended and their time.
fn run_for(machine: &mut Machine, seconds: f64, cores: u64) -> Result<(u64, Span), SimError> {
    let (mut jobs, mut time) = (0, Span::ZERO);
    while (time.as_ps() as f64) < seconds * 1e12 && jobs < JOBS_MAX * cores {
        time = time + machine.run(STRETCH * cores)?;
        jobs += STRETCH * cores;
    }
    Ok((jobs, time))
}
