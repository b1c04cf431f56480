//! HAMS (ISCA'21) on the simulator: its Figs. 3a and 4, its gains over memory-mapped files, and
//! every claim that runs and formulas decide.

pub(crate) mod claims;
mod experiments;
mod figures;
pub(crate) mod formulas;
mod verdicts;

use ebbtide_core::Watch;
use ebbtide_study::claims::Findings;
use serde::Serialize;

use self::experiments::{Curve, EnergyRow, ShareRow, VariationRow, WorkloadRow};
use crate::record::{findings, needed};
use crate::{Paper, ReproduceError, ReproduceOptions, Reproduced, Selection};

/// The result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Hams {
    /// The divisor of the capacities.
    scale_denominator: u64,
    /// Seed of layouts and job streams.
    seed: u64,
    /// Throughput divided by mmap's.
    workloads: Vec<WorkloadRow>,
    /// Fig. 3a.
    shares: Vec<ShareRow>,
    /// The energy of a job, by the shipped table.
    energies: Vec<EnergyRow>,
    /// Fig. 4.
    curves: Vec<Curve>,
    /// Runs with other choices of the values that the sources leave open.
    variations: Vec<VariationRow>,
    /// Every claim.
    #[serde(flatten)]
    findings: Findings,
}

pub(super) const PAPER: Paper = Paper {
    name: "hams",
    claims: claims::CLAIMS,
    about: "HAMS, ISCA 2021",
    full_run: "more than 6 minutes at 1/8 of the paper's capacities",
    runs: |options| experiments::count(&needed(&claims::RECORDS, &options.selection), options),
    reproduce,
};

fn reproduce(options: &ReproduceOptions, watch: Watch<'_>) -> Result<Reproduced, ReproduceError> {
    let sets = needed(&claims::RECORDS, &options.selection);
    let mut hams = experiments::run(&sets, options, watch)?;
    hams.findings = findings(claims::CLAIMS, &claims::RECORDS, &hams, &options.selection);
    if let selection @ Selection::Claims(_) = &options.selection {
        return Reproduced::of_part(PAPER.about, hams.findings, selection);
    }
    Reproduced::new(&hams, &hams.findings, hams.figures())
}
