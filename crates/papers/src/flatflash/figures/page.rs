//! FlatFlash's figures and tables as a page.

use crate::flatflash::FlatFlash;
use crate::flatflash::experiments::Logging;
use crate::flatflash::experiments::Measure;
use crate::flatflash::experiments::{
    DEVICES_US, GRAPH_RATIOS, GRAPHS, GUPS, MICRO, YCSB, YCSB_RATIOS, at,
};
use crate::flatflash::experiments::{FLATFLASH, TRADITIONAL_STACK, UNIFIED_MMAP};
use ebbtide_report::{BarChart, LineChart, Page, Range, Table};

const SYSTEMS: [&str; 3] = [FLATFLASH, UNIFIED_MMAP, TRADITIONAL_STACK];

impl FlatFlash {
    /// Figs. 8 to 14 and every claim.
    pub(crate) fn figures(&self) -> Page {
        let names = |ratios: &[u64], named: &[&str]| -> Vec<String> {
            named.iter().flat_map(|name| ratios.iter().map(|ratio| at(name, *ratio))).collect()
        };
        let micro: Vec<String> = MICRO.iter().map(|(name, ..)| name.to_string()).collect();
        let graphs = names(&GRAPH_RATIOS, &GRAPHS.map(|(name, _)| name));
        let ycsb = names(&YCSB_RATIOS, &YCSB.map(|(name, _)| name));
        let mean = |measure: &Measure| measure.job_ns;
        Page::new("FlatFlash (ASPLOS'19), reproduced")
            .paragraph(&format!(
                "Simulated at 1/{} of the paper's capacities, seed {}. Every parameter and its source \
                 are at the end.",
                self.scale_denominator, self.seed
            ))
            .section("Claims")
            .table(self.findings.table())
            .section("Readings of Algorithm 1")
            .table(self.reading_table())
            .section("Fig. 8: 64 bytes at a time")
            .bars(self.relative("By pattern", &micro, mean))
            .section("Fig. 9: GUPS")
            .bars(self.relative("Throughput", &[GUPS.to_string()], mean))
            .section("Fig. 10: graphs")
            .bars(self.relative("By data over DRAM", &graphs, mean))
            .section("Fig. 11: YCSB, p99")
            .bars(self.relative("By data over DRAM", &ycsb, |measure| measure.p99_ns))
            .section("Fig. 12: YCSB, mean latency")
            .bars(self.relative("By data over DRAM", &ycsb, mean))
            .section("Fig. 13: file systems")
            .table(self.file_table())
            .section("Fig. 14: databases")
            .lines(self.figure14())
            .section("Parameters")
            .preformatted(ebbtide_sim::designs::find("unified-mmap").map_or("", |d| d.config))
            .preformatted(ebbtide_sim::designs::find("traditional-stack").map_or("", |d| d.config))
            .preformatted(ebbtide_sim::designs::find("flatflash").map_or("", |d| d.config))
            .data(self.run_table())
            .data(self.database_table())
    }

    fn relative(&self, title: &str, names: &[String], of: fn(&Measure) -> f64) -> BarChart {
        let chart = BarChart::new(title, "time over FlatFlash's").reference(1.0, "FlatFlash");
        names.iter().fold(chart, |chart, name| {
            let own = of(self.run(name, FLATFLASH));
            let bar = |system| (system, Range::single(of(self.run(name, system)) / own));
            chart.group(name, SYSTEMS.map(bar))
        })
    }

    fn figure14(&self) -> LineChart {
        let chart = LineChart::new(
            "A log for each transaction",
            "clients",
            "throughput over UnifiedMMap's",
        );
        let mut databases: Vec<&str> = self.databases.iter().map(|row| row.database).collect();
        databases.dedup();
        databases.into_iter().fold(chart, |chart, name| {
            let points = self.databases.iter().filter(|row| {
                row.database == name
                    && row.logging == Logging::PerTransaction
                    && row.device_us == DEVICES_US[0]
            });
            let points = points.map(|row| (row.clients as f64, row.over_unified_mmap));
            chart.series(name, points.collect::<Vec<_>>())
        })
    }

    fn file_table(&self) -> Table {
        let header = ["file system", "operation", "pages", "bytes", "gain", "lifetime"];
        self.files.iter().fold(Table::new("Metadata", header), |table, row| {
            let numbers = [row.pages, row.bytes, row.gain, row.lifetime];
            table.row(
                [row.file_system.to_string(), row.operation.to_string()]
                    .into_iter()
                    .chain(numbers.map(|number| format!("{number:.2}"))),
            )
        })
    }

    fn reading_table(&self) -> Table {
        let header = ["experiment", "reading", "gain", "fewer moves", "fewer writes"];
        let table = Table::new("UnifiedMMap over FlatFlash", header);
        self.readings.iter().fold(table, |table, row| {
            let numbers = [row.gain, row.fewer_moves, row.fewer_writes];
            table.row(
                [row.experiment.clone(), row.reading.to_string()]
                    .into_iter()
                    .chain(numbers.map(|number| format!("{number:.2}"))),
            )
        })
    }

    fn run_table(&self) -> Table {
        let header = ["experiment", "system", "job_ns", "p99_ns", "pages_moved", "pages_written"];
        self.runs.iter().fold(Table::new("Runs", header), |table, row| {
            let Measure { job_ns, p99_ns, pages_moved, pages_written, .. } = row.measure;
            table.row(
                [row.experiment.clone(), row.system.clone()]
                    .into_iter()
                    .chain([job_ns, p99_ns, pages_moved, pages_written].map(|n| n.to_string())),
            )
        })
    }

    fn database_table(&self) -> Table {
        let header = [
            "database",
            "clients",
            "device_us",
            "logging",
            "over_unified_mmap",
            "over_traditional_stack",
            "slow_down",
        ];
        self.databases.iter().fold(Table::new("Databases", header), |table, row| {
            table.row([
                row.database.to_string(),
                row.clients.to_string(),
                row.device_us.to_string(),
                format!("{:?}", row.logging),
                row.over_unified_mmap.to_string(),
                row.over_traditional_stack.to_string(),
                row.slow_down.to_string(),
            ])
        })
    }
}
