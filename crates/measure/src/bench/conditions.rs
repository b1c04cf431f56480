//! [`Conditions`]: the inputs of an outcome, for a model that predicts it.

use ebbtide_workloads::Program;

use super::memory_server::engine_options;
use super::protocol::{Calibration, Setup};
use super::{BenchReport, Profile};

/// The result of a bench and, if requested, the conditions of its outcomes.
#[derive(Debug)]
pub struct BenchRun {
    /// The result.
    pub report: BenchReport,
    /// One entry per outcome to predict; empty unless
    /// [`BenchOptions::predict`](super::BenchOptions::predict) is set.
    pub conditions: Vec<Conditions>,
}

/// The inputs of one outcome of a bench, and the costs of a miss on the machine at that time.
#[derive(Debug, Clone)]
pub struct Conditions {
    /// Index of the outcome in [`BenchReport::results`].
    pub outcome: usize,
    /// The program, with its image.
    pub program: Program,
    /// The calibrated work of a job.
    pub calibration: Calibration,
    /// The setup of the memory.
    pub setup: Setup,
    /// Kernel threads per core, if the mode chooses them by trial.
    pub threads_per_core: Option<usize>,
    /// Seconds of warm-up. The outcome depends on the policy's state and the program's stores by
    /// then.
    pub warm_up_s: f64,
    /// Seconds of measurement.
    pub measured_s: f64,
    /// The costs of a miss on this machine, measured with other programs.
    pub profile: Profile,
}

impl Conditions {
    /// Returns the options of the engine for `setup`.
    pub fn engine_options(&self) -> ebbtide_engine::Options {
        engine_options(&self.setup)
    }
}
