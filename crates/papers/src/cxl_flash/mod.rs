//! CXL-flash (USENIX ATC'23) on the simulator: its Figs. 5 to 14, its Tables 3 and 5, and every
//! claim that runs and formulas decide.
//!
//! The five synthetic programs make the paper's own references. The study's own traces decide what
//! it claims about five real programs, if the user has them. Otherwise stand-ins made from Table 5
//! take their place, and count nowhere.
//!
//! Traces of nine small real programs, captured for this project, show the direction of claims.
//! Five of these programs are of the same kinds as the study's.

pub(crate) mod claims;
mod experiments;
mod figures;
pub(crate) mod formulas;
#[cfg(test)]
mod tests;
mod verdicts;

use ebbtide_core::Watch;
use ebbtide_study::claims::Findings;
use serde::Serialize;

pub use self::experiments::TracesError;
use self::experiments::{Given, Row, Statistics};
use crate::record::{findings, needed};
use crate::{Paper, ReproduceError, ReproduceOptions, Reproduced, Selection};

pub(super) const PAPER: Paper = Paper {
    name: "cxl-flash",
    claims: claims::CLAIMS,
    about: "CXL-flash, USENIX ATC 2023",
    full_run: "about 20 minutes at the paper's capacities",
    runs: |options| {
        let sets = needed(&claims::RECORDS, &options.selection);
        let given = experiments::given(options)?;
        Ok(experiments::needed(experiments::Scale::new(options), &sets, &given).len())
    },
    reproduce,
};

/// The result.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct CxlFlash {
    /// The divisor of the data and the caches of synthetic programs.
    synthetic_scale_denominator: u64,
    /// Real programs end after this many accesses, if they have more.
    accesses_max: Option<u64>,
    /// Seed of stand-ins, memories and hints.
    seed: u64,
    /// Every run.
    runs: Vec<Row>,
    /// The statistics of the traces.
    traces: Vec<Statistics>,
    /// The study's own traces that the user has.
    #[serde(skip)]
    given: Given,
    /// Every claim.
    #[serde(flatten)]
    findings: Findings,
}

fn reproduce(options: &ReproduceOptions, watch: Watch<'_>) -> Result<Reproduced, ReproduceError> {
    let sets = needed(&claims::RECORDS, &options.selection);
    let mut study = experiments::run(&sets, options, watch)?;
    study.findings = findings(claims::CLAIMS, &claims::RECORDS, &study, &options.selection);
    if let selection @ Selection::Claims(_) = &options.selection {
        return Reproduced::of_part(PAPER.about, study.findings, selection);
    }
    Reproduced::new(&study, &study.findings, study.figures())
}
