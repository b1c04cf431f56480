//! A comparison as text for a terminal.

use std::fmt::{self, Display, Formatter};

use ebbtide_report::{Table, figure};

use super::{Comparison, REFERENCE};

impl Comparison {
    /// A row a design.
    pub(super) fn table(&self) -> Table {
        let header = [
            "design",
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
        self.designs.iter().fold(Table::new("Comparison", header), |table, row| {
            table.cells(
                [&row.design],
                [
                    Some(row.ratio_to_dram),
                    Some(row.throughput_per_s),
                    Some(row.p50_us),
                    Some(row.p99_us),
                    Some(row.flash_read_mb_per_s),
                    Some(row.flash_write_mb_per_s),
                    row.lifetime.as_ref().map(|life| life.years.round_the_clock),
                    row.energy.as_ref().map(|energy| energy.total_uj),
                    Some(row.price.dram_gib),
                    Some(row.price.dollars),
                    Some(row.saving),
                    Some(row.effectiveness),
                ],
            )
        })
    }

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
        let unit = if self.work_us.is_some() { "job" } else { "access" };
        let mut notes = vec![format!(
            "of DRAM and /s: {}; p50 and p99: service of one {unit}; years: SSD lifetime round the \
             clock; energy: per {unit}, cores included, by configs/energy.toml or --energy; prices: \
             ${} a GB of DRAM and what replaces it, ${} a GB of flash; saves and perf/$: relative to \
             DRAM-only",
            self.unit, self.prices.dram, self.prices.flash,
        )];
        let formula =
            self.designs.iter().filter(|row| row.lifetime.as_ref().is_some_and(|l| !l.modelled));
        let formula: Vec<&str> = formula.map(|row| row.design.as_str()).collect();
        if !formula.is_empty() {
            notes.push(format!(
                "years by formula, for {} flash, as the device model does not wear: {}",
                self.cells,
                formula.join(", ")
            ));
        }
        for left_out in &self.left_out {
            notes.push(format!("left out: {}, {}", left_out.design, left_out.reason));
        }
        notes
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n\n{}\n\n{}", self.finding(), self.heading(), self.table())?;
        self.notes().iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}
