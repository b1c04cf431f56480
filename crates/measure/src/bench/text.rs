//! A [`BenchReport`] as text.

use std::fmt;

use ebbtide_core::PAGE_BYTES;
use ebbtide_report::Table;
use ebbtide_workloads::{Kind, Replay};

use super::figures::Figure::{self, *};
use super::figures::Value;
use super::options::{Flash, Mode};
use super::results::{BenchReport, ModeOutcome, Tried, WorkloadFacts};
use super::spread::Spread;

impl fmt::Display for BenchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(finding) = self.finding() {
            writeln!(f, "{finding}\n")?;
        }
        let machine = &self.machine;
        writeln!(f, "{}; used: CPU {}", machine.headline, list(&machine.cpus_used))?;
        if let Flash::Ram(latency) = self.config.options.device {
            writeln!(f, "in place of a drive: memory that answers after {latency} at no CPU cost")?;
        }
        for facts in &self.workloads {
            self.workload(f, facts)?;
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
        if let Some(against) = &self.against {
            writeln!(f, "\nagainst {} ({}):", against.name, against.machine)?;
            write!(f, "{}", against.table())?;
            for caveat in &against.caveats {
                writeln!(f, "  but: {caveat}")?;
            }
        }
        for failure in &self.failures {
            writeln!(f, "\nfailed: {failure}")?;
        }
        for notice in &self.notices {
            writeln!(f, "\nnote: {notice}")?;
        }
        Ok(())
    }
}

/// The lines below the table. Each is left out where its figures do not apply.
const LINES: [fn(&ModeOutcome) -> Option<String>; 10] = [
    over_budget,
    where_the_rest_goes,
    on_other_drives,
    against_a_raw_ring,
    slowest,
    stacks,
    predicted,
    ahead,
    durable,
    without_work,
];

fn mib(bytes: f64) -> f64 {
    bytes / (1 << 20) as f64
}

/// Returns the memory of the row of `outcome`, in MiB: its peak with the kernel's, or the resident
/// memory where no group counted it.
fn memory_mib(outcome: &ModeOutcome) -> Option<f64> {
    outcome.number(PeakBytes).map(mib).or(outcome.number(RssMib))
}

/// Returns the memory above the budget.
fn over_budget(outcome: &ModeOutcome) -> Option<String> {
    let (over, peak) = (mib(outcome.number(OverBudgetBytes)?), mib(outcome.number(PeakBytes)?));
    Some(format!(
        "  over budget (>): {} used {peak:.1} MiB with the kernel's memory, {over:.1} more than the \
         budget",
        outcome.mode
    ))
}

fn list(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the prediction, compared with the measurement.
fn predicted(outcome: &ModeOutcome) -> Option<String> {
    let jobs_per_s = outcome.number(PredictedJobsPerS)?;
    let (mode, error) = (outcome.mode, outcome.number(PredictionError)? * 100.0);
    let line = format!("  predicted {mode:<8} {jobs_per_s:>9.0} jobs/s, {error:+.1}%");
    let misses = outcome.number(PredictedMissesPerJob).zip(outcome.number(MissesPerJob));
    Some(misses.map_or(line.clone(), |(expected, measured)| {
        format!("{line}; {expected:.2} misses a job, measured {measured:.2}")
    }))
}

/// Ebbtide's loss against DRAM-only, from counters.
fn where_the_rest_goes(outcome: &ModeOutcome) -> Option<String> {
    if outcome.mode != Mode::Ebbtide || outcome.load.is_some() {
        return None;
    }
    let (all, kernel) = (outcome.number(CpuUsPerMiss)?, outcome.number(KernelCpuUsPerMiss)?);
    // The rest is time of the engine, and of caches that a miss leaves cold.
    Some(format!(
        "  where the rest goes: of {all:.2} us CPU a miss {kernel:.2} in the kernel, {:.2} in the \
         engine and cold caches; {:.1}% of the time idle; {:.0} pages a submission, {:.0} us a read",
        all - kernel,
        outcome.number(IdleShare)? * 100.0,
        outcome.number(RequestsPerSubmission)?,
        outcome.number(FlashReadUs)?,
    ))
}

/// The cost of a miss over that of a read through a raw ring.
fn against_a_raw_ring(outcome: &ModeOutcome) -> Option<String> {
    let (c, read) = (outcome.number(CpuUsPerMiss)?, outcome.number(RawReadCpuUs)?);
    Some(format!(
        "  against a raw ring: {c:.2} us CPU a miss, {read:.2} us a raw read ({} a submission, {} in \
         flight): {:.2} times",
        outcome.number(RawBatch)?,
        outcome.number(RawInFlight)?,
        c / read,
    ))
}

/// Returns where one job in a hundred spends its time at a load.
fn slowest(outcome: &ModeOutcome) -> Option<String> {
    let mut line = format!(
        "  one job in a hundred, {} at {:.2}: {:.0} us, {:.0} before its start",
        outcome.mode,
        outcome.load?,
        outcome.number(SlowestResponseUs)?,
        outcome.number(SlowestQueueingUs)?,
    );
    if outcome.mode == Mode::Ebbtide {
        line += &format!(
            "; {:.1} misses a job; a read takes {:.0} us, {:.0} of them before its submission, and \
             at its 99th percentile {:.0}",
            outcome.number(MissesPerJob)?,
            outcome.number(FlashReadUs)?,
            outcome.number(FlashReadHeldUs)?,
            outcome.number(FlashReadP99Us)?,
        );
    }
    Some(line)
}

/// Returns how much of its stack a job used, to help choose the size of stacks.
fn stacks(outcome: &ModeOutcome) -> Option<String> {
    if outcome.mode != Mode::Ebbtide || outcome.load.is_some() {
        return None;
    }
    let kind = outcome.workload.parse::<Kind>();
    let bytes = kind.map_or(Replay::STACK_BYTES, Kind::stack_bytes);
    let used_kib = outcome.number(StackUsedBytes)? / 1024.0;
    Some(format!("  stacks: a job used at most {used_kib:.1} of {} KiB", bytes >> 10))
}

/// Returns the effect of prefetching.
fn ahead(outcome: &ModeOutcome) -> Option<String> {
    Some(format!(
        "  ahead of demand: {:.0} pages/s, {:.0}% of them used, {:.0}% of those late; {:.1}% of \
         misses on pages that made room for one",
        outcome.number(AheadPagesPerS)?,
        outcome.number(AheadAccuracy)? * 100.0,
        outcome.number(AheadLateness)? * 100.0,
        outcome.number(AheadPollution)? * 100.0,
    ))
}

/// Returns the cost of surviving crashes. Saved is what a page-granular system would write more: it
/// writes each page that a transaction stored to at its commit.
fn durable(outcome: &ModeOutcome) -> Option<String> {
    let Value::Policy(policy) = outcome.figures.get(&DurablePolicy)? else { return None };
    let Spread { median, min, max } = outcome.spread(DurableRatioToExtend)?;
    let (pages, log_bytes) =
        (outcome.number(DurableStoredPages)?, outcome.number(DurableLogBytes)?);
    let (page_bytes, written) = (PAGE_BYTES as f64, outcome.number(DurablePagesWritten)?);
    Some(format!(
        "  durable, {policy}: {median:.3} ({min:.3} to {max:.3}) of extend memory; {:.0} \
         transactions/s, {:.1} a flush of {:.2} ms\n  a transaction stores {:.0} B in {pages:.2} \
         pages and writes {log_bytes:.0} B of log and {written:.2} pages (extend memory: {:.2}); \
         writing its pages at each commit would be {:.0} B, of which {:.0}% are saved",
        outcome.number(DurableTransactionsPerS)?,
        outcome.number(DurableTransactionsPerFlush)?,
        outcome.number(DurableFlushMs)?,
        outcome.number(DurableStoredBytes)?,
        outcome.number(DurablePagesWrittenExtend)?,
        pages * page_bytes,
        100.0 * (1.0 - (log_bytes + written * page_bytes) / (pages * page_bytes)),
    ))
}

fn without_work(outcome: &ModeOutcome) -> Option<String> {
    let ratio = outcome.number(RatioWithoutWork)?;
    Some(format!("  without added work, {} keeps {ratio:.3} of DRAM", outcome.mode))
}

/// CPU of a read on drives that need less of the kernel, in microseconds: the published value for
/// polled NVMe passthrough, and twice that.
const OTHER_DRIVES_CPU_US: [f64; 2] = [0.3, 0.6];

/// Explains Ebbtide's ratio by the CPU cost of a miss (c) and the execution between misses (m).
/// Estimates the ratio on a drive with cheaper reads: 1 / (1 + c/m).
fn on_other_drives(outcome: &ModeOutcome) -> Option<String> {
    if outcome.mode != Mode::Ebbtide || outcome.load.is_some() {
        return None;
    }
    let (c, m) = (outcome.number(CpuUsPerMiss)?, outcome.number(MissIntervalUs)?);
    let own = c - outcome.number(KernelCpuUsPerMiss)?;
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
    /// Writes the figures of a workload, and the lines that explain them.
    fn workload(&self, f: &mut fmt::Formatter<'_>, facts: &WorkloadFacts) -> fmt::Result {
        let calibration = &facts.calibration;
        writeln!(
            f,
            "\n{}: {} MiB, {}, LRU would miss {:.2} times a job, every {:.1} us; {:.0}% of a job's \
             {:.1} us is added work",
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
        let own = || self.results.iter().filter(|outcome| outcome.workload == facts.workload);
        write!(f, "{}", BenchReport::figures(own()))?;
        for outcome in own() {
            for doubt in &outcome.doubts {
                let load = outcome.load.map_or(String::new(), |load| format!(" at {load:.2}"));
                writeln!(f, "  doubtful: {}{load}: {doubt}", outcome.mode)?;
            }
            for line in LINES.iter().filter_map(|line| line(outcome)) {
                writeln!(f, "{line}")?;
            }
        }
        Ok(())
    }
}

impl BenchReport {
    /// Returns the result in Markdown: the machine, the figures, the doubts, and the changes since
    /// an earlier bench.
    pub fn markdown(&self) -> String {
        let mut text = format!("{}\n\n", self.machine.headline);
        text += &BenchReport::figures(self.results.iter()).markdown();
        let doubts = self.results.iter().flat_map(|outcome| {
            let (workload, mode) = (outcome.workload, outcome.mode);
            outcome.doubts.iter().map(move |doubt| format!("{workload}, {mode}: {doubt}"))
        });
        let failures = self.failures.iter().map(|failure| format!("Failed: {failure}"));
        let lines: Vec<String> =
            doubts.map(|doubt| format!("Doubtful: {doubt}")).chain(failures).collect();
        for line in lines.iter().chain(&self.notices) {
            text += &format!("\n* {line}");
        }
        if let Some(against) = &self.against {
            text += &format!("\n\nAgainst {}:\n\n{}", against.name, against.table().markdown());
            for caveat in &against.caveats {
                text += &format!("\n* {caveat}");
            }
        }
        text.trim_end().to_string() + "\n"
    }

    /// Returns the figures of `outcomes`, a row each. (?) marks doubtful ones, and (>) marks memory
    /// above the budget.
    pub(super) fn figures<'a>(outcomes: impl Iterator<Item = &'a ModeOutcome>) -> Table {
        let shown = Figure::ALL.iter().flat_map(|figure| figure.row().shown).copied();
        let header = ["workload", "mode", "load"].into_iter().chain(shown).chain(["MiB"]);
        outcomes.fold(Table::new("Figures", header), |table, outcome| {
            let load = outcome.load.map_or("max".to_string(), |load| format!("{load:.2}"));
            let doubtful = if outcome.doubts.is_empty() { "" } else { " (?)" };
            let over = if outcome.number(OverBudgetBytes).is_none() { "" } else { " (>)" };
            let mode = format!("{}{doubtful}{over}", outcome.mode);
            let cells = Figure::ALL.iter().flat_map(|&figure| {
                let spread = outcome.spread(figure);
                let parts = spread.map(|Spread { median, min, max }| [median, min, max]);
                (0..figure.row().shown.len()).map(move |part| parts.map(|parts| parts[part]))
            });
            table.cells([outcome.workload, &mode, &load], cells.chain([memory_mib(outcome)]))
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::super::options::BenchOptions;
    use super::super::results::{BenchConfig, BenchMachine, ByRound};
    use super::*;

    pub(in super::super) fn at(value: f64) -> Spread {
        Spread { median: value, min: value, max: value }
    }

    /// A plausible outcome of `mode`.
    pub(in super::super) fn outcome(mode: Mode) -> ModeOutcome {
        let ratio = if mode == Mode::Dram { 1.0 } else { 0.5 };
        let always = [
            (JobsPerS, 1e5 * ratio),
            (RatioToDram, ratio),
            (LruMissIntervalUs, 10.0),
            (ResponseP50Us, 1.0),
            (ResponseP99Us, 2.0),
            (ResponseP999Us, 3.0),
            (FlashReadsPerS, 1e4),
            (FlashWritesPerS, 0.0),
            (RssMib, 64.0),
        ];
        let missed = [
            (MissIntervalUs, 10.0),
            (MissesPerJob, 10.0),
            (CpuUsPerMiss, 10.0),
            (KernelCpuUsPerMiss, 6.0),
            (FlashReadUs, 10.0),
            (FlashReadP99Us, 10.0),
            (FlashReadHeldUs, 10.0),
            (RequestsPerSubmission, 10.0),
            (IdleShare, 0.0),
        ];
        let mut figures = BTreeMap::new();
        let missed = missed.into_iter().filter(|_| mode != Mode::Dram);
        for (figure, value) in always.into_iter().chain(missed) {
            figures.insert(figure, Value::Spread(at(value)));
        }
        if mode == Mode::Ebbtide {
            figures.insert(StackUsedBytes, Value::Count(5_000));
        }
        let (by_round, doubts) = (ByRound::default(), Vec::new());
        let workload = "hash-table";
        ModeOutcome { workload, mode, cores: 1, load: None, figures, by_round, doubts }
    }

    /// `outcome` with other `figures`.
    pub(in super::super) fn with(
        mut outcome: ModeOutcome,
        figures: &[(Figure, Spread)],
    ) -> ModeOutcome {
        for (figure, spread) in figures {
            outcome.figures.insert(*figure, Value::Spread(*spread));
        }
        outcome
    }

    /// A bench with `results`.
    pub(in super::super) fn report(results: Vec<ModeOutcome>) -> BenchReport {
        let machine = BenchMachine {
            kernel: "6.1".to_string(),
            cores: 2,
            cpus_used: vec![1],
            read_us_qd1: None,
            read_us_qd32: None,
            reads_per_s_qd32: None,
            headline: "a machine".to_string(),
        };
        let options = BenchOptions::new("data".into());
        BenchReport {
            machine,
            config: BenchConfig { dram_bytes: options.dram_bytes(), options },
            workloads: Vec::new(),
            results,
            tried: Vec::new(),
            failures: Vec::new(),
            notices: Vec::new(),
            against: None,
        }
    }

    #[test]
    fn markdown_says_what_is_doubtful() {
        let doubtful = ModeOutcome { doubts: vec!["a reason".to_string()], ..outcome(Mode::Sync) };
        let text = report(vec![outcome(Mode::Dram), doubtful]).markdown();
        assert!(text.starts_with("a machine\n\n| workload | mode |"), "{text}");
        assert!(text.contains("\n* Doubtful: hash-table, sync: a reason\n"), "{text}");
    }

    #[test]
    fn the_stack_that_jobs_used_stands_beside_what_they_have() {
        let line = stacks(&outcome(Mode::Ebbtide)).expect("a line");
        assert_eq!(line, "  stacks: a job used at most 4.9 of 12 KiB");
        assert_eq!(stacks(&outcome(Mode::Dram)), None, "DRAM-only has no such stacks");
    }

    #[test]
    fn a_load_says_where_one_job_in_a_hundred_spends_its_time() {
        let figures = [
            (SlowestResponseUs, at(900.0)),
            (SlowestQueueingUs, at(250.0)),
            (FlashReadUs, at(80.0)),
            (FlashReadHeldUs, at(12.0)),
            (FlashReadP99Us, at(420.0)),
        ];
        let loaded = ModeOutcome { load: Some(0.3), ..with(outcome(Mode::Ebbtide), &figures) };
        let expected = "  one job in a hundred, ebbtide at 0.30: 900 us, 250 before its start; \
                        10.0 misses a job; a read takes 80 us, 12 of them before its submission, \
                        and at its 99th percentile 420";
        assert_eq!(slowest(&loaded).as_deref(), Some(expected));
        assert_eq!(slowest(&outcome(Mode::Ebbtide)), None, "a closed loop has no arrivals");
    }

    #[test]
    fn the_cost_of_a_miss_stands_over_that_of_a_raw_read() {
        let engine = outcome(Mode::Ebbtide);
        assert_eq!(against_a_raw_ring(&engine), None);
        let c = engine.number(CpuUsPerMiss).expect("it missed");
        let ring = [(RawReadCpuUs, at(2.5)), (RawBatch, at(16.0)), (RawInFlight, at(64.0))];
        let line = against_a_raw_ring(&with(engine, &ring)).expect("a line");
        let read = "2.50 us a raw read (16 a submission, 64 in flight)";
        assert_eq!(
            line,
            format!("  against a raw ring: {c:.2} us CPU a miss, {read}: {:.2} times", c / 2.5)
        );
    }

    #[test]
    fn the_rest_is_not_clamped() {
        let costs = [(CpuUsPerMiss, at(12.67)), (KernelCpuUsPerMiss, at(23.61))];
        let outcome = with(outcome(Mode::Ebbtide), &costs);
        let line = where_the_rest_goes(&outcome).expect("a line");
        assert!(line.contains("23.61 in the kernel, -10.94 in the engine"), "{line}");
    }

    #[test]
    fn a_memory_over_its_budget_is_marked_and_its_peak_is_told() {
        let mut over = outcome(Mode::Ebbtide);
        over.figures.insert(PeakBytes, Value::Count(80 << 20));
        over.figures.insert(OverBudgetBytes, Value::Count(16 << 20));
        let table = BenchReport::figures([&over, &outcome(Mode::Sync)].into_iter()).to_string();
        assert!(table.contains("ebbtide (>)") && !table.contains("sync (>)"), "{table}");
        let resident = memory_mib(&outcome(Mode::Sync));
        assert_eq!((memory_mib(&over), resident), (Some(80.0), Some(64.0)));
        let line = over_budget(&over).expect("a line");
        assert!(line.contains("ebbtide used 80.0 MiB") && line.contains("16.0 more"), "{line}");
        assert_eq!(over_budget(&outcome(Mode::Sync)), None);
    }

    #[test]
    fn a_doubtful_result_is_marked_in_its_row() {
        let doubtful =
            ModeOutcome { doubts: vec!["a reason".to_string()], ..outcome(Mode::Paging) };
        let table = BenchReport::figures([&doubtful, &outcome(Mode::Sync)].into_iter()).to_string();
        assert!(table.contains("paging (?)") && !table.contains("sync (?)"), "{table}");
    }
}
