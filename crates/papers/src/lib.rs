//! Every claim of the four papers, with the results of the simulator, this machine and formulas.
//!
//! Each paper is a folder with the same five parts. `claims` has a record of every claim: its
//! source, its tolerance, the runs that it needs and its judge. `experiments` does the runs,
//! `verdicts` judge claims by them, `formulas` judge by arithmetic, and `figures` draws the paper's
//! figures and tables.

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
    /// The paper's name on the command line.
    pub name: &'static str,
    /// Its claims.
    pub claims: Claims,
    /// The paper's title, in one line.
    pub about: &'static str,
    /// The time at the paper's capacities on two cores, in words.
    pub full_run: &'static str,
    /// The number of its runs.
    runs: fn(&ReproduceOptions) -> Result<usize, ReproduceError>,
    /// Runs its experiments.
    pub reproduce: fn(&ReproduceOptions, Watch<'_>) -> Result<Reproduced, ReproduceError>,
}

/// Every paper.
pub const ALL: [&Paper; 4] =
    [&astriflash::PAPER, &flatflash::PAPER, &hams::PAPER, &cxl_flash::PAPER];

/// The paper called `name`.
///
/// # Errors
/// [`UnknownName`] when there is none.
pub fn find(name: &str) -> Result<&'static Paper, UnknownName> {
    let known: Vec<(&str, &Paper)> = ALL.iter().map(|paper| (paper.name, *paper)).collect();
    find_by_name("paper", name, &known)
}

/// The papers that `name` stands for: one, or with `all` all of them.
///
/// # Errors
/// [`UnknownName`] when there is no such paper.
pub fn named(name: &str) -> Result<Vec<&'static Paper>, UnknownName> {
    if name == "all" { Ok(ALL.to_vec()) } else { Ok(vec![find(name)?]) }
}

/// Reproduces `papers`, one after the other.
///
/// # Errors
/// The error of the first paper that fails.
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

/// The results of one paper, or of several.
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
    /// All of them, with the paper's figures and tables.
    #[default]
    All,
    /// The claims with these ids. Only the runs that they need are done.
    Claims(Vec<&'static str>),
}

impl Selection {
    /// The claims called `ids`, such as `AS3`. Case does not matter.
    ///
    /// # Errors
    /// [`UnknownName`] for the first id that no paper has.
    pub fn of(ids: &[String]) -> Result<Selection, UnknownName> {
        let known: Vec<(&str, &'static str)> =
            claims::all().map(|claim| (claim.id, claim.id)).collect();
        let found = ids.iter().map(|id| find_by_name("claim", &id.to_uppercase(), &known));
        found.collect::<Result<Vec<_>, _>>().map(Selection::Claims)
    }

    /// Whether the claim `id` is selected.
    pub fn takes(&self, id: &str) -> bool {
        match self {
            Selection::All => true,
            Selection::Claims(ids) => ids.contains(&id),
        }
    }
}

/// The extent of a reproduction.
#[derive(Debug, Clone)]
pub struct ReproduceOptions {
    /// The claims to test.
    pub selection: Selection,
    /// Whether to run with a small part of the paper's capacities.
    pub quick: bool,
    /// Seed of layouts, job streams and arrivals.
    pub seed: u64,
    /// Whether to measure the papers' statements about real hosts on this machine.
    pub real: bool,
    /// Host threads. The result does not depend on their number.
    pub threads: usize,
    /// A folder with the CXL-flash study's own traces of real programs.
    pub traces: Option<PathBuf>,
}

impl ReproduceOptions {
    /// The divisor of the capacities.
    pub fn scale_denominator(&self) -> u64 {
        if self.quick { 64 } else { 1 }
    }
}

/// The reason why a paper has no result.
#[derive(Debug, Error)]
pub enum ReproduceError {
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A replay failed.
    #[error("{trace}, {setup}: {error}")]
    Replay {
        /// The program of the trace.
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
    /// A miss curve cannot be drawn.
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
