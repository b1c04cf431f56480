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
#[cfg(test)]
mod host_times;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// The name users type.
    pub name: &'static str,
    /// Its claims.
    pub claims: Claims,
    /// Which paper it is, in one line.
    pub about: &'static str,
    /// How long it takes at the paper's capacities on two cores, in words.
    pub full_run: &'static str,
    /// The host time of its experiments on one core, about.
    host_time: fn(&ReproduceOptions) -> Result<Duration, ReproduceError>,
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

/// The host time of `papers` with `options`, about.
///
/// # Errors
/// When an experiment's machine cannot be described.
pub fn host_time(
    papers: &[&'static Paper],
    options: &ReproduceOptions,
) -> Result<Duration, ReproduceError> {
    Ok(host_times(papers, options)?.iter().sum::<Duration>() / options.threads as u32)
}

/// The host time of each of `papers` on one core, about.
fn host_times(
    papers: &[&'static Paper],
    options: &ReproduceOptions,
) -> Result<Vec<Duration>, ReproduceError> {
    papers.iter().map(|paper| Ok((paper.host_time)(options)? + FORMULAS_TIME)).collect()
}

/// Host time of what needs no run, about.
const FORMULAS_TIME: Duration = Duration::from_millis(100);

/// Reproduces `papers`, one after the other.
///
/// # Errors
/// The error of the first paper that has one.
pub fn reproduce(
    papers: &[&'static Paper],
    options: &ReproduceOptions,
    watch: Watch<'_>,
) -> Result<Results, ReproduceError> {
    let (mut results, mut done) = (Vec::new(), Duration::ZERO);
    let times = host_times(papers, options)?;
    let whole: Duration = times.iter().sum();
    for (paper, time) in papers.iter().zip(times) {
        let from = done.div_duration_f64(whole);
        done += time;
        let to = done.div_duration_f64(whole);
        let result = watch.within(from, to, |watch| {
            let show = |_: &str, share: f64| watch.show(paper.about, share);
            (paper.reproduce)(options, watch.telling(&show))
        });
        results.push((*paper, result?));
    }
    Ok(Results(results))
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

    /// The `findings` alone, of which `selection` takes a part, on the paper called `name`.
    ///
    /// # Errors
    /// When they cannot be written as JSON.
    fn of_part(
        name: &str,
        findings: Findings,
        selection: &Selection,
    ) -> Result<Reproduced, ReproduceError> {
        let findings = findings.only(|id| selection.takes(id));
        let page = Page::new(name).section("Claims").table(findings.table());
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

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.0.iter().map(|(_, result)| result.to_string()).collect();
        f.write_str(&texts.join("\n"))?;
        if self.0.len() == 1 {
            return Ok(());
        }
        let claims = self.0.iter().flat_map(|(_, result)| result.findings.claims.iter().cloned());
        writeln!(f, "\nAll papers: {}", claims.collect::<Findings>().summary())
    }
}

impl Report for Results {
    /// One paper's own result; of several, the claims of all, and each result under its paper's
    /// name.
    fn json(&self) -> serde_json::Result<String> {
        if let [(_, result)] = &self.0[..] {
            return serde_json::to_string_pretty(&result.json);
        }
        let claims: Findings =
            self.0.iter().flat_map(|(_, result)| result.findings.claims.clone()).collect();
        let papers = self.0.iter();
        let papers: Map<_, _> =
            papers.map(|(paper, result)| (paper.name.to_string(), result.json.clone())).collect();
        serde_json::to_string_pretty(&json!({
            "claims": claims.claims,
            "summary": claims.summary(),
            "papers": papers,
        }))
    }

    /// One row a finding.
    fn columns(&self) -> serde_json::Result<Vec<Column>> {
        let mut records = Vec::new();
        for (paper, result) in &self.0 {
            for finding in &result.findings.claims {
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

/// Which claims to test.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Selection {
    /// All of them, with the paper's figures and tables.
    #[default]
    All,
    /// Those with these ids, and only what they need is run.
    Claims(Vec<&'static str>),
}

impl Selection {
    /// The claims called `ids`, such as `AS3`, in any case of letters.
    ///
    /// # Errors
    /// [`UnknownName`] for the first that no paper has.
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

    /// Whether one of `ids` is selected.
    pub(crate) fn takes_any(&self, ids: &[&str]) -> bool {
        ids.iter().any(|id| self.takes(id))
    }
}

/// How much to run.
#[derive(Debug, Clone)]
pub struct ReproduceOptions {
    /// The claims to test.
    pub selection: Selection,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds of `ebbtide reproduce all --quick` on one core, by paper.
    const RECORDED_S: [(&str, f64); 4] =
        [("astriflash", 278.8), ("flatflash", 182.1), ("hams", 78.8), ("cxl-flash", 109.3)];

    #[test]
    fn the_time_left_of_all_papers_is_right_by_half_whatever_paper_runs_first() {
        let options = host_times::recorded_options();
        let parts = RECORDED_S.map(|(name, seconds)| {
            let paper = find(name).expect("it is a paper");
            (host_time(&[paper], &options).expect("it can be planned").as_secs_f64(), seconds)
        });
        host_times::assert_right_by_half(&parts);
        let sum = parts.iter().fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        assert!((0.5..2.0).contains(&(sum.0 / sum.1)), "{sum:?} s");
    }
}
