//! `ebbtide reproduce`.

use clap::Args;
use ebbtide_papers::{self as papers, Paper, ReproduceError, ReproduceOptions, Results};
use ebbtide_study::side_by_side::host_threads;

use crate::exit::{Failure, say};
use crate::output::Output;
use crate::{numbers, progress};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Paper: astriflash, flatflash, hams, cxl-flash, or all [default: all, with --quick]
    paper: Option<String>,
    /// Simulate a small part of the capacities: minutes instead of most of an hour
    #[arg(long)]
    quick: bool,
    /// Also measure on this machine what the papers state about real hosts. This takes seconds and,
    /// temporarily, a file of 64 MiB in the current folder
    #[arg(long)]
    real: bool,
    /// Seed of layouts, job streams and arrivals
    #[arg(long, value_parser = numbers::count::<u64>, default_value = "1")]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

/// The name of all papers on the command line.
const EVERY_PAPER: &str = "all";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let papers = named(arguments.paper.as_deref().unwrap_or(EVERY_PAPER))?;
    let quick = arguments.quick || arguments.paper.is_none();
    arguments.output.check()?;
    let options = ReproduceOptions {
        quick,
        real: arguments.real,
        seed: arguments.seed,
        threads: host_threads(),
    };
    if !quick {
        for paper in &papers {
            let Paper { about, full_run, .. } = paper;
            say(&format!(
                "{about}: at the paper's capacities this takes {full_run} on two cores; --quick takes minutes"
            ));
        }
    }
    let results = progress::watched(|watch| {
        let mut results = Vec::new();
        for (number, paper) in papers.iter().enumerate() {
            let show = |_: &str, share: f64| {
                watch.show(paper.about, (number as f64 + share) / papers.len() as f64);
            };
            results.push((*paper, (paper.reproduce)(&options, watch.telling(&show))?));
        }
        Ok::<_, ReproduceError>(Results(results))
    })?;
    arguments.output.finish(&results?)
}

/// The papers called `name`: one, or all of them.
fn named(name: &str) -> Result<Vec<&'static Paper>, Failure> {
    if name == EVERY_PAPER {
        return Ok(papers::ALL.to_vec());
    }
    Ok(vec![papers::find(name).map_err(Failure::input)?])
}
