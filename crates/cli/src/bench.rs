//! `ebbtide bench`.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use ebbtide_core::UnknownName;
use ebbtide_core::prefetch::PrefetcherKind;
use ebbtide_core::replacement::{Admission, PolicyKind};
use ebbtide_core::schedule::Discipline;
use ebbtide_measure::bench::{self, BenchError, Dram, GRAPH_WORKLOADS, Load, Mode, Options};
use ebbtide_report::check_folder;
use ebbtide_study::predict;
use ebbtide_workloads::{Kind, Replay, Scatter};
use serde_json::json;

use crate::exit::{Failure, print, say};
use crate::{progress, sizes, stop};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Workloads to run; --list says which there are [default: the seven of AstriFlash]
    #[arg(value_name = "WORKLOAD", value_parser = workload)]
    workloads: Vec<Kind>,
    /// Memories to compare: dram, paging, sync, ebbtide; dram always runs [default: all]
    #[arg(long, value_delimiter = ',', value_parser = mode)]
    mode: Vec<Mode>,
    /// Data file, or a block device of its own; made if it does not exist
    #[arg(long, value_name = "FILE|BLOCKDEV", default_value = "ebbtide.data")]
    data: PathBuf,
    /// Size of each workload's data
    #[arg(long, value_parser = sizes::bytes, default_value = "2GiB", value_name = "SIZE")]
    dataset: u64,
    /// Run pagerank and connected-components on the graph in this file: an edge list, or a Matrix
    /// Market coordinate file
    #[arg(long, value_name = "FILE", conflicts_with = "dataset")]
    graph: Option<PathBuf>,
    /// Replay this trace instead, whatever its form (see trace convert); - is standard input. Its
    /// pages are laid side by side and its accesses made over and over, 64 lines a job; of one that
    /// is longer than 16 Mi lines, the first so many
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["workloads", "graph", "dataset", "theta", "scatter"]
    )]
    trace: Option<PathBuf>,
    /// DRAM for everything Ebbtide needs: a share of the dataset, or a size
    #[arg(long, value_parser = sizes::dram, default_value = "3%", value_name = "SHARE|SIZE")]
    dram: Dram,
    /// Cores to run jobs on
    #[arg(long, value_parser = sizes::count::<usize>, default_value = "1", value_name = "COUNT")]
    cores: usize,
    /// Execution time after which plain LRU would miss; the work a job does is calibrated to it
    #[arg(long, value_parser = sizes::micros, default_value = "10us", value_name = "TIME")]
    miss_interval: f64,
    /// How often every memory is measured
    #[arg(long, value_parser = sizes::count::<usize>, default_value = "5", value_name = "COUNT")]
    rounds: usize,
    /// Length of a measurement in seconds
    #[arg(long, value_parser = sizes::number, default_value = "0.4")]
    seconds: f64,
    /// How jobs arrive: closed (always one waiting) or poisson (a sweep of loads)
    #[arg(long, value_parser = arrivals, default_value = "closed")]
    arrivals: Load,
    /// Which job runs next: priority, or fifo (an ablation)
    #[arg(long, value_parser = scheduler, default_value = "priority")]
    scheduler: Discipline,
    /// Which page is evicted: adaptive-lrfu, s3-fifo, clock, fifo or random
    #[arg(long, value_parser = replacement, default_value = "adaptive-lrfu")]
    replacement: PolicyKind,
    /// Which pages the replacement policy is given: always all, or adaptive (those that FlatFlash's
    /// Algorithm 1 promotes; the others stay for a short time)
    #[arg(long, value_parser = admission, default_value = "always")]
    admission: Admission,
    /// What Ebbtide fetches ahead of demand: none, next-n-line, feedback-directed, best-offset or
    /// leap. Whatever is tried, here or by --admission or --hints, is compared with Ebbtide without
    /// it; with --predict in the simulator too
    #[arg(long, value_parser = prefetcher, default_value = "none")]
    prefetch: PrefetcherKind,
    /// Whether Ebbtide fetches what a workload hints at: on, or off
    #[arg(long, value_parser = hints, action = ArgAction::Set, default_value = "on", value_name = "ON|OFF")]
    hints: bool,
    /// Where popular keys lie: together on pages chosen by hash, or each key on its own (keys)
    #[arg(long, value_parser = scatter, default_value = "pages")]
    scatter: Scatter,
    /// Zipf skew of the keys; 0 is uniform
    #[arg(long, value_parser = sizes::number, default_value = "0.99", allow_hyphen_values = true)]
    theta: f64,
    /// User-level threads a core: the most jobs under way at once; without it as many as suit the
    /// DRAM budget, at most 128
    #[arg(long, value_parser = sizes::count::<usize>, value_name = "COUNT")]
    threads: Option<usize>,
    /// The most requests handed to the kernel together
    #[arg(long, value_parser = sizes::count::<usize>, default_value = "32", value_name = "COUNT")]
    batch: usize,
    /// Seed of data and jobs
    #[arg(long, value_parser = sizes::count::<u64>, default_value = "1")]
    seed: u64,
    /// Overwrite whatever the data file or device holds
    #[arg(long)]
    force: bool,
    /// Also say what the simulator expects of every workload and memory, told only what misses cost
    /// on this machine, and how far off it is; that is measured first, with other programs
    #[arg(long)]
    predict: bool,
    /// Predict with what `doctor --write` has measured earlier
    #[arg(long, value_name = "FILE.toml", requires = "predict")]
    machine: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Also write a page of charts (report.html) and CSV files into this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Say what each workload does, and run nothing
    #[arg(long)]
    list: bool,
}

fn workload(name: &str) -> Result<Kind, UnknownName> {
    Kind::from_name(name)
}

fn mode(name: &str) -> Result<Mode, UnknownName> {
    Mode::from_name(name)
}

fn scheduler(name: &str) -> Result<Discipline, UnknownName> {
    Discipline::from_name(name)
}

fn replacement(name: &str) -> Result<PolicyKind, UnknownName> {
    PolicyKind::from_name(name)
}

fn admission(name: &str) -> Result<Admission, UnknownName> {
    Admission::from_name(name)
}

fn prefetcher(name: &str) -> Result<PrefetcherKind, UnknownName> {
    PrefetcherKind::from_name(name)
}

fn hints(name: &str) -> Result<bool, UnknownName> {
    ebbtide_core::find_by_name("use of hints", name, &[("on", true), ("off", false)])
}

fn scatter(name: &str) -> Result<Scatter, UnknownName> {
    Scatter::from_name(name)
}

fn arrivals(name: &str) -> Result<Load, UnknownName> {
    ebbtide_core::find_by_name(
        "arrivals",
        name,
        &[("closed", Load::Closed), ("poisson", Load::Poisson)],
    )
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.list {
        return list(arguments.json);
    }
    if let Some(folder) = &arguments.report {
        check_folder(folder).map_err(Failure::input)?;
    }
    let (cancel, bar) = (stop::on_interrupt()?, progress::bar());
    let options = options(arguments);
    let show = |stage: &str, share: f64| progress::show(&bar, stage, share);
    let measured = bench::run(&options, &cancel, &show);
    let predicted = measured.map(|mut measured| {
        let predicted = predict::predict(&mut measured, &show);
        predicted.map(|()| measured.report)
    });
    bar.finish_and_clear();
    let report = predicted.map_err(|error: BenchError| {
        if error.is_input() { Failure::input(error) } else { Failure::run(error) }
    })??;
    let text = if arguments.json {
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        report.to_string()
    };
    // Printed first: what was measured is not lost if the report cannot be written after all.
    print(&text)?;
    if let Some(folder) = &arguments.report {
        let written = report.write(folder)?;
        say(&format!("the report is in {}", written[0].display()));
    }
    Ok(())
}

fn options(arguments: &Arguments) -> Options {
    let mut options = Options::new(arguments.data.clone());
    if !arguments.workloads.is_empty() {
        options.workloads = arguments.workloads.iter().map(|kind| kind.name()).collect();
    } else if arguments.graph.is_some() {
        options.workloads = GRAPH_WORKLOADS.map(Kind::name).to_vec();
    } else if arguments.trace.is_some() {
        options.workloads = vec![Replay::NAME];
    }
    if !arguments.mode.is_empty() {
        options.modes = arguments.mode.clone();
    }
    options.dataset_bytes = arguments.dataset;
    options.graph = arguments.graph.clone();
    options.trace = arguments.trace.clone();
    options.dram = arguments.dram;
    options.cores = arguments.cores;
    options.miss_interval_us = arguments.miss_interval;
    options.rounds = arguments.rounds;
    options.seconds = arguments.seconds;
    options.arrivals = arguments.arrivals;
    options.scheduler = arguments.scheduler.name();
    options.replacement = arguments.replacement.name();
    options.admission = arguments.admission.name();
    options.prefetch = arguments.prefetch.name();
    options.hints = arguments.hints;
    options.scatter = arguments.scatter.name();
    options.theta = arguments.theta;
    options.threads = arguments.threads;
    options.batch_max = arguments.batch;
    options.seed = arguments.seed;
    options.force = arguments.force;
    options.predict = arguments.predict;
    options.machine = arguments.machine.clone();
    options
}

/// What there is to run.
fn list(json: bool) -> Result<(), Failure> {
    let kinds = Kind::ALL.map(|(_, kind)| kind);
    if json {
        let entry = |kind: Kind| {
            json!({
                "workload": kind.name(),
                "description": kind.description(),
                "job": kind.mix(),
                "min_bytes": kind.min_bytes(),
                "source": kind.source(),
            })
        };
        return print(&(serde_json::to_string_pretty(&kinds.map(entry))? + "\n"));
    }
    let entry = |kind: Kind| {
        format!(
            "{}: {}\n  a job    {}\n  dataset  at least {} bytes\n  source   {}\n",
            kind.name(),
            kind.description(),
            kind.mix(),
            kind.min_bytes(),
            kind.source(),
        )
    };
    print(&kinds.map(entry).join("\n"))
}

/// Serves as a child of another `ebbtide bench`.
pub(crate) fn child() -> Result<(), Failure> {
    bench::die_with_parent()?;
    bench::child::serve(std::io::stdin().lock(), std::io::stdout().lock()).map_err(Failure::run)
}
