//! A bench as a page of charts and tables, and as CSV.

use super::options::{Arrivals, Mode};
use super::results::{BenchReport, LatencySpread, ModeOutcome};
use super::spread::Spread;
use ebbtide_report::{BarChart, LineChart, Page, PageReport, Range, Table};

impl PageReport for BenchReport {
    /// Returns the page: the result, throughput or response times as charts, the figures, and the
    /// configuration.
    fn page(&self) -> Page {
        let used: Vec<String> = self.machine.cpus_used.iter().map(usize::to_string).collect();
        let machine = format!("{}; used: CPU {}.", self.machine.headline, used.join(", "));
        let page = Page::new("Ebbtide bench: flash as memory");
        let page = self.finding().into_iter().fold(page, |page, text| page.paragraph(&text));
        let mut page = page.paragraph(&machine);
        page = match self.config.options.arrivals {
            Arrivals::Closed => self.throughput(page),
            Arrivals::Open => self.responses(page),
        };
        for failure in &self.failures {
            page = page.paragraph(&format!("Failed: {failure}."));
        }
        for outcome in &self.results {
            for doubt in &outcome.doubts {
                let (workload, mode) = (outcome.workload, name(outcome.mode));
                let load = outcome.load.map_or(String::new(), |load| format!(" at load {load:.2}"));
                page = page.paragraph(&format!("Doubtful: {workload}, {mode}{load}: {doubt}."));
            }
        }
        for notice in &self.notices {
            page = page.paragraph(&format!("Note: {notice}."));
        }
        if let Some(against) = &self.against {
            page = page.section("Change").table(against.table());
            for caveat in &against.caveats {
                page = page.paragraph(&format!("But: {caveat}."));
            }
        }
        page.section("Figures")
            .table(BenchReport::figures(self.results.iter()))
            .section("Workloads")
            .paragraph(
                "Work is added to every job until plain LRU would miss at the wished interval of \
                 execution; accesses, keys and sizes are the workload's own.",
            )
            .table(self.workloads())
            .section("Configuration")
            .preformatted(&self.settings())
            .data(self.all())
    }
}

impl BenchReport {
    /// Throughput relative to DRAM-only by workload and mode (as AstriFlash, Fig. 9).
    fn throughput(&self, page: Page) -> Page {
        let label = "throughput relative to DRAM-only";
        let mut chart = BarChart::new("By workload and memory", label).reference(1.0, "DRAM-only");
        let mut any = false;
        for facts in &self.workloads {
            let outcomes = self.of(facts.workload).filter(|outcome| outcome.mode != Mode::Dram);
            let outcomes: Vec<_> = outcomes.collect();
            if outcomes.is_empty() {
                continue;
            }
            any = true;
            let bars = outcomes.iter().map(|o| (name(o.mode), range(o.ratio_to_dram)));
            chart = chart.group(facts.workload, bars);
            let doubtful = outcomes.iter().filter(|outcome| !outcome.doubts.is_empty());
            chart = doubtful.fold(chart, |chart, o| chart.doubt(facts.workload, name(o.mode)));
        }
        if !any {
            return page;
        }
        let rounds = match self.config.options.rounds {
            1 => "Measured in one round".to_string(),
            rounds => format!("Bars are medians of {rounds} rounds, whiskers their range"),
        };
        page.section("Throughput").bars(chart).paragraph(&format!(
            "{rounds}. Every memory runs the same jobs, turn by turn; each figure is divided by \
             DRAM-only's of the same round. All but DRAM-only have the same small DRAM. A pale bar \
             with a question mark is doubtful, for the reason below."
        ))
    }

    /// p99 response against throughput, a chart a workload (as AstriFlash, Fig. 10).
    fn responses(&self, mut page: Page) -> Page {
        page = page.section("Response time").paragraph(
            "Jobs arrive at random (Poisson) at several rates. A response lasts from a job's \
             intended arrival to its end, time in the queue included. Points are medians of the \
             rounds.",
        );
        for facts in &self.workloads {
            let title = format!("{}: p99 response against throughput", facts.workload);
            let x = "throughput over DRAM-only's maximum";
            let mut chart = LineChart::new(&title, x, "p99 response (µs)").log_y();
            for mode in Mode::ALL {
                let points: Vec<_> = self
                    .of(facts.workload)
                    .filter(|outcome| outcome.mode == mode)
                    .map(|outcome| (outcome.ratio_to_dram.median, outcome.response_us.p99.median))
                    .filter(|(_, response_us)| *response_us > 0.0)
                    .collect();
                if !points.is_empty() {
                    chart = chart.series(name(mode), points);
                }
            }
            page = page.lines(chart);
        }
        page
    }

    /// The configuration, a setting a line.
    fn settings(&self) -> String {
        let config = serde_json::to_value(&self.config).unwrap_or_default();
        let settings = config.as_object().into_iter().flatten();
        let lines: Vec<String> =
            settings.map(|(name, value)| format!("{name} = {value}")).collect();
        lines.join("\n")
    }

    fn of(&self, workload: &str) -> impl Iterator<Item = &ModeOutcome> {
        self.results.iter().filter(move |outcome| outcome.workload == workload)
    }

    fn workloads(&self) -> Table {
        let header = [
            "workload",
            "MiB",
            "µs a job",
            "of that added work, %",
            "accesses a job",
            "LRU misses a job",
        ];
        self.workloads.iter().fold(Table::new("Jobs", header), |table, facts| {
            let calibration = &facts.calibration;
            table.numbers(
                [facts.workload],
                [
                    (facts.pages >> 8) as f64,
                    calibration.job_ns / 1e3,
                    calibration.work_share * 100.0,
                    calibration.accesses_per_job,
                    calibration.lru_misses_per_job,
                ],
            )
        })
    }

    /// Returns all figures of every outcome, under their names in JSON.
    fn all(&self) -> Table {
        let mut header: Vec<String> = Vec::new();
        let mut rows = Vec::new();
        for outcome in &self.results {
            let columns = columns(outcome);
            header = columns.iter().map(|(name, _)| name.clone()).collect();
            rows.push(columns.into_iter().map(|(_, value)| value));
        }
        let table = Table::new("results", header.iter().map(String::as_str));
        rows.into_iter().fold(table, Table::row)
    }
}

/// Returns the printed name of a mode.
fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Dram => "DRAM-only",
        Mode::Paging => "OS paging",
        Mode::Sync => "blocking reads",
        Mode::Ebbtide => "Ebbtide",
        Mode::Mapped => "Ebbtide, mapped regions",
        Mode::Plain => "Ebbtide, nothing tried",
        Mode::Durable => "Ebbtide, durable",
    }
}

fn range(spread: Spread) -> Range {
    Range { min: spread.min, median: spread.median, max: spread.max }
}

fn columns(outcome: &ModeOutcome) -> Vec<(String, String)> {
    let mut columns = Columns(vec![
        ("workload".into(), outcome.workload.into()),
        ("mode".into(), outcome.mode.to_string()),
        ("cores".into(), outcome.cores.to_string()),
    ]);
    columns.number("load", outcome.load);
    columns.spread("jobs_per_s", Some(outcome.jobs_per_s));
    columns.spread("ratio_to_dram", Some(outcome.ratio_to_dram));
    columns.spread("lru_miss_interval_us", outcome.lru_miss_interval_us);
    columns.spread("miss_interval_us", outcome.miss_interval_us);
    columns.spread("misses_per_job", outcome.misses_per_job);
    columns.spread("cpu_us_per_miss", outcome.cpu_us_per_miss);
    columns.spread("kernel_cpu_us_per_miss", outcome.kernel_cpu_us_per_miss);
    columns.latency("service_us", &outcome.service_us);
    columns.latency("response_us", &outcome.response_us);
    let slowest = outcome.slowest;
    columns.spread("slowest_response_us", slowest.map(|slowest| slowest.response_us));
    columns.spread("slowest_queueing_us", slowest.map(|slowest| slowest.queueing_us));
    columns.spread("flash_reads_per_s", Some(outcome.flash_reads_per_s));
    columns.spread("flash_writes_per_s", Some(outcome.flash_writes_per_s));
    columns.spread("flash_read_us", outcome.flash_read_us);
    columns.spread("flash_read_p99_us", outcome.flash_read_p99_us);
    columns.spread("flash_read_held_us", outcome.flash_read_held_us);
    columns.spread("pages_per_write", outcome.pages_per_write);
    columns.spread("requests_per_submission", outcome.requests_per_submission);
    columns.spread("ahead_pages_per_s", outcome.ahead.map(|ahead| ahead.pages_per_s));
    columns.spread("ahead_accuracy", outcome.ahead.map(|ahead| ahead.accuracy));
    columns.spread("ahead_lateness", outcome.ahead.map(|ahead| ahead.lateness));
    columns.spread("ahead_pollution", outcome.ahead.map(|ahead| ahead.pollution));
    columns.spread("idle_share", outcome.idle_share);
    columns.spread("rss_mib", Some(outcome.rss_mib));
    let durable = outcome.durable;
    columns.spread("ratio_to_extend", durable.map(|durable| durable.ratio_to_extend));
    columns.spread("transactions_per_s", durable.map(|durable| durable.transactions_per_s));
    columns.number("stored_bytes", durable.map(|durable| durable.stored_bytes));
    columns.number("stored_pages", durable.map(|durable| durable.stored_pages));
    columns.number("log_bytes", durable.map(|durable| durable.log_bytes));
    columns.number("pages_written", durable.map(|durable| durable.pages_written));
    columns.number("pages_written_extend", durable.map(|durable| durable.pages_written_extend));
    columns.number("stack_used_bytes", outcome.stack_used_bytes.map(|bytes| bytes as f64));
    columns.number("page_cache_bytes", outcome.page_cache_bytes.map(|bytes| bytes as f64));
    let raw_ring = outcome.raw_ring;
    columns.spread("raw_read_cpu_us", raw_ring.map(|ring| ring.cpu_us_per_read));
    columns.number("raw_batch", raw_ring.map(|ring| f64::from(ring.batch)));
    columns.number("raw_in_flight", raw_ring.map(|ring| f64::from(ring.in_flight)));
    columns.number("ratio_without_work", outcome.ratio_without_work);
    columns.number("threads_per_core", outcome.threads_per_core.map(|count| count as f64));
    columns.spread("others_cpu_share", Some(outcome.others_cpu_share));
    columns.spread("steal_share", Some(outcome.steal_share));
    columns.number("rounds_measured", Some(outcome.rounds_measured as f64));
    columns.number("predicted_jobs_per_s", outcome.predicted_jobs_per_s);
    columns.number("predicted_misses_per_job", outcome.predicted_misses_per_job);
    columns.number("prediction_error", outcome.prediction_error);
    columns.0.push(("doubts".into(), outcome.doubts.join("; ")));
    columns.0
}

/// Names and values. A figure that does not apply is empty.
struct Columns(Vec<(String, String)>);

impl Columns {
    fn number(&mut self, name: &str, value: Option<f64>) {
        self.0.push((name.into(), value.map_or(String::new(), |value| value.to_string())));
    }

    fn spread(&mut self, name: &str, spread: Option<Spread>) {
        self.number(&format!("{name}_median"), spread.map(|spread| spread.median));
        self.number(&format!("{name}_min"), spread.map(|spread| spread.min));
        self.number(&format!("{name}_max"), spread.map(|spread| spread.max));
    }

    fn latency(&mut self, name: &str, latency: &LatencySpread) {
        self.spread(&format!("{name}_p50"), Some(latency.p50));
        self.spread(&format!("{name}_p99"), Some(latency.p99));
        self.spread(&format!("{name}_p999"), Some(latency.p999));
    }
}
