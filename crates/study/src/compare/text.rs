//! A comparison as text for a terminal.

use std::fmt::{self, Display, Formatter};

use super::{ComparedDesign, Comparison, REFERENCE};
use ebbtide_report::figure;

/// The columns beside the design.
pub(super) const HEADER: [&str; 12] = [
    "of DRAM",
    "/s",
    "p50 us",
    "p99 us",
    "read MB/s",
    "write MB/s",
    "years",
    "energy uJ",
    "GiB DRAM",
    "memory $",
    "saves",
    "perf/$",
];

impl ComparedDesign {
    /// A number for each of [`HEADER`], where there is one.
    pub(super) fn numbers(&self) -> [Option<f64>; 12] {
        let years = self.lifetime.as_ref().map(|life| life.years.round_the_clock);
        [
            Some(self.ratio_to_dram),
            Some(self.throughput_per_s),
            Some(self.p50_us),
            Some(self.p99_us),
            Some(self.flash_read_mb_per_s),
            Some(self.flash_write_mb_per_s),
            years,
            self.energy.as_ref().map(|energy| energy.total_uj),
            Some(self.price.dram_gib),
            Some(self.price.dollars),
            Some(self.saving),
            Some(self.effectiveness),
        ]
    }
}

impl Comparison {
    /// What was done on which machine.
    pub(super) fn heading(&self) -> String {
        let computing = self.work_us.map(|us| format!("; jobs compute for {} us", figure(us)));
        format!(
            "{} on every design: the cores, caches, data and DRAM of {REFERENCE}, capacities {} of \
             its, priced in full{}",
            self.work,
            self.scale,
            computing.unwrap_or_default()
        )
    }

    /// How to read the table.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = vec![format!(
            "of DRAM and /s: {}; p50 and p99: {}; years: round the clock, of flash of two bits a cell \
             by formula (~) where the device's model does not wear; energy: of {}, cores included, by \
             configs/energy.toml or --energy; prices: $30 a GB of DRAM and what \
             stands for it, $2 of flash; saves and perf/$: over DRAM-only",
            self.unit,
            if self.work_us.is_some() { "service of a job" } else { "an access from its time on" },
            if self.work_us.is_some() { "a job" } else { "an access" },
        )];
        for left_out in &self.left_out {
            notes.push(format!("left out: {}, {}", left_out.design, left_out.reason));
        }
        notes
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.heading())?;
        let width = self.designs.iter().map(|row| row.design.len()).max().unwrap_or(0);
        write!(f, "{:<width$}", "")?;
        HEADER.iter().try_for_each(|name| write!(f, "{name:>11}"))?;
        writeln!(f)?;
        for row in &self.designs {
            write!(f, "{:<width$}", row.design)?;
            let formula = row.lifetime.as_ref().is_some_and(|life| !life.modelled);
            for (name, number) in HEADER.into_iter().zip(row.numbers()) {
                let mark = if formula && name == "years" { "~" } else { "" };
                let text =
                    number.map_or("–".to_string(), |number| format!("{mark}{}", figure(number)));
                write!(f, "{text:>11}")?;
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        self.notes().iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}
