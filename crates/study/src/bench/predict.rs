//! What the simulator, told only what misses cost on this machine, expects of a bench.
//!
//! The program's real code runs on the simulated machine over the engine's own replacement policy.
//! Of the bench it is told what went into it: the program, the DRAM and the calibrated length of a
//! job. What a miss costs comes from a [`Profile`], measured with other programs; nothing is fitted
//! to what the bench then measures.

use ebbtide_core::prefetch::PrefetcherKind;
use ebbtide_core::replacement::{Admission, PolicyKind};
use ebbtide_core::schedule::{Arrivals as Arrive, Discipline};
use ebbtide_core::{LINE_BYTES, PAGE_BYTES, Span};
use ebbtide_engine::Budget;
use ebbtide_sim::config::{Config, Size, resolve};
use ebbtide_sim::designs::Parts;
use ebbtide_sim::memory_side::{AllDram, SoftwareCache, SoftwareCosts};
use ebbtide_sim::{CoreSide, Machine, SimError, Switching, WORK_UNITS};
use ebbtide_workloads::{Program, Workload};

use super::child::engine_options;
use super::profile::{ModeCosts, Profile, ReadsAt};
use super::protocol::{Calibration, Setup};
use super::{BenchError, Mode};

/// A bench of one workload, about to be predicted.
pub(super) struct Prediction<'a> {
    pub(super) profile: &'a Profile,
    pub(super) program: &'a Program,
    pub(super) calibration: &'a Calibration,
    /// As the child of the mode was set up.
    pub(super) setup: &'a Setup,
    /// Kernel threads a core, of a mode that chose them.
    pub(super) threads_per_core: Option<usize>,
    /// Seconds that the mode ran before it was measured, and while it was: what a policy has learned
    /// by then, and what a program has written, is part of the figure.
    pub(super) warm_up_s: f64,
    pub(super) measured_s: f64,
}

/// What the simulator expects.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Expected {
    pub(super) jobs_per_s: f64,
    /// Reads from flash that a job waits for; none in DRAM.
    pub(super) misses_per_job: f64,
}

/// Jobs a core whose time in simulated DRAM is taken, and as many to warm up.
const BARE_JOBS: u64 = 5_000;

/// No more jobs a core than this warm up, or are measured, however long the bench is: this bounds how
/// long a prediction takes.
const JOBS_MAX: u64 = 300_000;

/// Jobs a core between two looks at the simulated clock.
const STRETCH: u64 = 64;

impl Prediction<'_> {
    /// What comes of the mode of the setup; `None` if its costs are not known.
    ///
    /// # Errors
    /// [`BenchError`] when the simulator cannot be set up so.
    pub(super) fn expected(&self) -> Result<Option<Expected>, BenchError> {
        let cores = self.setup.cpus.len();
        if self.setup.mode == Mode::Dram {
            let jobs_per_s = cores as f64 * 1e9 / self.calibration.job_ns;
            return Ok(Some(Expected { jobs_per_s, misses_per_job: 0.0 }));
        }
        let Some(costs) = self.profile.mode(self.setup.mode) else { return Ok(None) };
        let failed = |error: SimError| BenchError::Predict(error.to_string());
        let (frames, policy) = self.cache(costs)?;
        let config = self.config(frames)?;
        let bare_ns = self.bare_job_ns(&config).map_err(failed)?;
        let work_ns = (self.calibration.job_ns - bare_ns).max(0.0);
        let parts = self.parts(&config, costs, frames, policy)?;
        let program = self.program.clone().with_work(WORK_UNITS);
        let mut machine = Machine::new(&config, parts, program).map_err(failed)?;
        machine.set_work(Span::from_ps((work_ns * 1e3) as u64));
        self.measured(&mut machine, cores as u64).map(Some).map_err(failed)
    }

    /// Frames of the mode's DRAM cache, and who manages them.
    fn cache(&self, costs: &ModeCosts) -> Result<(u64, PolicyKind), BenchError> {
        let pages = self.program.size_bytes() / PAGE_BYTES as u64;
        if self.setup.mode == Mode::Paging {
            let bytes = self.setup.dram_bytes.saturating_sub(costs.lost_bytes);
            // The kernel's two lists and their second chances are nearest to CLOCK (assumption).
            return Ok(((bytes / PAGE_BYTES as u64).clamp(16, pages), PolicyKind::Clock));
        }
        let options = engine_options(self.setup)?;
        let budget = Budget::divide(&options, pages);
        let budget = budget.map_err(|error| BenchError::BadInput(error.to_string()))?;
        Ok((budget.frames as u64, options.replacement))
    }

    /// A machine of as many cores whose memory is only DRAM and `frames` of cache. Its own caches and
    /// the DRAM behind them are next to nothing: software looks up the page of every access, so one
    /// that hits in a cache must count for the policy too, and how long accesses take is in the
    /// calibrated length of a job.
    fn config(&self, frames: u64) -> Result<Config, BenchError> {
        let lines = |count: usize| Size((count * LINE_BYTES) as u64);
        let mut config =
            resolve("astriflash", &[]).map_err(|error| BenchError::Predict(error.to_string()))?;
        config.l1.size = lines(config.l1.ways);
        config.llc.size = lines(config.llc.ways * self.setup.cpus.len());
        config.dram.ras_cycles = 1;
        config.cores.count = self.setup.cpus.len();
        config.dataset.size = Size(self.program.size_bytes());
        config.dram_cache.size = Size(frames * PAGE_BYTES as u64);
        config.workload.theta = self.setup.theta;
        Ok(config)
    }

    /// A job's time in simulated DRAM without added work, in nanoseconds.
    fn bare_job_ns(&self, config: &Config) -> Result<f64, SimError> {
        let memory_side = Box::new(AllDram::new(config));
        let parts = Parts { core_side: CoreSide::Block, memory_side };
        let program = self.program.clone().with_work(WORK_UNITS);
        let mut machine = Machine::new(config, parts, program)?;
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
    ) -> Result<Parts, BenchError> {
        let us = |us: f64| Span::from_ps((us * 1e6) as u64);
        let threads = match self.setup.mode {
            Mode::Dram | Mode::Sync => 1,
            Mode::Paging => self.threads_per_core.unwrap_or(1),
            Mode::Ebbtide | Mode::Plain => engine_options(self.setup)?.threads_per_core,
        };
        let discipline = match self.setup.mode {
            Mode::Ebbtide | Mode::Plain => Discipline::from_name(&self.setup.scheduler)?,
            _ => Discipline::Priority,
        };
        let core_side = match self.setup.mode {
            // The read is in what a miss costs.
            Mode::Dram | Mode::Sync => CoreSide::Block,
            Mode::Paging | Mode::Ebbtide | Mode::Plain => CoreSide::Switch(Switching {
                threads,
                discipline,
                arrivals: Arrive::Notified,
                // Switches are in what a miss costs.
                flush: Span::ZERO,
                switch_out: Span::ZERO,
                switch_in: Span::ZERO,
                forward_progress: true,
            }),
        };
        let transfers = match self.setup.mode {
            Mode::Dram | Mode::Sync => vec![(1, Span::ZERO)],
            _ => self
                .profile
                .reads
                .iter()
                .map(|at: &ReadsAt| (at.in_flight, us(at.mean_us)))
                .collect(),
        };
        // What the engine does about misses, the kernel does not.
        let (admission, prefetcher, hints, ahead_max) = match self.setup.mode {
            Mode::Dram | Mode::Paging => (Admission::Always, PrefetcherKind::None, false, 0),
            Mode::Sync | Mode::Ebbtide | Mode::Plain => {
                let options = engine_options(self.setup)?;
                let ahead_max = options.ahead_max() * self.setup.cpus.len();
                (options.admission, options.prefetcher, options.hints, ahead_max as u64)
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
            in_flight_max: threads * self.setup.cpus.len(),
        };
        let memory_side = SoftwareCache::new(config, costs)
            .map_err(|error| BenchError::Predict(error.to_string()))?;
        Ok(Parts { core_side, memory_side: Box::new(memory_side) })
    }

    /// What `machine`, which starts empty as the mode did, does in the bench's time.
    fn measured(&self, machine: &mut Machine, cores: u64) -> Result<Expected, SimError> {
        run_for(machine, self.warm_up_s, cores)?;
        machine.take_counters();
        let (jobs, time) = run_for(machine, self.measured_s, cores)?;
        let misses = machine.take_counters().misses;
        Ok(Expected {
            jobs_per_s: jobs as f64 * 1e12 / time.as_ps() as f64,
            misses_per_job: misses as f64 / jobs as f64,
        })
    }
}

/// Lets `machine` run for as many simulated `seconds`. Gives the jobs that ended and their time.
fn run_for(machine: &mut Machine, seconds: f64, cores: u64) -> Result<(u64, Span), SimError> {
    let (mut jobs, mut time) = (0, Span::ZERO);
    while (time.as_ps() as f64) < seconds * 1e12 && jobs < JOBS_MAX * cores {
        time = time + machine.run(STRETCH * cores)?;
        jobs += STRETCH * cores;
    }
    Ok((jobs, time))
}
