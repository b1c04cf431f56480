//! [`SimOptions`]: the options of `ebbtide sim`, with checks and runs.

use std::path::PathBuf;

use ebbtide_core::{PAGE_BYTES, Stopped, Watch};
use ebbtide_sim::config::{Config, ConfigError, Scale};
use ebbtide_sim::designs::{self, Parts, resolve};
use ebbtide_sim::{Offered, Plan, ReplayError, SimError, Simulation, replay, replay_by_thread};
use ebbtide_trace::{Beyond, Folded, Format, Paged, Space, TraceError};
use ebbtide_workloads::Kind;
use thiserror::Error;

use super::{SimReport, measured, run, run_seeds, run_trace};
use crate::energy::{EnergyTable, Meter};

/// The options of a simulation.
#[derive(Debug, Clone)]
pub struct SimOptions {
    /// A design's name, or a TOML file of parameters.
    pub design: String,
    /// The name of a set of parameters that replace the design's.
    pub preset: Option<String>,
    /// Keys and values of parameters that replace those of the design and the preset.
    pub set: Vec<(String, String)>,
    /// Scale of capacities. Energy is computed for the full size.
    pub scale: Scale,
    /// The energy of operations.
    pub energy: EnergyTable,
    /// The work.
    pub work: SimWork,
}

/// The work of a simulation.
#[derive(Debug, Clone)]
pub enum SimWork {
    /// A program.
    Program {
        /// The program.
        workload: Kind,
        /// Jobs to measure after the warm-up.
        jobs: u64,
        /// First seed of data, jobs and arrivals.
        seed: u64,
        /// Number of consecutive seeds to run, at least one. `None` runs one seed, without
        /// estimates.
        seeds: Option<u64>,
        /// The load: always saturated, or arrivals at a rate.
        arrivals: Offered,
        /// True to follow a miss of median length. Ignored with several seeds.
        explain: bool,
    },
    /// A trace, replayed directly into the memory side.
    Trace {
        /// The file. `-` is standard input.
        path: PathBuf,
        /// The trace's format. `None` to determine it by the ending of the file's name.
        format: Option<Format>,
        /// The kind of addresses to use, if the trace has several.
        address: Space,
        /// The treatment of addresses beyond the modelled data.
        beyond: Beyond,
        /// True to run each thread of the trace on a core, false to enter accesses at their times.
        by_thread: bool,
    },
}

/// The error of a failed simulation.
#[derive(Debug, Error)]
pub enum SimulateError {
    /// The machine cannot be built.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The run failed.
    #[error(transparent)]
    Run(SimError),
    /// The trace cannot be replayed.
    #[error(transparent)]
    Replay(ReplayError),
    /// The user stopped the run.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl SimulateError {
    /// Returns true if the user's input, rather than the run, is at fault.
    pub fn is_input(&self) -> bool {
        match self {
            SimulateError::Config(_) => true,
            SimulateError::Run(error) => error.is_input(),
            SimulateError::Replay(ReplayError::Trace(error)) => error.is_input(),
            SimulateError::Replay(_) => true,
            SimulateError::Stopped(_) => false,
        }
    }
}

impl From<SimError> for SimulateError {
    fn from(error: SimError) -> SimulateError {
        match error {
            SimError::Stopped(stopped) => stopped.into(),
            error => SimulateError::Run(error),
        }
    }
}

impl From<TraceError> for SimulateError {
    fn from(error: TraceError) -> SimulateError {
        SimulateError::Replay(error.into())
    }
}

impl SimOptions {
    /// The machine at its full size.
    fn config(&self) -> Result<Config, ConfigError> {
        let preset = self.preset.iter().map(|name| ("preset", name.as_str()));
        let set = self.set.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        resolve(&self.design, &preset.chain(set).collect::<Vec<_>>())
    }
}

/// A function that composes the parts of the machine for a configuration.
pub type Compose<'a> = &'a dyn Fn(&Config) -> Result<Parts, ConfigError>;

/// Runs the simulation of `options` on the machine of its design.
///
/// # Errors
/// [`SimulateError`] when the machine cannot be built, the run fails, or `watch` requests a stop.
pub fn simulate(options: &SimOptions, watch: Watch<'_>) -> Result<SimReport, SimulateError> {
    simulate_on(options, None, watch)
}

/// Runs the simulation of `options` on the parts that `compose` returns, such as a policy of the
/// caller's own. Traces and several seeds ignore `compose` and use the design's parts.
///
/// # Errors
/// As [`simulate()`], and the error of `compose`.
pub fn simulate_with(
    options: &SimOptions,
    compose: Compose<'_>,
    watch: Watch<'_>,
) -> Result<SimReport, SimulateError> {
    simulate_on(options, Some(compose), watch)
}

fn simulate_on(
    options: &SimOptions,
    compose: Option<Compose<'_>>,
    watch: Watch<'_>,
) -> Result<SimReport, SimulateError> {
    let whole = options.config()?;
    let config = options.scale.of(whole.clone());
    config.check()?;
    let has_flash = designs::has_flash(&config)?;
    let meter = Meter::new(&options.energy, &whole, has_flash)?;
    let meter = meter.as_ref();
    match &options.work {
        SimWork::Trace { path, format, address, beyond, by_thread } => {
            let replay = if *by_thread { replay_by_thread } else { replay };
            let trace = Paged::new(address.of(ebbtide_trace::open_as(path, *format)?));
            let replayed = match beyond {
                Beyond::Refuse => run_trace(&config, meter, trace, replay, watch),
                Beyond::Fold => {
                    let pages = config.dataset.size.0 / PAGE_BYTES as u64;
                    let mut folded = Folded::new(trace, pages);
                    let replayed = run_trace(&config, meter, &mut folded, replay, watch);
                    replayed.map(|report| report.map(|report| report.folded(&folded)))
                }
            };
            let report = replayed.map_err(SimulateError::Replay)?;
            Ok(SimReport::Replay(Box::new(report.ok_or(Stopped)?)))
        }
        SimWork::Program { workload, jobs, seed, seeds, arrivals, explain } => {
            let (workload, jobs, seed, arrivals) = (*workload, *jobs, *seed, *arrivals);
            let plan = Plan { config, workload, jobs, seed, arrivals };
            Ok(match seeds {
                Some(count) => SimReport::Runs(run_seeds(&plan, *count, meter, watch)?),
                None => SimReport::Run(Box::new(match compose {
                    None => run(&plan, *explain, meter, watch)?,
                    Some(compose) => {
                        let parts = compose(&plan.config)?;
                        let simulation = Simulation::warmed_of(&plan, parts, watch)?;
                        measured(simulation, *explain, meter, watch)?
                    }
                })),
            })
        }
    }
}
