//! The results of a bench, for JSON, tables and charts.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::changes::Against;
use super::figures::{self, Figure, Value};
use super::options::Mode;
use super::protocol::Calibration;
use super::spread::Spread;
use crate::doctor::machine::{MachineSummary, ServedBy};

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
    /// The figures that apply. In JSON each has its own name, and one that does not apply is null.
    #[serde(flatten, serialize_with = "figures::serialize")]
    pub figures: BTreeMap<Figure, Value>,
    /// Throughput and tail of each round. The other figures are computed from them.
    pub by_round: ByRound,
    /// Reasons to doubt this outcome; empty if there is none.
    pub doubts: Vec<String>,
}

impl ModeOutcome {
    /// Returns a figure of several rounds; `None` if it does not apply.
    pub fn spread(&self, figure: Figure) -> Option<Spread> {
        self.figures.get(&figure)?.spread()
    }

    /// Returns `figure` as a number, of several rounds the median; `None` if it does not apply.
    pub fn number(&self, figure: Figure) -> Option<f64> {
        self.figures.get(&figure)?.number()
    }
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
        let error = |outcome: &ModeOutcome| outcome.number(Figure::PredictionError);
        let mut errors = self.results.iter().filter_map(error).map(f64::abs).peekable();
        errors.peek()?;
        let spread = Spread::of(errors);
        Some((spread.median, spread.max))
    }
}
