//! [`Shared`]: a warm machine that runs of the same jobs share.

use std::time::{Duration, Instant};

use ebbtide_core::Watch;

use crate::designs;
use crate::experiment::Simulation;
use crate::kept::{self, LastWarm};
use crate::machine::{Machine, SimError};
use crate::plan::Plan;
use crate::progress::HostTime;

/// The warm machine of a run, kept for the next run of the same jobs. A run gives exactly the results
/// of [`Simulation::warmed`], but sooner.
///
/// Only the last warm machine is kept. Plans that differ only in what it does not depend on (core
/// side, timing, load) should follow one another.
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
        let steady = kept::warm(&mut machine, Some(&mut self.last), plan, watch)?;
        Simulation::settled(plan, clock, machine, calibration, steady, watch)
    }

    /// The host time of each of `plans`, about, if they run one after the other.
    pub fn host_times(plans: &[&Plan]) -> Vec<Duration> {
        let mut calibrated: Vec<Plan> = Vec::new();
        let mut warm = None;
        let mut of = |plan: &&Plan| {
            let mut time = HostTime::of(plan);
            let (calibration, warm_up) = (plan.calibration_basis(), plan.warm_up_basis());
            if calibrated.contains(&calibration) {
                (time.counting, time.in_dram) = (Duration::ZERO, Duration::ZERO);
            } else {
                calibrated.push(calibration);
            }
            if warm.as_ref() == Some(&warm_up) {
                time.warming = Duration::ZERO;
            }
            warm = Some(warm_up);
            time.whole()
        };
        plans.iter().map(&mut of).collect()
    }

    /// Whether two plans are warmed to the same state. Such plans should follow one another.
    pub fn same_warm_up(a: &Plan, b: &Plan) -> bool {
        a.warm_up_basis() == b.warm_up_basis()
    }
}
