//! Results as text for a terminal.

use std::fmt::{self, Display, Formatter};

use ebbtide_report::Table;

use super::Swept;
use super::page::FIGURES;

impl Display for Swept {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.findings().iter().try_for_each(|finding| writeln!(f, "{finding}"))?;
        for axis in self.axes.iter().filter(|axis| !axis.varies()) {
            writeln!(f, "{} {}", axis.key, axis.values[0])?;
        }
        if let Some(means) = self.means() {
            let seeds = self.axes.iter().find(|axis| axis.key == "seed");
            let seeds = seeds.map_or(0, |axis| axis.values.len());
            return write!(f, "means of {seeds} seeds with 95% intervals\n\n{means}");
        }
        let varying = self.axes.iter().filter(|axis| axis.varies());
        let header = varying.map(|axis| axis.key.as_str());
        let header = header.chain(FIGURES.iter().map(|figure| figure.heading));
        let table = self.points.iter().fold(Table::new("", header), |table, point| {
            let values = self.axes.iter().zip(&point.values);
            let values = values.filter(|(axis, _)| axis.varies()).map(|(_, value)| value);
            table.numbers(values, FIGURES.iter().map(|figure| (figure.of)(&point.outcome)))
        });
        write!(f, "\n{table}")
    }
}
