//! Reproduction of four papers: every claim, with the result of the simulator, this machine or a
//! formula. [`reproduce`] takes [`Paper`]s and returns [`Results`].
//!
//! Each paper is a module with the same five parts:
//!
//! * `claims`: a record of every claim with its source, tolerance, runs and judge.
//! * `experiments`: the runs.
//! * `verdicts`: the judges of claims by runs.
//! * `formulas`: the judges of claims by arithmetic.
//! * `figures`: the paper's figures and tables.

#![forbid(unsafe_code)]

pub mod astriflash;
pub mod claims;
mod cxl_flash;
mod flatflash;
mod hams;
mod record;

pub use cxl_flash::TracesError;

use std::fmt;
use std::path::{Path, PathBuf};

use ebbtide_core::{Stopped, UnknownName, Watch, find_by_name};
use ebbtide_report::{Column, Columns, Page, Report, ReportError};
use ebbtide_sim::ReplayError;
use ebbtide_study::claims::{Claims, Findings};
use ebbtide_study::runs::RunError;
use serde::Serialize;
use serde_json::{Map, Value, json};
use thiserror::Error;

/// A paper with claims to reproduce.
pub struct Paper {
    /// The paper's name on the command line, such as `astriflash`.
    pub name: &'static str,
    /// The paper's claims.
    pub claims: Claims,
    /// The paper's title, in one line.
    pub about: &'static str,
    /// The time of a full run (without `quick`) on two cores, and its capacities, in words.
    pub full_run: &'static str,
    /// Returns the number of its runs.
    runs: fn(&ReproduceOptions) -> Result<usize, ReproduceError>,
    /// Runs the experiments of the selected claims and judges these claims.
    pub reproduce: fn(&ReproduceOptions, Watch<'_>) -> Result<Reproduced, ReproduceError>,
}

/// Every paper.
pub const ALL: [&Paper; 4] =
    [&astriflash::PAPER, &flatflash::PAPER, &hams::PAPER, &cxl_flash::PAPER];

/// Returns the paper called `name`.
///
/// # Errors
/// [`UnknownName`] when there is none.
pub fn find(name: &str) -> Result<&'static Paper, UnknownName> {
    let known: Vec<(&str, &Paper)> = ALL.iter().map(|paper| (paper.name, *paper)).collect();
    find_by_name("paper", name, &known)
}

/// Returns the paper called `name`, or every paper if `name` is `all`.
///
/// # Errors
/// [`UnknownName`] when there is no such paper.
pub fn named(name: &str) -> Result<Vec<&'static Paper>, UnknownName> {
    if name == "all" { Ok(ALL.to_vec()) } else { Ok(vec![find(name)?]) }
}

/// Reproduces `papers`, one after the other. The results have the order of `papers`.
///
/// # Errors
/// The error of the first paper that fails. The results of earlier papers are then lost.
pub fn reproduce(
    papers: &[&'static Paper],
    options: &ReproduceOptions,
    watch: Watch<'_>,
) -> Result<Results, ReproduceError> {
    let (mut results, mut done) = (Vec::new(), 0);
    let runs = papers.iter().map(|paper| (paper.runs)(options)).collect::<Result<Vec<_>, _>>()?;
    let share = |done: usize| done as f64 / runs.iter().sum::<usize>().max(1) as f64;
    for (paper, runs) in papers.iter().zip(&runs) {
        let from = share(done);
        done += runs;
        let to = share(done);
        let result = watch.within(from, to, |watch| {
            let show = |_: &str, share: f64| watch.show(paper.about, share);
            (paper.reproduce)(options, watch.telling(&show))
        });
        results.push((*paper, result?));
    }
    Ok(Results(results))
}

/// The result of one paper. `Display` prints its figures and tables in plain text.
pub struct Reproduced {
    /// Every claim.
    findings: Findings,
    /// All results, with the claims.
    json: Value,
    text: String,
    page: Page,
}

impl Reproduced {
    /// `result` with its `findings` and its figures, in plain text and as a page.
    ///
    /// # Errors
    /// When `result` cannot be written as JSON.
    fn new(
        result: &impl Serialize,
        findings: &Findings,
        (text, page): (String, Page),
    ) -> Result<Reproduced, ReproduceError> {
        let json = serde_json::to_value(result)?;
        Ok(Reproduced { findings: findings.clone(), json, text, page })
    }

    /// The part of `findings` that `selection` takes, for the paper called `name`.
    ///
    /// # Errors
    /// When they cannot be written as JSON.
    fn of_part(
        name: &str,
        findings: Findings,
        selection: &Selection,
    ) -> Result<Reproduced, ReproduceError> {
        let findings = findings.only(|id| selection.takes(id));
        let page = findings.on_page(Page::new(name), "");
        let (json, text) = (serde_json::to_value(&findings)?, findings.to_string());
        Ok(Reproduced { findings, json, text, page })
    }
}

impl fmt::Display for Reproduced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The results of one paper or several, in the order of their runs.
pub struct Results(pub Vec<(&'static Paper, Reproduced)>);

impl Results {
    /// The findings of all papers.
    fn findings(&self) -> Findings {
        Findings::joined(self.0.iter().map(|(_, result)| &result.findings))
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(|(_, result)| result.to_string()).collect();
        f.write_str(&texts.join("\n"))?;
        if self.0.len() == 1 {
            return Ok(());
        }
        writeln!(f, "\nAll papers: {}", self.findings().summary())
    }
}

impl Report for Results {
    /// One paper's own result. For several papers, the claims of all, and each result under its
    /// paper's name.
    fn json(&self) -> serde_json::Result<String> {
        if let [(_, result)] = &self.0[..] {
            return serde_json::to_string_pretty(&result.json);
        }
        let findings = self.findings();
        let papers = self.0.iter();
        let papers: Map<_, _> =
            papers.map(|(paper, result)| (paper.name.to_string(), result.json.clone())).collect();
        serde_json::to_string_pretty(&json!({
            "claims": findings.claims,
            "asides": findings.asides,
            "summary": findings.summary(),
            "papers": papers,
        }))
    }

    /// One row for each finding.
    fn columns(&self) -> serde_json::Result<Vec<Column>> {
        let mut records = Vec::new();
        for (paper, result) in &self.0 {
            let Findings { claims, asides } = &result.findings;
            for finding in claims.iter().chain(asides) {
                let mut record = json!({ "paper": paper.name });
                if let (Value::Object(record), Value::Object(finding)) =
                    (&mut record, serde_json::to_value(finding)?)
                {
                    record.extend(finding);
                }
                records.push(record);
            }
        }
        Ok(Columns::of_records(&records))
    }

    fn pages(&self) -> Vec<Page> {
        self.0.iter().map(|(_, result)| result.page.clone()).collect()
    }

    /// Writes one paper's page into `folder`. Several papers' pages each go into a subfolder with
    /// the paper's name.
    fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        let one = self.0.len() == 1;
        let mut written = Vec::new();
        for (paper, result) in &self.0 {
            let own = if one { folder.to_path_buf() } else { folder.join(paper.name) };
            written.extend(result.page.write(&own)?);
        }
        Ok(written)
    }
}

/// The claims to test.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Selection {
    /// All claims, with the paper's figures and tables.
    #[default]
    All,
    /// The claims with these ids. Only the runs that they need are done.
    Claims(Vec<&'static str>),
}

impl Selection {
    /// Returns the selection of the claims called `ids`, such as `AS3`. Case does not matter.
    ///
    /// # Errors
    /// [`UnknownName`] for the first id that no paper has.
    pub fn of(ids: &[String]) -> Result<Selection, UnknownName> {
        let known: Vec<(&str, &'static str)> =
            claims::all().map(|claim| (claim.id, claim.id)).collect();
        let found = ids.iter().map(|id| find_by_name("claim", &id.to_uppercase(), &known));
        found.collect::<Result<Vec<_>, _>>().map(Selection::Claims)
    }

    /// Returns true if the claim `id` is selected. Here case matters.
    pub fn takes(&self, id: &str) -> bool {
        match self {
            Selection::All => true,
            Selection::Claims(ids) => ids.contains(&id),
        }
    }
}

/// The options of a reproduction.
#[derive(Debug, Clone)]
pub struct ReproduceOptions {
    /// The claims to test.
    pub selection: Selection,
    /// True to run at a smaller part of the paper's capacities, and with a fixed number of jobs. In
    /// a full run jobs are added until tails have converged.
    pub quick: bool,
    /// First seed of layouts, job streams and arrivals.
    pub seed: u64,
    /// True to measure the papers' statements about real hosts on this machine.
    pub real: bool,
    /// Number of host threads, which does not change the result.
    pub threads: usize,
    /// A folder with the CXL-flash study's own traces of real programs. Without it, stand-ins run.
    pub traces: Option<PathBuf>,
}

impl ReproduceOptions {
    /// Returns the divisor of AstriFlash's and FlatFlash's capacities: 64 in a quick run, otherwise
    /// 32. To fill DRAM takes most of the time of a run at larger capacities. The other two papers
    /// have divisors of their own.
    pub fn scale_denominator(&self) -> u64 {
        if self.quick { 64 } else { 32 }
    }
}

/// The error of a paper without a result.
#[derive(Debug, Error)]
pub enum ReproduceError {
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A replay failed.
    #[error("{trace}, {setup}: {error}")]
    Replay {
        /// The name of the traced program.
        trace: &'static str,
        /// The figure and the device.
        setup: String,
        /// The reason.
        error: Box<ReplayError>,
    },
    /// The study's own traces cannot be used.
    #[error(transparent)]
    Traces(#[from] TracesError),
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] ebbtide_trace::TraceError),
    /// A design's parameters do not resolve.
    #[error(transparent)]
    Config(#[from] ebbtide_sim::config::ConfigError),
    /// A miss-ratio curve cannot be measured.
    #[error(transparent)]
    Bytes(#[from] ebbtide_study::size::SizeError),
    /// A flash device is impossible.
    #[error(transparent)]
    Flash(#[from] ebbtide_flash::ConfigError),
    /// This machine cannot be measured.
    #[error(transparent)]
    Host(#[from] ebbtide_measure::doctor::probe::ProbeError),
    /// A result cannot be written as JSON.
    #[error("the result cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The user stopped the run.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}
