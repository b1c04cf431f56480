//! The papers' experiments on the simulator, and what becomes of each claim.

pub mod astriflash;
mod runs;

use ebbtide_sim::SimError;
use thiserror::Error;

pub use crate::bench::Cancel;

/// How much to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// A 64th of the paper's capacities instead of all of them.
    pub quick: bool,
    /// Of layouts, job streams and arrivals.
    pub seed: u64,
    /// Host threads; the result does not depend on them.
    pub threads: usize,
}

impl Options {
    /// Capacities are divided by this.
    pub fn scale_denominator(&self) -> u64 {
        if self.quick { 64 } else { 1 }
    }
}

/// Why there is nothing to report.
#[derive(Debug, Error)]
pub enum ReproduceError {
    /// A run failed.
    #[error("{design} under {workload}: {error}")]
    Run {
        /// On which design.
        design: String,
        /// Under which program.
        workload: &'static str,
        /// Why.
        error: Box<SimError>,
    },
    /// A design's parameters do not resolve.
    #[error(transparent)]
    Config(#[from] ebbtide_sim::config::ConfigError),
    /// The user broke it off.
    #[error("cancelled")]
    Cancelled,
}
