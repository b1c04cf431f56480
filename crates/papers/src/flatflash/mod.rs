//! FlatFlash (ASPLOS'19) on the simulator: its Figs. 8 to 14, its Tables 1 and 3, and every claim that
//! runs and formulas decide.
//!
//! Programs compute nothing between accesses, because the paper does not say how much they do.
//! Commits and file-system metadata have models of their own beside the simulator, as in the paper.

pub(crate) mod claims;
mod experiments;
mod figures;
pub(crate) mod formulas;
mod verdicts;

use ebbtide_core::Watch;
use ebbtide_study::claims::Findings;
use serde::Serialize;

use self::experiments::{DatabaseRow, FileRow, ReadingRow, RunRow};
use crate::{Paper, ReproduceError, ReproduceOptions, Reproduced, Selection};

/// The result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FlatFlash {
    /// Capacities were divided by this.
    scale_denominator: u64,
    /// Seed of layouts, job streams and transactions.
    seed: u64,
    /// Every run of the simulator.
    runs: Vec<RunRow>,
    /// The programs under each reading of Algorithm 1.
    readings: Vec<ReadingRow>,
    /// Fig. 14.
    databases: Vec<DatabaseRow>,
    /// Fig. 13.
    files: Vec<FileRow>,
    /// Every claim.
    #[serde(flatten)]
    findings: Findings,
}

pub(super) const PAPER: Paper = Paper {
    name: "flatflash",
    claims: claims::CLAIMS,
    about: "FlatFlash, ASPLOS 2019",
    full_run: "about an hour",
    host_time: experiments::host_time,
    reproduce,
};

fn reproduce(options: &ReproduceOptions, watch: Watch<'_>) -> Result<Reproduced, ReproduceError> {
    let mut flatflash = experiments::run(options, watch)?;
    flatflash.findings = verdicts::findings(&flatflash, &options.selection)?;
    if let selection @ Selection::Claims(_) = &options.selection {
        return Reproduced::of_part(PAPER.about, flatflash.findings, selection);
    }
    Reproduced::new(&flatflash, &flatflash.findings, flatflash.figures())
}
