//! [`Conditions`]: under what an outcome came about, for a model that is to predict it.

use ebbtide_workloads::Program;

use super::memory_server::engine_options;
use super::protocol::{Calibration, Setup};
use super::{BenchReport, Profile};

/// What a bench found, and under what, where that was asked for.
#[derive(Debug)]
pub struct BenchRun {
    /// What was found.
    pub report: BenchReport,
    /// One entry an outcome to be predicted; empty unless [`BenchOptions::predict`](super::BenchOptions::predict) is
    /// set.
    pub conditions: Vec<Conditions>,
}

/// Under what one outcome of a bench came about, and what misses cost on the machine beside it.
#[derive(Debug, Clone)]
pub struct Conditions {
    /// Index of the outcome in the results of the report.
    pub outcome: usize,
    /// The program, with its image.
    pub program: Program,
    /// How much a job computes.
    pub calibration: Calibration,
    /// How the memory was set up.
    pub setup: Setup,
    /// Kernel threads a core, of a mode that chose them.
    pub threads_per_core: Option<usize>,
    /// Seconds that the memory ran before it was measured: what a policy has learned by then, and
    /// what a program has written, is part of the figure.
    pub warm_up_s: f64,
    /// Seconds that it was measured.
    pub measured_s: f64,
    /// What misses cost on this machine, measured with other programs.
    pub profile: Profile,
}

impl Conditions {
    /// How the engine was set up.
    pub fn engine_options(&self) -> ebbtide_engine::Options {
        engine_options(&self.setup)
    }
}
