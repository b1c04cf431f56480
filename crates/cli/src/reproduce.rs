//! `ebbtide reproduce`.

use std::path::PathBuf;

use clap::Args;
use ebbtide_papers::{self as papers, Paper, ReproduceOptions, Selection};
use ebbtide_study::side_by_side::host_threads;

use crate::exit::{Failure, print, say};
use crate::output::Output;
use crate::{names, numbers, progress};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Paper: astriflash, flatflash, hams, cxl-flash, or all [default: all, with --quick]
    #[arg(value_parser = names::of::<String>(paper_names()), hide_possible_values = true)]
    paper: Option<String>,
    /// Simulate a smaller part of the capacities (AstriFlash and FlatFlash: 1/64 instead of 1/32),
    /// with a fixed number of jobs. A full run adds jobs until tails have converged
    #[arg(long)]
    quick: bool,
    /// Also measure the papers' statements on real hosts on this machine. This takes seconds and,
    /// temporarily, a file of 64 MiB in the current folder
    #[arg(long)]
    real: bool,
    /// Seed of layouts, job streams and arrivals
    #[arg(long, value_parser = numbers::count::<u64>, default_value = "1")]
    seed: u64,
    /// Print every claim of the paper, or of all, and its test; run nothing
    #[arg(long, conflicts_with_all = ["claim", "real", "json", "report", "figures"])]
    list: bool,
    /// Test only these claims, such as AS3, with only the runs that they need. Implies --quick
    /// unless a paper is named
    #[arg(long, value_name = "ID", num_args = 1..)]
    claim: Vec<String>,
    /// Folder with the CXL-flash study's own traces (Zenodo, record 7916219), compressed or not:
    /// bert_p.trace, page_rank_p.trace and so on, _v for virtual addresses. They decide what
    /// stand-ins cannot
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// The names of papers.
fn paper_names() -> impl Iterator<Item = &'static str> {
    papers::ALL.iter().map(|paper| paper.name).chain(["all"])
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let name = arguments.paper.as_deref().unwrap_or("all");
    let mut papers = papers::named(name).map_err(Failure::input)?;
    if arguments.list {
        return list(&papers);
    }
    let selection = match &arguments.claim[..] {
        [] => Selection::All,
        ids => Selection::of(ids).map_err(Failure::input)?,
    };
    if let Selection::Claims(ids) = &selection {
        let has = |paper: &Paper, id: &str| paper.claims.iter().any(|claim| claim.id == id);
        if let Some(id) = ids.iter().find(|id| !papers.iter().any(|paper| has(paper, id))) {
            return Err(Failure::input(format!("{id} is not a claim of {name}")));
        }
        papers.retain(|paper| ids.iter().any(|id| has(paper, id)));
    }
    if arguments.traces.is_some() && !papers.iter().any(|paper| paper.name == "cxl-flash") {
        return Err(Failure::input("--traces is for the claims of cxl-flash"));
    }
    let quick = arguments.quick || arguments.paper.is_none();
    arguments.output.check()?;
    let options = ReproduceOptions {
        selection,
        quick,
        real: arguments.real,
        seed: arguments.seed,
        threads: host_threads(),
        traces: arguments.traces.clone(),
    };
    if !quick {
        for paper in &papers {
            let Paper { about, full_run, .. } = paper;
            say(&format!(
                "{about}: a full run takes {full_run} on two cores; --quick takes minutes"
            ));
        }
    }
    let results = progress::watched(|watch| papers::reproduce(&papers, &options, watch))?;
    arguments.output.finish(&results?)
}

/// Prints the claims of `papers`, one a line.
fn list(papers: &[&Paper]) -> Result<(), Failure> {
    let mut text = String::new();
    for paper in papers {
        text += &format!("{}: {}\n{}\n", paper.name, paper.about, paper.claims);
    }
    print(text.trim_end_matches('\n'))
}
