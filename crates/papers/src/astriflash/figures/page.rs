//! AstriFlash's figures and tables as a page, in the paper's own form.

use crate::astriflash::AstriFlash;
use crate::astriflash::experiments::{ByDesign, DESIGNS, LOADED, WorkloadRow};
use ebbtide_report::statistics::Estimate;
use ebbtide_report::{BarChart, LineChart, Page, Range, Table};
use ebbtide_study::analytic::figure3;
use ebbtide_study::analytic::systems::System;

impl AstriFlash {
    /// Figs. 1, 3, 9 and 10, Tables I and II, every claim, and what the assumptions move.
    pub(crate) fn figures(&self) -> Page {
        let AstriFlash { scale_denominator, seed, seeds, .. } = self;
        Page::new("AstriFlash (HPCA'23), reproduced")
            .paragraph(&format!(
                "Simulated at 1/{scale_denominator} of the paper's capacities, {seeds} seeds from {seed}. \
                 Every parameter and its source are under Table I."
            ))
            .section("Claims")
            .table(self.findings.table())
            .section("Fig. 1: miss curves")
            .lines(self.figure1_chart())
            .section("Fig. 3: the analytic models")
            .lines(figure3_chart())
            .section("Fig. 9: throughput")
            .bars(self.figure9())
            .section("Fig. 10: TATP under Poisson arrivals")
            .lines(self.figure10_chart())
            .section("Table II: p99 of service over Flash-Sync's")
            .table(self.table2())
            .section("Assumptions, varied one at a time under Array Swap")
            .table(self.assumptions_table())
            .section("Figures at other capacities")
            .table(self.scales_table())
            .section("Table I: parameters")
            .preformatted(ebbtide_sim::designs::find("astriflash").map_or("", |d| d.config))
            .data(self.table("Figure 9", |row| &row.throughput, ("mean", &self.mean_throughput)))
    }

    fn figure1_chart(&self) -> LineChart {
        let (x, y) = ("DRAM, % of the dataset", "misses, % of accesses");
        let chart = LineChart::new("Misses over DRAM capacity", x, y).log_y();
        let drawn = |points: &[(f64, f64)]| {
            let drawn = points.iter().filter(|(share, misses)| *share <= 0.2 && *misses > 0.0);
            drawn.map(|(share, misses)| (100.0 * share, 100.0 * misses)).collect::<Vec<_>>()
        };
        let curves = self.miss_curves.iter();
        curves.fold(chart, |chart, row| chart.series(row.workload, drawn(&row.points)))
    }

    fn figure9(&self) -> BarChart {
        let chart = BarChart::new("By workload and design", "throughput relative to DRAM-only");
        let groups = self.workloads.iter().map(|row| (row.workload, &row.throughput));
        let groups = groups.chain([("mean", &self.mean_throughput)]);
        groups.fold(chart.reference(1.0, "DRAM-only"), |chart, (name, values)| {
            chart.group(name, values.iter().map(|(design, share)| (*design, range(*share))))
        })
    }

    fn figure10_chart(&self) -> LineChart {
        let label = "throughput, share of DRAM-only's";
        let chart = LineChart::new("p99 of response", label, "p99 in us").log_y();
        LOADED.into_iter().fold(chart, |chart, design| {
            let rows = self.loads.iter().filter(|row| row.design == design);
            let points = rows.map(|row| (row.load, row.response_p99_us.mean));
            chart.series(design, points.collect::<Vec<_>>())
        })
    }

    fn table2(&self) -> Table {
        let mean = ("geometric mean", &self.geometric_mean_p99);
        self.table("Table II", |row| &row.p99_over_flash_sync, mean)
    }

    fn table(
        &self,
        caption: &str,
        values: impl Fn(&WorkloadRow) -> &ByDesign<Estimate>,
        mean: (&'static str, &ByDesign<Estimate>),
    ) -> Table {
        let header = std::iter::once("workload").chain(DESIGNS);
        let rows = self.workloads.iter().map(|row| (row.workload, values(row)));
        rows.chain([mean]).fold(Table::new(caption, header), |table, (name, values)| {
            table.numbers([name], values.iter().map(|(_, value)| value.mean))
        })
    }

    fn assumptions_table(&self) -> Table {
        let header = ["design", "parameter", "value", "throughput", "p99 over Flash-Sync's"];
        self.assumptions.iter().fold(Table::new("Assumptions", header), |table, row| {
            let values = [row.throughput, row.p99_over_flash_sync];
            table.numbers([row.design, row.key, row.value], values)
        })
    }

    fn scales_table(&self) -> Table {
        let designs = self.scales.first().map(|row| &row.mean_throughput);
        let designs = designs.into_iter().flatten().map(|(design, _)| *design);
        let header = std::iter::once("capacities").chain(designs).chain(["AstriFlash's p99"]);
        self.scales.iter().fold(Table::new("Scales", header), |table, row| {
            let throughput = row.mean_throughput.iter().map(|(_, value)| *value);
            let tail = row.p99_over_flash_sync.last().map(|(_, value)| *value);
            table.numbers([format!("1/{}", row.scale_denominator)], throughput.chain(tail))
        })
    }
}

fn range(estimate: Estimate) -> Range {
    match estimate.ci95 {
        Some([low, high]) => Range { min: low, median: estimate.mean, max: high },
        None => Range::single(estimate.mean),
    }
}

fn figure3_chart() -> LineChart {
    let title = "p99 over load";
    let chart = LineChart::new(title, "load, share of DRAM-only's", "p99 in mean services").log_y();
    let curves = figure3::p99_over_load(&System::ALL);
    curves.into_iter().fold(chart, |chart, curve| chart.series(curve.name, curve.points))
}
