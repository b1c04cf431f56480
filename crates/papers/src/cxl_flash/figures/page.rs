//! The study's figures and tables as a page, in the paper's own form.

use crate::cxl_flash::CxlFlash;
use crate::cxl_flash::experiments::CAPTURED;
use crate::cxl_flash::experiments::Row;
use crate::cxl_flash::experiments::{OPEN, POLICIES, PREFETCHERS, REAL, SYNTHETIC, opened};
use ebbtide_report::{BarChart, Page, Range, Table};

const BELOW: &str = "accesses below 1 us in the device, %";

impl CxlFlash {
    /// Figs. 5 to 14, Tables 3 and 5, and every claim.
    pub(crate) fn page(&self) -> Page {
        let study = self;
        let scale = study.synthetic_scale_denominator;
        Page::new("CXL-flash (ATC'23), reproduced")
        .paragraph(&format!(
            "Synthetic programs, their data and their caches at 1/{scale} of the paper's; seed {}. Real \
             programs are stand-ins made from Table 5's six figures.",
            study.seed
        ))
        .section("Claims")
        .table(study.findings.table())
        .section("Figs. 5 to 7: no cache, a cache, miss registers")
        .bars(grouped(study, "Fig. 5", &SYNTHETIC, "mean latency in the device, us", |row| row.mean_us))
        .bars(grouped(study, "Fig. 5", &SYNTHETIC, "p99 in the device, us", |row| row.p99_us))
        .section("Fig. 8: next-n-line by degree and offset")
        .bars(grouped(study, "Fig. 8", &[SYNTHETIC[0], SYNTHETIC[1], SYNTHETIC[2], SYNTHETIC[4]], BELOW, percent))
        .section("Fig. 9: kinds of flash under stride")
        .bars(grouped(study, "Fig. 9", &[SYNTHETIC[4]], BELOW, percent))
        .section("Fig. 10: chips and cache")
        .bars(grouped(study, "Fig. 10", &[SYNTHETIC[0], SYNTHETIC[2], SYNTHETIC[3], SYNTHETIC[4]], BELOW, percent))
        .section("Table 3: virtual and physical addresses")
        .table(shares(study, "Table 3", &SYNTHETIC))
        .section("Figs. 11 and 12: replacement")
        .bars(by_setup(study, "Fig. 11", POLICIES.map(|policy| format!("{policy}, 16 ways")), percent))
        .section("Figs. 13 and 14: prefetching")
        .bars(by_setup(study, "Fig. 13", PREFETCHERS.map(|(_, name)| name.to_string()), percent))
        .section("Observation 7: BERT with hints")
        .table(shares(study, "Obs. 7", &[REAL[0]]))
        .section("Stand-ins in which what Table 5 leaves open is otherwise")
        .bars(by_setup(study, "Table 5", OPEN.map(|open| opened(open, PREFETCHERS[0].1)), percent))
        .section("Programs captured here, by virtual and physical addresses")
        .table(shares(study, "Captured", &CAPTURED.each_ref().map(|captured| captured.name)))
        .section("Parameters")
        .preformatted(ebbtide_sim::designs::find("cxl-flash").map_or("", |design| design.config))
        .data(everything(study))
    }
}

fn percent(row: &Row) -> f64 {
    100.0 * row.sub_us
}

/// A group a program, a bar for each of its runs for `figure`.
fn grouped(
    study: &CxlFlash,
    figure: &str,
    programs: &[&str],
    label: &str,
    value: fn(&Row) -> f64,
) -> BarChart {
    let rows = |program: &str| -> Vec<&Row> {
        let wanted = |row: &&Row| row.figure == figure && row.program == program;
        study.runs.iter().filter(wanted).collect()
    };
    let title = format!("{figure}: {label}");
    programs.iter().fold(BarChart::new(&title, label), |chart, program| {
        let bars = rows(program);
        let bars = bars.iter().map(|row| (row.setup.as_str(), Range::single(value(row))));
        chart.group(program, bars.collect::<Vec<_>>())
    })
}

/// A group a real program, a bar for each of `setups`.
fn by_setup<const N: usize>(
    study: &CxlFlash,
    figure: &str,
    setups: [String; N],
    value: fn(&Row) -> f64,
) -> BarChart {
    REAL.iter().fold(BarChart::new(figure, BELOW), |chart, program| {
        let bar = |setup: &String| Range::single(value(study.at(figure, program, setup)));
        chart.group(
            program,
            setups.iter().map(|setup| (setup.as_str(), bar(setup))).collect::<Vec<_>>(),
        )
    })
}

/// A row a program, a column for each of its runs for `figure`: accesses below 1 us.
fn shares(study: &CxlFlash, figure: &str, programs: &[&str]) -> Table {
    let of = |program: &str| -> Vec<&Row> {
        let wanted = |row: &&Row| row.figure == figure && row.program == program;
        study.runs.iter().filter(wanted).collect()
    };
    let header = of(programs[0]).into_iter().map(|row| row.setup.as_str());
    let header: Vec<&str> = std::iter::once("program").chain(header).collect();
    programs.iter().fold(Table::new(figure, header), |table, program| {
        table.numbers([*program], of(program).into_iter().map(percent))
    })
}

/// All runs.
fn everything(study: &CxlFlash) -> Table {
    let header = [
        "figure",
        "program",
        "setup",
        "accesses",
        "below 1 us %",
        "mean us",
        "p99 us",
        "mean from issue us",
        "hits",
        "hits under miss",
        "misses",
        "repeated reads",
        "flash reads",
        "flash writes",
        "seconds",
        "accuracy",
        "coverage",
        "pollution",
    ];
    study.runs.iter().fold(Table::new("Runs", header), |table, row| {
        let counts =
            [row.hits, row.hits_under_miss, row.misses, row.repeated_reads, row.flash_reads];
        let latencies = [percent(row), row.mean_us, row.p99_us, row.mean_from_issue_us];
        let numbers = std::iter::once(row.accesses as f64)
            .chain(latencies)
            .chain(counts.map(|count| count as f64))
            .chain([
                row.flash_writes as f64,
                row.seconds,
                row.accuracy,
                row.coverage,
                row.pollution,
            ]);
        table.numbers([row.figure, row.program, &row.setup], numbers)
    })
}
