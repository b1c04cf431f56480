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

    /// Capacity of the drives that hold the data.
    fn drives_bytes(&self) -> u64 {
        let data_gib = self.designs.iter().map(|row| row.price.flash_gib).fold(0.0, f64::max);
        self.market.flash_bytes((data_gib * super::GIB) as u64)
    }

    /// The work and the machine.
    pub(super) fn heading(&self) -> String {
        if let Some(pages) = self.touched_pages {
            let config = &self.designs[0].outcome["config"];
            let size = |section: &str| config[section]["size"].as_str().unwrap_or("?").to_string();
            return format!(
                "{} on every design, into the memory side: {pages} pages are touched, on machines with \
                 {} of data, the designs with little DRAM {}; caches as {REFERENCE} has them",
                self.work,
                size("dataset"),
                size("dram_cache"),
            );
        }
        let computing = self.work_us.map(|us| format!("; jobs compute for {} us", figure(us)));
        format!(
            "{} on every design: the cores, caches, data and DRAM of {REFERENCE}, capacities {} of \
             its, priced in full{}",
            self.work,
            self.scale,
            computing.unwrap_or_default()
        )
    }

    /// Explanations of the table.
    pub(super) fn notes(&self) -> Vec<String> {
        let unit = if self.work_us.is_some() { "job" } else { "access" };
        let mut notes = vec![format!(
            "of DRAM and /s: {}; p50 and p99: service of one {unit}; years: SSD lifetime round the \
             clock; energy: per {unit}, cores included, by configs/energy.toml or --energy; prices: \
             ${} a GB of DRAM and what replaces it, ${} a GB of flash; saves and perf/$: relative to \
             DRAM-only",
            self.unit, self.market.prices.dram, self.market.prices.flash,
        )];
        let formula =
            self.designs.iter().filter(|row| row.lifetime.as_ref().is_some_and(|l| !l.modelled));
        let formula: Vec<&str> = formula.map(|row| row.design.as_str()).collect();
        if !formula.is_empty() {
            notes.push(format!(
                "years by formula, for {} of {} flash, as the device model does not wear: {}",
                ebbtide_report::bytes(self.drives_bytes() as f64),
                self.market.cells,
                formula.join(", ")
            ));
        }
        for left_out in &self.left_out {
            notes.push(format!("left out: {}, {}", left_out.design, left_out.reason));
        }
        notes.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        notes
    }
}

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n\n{}\n\n{}", self.finding(), self.heading(), self.table())?;
        self.notes().iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}
