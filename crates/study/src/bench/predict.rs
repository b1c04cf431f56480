//! What the simulator, told only what misses cost on this machine, expects of a bench.
//!
//! The program's real code runs on the simulated machine over the engine's own replacement policy.
//! Of the bench it is told what went into it: the program, the DRAM and the calibrated length of a
//! job. What a miss costs comes from a [`Profile`], measured with other programs; nothing is fitted
//! to what the bench then measures.

use ebbtide_core::prefetch::PrefetcherKind;
use ebbtide_core::replacement::{Admission, PolicyKind};
use ebbtide_core::schedule::{Arrivals as Arrive, Discipline};
use ebbtide_core::{PAGE_BYTES, Span};
use ebbtide_engine::Budget;
use ebbtide_sim::config::{Config, Size, resolve};
use ebbtide_sim::designs::Parts;
use ebbtide_sim::memory_side::{AllDram, PlainLru, SoftwareCache, SoftwareCosts};
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
}

/// What the simulator expects.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Expected {
    pub(super) jobs_per_s: f64,
    /// Reads from flash that a job waits for; none in DRAM.
    pub(super) misses_per_job: f64,
}

/// Turnovers of the DRAM cache before jobs are timed: the policy has settled.
const WARM_TURNOVERS: u64 = 6;

/// Jobs that run in time before any is counted, and those counted, a core.
const JOBS: u64 = 20_000;

/// No program warms up for longer, whether it misses or not.
const WARM_JOBS_MAX: u64 = 2_000_000;

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
        let expected = warmed(&mut machine, &config, work_ns, cores as u64);
        expected.map(Some).map_err(failed)
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

    /// A machine of as many cores whose memory is only DRAM and `frames` of cache. Its caches are
    /// those of the default design: the calibrated length of a job is what counts.
    fn config(&self, frames: u64) -> Result<Config, BenchError> {
        let mut config =
            resolve("astriflash", &[]).map_err(|error| BenchError::Predict(error.to_string()))?;
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
        machine.warm(JOBS / 4 * cores, None)?;
        let time = machine.run(JOBS / 4 * cores)?;
        Ok(time.as_ps() as f64 / 1e3 * 4.0 / JOBS as f64)
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
            transfers,
            in_flight_max: threads * self.setup.cpus.len(),
        };
        let memory_side = SoftwareCache::new(config, costs)
            .map_err(|error| BenchError::Predict(error.to_string()))?;
        Ok(Parts { core_side, memory_side: Box::new(memory_side) })
    }
}

/// What comes of jobs once the DRAM cache of `machine` has turned over several times.
fn warmed(
    machine: &mut Machine,
    config: &Config,
    work_ns: f64,
    cores: u64,
) -> Result<Expected, SimError> {
    let mut lru = PlainLru::new(config)?;
    let mut jobs = 0;
    while lru.counters().misses < WARM_TURNOVERS * lru.frames() && jobs < WARM_JOBS_MAX {
        machine.warm(1024, Some(&mut lru))?;
        jobs += 1024;
    }
    machine.set_work(Span::from_ps((work_ns * 1e3) as u64));
    machine.run(JOBS / 4 * cores)?;
    machine.take_measured();
    let (jobs, time) = (JOBS * cores, machine.run(JOBS * cores)?);
    let misses = machine.take_measured().counters.misses;
    Ok(Expected {
        jobs_per_s: jobs as f64 * 1e12 / time.as_ps() as f64,
        misses_per_job: misses as f64 / jobs as f64,
    })
}
