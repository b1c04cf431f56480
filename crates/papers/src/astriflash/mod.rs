//! AstriFlash (HPCA'23) on the simulator: its Figs. 1, 3, 9 and 10, its Tables I and II, and every
//! claim that runs and formulas decide.

pub(crate) mod claims;
mod experiments;
mod figures;
pub(crate) mod formulas;
mod verdicts;

use ebbtide_core::Watch;
use ebbtide_report::statistics::Estimate;
use ebbtide_sim::config::Config;
use ebbtide_study::claims::Findings;
use ebbtide_study::size::figure1;
use serde::Serialize;

use self::experiments::{
    AssumptionRow, ByDesign, Collections, Host, IntervalRow, LoadRow, ScaleRow, SkewRow,
    TailCauseRow, WorkloadRow,
};
pub use self::verdicts::judge_trace;
use crate::{Paper, ReproduceError, ReproduceOptions, Reproduced};

pub(super) const PAPER: Paper =
    Paper { name: "astriflash", about: "AstriFlash, HPCA 2023", full_run: "hours", reproduce };

/// What was run and what it says.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AstriFlash {
    /// Capacities were divided by this.
    scale_denominator: u64,
    /// Of layouts, job streams and arrivals: the first of them.
    seed: u64,
    /// Independent repetitions.
    seeds: u64,
    /// Table I: every parameter of the simulated AstriFlash, resolved.
    parameters: Config,
    /// Fig. 9 and Table II.
    workloads: Vec<WorkloadRow>,
    /// Fig. 9's last group, by design.
    mean_throughput: ByDesign<Estimate>,
    /// Table II's last row, by design.
    geometric_mean_p99: ByDesign<Estimate>,
    /// How throughput follows the interval between misses.
    intervals: Vec<IntervalRow>,
    /// Fig. 10.
    loads: Vec<LoadRow>,
    /// Fig. 1.
    miss_curves: Vec<figure1::Row>,
    /// What 3% of the data absorb of jobs' accesses, by skew.
    skews: Vec<SkewRow>,
    /// What lengthens the tail of jobs that share rows.
    tail_causes: Vec<TailCauseRow>,
    /// What each assumption moves.
    assumptions: Vec<AssumptionRow>,
    /// How far capacities move figures; of quick runs.
    scales: Vec<ScaleRow>,
    /// Garbage collection at both sizes of the device.
    collections: Collections,
    /// This machine, where that was asked for.
    host: Option<Host>,
    /// Every claim.
    #[serde(flatten)]
    findings: Findings,
}

fn reproduce(options: &ReproduceOptions, watch: Watch<'_>) -> Result<Reproduced, ReproduceError> {
    let (mut astriflash, outcomes) = experiments::run(options, watch)?;
    astriflash.findings = verdicts::findings(&astriflash, &outcomes);
    Reproduced::new(&astriflash, &astriflash.findings, astriflash.figures())
}
