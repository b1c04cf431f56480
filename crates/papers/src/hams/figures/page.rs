//! HAMS's figures as a page, in the paper's own form.

use crate::hams::Hams;
use crate::hams::experiments::{DESIGNS, EnergyRow, LHAMS_E, THAMS_E};
use ebbtide_report::{BarChart, LineChart, Page, Range, Table};
use ebbtide_study::energy::SHIPPED;

impl Hams {
    /// Figs. 3a and 4, the gains over mmap, what the sources leave open, and every claim.
    pub(crate) fn figures(&self) -> Page {
        let config = |design| ebbtide_sim::designs::find(design).map_or("", |design| design.config);
        Page::new("HAMS (ISCA'21), reproduced")
            .paragraph(&format!(
                "Simulated at 1/{} of the paper's capacities, seed {}. Every parameter and its source \
                 are at the end.",
                self.scale_denominator, self.seed
            ))
            .section("Claims")
            .table(self.findings.table())
            .section("Fig. 3a: where mmap's time goes")
            .bars(self.figure3a())
            .section("Fig. 4: pages a second over pages touched")
            .lines(self.figure4())
            .section("Throughput over mmap's")
            .bars(self.speedups())
            .section("Energy")
            .paragraph(
                "HAMS's inputs are not published; these are ours, and listed at the end with their \
                 sources.",
            )
            .bars(self.energies())
            .table(self.energy_parts())
            .section("What the sources leave open")
            .table(self.open())
            .section("Parameters: the machine")
            .preformatted(config("nvdimm"))
            .section("Parameters: lhams-e")
            .preformatted(config(LHAMS_E))
            .section("Parameters: thams-e")
            .preformatted(config(THAMS_E))
            .section("Energy per operation")
            .preformatted(SHIPPED)
    }

    fn energies(&self) -> BarChart {
        let chart = BarChart::new("By program and design", "microjoules a job");
        self.energies.iter().fold(chart, |chart, EnergyRow { workload, designs }| {
            let bars = designs.iter().map(|(name, energy)| (*name, Range::single(energy.total_uj)));
            chart.group(workload, bars)
        })
    }

    fn energy_parts(&self) -> Table {
        let rows = self
            .energies
            .iter()
            .flat_map(|row| row.designs.iter().map(|design| (row.workload, design)));
        let names = rows.clone().next().map(|(_, (_, energy))| energy.parts().map(|part| part.0));
        let header = ["program", "design"].into_iter().chain(names.into_iter().flatten());
        let table = Table::new("Energy by where it goes, microjoules a job", header);
        rows.fold(table, |table, (workload, (design, energy))| {
            table.numbers([workload, *design], energy.parts().map(|part| part.1))
        })
    }

    fn figure3a(&self) -> BarChart {
        let chart = BarChart::new("By workload", "share of the time");
        self.shares.iter().fold(chart, |chart, row| {
            let bars = [
                ("mmap", row.mmap),
                ("I/O stack", row.io_stack),
                ("flash", row.flash),
                ("compute", row.compute),
            ];
            chart.group(row.workload, bars.map(|(name, share)| (name, Range::single(share))))
        })
    }

    fn figure4(&self) -> LineChart {
        let chart = LineChart::new("seqRd, from cold on", "pages touched", "pages/s");
        self.curves.iter().fold(chart, |chart, curve| {
            let points = curve.points.iter().map(|point| (point.pages as f64, point.pages_per_s));
            chart.series(curve.design, points.collect::<Vec<_>>())
        })
    }

    fn speedups(&self) -> BarChart {
        let chart = BarChart::new("By workload and design", "throughput over mmap's");
        self.workloads.iter().fold(chart.reference(1.0, "mmap"), |chart, row| {
            let designs = DESIGNS.iter().skip(1).map(|design| (*design, row.speedup(design)));
            let bars = designs.chain([("nvdimm", row.nvdimm)]);
            chart.group(row.workload, bars.map(|(name, value)| (name, Range::single(value))))
        })
    }

    fn open(&self) -> Table {
        let header = ["what", "workload", LHAMS_E, THAMS_E];
        let rows = self
            .variations
            .iter()
            .flat_map(|variation| variation.workloads.iter().map(move |row| (variation.what, row)));
        rows.fold(Table::new("Throughput over mmap's", header), |table, (what, row)| {
            let values = [LHAMS_E, THAMS_E].map(|design| row.speedup(design));
            table.numbers([what, row.workload], values)
        })
    }
}
