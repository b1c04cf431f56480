//! `ebbtide bench`.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use ebbtide_core::prefetch::PrefetcherKind;
use ebbtide_core::replacement::{Admission, PolicyKind};
use ebbtide_core::schedule::Discipline;
use ebbtide_core::{Bytes, Span, UnknownName};
use ebbtide_engine::Tuning;
use ebbtide_measure::bench::{self, Arrivals, BenchOptions, Dram, GRAPH_WORKLOADS, Mode};
use ebbtide_study::predict;
use ebbtide_workloads::{Kind, Replay, Scatter};
use serde_json::json;

use crate::exit::{Failure, print};
use crate::output::Output;
use crate::{numbers, progress};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Workloads to run; --list says which there are [default: the seven of AstriFlash]
    #[arg(value_name = "WORKLOAD")]
    workloads: Vec<Kind>,
    /// Memories to compare: dram, paging, sync, ebbtide; dram always runs [default: all]
    #[arg(long, value_delimiter = ',')]
    mode: Vec<Mode>,
    /// Data file, or a block device of its own; made if it does not exist
    #[arg(long, value_name = "FILE|BLOCKDEV", default_value = "ebbtide.data")]
    data: PathBuf,
    /// Size of each workload's data
    #[arg(long, default_value = "2GiB", value_name = "SIZE")]
    dataset: Bytes,
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
    #[arg(long, default_value = "3%", value_name = "SHARE|SIZE")]
    dram: Dram,
    /// Cores to run jobs on
    #[arg(long, value_parser = numbers::count::<usize>, default_value = "1", value_name = "COUNT")]
    cores: usize,
    /// Execution time after which plain LRU would miss; the work a job does is calibrated to it
    #[arg(long, default_value = "10us", value_name = "TIME")]
    miss_interval: Span,
    /// How often every memory is measured
    #[arg(long, value_parser = numbers::count::<usize>, default_value = "5", value_name = "COUNT")]
    rounds: usize,
    /// Length of a measurement in seconds
    #[arg(long, value_parser = numbers::number, default_value = "0.4")]
    seconds: f64,
    /// How jobs arrive: closed (always one waiting) or poisson (a sweep of loads)
    #[arg(long, default_value = "closed")]
    arrivals: Arrivals,
    /// Which job runs next: priority, or fifo (an ablation)
    #[arg(long, default_value = "priority")]
    scheduler: Discipline,
    /// Which page is evicted: adaptive-lrfu, s3-fifo, clock, fifo or random
    #[arg(long, default_value = "adaptive-lrfu")]
    replacement: PolicyKind,
    /// Which pages the replacement policy is given: always all, or adaptive (those that FlatFlash's
    /// Algorithm 1 promotes; the others stay for a short time)
    #[arg(long, default_value = "always")]
    admission: Admission,
    /// What Ebbtide fetches ahead of demand: none, next-n-line, feedback-directed, best-offset or
    /// leap. Whatever is tried, here or by --admission or --hints, is compared with Ebbtide without
    /// it; with --predict in the simulator too
    #[arg(long, default_value = "none")]
    prefetch: PrefetcherKind,
    /// Whether Ebbtide fetches what a workload hints at: on, or off
    #[arg(long, value_parser = hints, action = ArgAction::Set, default_value = "on", value_name = "ON|OFF")]
    hints: bool,
    /// Where popular keys lie: together on pages chosen by hash, or each key on its own (keys)
    #[arg(long, default_value = "pages")]
    scatter: Scatter,
    /// Zipf skew of the keys; 0 is uniform
    #[arg(long, value_parser = numbers::number, default_value = "0.99", allow_hyphen_values = true)]
    theta: f64,
    /// User-level threads a core: the most jobs under way at once; without it as many as suit the
    /// DRAM budget, at most 128
    #[arg(long, value_parser = numbers::count::<usize>, value_name = "COUNT")]
    threads: Option<usize>,
    /// The most requests handed to the kernel together
    #[arg(long, value_parser = numbers::count::<usize>, default_value = "32", value_name = "COUNT")]
    batch: usize,
    /// Seed of data and jobs
    #[arg(long, value_parser = numbers::count::<u64>, default_value = "1")]
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
    #[command(flatten)]
    output: Output,
    /// Say what each workload does, and run nothing
    #[arg(long)]
    list: bool,
}

fn hints(name: &str) -> Result<bool, UnknownName> {
    ebbtide_core::find_by_name("use of hints", name, &[("on", true), ("off", false)])
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.list {
        return list(arguments.output.json);
    }
    arguments.output.check()?;
    let options = options(arguments);
    let report = progress::watched(|watch| {
        let mut measured =
            bench::run(&options, watch).map_err(|error| Failure::of(error.is_input(), error))?;
        predict::predict(&mut measured, watch)?;
        Ok::<_, Failure>(measured.report)
    })??;
    arguments.output.finish(&report)
}

fn options(arguments: &Arguments) -> BenchOptions {
    let mut options = BenchOptions::new(arguments.data.clone());
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
    options.dataset_bytes = arguments.dataset.0;
    options.graph = arguments.graph.clone();
    options.trace = arguments.trace.clone();
    options.dram = arguments.dram;
    options.cores = arguments.cores;
    options.miss_interval_us = arguments.miss_interval.as_us_f64();
    options.rounds = arguments.rounds;
    options.seconds = arguments.seconds;
    options.arrivals = arguments.arrivals;
    options.tuning = Tuning {
        scheduler: arguments.scheduler,
        replacement: arguments.replacement,
        admission: arguments.admission,
        prefetch: arguments.prefetch,
        hints: arguments.hints,
        threads: arguments.threads,
        batch_max: arguments.batch,
    };
    options.scatter = arguments.scatter;
    options.theta = arguments.theta;
    options.seed = arguments.seed;
    options.force = arguments.force;
    options.predict = arguments.predict;
    options.machine = arguments.machine.clone();
    options
}

/// What there is to run.
fn list(json: bool) -> Result<(), Failure> {
    let kinds = Kind::ALL;
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
    bench::serve(std::io::stdin().lock(), std::io::stdout().lock()).map_err(Failure::run)
}
