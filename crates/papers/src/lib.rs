//! Every claim of the four papers: theirs beside what the simulator, this machine and formulas give.
//!
//! Each paper is a folder of the same five parts. `claims` states every claim with its source, its
//! tolerance and how it is tested. `experiments` decides what runs, `formulas` computes what needs no
//! run, `verdicts` compares both with the claims, and `figures` draws the paper's figures and tables.

#![forbid(unsafe_code)]

pub mod astriflash;
pub mod claims;
mod cxl_flash;
mod flatflash;
mod hams;

use std::fmt;
use std::path::{Path, PathBuf};

use ebbtide_core::{Stopped, UnknownName, Watch, find_by_name};
use ebbtide_report::{Page, Report, ReportError};
use ebbtide_sim::ReplayError;
use ebbtide_study::claims::Findings;
use ebbtide_study::runs::RunError;
use serde::Serialize;
use serde_json::{Map, Value, json};
use thiserror::Error;

/// A paper with claims to reproduce.
pub struct Paper {
    /// The name users type.
    pub name: &'static str,
    /// Which paper it is, in one line.
    pub about: &'static str,
    /// How long it takes at the paper's capacities on two cores, in words.
    pub full_run: &'static str,
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

/// What was reproduced of a paper. `Display` is its figures and tables in plain text.
pub struct Reproduced {
    /// Every claim.
    findings: Findings,
    /// Everything that was found, the claims included.
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
}

impl fmt::Display for Reproduced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The results of one paper, or of several.
pub struct Results(pub Vec<(&'static Paper, Reproduced)>);

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(|(_, result)| result.to_string()).collect();
        f.write_str(&texts.join("\n"))
    }
}

impl Report for Results {
    /// One paper's own result; of several, the claims of all, and each result under its paper's
    /// name.
    fn json(&self) -> serde_json::Result<String> {
        if let [(_, result)] = &self.0[..] {
            return serde_json::to_string_pretty(&result.json);
        }
        let claims: Vec<_> =
            self.0.iter().flat_map(|(_, result)| &result.findings.claims).collect();
        let papers = self.0.iter();
        let papers: Map<_, _> =
            papers.map(|(paper, result)| (paper.name.to_string(), result.json.clone())).collect();
        serde_json::to_string_pretty(&json!({ "claims": claims, "papers": papers }))
    }

    /// Writes one paper's page into `folder`, and of several each into a folder of its name there.
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

/// How much to run.
#[derive(Debug, Clone)]
pub struct ReproduceOptions {
    /// Run with a small part of the paper's capacities instead of all of them.
    pub quick: bool,
    /// Seed of layouts, job streams and arrivals.
    pub seed: u64,
    /// Also measure on this machine what papers say of real hosts.
    pub real: bool,
    /// Host threads. The result does not depend on their number.
    pub threads: usize,
}

impl ReproduceOptions {
    /// Capacities are divided by this.
    pub fn scale_denominator(&self) -> u64 {
        if self.quick { 64 } else { 1 }
    }
}

/// Why a paper has no result.
#[derive(Debug, Error)]
pub enum ReproduceError {
    /// A run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A replay failed.
    #[error("{trace}, {setup}: {error}")]
    Replay {
        /// Of which program's trace.
        trace: &'static str,
        /// For which figure, on which device.
        setup: String,
        /// Why.
        error: Box<ReplayError>,
    },
    /// A design's parameters do not resolve.
    #[error(transparent)]
    Config(#[from] ebbtide_sim::config::ConfigError),
    /// A miss curve cannot be drawn.
    #[error(transparent)]
    Bytes(#[from] ebbtide_study::size::SizeError),
    /// A flash device cannot be as described.
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
