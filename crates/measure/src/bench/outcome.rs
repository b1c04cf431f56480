//! From the measurements of one memory to its [`ModeOutcome`].

use super::doubts::doubts;
use super::figures::figures_of;
use super::measured::Measured;
use super::options::Mode;
use super::results::{ByRound, ModeOutcome};

impl Measured<'_> {
    pub(super) fn outcome(&self) -> ModeOutcome {
        let samples = self.samples();
        let mut outcome = ModeOutcome {
            workload: self.workload,
            mode: self.mode,
            cores: self.cores,
            load: self.load,
            figures: figures_of(self),
            by_round: ByRound {
                jobs_per_s: samples.iter().map(|sample| sample.turn.jobs_per_s()).collect(),
                ratio_to_dram: samples.iter().map(|sample| sample.ratio_to_dram()).collect(),
                p99_us: samples.iter().map(|sample| sample.response_us().p99).collect(),
            },
            doubts: Vec::new(),
        };
        let own = samples.iter().map(|sample| &sample.turn.disturbance);
        let dram = self.dram.iter().filter_map(|round| round.get(&Mode::Dram));
        let dram = dram.filter(|_| self.mode != Mode::Dram).map(|turn| &turn.disturbance);
        outcome.doubts = doubts(&outcome, own.chain(dram));
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use ebbtide_report::PageReport;
    use serde_json::Value;

    use ebbtide_core::durability::Policy;

    use super::super::figures::{Figure, Value as Of};
    use super::super::measured::RawRingCost;
    use super::super::protocol::{Calibration, Committed, Latency, SlowestJobs, Window};
    use super::super::results::{BenchReport, WorkloadFacts};
    use super::super::round::{Round, Turn};
    use super::super::text::tests::{at, report};
    use super::*;
    use crate::disturbance::Disturbance;

    /// A turn whose counts grow with `round`.
    fn turn(round: u64, mode: Mode) -> Turn {
        let (stored, slower) = (mode != Mode::Dram, 1 + mode as u64);
        let misses = if stored { 1_000 + 10 * round } else { 0 };
        let engine = if matches!(mode, Mode::Dram | Mode::Paging) { 0 } else { 1 };
        let latency = |scale: f64| Latency { p50: scale, p99: 2.5 * scale, p999: 7.25 * scale };
        let committed = Committed {
            transactions: 500 + round,
            stored_pages: 2_000,
            stored_bytes: 52_000 + 8 * round,
            log_bytes: 204_800,
            flushes: 20,
            flush_s: 0.04,
        };
        let window = Window {
            jobs: (40_000 + 400 * round) / slower,
            seconds: 0.5,
            cpu_s: 0.4 + 0.01 * round as f64,
            system_s: 0.1,
            service_us: latency(10.0 + round as f64),
            response_us: latency(20.0 + round as f64),
            slowest: SlowestJobs { response_us: 900.0 + round as f64, queueing_us: 250.0 },
            misses,
            flash_reads: misses + 50,
            flash_writes: 300 * slower + round,
            write_requests: 20 * engine,
            submissions: 130 * engine,
            fetched_ahead: 80 * engine,
            ahead_used: 60 * engine,
            ahead_late: 12 * engine,
            polluted: 3 * engine,
            hits_under_miss: 7,
            idle_s: 0.05,
            flash_read_us: latency(80.0 + round as f64),
            held_s: 0.01,
            rss_bytes: (64 + round) << 20,
            stack_used_bytes: 5_000 + round,
            committed: if mode == Mode::Durable { committed } else { Committed::default() },
        };
        let disturbance = Disturbance { others_share: 0.01, cpu_s: 0.5, ..Disturbance::default() };
        Turn { window, kernel_cpu_s: 0.02 * engine as f64, disturbance }
    }

    const CALIBRATION: Calibration = Calibration {
        work_instructions: 1_000,
        work_share: 0.5,
        lru_misses_per_job: 0.8,
        accesses_per_job: 12.0,
        job_ns: 8_000.0,
    };

    /// The measurements of `mode` in `rounds`, on two cores in a closed loop.
    fn measured<'a>(mode: Mode, rounds: &'a [&'a Round]) -> Measured<'a> {
        Measured {
            workload: "tatp",
            mode,
            cores: 2,
            load: None,
            calibration: &CALIBRATION,
            rounds,
            dram: rounds,
            rounds_measured: 4,
            threads_per_core: None,
            page_cache_bytes: None,
            peak_bytes: None,
            budget_bytes: 64 << 20,
            durability: Some(Policy::Always),
            raw_ring: None,
            ratio_without_work: None,
        }
    }

    /// Outcomes of four memories in a closed loop, and of two at a load.
    fn outcomes() -> Vec<ModeOutcome> {
        let all = [Mode::Dram, Mode::Paging, Mode::Ebbtide, Mode::Durable];
        let rounds: Vec<Round> =
            (0..3).map(|round| all.map(|mode| (mode, turn(round, mode))).into()).collect();
        let rounds: Vec<&Round> = rounds.iter().collect();
        let of = |mode: Mode, load: Option<f64>| {
            let tried = mode == Mode::Ebbtide && load.is_none();
            let ring = RawRingCost { cpu_us_per_read: at(2.5), batch: 16, in_flight: 64 };
            let mut outcome = Measured {
                load,
                threads_per_core: (mode == Mode::Paging).then_some(16),
                page_cache_bytes: (mode == Mode::Paging).then_some(48 << 20),
                peak_bytes: (mode != Mode::Dram).then_some(70 << 20),
                raw_ring: tried.then_some(ring),
                ratio_without_work: tried.then_some(0.25),
                ..measured(mode, &rounds)
            }
            .outcome();
            if tried {
                outcome.figures.insert(Figure::PredictedJobsPerS, Of::Number(30_000.0));
                outcome.figures.insert(Figure::PredictedMissesPerJob, Of::Number(0.06));
                outcome.figures.insert(Figure::PredictionError, Of::Number(0.125));
            }
            outcome
        };
        let loaded = [Mode::Dram, Mode::Ebbtide].map(|mode| of(mode, Some(0.5)));
        all.map(|mode| of(mode, None)).into_iter().chain(loaded).collect()
    }

    /// Returns `text` if it is equal to the file `name` of expected texts.
    /// `EBBTIDE_WRITE_OUTCOMES` writes the file.
    fn expected(name: &str, text: &str) -> String {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bench/expected");
        let path = std::path::Path::new(folder).join(name);
        if std::env::var_os("EBBTIDE_WRITE_OUTCOMES").is_some() {
            fs::write(&path, text).expect("written");
        }
        fs::read_to_string(path).expect("a file of expected text")
    }

    #[test]
    fn programs_that_read_json_find_every_figure_under_its_name() {
        let found = outcomes().iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>();
        let found = found.expect("JSON");
        let lines: String = found.iter().map(|outcome| format!("{outcome}\n")).collect();
        let expected = expected("outcomes.jsonl", &lines);
        let expected = expected.lines().map(serde_json::from_str::<Value>);
        assert_eq!(found, expected.collect::<Result<Vec<_>, _>>().expect("JSON"));
    }

    #[test]
    fn the_table_beside_the_page_and_the_text_show_the_same_outcomes() {
        let facts = WorkloadFacts { workload: "tatp", pages: 512, calibration: CALIBRATION };
        let report = BenchReport { workloads: vec![facts], ..report(outcomes()) };
        let folder = tempfile::tempdir().expect("a folder");
        report.page().write(folder.path()).expect("a page");
        let csv = fs::read_to_string(folder.path().join("results.csv")).expect("a table");
        assert_eq!(csv, expected("results.csv", &csv));
        let text = report.to_string();
        assert_eq!(text, expected("text.txt", &text));
    }

    #[test]
    fn durable_figures_are_a_transaction() {
        let turn = |jobs, flash_writes, committed| {
            let window =
                Window { jobs, seconds: 1.0, flash_writes, committed, ..Window::default() };
            Turn { window, ..Turn::default() }
        };
        let committed = Committed {
            transactions: 100,
            stored_pages: 400,
            stored_bytes: 10_400,
            log_bytes: 40_960,
            flushes: 4,
            flush_s: 0.008,
        };
        // Every second job only reads.
        let round = Round::from([
            (Mode::Dram, turn(400, 0, Committed::default())),
            (Mode::Ebbtide, turn(400, 200, Committed::default())),
            (Mode::Durable, turn(200, 90, committed)),
        ]);
        let outcome = measured(Mode::Durable, &[&round]).outcome();
        for (figure, expected) in [
            (Figure::DurableRatioToExtend, 0.5),
            (Figure::DurableStoredBytes, 104.0),
            (Figure::DurableStoredPages, 4.0),
            (Figure::DurableLogBytes, 409.6),
            (Figure::DurablePagesWritten, 0.9),
            (Figure::DurablePagesWrittenExtend, 1.0),
            (Figure::DurableTransactionsPerFlush, 25.0),
            (Figure::DurableFlushMs, 2.0),
        ] {
            assert_eq!(outcome.number(figure), Some(expected), "{figure:?}");
        }
        // A tenth of a page of log and 0.9 pages, of 4.
        let text = report(vec![outcome.clone()]);
        let text = BenchReport {
            workloads: vec![WorkloadFacts { workload: "tatp", pages: 1, calibration: CALIBRATION }],
            ..text
        };
        assert!(text.to_string().contains("of which 75% are saved"), "{text}");
    }

    #[test]
    fn every_figure_has_a_place_and_a_description_of_its_own() {
        let paths: BTreeSet<&str> = Figure::ALL.iter().map(|figure| figure.row().path).collect();
        assert_eq!(paths.len(), Figure::ALL.len());
        let columns: BTreeSet<String> =
            Figure::ALL.iter().flat_map(|figure| figure.columns()).collect();
        let count: usize = Figure::ALL.iter().map(|figure| figure.columns().len()).sum();
        assert_eq!(columns.len(), count);
        assert!(Figure::ALL.iter().all(|figure| figure.row().about.concat().ends_with('.')));
    }
}
