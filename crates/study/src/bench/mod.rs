//! `ebbtide bench`: how good is flash as memory, here, now? The AstriFlash experiment (AstriFlash
//! §VI-A, Fig. 9; claims AS3, AS28, AS29), for real: the same jobs in DRAM, under OS paging, with
//! blocking reads, and in Ebbtide's engine, side by side.
//!
//! Every memory is a child process. Rounds are interleaved and ratios taken round by round, so that
//! what the machine does meanwhile hits all alike.

mod calibrate;
pub mod child;
mod children;
mod data;
mod process;
mod protocol;
mod report;
mod results;
mod window;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::schedule::Discipline;
use ebbtide_core::{PAGE_BYTES, UnknownName, find_by_name};
use ebbtide_engine::cgroup::MemoryCgroup;
use ebbtide_engine::store::StoreError;
use ebbtide_engine::{Budget, EngineError, affinity};
use ebbtide_workloads::{Kind, Program, Scatter, Shape, ShapeError, Workload};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use children::{CHILD_VERB, Cancel, die_with_parent};
pub use protocol::{Arrivals, Calibration, Latency};
pub use results::{Config, LatencySpread, Machine, Outcome, Report, Spread, WorkloadFacts};

use crate::doctor::machine::MachineSummary;
use crate::doctor::probe::ProbeError;
use child::PAGING_THREADS;
use children::Child;
use data::DataPlaces;
use protocol::{Command, Reply, Setup, Window};

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
}

impl Mode {
    /// Every mode with the name users type.
    pub const ALL: [(&'static str, Mode); 4] = [
        ("dram", Mode::Dram),
        ("paging", Mode::Paging),
        ("sync", Mode::Sync),
        ("ebbtide", Mode::Ebbtide),
    ];

    /// The mode called `name`.
    ///
    /// # Errors
    /// When there is none, with the nearest name.
    pub fn from_name(name: &str) -> Result<Mode, UnknownName> {
        find_by_name("mode", name, &Mode::ALL)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Mode::ALL.iter().find(|(_, mode)| mode == self);
        f.pad(known.expect("every mode is listed").0)
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

/// How jobs arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Closed loop: maximum throughput.
    Closed,
    /// Open loop: Poisson arrivals at several loads.
    Poisson,
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Options {
    /// Workloads by name.
    pub workloads: Vec<&'static str>,
    /// Memories; DRAM-only always runs, as what the others are compared with.
    pub modes: Vec<Mode>,
    /// The data file or block device.
    pub data: PathBuf,
    /// Size of each workload's data in bytes.
    pub dataset_bytes: u64,
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
    pub arrivals: Load,
    /// Loads of the open loop, as shares of DRAM-only's throughput.
    pub loads: Vec<f64>,
    /// Scheduler by name.
    pub scheduler: &'static str,
    /// Replacement policy by name.
    pub replacement: &'static str,
    /// Zipf skew of the keys.
    pub theta: f64,
    /// How keys lie over pages, by name.
    pub scatter: &'static str,
    /// User-level threads a core.
    pub threads: usize,
    /// The most requests handed to the kernel together.
    pub batch_max: usize,
    /// Seed of layouts and job streams.
    pub seed: u64,
    /// Overwrite whatever `data` holds.
    pub force: bool,
}

impl Options {
    /// The default bench, over `data`.
    pub fn new(data: PathBuf) -> Options {
        Options {
            workloads: Kind::ALL.iter().map(|(name, _)| *name).collect(),
            modes: Mode::ALL.iter().map(|(_, mode)| *mode).collect(),
            data,
            dataset_bytes: 2 << 30,
            dram: Dram::Share(0.03),
            cores: 1,
            miss_interval_us: 10.0,
            rounds: 5,
            seconds: 1.0,
            arrivals: Load::Closed,
            loads: vec![0.1, 0.3, 0.5, 0.7, 0.8, 0.9],
            scheduler: Discipline::Priority.name(),
            replacement: PolicyKind::AdaptiveLrfu.name(),
            theta: 0.99,
            scatter: Scatter::Pages.name(),
            threads: 128,
            batch_max: 32,
            seed: 1,
            force: false,
        }
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
    Store(#[from] StoreError),
    #[error("cannot measure the device: {0}")]
    Probe(#[from] ProbeError),
    #[error("the {mode} run of {workload} failed: {reason}")]
    Child { mode: Mode, workload: &'static str, reason: String },
    #[error("cancelled")]
    Cancelled,
}

impl BenchError {
    /// Whether the user's input, rather than the run, is at fault.
    pub fn is_input(&self) -> bool {
        match self {
            BenchError::BadInput(_) | BenchError::Name(_) | BenchError::Shape(_) => true,
            BenchError::Store(error) => error.is_input(),
            BenchError::Probe(_) | BenchError::Child { .. } | BenchError::Cancelled => false,
        }
    }
}

/// Told of how far a bench is: what it does now, and the share done in 0..=1.
pub type Progress<'a> = &'a (dyn Fn(&str, f64) + Sync);

/// A bench this short, in seconds measured a mode, shortens its warm-up too.
const SHORT_BENCH_S: f64 = 1.0;

/// Warm-up before the first measured round, in seconds.
fn warm_up_s(mode: Mode, options: &Options) -> f64 {
    let seconds = match mode {
        Mode::Dram => 0.2,
        // Paging is warmed while its number of threads is chosen.
        Mode::Paging => 0.0,
        Mode::Sync => 2.0,
        Mode::Ebbtide => 3.0,
    };
    seconds * (options.rounds as f64 * options.seconds / SHORT_BENCH_S).min(1.0)
}

/// Runs a bench.
///
/// # Errors
/// Bad options before anything is written; later, what went wrong in a run.
pub fn run(
    options: &Options,
    cancel: &Cancel,
    progress: Progress<'_>,
) -> Result<Report, BenchError> {
    let cpus = check(options)?;
    let mut report = Report {
        machine: Machine::new(&MachineSummary::of_system(), &cpus),
        config: Config { options: options.clone(), dram_bytes: options.dram_bytes() },
        workloads: Vec::new(),
        results: Vec::new(),
        notices: Vec::new(),
    };
    let count = options.workloads.len() as f64;
    for (number, name) in options.workloads.iter().enumerate() {
        let kind = Kind::from_name(name)?;
        let part = |stage: &str, share: f64| {
            progress(&format!("{}: {stage}", kind.name()), (number as f64 + share) / count);
        };
        let bench = Bench { options, kind, cpus: &cpus, cancel, progress: &part };
        bench.run(&mut report)?;
    }
    progress("done", 1.0);
    Ok(report)
}

/// Refuses options that cannot work; gives the CPUs to use.
fn check(options: &Options) -> Result<Vec<usize>, BenchError> {
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
    let dram = options.dram_bytes();
    if dram > options.dataset_bytes {
        return bad(format!(
            "--dram: {dram} bytes are more than the dataset of {} bytes",
            options.dataset_bytes
        ));
    }
    if options.data.to_str().is_none() {
        return bad(format!("--data {}: the path must be UTF-8", options.data.display()));
    }
    // The last CPUs: the first ones do the machine's housekeeping.
    let cpus = allowed[allowed.len() - options.cores..].to_vec();
    let mut missing = Vec::new();
    for (number, name) in options.workloads.iter().enumerate() {
        if options.workloads[..number].contains(name) {
            return bad(format!("workload '{name}' is named twice"));
        }
        let kind = Kind::from_name(name)?;
        let program = kind.build(&shape(options))?;
        let stored: Vec<Mode> = stored_modes(options).collect();
        if !stored.is_empty() {
            check_engine(options, kind, &program, &cpus)?;
        }
        missing.extend(places(options, kind, &program).missing(&stored)?);
    }
    check_memory(options.dataset_bytes)?;
    data::check_room(&missing)?;
    Ok(cpus)
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
    options: &Options,
    kind: Kind,
    program: &Program,
    cpus: &[usize],
) -> Result<(), BenchError> {
    let bad = |message: String| Err(BenchError::BadInput(message));
    if !(1..=1 << 16).contains(&options.threads) {
        return bad(format!("--threads {}: expected 1 to 65536", options.threads));
    }
    if !(1..=4096).contains(&options.batch_max) {
        return bad(format!("--batch {}: expected 1 to 4096", options.batch_max));
    }
    let setup = setup(options, kind, Mode::Ebbtide, cpus, (PathBuf::new(), 0));
    let engine = child::engine_options(&setup)?;
    if engine.replacement.needs_every_hit() {
        return bad(format!("--replacement: {}", EngineError::NeedsEveryHit(options.replacement)));
    }
    match Budget::divide(&engine, program.size_bytes() / PAGE_BYTES as u64) {
        Err(EngineError::BudgetTooSmall { given_bytes, needed_bytes, .. }) => bad(format!(
            "--dram: {given_bytes} bytes are too few for {} of {}: page states, stacks and buffers \
             need at least {needed_bytes} ({})",
            kind.name(),
            data::mib(program.size_bytes()),
            data::mib(needed_bytes as u64),
        )),
        Err(other) => bad(other.to_string()),
        Ok(_) => Ok(()),
    }
}

/// The modes beside DRAM-only, each once.
fn stored_modes(options: &Options) -> impl Iterator<Item = Mode> {
    let all = Mode::ALL.into_iter().map(|(_, mode)| mode);
    all.filter(|mode| *mode != Mode::Dram && options.modes.contains(mode))
}

/// Where the data of `program` is; its tag is what the image depends on.
fn places(options: &Options, kind: Kind, program: &Program) -> DataPlaces {
    let tag = format!("{} scatter={} seed={}", kind.name(), options.scatter, options.seed);
    DataPlaces::new(&options.data, program, tag, options.force)
}

/// What a child needs to become `mode`, with its data at `(file, offset)`.
fn setup(
    options: &Options,
    kind: Kind,
    mode: Mode,
    cpus: &[usize],
    (data, offset): (PathBuf, u64),
) -> Setup {
    Setup {
        mode,
        workload: kind.name().into(),
        dataset_bytes: options.dataset_bytes,
        theta: options.theta,
        scatter: options.scatter.into(),
        seed: options.seed,
        dram_bytes: options.dram_bytes(),
        cpus: cpus.to_vec(),
        data,
        offset,
        replacement: options.replacement.into(),
        scheduler: options.scheduler.into(),
        threads: options.threads,
        batch_max: options.batch_max,
        work_instructions: 0,
    }
}

fn shape(options: &Options) -> Shape {
    Shape {
        dataset_bytes: options.dataset_bytes,
        theta: options.theta,
        scatter: Scatter::from_name(options.scatter).unwrap_or_default(),
        seed: options.seed,
        work_instructions: 0,
    }
}

/// The bench of one workload.
struct Bench<'a> {
    options: &'a Options,
    kind: Kind,
    cpus: &'a [usize],
    cancel: &'a Cancel,
    progress: Progress<'a>,
}

/// A child that takes part in the rounds.
struct Runner {
    mode: Mode,
    child: Child,
    threads_per_core: Option<usize>,
    /// Outlives the child: removed after it is gone.
    limit: Option<MemoryCgroup>,
}

/// What became of setting up a child.
enum Attempt {
    /// It takes part, and what the user should know.
    Ready(Runner, Vec<String>),
    /// This machine does not permit it, and why.
    LeftOut(String),
    /// The kernel killed it at its memory limit.
    OutOfMemory,
}

/// One round of one mode, with the CPU time of the kernel's own threads.
#[derive(Clone, Copy)]
struct Round {
    window: Window,
    kernel_cpu_s: f64,
}

impl Round {
    fn jobs_per_s(&self) -> f64 {
        self.window.jobs as f64 / self.window.seconds
    }

    fn cpu_s(&self) -> f64 {
        self.window.cpu_s + self.kernel_cpu_s
    }
}

impl Bench<'_> {
    fn run(&self, report: &mut Report) -> Result<(), BenchError> {
        let program = self.kind.build(&shape(self.options))?;
        let places = places(self.options, self.kind, &program);
        self.make_data(&program, &places)?;
        if report.machine.read_us_qd1.is_none() {
            self.probe_device(&places, report)?;
        }
        let (mut runners, calibration) = self.start(&program, &places, report)?;
        report.workloads.push(WorkloadFacts {
            workload: self.kind.name(),
            pages: program.size_bytes() / PAGE_BYTES as u64,
            calibration,
        });
        match self.options.arrivals {
            Load::Closed => self.closed(&mut runners, &calibration, report),
            Load::Poisson => self.open(&mut runners, &calibration, report),
        }
    }

    fn make_data(&self, program: &Program, places: &DataPlaces) -> Result<(), BenchError> {
        let modes: Vec<Mode> = stored_modes(self.options).collect();
        let missing = places.missing(&modes)?;
        let stage = format!("writing {} of data", data::mib(data::bytes(&missing)));
        let report = |share: f64| (self.progress)(&stage, share * 0.2);
        data::write(&missing, program, self.cancel, &report)?;
        Ok(())
    }

    fn probe_device(&self, places: &DataPlaces, report: &mut Report) -> Result<(), BenchError> {
        (self.progress)("measuring the device", 0.2);
        let Some(mode) = stored_modes(self.options).next() else { return Ok(()) };
        let summary = MachineSummary::quick(&places.place(mode).0)?;
        report.machine = Machine::new(&summary, self.cpus);
        Ok(())
    }

    /// Starts a child for every mode, calibrates, and warms up.
    fn start(
        &self,
        program: &Program,
        places: &DataPlaces,
        report: &mut Report,
    ) -> Result<(Vec<Runner>, Calibration), BenchError> {
        (self.progress)("loading DRAM", 0.22);
        let mut dram = self
            .runner(Mode::Dram, (program, places), 0, report)?
            .ok_or_else(|| self.child_error(Mode::Dram, "the dataset does not fit into DRAM"))?;
        let frames = (program.size_bytes() as f64 / self.options.dataset_bytes as f64
            * self.options.dram_bytes() as f64) as u64
            / PAGE_BYTES as u64;
        (self.progress)("calibrating", 0.25);
        let interval_ns = self.options.miss_interval_us * 1e3;
        let reply = dram.child.ask(&Command::Calibrate { frames, interval_ns }, self.cancel);
        let calibration = match reply {
            Ok(Reply::Calibrated(calibration)) => calibration,
            other => return Err(self.unexpected(Mode::Dram, other)),
        };
        let mut runners = vec![dram];
        for mode in stored_modes(self.options) {
            (self.progress)(&format!("starting {mode}"), 0.28);
            runners.extend(self.runner(
                mode,
                (program, places),
                calibration.work_instructions,
                report,
            )?);
        }
        for runner in &mut runners {
            let seconds = warm_up_s(runner.mode, self.options);
            if seconds > 0.0 {
                (self.progress)(&format!("warming up {}", runner.mode), 0.35);
                self.round(runner, seconds, Arrivals::Closed, calibration.work_instructions)?;
            }
        }
        Ok((runners, calibration))
    }

    /// A child set up as `mode`; `None`, with a notice, if this machine does not permit it.
    fn runner(
        &self,
        mode: Mode,
        (program, places): (&Program, &DataPlaces),
        work_instructions: u64,
        report: &mut Report,
    ) -> Result<Option<Runner>, BenchError> {
        let mut notice = |text: String| {
            let notice = format!("{mode}: {text}");
            if !report.notices.contains(&notice) {
                report.notices.push(notice);
            }
        };
        let mut setup = setup(self.options, self.kind, mode, self.cpus, places.place(mode));
        setup.work_instructions = work_instructions;
        if mode == Mode::Paging {
            setup.threads = PAGING_THREADS[PAGING_THREADS.len() - 1];
        }
        loop {
            match self.attempt(&setup)? {
                Attempt::Ready(runner, notices) => {
                    notices.into_iter().for_each(notice);
                    return Ok(Some(runner));
                }
                Attempt::LeftOut(reason) => {
                    notice(format!("left out: {reason}"));
                    return Ok(None);
                }
                // Fewer threads leave more of its memory to the data.
                Attempt::OutOfMemory if setup.threads > PAGING_THREADS[0] => {
                    notice(format!(
                        "{} threads a core do not fit into its DRAM; tried fewer",
                        setup.threads
                    ));
                    setup.threads /= 2;
                    // It died with its data half changed.
                    self.make_data(program, places)?;
                }
                Attempt::OutOfMemory => {
                    notice(format!("left out: {}", self.out_of_memory()));
                    return Ok(None);
                }
            }
        }
    }

    fn attempt(&self, setup: &Setup) -> Result<Attempt, BenchError> {
        let mode = setup.mode;
        let mut limit = None;
        let mut child = Child::spawn(self.cancel)
            .map_err(|error| self.child_error(mode, &format!("cannot start a process: {error}")))?;
        if mode == Mode::Paging {
            let group = MemoryCgroup::create(self.options.dram_bytes())
                .and_then(|group| group.join(child.id()).map(|()| group));
            match group {
                Ok(group) => limit = Some(group),
                Err(error) => return Ok(Attempt::LeftOut(error.to_string())),
            }
        }
        match child.ask(&Command::Setup(Box::new(setup.clone())), self.cancel) {
            Ok(Reply::Ready { threads_per_core, notices, .. }) => {
                let runner = Runner { mode, child, threads_per_core, limit };
                Ok(Attempt::Ready(runner, notices))
            }
            Ok(Reply::Unavailable(reason)) => Ok(Attempt::LeftOut(reason)),
            Err(_) if limit.is_some() && child.was_killed() && !self.cancel.is_cancelled() => {
                Ok(Attempt::OutOfMemory)
            }
            other => Err(self.unexpected(mode, other)),
        }
    }

    fn out_of_memory(&self) -> String {
        let limit = data::mib(self.options.dram_bytes());
        format!("the kernel killed it at its memory limit of {limit}")
    }

    fn round(
        &self,
        runner: &mut Runner,
        seconds: f64,
        arrivals: Arrivals,
        work_instructions: u64,
    ) -> Result<Round, BenchError> {
        let kernel_before = process::kernel_threads_cpu_s();
        let command = Command::Run { seconds, arrivals, work_instructions };
        match runner.child.ask(&command, self.cancel) {
            Ok(Reply::Window(window)) => {
                let kernel_cpu_s = process::kernel_threads_cpu_s() - kernel_before;
                Ok(Round { window: *window, kernel_cpu_s })
            }
            Err(_) if runner.limit.is_some() && runner.child.was_killed() => {
                Err(self.child_error(runner.mode, &self.out_of_memory()))
            }
            other => Err(self.unexpected(runner.mode, other)),
        }
    }

    /// All modes, round by round, each round starting with another mode.
    fn rounds(
        &self,
        runners: &mut [Runner],
        calibration: &Calibration,
        arrivals: Arrivals,
        rounds: usize,
        (from, to): (f64, f64),
    ) -> Result<BTreeMap<Mode, Vec<Round>>, BenchError> {
        let mut results: BTreeMap<Mode, Vec<Round>> = BTreeMap::new();
        for round in 0..rounds {
            (self.progress)(
                &format!("round {} of {rounds}", round + 1),
                from + (to - from) * round as f64 / rounds as f64,
            );
            let count = runners.len();
            for turn in 0..count {
                let runner = &mut runners[(turn + round) % count];
                let work = calibration.work_instructions;
                let measured = self.round(runner, self.options.seconds, arrivals, work)?;
                results.entry(runner.mode).or_default().push(measured);
            }
        }
        Ok(results)
    }

    fn closed(
        &self,
        runners: &mut [Runner],
        calibration: &Calibration,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        let rounds = self.options.rounds;
        let span = (0.4, 0.95);
        let results = self.rounds(runners, calibration, Arrivals::Closed, rounds, span)?;
        (self.progress)("without added work", 0.95);
        let mut without_work = BTreeMap::new();
        for runner in runners.iter_mut() {
            if matches!(runner.mode, Mode::Dram | Mode::Ebbtide) {
                let round = self.round(runner, self.options.seconds, Arrivals::Closed, 0)?;
                without_work.insert(runner.mode, round.jobs_per_s());
            }
        }
        let ratio_without_work = without_work
            .get(&Mode::Ebbtide)
            .zip(without_work.get(&Mode::Dram))
            .map(|(ebbtide, dram)| ebbtide / dram);
        let dram = results[&Mode::Dram].clone();
        for runner in runners.iter() {
            let mut outcome =
                self.outcome(runner, &results[&runner.mode], &dram, calibration, None);
            outcome.response_us = outcome.service_us;
            if runner.mode == Mode::Ebbtide {
                outcome.ratio_without_work = ratio_without_work;
            }
            report.results.push(outcome);
        }
        Ok(())
    }

    fn open(
        &self,
        runners: &mut [Runner],
        calibration: &Calibration,
        report: &mut Report,
    ) -> Result<(), BenchError> {
        // What DRAM-only can do at most is what loads are shares of.
        let full = self.rounds(&mut runners[..1], calibration, Arrivals::Closed, 3, (0.4, 0.45))?;
        let full = &full[&Mode::Dram];
        let capacity = Spread::of(full.iter().map(Round::jobs_per_s)).median;
        let count = self.options.loads.len() as f64;
        for (number, &load) in self.options.loads.iter().enumerate() {
            let arrivals = Arrivals::Poisson { jobs_per_s: capacity * load };
            let at = |step: f64| 0.45 + 0.55 * step / count;
            let span = (at(number as f64), at(number as f64 + 1.0));
            let results = self.rounds(runners, calibration, arrivals, self.options.rounds, span)?;
            for runner in runners.iter() {
                let rounds = &results[&runner.mode];
                report.results.push(self.outcome(runner, rounds, full, calibration, Some(load)));
            }
        }
        Ok(())
    }

    fn outcome(
        &self,
        runner: &Runner,
        rounds: &[Round],
        dram: &[Round],
        calibration: &Calibration,
        load: Option<f64>,
    ) -> Outcome {
        let spread = |figure: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(figure));
        let cores = self.options.cores as f64;
        let dram_of = |round: usize| &dram[round % dram.len()];
        let job_us = |round: usize| cores * 1e6 / dram_of(round).jobs_per_s();
        let each = |figure: &dyn Fn(usize, &Round) -> f64| {
            Spread::of(rounds.iter().enumerate().map(|(number, round)| figure(number, round)))
        };
        let missed = |figure: &dyn Fn(usize, &Round) -> f64| {
            let missed = |round: &Round| runner.mode != Mode::Dram && round.window.misses > 0;
            let values = rounds.iter().enumerate().filter(|(_, round)| missed(round));
            let mut values = values.map(|(number, round)| figure(number, round)).peekable();
            values.peek().is_some().then(|| Spread::of(values))
        };
        let engine = matches!(runner.mode, Mode::Sync | Mode::Ebbtide);
        let per_s = |count: u64, round: &Round| count as f64 / round.window.seconds;
        let service: Vec<Latency> = rounds.iter().map(|round| round.window.service_us).collect();
        let response: Vec<Latency> = rounds.iter().map(|round| round.window.response_us).collect();
        Outcome {
            workload: self.kind.name(),
            mode: runner.mode,
            cores: self.options.cores,
            load,
            jobs_per_s: spread(&Round::jobs_per_s),
            ratio_to_dram: each(&|number, round| round.jobs_per_s() / dram_of(number).jobs_per_s()),
            lru_miss_interval_us: (calibration.lru_misses_per_job > 0.0)
                .then(|| each(&|number, _| job_us(number) / calibration.lru_misses_per_job)),
            miss_interval_us: missed(&|number, round| {
                job_us(number) * round.window.jobs as f64 / round.window.misses as f64
            }),
            misses_per_job: missed(&|_, round| {
                round.window.misses as f64 / round.window.jobs as f64
            }),
            kernel_cpu_us_per_miss: missed(&|_, round| {
                let kernel_s = round.window.system_s + round.kernel_cpu_s;
                kernel_s * 1e6 / round.window.misses as f64
            }),
            cpu_us_per_miss: missed(&|number, round| {
                let dram = dram_of(number);
                let dram_cpu_per_job = dram.cpu_s() / dram.window.jobs as f64;
                let extra = round.cpu_s() - round.window.jobs as f64 * dram_cpu_per_job;
                extra * 1e6 / round.window.misses as f64
            }),
            service_us: LatencySpread::of(&service),
            response_us: LatencySpread::of(&response),
            flash_reads_per_s: spread(&|round| per_s(round.window.flash_reads, round)),
            flash_writes_per_s: spread(&|round| per_s(round.window.flash_writes, round)),
            flash_read_us: engine.then(|| spread(&|round| round.window.flash_read_us)),
            requests_per_submission: engine.then(|| {
                spread(&|round| {
                    let window = &round.window;
                    let requests = window.flash_reads + window.flash_writes;
                    requests as f64 / window.submissions.max(1) as f64
                })
            }),
            idle_share: engine
                .then(|| spread(&|round| round.window.idle_s / (round.window.seconds * cores))),
            rss_mib: spread(&|round| round.window.rss_bytes as f64 / (1 << 20) as f64),
            ratio_without_work: None,
            threads_per_core: runner.threads_per_core,
        }
    }

    fn child_error(&self, mode: Mode, reason: &str) -> BenchError {
        if self.cancel.is_cancelled() {
            return BenchError::Cancelled;
        }
        BenchError::Child { mode, workload: self.kind.name(), reason: reason.to_string() }
    }

    fn unexpected(&self, mode: Mode, reply: std::io::Result<Reply>) -> BenchError {
        match reply {
            Ok(Reply::Failed(reason)) | Ok(Reply::Unavailable(reason)) => {
                self.child_error(mode, &reason)
            }
            Ok(_) => self.child_error(mode, "it answered something else than it was asked"),
            Err(error) => self.child_error(mode, &error.to_string()),
        }
    }
}
