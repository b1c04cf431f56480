//! `ebbtide bench`.

use std::path::{Path, PathBuf};

use clap::{ArgAction, Args};
use ebbtide_core::durability::Policy;
use ebbtide_core::prefetch::PrefetcherKind;
use ebbtide_core::replacement::{Admission, PolicyKind};
use ebbtide_core::schedule::Discipline;
use ebbtide_core::{Bytes, Span, UnknownName};
use ebbtide_engine::Tuning;
use ebbtide_engine::device::path::{self, DevicePath};
use ebbtide_measure::bench::{
    self, Arrivals, BenchOptions, DURABLE_WORKLOADS, Dram, Earlier, Flash, GRAPH_WORKLOADS, Mode,
};
use ebbtide_report::{Report, check_folder, write_whole};
use ebbtide_study::predict;
use ebbtide_workloads::{Kind, Replay, Scatter};
use serde_json::json;

use crate::exit::{Failure, print};
use crate::output::{Output, check_is_no_store};
use crate::trace_format::TraceFormat;
use crate::{names, numbers, progress};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Workloads to run (--list describes them) [default: the seven workloads of AstriFlash; with
    /// --durability, five that have transactions; with --graph, those on graphs]
    #[arg(value_name = "WORKLOAD", value_parser = names::workload(), hide_possible_values = true)]
    workloads: Vec<Kind>,
    /// Memories to compare: dram, paging, sync, ebbtide, mapped. dram always runs [default: all but
    /// mapped]
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = names::of::<Mode>(Mode::ALL.map(Mode::name)),
        hide_possible_values = true
    )]
    mode: Vec<Mode>,
    /// Data file, created if it does not exist, or a block device
    #[arg(long, value_name = "FILE|BLOCKDEV", default_value = "ebbtide.data")]
    data: PathBuf,
    /// Ebbtide's way to the drive: file, block (polled where the drive has polled queues), nvme
    /// (passthrough) or aio. Where io_uring is refused, it is aio [default: by what --data is]
    #[arg(long, value_name = "PATH")]
    device_path: Option<DevicePath>,
    /// Storage of Ebbtide's and sync's pages: data (the data file), or ram: and a latency. Such
    /// memory answers after that time without cost to the cores. It shows the engine's own cost,
    /// without the kernel's and the drive's
    #[arg(long, default_value = "data", value_name = "data|ram:TIME")]
    device: Flash,
    /// Size of each workload's data
    #[arg(long, default_value = "2GiB", value_name = "SIZE")]
    dataset: Bytes,
    /// Graph for pagerank and connected-components: an edge list or a Matrix Market coordinate file
    #[arg(long, value_name = "FILE", conflicts_with = "dataset")]
    graph: Option<PathBuf>,
    /// Trace to replay instead of workloads; - is standard input. Its pages are placed side by
    /// side, and its first 16 Mi accesses repeat, 64 per job
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["workloads", "graph", "dataset", "theta", "scatter"]
    )]
    trace: Option<PathBuf>,
    #[command(flatten)]
    trace_format: TraceFormat,
    /// DRAM budget of Ebbtide, sync and paging: a share of the dataset, or a size
    #[arg(long, default_value = "3%", value_name = "SHARE|SIZE")]
    dram: Dram,
    /// Cores that run jobs
    #[arg(long, value_parser = numbers::count::<usize>, default_value = "1", value_name = "COUNT")]
    cores: usize,
    /// Mean execution time between misses of plain LRU. Computing is added to every job to reach it
    #[arg(long, default_value = "10us", value_name = "TIME")]
    miss_interval: Span,
    /// Number of measurements of each memory
    #[arg(long, value_parser = numbers::count::<usize>, default_value = "5", value_name = "COUNT")]
    rounds: usize,
    /// Length of a measurement in seconds
    #[arg(long, value_parser = numbers::number, default_value = "0.4")]
    seconds: f64,
    /// Arrivals of jobs: closed (a job is always waiting) or poisson (random arrivals at several
    /// loads)
    #[arg(long, default_value = "closed")]
    arrivals: Arrivals,
    /// Scheduling discipline: priority, or fifo (for comparison)
    #[arg(
        long,
        default_value_t = Tuning::default().scheduler,
        value_parser = names::of::<Discipline>(Discipline::ALL.map(Discipline::name)),
        hide_possible_values = true
    )]
    scheduler: Discipline,
    /// Replacement policy: mini-sim, clock, s3-fifo, fifo or random
    #[arg(
        long,
        default_value_t = Tuning::default().replacement,
        value_parser = names::of::<PolicyKind>(PolicyKind::ALL.map(PolicyKind::name)),
        hide_possible_values = true
    )]
    replacement: PolicyKind,
    /// Admission to the replacement policy: always (every page), or adaptive (pages that
    /// FlatFlash's Algorithm 1 promotes; other pages stay for a short time)
    #[arg(
        long,
        default_value_t = Tuning::default().admission,
        value_parser = names::of::<Admission>(Admission::ALL.map(Admission::name)),
        hide_possible_values = true
    )]
    admission: Admission,
    /// Prefetcher of Ebbtide: none, next-n-line, feedback-directed, best-offset or leap. With this
    /// option, --admission or --hints, Ebbtide also runs without it for comparison
    #[arg(
        long,
        default_value_t = Tuning::default().prefetch,
        value_parser = names::of::<PrefetcherKind>(PrefetcherKind::ALL.map(PrefetcherKind::name)),
        hide_possible_values = true
    )]
    prefetch: PrefetcherKind,
    /// Whether Ebbtide prefetches the pages that a workload hints at: on or off
    #[arg(long, value_parser = hints, action = ArgAction::Set, default_value = "on", value_name = "ON|OFF")]
    hints: bool,
    /// Also run Ebbtide over a store that survives crashes. Transactions are acknowledged when they
    /// are durable (always) or at once (none, every:TIME). With every:TIME, such as every:1s, they
    /// are durable after at most that time
    #[arg(long, value_name = "POLICY")]
    durability: Option<Policy>,
    /// Placement of keys: pages (popular keys share pages at random places), or keys (each key at a
    /// random place)
    #[arg(
        long,
        default_value = "pages",
        value_parser = names::of::<Scatter>(Scatter::ALL.map(Scatter::name)),
        hide_possible_values = true
    )]
    scatter: Scatter,
    /// Zipf skew of the keys; 0 is uniform
    #[arg(long, value_parser = numbers::number, default_value = "0.99", allow_hyphen_values = true)]
    theta: f64,
    /// User-level threads per core: the maximum of concurrent jobs [default: by the DRAM budget, at
    /// most 256]
    #[arg(long, value_parser = numbers::count::<usize>, value_name = "COUNT")]
    threads: Option<usize>,
    /// Maximum of requests in one submission to the kernel
    #[arg(
        long,
        value_parser = numbers::count::<usize>,
        default_value_t = Tuning::default().batch_max,
        value_name = "COUNT"
    )]
    batch: usize,
    /// Parts of the replacement policy, each with its own lock [default: one for eight cores]
    #[arg(long, value_parser = numbers::count::<usize>, value_name = "COUNT")]
    policy_parts: Option<usize>,
    /// Seed of data and jobs
    #[arg(long, value_parser = numbers::count::<u64>, default_value = "1")]
    seed: u64,
    /// Overwrite the data file or device, with any contents
    #[arg(long)]
    force: bool,
    /// Also predict every result with the simulator and print the error of the prediction. The
    /// costs of a miss on this machine are measured first, with other programs
    #[arg(long)]
    predict: bool,
    /// Predict with the costs in this file from `doctor --write`
    #[arg(long, value_name = "FILE.toml", requires = "predict")]
    machine: Option<PathBuf>,
    /// Save the result as NAME.bench.json in the current folder, or under NAME itself if it has a
    /// slash or ends in .json
    #[arg(long, value_name = "NAME")]
    save: Option<PathBuf>,
    /// Also compare with an earlier result, saved under NAME, and print each change with its 95%
    /// interval
    #[arg(long, value_name = "NAME")]
    against: Option<PathBuf>,
    /// Also write the tables to this file in Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Take options from this file, under their long names; `workloads` is a list. The command line
    /// overrides it
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Describe the workloads and exit
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
    let save = arguments.save.as_deref().map(saved_at);
    save.as_deref().map_or(Ok(()), check_save)?;
    for file in save.iter().chain(&arguments.markdown) {
        check_folder(folder_of(file)).map_err(Failure::input)?;
        check_is_no_store(file)?;
    }
    let earlier = arguments.against.as_deref().map(saved_at);
    let earlier = earlier.map(|path| Earlier::read(&path)).transpose().map_err(Failure::input)?;
    let options = options(arguments);
    let mut report = progress::watched(|watch| {
        let mut measured =
            bench::run(&options, watch).map_err(|error| Failure::of(error.is_input(), error))?;
        predict::predict(&mut measured, watch)?;
        Ok::<_, Failure>(measured.report)
    })??;
    if let (Some(earlier), Some(name)) = (earlier, &arguments.against) {
        report.against = Some(earlier.compare(&name.display().to_string(), &report));
    }
    arguments.output.finish(&report)?;
    if let Some(file) = &save {
        write(file, &(report.json()? + "\n"))?;
    }
    if let Some(file) = &arguments.markdown {
        write(file, &report.markdown())?;
    }
    match report.failures.as_slice() {
        [] => Ok(()),
        [one] => Err(Failure::run(one)),
        [first, others @ ..] => {
            Err(Failure::run(format!("{first}; and {} more failed", others.len())))
        }
    }
}

/// Returns the file for the saved result `name`.
fn saved_at(name: &Path) -> PathBuf {
    let is_path = name.components().count() > 1 || name.extension() == Some("json".as_ref());
    if is_path { name.to_path_buf() } else { format!("{}.bench.json", name.display()).into() }
}

/// Refuses to replace a file that is not the result of a bench.
fn check_save(file: &Path) -> Result<(), Failure> {
    if !file.exists() {
        return Ok(());
    }
    let told = |error| Failure::input(format!("--save would replace a file: {error}"));
    Earlier::read(file).map(drop).map_err(told)
}

fn folder_of(file: &Path) -> &Path {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Writes `text` to `file`, which appears when it is complete.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    write_whole(folder_of(file), &name, text.as_bytes()).map_err(Failure::run)
}

fn options(arguments: &Arguments) -> BenchOptions {
    let mut options = BenchOptions::new(arguments.data.clone());
    if !arguments.workloads.is_empty() {
        options.workloads = arguments.workloads.iter().map(|kind| kind.name()).collect();
    } else if arguments.graph.is_some() {
        options.workloads = GRAPH_WORKLOADS.map(Kind::name).to_vec();
    } else if arguments.trace.is_some() {
        options.workloads = vec![Replay::NAME];
    } else if arguments.durability.is_some() {
        options.workloads = DURABLE_WORKLOADS.map(Kind::name).to_vec();
    }
    if !arguments.mode.is_empty() {
        options.modes = arguments.mode.clone();
    }
    (options.data, options.device_path) = path::resolve(&options.data, arguments.device_path);
    options.device = arguments.device;
    options.dataset_bytes = arguments.dataset.0;
    options.graph = arguments.graph.clone();
    options.trace = arguments.trace.clone();
    options.trace_format = arguments.trace_format.format;
    options.dram = arguments.dram;
    options.cores = arguments.cores;
    options.miss_interval_us = arguments.miss_interval.as_us_f64();
    options.rounds = arguments.rounds;
    options.seconds = arguments.seconds;
    options.arrivals = arguments.arrivals;
    options.tuning = Tuning {
        scheduler: arguments.scheduler,
        replacement: arguments.replacement,
        policy_parts: arguments.policy_parts,
        admission: arguments.admission,
        prefetch: arguments.prefetch,
        hints: arguments.hints,
        threads: arguments.threads,
        batch_max: arguments.batch,
    };
    options.durability = arguments.durability;
    options.scatter = arguments.scatter;
    options.theta = arguments.theta;
    options.seed = arguments.seed;
    options.force = arguments.force;
    options.predict = arguments.predict;
    options.machine = arguments.machine.clone();
    options
}

/// The description of every workload.
fn list(json: bool) -> Result<(), Failure> {
    let kinds = Kind::ALL.into_iter();
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
        return print(
            &(serde_json::to_string_pretty(&kinds.map(entry).collect::<Vec<_>>())? + "\n"),
        );
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
    print(&kinds.map(entry).collect::<Vec<_>>().join("\n"))
}

/// Runs as a child process of another `ebbtide bench`.
pub(crate) fn child() -> Result<(), Failure> {
    bench::die_with_parent()?;
    bench::serve(std::io::stdin().lock(), std::io::stdout().lock()).map_err(Failure::run)
}
