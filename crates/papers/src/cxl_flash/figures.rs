//! The CXL-flash study's figures and tables, in the paper's own form.

use ebbtide_report::{Page, Table};
use ebbtide_study::claims::{Cell, Figures, Grid};

use super::CxlFlash;
use super::experiments::{CAPTURED, OPEN, POLICIES, PREFETCHERS, REAL, Row, SYNTHETIC, opened};

const BELOW: &str = "accesses below 1 us in the device, %";

impl CxlFlash {
    /// Figs. 5 to 14, Tables 3 and 5, and every claim.
    pub(super) fn figures(&self) -> (String, Page) {
        let [hash_map, matrix_multiply, min_heap, random, stride] = SYNTHETIC;
        let cut = self
            .accesses_max
            .map_or(String::new(), |most| format!(", cut after {} M accesses", most / 1_000_000));
        let about = format!(
            "Synthetic programs, their data and their caches at 1/{} of the paper's; seed {}. Real \
             programs are stand-ins made from Table 5's six figures{cut}.",
            self.synthetic_scale_denominator, self.seed
        );
        let captured = CAPTURED.each_ref().map(|captured| captured.name);
        let [us, p99_us] = ["mean latency in the device, us", "p99 in the device, us"];
        let figures = Figures::new("CXL-flash (ATC'23), reproduced", &about, &self.findings);
        let text = |figures: Figures, figure: &&str| {
            figures.text(&format!("\n{figure}\n")).drawn(&self.runs_of(figure), |page| page)
        };
        self.figures_run()
            .iter()
            .fold(figures, text)
            .page(|page| {
                page.section("Figs. 5 to 7: no cache, a cache, miss registers")
                    .bars(self.of("Fig. 5", &SYNTHETIC, us, |row| row.mean_us).bars(us))
                    .bars(self.of("Fig. 5", &SYNTHETIC, p99_us, |row| row.p99_us).bars(p99_us))
                    .section("Fig. 8: next-n-line by degree and offset")
                    .bars(
                        self.below("Fig. 8", &[hash_map, matrix_multiply, min_heap, stride])
                            .bars(BELOW),
                    )
                    .section("Fig. 9: kinds of flash under stride")
                    .bars(self.below("Fig. 9", &[stride]).bars(BELOW))
                    .section("Fig. 10: chips and cache")
                    .bars(self.below("Fig. 10", &[hash_map, min_heap, random, stride]).bars(BELOW))
                    .section("Table 3: virtual and physical addresses")
                    .table(self.below("Table 3", &SYNTHETIC).table())
                    .section("Figs. 11 and 12: replacement")
                    .bars(
                        self.real("Fig. 11", POLICIES.map(|policy| format!("{policy}, 16 ways")))
                            .bars(BELOW),
                    )
                    .section("Figs. 13 and 14: prefetching")
                    .bars(
                        self.real("Fig. 13", PREFETCHERS.map(|(_, name)| name.to_string()))
                            .bars(BELOW),
                    )
                    .section("Observation 7: BERT with hints")
                    .table(self.below("Obs. 7", &[REAL[0]]).table())
                    .section("Stand-ins with other values of what Table 5 leaves open")
                    .bars(
                        self.real("Table 5", OPEN.map(|open| opened(open, PREFETCHERS[0].1)))
                            .bars(BELOW),
                    )
                    .section("Programs captured here, by virtual and physical addresses")
                    .table(self.below("Captured", &captured).table())
            })
            .parameters("cxl-flash")
            .page(|page| page.data(self.every_run()))
            .finish(&self.findings)
    }

    /// The figures and tables that were run, in order.
    fn figures_run(&self) -> Vec<&'static str> {
        let mut figures: Vec<_> = self.runs.iter().map(|row| row.figure).collect();
        figures.dedup();
        figures
    }

    /// A row for each program, and a column for each of its runs for `figure`.
    fn of(&self, figure: &str, programs: &[&str], title: &str, value: fn(&Row) -> f64) -> Grid {
        let rows = |program: &str| {
            let wanted = |row: &&Row| (row.figure, row.program) == (figure, program);
            self.runs.iter().filter(wanted).collect::<Vec<_>>()
        };
        let setups = rows(programs[0]).into_iter().map(|row| row.setup.as_str());
        let header = ["program"].into_iter().chain(setups);
        let grid = Grid::new(&format!("{figure}: {title}"), header);
        programs.iter().fold(grid, |grid, program| {
            grid.row([program], rows(program).into_iter().map(|row| Cell::number(value(row), 1)))
        })
    }

    /// The share of accesses below 1 us in the runs of `programs` for `figure`.
    fn below(&self, figure: &str, programs: &[&str]) -> Grid {
        self.of(figure, programs, BELOW, percent)
    }

    /// The share of accesses below 1 us in the runs of every real program for `figure` on each of
    /// `setups`.
    fn real<const N: usize>(&self, figure: &str, setups: [String; N]) -> Grid {
        let header = std::iter::once("program").chain(setups.iter().map(String::as_str));
        REAL.iter().fold(Grid::new(figure, header), |grid, program| {
            let runs = setups.iter().map(|setup| self.at(figure, program, setup));
            grid.row([program], runs.map(|row| Cell::number(percent(row), 1)))
        })
    }

    /// The runs for `figure`.
    fn runs_of(&self, figure: &str) -> Grid {
        let header = [
            "program", "setup", "<1us%", "mean us", "p99 us", "hit%", "under%", "flash w", "acc%",
            "cov%",
        ];
        let rows = self.runs.iter().filter(|row| row.figure == figure);
        rows.fold(Grid::new(figure, header), |grid, row| {
            let share = |count: u64| Cell::percent(count as f64 / row.accesses as f64, 1);
            let cells = [
                Cell::percent(row.sub_us, 1),
                Cell::number(row.mean_us, 2),
                Cell::number(row.p99_us, 1),
                share(row.hits),
                share(row.hits_under_miss),
                Cell::number(row.flash_writes as f64, 0),
                Cell::percent(row.accuracy, 1),
                Cell::percent(row.coverage, 1),
            ];
            grid.row([row.program, &row.setup], cells)
        })
    }

    /// All runs.
    fn every_run(&self) -> Table {
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
        self.runs.iter().fold(Table::new("Runs", header), |table, row| {
            let latencies = [percent(row), row.mean_us, row.p99_us, row.mean_from_issue_us];
            let counts = [
                row.hits,
                row.hits_under_miss,
                row.misses,
                row.repeated_reads,
                row.flash_reads,
                row.flash_writes,
            ];
            let numbers = std::iter::once(row.accesses as f64)
                .chain(latencies)
                .chain(counts.map(|count| count as f64))
                .chain([row.seconds, row.accuracy, row.coverage, row.pollution]);
            table.numbers([row.figure, row.program, &row.setup], numbers)
        })
    }
}

fn percent(row: &Row) -> f64 {
    100.0 * row.sub_us
}
