//! FlatFlash's figures and tables in plain text.

use std::fmt;

use crate::flatflash::FlatFlash;
use crate::flatflash::experiments::{RunRow, TRADITIONAL_STACK, UNIFIED_MMAP};

impl fmt::Display for FlatFlash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "FlatFlash (ASPLOS'19), capacities 1/{} of the paper's",
            self.scale_denominator
        )?;
        writeln!(
            f,
            "\nRuns, per job: time and its p99, pages moved to and from host DRAM, pages written to flash"
        )?;
        writeln!(
            f,
            "{:<24} {:<34} {:>10} {:>10} {:>8} {:>8}",
            "", "", "us", "p99 us", "moved", "written"
        )?;
        for RunRow { experiment, system, measure } in &self.runs {
            writeln!(
                f,
                "{experiment:<24} {system:<34} {:>10.2} {:>10.1} {:>8.3} {:>8.3}",
                measure.job_ns / 1e3,
                measure.p99_ns / 1e3,
                measure.pages_moved,
                measure.pages_written,
            )?;
        }
        writeln!(
            f,
            "\nReadings of Algorithm 1: UnifiedMMap's time, pages moved and pages written over FlatFlash's"
        )?;
        writeln!(f, "{:<24} {:<34} {:>10} {:>10} {:>8}", "", "", "gain", "moved", "written")?;
        for row in &self.readings {
            writeln!(
                f,
                "{:<24} {:<34} {:>10.2} {:>10.2} {:>8.2}",
                row.experiment, row.reading, row.gain, row.fewer_moves, row.fewer_writes
            )?;
        }
        writeln!(
            f,
            "\nFig. 14: transactions a second over UnifiedMMap's and TraditionalStack's, and DRAM-only's over them"
        )?;
        writeln!(
            f,
            "{:<8} {:>8} {:>10} {:<16} {:>12} {:>18} {:>10}",
            "", "clients", "device us", "logs", UNIFIED_MMAP, TRADITIONAL_STACK, "slow-down"
        )?;
        for row in &self.databases {
            writeln!(
                f,
                "{:<8} {:>8} {:>10} {:<16} {:>12.2} {:>18.2} {:>10.2}",
                row.database,
                row.clients,
                row.device_us,
                format!("{:?}", row.logging),
                row.over_unified_mmap,
                row.over_traditional_stack,
                row.slow_down,
            )?;
        }
        writeln!(f, "\nFig. 13: metadata in pages against pieces")?;
        writeln!(
            f,
            "{:<8} {:<16} {:>8} {:>8} {:>8} {:>9}",
            "", "", "pages", "bytes", "gain", "lifetime"
        )?;
        for row in &self.files {
            writeln!(
                f,
                "{:<8} {:<16} {:>8} {:>8} {:>8.1} {:>9.1}",
                row.file_system, row.operation, row.pages, row.bytes, row.gain, row.lifetime
            )?;
        }
        write!(f, "\n{}", self.findings)
    }
}
