//! AstriFlash (HPCA'23) on the simulator: its Figs. 1, 3, 9 and 10, its Tables I and II, and every
//! claim that runs and formulas decide.

pub(crate) mod claims;
mod experiments;
mod figures;
pub(crate) mod formulas;
mod of_trace;
mod verdicts;

use ebbtide_core::Watch;
use ebbtide_report::statistics::Estimate;
use ebbtide_sim::config::Config;
use ebbtide_study::claims::Findings;
use ebbtide_study::size::figure1;
use serde::Serialize;

use self::experiments::{
    AssumptionRow, ByDesign, Collections, DriveRow, Host, IntervalRow, LoadRow, Outcomes, ScaleRow,
    SkewRow, SpreadRow, TailCauseRow, WorkloadRow,
};
pub use self::of_trace::judge_trace;
use crate::record::{findings, needed};
use crate::{Paper, ReproduceError, ReproduceOptions, Reproduced, Selection};

pub(super) const PAPER: Paper = Paper {
    name: "astriflash",
    claims: claims::CLAIMS,
    about: "AstriFlash, HPCA 2023",
    full_run: "more than an hour at 1/32 of the paper's capacities",
    runs: |options| Ok(experiments::count(&needed(&claims::RECORDS, &options.selection), options)),
    reproduce,
};

/// The result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AstriFlash {
    /// The divisor of the capacities.
    scale_denominator: u64,
    /// First seed of layouts, job streams and arrivals.
    seed: u64,
    /// Independent repetitions.
    seeds: u64,
    /// Table I: every parameter of the simulated AstriFlash, resolved.
    parameters: Config,
    /// Fig. 9 and Table II.
    workloads: Vec<WorkloadRow>,
    /// The last group of Fig. 9, by design.
    mean_throughput: ByDesign<Estimate>,
    /// The last row of Table II, by design.
    geometric_mean_p99: ByDesign<Estimate>,
    /// Throughput by interval between misses.
    intervals: Vec<IntervalRow>,
    /// The means of Fig. 9 and Table II by other intervals between misses.
    spreads: Vec<SpreadRow>,
    /// Fig. 10.
    loads: Vec<LoadRow>,
    /// Fig. 1.
    miss_curves: Vec<figure1::Row>,
    /// The share of accesses that 3% of the data absorbs, by skew.
    skews: Vec<SkewRow>,
    /// Tails with one possible cause changed.
    tail_causes: Vec<TailCauseRow>,
    /// The effect of each assumption.
    assumptions: Vec<AssumptionRow>,
    /// Figures at other capacities. Only in quick runs.
    scales: Vec<ScaleRow>,
    /// Throughput over drives on the market.
    drives: Vec<DriveRow>,
    /// Garbage collection at both sizes of the device.
    collections: Option<Collections>,
    /// This machine, if it was measured.
    host: Option<Host>,
    /// Every claim.
    #[serde(flatten)]
    findings: Findings,
    /// Every run.
    #[serde(skip)]
    outcomes: Outcomes,
}

fn reproduce(options: &ReproduceOptions, watch: Watch<'_>) -> Result<Reproduced, ReproduceError> {
    let sets = needed(&claims::RECORDS, &options.selection);
    let mut astriflash = experiments::run(&sets, options, watch)?;
    astriflash.findings =
        findings(claims::CLAIMS, &claims::RECORDS, &astriflash, &options.selection);
    if let selection @ Selection::Claims(_) = &options.selection {
        return Reproduced::of_part(PAPER.about, astriflash.findings, selection);
    }
    Reproduced::new(&astriflash, &astriflash.findings, astriflash.figures())
}
