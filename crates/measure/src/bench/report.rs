//! A bench as a page of charts and tables, and as CSV.

use super::figures::Figure;
use super::options::{Arrivals, Mode};
use super::results::{BenchReport, ModeOutcome};
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
            .table(legend())
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
            let ratio = |outcome: &&ModeOutcome| outcome.spread(Figure::RatioToDram);
            let bars = outcomes.iter().filter_map(|o| Some((name(o.mode), range(ratio(o)?))));
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
                    .filter_map(|outcome| {
                        let ratio = outcome.number(Figure::RatioToDram)?;
                        Some((ratio, outcome.number(Figure::ResponseP99Us)?))
                    })
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

    /// Returns all figures of every outcome, under their names in CSV.
    fn all(&self) -> Table {
        let figures = Figure::ALL.iter().flat_map(|figure| figure.columns());
        let names = ["workload", "mode", "cores", "load"].map(String::from).into_iter();
        let names: Vec<String> = names.chain(figures).chain(["doubts".to_string()]).collect();
        let table = Table::new("results", names.iter().map(String::as_str));
        self.results.iter().fold(table, |table, outcome| {
            let ModeOutcome { workload, mode, cores, load, figures, doubts, .. } = outcome;
            let load = load.map_or(String::new(), |load| load.to_string());
            let first = [workload.to_string(), mode.to_string(), cores.to_string(), load];
            let cells = Figure::ALL.iter().flat_map(|figure| match figures.get(figure) {
                Some(value) => value.cells(),
                None => vec![String::new(); figure.columns().len()],
            });
            table.row(first.into_iter().chain(cells).chain([doubts.join("; ")]))
        })
    }
}

/// Returns the descriptions of the figures, under their names in JSON.
fn legend() -> Table {
    let table = Table::new("What the figures are", ["figure", "unit", "meaning"]);
    Figure::ALL.iter().fold(table, |table, figure| {
        let row = figure.row();
        table.row([row.path, row.unit, row.about.concat().trim_start()])
    })
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
