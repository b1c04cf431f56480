//! FlatFlash (ASPLOS'19) on the simulator: its Figs. 8 to 14, Tables 1 and 3, and every claim that they
//! and the formulas decide.
//!
//! Programs run as they are: nothing is computed between accesses, for the paper does not say how
//! much is. Commits and file-system metadata are costed beside the simulator, as in the paper.

pub mod claims;
mod databases;
mod experiments;
mod figures;
mod files;
pub mod formulas;
mod lines;
mod logging;
mod readings;
mod trial;
mod verdicts;

use std::fmt;

use ebbtide_core::Watch;
use serde::Serialize;

use super::{Paper, ReproduceError, ReproduceOptions, Reproduced, Reproduction};
use crate::claims::Findings;
pub use databases::DatabaseRow;
use ebbtide_report::Page;
pub use files::FileRow;
pub use logging::Logging;
pub use readings::ReadingRow;
pub use trial::Measure;
use trial::{FLATFLASH, TRADITIONAL_STACK, UNIFIED_MMAP};

/// What was run and what it says.
#[derive(Debug, Clone, Serialize)]
pub struct FlatFlash {
    /// Capacities were divided by this.
    pub scale_denominator: u64,
    /// Of layouts, job streams and transactions.
    pub seed: u64,
    /// Every run of the simulator.
    pub runs: Vec<RunRow>,
    /// What the claims owe to Algorithm 1.
    pub readings: Vec<ReadingRow>,
    /// Fig. 14.
    pub databases: Vec<DatabaseRow>,
    /// Fig. 13.
    pub files: Vec<FileRow>,
    /// Every claim.
    #[serde(flatten)]
    pub findings: Findings,
}

/// A run of the simulator.
#[derive(Debug, Clone, Serialize)]
pub struct RunRow {
    /// Which program on which sizes.
    pub experiment: String,
    /// Which system, and how it differs from its configuration.
    pub system: String,
    /// What came of it.
    #[serde(flatten)]
    pub measure: Measure,
}

pub(super) const PAPER: Paper = Paper {
    name: "flatflash",
    about: "FlatFlash, ASPLOS 2019",
    full_run: "about an hour",
    reproduce,
};

fn reproduce(options: &ReproduceOptions, watch: Watch<'_>) -> Result<Reproduced, ReproduceError> {
    let experiments = experiments::all();
    let trials: Vec<_> = experiments.iter().map(|experiment| experiment.trial.clone()).collect();
    let measures = trial::measure_all(&trials, options, watch)?;
    let runs: Vec<RunRow> = experiments
        .into_iter()
        .zip(measures)
        .map(|(run, measure)| RunRow { experiment: run.name, system: run.system, measure })
        .collect();
    let mut flatflash = FlatFlash {
        scale_denominator: options.scale_denominator(),
        seed: options.seed,
        readings: Vec::new(),
        databases: Vec::new(),
        files: files::rows(files::PRICES, files::SSD_CACHE_PAGES, options.seed),
        findings: Findings::default(),
        runs,
    };
    flatflash.readings = readings::rows(&flatflash);
    flatflash.databases = databases::rows(&flatflash);
    flatflash.findings = verdicts::findings(&flatflash)?;
    Ok(Box::new(flatflash))
}

impl FlatFlash {
    /// What `system` came to in `experiment`.
    fn run(&self, experiment: &str, system: &str) -> &Measure {
        let found =
            self.runs.iter().find(|row| row.experiment == experiment && row.system == system);
        &found.unwrap_or_else(|| panic!("{experiment} ran on {system}")).measure
    }

    /// How many times longer a job takes on `system` than on FlatFlash.
    fn gain(&self, experiment: &str, system: &str) -> f64 {
        self.run(experiment, system).job_ns / self.run(experiment, FLATFLASH).job_ns
    }
}

impl Reproduction for FlatFlash {
    fn findings(&self) -> &Findings {
        &self.findings
    }

    fn json(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(self)
    }

    fn page(&self) -> Page {
        self.figures()
    }
}

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
