//! [`Shared`]: a warm machine for several runs of the same jobs.

use std::time::Instant;

use ebbtide_core::Watch;

use crate::designs;
use crate::experiment::Simulation;
use crate::kept::{self, LastWarm};
use crate::machine::{Machine, SimError};
use crate::plan::Plan;

/// The warm machine of a run, kept for the next run of the same jobs. A run returns exactly the
/// results of [`Simulation::warmed`], but sooner.
///
/// Only the last warm machine is kept. It does not depend on core side, timing or load. Plans that
/// differ only in these should follow one another.
#[derive(Default)]
pub struct Shared {
    last: LastWarm,
}

impl Shared {
    /// As [`Simulation::warmed`].
    ///
    /// # Errors
    /// [`SimError`].
    pub fn warmed(&mut self, plan: &Plan, watch: Watch<'_>) -> Result<Simulation, SimError> {
        let clock = Instant::now();
        let program = plan.program()?;
        let calibration = kept::calibration(plan, &program, watch)?;
        let parts = designs::compose(&plan.config)?;
        let mut machine = Machine::of_program(&plan.config, parts, program)?;
        let steady = kept::warm(&mut machine, &mut self.last, plan, watch)?;
        Simulation::settled(plan, clock, machine, calibration, steady, watch)
    }

    /// Whether two plans are warmed to the same state. Such plans should follow one another.
    pub fn same_warm_up(a: &Plan, b: &Plan) -> bool {
        a.warm_up_basis() == b.warm_up_basis()
    }
}
