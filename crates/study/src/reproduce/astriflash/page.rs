//! AstriFlash's figures and tables as a page, in the paper's own form.

use super::super::claims_table;
use super::{AstriFlash, DESIGNS, WorkloadRow};
use crate::analytic::figure3;
use crate::analytic::systems::System;
use crate::report::{BarChart, LineChart, Page, Range, Table};

impl AstriFlash {
    /// Figs. 3, 9 and 10, Tables I and II, and every claim.
    pub(super) fn figures(&self) -> Page {
        let scale = self.scale_denominator;
        Page::new("AstriFlash (HPCA'23), reproduced")
            .paragraph(&format!(
                "Simulated at 1/{scale} of the paper's capacities, seed {}. Every parameter and its \
                 source are under Table I.",
                self.seed
            ))
            .section("Claims")
            .table(claims_table(&self.findings))
            .section("Fig. 3: the analytic models")
            .lines(figure3_chart())
            .section("Fig. 9: throughput")
            .bars(self.figure9())
            .section("Fig. 10: TATP under Poisson arrivals")
            .lines(self.figure10())
            .section("Table II: p99 of service over Flash-Sync's")
            .table(self.by_design("Table II", |row| &row.p99_over_flash_sync))
            .section("Table I: parameters")
            .preformatted(ebbtide_sim::designs::find("astriflash").map_or("", |d| d.config))
            .data(self.by_design("Figure 9", |row| &row.throughput))
    }

    fn figure9(&self) -> BarChart {
        let chart = BarChart::new("By workload and design", "throughput relative to DRAM-only");
        self.workloads.iter().fold(chart.reference(1.0, "DRAM-only"), |chart, row| {
            let bars =
                row.throughput.iter().map(|(design, share)| (*design, Range::single(*share)));
            chart.group(row.workload, bars)
        })
    }

    fn figure10(&self) -> LineChart {
        let label = "throughput, share of DRAM-only's";
        let chart = LineChart::new("p99 of response", label, "p99 in us").log_y();
        ["dram-only", "astriflash"].into_iter().fold(chart, |chart, design| {
            let points = self.loads_of(design).map(|row| (row.load, row.response_p99_us));
            chart.series(design, points.collect::<Vec<_>>())
        })
    }

    fn by_design(
        &self,
        caption: &str,
        values: impl Fn(&WorkloadRow) -> &[(&'static str, f64)],
    ) -> Table {
        let header = std::iter::once("workload").chain(DESIGNS);
        self.workloads.iter().fold(Table::new(caption, header), |table, row| {
            table.numbers([row.workload], values(row).iter().map(|(_, value)| *value))
        })
    }
}

fn figure3_chart() -> LineChart {
    let title = "p99 over load";
    let chart = LineChart::new(title, "load, share of DRAM-only's", "p99 in mean services").log_y();
    let curves = figure3::p99_over_load(&System::ALL);
    curves.into_iter().fold(chart, |chart, curve| chart.series(curve.name, curve.points))
}
