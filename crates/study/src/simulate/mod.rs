//! One design on one program or trace, as tables, charts and JSON: what `ebbtide sim` does.

mod page;
mod seeds;
mod text;

use ebbtide_sim::config::Config;
use ebbtide_sim::{Outcome, Plan, Replay, ReplayError, SimError, Simulation, replay};
use ebbtide_trace::Source;
use serde::Serialize;

pub use seeds::{Runs, run_seeds};

/// Is told what is being done, and about which share of all is done; by several threads at once
/// where runs have threads of their own.
pub type Watch<'a> = &'a (dyn Fn(&str, f64) + Sync);

/// What there is to show.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Report {
    /// One run of a program.
    Run(Box<Outcome>),
    /// The same program under several seeds.
    Runs(Runs),
    /// A trace.
    Replay(Box<Replay>),
}

/// Simulates `plan`.
///
/// # Errors
/// [`SimError`]; nothing is reported for a run that did not end.
pub fn run(plan: &Plan, watch: Watch<'_>) -> Result<Report, SimError> {
    let outcome = Simulation::warmed(plan, &watch)?.measure(&watch)?;
    Ok(Report::Run(Box::new(outcome)))
}

/// Replays `trace` on the design of `config`.
///
/// # Errors
/// [`ReplayError`]; nothing is reported for a trace that was not read to its end.
pub fn run_trace(config: &Config, trace: &mut dyn Source) -> Result<Report, ReplayError> {
    Ok(Report::Replay(Box::new(replay(config, trace)?)))
}
