//! [`Shared`]: a warm machine for several runs of the same jobs.

use std::time::Instant;

use ebbtide_core::Watch;

use crate::calibration::plain_lru;
use crate::config::Config;
use crate::designs;
use crate::experiment::Simulation;
use crate::kept::{self, LastCount, LastWarm};
use crate::machine::{Machine, SimError};
use crate::plan::{Plan, warm_up_basis};
use crate::stages;
use crate::warm::{Steady, Warming, warm_up};

/// The warm machine of a run, kept for the next run of the same jobs. A run returns exactly the
/// results of [`Simulation::warmed`], but sooner.
///
/// Only the last warm machine is kept. It does not depend on core side, timing or load. Plans that
/// differ only in these should follow one another.
#[derive(Default)]
pub struct Shared {
    last: LastWarm,
    last_count: LastCount,
}

impl Shared {
    /// As [`Simulation::warmed`].
    ///
    /// # Errors
    /// [`SimError`].
    pub fn warmed(&mut self, plan: &Plan, watch: Watch<'_>) -> Result<Simulation, SimError> {
        let clock = Instant::now();
        let program = plan.program()?;
        let parts = designs::compose(&plan.config)?;
        let mut machine = Machine::of_program(&plan.config, parts, program.clone())?;
        let basis = format!("{:?}", plan.warm_up_basis());
        let is_kept = self.last.is_of(&mut machine, &basis);
        let mut warming = Warming::new(&plan.config);
        let count = |in_dram: &mut Machine, watch: Watch<'_>| {
            kept::counted(in_dram, &mut self.last_count, plan, |in_dram| {
                if is_kept {
                    plain_lru(plan, in_dram, watch)
                } else {
                    warming.counting(plan, in_dram, &mut machine, watch)
                }
            })
        };
        let calibration = kept::calibration(plan, &program, count, watch)?;
        let warm = |machine: &mut Machine| {
            watch.within(stages::CALIBRATED, stages::WARM, |watch| warming.finish(machine, watch))
        };
        let steady = kept::warm(&mut machine, &mut self.last, &basis, warm)?;
        Simulation::settled(plan, clock, machine, calibration, steady, watch)
    }

    /// Calibrates the jobs of `plan`, and keeps the result for later runs of this process.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn calibrate(&mut self, plan: &Plan, watch: Watch<'_>) -> Result<(), SimError> {
        let program = plan.program()?;
        let count = |in_dram: &mut Machine, watch: Watch<'_>| {
            let count = |in_dram: &mut Machine| plain_lru(plan, in_dram, watch);
            kept::counted(in_dram, &mut self.last_count, plan, count)
        };
        kept::calibration(plan, &program, count, watch).map(|_| ())
    }

    /// As [`warm_up`] for a `machine` of `config` that has run nothing. `jobs` identifies the
    /// program and its seed.
    ///
    /// # Errors
    /// [`SimError`].
    pub fn warm_up(
        &mut self,
        machine: &mut Machine,
        (jobs, config): (&str, &Config),
        watch: Watch<'_>,
    ) -> Result<Steady, SimError> {
        let basis = Shared::basis(jobs, config);
        kept::warm(machine, &mut self.last, &basis, |machine| warm_up(machine, config, watch))
    }

    /// All that decides the state of a machine of `config` after the untimed warm-up, apart from
    /// the kind of memory. `jobs` identifies the program and its seed.
    pub fn basis(jobs: &str, config: &Config) -> String {
        format!("{jobs} {:?}", warm_up_basis(config))
    }

    /// Whether two plans are warmed to the same state. Such plans should follow one another.
    pub fn same_warm_up(a: &Plan, b: &Plan) -> bool {
        a.warm_up_basis() == b.warm_up_basis()
    }
}
