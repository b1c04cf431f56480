//! [`run_cold`]: the warm-up of a program on an empty machine.

use ebbtide_core::Span;
use serde::Serialize;

use crate::designs;
use crate::machine::{Machine, SimError};
use crate::plan::Plan;

/// A part of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stretch {
    /// Completed jobs.
    pub jobs: u64,
    /// Simulated time of the jobs.
    pub simulated_ns: u64,
    /// Accesses that started a read from flash.
    pub misses: u64,
}

/// Runs `stretches` stretches of `plan.jobs` jobs each on a machine that starts with empty caches.
/// A job computes for `work` between its accesses.
///
/// # Errors
/// [`SimError`].
pub fn run_cold(plan: &Plan, work: Span, stretches: usize) -> Result<Vec<Stretch>, SimError> {
    let parts = designs::compose(&plan.config)?;
    let mut machine = Machine::of_program(&plan.config, parts, plan.program()?)?;
    machine.set_work(work);
    let mut stretch = || {
        let simulated_ns = machine.run(plan.jobs)?.as_ns();
        let misses = machine.take_counters().cache.misses;
        Ok(Stretch { jobs: plan.jobs, simulated_ns, misses })
    };
    (0..stretches).map(|_| stretch()).collect()
}
