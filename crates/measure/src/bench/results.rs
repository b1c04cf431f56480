//! The results of a bench, for JSON, tables and charts.

use std::fmt;

use ebbtide_report::Table;
use serde::Serialize;

use super::options::{Flash, Mode};
use super::protocol::{Calibration, Latency, Window};
use crate::doctor::machine::MachineSummary;

/// A figure over several rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one, or the mean of the two middle ones.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of `values`; zeros of an empty list.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
            return Spread { median: 0.0, min: 0.0, max: 0.0 };
        };
        let median = (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0;
        Spread { median, min, max }
    }
}

/// A latency over several rounds, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct LatencySpread {
    /// Medians of the rounds.
    pub p50: Spread,
    /// Their 99th percentiles.
    pub p99: Spread,
    /// Their 99.9th percentiles.
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
    /// Pages prefetched a second.
    pub pages_per_s: Spread,
    /// The share of them that was used.
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
    /// Jobs a second.
    pub jobs_per_s: Spread,
    /// Jobs a second over DRAM-only's of the same round, or in an open loop over the most that
    /// DRAM-only can do; exactly 1 for DRAM-only itself in a closed loop.
    pub ratio_to_dram: Spread,
    /// Execution between misses that plain LRU would have, in microseconds; `None` if it would not
    /// miss.
    pub lru_miss_interval_us: Option<Spread>,
    /// Execution between misses, in microseconds; `None` for DRAM-only and where nothing missed.
    pub miss_interval_us: Option<Spread>,
    /// Misses a job; `None` likewise.
    pub misses_per_job: Option<Spread>,
    /// CPU that a page read costs, for a miss or ahead of demand; `None` likewise: all CPU used,
    /// the kernel's threads included, beyond what DRAM-only uses for the same jobs.
    pub cpu_us_per_miss: Option<Spread>,
    /// The CPU that the kernel used, its own threads included, over the same pages.
    pub kernel_cpu_us_per_miss: Option<Spread>,
    /// From a job's start to its end.
    pub service_us: LatencySpread,
    /// From a job's intended arrival to its end. In a closed loop a job arrives when it is started:
    /// equal to `service_us`.
    pub response_us: LatencySpread,
    /// Pages read a second.
    pub flash_reads_per_s: Spread,
    /// Pages written a second.
    pub flash_writes_per_s: Spread,
    /// Median flash read, from the miss to the page's arrival, in microseconds.
    pub flash_read_us: Option<Spread>,
    /// Pages that a write to flash carried, where the engine wrote.
    pub pages_per_write: Option<Spread>,
    /// Pages handed to the kernel at a time, those read and those written.
    pub requests_per_submission: Option<Spread>,
    /// The effect of prefetching, if anything was prefetched.
    pub ahead: Option<AheadSpread>,
    /// Share of the time in which a core had nothing to run.
    pub idle_share: Option<Spread>,
    /// Resident memory in MiB.
    pub rss_mib: Spread,
    /// Bytes of the data that the kernel held in DRAM in the end, where it was what paged.
    pub page_cache_bytes: Option<u64>,
    /// Throughput over DRAM-only's with no work added to jobs, measured once.
    pub ratio_without_work: Option<f64>,
    /// Kernel threads a core, where they were chosen by trial.
    pub threads_per_core: Option<usize>,
    /// Jobs a second that the simulator expects, where it was asked.
    pub predicted_jobs_per_s: Option<f64>,
    /// Misses a job that it expects.
    pub predicted_misses_per_job: Option<f64>,
    /// Predicted over measured, less one.
    pub prediction_error: Option<f64>,
}

/// The effect of the techniques that were tried, on one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tried {
    /// Workload.
    pub workload: &'static str,
    /// The techniques, as options of the command.
    pub what: String,
    /// Measured here.
    pub measured: Effect,
    /// In the simulator with the same policies, if a prediction was requested.
    pub simulated: Option<Effect>,
}

/// The effect of a technique.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// Misses a job without it.
    pub misses_per_job_without: f64,
    /// Misses a job with it.
    pub misses_per_job_with: f64,
    /// Jobs a second with it over those without it; measured, the median of the rounds' ratios.
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
    /// Mean 4 KiB random read with one in flight, in microseconds.
    pub read_us_qd1: Option<f64>,
    /// Mean 4 KiB random read with 32 in flight, in microseconds.
    pub read_us_qd32: Option<f64>,
    /// 4 KiB random reads a second with 32 in flight.
    pub reads_per_s_qd32: Option<f64>,
    /// A summary in a line, with the processor and the disk.
    pub headline: String,
}

impl BenchMachine {
    pub(super) fn new(summary: &MachineSummary, cpus: &[usize]) -> BenchMachine {
        BenchMachine {
            kernel: summary.kernel.clone(),
            cores: summary.cores_usable,
            cpus_used: cpus.to_vec(),
            read_us_qd1: summary.reads_at(1).map(|reads| reads.mean_us),
            read_us_qd32: summary.reads_at(32).map(|reads| reads.mean_us),
            reads_per_s_qd32: summary.reads_at(32).map(|reads| reads.iops),
            headline: summary.headline(),
        }
    }
}

/// The settings of a bench, fully resolved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchConfig {
    /// As given, or by default.
    #[serde(flatten)]
    pub options: super::BenchOptions,
    /// The DRAM budget that they come to, in bytes.
    pub dram_bytes: u64,
}

/// The result of a bench. In JSON a figure is an object of `median`, `min` and `max`, a latency is
/// an object of `p50`, `p99` and `p999`, and a figure that does not apply is null.
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
    /// Notes for the user.
    pub notices: Vec<String>,
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

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        writeln!(f, "{}; used: CPU {}", machine.headline, list(&machine.cpus_used))?;
        if let Flash::Ram(latency) = self.config.options.device {
            writeln!(f, "in place of a drive: memory that answers after {latency} at no CPU cost")?;
        }
        for facts in &self.workloads {
            let calibration = &facts.calibration;
            writeln!(
                f,
                "\n{}: {} MiB, {}, LRU would miss {:.2} times a job, every {:.1} us; {:.0}% of a \
                 job's {:.1} us is added work",
                facts.workload,
                facts.pages >> 8,
                match &self.config.options.trace {
                    Some(trace) => trace.display().to_string(),
                    None => format!("Zipf {}", self.config.options.theta),
                },
                calibration.lru_misses_per_job,
                calibration.job_ns / calibration.lru_misses_per_job / 1e3,
                calibration.work_share * 100.0,
                calibration.job_ns / 1e3,
            )?;
            let own = self.results.iter().filter(|o| o.workload == facts.workload);
            write!(f, "{}", BenchReport::figures(own))?;
            for outcome in self.results.iter().filter(|o| o.workload == facts.workload) {
                if let Some(line) = where_the_rest_goes(outcome) {
                    writeln!(f, "{line}")?;
                }
                if let Some(line) = on_other_drives(outcome) {
                    writeln!(f, "{line}")?;
                }
                if let Some(line) = predicted(outcome) {
                    writeln!(f, "{line}")?;
                }
                if let Some(ahead) = &outcome.ahead {
                    writeln!(
                        f,
                        "  ahead of demand: {:.0} pages/s, {:.0}% of them used, {:.0}% of those \
                         late; {:.1}% of misses on pages that made room for one",
                        ahead.pages_per_s.median,
                        ahead.accuracy.median * 100.0,
                        ahead.lateness.median * 100.0,
                        ahead.pollution.median * 100.0,
                    )?;
                }
                if let Some(ratio) = outcome.ratio_without_work {
                    writeln!(f, "  without added work, {} keeps {ratio:.3} of DRAM", outcome.mode)?;
                }
            }
        }
        for Tried { workload, what, measured, simulated } in &self.tried {
            writeln!(f, "\n{workload}, {what}: measured {measured}")?;
            match simulated {
                Some(simulated) => writeln!(f, "  simulated {simulated}")?,
                None => writeln!(f, "  --predict says what the simulator expects of it")?,
            }
        }
        if let Some((median, most)) = self.prediction_errors() {
            let (median, most) = (median * 100.0, most * 100.0);
            writeln!(f, "\npredictions are off by {median:.1}% (median), at most {most:.1}%")?;
        }
        for notice in &self.notices {
            writeln!(f, "\nnote: {notice}")?;
        }
        Ok(())
    }
}

fn list(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// The prediction beside the measurement.
fn predicted(outcome: &ModeOutcome) -> Option<String> {
    let (jobs_per_s, error) = outcome.predicted_jobs_per_s.zip(outcome.prediction_error)?;
    let (mode, error) = (outcome.mode, error * 100.0);
    let line = format!("  predicted {mode:<8} {jobs_per_s:>9.0} jobs/s, {error:+.1}%");
    let misses = outcome.predicted_misses_per_job.zip(outcome.misses_per_job);
    Some(misses.map_or(line.clone(), |(expected, measured)| {
        format!("{line}; {expected:.2} misses a job, measured {:.2}", measured.median)
    }))
}

/// Ebbtide's loss against DRAM-only, from counters.
fn where_the_rest_goes(outcome: &ModeOutcome) -> Option<String> {
    if outcome.mode != Mode::Ebbtide || outcome.load.is_some() {
        return None;
    }
    let kernel = outcome.kernel_cpu_us_per_miss?.median;
    // The rest is time of the engine, and of caches that a miss leaves cold.
    let rest = (outcome.cpu_us_per_miss?.median - kernel).max(0.0);
    Some(format!(
        "  where the rest goes: of {:.2} us CPU a miss {kernel:.2} in the kernel, {rest:.2} in the \
         engine and cold caches; {:.1}% of the time idle; {:.0} pages a submission, {:.0} us a read",
        outcome.cpu_us_per_miss?.median,
        outcome.idle_share?.median * 100.0,
        outcome.requests_per_submission?.median,
        outcome.flash_read_us?.median,
    ))
}

/// CPU that a read costs on drives that need less of the kernel, in microseconds: what is published
/// for polled NVMe passthrough, and twice that.
const OTHER_DRIVES_CPU_US: [f64; 2] = [0.3, 0.6];

/// What decides Ebbtide's ratio, the CPU of a miss and the execution between misses, and what the
/// ratio would be on a drive whose reads cost less CPU: 1 / (1 + c/m).
fn on_other_drives(outcome: &ModeOutcome) -> Option<String> {
    if outcome.mode != Mode::Ebbtide || outcome.load.is_some() {
        return None;
    }
    let c = outcome.cpu_us_per_miss?.median;
    let (own, m) = (c - outcome.kernel_cpu_us_per_miss?.median, outcome.miss_interval_us?.median);
    let ratio = |cost: f64| 1.0 / (1.0 + cost / m);
    let projected = OTHER_DRIVES_CPU_US.map(|read| {
        let ratio = ratio(own + read);
        format!("{ratio:.3} if a read cost {read} us of CPU")
    });
    Some(format!(
        "  c/m: {c:.2} us CPU a miss every {m:.2} us allow {:.3} of DRAM; {}",
        ratio(c),
        projected.join(", "),
    ))
}

impl BenchReport {
    /// Figures of `outcomes`, a row each.
    pub(super) fn figures<'a>(outcomes: impl Iterator<Item = &'a ModeOutcome>) -> Table {
        let header = [
            "workload",
            "mode",
            "load",
            "jobs/s",
            "of DRAM",
            "least",
            "most",
            "us/miss",
            "CPU us/miss",
            "p50 us",
            "p99 us",
            "p99.9 us",
            "reads/s",
            "writes/s",
            "MiB",
        ];
        outcomes.fold(Table::new("Figures", header), |table, outcome| {
            let load = outcome.load.map_or("max".to_string(), |load| format!("{load:.2}"));
            let (ratio, latency) = (outcome.ratio_to_dram, outcome.response_us);
            let median = |spread: Spread| Some(spread.median);
            table.cells(
                [outcome.workload, outcome.mode.name(), &load],
                [
                    median(outcome.jobs_per_s),
                    median(ratio),
                    Some(ratio.min),
                    Some(ratio.max),
                    outcome.miss_interval_us.and_then(median),
                    outcome.cpu_us_per_miss.and_then(median),
                    median(latency.p50),
                    median(latency.p99),
                    median(latency.p999),
                    median(outcome.flash_reads_per_s),
                    median(outcome.flash_writes_per_s),
                    median(outcome.rss_mib),
                ],
            )
        })
    }
}
