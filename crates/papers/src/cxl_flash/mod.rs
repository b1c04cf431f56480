//! CXL-flash (USENIX ATC'23) on the simulator: its Figs. 5 to 14, its Tables 3 and 5, and every claim
//! that they and the formulas decide.
//!
//! The five synthetic programs make the paper's own references (`programs`). The five real ones are
//! stand-ins made from Table 5 (`stand_ins`): verdicts that rest on them say so. Four small real programs
//! were captured (`captured`), which show whether claims hold in direction.

mod captured;
pub mod claims;
mod experiments;
mod figures;
pub mod formulas;
mod programs;
mod recording;
mod runs;
mod stand_ins;
mod statistics;
mod verdicts;

use std::fmt;

use ebbtide_core::Watch;
use serde::Serialize;

use self::runs::{Row, Scale};
use self::statistics::Statistics;
use super::{Paper, ReproduceError, ReproduceOptions, Reproduced, Reproduction};
use crate::claims::Findings;
use ebbtide_report::Page;

pub(super) const PAPER: Paper = Paper {
    name: "cxl-flash",
    about: "CXL-flash, USENIX ATC 2023",
    full_run: "an hour or two",
    reproduce,
};

/// What was run and what it says.
#[derive(Debug, Clone, Serialize)]
pub struct CxlFlash {
    /// Synthetic programs, their data and their caches were smaller by this.
    pub synthetic_scale_denominator: u64,
    /// Real programs were cut after so many accesses, if they had more.
    pub accesses_max: Option<u64>,
    /// Of stand-ins, memories and hints.
    pub seed: u64,
    /// Every run.
    pub runs: Vec<Row>,
    /// Of the traces.
    pub traces: Vec<Statistics>,
    /// Every claim.
    #[serde(flatten)]
    pub findings: Findings,
}

fn reproduce(options: &ReproduceOptions, watch: Watch<'_>) -> Result<Reproduced, ReproduceError> {
    let scale = Scale::new(options);
    let runs = experiments::all(scale);
    let (rows, recordings) = runs::run_all(&runs, scale, options, watch)?;
    let mut study = CxlFlash {
        synthetic_scale_denominator: scale.synthetic,
        accesses_max: options.quick.then_some(scale.accesses_max),
        seed: options.seed,
        runs: rows,
        traces: statistics::all(&recordings, scale, options.seed),
        findings: Findings::default(),
    };
    study.findings = verdicts::all(&study);
    Ok(Box::new(study))
}

impl CxlFlash {
    /// The run of `program` for `figure` on `setup`.
    fn at(&self, figure: &str, program: &str, setup: &str) -> &Row {
        let wanted =
            |row: &&Row| (row.figure, row.program, row.setup.as_str()) == (figure, program, setup);
        let found = self.runs.iter().find(wanted);
        found.unwrap_or_else(|| panic!("no run of {program} for {figure} on {setup}"))
    }

    /// The trace of `program`, cut as `cut` says.
    fn trace(&self, program: &str, cut: &str) -> Option<&Statistics> {
        self.traces.iter().find(|trace| (trace.program, trace.cut.as_str()) == (program, cut))
    }

    /// The figures and tables that there are runs for, in order.
    fn figures(&self) -> Vec<&'static str> {
        let mut figures: Vec<_> = self.runs.iter().map(|row| row.figure).collect();
        figures.dedup();
        figures
    }
}

impl Reproduction for CxlFlash {
    fn findings(&self) -> &Findings {
        &self.findings
    }

    fn json(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(self)
    }

    fn page(&self) -> Page {
        figures::page::page(self)
    }
}

impl fmt::Display for CxlFlash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "CXL-flash (ATC'23), synthetic programs and their caches 1/{} of the paper's{}",
            self.synthetic_scale_denominator,
            match self.accesses_max {
                Some(most) => format!(", stand-ins for real ones cut after {} M", most / 1_000_000),
                None => String::new(),
            }
        )?;
        for figure in self.figures() {
            writeln!(f, "\n{figure}")?;
            let [sub_us, hit, under, accuracy, coverage] =
                ["<1us%", "hit%", "under%", "acc%", "cov%"];
            writeln!(
                f,
                "{:<15} {:<22} {sub_us:>6} {:>8} {:>8} {hit:>6} {under:>6} {:>8} {accuracy:>5} {coverage:>5}",
                "", "", "mean us", "p99 us", "flash w"
            )?;
            for row in self.runs.iter().filter(|row| row.figure == figure) {
                let share = |count: u64| 100.0 * count as f64 / row.accesses as f64;
                writeln!(
                    f,
                    "{:<15} {:<22} {:>6.1} {:>8.2} {:>8.1} {:>6.1} {:>6.1} {:>8} {:>5.1} {:>5.1}",
                    row.program,
                    row.setup,
                    100.0 * row.sub_us,
                    row.mean_us,
                    row.p99_us,
                    share(row.hits),
                    share(row.hits_under_miss),
                    row.flash_writes,
                    100.0 * row.accuracy,
                    100.0 * row.coverage,
                )?;
            }
        }
        write!(f, "\n{}", self.findings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Verdict;
    use crate::cxl_flash::claims::CLAIMS;

    #[test]
    fn every_claim_that_runs_decide_finds_them_and_has_a_verdict() {
        let scale = Scale { synthetic: 8, accesses_max: 1 };
        let row = |run: &runs::Run| Row {
            figure: run.figure,
            program: run.program(),
            setup: run.setup.clone(),
            accesses: 1,
            ..Row::default()
        };
        let mut study = CxlFlash {
            synthetic_scale_denominator: 8,
            accesses_max: Some(1),
            seed: 1,
            runs: experiments::all(scale).iter().map(row).collect(),
            traces: Vec::new(),
            findings: Findings::default(),
        };
        let names: Vec<_> =
            study.runs.iter().map(|row| (row.figure, row.program, &row.setup)).collect();
        let different: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "two runs have one name");
        study.findings = verdicts::all(&study);
        // Statistics of traces are measured on traces.
        for claim in CLAIMS.iter().filter(|claim| claim.id != "CX28") {
            let found = study.findings.claims.iter().filter(|finding| finding.id == claim.id);
            assert_eq!(found.count(), claim.parts().len(), "{}", claim.id);
        }
        assert!(study.findings.count(Verdict::Within) > 0 && !study.to_string().is_empty());
    }
}
