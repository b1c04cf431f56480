//! AstriFlash's figures and tables, in the paper's own form.

use ebbtide_report::statistics::Estimate;
use ebbtide_report::{LineChart, Page};
use ebbtide_study::analytic::figure3;
use ebbtide_study::analytic::systems::System;
use ebbtide_study::claims::{Cell, Figures, Grid};

use super::AstriFlash;
use super::experiments::{ByDesign, DESIGNS, LOADED, RANGE_US, TYPICAL_US, WorkloadRow, of};

/// Printed capacities of Fig. 1, as shares of the data.
const PRINTED: [f64; 7] = [0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.5];

impl AstriFlash {
    /// Figs. 1, 3, 9 and 10, Tables I and II, every claim, and the effects of the assumptions.
    pub(super) fn figures(&self) -> (String, Page) {
        let AstriFlash { scale_denominator, seed, seeds, .. } = self;
        let [least, most] = RANGE_US;
        let about = format!(
            "Simulated at 1/{scale_denominator} of the paper's capacities, {least} to {most} us of execution \
             between misses, in order of the programs' job lengths, unless a figure says another, \
             {seeds} seeds from {seed}; ± is the 95% interval over them."
        );
        let figure9 = self.by_design(
            "By workload and design",
            |row| &row.throughput,
            ("mean", &self.mean_throughput),
        );
        let table2 = self.by_design(
            "Table II",
            |row| &row.p99_over_flash_sync,
            ("geometric mean", &self.geometric_mean_p99),
        );
        let bars = figure9.bars("throughput relative to DRAM-only").reference(1.0, "DRAM-only");
        let figures = Figures::new("AstriFlash (HPCA'23), reproduced", &about, &self.findings)
            .section("Fig. 1: misses in % of accesses, over DRAM in % of the data")
            .drawn(&self.figure1(), |page| page.lines(self.figure1_chart()))
            .page(|page| page.section("Fig. 3: the analytic models").lines(figure3_chart()))
            .section("Fig. 9: throughput relative to DRAM-only")
            .drawn(&figure9, |page| page.bars(bars).data(figure9.table()))
            .section("Fig. 9 and Table II with other intervals between misses (one seed)")
            .grid(&self.spreads_grid())
            .section("Table II: p99 of service over Flash-Sync's")
            .grid(&table2)
            .section(&format!(
                "Fig. 10: TATP, p99 of response (of service) in us over load, a miss every {TYPICAL_US} us"
            ))
            .drawn(&self.figure10(), |page| page.lines(self.figure10_chart()))
            .section("Drives beneath AstriFlash, where Fig. 9 has flash without limits")
            .grid(&self.drives_grid())
            .section("Assumptions, one varied at a time under Array Swap (AS3, AS28, AS32)")
            .grid(&self.assumptions_grid())
            .section("Figures at other capacities (one seed; the paper's capacities are 1/1)")
            .grid(&self.scales_grid());
        let figures = match self.host {
            Some(_) => figures,
            None => figures.paragraph(
                "AS5 and AS13 to AS15 are about real hosts: --real measures this machine.",
            ),
        };
        figures
            .text("\nTable I: parameters (sources in configs/astriflash.toml)\n")
            .text(&self.table1())
            .parameters("astriflash")
            .finish(&self.findings)
    }

    /// The means of Fig. 9 and of Table II, by the intervals of the programs.
    fn spreads_grid(&self) -> Grid {
        let header = ["intervals", "figure"].into_iter().chain(DESIGNS);
        self.spreads.iter().fold(Grid::new("Intervals", header), |grid, row| {
            let cells = |values| DESIGNS.map(|design| Cell::number(of(values, design), 3));
            grid.row([row.spread, "mean throughput"], cells(&row.mean_throughput))
                .row([row.spread, "geometric mean p99"], cells(&row.geometric_mean_p99))
        })
    }

    fn figure1(&self) -> Grid {
        let shares = PRINTED.map(|share| format!("{:.1}%", 100.0 * share));
        let knee = "knee".to_string();
        let header = ["workload".to_string()].into_iter().chain(shares).chain([knee]);
        self.miss_curves.iter().fold(Grid::new("Misses", header), |grid, row| {
            let at = |share: f64| {
                let below = row.points.iter().take_while(|(at, _)| *at <= share * (1.0 + 1e-9));
                Cell::percent(below.last().map_or(1.0, |(_, misses)| *misses), 2)
            };
            let knee = row.knee.dram_share;
            let knee = Cell::new(knee, format!("{:.1}%", 100.0 * knee));
            grid.row([row.workload], PRINTED.map(at).into_iter().chain([knee]))
        })
    }

    fn figure1_chart(&self) -> LineChart {
        let (x, y) = ("DRAM, % of the dataset", "misses, % of accesses");
        let chart = LineChart::new("Misses over DRAM capacity", x, y).log_y();
        self.miss_curves.iter().fold(chart, |chart, row| {
            let drawn = row.points.iter().filter(|(share, misses)| *share <= 0.2 && *misses > 0.0);
            chart.series(row.workload, drawn.map(|(share, misses)| (100.0 * share, 100.0 * misses)))
        })
    }

    fn table1(&self) -> String {
        let c = &self.parameters;
        let (cores, switch, cache) = (&c.cores, &c.switch, &c.dram_cache);
        let rows = [
            (
                "Cores",
                format!(
                    "{} of {} MHz, {} wide, {} entries to reorder; {} user-level threads each, {} ns a \
                     switch",
                    cores.count,
                    cores.frequency_mhz,
                    cores.width,
                    cores.rob_entries,
                    switch.threads,
                    switch.cost_ns
                ),
            ),
            ("L1", format!("{}, {} ways, {} cycles", c.l1.size, c.l1.ways, c.l1.latency_cycles)),
            (
                "LLC",
                format!(
                    "{} in all, {} ways, {} cycles",
                    c.llc.size, c.llc.ways, c.llc.latency_cycles
                ),
            ),
            (
                "NoC",
                format!(
                    "mesh of {} columns, {} bytes, {} cycles a hop",
                    c.noc.columns, c.noc.link_bytes, c.noc.hop_cycles
                ),
            ),
            ("TLB", format!("{} and {} entries", c.tlb.l1_entries, c.tlb.l2_entries)),
            (
                "DRAM",
                format!(
                    "{} controllers, RAS {} cycles, CAS {} cycles for 8 bytes",
                    c.dram.controllers, c.dram.ras_cycles, c.dram.cas_cycles_per_8_bytes
                ),
            ),
            (
                "DRAM cache",
                format!(
                    "{}, {} ways, {} miss status entries, backside {} cycles a command",
                    cache.size, cache.ways, cache.mshr, cache.backside_cycles
                ),
            ),
            ("Dataset", c.dataset.size.to_string()),
            ("Flash", toml::to_string(&c.flash).unwrap_or_default().trim().replace('\n', ", ")),
        ];
        rows.map(|(part, text)| format!("  {part:<11} {text}\n")).concat()
    }

    fn by_design(
        &self,
        caption: &str,
        values: impl Fn(&WorkloadRow) -> &ByDesign<Estimate>,
        mean: (&'static str, &ByDesign<Estimate>),
    ) -> Grid {
        let header = ["workload"].into_iter().chain(DESIGNS);
        let rows = self.workloads.iter().map(|row| (row.workload, values(row))).chain([mean]);
        rows.fold(Grid::new(caption, header), |grid, (name, values)| {
            grid.row([name], DESIGNS.map(|design| Cell::estimate(of(values, design), 3)))
        })
    }

    fn figure10(&self) -> Grid {
        let rows = |design| self.loads.iter().filter(move |row| row.design == design);
        let grid = Grid::new("p99", ["load"].into_iter().chain(LOADED));
        rows(LOADED[0]).zip(rows(LOADED[1])).fold(grid, |grid, (dram_only, astriflash)| {
            let cells = [dram_only, astriflash].map(|row| {
                let response = Cell::estimate(row.response_p99_us, 0);
                response.with(format!("({:.0})", row.service_p99_us.mean))
            });
            grid.row([format!("{:.2}", dram_only.load)], cells)
        })
    }

    fn figure10_chart(&self) -> LineChart {
        let label = "throughput, share of DRAM-only's";
        let chart = LineChart::new("p99 of response", label, "p99 in us").log_y();
        LOADED.into_iter().fold(chart, |chart, design| {
            let rows = self.loads.iter().filter(|row| row.design == design);
            chart.series(design, rows.map(|row| (row.load, row.response_p99_us.mean)))
        })
    }

    fn assumptions_grid(&self) -> Grid {
        let header = ["design", "parameter", "value", "throughput", "p99 over Flash-Sync's"];
        self.assumptions.iter().fold(Grid::new("Assumptions", header), |grid, row| {
            let values = [row.throughput, row.p99_over_flash_sync];
            let cells = values.map(|value| Cell::number(value, 3));
            grid.row([row.design, row.key, row.value], cells)
        })
    }

    fn drives_grid(&self) -> Grid {
        let header = [
            "workload",
            "drive",
            "drives",
            "run",
            "throughput",
            "reads/s",
            "writes, %",
            "writes a plane",
        ];
        self.drives.iter().fold(Grid::new("Drives", header), |grid, row| {
            let cells = [
                Cell::number(row.throughput, 3),
                Cell::number(row.reads_per_s, 0),
                Cell::number(row.write_percent, 0),
                row.writes_a_plane.map_or(Cell::EMPTY, |writes| Cell::number(writes, 0)),
            ];
            let run = if row.steady { "steady" } else { "too short" };
            grid.row([row.workload, row.drive, row.drives.unwrap_or("any"), run], cells)
        })
    }

    fn scales_grid(&self) -> Grid {
        let scales = self.scales.iter().map(|row| format!("1/{}", row.scale_denominator));
        let grid = Grid::new("Scales", ["figure".to_string()].into_iter().chain(scales));
        let Some(first) = self.scales.first() else { return grid };
        let grid = first.mean_throughput.iter().fold(grid, |grid, (design, _)| {
            let values = self.scales.iter().map(|row| of(&row.mean_throughput, design));
            let cells = values.map(|value| Cell::number(value, 3));
            grid.row([format!("mean throughput, {design}")], cells)
        });
        first.p99_over_flash_sync.iter().fold(grid, |grid, (workload, _)| {
            let values = self.scales.iter().map(|row| of(&row.p99_over_flash_sync, workload));
            let cells = values.map(|value| Cell::number(value, 2));
            grid.row([format!("AstriFlash's p99, {workload}")], cells)
        })
    }
}

fn figure3_chart() -> LineChart {
    let title = "p99 over load";
    let chart = LineChart::new(title, "load, share of DRAM-only's", "p99 in mean services").log_y();
    let curves = figure3::p99_over_load(&System::ALL);
    curves.into_iter().fold(chart, |chart, curve| chart.series(curve.name, curve.points))
}
