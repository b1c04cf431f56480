//! FlatFlash (ASPLOS'19) on the simulator: its Figs. 8 to 14, its Tables 1 and 3, and every claim
//! that runs and formulas decide.
//!
//! Programs compute nothing between accesses, because the paper does not state any computing.
//! Commits and file-system metadata have separate models, as in the paper.

pub(crate) mod claims;
mod experiments;
mod figures;
pub(crate) mod formulas;
mod verdicts;

use ebbtide_core::Watch;
use ebbtide_study::claims::Findings;
use serde::Serialize;

use self::experiments::{DatabaseRow, FileRow, ReadingRow, RunRow};
use crate::record::{findings, needed};
use crate::{Paper, ReproduceError, ReproduceOptions, Reproduced, Selection};

/// The result.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FlatFlash {
    /// The divisor of the capacities.
    scale_denominator: u64,
    /// The divisor of the capacities under the graph programs.
    graph_scale_denominator: u64,
    /// Seed of layouts, job streams and transactions.
    seed: u64,
    /// Every run of the simulator.
    runs: Vec<RunRow>,
    /// The programs with each reading of Algorithm 1.
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
    full_run: "more than 5 minutes at 1/32 of the paper's capacities, graphs at 1/64,",
    runs: |options| Ok(experiments::count(&needed(&claims::RECORDS, &options.selection))),
    reproduce,
};

fn reproduce(options: &ReproduceOptions, watch: Watch<'_>) -> Result<Reproduced, ReproduceError> {
    let sets = needed(&claims::RECORDS, &options.selection);
    let mut flatflash = experiments::run(&sets, options, watch)?;
    flatflash.findings = findings(claims::CLAIMS, &claims::RECORDS, &flatflash, &options.selection);
    if let selection @ Selection::Claims(_) = &options.selection {
        return Reproduced::of_part(PAPER.about, flatflash.findings, selection);
    }
    Reproduced::new(&flatflash, &flatflash.findings, flatflash.figures())
}

#[cfg(test)]
mod tests {
    use super::claims::{CLAIMS, RECORDS};
    use super::*;

    #[test]
    #[ignore = "slow"]
    fn a_claim_alone_finds_the_runs_that_it_needs() {
        let made_up = |selection: &Selection| FlatFlash::made_up(&needed(&RECORDS, selection));
        let everything = made_up(&Selection::All).runs.len();
        for claim in CLAIMS.iter() {
            let selection = Selection::Claims(vec![claim.id]);
            let made_up = made_up(&selection);
            let found = findings(CLAIMS, &RECORDS, &made_up, &selection);
            let ids: Vec<&str> = found.claims.iter().map(|finding| finding.id).collect();
            assert_eq!(ids, vec![claim.id; claim.parts().len()]);
            assert!(made_up.runs.len() < everything || ["FL12", "FL29"].contains(&claim.id));
        }
    }
}
