//! `ebbtide sweep`: the cross product of designs, programs and parameters on all host cores.
//!
//! [`Sweep`] lists the points, and [`run()`] returns [`Swept`], their results. Each finished run is
//! written to the results folder at once, so an interrupted sweep continues where it stopped.
//! Neither interruptions nor the number of threads change the results.

mod axes;
mod checkpoint;
mod page;
mod results;
mod shard;
mod text;

use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

use ebbtide_core::{UnknownName, Watch};
use ebbtide_sim::{Plan, Shared, SimError};
use serde_json::Value;
use thiserror::Error;

pub use axes::{Axis, Sweep};
pub use results::{SweepPoint, Swept};
pub use shard::{NoShard, Shard, ShardDone, merge};

use crate::runs::chains;
use crate::side_by_side::side_by_side_by_cost;
use checkpoint::{Checkpoint, Fingerprint};
use ebbtide_report::ReportError;

/// Options of a run of a sweep.
#[derive(Debug, Clone)]
pub struct SweepOptions {
    /// The results folder.
    pub folder: PathBuf,
    /// The program and its version. Runs of different versions are not mixed.
    pub program: String,
    /// Number of concurrent runs, which does not change the results.
    pub threads: usize,
    /// True to discard runs of another sweep or another program in the folder. Otherwise they are
    /// an error.
    pub force: bool,
}

/// The error of a failed sweep.
#[derive(Debug, Error)]
pub enum SweepError {
    /// The file is invalid.
    #[error("{file}: {reason}")]
    Malformed {
        /// The file.
        file: String,
        /// The place, the problem, and the expected value.
        reason: String,
    },
    /// A key does not exist.
    #[error("{file}: {error}")]
    UnknownKey {
        /// The file.
        file: String,
        /// The key, and the nearest known one.
        error: UnknownName,
    },
    /// A combination cannot be simulated.
    #[error("{point}: {reason}")]
    Point {
        /// The combined values.
        point: String,
        /// The problem.
        reason: String,
    },
    /// A run failed.
    #[error("{point}: {error}")]
    Run {
        /// The combined values.
        point: String,
        /// The reason.
        error: Box<SimError>,
    },
    /// The folder holds runs that do not belong to this sweep.
    #[error("{} holds {what}; give another folder, or --force to run everything anew", folder.display())]
    Mixed {
        /// The folder.
        folder: PathBuf,
        /// Its contents.
        what: String,
    },
    /// A folder's runs do not belong to the runs of the other folders.
    #[error("{} holds {what}; expected runs of one sweep by one build", folder.display())]
    Apart {
        /// The folder.
        folder: PathBuf,
        /// Its contents.
        what: String,
    },
    /// Runs are missing.
    #[error("{reason}")]
    Incomplete {
        /// What is missing, in words.
        reason: String,
    },
    /// A results folder cannot be read or written.
    #[error("cannot keep runs in {}: {source}", path.display())]
    Keep {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The results cannot be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The user stopped the sweep.
    #[error(
        "cancelled; {kept} of {all} runs are kept in {}: the same command goes on from there",
        folder.display()
    )]
    Cancelled {
        /// The number of finished runs.
        kept: usize,
        /// The number of all runs.
        all: usize,
        /// The folder of the runs.
        folder: PathBuf,
    },
}

impl SweepError {
    /// Returns true if the user's input, rather than the run, is at fault.
    pub fn is_input(&self) -> bool {
        match self {
            SweepError::Run { error, .. } => error.is_input(),
            SweepError::Keep { .. } | SweepError::Report(_) | SweepError::Cancelled { .. } => false,
            _ => true,
        }
    }
}

/// Runs the missing points of `sweep` and returns the results of all points.
///
/// # Errors
/// [`SweepError`] when a point is impossible, a run fails, or the folder cannot be used.
/// [`SweepError::Cancelled`] when `watch` requests a stop. Finished runs are kept.
pub fn run(sweep: &Sweep, options: &SweepOptions, watch: Watch<'_>) -> Result<Swept, SweepError> {
    let kept = run_missing(sweep, Shard::WHOLE, options, watch)?;
    Ok(Swept::new(sweep, kept.into_outcomes()))
}

/// Runs the missing points of the part `shard` of `sweep`. [`merge`] joins the parts.
///
/// # Errors
/// As [`run()`].
pub fn run_shard(
    sweep: &Sweep,
    shard: Shard,
    options: &SweepOptions,
    watch: Watch<'_>,
) -> Result<ShardDone, SweepError> {
    let kept = run_missing(sweep, shard, options, watch)?;
    let (runs, all, folder) = (kept.len(), sweep.points(), options.folder.clone());
    Ok(ShardDone { shard, runs, all, folder })
}

/// Runs one point, given by keys and values, as [`Sweep::point`] returns it. Other keys have their
/// defaults. Returns the outcome, with the keys of `ebbtide sim --json`.
///
/// # Errors
/// [`SweepError`] when a key or a value is invalid, the machine cannot be built, or the run fails
/// or is stopped.
pub fn run_point(values: &[(String, String)], watch: Watch<'_>) -> Result<Value, SweepError> {
    let sweep = Sweep::of_point(values)?;
    match sweep.plans()?.first() {
        Some(plan) => run_plan(plan, || sweep.label(0), &mut Shared::default(), watch),
        None => Err(SweepError::Incomplete { reason: "a point has one value an axis".into() }),
    }
}

fn run_plan(
    plan: &Plan,
    label: impl FnOnce() -> String,
    shared: &mut Shared,
    watch: Watch<'_>,
) -> Result<Value, SweepError> {
    let outcome = shared.warmed(plan, watch).and_then(|mut run| run.measure(watch));
    let failed = |error| SweepError::Run { point: label(), error: Box::new(error) };
    Ok(serde_json::to_value(outcome.map_err(failed)?).expect("an outcome is plain data"))
}

/// Runs the points of `shard` that are not kept yet. Returns all kept runs.
fn run_missing(
    sweep: &Sweep,
    shard: Shard,
    options: &SweepOptions,
    watch: Watch<'_>,
) -> Result<Checkpoint, SweepError> {
    let plans = sweep.plans()?;
    let kept = Checkpoint::open(
        &options.folder,
        &Fingerprint::new(&options.program, sweep, &plans),
        options.force,
    )?;
    let wanted: Vec<usize> = (0..plans.len()).filter(|number| shard.has(*number)).collect();
    let missing: Vec<usize> = wanted.iter().copied().filter(|number| !kept.has(*number)).collect();
    let missing_count = missing.len() as f64;
    let before = wanted.len() as f64 - missing_count;
    let watch_all = |stage: &str, share: f64| {
        watch.show(stage, (before + share * missing_count) / wanted.len() as f64);
    };
    let kept = Mutex::new(kept);
    let keep =
        |number, outcome| kept.lock().expect("no thread panics with it held").add(number, outcome);
    let chains = chains(&plans, missing, options.threads);
    let lengths: Vec<f64> = chains.iter().map(|chain| chain.len() as f64).collect();
    let run_chain = |chain: usize, watch: Watch<'_>| {
        let (chain, mut shared) = (&chains[chain], Shared::default());
        let share = |done: usize| done as f64 / chain.len() as f64;
        for (done, &number) in chain.iter().enumerate() {
            let label = sweep.label(number);
            let outcome = watch.within(share(done), share(done + 1), |watch| {
                let show =
                    |stage: &str, share: f64| watch.show(&format!("{label}: {stage}"), share);
                run_plan(&plans[number], || label.clone(), &mut shared, watch.telling(&show))
            });
            keep(number, outcome?)?;
        }
        Ok(())
    };
    let ended =
        side_by_side_by_cost(&lengths, options.threads, watch.telling(&watch_all), run_chain);
    let kept = kept.into_inner().expect("no thread panicked with it held");
    match ended {
        Ok(_) => Ok(kept),
        Err(SweepError::Run { error, .. }) if matches!(*error, SimError::Stopped(_)) => {
            Err(SweepError::Cancelled {
                kept: kept.len(),
                all: wanted.len(),
                folder: options.folder.clone(),
            })
        }
        Err(error) => Err(error),
    }
}
