//! Results as text for a terminal.

use std::fmt::{self, Display, Formatter};

use super::Swept;
use super::page::FIGURES;
use ebbtide_report::figure as rounded;

impl Display for Swept {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for axis in self.axes.iter().filter(|axis| !axis.varies()) {
            writeln!(f, "{} {}", axis.key, axis.values[0])?;
        }
        writeln!(f)?;
        let varying: Vec<usize> =
            (0..self.axes.len()).filter(|index| self.axes[*index].varies()).collect();
        let width = |index: &usize| {
            let axis = &self.axes[*index];
            axis.values.iter().chain([&axis.key]).map(|text| text.len()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = varying.iter().map(width).collect();
        for (index, width) in varying.iter().zip(&widths) {
            write!(f, "{:<width$}  ", self.axes[*index].key)?;
        }
        for figure in FIGURES {
            write!(f, "{:>width$}", figure.heading, width = figure.heading.len() + 3)?;
        }
        writeln!(f)?;
        for point in &self.points {
            for (index, width) in varying.iter().zip(&widths) {
                write!(f, "{:<width$}  ", point.values[*index])?;
            }
            for figure in FIGURES {
                let value = (figure.of)(&point.outcome);
                write!(f, "{:>width$}", rounded(value), width = figure.heading.len() + 3)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
