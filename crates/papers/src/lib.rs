//! The papers' experiments on the simulator, and what becomes of each claim.

#![forbid(unsafe_code)]

pub mod astriflash;
pub mod claims;
pub mod cxl_flash;
pub mod flatflash;
pub mod formulas;
pub mod hams;
mod runs;

use std::fmt;
use std::path::{Path, PathBuf};

use ebbtide_core::{Stopped, UnknownName, Watch, find_by_name};
use ebbtide_sim::{ReplayError, SimError};
use serde_json::{Map, json};
use thiserror::Error;

use crate::claims::{Claim, Finding, Findings};
use ebbtide_report::{Page, Report, ReportError, Table};

/// A paper whose claims are tried.
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

/// What became of a paper's claims. `Display` is its figures and tables in plain text.
pub type Reproduced = Box<dyn Reproduction>;

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

/// What was run for a paper and what it says. `Display` is its figures and tables in plain text.
pub trait Reproduction: fmt::Display {
    /// Every claim.
    fn findings(&self) -> &Findings;

    /// Everything there is, `claims` among it, for machines.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    fn json(&self) -> serde_json::Result<serde_json::Value>;

    /// Its figures and tables as a page.
    fn page(&self) -> Page;
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
            return serde_json::to_string_pretty(&result.json()?);
        }
        let claims = self.0.iter().flat_map(|(_, result)| &result.findings().claims);
        let claims = claims.map(serde_json::to_value).collect::<serde_json::Result<Vec<_>>>()?;
        let papers = self.0.iter();
        let papers = papers.map(|(paper, result)| Ok((paper.name.to_string(), result.json()?)));
        let papers = papers.collect::<serde_json::Result<Map<_, _>>>()?;
        serde_json::to_string_pretty(&json!({ "claims": claims, "papers": papers }))
    }

    /// Writes one paper's page into `folder`, and of several each into a folder of its name there.
    fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        let one = self.0.len() == 1;
        let mut written = Vec::new();
        for (paper, result) in &self.0 {
            let own = if one { folder.to_path_buf() } else { folder.join(paper.name) };
            written.extend(result.page().write(&own)?);
        }
        Ok(written)
    }
}

/// Every claim of a paper in its order: what was `decided` of it, or what was known beforehand.
fn of_every_claim(claims: &[Claim], decided: impl Iterator<Item = Finding>) -> Findings {
    let decided: Vec<Finding> = decided.collect();
    let mut all = Vec::new();
    for claim in claims {
        let before = all.len();
        let parts = decided.iter().filter(|finding| finding.id == claim.id).cloned();
        // What is to be known of a claim is said with its first part.
        let once = |(number, part): (usize, Finding)| match number {
            0 => part,
            _ => part.without(claim.note),
        };
        all.extend(parts.enumerate().map(once));
        if all.len() == before {
            all.extend(claim.findings_beforehand());
        }
    }
    all.into_iter().collect()
}

/// Findings as a table of a page.
fn claims_table(findings: &Findings) -> Table {
    let header = ["id", "source", "quantity", "theirs", "ours", "tolerance", "verdict", "note"];
    findings.claims.iter().fold(Table::new("Claims", header), |table, finding| {
        table.row([
            finding.id,
            finding.source,
            &finding.quantity,
            finding.theirs,
            finding.ours.as_deref().unwrap_or("–"),
            &finding.tolerance,
            &finding.verdict_text(),
            &finding.note,
        ])
    })
}

/// How much to run.
#[derive(Debug, Clone)]
pub struct ReproduceOptions {
    /// A small part of the paper's capacities, as each paper says, instead of all of them.
    pub quick: bool,
    /// Of layouts, job streams and arrivals.
    pub seed: u64,
    /// Measure what papers say of real hosts on this one, too.
    pub real: bool,
    /// Host threads; the result does not depend on them.
    pub threads: usize,
}

impl ReproduceOptions {
    /// Capacities are divided by this.
    pub fn scale_denominator(&self) -> u64 {
        if self.quick { 64 } else { 1 }
    }
}

/// Why there is nothing to report.
#[derive(Debug, Error)]
pub enum ReproduceError {
    /// A run failed.
    #[error("{design} under {workload}: {error}")]
    Run {
        /// On which design.
        design: String,
        /// Under which program.
        workload: &'static str,
        /// Why.
        error: Box<SimError>,
    },
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
    /// The run was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}
