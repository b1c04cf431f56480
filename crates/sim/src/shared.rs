//! [`Shared`]: calibration and warm-up that runs of the same jobs share.

use std::time::Instant;

use ebbtide_core::Watch;
use ebbtide_workloads::Program;

use crate::calibration::Calibration;
use crate::designs;
use crate::experiment::Simulation;
use crate::machine::{Machine, SimError, Warmth};
use crate::plan::Plan;
use crate::warm::{Steady, warm_up};

/// The calibration and the warm machine of a run, kept for the next run of the same jobs. A run
/// gives exactly the results of [`Simulation::warmed`], but sooner.
///
/// Only the last warm machine is kept. Plans that differ only in what it does not depend on (core
/// side, timing, load) should follow one another.
#[derive(Default)]
pub struct Shared {
    calibrations: Vec<(Plan, Calibration)>,
    warm: Option<(Plan, Steady, Warmth)>,
}

impl Shared {
    /// As [`Simulation::warmed`].
    ///
    /// # Errors
    /// [`SimError`].
    pub fn warmed(&mut self, plan: &Plan, watch: Watch<'_>) -> Result<Simulation, SimError> {
        let clock = Instant::now();
        let program = plan.program()?;
        let calibration = self.calibration(plan, &program, watch)?;
        let parts = designs::compose(&plan.config)?;
        let mut machine = Machine::new(&plan.config, parts, program)?;
        let basis = plan.warm_up_basis();
        let steady = match &self.warm {
            Some((of, steady, warmth)) if *of == basis && machine.begin_with(warmth) => *steady,
            _ => {
                let steady = warm_up(&mut machine, &plan.config, watch)?;
                self.warm = machine.warmth().map(|warmth| (basis, steady, warmth));
                steady
            }
        };
        Simulation::settled(plan, clock, machine, calibration, steady, watch)
    }

    /// Whether two plans are warmed to the same state. Such plans should follow one another.
    pub fn same_warm_up(a: &Plan, b: &Plan) -> bool {
        a.warm_up_basis() == b.warm_up_basis()
    }

    fn calibration(
        &mut self,
        plan: &Plan,
        program: &Program,
        watch: Watch<'_>,
    ) -> Result<Calibration, SimError> {
        let basis = plan.calibration_basis();
        if let Some((_, known)) = self.calibrations.iter().find(|(of, _)| *of == basis) {
            return Ok(known.clone());
        }
        let calibration = Calibration::new(plan, program, watch)?;
        self.calibrations.push((basis, calibration.clone()));
        Ok(calibration)
    }
}
