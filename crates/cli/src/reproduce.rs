//! `ebbtide reproduce`.

use std::path::PathBuf;

use clap::Args;
use ebbtide_papers::{self as papers, Options, Paper, Reproduced};
use ebbtide_report::check_folder;
use ebbtide_study::side_by_side::host_threads;
use serde_json::{Map, Value, json};

use crate::exit::{Failure, print, say};
use crate::{progress, sizes, stop};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Whose claims: astriflash, flatflash, hams, cxl-flash, or all; without it all, quickly
    paper: Option<String>,
    /// A small part of the capacities: minutes instead of most of an hour
    #[arg(long)]
    quick: bool,
    /// Also measure on this machine what papers say of real hosts: seconds, and a file of 64 MiB in
    /// this folder while it lasts
    #[arg(long)]
    real: bool,
    /// Seed of layouts, job streams and arrivals
    #[arg(long, value_parser = sizes::count::<u64>, default_value = "1")]
    seed: u64,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Also write a page of charts (report.html) and CSV files into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// What stands for all papers on the command line.
const EVERY_PAPER: &str = "all";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let papers = named(arguments.paper.as_deref().unwrap_or(EVERY_PAPER))?;
    let quick = arguments.quick || arguments.paper.is_none();
    if let Some(folder) = &arguments.report {
        check_folder(folder).map_err(Failure::input)?;
    }
    let (cancel, bar) = (stop::on_interrupt()?, progress::bar());
    let options =
        Options { quick, real: arguments.real, seed: arguments.seed, threads: host_threads() };
    if !quick {
        for paper in &papers {
            let Paper { about, full_run, .. } = paper;
            say(&format!(
                "{about}: at the paper's capacities this takes {full_run} on two cores; --quick takes minutes"
            ));
        }
    }
    let mut results: Vec<(&Paper, Reproduced)> = Vec::new();
    for (number, paper) in papers.iter().enumerate() {
        let done = number as f64;
        let shown = |share: f64| {
            progress::show(&bar, paper.about, (done + share) / papers.len() as f64);
        };
        results.push((paper, (paper.reproduce)(&options, &cancel, &shown).map_err(Failure::run)?));
    }
    bar.finish_and_clear();
    let text = match (&results[..], arguments.json) {
        ([(_, result)], true) => serde_json::to_string_pretty(&result.json()?)? + "\n",
        (_, true) => serde_json::to_string_pretty(&together(&results)?)? + "\n",
        (_, false) => {
            results.iter().map(|(_, result)| result.to_string()).collect::<Vec<_>>().join("\n")
        }
    };
    print(&text)?;
    for (paper, result) in &results {
        let Some(folder) = &arguments.report else { break };
        let folder = if papers.len() == 1 { folder.clone() } else { folder.join(paper.name) };
        let written = result.page().write(&folder)?;
        say(&format!("the report is in {}", written[0].display()));
    }
    Ok(())
}

/// The papers called `name`: one, or all of them.
fn named(name: &str) -> Result<Vec<&'static Paper>, Failure> {
    if name == EVERY_PAPER {
        return Ok(papers::ALL.to_vec());
    }
    Ok(vec![papers::find(name).map_err(Failure::input)?])
}

/// Several papers' results: the claims of all, and each paper's own result under its name.
fn together(results: &[(&Paper, Reproduced)]) -> serde_json::Result<Value> {
    let claims = results.iter().flat_map(|(_, result)| &result.findings().claims);
    let claims = claims.map(serde_json::to_value).collect::<serde_json::Result<Vec<_>>>()?;
    let papers = results.iter().map(|(paper, result)| Ok((paper.name.to_string(), result.json()?)));
    let papers = papers.collect::<serde_json::Result<Map<_, _>>>()?;
    Ok(json!({ "claims": claims, "papers": papers }))
}
