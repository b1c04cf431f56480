//! A comparison as a page: throughput and tail latency against cost, and every figure.

use super::{ComparedDesign, Comparison};
use ebbtide_report::{BarChart, LineChart, Page, PageReport, Range};
use serde_json::Value;

impl PageReport for Comparison {
    /// Charts of throughput and tail against cost, of flash traffic, and the table.
    fn page(&self) -> Page {
        let page = Page::new(&format!("Every design under {}", self.work))
            .paragraph(&format!("{}.", self.heading()))
            .section("Against cost")
            .lines(self.against_cost(
                "Throughput against cost",
                "throughput relative to DRAM-only",
                |row| row.ratio_to_dram,
            ))
            .lines(
                self.against_cost("p99 against cost", "99th percentile, microseconds", |row| {
                    row.p99_us
                })
                .log_y(),
            )
            .section("Flash traffic")
            .bars(self.traffic())
            .section("Figures")
            .table(self.table());
        let page = self.notes().iter().fold(page, |page, note| page.paragraph(&format!("{note}.")));
        let configs = self.designs.iter().map(|row| {
            let config = serde_json::to_string(&row.outcome["config"]).unwrap_or_default();
            format!("{}: {config}", row.design)
        });
        page.section("Configurations").preformatted(&configs.collect::<Vec<_>>().join("\n"))
    }

    /// One row a design.
    fn records(&self) -> serde_json::Result<Vec<Value>> {
        self.designs.iter().map(serde_json::to_value).collect()
    }
}

impl Comparison {
    /// A point a design.
    fn against_cost(&self, title: &str, label: &str, of: fn(&ComparedDesign) -> f64) -> LineChart {
        let chart = LineChart::new(title, "dollars of memory", label).log_x();
        self.designs
            .iter()
            .fold(chart, |chart, row| chart.series(&row.design, [(row.price.dollars, of(row))]))
    }

    fn traffic(&self) -> BarChart {
        let chart = BarChart::new("Flash traffic", "MB a second");
        self.designs.iter().fold(chart, |chart, row| {
            let bars = [("read", row.flash_read_mb_per_s), ("written", row.flash_write_mb_per_s)];
            chart.group(&row.design, bars.map(|(name, value)| (name, Range::single(value))))
        })
    }
}
