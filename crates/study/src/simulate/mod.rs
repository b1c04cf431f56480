//! One design on one program or trace, as tables, charts and JSON: what `ebbtide sim` does.

mod page;
mod seeds;
mod text;

use ebbtide_core::Watch;
use ebbtide_sim::config::Config;
use ebbtide_sim::{Outcome, Plan, Replay, ReplayError, SimError, Simulation, Timeline, replay};
use ebbtide_trace::Source;
use serde::Serialize;

pub use seeds::{Runs, run_seeds};
pub use text::spent;

use crate::energy::{Energy, Meter};
use crate::watched::Watched;

/// What there is to show.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum SimReport {
    /// One run of a program.
    Run(Box<Run>),
    /// The same program under several seeds.
    Runs(Runs),
    /// A trace.
    Replay(Box<Replayed>),
}

/// One run of a program.
#[derive(Debug, Serialize)]
pub struct Run {
    /// What came out.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What a job took in energy, if there is a table for the design.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
    /// One of the misses that came next, if that was asked for and there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub typical_miss: Option<Timeline>,
}

/// A trace that was replayed.
#[derive(Debug, Serialize)]
pub struct Replayed {
    /// What came out.
    #[serde(flatten)]
    pub replay: Replay,
    /// What an access took in energy, if there is a table for the design.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy: Option<Energy>,
}

/// Simulates `plan`, with the energy that `meter` reads; follows a typical miss afterwards if
/// `explain`.
///
/// # Errors
/// [`SimError`]; nothing is reported for a run that did not end.
pub fn run(
    plan: &Plan,
    explain: bool,
    meter: Option<&Meter>,
    watch: Watch<'_>,
) -> Result<Run, SimError> {
    let mut simulation = Simulation::warmed(plan, watch)?;
    let outcome = simulation.measure(watch)?;
    let typical_miss = if explain { simulation.typical_miss()? } else { None };
    Ok(Run { energy: meter.map(|meter| meter.of_program(&outcome)), outcome, typical_miss })
}

/// Replays `trace` on the design of `config`, with the energy that `meter` reads. `None` if `watch`
/// broke that off.
///
/// # Errors
/// [`ReplayError`]; nothing is reported for a trace that was not read to its end.
pub fn run_trace(
    config: &Config,
    meter: Option<&Meter>,
    trace: impl Source,
    watch: Watch<'_>,
) -> Result<Option<SimReport>, ReplayError> {
    let mut trace = Watched::new(trace, watch);
    let replayed = replay(config, &mut trace);
    if trace.stopped() {
        return Ok(None);
    }
    let replay = replayed?;
    let energy = meter.map(|meter| meter.of_trace(&replay));
    Ok(Some(SimReport::Replay(Box::new(Replayed { replay, energy }))))
}
