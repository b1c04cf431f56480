//! [`Figure`]: the table of figures of a bench. JSON, CSV, text and page are made from its rows, so
//! that a new figure is a row.

use std::collections::BTreeMap;

use ebbtide_core::durability::Policy;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::measured::{Measured, Sample};
use super::spread::Spread;

/// A row of the table.
pub(super) struct Row {
    /// The place in the JSON of an outcome: a name, or a group and a name.
    pub(super) path: &'static str,
    /// The name in CSV, if it is not the path.
    column: Option<&'static str>,
    /// The unit; empty for a count or a ratio.
    pub(super) unit: &'static str,
    /// The lines of the description.
    pub(super) about: &'static [&'static str],
    /// The columns of the printed table with its median, least and most.
    pub(super) shown: &'static [&'static str],
    source: Source,
}

/// How a figure is computed.
enum Source {
    /// The spread over the rounds that have the figure. Without any, it does not apply.
    Each(fn(&Sample<'_>) -> Option<f64>),
    /// The median over these rounds.
    Median(fn(&Sample<'_>) -> Option<f64>),
    /// The spread over other rounds.
    Others(fn(&Measured<'_>) -> Option<Spread>),
    /// A value of the whole measurement.
    Whole(fn(&Measured<'_>) -> Option<Value>),
}

impl Source {
    fn value(&self, measured: &Measured<'_>, samples: &[Sample<'_>]) -> Option<Value> {
        let spread = |figure: &fn(&Sample<'_>) -> Option<f64>| {
            let mut values = samples.iter().filter_map(figure).peekable();
            values.peek().is_some().then(|| Spread::of(values))
        };
        match self {
            Source::Each(figure) => spread(figure).map(Value::Spread),
            Source::Median(figure) => spread(figure).map(|spread| Value::Number(spread.median)),
            Source::Others(spread) => spread(measured).map(Value::Spread),
            Source::Whole(value) => value(measured),
        }
    }
}

/// The value of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A figure of several rounds.
    Spread(Spread),
    /// A number.
    Number(f64),
    /// A whole number.
    Count(u64),
    /// When a transaction is acknowledged.
    Policy(Policy),
}

/// Declares the figures, a row each. A row has the place in JSON, and the name in CSV if it is
/// another. Then follow the unit, the columns of the printed table, and the computation.
macro_rules! figures {
    ($($(#[doc = $about:literal])+ $figure:ident: $path:literal $(as $column:literal)?,
        $unit:literal $(, shown $($shown:literal)+)? = $source:expr;)+) => {
        /// A figure of a workload in a memory, at one load.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Figure { $($(#[doc = $about])+ $figure,)+ }

        impl Figure {
            /// All figures, in their order.
            pub(super) const ALL: &[Figure] = &[$(Figure::$figure),+];
        }

        use Source::{Each, Median, Others, Whole};
        static ROWS: [Row; Figure::ALL.len()] = [$(Row {
            path: $path,
            column: [$(Some($column),)? None][0],
            unit: $unit,
            about: &[$($about),+],
            shown: &[$($($shown),+)?],
            source: $source,
        }),+];
    };
}

figures! {
    /// Jobs per second.
    JobsPerS: "jobs_per_s", "1/s", shown "jobs/s" = Each(|s| Some(s.turn.jobs_per_s()));
    /// Jobs per second divided by DRAM-only's in the same round. In an open loop, divided by
    /// DRAM-only's maximum. Exactly 1 for DRAM-only in a closed loop.
    RatioToDram: "ratio_to_dram", "", shown "of DRAM" "least" "most"
        = Each(|s| Some(s.ratio_to_dram()));
    /// Execution between misses that plain LRU would have. None if it would not miss.
    LruMissIntervalUs: "lru_miss_interval_us", "us" = Each(|s| {
        let misses = Some(s.of.calibration.lru_misses_per_job).filter(|&misses| misses > 0.0);
        Some(s.job_us() / misses?)
    });
    /// Execution between misses. None for DRAM-only and where nothing missed.
    MissIntervalUs: "miss_interval_us", "us", shown "us/miss"
        = Each(|s| s.missed().map(|w| s.job_us() * w.jobs as f64 / w.misses as f64));
    /// Misses per job. None for DRAM-only and where nothing missed.
    MissesPerJob: "misses_per_job", "" = Each(|s| s.missed().map(|_| s.turn.misses_per_job()));
    /// CPU time per page read, for a miss or ahead of demand. It is all CPU time beyond DRAM-only's
    /// for the same jobs, the kernel's threads included. None for DRAM-only and where nothing
    /// missed.
    CpuUsPerMiss: "cpu_us_per_miss", "us", shown "CPU us/miss"
        = Each(|s| s.missed().map(|_| s.turn.cpu_us_beyond(s.dram)));
    /// CPU time of the kernel per page read, its own threads included. None for DRAM-only and where
    /// nothing missed.
    KernelCpuUsPerMiss: "kernel_cpu_us_per_miss", "us" = Each(|s| s.missed().map(|w| {
        (w.system_s + s.turn.kernel_cpu_s) * 1e6 / w.reads_started() as f64
    }));
    /// Median time from a job's start to its end.
    ServiceP50Us: "service_us.p50", "us" = Each(|s| Some(s.turn.window.service_us.p50));
    /// 99th percentile of the time from a job's start to its end.
    ServiceP99Us: "service_us.p99", "us" = Each(|s| Some(s.turn.window.service_us.p99));
    /// 99.9th percentile of the time from a job's start to its end.
    ServiceP999Us: "service_us.p999", "us" = Each(|s| Some(s.turn.window.service_us.p999));
    /// Median time from a job's intended arrival to its end. In a closed loop a job arrives when it
    /// starts, so this is equal to the service time.
    ResponseP50Us: "response_us.p50", "us", shown "p50 us" = Each(|s| Some(s.response_us().p50));
    /// 99th percentile of the response time.
    ResponseP99Us: "response_us.p99", "us", shown "p99 us" = Each(|s| Some(s.response_us().p99));
    /// 99.9th percentile of the response time.
    ResponseP999Us: "response_us.p999", "us", shown "p99.9 us"
        = Each(|s| Some(s.response_us().p999));
    /// Mean response time of the slowest hundredth of the jobs, in an open loop.
    SlowestResponseUs: "slowest.response_us", "us" = Each(|s| Some(s.loaded()?.response_us));
    /// The part of it before the job's start.
    SlowestQueueingUs: "slowest.queueing_us", "us" = Each(|s| Some(s.loaded()?.queueing_us));
    /// Pages read from flash per second.
    FlashReadsPerS: "flash_reads_per_s", "1/s", shown "reads/s"
        = Each(|s| Some(s.per_s(s.turn.window.flash_reads)));
    /// Pages written to flash per second.
    FlashWritesPerS: "flash_writes_per_s", "1/s", shown "writes/s"
        = Each(|s| Some(s.per_s(s.turn.window.flash_writes)));
    /// Median flash read, from the miss to the page's arrival, in an engine.
    FlashReadUs: "flash_read_us", "us" = Each(|s| Some(s.engine()?.flash_read_us.p50));
    /// 99th percentile of a flash read, from the miss to the page's arrival, in an engine.
    FlashReadP99Us: "flash_read_p99_us", "us" = Each(|s| Some(s.engine()?.flash_read_us.p99));
    /// Mean part of a flash read before its submission, in an engine.
    FlashReadHeldUs: "flash_read_held_us", "us"
        = Each(|s| s.engine().map(|w| w.held_s * 1e6 / w.flash_reads.max(1) as f64));
    /// Pages that a write to flash carried, where the engine wrote.
    PagesPerWrite: "pages_per_write", "", shown "pages/write"
        = Each(|s| s.wrote().map(|w| share(w.flash_writes, w.write_requests)));
    /// Pages, read or written, per submission to the kernel, in an engine.
    RequestsPerSubmission: "requests_per_submission", "" = Each(|s| s.engine().map(|w| {
        share(w.flash_reads + w.flash_writes, w.submissions)
    }));
    /// Pages prefetched per second, if anything was prefetched.
    AheadPagesPerS: "ahead.pages_per_s", "1/s"
        = Each(|s| Some(s.per_s(s.prefetched()?.fetched_ahead)));
    /// The share of prefetched pages that was used.
    AheadAccuracy: "ahead.accuracy", ""
        = Each(|s| s.prefetched().map(|w| share(w.ahead_used, w.fetched_ahead)));
    /// The share of used prefetches that a job had to wait for.
    AheadLateness: "ahead.lateness", ""
        = Each(|s| s.prefetched().map(|w| share(w.ahead_late, w.ahead_used)));
    /// The share of misses on pages that a prefetch evicted. 0 without a prefetcher.
    AheadPollution: "ahead.pollution", ""
        = Each(|s| s.prefetched().map(|w| share(w.polluted, w.misses)));
    /// Share of the time that a core was idle, in an engine.
    IdleShare: "idle_share", ""
        = Each(|s| s.engine().map(|w| w.idle_s / (w.seconds * s.of.cores as f64)));
    /// Resident memory, with the program's text, without the kernel's memory for it.
    RssMib: "rss_mib", "MiB" = Each(|s| Some(s.turn.window.rss_bytes as f64 / (1 << 20) as f64));
    /// The most memory in the rounds, with the kernel's memory and without the program's text. None
    /// without a control group.
    PeakBytes: "peak_bytes", "B" = Whole(|m| m.peak_bytes.map(Value::Count));
    /// The part of the peak above the DRAM budget, if there is one.
    OverBudgetBytes: "over_budget_bytes", "B" = Whole(|m| m.over_budget_bytes().map(Value::Count));
    /// When a transaction was acknowledged, in a store that survives crashes.
    DurablePolicy: "durable.policy" as "policy", ""
        = Whole(|m| m.durability.filter(|_| m.survives_crashes()).map(Value::Policy));
    /// Throughput divided by the throughput of extend memory in the same round.
    DurableRatioToExtend: "durable.ratio_to_extend" as "ratio_to_extend", ""
        = Each(|s| s.extend().map(|extend| s.turn.jobs_per_s() / extend.jobs_per_s()));
    /// Transactions that stored anything, per second.
    DurableTransactionsPerS: "durable.transactions_per_s" as "transactions_per_s", "1/s"
        = Each(|s| Some(s.per_s(s.committed()?.transactions)));
    /// Bytes of the words that a transaction stored.
    DurableStoredBytes: "durable.stored_bytes" as "stored_bytes", "B"
        = Median(|s| s.committed().map(|all| share(all.stored_bytes, all.transactions)));
    /// Pages that a transaction stored to.
    DurableStoredPages: "durable.stored_pages" as "stored_pages", ""
        = Median(|s| s.committed().map(|all| share(all.stored_pages, all.transactions)));
    /// Bytes written to the log, its maps and superblocks per transaction.
    DurableLogBytes: "durable.log_bytes" as "log_bytes", "B"
        = Median(|s| s.committed().map(|all| share(all.log_bytes, all.transactions)));
    /// Pages written back per transaction.
    DurablePagesWritten: "durable.pages_written" as "pages_written", ""
        = Median(|s| s.committed().map(|all| share(s.turn.window.flash_writes, all.transactions)));
    /// Pages that extend memory wrote back for the same jobs, per transaction.
    DurablePagesWrittenExtend: "durable.pages_written_extend" as "pages_written_extend", ""
        = Median(|s| {
            let extend = &s.extend()?.window;
            let jobs = share(s.turn.window.jobs, s.committed()?.transactions);
            Some(share(extend.flash_writes, extend.jobs) * jobs)
        });
    /// Transactions that one flush made durable, on average.
    DurableTransactionsPerFlush: "durable.transactions_per_flush" as "transactions_per_flush", ""
        = Median(|s| s.committed().map(|all| share(all.transactions, all.flushes)));
    /// Mean time of a flush.
    DurableFlushMs: "durable.flush_ms" as "flush_ms", "ms"
        = Median(|s| s.committed().map(|all| all.flush_s * 1e3 / all.flushes.max(1) as f64));
    /// The most bytes of its stack that a job has used, in an engine.
    StackUsedBytes: "stack_used_bytes", "B" = Whole(|m| {
        let samples = m.samples();
        let used = samples.iter().filter_map(|s| Some(s.engine()?.stack_used_bytes));
        used.max().map(Value::Count)
    });
    /// Bytes of the data in the page cache at the end, under paging.
    PageCacheBytes: "page_cache_bytes", "B" = Whole(|m| m.page_cache_bytes.map(Value::Count));
    /// CPU time of a read through a raw ring in place of each miss, with the kernel's threads.
    RawReadCpuUs: "raw_ring.cpu_us_per_read" as "raw_read_cpu_us", "us"
        = Others(|m| Some(m.raw_ring?.cpu_us_per_read));
    /// Raw reads handed to the kernel at a time, as many as the engine handed over.
    RawBatch: "raw_ring.batch" as "raw_batch", ""
        = Whole(|m| Some(Value::Count(m.raw_ring?.batch.into())));
    /// The most raw reads in flight, as many as the engine had.
    RawInFlight: "raw_ring.in_flight" as "raw_in_flight", ""
        = Whole(|m| Some(Value::Count(m.raw_ring?.in_flight.into())));
    /// Throughput divided by DRAM-only's without work added to jobs, measured once.
    RatioWithoutWork: "ratio_without_work", "" = Whole(|m| m.ratio_without_work.map(Value::Number));
    /// Kernel threads per core, if they were chosen by trial.
    ThreadsPerCore: "threads_per_core", ""
        = Whole(|m| m.threads_per_core.map(|count| Value::Count(count as u64)));
    /// Share of the CPUs under test that other programs used during the measurement.
    OthersCpuShare: "others_cpu_share", "" = Each(|s| Some(s.turn.disturbance.others_share));
    /// Share of the CPUs under test that the host gave to other guests during the measurement.
    StealShare: "steal_share", "" = Each(|s| Some(s.turn.disturbance.steal_share));
    /// Number of rounds measured. Rounds beyond the wished number replaced disturbed ones.
    RoundsMeasured: "rounds_measured", "" = Whole(|m| Some(Value::Count(m.rounds_measured as u64)));
    /// Jobs per second that the simulator predicts, if it was run.
    PredictedJobsPerS: "predicted_jobs_per_s", "1/s" = Whole(|_| None);
    /// Misses per job that the simulator predicts, if it was run.
    PredictedMissesPerJob: "predicted_misses_per_job", "" = Whole(|_| None);
    /// Predicted divided by measured throughput, minus 1.
    PredictionError: "prediction_error", "" = Whole(|_| None);
}

fn share(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}

impl Figure {
    /// Returns its row of the table.
    pub(super) fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Returns the names of its columns in CSV.
    pub(super) fn columns(self) -> Vec<String> {
        let path = self.row().path.replace('.', "_");
        let name = self.row().column.unwrap_or(&path);
        match self.row().source {
            Each(_) | Others(_) => {
                ["median", "min", "max"].map(|part| format!("{name}_{part}")).to_vec()
            }
            Median(_) | Whole(_) => vec![name.to_string()],
        }
    }

    /// Returns the group in JSON and the name within it.
    fn group(self) -> Option<(&'static str, &'static str)> {
        self.row().path.split_once('.')
    }
}

impl Value {
    /// Returns a figure of several rounds.
    pub(super) fn spread(self) -> Option<Spread> {
        if let Value::Spread(spread) = self { Some(spread) } else { None }
    }

    /// Returns a number, of several rounds the median.
    pub(super) fn number(self) -> Option<f64> {
        match self {
            Value::Spread(spread) => Some(spread.median),
            Value::Number(number) => Some(number),
            Value::Count(count) => Some(count as f64),
            Value::Policy(_) => None,
        }
    }

    /// Returns its columns in CSV.
    pub(super) fn cells(self) -> Vec<String> {
        match self {
            Value::Spread(Spread { median, min, max }) => {
                [median, min, max].map(|value| value.to_string()).to_vec()
            }
            Value::Number(number) => vec![number.to_string()],
            Value::Count(count) => vec![count.to_string()],
            Value::Policy(policy) => vec![policy.to_string()],
        }
    }
}

/// Returns the figures of `measured` that apply.
pub(super) fn figures_of(measured: &Measured<'_>) -> BTreeMap<Figure, Value> {
    let samples = measured.samples();
    let value = |figure: &Figure| figure.row().source.value(measured, &samples);
    Figure::ALL.iter().filter_map(|figure| Some((*figure, value(figure)?))).collect()
}

/// Writes all figures under their paths. A figure that does not apply is null. A group without
/// values is null.
pub(super) fn serialize<S: Serializer>(
    values: &BTreeMap<Figure, Value>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    let group_of = |figure: &Figure| figure.group().map(|(group, _)| group);
    let are_together = |a: &Figure, b: &Figure| group_of(a).is_some() && group_of(a) == group_of(b);
    for figures in Figure::ALL.chunk_by(are_together) {
        let Some(group) = group_of(&figures[0]) else {
            map.serialize_entry(figures[0].row().path, &values.get(&figures[0]))?;
            continue;
        };
        let named = |figure: &Figure| Some((figure.group()?.1, values.get(figure)));
        let named: BTreeMap<_, _> = figures.iter().filter_map(named).collect();
        let applies = named.values().any(Option::is_some);
        map.serialize_entry(group, &applies.then_some(named))?;
    }
    map.end()
}
