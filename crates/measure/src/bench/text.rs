//! A [`BenchReport`] as text.

use std::fmt;

use ebbtide_report::Table;
use ebbtide_workloads::{Kind, Replay};

use super::options::{Flash, Mode};
use super::results::{BenchReport, ModeOutcome, Tried};
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
                for doubt in &outcome.doubts {
                    let load = outcome.load.map_or(String::new(), |load| format!(" at {load:.2}"));
                    writeln!(f, "  doubtful: {}{load}: {doubt}", outcome.mode)?;
                }
                if let Some(line) = over_budget(outcome) {
                    writeln!(f, "{line}")?;
                }
                if let Some(line) = where_the_rest_goes(outcome) {
                    writeln!(f, "{line}")?;
                }
                if let Some(line) = on_other_drives(outcome) {
                    writeln!(f, "{line}")?;
                }
                if let Some(line) = against_a_raw_ring(outcome) {
                    writeln!(f, "{line}")?;
                }
                if let Some(line) = slowest(outcome) {
                    writeln!(f, "{line}")?;
                }
                if let Some(line) = stacks(outcome) {
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
                if let Some(durable) = &outcome.durable {
                    write!(f, "{durable}")?;
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

/// Returns the memory of the row of `outcome`, in MiB: its peak with the kernel's, or the resident
/// memory where no group counted it.
fn memory_mib(outcome: &ModeOutcome) -> f64 {
    let peak_mib = outcome.peak_bytes.map(|bytes| bytes as f64 / (1 << 20) as f64);
    peak_mib.unwrap_or(outcome.rss_mib.median)
}

/// Returns the memory above the budget.
fn over_budget(outcome: &ModeOutcome) -> Option<String> {
    let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    let (over, peak) = (mib(outcome.over_budget_bytes?), mib(outcome.peak_bytes?));
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
    let rest = outcome.cpu_us_per_miss?.median - kernel;
    Some(format!(
        "  where the rest goes: of {:.2} us CPU a miss {kernel:.2} in the kernel, {rest:.2} in the \
         engine and cold caches; {:.1}% of the time idle; {:.0} pages a submission, {:.0} us a read",
        outcome.cpu_us_per_miss?.median,
        outcome.idle_share?.median * 100.0,
        outcome.requests_per_submission?.median,
        outcome.flash_read_us?.median,
    ))
}

/// The cost of a miss over that of a read through a raw ring.
fn against_a_raw_ring(outcome: &ModeOutcome) -> Option<String> {
    let (c, ring) = (outcome.cpu_us_per_miss?.median, outcome.raw_ring?);
    let read = ring.cpu_us_per_read.median;
    Some(format!(
        "  against a raw ring: {c:.2} us CPU a miss, {read:.2} us a raw read ({} a submission, {} in \
         flight): {:.2} times",
        ring.batch,
        ring.in_flight,
        c / read,
    ))
}

/// Returns where one job in a hundred spends its time at a load.
fn slowest(outcome: &ModeOutcome) -> Option<String> {
    let (load, slowest) = (outcome.load?, outcome.slowest?);
    let (response, queueing) = (slowest.response_us.median, slowest.queueing_us.median);
    let mut line = format!(
        "  one job in a hundred, {} at {load:.2}: {response:.0} us, {queueing:.0} before its start",
        outcome.mode,
    );
    if outcome.mode == Mode::Ebbtide {
        line += &format!(
            "; {:.1} misses a job; a read takes {:.0} us, {:.0} of them before its submission, and \
             at its 99th percentile {:.0}",
            outcome.misses_per_job?.median,
            outcome.flash_read_us?.median,
            outcome.flash_read_held_us?.median,
            outcome.flash_read_p99_us?.median,
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
    let used_kib = outcome.stack_used_bytes? as f64 / 1024.0;
    Some(format!("  stacks: a job used at most {used_kib:.1} of {} KiB", bytes >> 10))
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
            "pages/write",
            "MiB",
        ];
        outcomes.fold(Table::new("Figures", header), |table, outcome| {
            let load = outcome.load.map_or("max".to_string(), |load| format!("{load:.2}"));
            let (ratio, latency) = (outcome.ratio_to_dram, outcome.response_us);
            let median = |spread: Spread| Some(spread.median);
            let doubtful = if outcome.doubts.is_empty() { "" } else { " (?)" };
            let over = if outcome.over_budget_bytes.is_none() { "" } else { " (>)" };
            let mode = format!("{}{doubtful}{over}", outcome.mode);
            table.cells(
                [outcome.workload, &mode, &load],
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
                    outcome.pages_per_write.and_then(median),
                    Some(memory_mib(outcome)),
                ],
            )
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::options::BenchOptions;
    use super::super::results::{
        BenchConfig, BenchMachine, ByRound, LatencySpread, RawRingCost, SlowestSpread,
    };
    use super::*;

    pub(in super::super) fn at(value: f64) -> Spread {
        Spread { median: value, min: value, max: value }
    }

    /// A plausible outcome of `mode`.
    pub(in super::super) fn outcome(mode: Mode) -> ModeOutcome {
        let missed = (mode != Mode::Dram).then(|| at(10.0));
        let latency = LatencySpread { p50: at(1.0), p99: at(2.0), p999: at(3.0) };
        let ratio = if mode == Mode::Dram { 1.0 } else { 0.5 };
        ModeOutcome {
            workload: "hash-table",
            mode,
            cores: 1,
            load: None,
            jobs_per_s: at(1e5 * ratio),
            ratio_to_dram: at(ratio),
            lru_miss_interval_us: Some(at(10.0)),
            miss_interval_us: missed,
            misses_per_job: missed,
            cpu_us_per_miss: missed,
            kernel_cpu_us_per_miss: missed.map(|_| at(6.0)),
            service_us: latency,
            response_us: latency,
            slowest: None,
            flash_reads_per_s: at(1e4),
            flash_writes_per_s: at(0.0),
            flash_read_us: missed,
            flash_read_p99_us: missed,
            flash_read_held_us: missed,
            pages_per_write: None,
            requests_per_submission: missed,
            ahead: None,
            idle_share: missed.map(|_| at(0.0)),
            rss_mib: at(64.0),
            peak_bytes: None,
            over_budget_bytes: None,
            stack_used_bytes: (mode == Mode::Ebbtide).then_some(5_000),
            page_cache_bytes: None,
            durable: None,
            raw_ring: None,
            ratio_without_work: None,
            threads_per_core: None,
            by_round: ByRound::default(),
            others_cpu_share: at(0.0),
            steal_share: at(0.0),
            rounds_measured: 5,
            doubts: Vec::new(),
            predicted_jobs_per_s: None,
            predicted_misses_per_job: None,
            prediction_error: None,
        }
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
        let parts = SlowestSpread { response_us: at(900.0), queueing_us: at(250.0) };
        let loaded = ModeOutcome {
            load: Some(0.3),
            slowest: Some(parts),
            flash_read_us: Some(at(80.0)),
            flash_read_held_us: Some(at(12.0)),
            flash_read_p99_us: Some(at(420.0)),
            ..outcome(Mode::Ebbtide)
        };
        let expected = "  one job in a hundred, ebbtide at 0.30: 900 us, 250 before its start; \
                        10.0 misses a job; a read takes 80 us, 12 of them before its submission, \
                        and at its 99th percentile 420";
        assert_eq!(slowest(&loaded).as_deref(), Some(expected));
        assert_eq!(slowest(&outcome(Mode::Ebbtide)), None, "a closed loop has no arrivals");
    }

    #[test]
    fn the_cost_of_a_miss_stands_over_that_of_a_raw_read() {
        let ring = RawRingCost { cpu_us_per_read: at(2.5), batch: 16, in_flight: 64 };
        let engine = outcome(Mode::Ebbtide);
        let c = engine.cpu_us_per_miss.expect("it missed").median;
        assert_eq!(against_a_raw_ring(&engine), None);
        let line = against_a_raw_ring(&ModeOutcome { raw_ring: Some(ring), ..engine });
        let line = line.expect("a line");
        let read = "2.50 us a raw read (16 a submission, 64 in flight)";
        assert_eq!(
            line,
            format!("  against a raw ring: {c:.2} us CPU a miss, {read}: {:.2} times", c / 2.5)
        );
    }

    #[test]
    fn the_rest_is_not_clamped() {
        let outcome = ModeOutcome {
            cpu_us_per_miss: Some(at(12.67)),
            kernel_cpu_us_per_miss: Some(at(23.61)),
            ..outcome(Mode::Ebbtide)
        };
        let line = where_the_rest_goes(&outcome).expect("a line");
        assert!(line.contains("23.61 in the kernel, -10.94 in the engine"), "{line}");
    }

    #[test]
    fn a_memory_over_its_budget_is_marked_and_its_peak_is_told() {
        let over = ModeOutcome {
            peak_bytes: Some(80 << 20),
            over_budget_bytes: Some(16 << 20),
            ..outcome(Mode::Ebbtide)
        };
        let table = BenchReport::figures([&over, &outcome(Mode::Sync)].into_iter()).to_string();
        assert!(table.contains("ebbtide (>)") && !table.contains("sync (>)"), "{table}");
        assert_eq!((memory_mib(&over), memory_mib(&outcome(Mode::Sync))), (80.0, 64.0));
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
