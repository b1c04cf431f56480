//! `ebbtide bench`: flash as memory on this machine. The experiment of AstriFlash (HPCA'23 §VI-A,
//! Fig. 9) on real hardware. The same jobs run in DRAM, under OS paging, with blocking reads, and
//! in Ebbtide's engine.
//!
//! Every memory is a child process. Rounds are interleaved, and ratios are taken round by round. So
//! other activity of the machine affects all memories alike.

#![cfg_attr(
    not(feature = "memories"),
    allow(dead_code, unused_imports, reason = "only the memories use a part of it")
)]

mod against;
mod calibrate;
mod changes;
mod child;
mod children;
mod conditions;
mod data;
mod doubts;
mod error;
mod figures;
mod finding;
mod job_stream;
mod loaded_workload;
mod measured;
mod memory_server;
mod options;
mod outcome;
mod profile;
mod profiling;
mod protocol;
mod raw_ring;
mod replay;
mod report;
mod results;
mod round;
mod rounds;
mod runner;
mod slowest;
mod spread;
mod steady;
mod text;

use std::path::PathBuf;

use ebbtide_core::durability::Policy;
use ebbtide_core::{PAGE_BYTES, Watch};
use ebbtide_engine::{Budget, EngineError, Tuning, affinity, check_replacement};
use ebbtide_workloads::{Kind, Shape, Workload};

pub use against::Earlier;
pub use changes::{Against, Change, Verdict};
pub use child::{CHILD_VERB, die_with_parent};
pub use conditions::{BenchRun, Conditions};
pub use error::BenchError;
pub use figures::{Figure, Value};
pub use loaded_workload::{DURABLE_WORKLOADS, GRAPH_WORKLOADS, GraphFile};
#[cfg(feature = "memories")]
pub use memory_server::serve;
pub use options::{Arrivals, BenchOptions, Dram, Flash, Mode};
pub use profile::{ModeCosts, Profile, ReadsAt, Submission};
pub use profiling::measure as measure_profile;
pub use protocol::{Calibration, Committed, Latency, Setup, SlowestJobs, WindowArrivals};
pub use results::{
    BenchConfig, BenchMachine, BenchReport, ByRound, Effect, Failure, ModeOutcome, Tried,
    WorkloadFacts,
};
pub use spread::Spread;

use crate::doctor::machine::MachineSummary;
use data::DataPlaces;
use loaded_workload::{LoadedWorkload, subjects};
use replay::StoredSteps;
use runner::Bench;

/// A bench that measures each mode for less than this, in seconds, is short. It has a shorter
/// warm-up and shorter measurements during set-up.
const SHORT_BENCH_S: f64 = 1.0;

/// The least share of its usual length that a measurement of the set-up takes.
const SETUP_SHARE_MIN: f64 = 0.05;

/// How long a bench measures each mode, as a share of [`SHORT_BENCH_S`]; 1 if it is not short.
fn length_share(options: &BenchOptions) -> f64 {
    (options.rounds as f64 * options.seconds / SHORT_BENCH_S).min(1.0)
}

/// The share of its usual length that each measurement of the set-up takes: the device's speed, the
/// calibration, the trials of paging.
fn setup_share(options: &BenchOptions) -> f64 {
    length_share(options).max(SETUP_SHARE_MIN)
}

/// The most windows of a warm-up. If writes are not steady after them, the memory is measured all
/// the same, with a notice.
const WARM_UP_WINDOWS_MAX: usize = 20;

/// Returns the length of a window of the warm-up before the first measured round, in seconds. A
/// memory that writes has windows until its pages a write are steady ([`steady`]).
fn warm_up_s(mode: Mode, options: &BenchOptions) -> f64 {
    let seconds = match mode {
        Mode::Dram => 0.2,
        // Paging is warmed while its number of threads is chosen.
        Mode::Paging => 0.0,
        Mode::Sync => 2.0,
        Mode::Ebbtide | Mode::Mapped | Mode::Plain | Mode::Durable => 2.0,
    };
    seconds * length_share(options)
}

/// Runs a bench. A memory or a workload that fails is reported in [`BenchReport::failures`], and
/// the others go on.
///
/// # Errors
/// [`BenchError`] if an option is invalid, `watch` requests a stop, or no workload has a result.
/// Options are checked before anything is written.
pub fn run(options: &BenchOptions, watch: Watch<'_>) -> Result<BenchRun, BenchError> {
    let cpus = check(options)?;
    let mut options = options.clone();
    let subjects = subjects(&mut options)?;
    let options = &options;
    check_room(options, &subjects, &cpus)?;
    let replayed = subjects.iter().filter_map(|subject| subject.replay.as_ref());
    let mut report = BenchReport {
        machine: BenchMachine::new(&MachineSummary::of_system(), &cpus),
        config: BenchConfig { options: options.clone(), dram_bytes: options.dram_bytes() },
        workloads: Vec::new(),
        results: Vec::new(),
        tried: Vec::new(),
        failures: Vec::new(),
        notices: replayed.flat_map(|kept| kept.notices.clone()).collect(),
        against: None,
    };
    if matches!(options.device, Flash::Ram(_)) && options.modes.contains(&Mode::Paging) {
        report.notices.push("paging: left out: the kernel pages from files only".into());
    }
    let mut conditions = Vec::new();
    let given = options.machine.as_deref().filter(|_| options.predict);
    let given = given.map(Profile::read).transpose()?;
    // The cost of a miss drifts on a shared machine. It is measured again for each workload, which
    // takes about as long as the workload.
    let measures = options.predict && given.is_none();
    let steps = if measures { 2.0 } else { 1.0 };
    let mut failed = None;
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
        if let Err(error) = bench.run(&mut report, &mut conditions) {
            // The results of the other workloads are not lost with this one's.
            if error.is_input() || matches!(error, BenchError::Stopped(_)) {
                return Err(error);
            }
            report.failures.push(Failure::of_workload(subject.program.name(), &error));
            failed = Some(error);
        }
    }
    if let Some(error) = failed.filter(|_| report.results.is_empty()) {
        return Err(error);
    }
    watch.tell("done", 1.0)?;
    Ok(BenchRun { report, conditions })
}

/// Refuses invalid options and returns the CPUs to use.
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
    if let Flash::Ram(_) = options.device {
        if options.cores == allowed.len() {
            return bad(format!(
                "--device {}: memory in place of a drive needs a CPU beside --cores {}, and this \
                 machine offers {}",
                options.device,
                options.cores,
                allowed.len()
            ));
        }
        if options.predict {
            return bad(format!("--device {}: --predict is for a drive", options.device));
        }
        if let Some(path) = options.device_path {
            return bad(format!(
                "--device {}: --device-path {path} is for a drive",
                options.device
            ));
        }
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
    // The last CPUs: the first ones handle most interrupts and system tasks.
    Ok(allowed[allowed.len() - options.cores..].to_vec())
}

/// Refuses a budget that is too small or data that does not fit. Writes nothing.
fn check_room(
    options: &BenchOptions,
    subjects: &[LoadedWorkload],
    cpus: &[usize],
) -> Result<(), BenchError> {
    let dram = options.dram_bytes();
    if dram > options.dataset_bytes {
        return Err(BenchError::BadInput(format!(
            "--dram: {dram} bytes are more than the dataset of {} bytes",
            options.dataset_bytes
        )));
    }
    if let Some(policy) = options.durability {
        check_durability(options, policy, subjects)?;
    }
    let stored: Vec<Mode> = stored_modes(options).collect();
    check_memory(options, stored.len() as u64)?;
    let mut missing = Vec::new();
    for subject in subjects {
        if !stored.is_empty() {
            check_engine(options, subject, cpus)?;
        }
        if options.device == Flash::Data {
            missing.extend(places(options, subject).missing(&stored)?);
        }
    }
    data::check_room(&missing)
}

/// Refuses what cannot be compared with a store that survives crashes.
fn check_durability(
    options: &BenchOptions,
    policy: Policy,
    subjects: &[LoadedWorkload],
) -> Result<(), BenchError> {
    let bad =
        |reason: String| Err(BenchError::BadInput(format!("--durability {policy}: {reason}")));
    if !options.modes.contains(&Mode::Ebbtide) {
        return bad("it is compared with Ebbtide without, so --mode must name ebbtide".into());
    }
    if !options.tries().is_empty() {
        return bad(format!("one thing is tried at a time, leave out {}", options.tries()));
    }
    if options.device != Flash::Data {
        return bad("memory does not survive crashes, leave out --device".into());
    }
    if options.predict {
        return bad("the simulator does not predict it, leave out --predict".into());
    }
    match subjects.iter().find(|subject| !subject.program.commits()) {
        Some(subject) => {
            let names = DURABLE_WORKLOADS.map(Kind::name).join(", ");
            bad(format!("{} has no transactions, {names} have", subject.program.name()))
        }
        None => Ok(()),
    }
}

/// Refuses memories that do not fit: DRAM-only and each of `stored` memories over memory have all
/// data resident.
fn check_memory(options: &BenchOptions, stored: u64) -> Result<(), BenchError> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let pages = options.dataset_bytes / PAGE_BYTES as u64;
    let spare_bytes = data::spare_pages(pages, true) * PAGE_BYTES as u64;
    let (needed_bytes, who) = match options.device {
        Flash::Data => (options.dataset_bytes, "DRAM-only keeps all of it in memory"),
        Flash::Ram(_) => (
            options.dataset_bytes + stored * (options.dataset_bytes + spare_bytes),
            "DRAM-only and memory in place of a drive keep all of it in memory",
        ),
    };
    match kib.map(|kib| kib << 10) {
        Some(available_bytes) if available_bytes < needed_bytes => {
            Err(BenchError::BadInput(format!(
                "--dataset: {who}, {}, and {} are available",
                data::mib(needed_bytes),
                data::mib(available_bytes),
            )))
        }
        _ => Ok(()),
    }
}

/// Refuses options that the engine would refuse, in terms of the command's options.
fn check_engine(
    options: &BenchOptions,
    subject: &LoadedWorkload,
    cpus: &[usize],
) -> Result<(), BenchError> {
    let bad = |message: String| Err(BenchError::BadInput(message));
    let tuning = &options.tuning;
    for (option, given, allowed) in [
        ("--threads", tuning.threads, Tuning::THREADS),
        ("--batch", Some(tuning.batch_max), Tuning::BATCHES),
        ("--policy-parts", tuning.policy_parts, Tuning::POLICY_PARTS),
    ] {
        if let Some(given) = given.filter(|given| !allowed.contains(given)) {
            let (least, most) = allowed.into_inner();
            return bad(format!("{option} {given}: expected {least} to {most}"));
        }
    }
    let setup = setup(options, subject, Mode::Ebbtide, cpus, (PathBuf::new(), 0));
    let bytes = subject.program.size_bytes();
    let engine = memory_server::engine_options(&setup);
    if let Err(error) = check_replacement(engine.tuning.replacement) {
        return bad(format!("--replacement: {error}"));
    }
    match Budget::divide(&engine, bytes / PAGE_BYTES as u64) {
        Err(error @ EngineError::BudgetTooSmall { .. }) => {
            bad(format!("--dram: {}: {error}", subject.program.name()))
        }
        Err(other) => bad(other.to_string()),
        Ok(_) => Ok(()),
    }
}

/// Returns the modes except DRAM-only, each once. Tried techniques are compared with the plain
/// engine.
fn stored_modes(options: &BenchOptions) -> impl Iterator<Item = Mode> {
    let compared = options.modes.contains(&Mode::Ebbtide) && options.arrivals == Arrivals::Closed;
    let plain = (compared && !options.tries().is_empty()).then_some(Mode::Plain);
    let chosen = Mode::ALL.into_iter();
    let file = options.device == Flash::Data;
    let here = move |mode: &Mode| match mode {
        Mode::Dram => false,
        Mode::Paging => file,
        Mode::Sync | Mode::Ebbtide | Mode::Mapped | Mode::Plain | Mode::Durable => true,
    };
    let durable = options.durability.map(|_| Mode::Durable);
    let chosen = chosen.filter(move |mode| here(mode) && options.modes.contains(mode));
    chosen.chain(plain).chain(durable)
}

/// The data files of `subject`. The tag names everything that the image depends on.
fn places(options: &BenchOptions, subject: &LoadedWorkload) -> DataPlaces {
    let name = subject.program.name();
    let tag = match &subject.graph {
        None if subject.replay.is_some() => format!("{name} seed={}", options.seed),
        None => format!("{name} scatter={} seed={}", options.scatter, options.seed),
        Some(graph) => format!("{name} graph={:016x} seed={}", graph.checksum, options.seed),
    };
    DataPlaces::new(&options.data, &subject.program, tag, options.force)
}

/// The setup of a child as `mode`, with its data at `(file, offset)`.
fn setup(
    options: &BenchOptions,
    subject: &LoadedWorkload,
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
        replay: subject.replay.as_ref().map(StoredSteps::path),
        stack_bytes: subject.program.stack_bytes(),
        theta: options.theta,
        scatter: options.scatter,
        seed: options.seed,
        dram_bytes: options.dram_bytes(),
        cpus: cpus.to_vec(),
        device: options.device,
        data,
        device_path: options.device_path,
        offset,
        durability: options.durability.unwrap_or_default(),
        tuning,
        work_instructions: 0,
        setup_share: setup_share(options),
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
    fn a_short_bench_measures_less_while_it_is_set_up() {
        let share = |rounds, seconds| {
            let options = BenchOptions { rounds, seconds, ..BenchOptions::new("data".into()) };
            (setup_share(&options), warm_up_s(Mode::Ebbtide, &options))
        };
        assert_eq!(share(5, 0.4), (1.0, 2.0));
        assert_eq!(share(1, 60.0), (1.0, 2.0));
        assert_eq!(share(2, 0.25), (0.5, 1.0));
        assert_eq!(share(1, 0.01), (SETUP_SHARE_MIN, 0.02));
    }
}
