//! FlatFlash's figures and tables, in the paper's own form.

use ebbtide_report::{LineChart, Page, Table};
use ebbtide_study::claims::{Cell, Figures, Grid};

use super::FlatFlash;
use super::experiments::{
    DEVICES_US, FLATFLASH, GRAPH_RATIOS, GRAPHS, GUPS, Logging, MICRO, Measure, TRADITIONAL_STACK,
    UNIFIED_MMAP, YCSB, YCSB_RATIOS, at,
};

const SYSTEMS: [&str; 3] = [FLATFLASH, UNIFIED_MMAP, TRADITIONAL_STACK];

fn two_decimals(number: f64) -> Cell {
    Cell::number(number, 2)
}

impl FlatFlash {
    /// Every run, Figs. 8 to 14 and every claim.
    pub(super) fn figures(&self) -> (String, Page) {
        let names = |ratios: &[u64], named: &[&str]| -> Vec<String> {
            named.iter().flat_map(|name| ratios.iter().map(|ratio| at(name, *ratio))).collect()
        };
        let micro: Vec<String> = MICRO.iter().map(|(name, ..)| name.to_string()).collect();
        let graphs = names(&GRAPH_RATIOS, &GRAPHS.map(|graph| graph.name));
        let ycsb = names(&YCSB_RATIOS, &YCSB.map(|(name, _)| name));
        let mean = |measure: &Measure| measure.job_ns;
        let p99 = |measure: &Measure| measure.p99_ns;
        let about = format!(
            "Simulated at 1/{} of the paper's capacities, graphs at 1/{}, seed {}; nothing is computed between \
             accesses, so that misses follow as soon as the program makes them.",
            self.scale_denominator, self.graph_scale_denominator, self.seed
        );
        Figures::new("FlatFlash (ASPLOS'19), reproduced", &about, &self.findings)
            .text(
                "\nRuns, per job: time and its p99, pages moved to and from host DRAM, pages \
                 written to flash\n",
            )
            .drawn(&self.runs_grid(), |page| page.data(self.run_table()))
            .page(|page| {
                let relative = |title, names: &[String], of| {
                    let chart = self.relative(title, names, of).bars("time over FlatFlash's");
                    chart.reference(1.0, "FlatFlash")
                };
                page.section("Fig. 8: 64 bytes at a time")
                    .bars(relative("By pattern", &micro, mean))
                    .section("Fig. 9: GUPS")
                    .bars(relative("Throughput", &[GUPS.to_string()], mean))
                    .section("Fig. 10: graphs")
                    .bars(relative("By data over DRAM", &graphs, mean))
                    .section("Fig. 11: YCSB, p99")
                    .bars(relative("By data over DRAM", &ycsb, p99))
                    .section("Fig. 12: YCSB, mean latency")
                    .bars(relative("By data over DRAM", &ycsb, mean))
            })
            .section("Readings of Algorithm 1: UnifiedMMap's time and pages over FlatFlash's")
            .grid(&self.readings_grid())
            .section("Fig. 14: transactions a second of FlatFlash over the others', and slow-down")
            .drawn(&self.databases_grid(), |page| {
                page.lines(self.figure14()).data(self.databases_grid().table())
            })
            .section("Fig. 13: file systems, metadata in pages against pieces")
            .grid(&self.files_grid())
            .parameters(UNIFIED_MMAP)
            .parameters(TRADITIONAL_STACK)
            .parameters(FLATFLASH)
            .finish(&self.findings)
    }

    fn relative(&self, title: &str, names: &[String], of: fn(&Measure) -> f64) -> Grid {
        let grid = Grid::new(title, ["experiment"].into_iter().chain(SYSTEMS));
        names.iter().fold(grid, |grid, name| {
            let own = of(self.run(name, FLATFLASH));
            grid.row([name], SYSTEMS.map(|system| two_decimals(of(self.run(name, system)) / own)))
        })
    }

    fn figure14(&self) -> LineChart {
        let title = "A log for each transaction";
        let chart = LineChart::new(title, "clients", "throughput over UnifiedMMap's");
        let mut databases: Vec<&str> = self.databases.iter().map(|row| row.database).collect();
        databases.dedup();
        databases.into_iter().fold(chart, |chart, name| {
            let points = self.databases.iter().filter(|row| {
                row.database == name
                    && row.logging == Logging::PerTransaction
                    && row.device_us == DEVICES_US[0]
            });
            chart.series(name, points.map(|row| (row.clients as f64, row.over_unified_mmap)))
        })
    }

    fn runs_grid(&self) -> Grid {
        let header = ["experiment", "system", "us", "p99 us", "moved", "written"];
        self.runs.iter().fold(Grid::new("Runs", header), |grid, row| {
            let Measure { job_ns, p99_ns, pages_moved, pages_written, .. } = row.measure;
            let pages = [pages_moved, pages_written].map(|pages| Cell::number(pages, 3));
            let times = [Cell::number(job_ns / 1e3, 2), Cell::number(p99_ns / 1e3, 1)];
            grid.row([&row.experiment, &row.system], times.into_iter().chain(pages))
        })
    }

    fn run_table(&self) -> Table {
        let header = ["experiment", "system", "job_ns", "p99_ns", "pages_moved", "pages_written"];
        self.runs.iter().fold(Table::new("Runs", header), |table, row| {
            let Measure { job_ns, p99_ns, pages_moved, pages_written, .. } = row.measure;
            let numbers = [job_ns, p99_ns, pages_moved, pages_written];
            table.numbers([&row.experiment, &row.system], numbers)
        })
    }

    fn readings_grid(&self) -> Grid {
        let header = ["experiment", "reading", "gain", "fewer moves", "fewer writes"];
        let grid = Grid::new("UnifiedMMap over FlatFlash", header);
        self.readings.iter().fold(grid, |grid, row| {
            let numbers = [row.gain, row.fewer_moves, row.fewer_writes];
            grid.row([&row.experiment[..], row.reading], numbers.map(two_decimals))
        })
    }

    fn databases_grid(&self) -> Grid {
        let labels = ["database", "clients", "device_us", "logging"];
        let header =
            labels.into_iter().chain(["over_unified_mmap", "over_traditional_stack", "slow_down"]);
        self.databases.iter().fold(Grid::new("Databases", header), |grid, row| {
            let (clients, device_us) = (row.clients.to_string(), row.device_us.to_string());
            let labels = [row.database.to_string(), clients, device_us, row.logging.to_string()];
            let numbers = [row.over_unified_mmap, row.over_traditional_stack, row.slow_down];
            grid.row(labels, numbers.map(two_decimals))
        })
    }

    fn files_grid(&self) -> Grid {
        let header = ["file system", "operation", "pages", "bytes", "gain", "lifetime"];
        self.files.iter().fold(Grid::new("Metadata", header), |grid, row| {
            let counts = [row.pages, row.bytes].map(|count| Cell::number(count, 0));
            let gains = [row.gain, row.lifetime].map(|gain| Cell::number(gain, 1));
            grid.row([row.file_system, row.operation], counts.into_iter().chain(gains))
        })
    }
}
