//! The results of a bench, for JSON, tables and charts.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::changes::Against;
use super::durable::Durable;
use super::options::Mode;
use super::protocol::{Calibration, Latency, Window};
use super::spread::Spread;
use crate::doctor::machine::{MachineSummary, ServedBy};

/// A latency over several rounds, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LatencySpread {
    /// Medians of the rounds.
    pub p50: Spread,
    /// 99th percentiles of the rounds.
    pub p99: Spread,
    /// 99.9th percentiles of the rounds.
    pub p999: Spread,
}

impl LatencySpread {
    pub(super) fn of(rounds: &[Latency]) -> LatencySpread {
        LatencySpread {
            p50: Spread::of(rounds.iter().map(|latency| latency.p50)),
            p99: Spread::of(rounds.iter().map(|latency| latency.p99)),
            p999: Spread::of(rounds.iter().map(|latency| latency.p999)),
        }
    }
}

/// The effect of prefetching, over several rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AheadSpread {
    /// Pages prefetched per second.
    pub pages_per_s: Spread,
    /// The share of prefetched pages that was used.
    pub accuracy: Spread,
    /// The share of used prefetches that a job had to wait for.
    pub lateness: Spread,
    /// The share of misses on pages that a prefetch evicted; 0 without a prefetcher.
    pub pollution: Spread,
}

impl AheadSpread {
    /// `None` if nothing was prefetched.
    pub(super) fn of<'a>(rounds: impl Iterator<Item = &'a Window> + Clone) -> Option<AheadSpread> {
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        let of = |figure: &dyn Fn(&Window) -> f64| Spread::of(rounds.clone().map(figure));
        rounds.clone().any(|window| window.fetched_ahead > 0).then(|| AheadSpread {
            pages_per_s: of(&|window| window.fetched_ahead as f64 / window.seconds),
            accuracy: of(&|window| share(window.ahead_used, window.fetched_ahead)),
            lateness: of(&|window| share(window.ahead_late, window.ahead_used)),
            pollution: of(&|window| share(window.polluted, window.misses)),
        })
    }
}

/// Mean times of the slowest hundredth of the jobs, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SlowestSpread {
    /// From a job's intended arrival to its end.
    pub response_us: Spread,
    /// The part of it before the job's start.
    pub queueing_us: Spread,
}

/// The cost of page reads through a ring between the jobs of a program in DRAM.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RawRingCost {
    /// CPU time of a read, with the kernel's threads, in microseconds.
    pub cpu_us_per_read: Spread,
    /// Reads handed to the kernel at a time, as many as the engine handed over.
    pub batch: u32,
    /// The most reads in flight, as many as the engine had.
    pub in_flight: u32,
}

/// One workload in one memory, at one load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModeOutcome {
    /// Workload.
    pub workload: &'static str,
    /// Memory.
    pub mode: Mode,
    /// Cores.
    pub cores: usize,
    /// Offered load as a share of DRAM-only's throughput; `None` in a closed loop.
    pub load: Option<f64>,
    /// Jobs per second.
    pub jobs_per_s: Spread,
    /// Jobs per second divided by DRAM-only's in the same round. In an open loop, divided by
    /// DRAM-only's maximum. Exactly 1 for DRAM-only in a closed loop.
    pub ratio_to_dram: Spread,
    /// Execution between misses that plain LRU would have, in microseconds; `None` if it would not
    /// miss.
    pub lru_miss_interval_us: Option<Spread>,
    /// Execution between misses, in microseconds; `None` for DRAM-only and where nothing missed.
    pub miss_interval_us: Option<Spread>,
    /// Misses per job; `None` for DRAM-only and where nothing missed.
    pub misses_per_job: Option<Spread>,
    /// CPU time per page read, for a miss or ahead of demand, in microseconds. It is all CPU time
    /// beyond DRAM-only's for the same jobs, the kernel's threads included. `None` for DRAM-only
    /// and where nothing missed.
    pub cpu_us_per_miss: Option<Spread>,
    /// CPU time of the kernel per page read, its own threads included, in microseconds. `None` for
    /// DRAM-only and where nothing missed.
    pub kernel_cpu_us_per_miss: Option<Spread>,
    /// Time from a job's start to its end.
    pub service_us: LatencySpread,
    /// Time from a job's intended arrival to its end. In a closed loop a job arrives when it
    /// starts, so this is equal to `service_us`.
    pub response_us: LatencySpread,
    /// Where the slowest jobs spend their time, in an open loop.
    #[serde(default)]
    pub slowest: Option<SlowestSpread>,
    /// Pages read from flash per second.
    pub flash_reads_per_s: Spread,
    /// Pages written to flash per second.
    pub flash_writes_per_s: Spread,
    /// Median flash read, from the miss to the page's arrival, in microseconds.
    pub flash_read_us: Option<Spread>,
    /// 99th percentile of a flash read, from the miss to the page's arrival, in microseconds.
    #[serde(default)]
    pub flash_read_p99_us: Option<Spread>,
    /// Mean part of a flash read before its submission, in microseconds.
    #[serde(default)]
    pub flash_read_held_us: Option<Spread>,
    /// Pages that a write to flash carried, where the engine wrote.
    pub pages_per_write: Option<Spread>,
    /// Pages, read or written, per submission to the kernel, in an engine.
    pub requests_per_submission: Option<Spread>,
    /// The effect of prefetching, if anything was prefetched.
    pub ahead: Option<AheadSpread>,
    /// Share of the time that a core was idle, in an engine.
    pub idle_share: Option<Spread>,
    /// Resident memory in MiB, with the program's text, without the kernel's memory for it.
    pub rss_mib: Spread,
    /// The most memory in the rounds, in bytes, with the kernel's memory and without the program's
    /// text; `None` without a control group.
    #[serde(default)]
    pub peak_bytes: Option<u64>,
    /// The part of the peak above the DRAM budget, if there is one.
    #[serde(default)]
    pub over_budget_bytes: Option<u64>,
    /// The most bytes of its stack that a job has used, in an engine.
    pub stack_used_bytes: Option<u64>,
    /// Bytes of the data in the page cache at the end, under paging.
    pub page_cache_bytes: Option<u64>,
    /// The cost of surviving crashes, in [`Mode::Durable`].
    pub durable: Option<Durable>,
    /// The cost of a read through a raw ring in place of each miss, in [`Mode::Ebbtide`].
    #[serde(default)]
    pub raw_ring: Option<RawRingCost>,
    /// Throughput divided by DRAM-only's without work added to jobs, measured once, in
    /// [`Mode::Ebbtide`].
    pub ratio_without_work: Option<f64>,
    /// Kernel threads per core, if they were chosen by trial.
    pub threads_per_core: Option<usize>,
    /// Throughput and tail of each round. The other figures are computed from them.
    pub by_round: ByRound,
    /// Share of the CPUs under test that other programs used during the measurement.
    pub others_cpu_share: Spread,
    /// Share of the CPUs under test that the host gave to other guests during the measurement.
    pub steal_share: Spread,
    /// Number of rounds measured. Rounds beyond the wished number replaced disturbed ones.
    pub rounds_measured: usize,
    /// Reasons to doubt this outcome; empty if there is none.
    pub doubts: Vec<String>,
    /// Jobs per second that the simulator predicts, if it was run.
    pub predicted_jobs_per_s: Option<f64>,
    /// Misses per job that the simulator predicts, if it was run.
    pub predicted_misses_per_job: Option<f64>,
    /// Predicted divided by measured throughput, minus 1.
    pub prediction_error: Option<f64>,
}

/// Figures of each round, in the order of measurement.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ByRound {
    /// Jobs per second.
    pub jobs_per_s: Vec<f64>,
    /// Jobs per second divided by DRAM-only's.
    pub ratio_to_dram: Vec<f64>,
    /// 99th percentile of the response time, in microseconds.
    pub p99_us: Vec<f64>,
}

/// A memory, or a whole workload, that failed. The others were measured without it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failure {
    /// Workload.
    pub workload: &'static str,
    /// Memory; `None` where the workload failed as a whole.
    pub mode: Option<Mode>,
    /// What happened.
    pub reason: String,
    /// What to do about it.
    pub advice: String,
}

impl Failure {
    pub(super) fn of_memory(workload: &'static str, mode: Mode, reason: &str) -> Failure {
        let others: Vec<&str> =
            Mode::USUAL.into_iter().filter(|other| *other != mode).map(Mode::name).collect();
        let without = format!("leave it out with --mode {}", others.join(","));
        let advice = match mode {
            Mode::Paging => format!("give it more with --dram, or {without}"),
            Mode::Durable => "leave out --durability".into(),
            _ => format!("run it alone with --mode {mode}, or {without}"),
        };
        Failure { workload, mode: Some(mode), reason: reason.to_string(), advice }
    }
}

impl Failure {
    pub(super) fn of_workload(workload: &'static str, error: &impl fmt::Display) -> Failure {
        let advice = format!("run it alone: ebbtide bench {workload}");
        Failure { workload, mode: None, reason: error.to_string(), advice }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { workload, mode, reason, advice } = self;
        match mode {
            Some(mode) => write!(f, "{workload}: {mode} failed: {reason}; {advice}"),
            None => write!(f, "{workload} failed: {reason}; {advice}"),
        }
    }
}

/// The effect of the techniques that were tried, on one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tried {
    /// Workload.
    pub workload: &'static str,
    /// The techniques, as options of the command.
    pub what: String,
    /// The measured effect.
    pub measured: Effect,
    /// The effect in the simulator with the same policies, if a prediction was requested.
    pub simulated: Option<Effect>,
}

/// The effect of a technique.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// Misses per job without the technique.
    pub misses_per_job_without: f64,
    /// Misses per job with the technique.
    pub misses_per_job_with: f64,
    /// Throughput with the technique divided by throughput without it. If measured, the median of
    /// the rounds' ratios.
    pub speedup: f64,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Effect { misses_per_job_without: without, misses_per_job_with: with, speedup } = self;
        let change = 100.0 * (speedup - 1.0);
        write!(f, "{without:.2} -> {with:.2} misses a job, {change:+.1}% jobs/s")
    }
}

/// A workload and its calibration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkloadFacts {
    /// Workload.
    pub workload: &'static str,
    /// Pages of its data.
    pub pages: u64,
    /// The calibration of its jobs.
    pub calibration: Calibration,
}

/// The machine a bench ran on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchMachine {
    /// Kernel release.
    pub kernel: String,
    /// CPUs that could be used.
    pub cores: usize,
    /// The CPUs that were used.
    pub cpus_used: Vec<usize>,
    /// Mean 4 KiB random read with one in flight, in microseconds; `None` where reads are served by
    /// DRAM instead of the disk.
    pub read_us_qd1: Option<f64>,
    /// Mean 4 KiB random read with 32 in flight, in microseconds.
    pub read_us_qd32: Option<f64>,
    /// 4 KiB random reads per second with 32 in flight.
    pub reads_per_s_qd32: Option<f64>,
    /// A summary in a line, with the processor and the disk.
    pub headline: String,
}

impl BenchMachine {
    pub(super) fn new(summary: &MachineSummary, cpus: &[usize]) -> BenchMachine {
        let from_disk = summary.reads_from == ServedBy::Disk;
        let reads_at = |depth| summary.reads_at(depth).filter(|_| from_disk);
        BenchMachine {
            kernel: summary.kernel.clone(),
            cores: summary.cores_usable,
            cpus_used: cpus.to_vec(),
            read_us_qd1: reads_at(1).map(|reads| reads.mean_us),
            read_us_qd32: reads_at(32).map(|reads| reads.mean_us),
            reads_per_s_qd32: reads_at(32).map(|reads| reads.iops),
            headline: summary.headline(),
        }
    }
}

/// The settings of a bench, fully resolved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchConfig {
    /// The options as given, with defaults for the others.
    #[serde(flatten)]
    pub options: super::BenchOptions,
    /// The resolved DRAM budget, in bytes.
    pub dram_bytes: u64,
}

/// The result of a bench. In JSON a figure is an object of `median`, `min` and `max`. A latency is
/// an object of `p50`, `p99` and `p999`. A figure that does not apply is null.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchReport {
    /// The machine.
    pub machine: BenchMachine,
    /// The settings.
    pub config: BenchConfig,
    /// The workloads.
    pub workloads: Vec<WorkloadFacts>,
    /// The outcomes.
    pub results: Vec<ModeOutcome>,
    /// The effects of the techniques that were tried.
    pub tried: Vec<Tried>,
    /// The memories and workloads that failed.
    pub failures: Vec<Failure>,
    /// Notes for the user.
    pub notices: Vec<String>,
    /// The changes since an earlier bench, if one was named.
    pub against: Option<Against>,
}

impl BenchReport {
    /// The median and the largest error of all predictions, by size; `None` without any.
    pub(crate) fn prediction_errors(&self) -> Option<(f64, f64)> {
        let errors = self.results.iter().filter_map(|outcome| outcome.prediction_error);
        let mut errors = errors.map(f64::abs).peekable();
        errors.peek()?;
        let spread = Spread::of(errors);
        Some((spread.median, spread.max))
    }
}
