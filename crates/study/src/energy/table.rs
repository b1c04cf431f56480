//! [`EnergyTable`]: the energies of operations.

use std::fs;
use std::path::Path;

use ebbtide_core::brief;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The default table in TOML, with the source of every number.
pub const SHIPPED: &str = include_str!("../../configs/energy.toml");

/// The energies of operations. A TOML file has exactly these fields as keys. Names end in the unit:
/// `mw` milliwatts, `nj` nanojoules, `pj` picojoules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnergyTable {
    /// Names of designs with components that the table does not describe.
    pub not_for: Vec<String>,
    /// Cores.
    pub core: Core,
    /// Host DRAM, NVDIMMs included.
    pub dram: Dram,
    /// The link between host and flash.
    pub link: Link,
    /// Flash arrays.
    pub flash: Flash,
    /// Other parts of an SSD.
    pub ssd: Ssd,
}

/// A core.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Power while the core executes.
    pub busy_mw: f64,
    /// Power while the core waits for a page or a job.
    pub waiting_mw: f64,
}

/// Host DRAM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// Energy to read a line of 64 B in a closed row.
    pub line_read_nj: f64,
    /// Energy to write a line of 64 B in a closed row.
    pub line_write_nj: f64,
    /// Energy to read a page of 4 KiB in one row.
    pub page_read_nj: f64,
    /// Energy to write a page of 4 KiB in one row.
    pub page_write_nj: f64,
    /// Standby power per GiB, at all times.
    pub standby_mw_per_gib: f64,
    /// Power of refresh per GiB, at all times.
    pub refresh_mw_per_gib: f64,
    /// Energy of each byte between DRAM and its controller.
    pub bus_pj_per_byte: f64,
}

/// The link. Flash on the bus of DRAM has no other link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Energy per byte over PCIe, both ends included.
    pub pcie_pj_per_byte: f64,
    /// Energy per byte over CXL, both ends included.
    pub cxl_pj_per_byte: f64,
}

/// Flash arrays and their channels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Power of one array while it reads, programs or erases.
    pub array_mw: f64,
    /// Energy of each byte between an array and the SSD's controller.
    pub channel_pj_per_byte: f64,
}

/// Other parts of an SSD.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ssd {
    /// Energy of each byte written into its DRAM or read from it.
    pub dram_pj_per_byte: f64,
    /// Power of its DRAM per GiB, at all times.
    pub dram_mw_per_gib: f64,
    /// Size of its DRAM in GiB, for designs whose configuration has none.
    pub dram_gib: f64,
    /// Power of its controller, at all times.
    pub idle_mw: f64,
}

/// The error of a file that cannot be read or is not a valid table.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}: {reason}; expected the keys of configs/energy.toml")]
pub struct TableError {
    /// The file.
    pub file: String,
    /// The problem, and its place.
    pub reason: String,
}

/// The greatest number of a table, in its unit: a megawatt, a joule.
const MOST: f64 = 1e9;

impl EnergyTable {
    /// Returns the shipped table, [`SHIPPED`].
    ///
    /// # Panics
    /// Never: a test reads the table.
    pub fn shipped() -> EnergyTable {
        EnergyTable::parse("configs/energy.toml", SHIPPED).expect("the shipped table is one")
    }

    /// Reads the table from the file at `path`.
    ///
    /// # Errors
    /// [`TableError`] when the file cannot be read, lacks a key, has an unknown one, or has a
    /// number that is negative or above 10⁹.
    pub fn read(path: &Path) -> Result<EnergyTable, TableError> {
        let file = path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|error| TableError { file: file.clone(), reason: error.to_string() })?;
        EnergyTable::parse(&file, &text)
    }

    /// Parses the table in `text`, the contents of `file`. Errors name `file`.
    ///
    /// # Errors
    /// [`TableError`] when `text` lacks a key, has an unknown one, or has a number that is negative
    /// or not finite.
    pub fn parse(file: &str, text: &str) -> Result<EnergyTable, TableError> {
        let wrong = |reason| TableError { file: file.to_string(), reason };
        let table: EnergyTable = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            wrong(format!("line {line}: {message}"))
        })?;
        match table.impossible() {
            Some(reason) => Err(wrong(reason)),
            None => Ok(table),
        }
    }

    /// The first number that is impossible as an energy, with the reason.
    fn impossible(&self) -> Option<String> {
        let table = serde_json::to_value(self).unwrap_or_default();
        let mut found = None;
        ebbtide_report::each_leaf(&table, "", &mut |key, value| {
            // JSON has no numbers that are not finite.
            let reason = match value.as_f64() {
                Some(number) if !(0.0..=MOST).contains(&number) => {
                    format!("{key} = {}: expected 0 to {MOST}", brief(number))
                }
                None if value.is_null() => format!("{key}: not a finite number"),
                _ => return,
            };
            found.get_or_insert(reason);
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_the_shipped_table_has_a_source() {
        EnergyTable::parse("configs/energy.toml", SHIPPED).expect("it is one");
        for line in SHIPPED.lines().filter(|line| line.contains(" = ")) {
            let (_, source) = line.split_once('#').unwrap_or((line, ""));
            assert!(!source.trim().is_empty(), "{line}");
        }
    }

    #[test]
    fn what_is_no_table_is_refused_with_file_and_place() {
        let refused = |text: &str| {
            let said = EnergyTable::parse("mine.toml", text).expect_err("it is none").to_string();
            assert!(said.starts_with("mine.toml: ") && !said.contains('\n'), "{said}");
            said
        };
        assert!(refused(&SHIPPED.replace("busy_mw", "busi_mw")).contains("busi_mw"));
        assert!(refused(&SHIPPED.replace("= 1030", "= \"a lot\"")).contains("line 12"));
        assert!(refused(&SHIPPED.replace("= 1030", "= -1")).contains("core.busy_mw = -1"));
        let said = refused(&SHIPPED.replace("= 1030", "= 1e308"));
        assert!(said.contains("core.busy_mw = 1e308: expected 0 to 1000000000"), "{said}");
        for number in ["nan", "inf", "-inf"] {
            let said = refused(&SHIPPED.replace("= 1030", &format!("= {number}")));
            assert!(said.contains("core.busy_mw: not a finite number"), "{said}");
        }
        assert!(refused("").contains("not_for"));
        let missing =
            EnergyTable::read(Path::new("/nowhere/mine.toml")).expect_err("it is not there");
        assert!(missing.to_string().starts_with("/nowhere/mine.toml: "));
    }
}
