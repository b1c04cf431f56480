//! `ebbtide bench`: how good is flash as memory, here, now? The AstriFlash experiment (AstriFlash
//! §VI-A, Fig. 9; claims AS3, AS28, AS29), for real: the same jobs in DRAM, under OS paging, with
//! blocking reads, and in Ebbtide's engine, side by side.
//!
//! Every memory is a child process. Rounds are interleaved and ratios taken round by round, so that
//! what the machine does meanwhile hits all alike.

mod calibrate;
pub mod child;
mod children;
mod conditions;
mod data;
mod process;
mod profile;
mod profiling;
mod protocol;
mod replay;
mod report;
mod results;
mod subject;
mod window;
mod workload;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ebbtide_core::{Bytes, PAGE_BYTES, Stopped, UnknownName, Watch, choice, find_by_name};
use ebbtide_engine::store::StoreError;
use ebbtide_engine::{Budget, EngineError, Tuning, affinity, check_replacement};
use ebbtide_trace::TraceError;
use ebbtide_workloads::graph::GraphError;
use ebbtide_workloads::{Kind, Scatter, Shape, ShapeError, Workload};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use children::{CHILD_VERB, die_with_parent};
pub use conditions::{Conditions, Measured};
pub use profile::{ModeCosts, Profile, ReadsAt, Submission};
pub use profiling::measure as measure_profile;
pub use protocol::{Calibration, Latency, Load, Setup};
pub use results::{
    AheadSpread, Config, Effect, LatencySpread, Machine, Outcome, Report, Spread, Tried,
    WorkloadFacts,
};
pub use subject::{GRAPH_WORKLOADS, GraphFile};

use crate::doctor::machine::MachineSummary;
use crate::doctor::probe::ProbeError;
use data::DataPlaces;
use replay::Kept;
use subject::{Subject, subjects};
use workload::Bench;

/// A memory to run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// All data in DRAM, no residency checks: the bound.
    Dram,
    /// The kernel's paging: the data file mapped, in a cgroup limited to Ebbtide's budget.
    Paging,
    /// The DRAM cache, with a blocking O_DIRECT read on a miss.
    Sync,
    /// Ebbtide's engine.
    Ebbtide,
    /// The same without what is [tried](BenchOptions::tries): what that is compared with.
    Plain,
}

impl Mode {
    /// Every mode that users choose.
    pub const ALL: [Mode; 4] = [Mode::Dram, Mode::Paging, Mode::Sync, Mode::Ebbtide];

    /// The name users type.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Dram => "dram",
            Mode::Paging => "paging",
            Mode::Sync => "sync",
            Mode::Ebbtide => "ebbtide",
            Mode::Plain => "plain",
        }
    }
}

impl FromStr for Mode {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Mode, UnknownName> {
        find_by_name("mode", name, &Mode::ALL.map(|mode| (mode.name(), mode)))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How much DRAM Ebbtide gets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dram {
    /// A share of the dataset.
    Share(f64),
    /// So many bytes.
    Bytes(u64),
}

impl FromStr for Dram {
    type Err = String;

    fn from_str(text: &str) -> Result<Dram, String> {
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().map(|Bytes(bytes)| Dram::Bytes(bytes)).map_err(|_| {
                format!("'{text}' is not a share or a size; expected something like 3% or 64MiB")
            });
        };
        match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Dram::Share(percent / 100.0)),
            _ => Err(format!("'{text}' is not a share; expected something like 3% or 64MiB")),
        }
    }
}

choice! {
    /// How jobs arrive.
    pub enum Loop as "arrivals" {
        /// Closed loop: a job is always waiting, which gives the maximum throughput.
        Closed = "closed",
        /// Open loop: Poisson arrivals at several loads.
        Open = "poisson",
    }
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchOptions {
    /// Workloads by name.
    pub workloads: Vec<&'static str>,
    /// Memories; DRAM-only always runs, as what the others are compared with.
    pub modes: Vec<Mode>,
    /// The data file or block device.
    pub data: PathBuf,
    /// Size of each workload's data in bytes; with a graph or a trace from a file, what that takes.
    pub dataset_bytes: u64,
    /// A file with the graph to run on, for [`GRAPH_WORKLOADS`] alone.
    pub graph: Option<PathBuf>,
    /// A trace to replay instead of workloads; `-` is standard input.
    pub trace: Option<PathBuf>,
    /// DRAM for Ebbtide, blocking reads and paging.
    pub dram: Dram,
    /// Cores.
    pub cores: usize,
    /// Wished execution between misses of plain LRU, in microseconds.
    pub miss_interval_us: f64,
    /// Rounds.
    pub rounds: usize,
    /// Length of a window in seconds.
    pub seconds: f64,
    /// How jobs arrive.
    pub arrivals: Loop,
    /// Loads of the open loop, as shares of DRAM-only's throughput.
    pub loads: Vec<f64>,
    /// How Ebbtide treats misses.
    #[serde(flatten)]
    pub tuning: Tuning,
    /// Zipf skew of the keys.
    pub theta: f64,
    /// How keys lie over pages.
    pub scatter: Scatter,
    /// Seed of layouts and job streams.
    pub seed: u64,
    /// Overwrite whatever `data` holds.
    pub force: bool,
    /// Also say what the simulator expects.
    pub predict: bool,
    /// A [`Profile`] to predict with; measured first if none is given.
    pub machine: Option<PathBuf>,
}

impl BenchOptions {
    /// The default bench, over `data`.
    pub fn new(data: PathBuf) -> BenchOptions {
        BenchOptions {
            workloads: Kind::ASTRIFLASH.map(Kind::name).to_vec(),
            modes: Mode::ALL.to_vec(),
            data,
            dataset_bytes: 2 << 30,
            graph: None,
            trace: None,
            dram: Dram::Share(0.03),
            cores: 1,
            miss_interval_us: 10.0,
            rounds: 5,
            seconds: 0.4,
            arrivals: Loop::Closed,
            loads: vec![0.1, 0.3, 0.5, 0.7, 0.8, 0.9],
            tuning: Tuning::default(),
            theta: 0.99,
            scatter: Scatter::Pages,
            seed: 1,
            force: false,
            predict: false,
            machine: None,
        }
    }

    /// What is tried about misses beside what the engine does by itself, as the user said it; empty
    /// if nothing is.
    pub fn tries(&self) -> String {
        let (usual, own) = (Tuning::default(), &self.tuning);
        let tried = [
            (own.prefetch != usual.prefetch).then(|| format!("--prefetch {}", own.prefetch)),
            (own.admission != usual.admission).then(|| format!("--admission {}", own.admission)),
            (own.hints != usual.hints).then(|| "--hints off".to_string()),
        ];
        tried.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// The DRAM budget in bytes.
    pub fn dram_bytes(&self) -> u64 {
        match self.dram {
            Dram::Share(share) => (self.dataset_bytes as f64 * share) as u64,
            Dram::Bytes(bytes) => bytes,
        }
    }
}

/// Why a bench could not run.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum BenchError {
    #[error("{0}")]
    BadInput(String),
    #[error(transparent)]
    Name(#[from] UnknownName),
    #[error(transparent)]
    Shape(#[from] ShapeError),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error("cannot keep what is replayed in a temporary file: {0}")]
    Replay(std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot measure the device: {0}")]
    Probe(#[from] ProbeError),
    #[error("the {mode} run of {workload} failed: {reason}")]
    Child { mode: Mode, workload: &'static str, reason: String },
    #[error("cannot measure what a switch between threads costs: {0}")]
    Switches(std::io::Error),
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl BenchError {
    /// Whether the user's input, rather than the run, is at fault.
    pub fn is_input(&self) -> bool {
        match self {
            BenchError::BadInput(_) | BenchError::Name(_) => true,
            BenchError::Shape(_) | BenchError::Graph(_) => true,
            BenchError::Store(error) => error.is_input(),
            BenchError::Trace(error) => !error.is_cut_short(),
            BenchError::Replay(_) => false,
            BenchError::Probe(_) | BenchError::Child { .. } => false,
            BenchError::Switches(_) | BenchError::Stopped(_) => false,
        }
    }
}

/// A bench this short, in seconds measured a mode, shortens its warm-up too.
const SHORT_BENCH_S: f64 = 1.0;

/// Warm-up before the first measured round, in seconds.
fn warm_up_s(mode: Mode, options: &BenchOptions) -> f64 {
    let seconds = match mode {
        Mode::Dram => 0.2,
        // Paging is warmed while its number of threads is chosen.
        Mode::Paging => 0.0,
        Mode::Sync => 2.0,
        Mode::Ebbtide | Mode::Plain => 2.0,
    };
    seconds * (options.rounds as f64 * options.seconds / SHORT_BENCH_S).min(1.0)
}

/// Runs a bench.
///
/// # Errors
/// Bad options before anything is written; later, what went wrong in a run.
pub fn run(options: &BenchOptions, watch: Watch<'_>) -> Result<Measured, BenchError> {
    let cpus = check(options)?;
    let mut options = options.clone();
    let subjects = subjects(&mut options)?;
    let options = &options;
    check_room(options, &subjects, &cpus)?;
    let replayed = subjects.iter().filter_map(|subject| subject.replay.as_ref());
    let mut report = Report {
        machine: Machine::new(&MachineSummary::of_system(), &cpus),
        config: Config { options: options.clone(), dram_bytes: options.dram_bytes() },
        workloads: Vec::new(),
        results: Vec::new(),
        tried: Vec::new(),
        notices: replayed.map(|kept| kept.notice.clone()).collect(),
    };
    let mut conditions = Vec::new();
    let given = options.machine.as_deref().filter(|_| options.predict);
    let given = given.map(Profile::read).transpose()?;
    // What misses cost drifts on a machine shared with others: it is measured anew beside each
    // workload, which takes about as long as the workload.
    let measures = options.predict && given.is_none();
    let steps = if measures { 2.0 } else { 1.0 };
    for (number, subject) in subjects.iter().enumerate() {
        let part = |step: f64, stage: &str, share: f64| {
            let name = subject.program.name();
            let done = (number as f64 * steps + step + share) / (subjects.len() as f64 * steps);
            watch.show(&format!("{name}: {stage}"), done);
        };
        let (beside, within) = (
            |stage: &str, share: f64| part(0.0, stage, share),
            |stage: &str, share: f64| part(steps - 1.0, stage, share),
        );
        let modes: Vec<Mode> = stored_modes(options).collect();
        let measured = measures
            .then(|| profiling::measure(&options.data, &modes, watch.telling(&beside)))
            .transpose()?;
        let profile = given.as_ref().or(measured.as_ref());
        let watch = watch.telling(&within);
        let bench = Bench { options, subject, cpus: &cpus, profile, watch };
        bench.run(&mut report, &mut conditions)?;
    }
    watch.tell("done", 1.0)?;
    Ok(Measured { report, conditions })
}

/// Refuses options that cannot work, whatever the data; gives the CPUs to use.
fn check(options: &BenchOptions) -> Result<Vec<usize>, BenchError> {
    let bad = |message: String| Err(BenchError::BadInput(message));
    let allowed = affinity::allowed()
        .map_err(|error| BenchError::BadInput(format!("cannot tell the CPUs: {error}")))?;
    if options.cores == 0 || options.cores > allowed.len() {
        return bad(format!(
            "--cores {}: this machine offers 1 to {}",
            options.cores,
            allowed.len()
        ));
    }
    if options.rounds == 0 || !(options.seconds > 0.0 && options.seconds <= 3600.0) {
        return bad(format!(
            "--rounds {} --seconds {}: expected at least 1 round, of more than 0 and at most 3600 \
             seconds",
            options.rounds, options.seconds
        ));
    }
    if !(options.miss_interval_us > 0.0 && options.miss_interval_us <= 1e6) {
        return bad(format!(
            "--miss-interval: {} us, expected more than 0 and at most 1 s",
            options.miss_interval_us
        ));
    }
    let paths = [
        ("--data", Some(&options.data)),
        ("--graph", options.graph.as_ref()),
        ("--trace", options.trace.as_ref()),
    ];
    for (option, path) in paths {
        if let Some(path) = path.filter(|path| path.to_str().is_none()) {
            return bad(format!("{option} {}: the path must be UTF-8", path.display()));
        }
    }
    for (number, name) in options.workloads.iter().enumerate() {
        if options.workloads[..number].contains(name) {
            return bad(format!("workload '{name}' is named twice"));
        }
    }
    // The last CPUs: the first ones do the machine's housekeeping.
    Ok(allowed[allowed.len() - options.cores..].to_vec())
}

/// Refuses a budget that cannot work, or data that has no room. Nothing is written.
fn check_room(
    options: &BenchOptions,
    subjects: &[Subject],
    cpus: &[usize],
) -> Result<(), BenchError> {
    let dram = options.dram_bytes();
    if dram > options.dataset_bytes {
        return Err(BenchError::BadInput(format!(
            "--dram: {dram} bytes are more than the dataset of {} bytes",
            options.dataset_bytes
        )));
    }
    let stored: Vec<Mode> = stored_modes(options).collect();
    let mut missing = Vec::new();
    for subject in subjects {
        if !stored.is_empty() {
            check_engine(options, subject, cpus)?;
        }
        missing.extend(places(options, subject).missing(&stored)?);
    }
    check_memory(options.dataset_bytes)?;
    data::check_room(&missing)
}

/// DRAM-only has all of the data resident.
fn check_memory(dataset_bytes: u64) -> Result<(), BenchError> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    match kib.map(|kib| kib << 10) {
        Some(available_bytes) if available_bytes < dataset_bytes => {
            Err(BenchError::BadInput(format!(
                "--dataset: DRAM-only keeps all of it in memory, {}, and {} are available",
                data::mib(dataset_bytes),
                data::mib(available_bytes),
            )))
        }
        _ => Ok(()),
    }
}

/// Refuses what the engine would, in terms of the options that say so.
fn check_engine(
    options: &BenchOptions,
    subject: &Subject,
    cpus: &[usize],
) -> Result<(), BenchError> {
    let bad = |message: String| Err(BenchError::BadInput(message));
    if let Some(threads) = options.tuning.threads
        && !(1..=1 << 16).contains(&threads)
    {
        return bad(format!("--threads {threads}: expected 1 to 65536"));
    }
    if !(1..=4096).contains(&options.tuning.batch_max) {
        return bad(format!("--batch {}: expected 1 to 4096", options.tuning.batch_max));
    }
    let setup = setup(options, subject, Mode::Ebbtide, cpus, (PathBuf::new(), 0));
    let bytes = subject.program.size_bytes();
    let engine = child::engine_options(&setup);
    if let Err(error) = check_replacement(engine.tuning.replacement) {
        return bad(format!("--replacement: {error}"));
    }
    match Budget::divide(&engine, bytes / PAGE_BYTES as u64) {
        Err(EngineError::BudgetTooSmall { given_bytes, needed_bytes, .. }) => bad(format!(
            "--dram: {given_bytes} bytes are too few for {} of {}: page states, stacks and buffers \
             need at least {needed_bytes} ({})",
            subject.program.name(),
            data::mib(bytes),
            data::mib(needed_bytes as u64),
        )),
        Err(other) => bad(other.to_string()),
        Ok(_) => Ok(()),
    }
}

/// The modes beside DRAM-only, each once; what is tried is compared with the plain engine.
fn stored_modes(options: &BenchOptions) -> impl Iterator<Item = Mode> {
    let compared = options.modes.contains(&Mode::Ebbtide) && options.arrivals == Loop::Closed;
    let plain = (compared && !options.tries().is_empty()).then_some(Mode::Plain);
    let chosen = Mode::ALL.into_iter();
    chosen.filter(|mode| *mode != Mode::Dram && options.modes.contains(mode)).chain(plain)
}

/// Where the data of `subject` is; its tag is what the image depends on.
fn places(options: &BenchOptions, subject: &Subject) -> DataPlaces {
    let name = subject.program.name();
    let tag = match &subject.graph {
        None if subject.replay.is_some() => format!("{name} seed={}", options.seed),
        None => format!("{name} scatter={} seed={}", options.scatter, options.seed),
        Some(graph) => format!("{name} graph={:016x} seed={}", graph.checksum, options.seed),
    };
    DataPlaces::new(&options.data, &subject.program, tag, options.force)
}

/// What a child needs to become `mode`, with its data at `(file, offset)`.
fn setup(
    options: &BenchOptions,
    subject: &Subject,
    mode: Mode,
    cpus: &[usize],
    (data, offset): (PathBuf, u64),
) -> Setup {
    let mut tuning = options.tuning;
    if mode == Mode::Plain {
        let Tuning { admission, prefetch, hints, .. } = Tuning::default();
        tuning = Tuning { admission, prefetch, hints, ..tuning };
    }
    Setup {
        mode,
        workload: subject.program.name().into(),
        dataset_bytes: options.dataset_bytes,
        graph: subject.graph.clone(),
        replay: subject.replay.as_ref().map(Kept::path),
        stack_bytes: subject.program.stack_bytes(),
        theta: options.theta,
        scatter: options.scatter,
        seed: options.seed,
        dram_bytes: options.dram_bytes(),
        cpus: cpus.to_vec(),
        data,
        offset,
        tuning,
        work_instructions: 0,
    }
}

fn shape(options: &BenchOptions) -> Shape {
    Shape {
        dataset_bytes: options.dataset_bytes,
        theta: options.theta,
        scatter: options.scatter,
        seed: options.seed,
        work_instructions: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dram_is_a_share_or_a_size() {
        assert_eq!("3%".parse(), Ok(Dram::Share(0.03)));
        assert_eq!("64MiB".parse(), Ok(Dram::Bytes(64 << 20)));
        for text in ["0%", "101%", "x%", "x"] {
            assert!(text.parse::<Dram>().is_err(), "{text}");
        }
    }
}
