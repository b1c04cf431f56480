//! AstriFlash (HPCA'23) on the simulator: its Figs. 1, 3, 9 and 10, its Tables I and II, and every
//! claim that they and the formulas decide.

pub mod claims;
mod collections;
mod experiments;
mod figures;
pub mod formulas;
mod host;
mod of_trace;
mod verdicts;
pub use of_trace::judge_trace;
mod rows;
mod tails;

use std::path::Path;
use std::thread;

use ebbtide_core::Watch;
use ebbtide_sim::designs::resolve;
use serde::Serialize;

use self::collections::Collections;
use self::experiments::Outcomes;
use self::host::Host;
use self::rows::{
    AssumptionRow, IntervalRow, LoadRow, ScaleRow, SkewRow, TailCauseRow, WorkloadRow,
};
use super::{Paper, ReproduceError, ReproduceOptions, Reproduced, Reproduction};
use crate::claims::{Finding, Findings, Ours, find};
use ebbtide_report::Page;
use ebbtide_report::statistics::Estimate;
use ebbtide_study::size::figure1;

pub(super) const PAPER: Paper =
    Paper { name: "astriflash", about: "AstriFlash, HPCA 2023", full_run: "hours", reproduce };

/// What was run and what it says.
#[derive(Debug, Clone, Serialize)]
pub struct AstriFlash {
    /// Capacities were divided by this.
    pub scale_denominator: u64,
    /// Of layouts, job streams and arrivals: the first of them.
    pub seed: u64,
    /// Independent repetitions.
    pub seeds: u64,
    /// Table I: every parameter of the simulated AstriFlash, resolved.
    pub parameters: ebbtide_sim::config::Config,
    /// Fig. 9 and Table II.
    pub workloads: Vec<WorkloadRow>,
    /// Fig. 9's last group, by design.
    pub mean_throughput: rows::ByDesign<Estimate>,
    /// Table II's last row, by design.
    pub geometric_mean_p99: rows::ByDesign<Estimate>,
    /// How throughput follows the interval between misses.
    pub intervals: Vec<IntervalRow>,
    /// Fig. 10.
    pub loads: Vec<LoadRow>,
    /// Fig. 1.
    pub miss_curves: Vec<figure1::Row>,
    /// What 3% of the data absorb of jobs' accesses, by skew.
    pub skews: Vec<SkewRow>,
    /// What lengthens the tail of jobs that share rows.
    pub tail_causes: Vec<TailCauseRow>,
    /// What each assumption moves.
    pub assumptions: Vec<AssumptionRow>,
    /// How far capacities move figures; of quick runs.
    pub scales: Vec<ScaleRow>,
    /// Garbage collection at both sizes of the device.
    pub collections: Collections,
    /// This machine, where that was asked for.
    pub host: Option<Host>,
    /// Every claim.
    #[serde(flatten)]
    pub findings: Findings,
}

/// Data of each of Fig. 1's programs, at any scale.
const FIGURE1_BYTES: u64 = 1 << 30;

fn reproduce(options: &ReproduceOptions, watch: Watch<'_>) -> Result<Reproduced, ReproduceError> {
    // Times on this machine come first, with nothing beside them.
    let host = options.real.then(|| Host::measure(Path::new("."))).transpose()?;
    let (outcomes, (collections, miss_curves)) = thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let unseen = watch.telling(&|_, _| ());
            let programs = &figure1::PROGRAMS;
            let curves = figure1::figure1(programs, FIGURE1_BYTES, options.seed, unseen)?;
            Ok((Collections::measure(watch)?, curves))
        });
        let outcomes = Outcomes::new(options, watch);
        let beside: Result<_, ReproduceError> = beside.join().expect("it does not panic");
        Ok::<_, ReproduceError>((outcomes?, beside?))
    })?;
    let [mean_throughput, geometric_mean_p99] = verdicts::means(&outcomes);
    let denominator = options.scale_denominator();
    let mut reproduction = AstriFlash {
        scale_denominator: denominator,
        seed: options.seed,
        seeds: experiments::SEEDS,
        parameters: resolve("astriflash", &[])?.scaled(1, denominator),
        workloads: rows::workloads(&outcomes),
        mean_throughput,
        geometric_mean_p99,
        intervals: rows::intervals(&outcomes),
        loads: rows::loads(&outcomes),
        miss_curves,
        skews: rows::skews(&outcomes),
        tail_causes: rows::tail_causes(&outcomes),
        assumptions: rows::assumptions(&outcomes),
        scales: rows::scales(&outcomes, options),
        collections,
        host,
        findings: Findings::default(),
    };
    reproduction.findings = verdicts::all(&reproduction, &outcomes);
    Ok(Box::new(reproduction))
}

fn found(id: &str, part: &str, ours: impl Into<Ours>) -> Finding {
    find(id).expect("it is in the table").finding(part, ours)
}

impl Reproduction for AstriFlash {
    fn findings(&self) -> &Findings {
        &self.findings
    }

    fn json(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(self)
    }

    fn page(&self) -> Page {
        self.figures()
    }
}
