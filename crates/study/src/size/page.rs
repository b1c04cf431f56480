//! The result as a page of charts and tables.

use super::text::MODELS_DIFFER;
use super::{Demand, Report};
use ebbtide_report::{LineChart, Page, PageReport, Table};
use serde_json::Value;

impl PageReport for Report {
    /// One row for each design, without its chart's points.
    fn records(&self) -> serde_json::Result<Vec<Value>> {
        let mut records =
            self.designs.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?;
        for keys in records.iter_mut().filter_map(Value::as_object_mut) {
            keys.remove("points");
        }
        Ok(records)
    }

    /// The page: the answer, the curves, the result of each design, and the method.
    fn page(&self) -> Page {
        let mut page = Page::new("Ebbtide size: how much DRAM?")
            .paragraph(&format!("{}.", self.recommendation()))
            .section("Misses by size of DRAM")
            .lines(self.marked(self.demand.misses_chart()))
            .lines(self.marked(self.demand.write_backs_chart()))
            .paragraph(&format!(
                "Another percent of the data in DRAM spares less than a percent of the misses from \
                 the knee on, at {:.2}% of the data. A first access to a page misses at any size.",
                self.knee.dram_share * 100.0
            ))
            .section("Response times by size of DRAM")
            .paragraph(
                "p99 response at the offered load. The analytic queue takes a core that runs other \
                 jobs during a miss for several slow servers; the event model runs each \
                 job in parts, with a read between them.",
            )
            .lines(self.responses("p99 by the analytic queue", |point| point.analytic_p99_us))
            .lines(self.responses("p99 by the event model", |point| point.simulated_p99_us))
            .section("What each design needs")
            .table(self.needs());
        if self.models_differ() {
            page = page.paragraph(&format!("{MODELS_DIFFER}."));
        }
        page = page
            .section("How long the SSD lasts")
            .paragraph(
                "In years of continuous use, if nothing else writes to the drives. Wear is even and \
                 write amplification 1.",
            )
            .table(self.lifetimes());
        if !self.beside.claims.is_empty() {
            let findings = self.beside.to_string();
            page = page.section("Beside what AstriFlash says of services").preformatted(&findings);
        }
        for notice in &self.notices {
            page = page.paragraph(&format!("Note: {notice}."));
        }
        let settings = serde_json::to_string_pretty(&self.options).unwrap_or_default();
        page.section("Configuration").preformatted(&settings)
    }
}

/// The axis of all charts.
const DRAM_AXIS: &str = "DRAM (% of the data)";

impl Demand {
    /// The miss ratio by size of DRAM.
    pub(super) fn misses_chart(&self) -> LineChart {
        let axis = "accesses that miss (%)";
        let chart = LineChart::new("Miss ratio", DRAM_AXIS, axis).log_x();
        self.curves.iter().fold(chart, |chart, curve| {
            let points = curve.points.iter().map(|point| (point.0 * 100.0, point.1 * 100.0));
            chart.series(curve.policy.name(), points.collect::<Vec<_>>())
        })
    }

    /// The pages written back by size of DRAM.
    pub(super) fn write_backs_chart(&self) -> LineChart {
        let axis = "pages written back (% of accesses)";
        let chart = LineChart::new("Writes to flash", DRAM_AXIS, axis).log_x();
        self.curves.iter().fold(chart, |chart, curve| {
            let points = curve.points.iter().map(|point| (point.0 * 100.0, point.2 * 100.0));
            chart.series(curve.policy.name(), points.collect::<Vec<_>>())
        })
    }
}

impl Report {
    /// `chart` with the knee and the recommendation marked.
    fn marked(&self, chart: LineChart) -> LineChart {
        let dataset_bytes = (self.demand.dataset_pages * 4096) as f64;
        let chosen = self.designs.iter().find(|design| design.anatomy.design == self.recommended);
        let need = chosen.and_then(|design| design.need.as_ref());
        let share = need.map(|need| 100.0 * need.dram_bytes as f64 / dataset_bytes);
        let chart = chart.mark_x(100.0 * self.knee.dram_share, "knee");
        share.into_iter().fold(chart, |chart, share| chart.mark_x(share, "recommended"))
    }

    fn responses(
        &self,
        title: &str,
        p99_us: impl Fn(&super::ResponsePoint) -> Option<f64>,
    ) -> LineChart {
        let dataset_bytes = (self.demand.dataset_pages * 4096) as f64;
        let chart = LineChart::new(title, DRAM_AXIS, "p99 response (µs)").log_x().log_y();
        let chart = self.marked(chart);
        self.designs.iter().fold(chart, |chart, design| {
            let points = design.points.iter().filter_map(|point| {
                Some((point.dram_bytes as f64 / dataset_bytes * 100.0, p99_us(point)?))
            });
            let points: Vec<_> = points.collect();
            if points.is_empty() { chart } else { chart.series(&design.anatomy.design, points) }
        })
    }

    fn needs(&self) -> Table {
        let header = [
            "design",
            "MiB by the queue",
            "MiB by the event model",
            "MiB on the design itself",
            "% of the data",
            "p99 µs by the queue",
            "p99 µs by the event model",
            "p99 µs on the design itself",
            "throughput kept",
            "µs between misses",
            "core µs a miss",
            "times cheaper",
            "performance per dollar",
        ];
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        self.designs.iter().fold(Table::new("Needs", header), |table, design| {
            let (need, worth) = (design.need.as_ref(), design.worth.as_ref());
            table.cells(
                [&design.anatomy.design],
                [
                    need.map(|need| mib(need.analytic_dram_bytes)),
                    need.map(|need| mib(need.simulated_dram_bytes)),
                    need.and_then(|need| Some(mib(need.tried?.dram_bytes))),
                    need.map(|need| need.dram_share * 100.0),
                    need.map(|need| need.analytic_p99_us),
                    need.map(|need| need.simulated_p99_us),
                    need.and_then(|need| need.tried?.p99_us),
                    need.map(|need| need.throughput_kept),
                    need.and_then(|need| need.miss_interval_us),
                    Some(design.anatomy.overhead_us),
                    worth.map(|worth| worth.saving),
                    worth.map(|worth| worth.effectiveness),
                ],
            )
        })
    }

    fn lifetimes(&self) -> Table {
        let header = ["design", "cells", "years"];
        let mut table = Table::new("Lifetimes", header);
        for design in &self.designs {
            for lifetime in design.worth.iter().flat_map(|worth| &worth.lifetimes) {
                table = table.cells(
                    [design.anatomy.design.as_str(), lifetime.cells.name()],
                    [lifetime.years],
                );
            }
        }
        table
    }
}
