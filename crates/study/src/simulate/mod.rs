//! `ebbtide sim`: one design on one program or trace. [`simulate()`] takes [`SimOptions`] and
//! returns a [`SimReport`].

mod options;
mod page;
mod result;
mod seeds;
mod text;
mod warnings;

use ebbtide_core::Watch;
use ebbtide_sim::config::Config;
use ebbtide_sim::{Outcome, Plan, Replay, ReplayError, SimError, Simulation, Timeline};
use ebbtide_trace::{Folded, Source};
use serde::Serialize;

pub use options::{Compose, SimOptions, SimWork, SimulateError, simulate, simulate_with};
pub use seeds::{Runs, run_seeds};
pub use text::spent;

use crate::energy::{Energy, Meter};
use crate::watched::Watched;

/// The result of a simulation.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum SimReport {
    /// One run of a program.
    Run(Box<Run>),
    /// The same program under several seeds.
    Runs(Runs),
    /// A replayed trace.
    Replay(Box<Replayed>),
}

/// One run of a program.
#[derive(Debug, Serialize)]
pub struct Run {
    /// The figures of the run, with its configuration.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Warnings about the figures, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Mean energy of a job. `None` if the table does not cover the design.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
    /// The timeline of the miss of median length. `None` if not requested or if nothing missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub typical_miss: Option<Timeline>,
}

/// A trace that was replayed.
#[derive(Debug, Serialize)]
pub struct Replayed {
    /// The figures of the replay, with its configuration.
    #[serde(flatten)]
    pub replay: Replay,
    /// Warnings about the figures, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Mean energy of an access. `None` if the table does not cover the design.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
}

impl Replayed {
    /// The same result, with a warning if `trace` was too large for the device.
    fn folded<S: Source>(mut self, trace: &Folded<S>) -> Replayed {
        self.warnings.extend(warnings::of_folding(trace.shared()));
        self
    }
}

/// Warms up and simulates `plan`. With a `meter`, adds the energy. With `explain`, follows a miss
/// of median length afterwards.
///
/// # Errors
/// [`SimError`] when the machine or the program cannot be built, a job fails, or `watch` requests a
/// stop.
pub fn run(
    plan: &Plan,
    explain: bool,
    meter: Option<&Meter>,
    watch: Watch<'_>,
) -> Result<Run, SimError> {
    measured(Simulation::warmed(plan, watch)?, explain, meter, watch)
}

fn measured(
    mut simulation: Simulation,
    explain: bool,
    meter: Option<&Meter>,
    watch: Watch<'_>,
) -> Result<Run, SimError> {
    let outcome = simulation.measure(watch)?;
    let typical_miss = if explain { simulation.typical_miss()? } else { None };
    let energy = meter.map(|meter| meter.of_program(&outcome));
    Ok(Run { warnings: warnings::of_run(&outcome), energy, outcome, typical_miss })
}

/// A way to replay a trace on the design of a configuration.
pub type ReplayFn = fn(&Config, &mut dyn Source) -> Result<Replay, ReplayError>;

/// Replays `trace` on the design of `config` by `replay`. With a `meter`, adds the energy. Returns
/// `None` if `watch` stopped the replay.
///
/// # Errors
/// [`ReplayError`] when the design cannot be built or the trace cannot be read to its end.
pub fn run_trace(
    config: &Config,
    meter: Option<&Meter>,
    trace: impl Source,
    replay: ReplayFn,
    watch: Watch<'_>,
) -> Result<Option<Replayed>, ReplayError> {
    let mut trace = Watched::new(trace, watch);
    let replayed = replay(config, &mut trace);
    if trace.stopped() {
        return Ok(None);
    }
    let replay = replayed?;
    let energy = meter.map(|meter| meter.of_trace(&replay));
    let warnings = trace.remark().into_iter().chain(warnings::of_replay(&replay)).collect();
    Ok(Some(Replayed { warnings, replay, energy }))
}
