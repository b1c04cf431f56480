//! HAMS's figures and tables, in the paper's own form.

use ebbtide_report::{LineChart, Page};
use ebbtide_study::claims::{Cell, Figures, Grid};
use ebbtide_study::energy::SHIPPED;

use super::Hams;
use super::experiments::{
    AT_BANDWIDTH, BEYOND_NVDIMM, COMPUTING, Curve, DESIGNS, LHAMS_E, MMAP, THAMS_E, WORKLOADS,
    mean_speedup,
};

impl Hams {
    /// The gains over mmap, Figs. 3a and 4, energy, the values that the sources leave open, and
    /// every claim.
    pub(super) fn figures(&self) -> (String, Page) {
        let about = format!(
            "Simulated at 1/{} of the paper's capacities, seed {}.",
            self.scale_denominator, self.seed
        );
        let (speedups, shares) = (self.speedups(), self.figure3a());
        let over_mmap = speedups.bars("throughput over mmap's").reference(1.0, "mmap");
        Figures::new("HAMS (ISCA'21), reproduced", &about, &self.findings)
            .section("Throughput over mmap's")
            .drawn(&speedups, |page| page.bars(over_mmap))
            .section("Fig. 3a: where mmap's time goes, in %")
            .drawn(&shares, |page| page.bars(shares.bars("share of the time")))
            .section("Energy a job in microjoules")
            .paragraph("HAMS's inputs are not published: by configs/energy.toml, with its sources.")
            .text(&self.energy_text())
            .page(|page| {
                let energies = self.energies();
                page.bars(energies.bars("microjoules a job")).table(self.energy_parts().table())
            })
            .section("Fig. 4: thousands of pages a second over pages touched, reading in order")
            .drawn(&self.figure4(AT_BANDWIDTH), |page| page.lines(self.figure4_chart()))
            .section(&format!("Fig. 4 {COMPUTING}"))
            .data(&self.figure4(COMPUTING))
            .section(&format!("Fig. 4 {BEYOND_NVDIMM}"))
            .data(&self.figure4(BEYOND_NVDIMM))
            .section("What the sources leave open: throughput over mmap's")
            .grid(&self.open())
            .parameters("nvdimm")
            .parameters(LHAMS_E)
            .parameters(THAMS_E)
            .page(|page| page.section("Energy per operation").preformatted(SHIPPED))
            .finish(&self.findings)
    }

    fn speedups(&self) -> Grid {
        let header = ["workload"].into_iter().chain(DESIGNS).chain(["nvdimm"]);
        let grid = self.workloads.iter().fold(Grid::new("By workload", header), |grid, row| {
            let speedups = DESIGNS.map(|design| row.speedup(design));
            let cells = speedups.into_iter().chain([row.nvdimm]);
            grid.row([row.workload], cells.map(|value| Cell::number(value, 2)))
        });
        let mean = DESIGNS.map(|design| Cell::number(mean_speedup(&self.workloads, design), 2));
        grid.row(["mean"], mean.into_iter().chain([Cell::EMPTY]))
    }

    fn figure3a(&self) -> Grid {
        let header = ["workload", "mmap", "I/O stack", "flash", "compute"];
        self.shares.iter().fold(Grid::new("By workload", header), |grid, row| {
            let shares = [row.mmap, row.io_stack, row.flash, row.compute];
            grid.row([row.workload], shares.map(|share| Cell::percent(share, 1)))
        })
    }

    fn energy_text(&self) -> String {
        let rows = self.energies.iter().flat_map(|row| {
            row.designs.iter().map(move |(design, energy)| {
                let percent = 100.0 * (energy.total_uj / row.total_uj(MMAP) - 1.0);
                format!("{:<8} {design:<10} {percent:>+5.0}%  {energy}\n", row.workload)
            })
        });
        rows.collect()
    }

    fn energies(&self) -> Grid {
        let grid = Grid::new("By program and design", ["program"].into_iter().chain(DESIGNS));
        self.energies.iter().fold(grid, |grid, row| {
            let cells = row.designs.iter().map(|(_, energy)| Cell::number(energy.total_uj, 1));
            grid.row([row.workload], cells)
        })
    }

    fn energy_parts(&self) -> Grid {
        let rows = self
            .energies
            .iter()
            .flat_map(|row| row.designs.iter().map(|design| (row.workload, design)));
        let names = rows.clone().next().map(|(_, (_, energy))| energy.parts().map(|part| part.0));
        let header = ["program", "design"].into_iter().chain(names.into_iter().flatten());
        let grid = Grid::new("Energy by where it goes, microjoules a job", header);
        rows.fold(grid, |grid, (workload, (design, energy))| {
            grid.row([workload, *design], energy.parts().map(|part| Cell::number(part.1, 1)))
        })
    }

    /// The curves of Fig. 4 run as `what`.
    fn curves_of(&self, what: &str) -> impl Iterator<Item = &Curve> {
        self.curves.iter().filter(move |curve| curve.what == what)
    }

    fn figure4(&self, what: &str) -> Grid {
        let header = ["pages"].into_iter().chain(self.curves_of(what).map(|curve| curve.design));
        let points = self.curves_of(what).next().map_or(&[][..], |curve| &curve.points);
        let grid = Grid::new(&format!("Pages a second, {what}"), header);
        points.iter().enumerate().fold(grid, |grid, (number, point)| {
            let rates = self.curves_of(what).map(|curve| curve.points[number].pages_per_s);
            grid.row([point.pages], rates.map(|rate| Cell::new(rate, format!("{:.0}", rate / 1e3))))
        })
    }

    fn figure4_chart(&self) -> LineChart {
        let chart = LineChart::new("seqRd, from cold on", "pages touched", "pages/s");
        self.curves_of(AT_BANDWIDTH).fold(chart, |chart, curve| {
            let points = curve.points.iter().map(|point| (point.pages as f64, point.pages_per_s));
            chart.series(curve.design, points)
        })
    }

    fn open(&self) -> Grid {
        let header = ["what", "workload", LHAMS_E, THAMS_E];
        let grid = Grid::new("Throughput over mmap's", header);
        self.variations.iter().fold(grid, |grid, variation| {
            let rows = variation.workloads.iter();
            let grid = rows.fold(grid, |grid, row| {
                let cells = [LHAMS_E, THAMS_E].map(|design| Cell::number(row.speedup(design), 2));
                grid.row([variation.what, row.workload], cells)
            });
            if variation.workloads.len() < WORKLOADS.len() {
                return grid;
            }
            let mean = |design| Cell::number(mean_speedup(&variation.workloads, design), 2);
            grid.row([variation.what, "mean"], [LHAMS_E, THAMS_E].map(mean))
        })
    }
}
