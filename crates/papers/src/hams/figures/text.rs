//! HAMS's figures as plain text.

use std::fmt;

use crate::hams::Hams;
use crate::hams::experiments::{
    DESIGNS, EXTREMES, LHAMS_E, MMAP, Point, THAMS_E, WORKLOADS, mean_speedup,
};

impl fmt::Display for Hams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "HAMS (ISCA'21), capacities 1/{} of the paper's", self.scale_denominator)?;
        writeln!(f, "\nThroughput over mmap's")?;
        write!(f, "{:<8}", "")?;
        DESIGNS.iter().chain(&["nvdimm"]).try_for_each(|design| write!(f, " {design:>10}"))?;
        writeln!(f)?;
        for row in &self.workloads {
            write!(f, "{:<8}", row.workload)?;
            DESIGNS.iter().try_for_each(|design| write!(f, " {:>10.2}", row.speedup(design)))?;
            writeln!(f, " {:>10.2}", row.nvdimm)?;
        }
        write!(f, "{:<8}", "mean")?;
        let mean = |design: &&str| mean_speedup(&self.workloads, design);
        DESIGNS.iter().try_for_each(|design| write!(f, " {:>10.2}", mean(design)))?;
        writeln!(f, "\n\nFig. 3a: where mmap's time goes, in %")?;
        writeln!(f, "{:<8} {:>8} {:>10} {:>8} {:>8}", "", "mmap", "I/O stack", "flash", "compute")?;
        for row in &self.shares {
            let [mmap, io, flash, compute] =
                [row.mmap, row.io_stack, row.flash, row.compute].map(|share| 100.0 * share);
            let workload = row.workload;
            writeln!(f, "{workload:<8} {mmap:>8.1} {io:>10.1} {flash:>8.1} {compute:>8.1}")?;
        }
        writeln!(
            f,
            "\nEnergy a job in microjoules, by configs/energy.toml (HAMS's inputs are unpublished)"
        )?;
        for row in &self.energies {
            for (design, energy) in &row.designs {
                let percent = 100.0 * (energy.total_uj / row.total_uj(MMAP) - 1.0);
                writeln!(f, "{:<8} {design:<10} {percent:>+5.0}%  {energy}", row.workload)?;
            }
        }
        writeln!(f, "\nFig. 4: thousands of pages a second over pages touched, reading in order")?;
        write!(f, "{:>8}", "pages")?;
        self.curves.iter().try_for_each(|curve| write!(f, " {:>10}", curve.design))?;
        writeln!(f)?;
        let points = self.curves.first().map_or(&[][..], |curve| &curve.points);
        for (number, Point { pages, .. }) in points.iter().enumerate() {
            write!(f, "{pages:>8}")?;
            for curve in &self.curves {
                write!(f, " {:>10.0}", curve.points[number].pages_per_s / 1e3)?;
            }
            writeln!(f)?;
        }
        writeln!(f, "\nWhat the sources leave open: throughput over mmap's, lhams-e / thams-e")?;
        for row in &self.variations {
            write!(f, "{:<34}", row.what)?;
            let extreme = |name: &str| EXTREMES.iter().any(|(workload, _)| *workload == name);
            for row in row.workloads.iter().filter(|row| extreme(row.workload)) {
                let [lhams, thams] = [LHAMS_E, THAMS_E].map(|design| row.speedup(design));
                write!(f, " {} {lhams:>5.2} / {thams:.2}  ", row.workload)?;
            }
            if row.workloads.len() == WORKLOADS.len() {
                let [lhams, thams] =
                    [LHAMS_E, THAMS_E].map(|design| mean_speedup(&row.workloads, design));
                write!(f, " mean {lhams:.2} / {thams:.2}")?;
            }
            writeln!(f)?;
        }
        write!(f, "\n{}", self.findings)
    }
}
