//! [`Shared`]: what runs of the same jobs have in common, worked out once.

use std::time::Instant;

use ebbtide_core::{PAGE_BYTES, Watch};
use ebbtide_workloads::Program;

use crate::calibration::{Calibration, WARM_BATCH, WINDOW_JOBS_MAX, is_steady, window_misses};
use crate::config::Config;
use crate::designs::{self, Parts, resolve};
use crate::experiment::{Plan, Simulation, program};
use crate::machine::{Machine, SimError, Warmth};

/// What runs of the same jobs have in common, kept from one to the next: how their computing was
/// calibrated, and the machine after its untimed warm-up. A run gives exactly what it gives by
/// itself ([`Simulation::warmed`]), sooner.
///
/// The last warm machine is kept, so plans that differ in what it does not depend on (core side,
/// timing, load) should follow one another.
#[derive(Default)]
pub struct Shared {
    calibrations: Vec<(Plan, Calibration)>,
    warm: Option<(Plan, Steady, Warmth)>,
}

/// What the untimed warm-up came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Steady {
    /// Jobs that ran in no time.
    pub untimed_jobs: u64,
    /// Evictions over misses in the last window of those.
    pub evictions_per_miss: f64,
}

impl Shared {
    /// As [`Simulation::warmed`].
    ///
    /// # Errors
    /// [`SimError`].
    pub fn warmed(&mut self, plan: &Plan, watch: Watch<'_>) -> Result<Simulation, SimError> {
        let clock = Instant::now();
        let program = program(plan)?;
        let calibration = self.calibration(plan, &program, watch)?;
        let parts = designs::compose(&plan.config)?;
        let mut machine = Machine::new(&plan.config, parts, program)?;
        let basis = basis(plan);
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

    /// Whether two plans are warmed to the same state: those should follow one another.
    pub fn same_warm_up(a: &Plan, b: &Plan) -> bool {
        basis(a) == basis(b)
    }

    fn calibration(
        &mut self,
        plan: &Plan,
        program: &Program,
        watch: Watch<'_>,
    ) -> Result<Calibration, SimError> {
        let basis = Calibration::basis(plan);
        if let Some((_, known)) = self.calibrations.iter().find(|(of, _)| *of == basis) {
            return Ok(known.clone());
        }
        let calibration = Calibration::new(plan, program, watch)?;
        self.calibrations.push((basis, calibration.clone()));
        Ok(calibration)
    }
}

/// Builds the machine of `plan` out of `parts`, calibrates its jobs and warms it up, for this run alone.
pub(crate) fn alone(plan: &Plan, parts: Parts, watch: Watch<'_>) -> Result<Simulation, SimError> {
    let clock = Instant::now();
    let program = program(plan)?;
    let calibration = Calibration::new(plan, &program, watch)?;
    let mut machine = Machine::new(&plan.config, parts, program)?;
    let steady = warm_up(&mut machine, &plan.config, watch)?;
    Simulation::settled(plan, clock, machine, calibration, steady, watch)
}

/// What the state after the untimed warm-up depends on, beside whether memory keeps pages at all:
/// the jobs, the caches on the chip, and which page goes where in DRAM. All else is set to what
/// DRAM-only has.
pub(crate) fn basis(plan: &Plan) -> Plan {
    let fixed = resolve("dram-only", &[]).expect("a shipped design resolves");
    let mut basis = plan.clone();
    basis.jobs = 0;
    basis.arrivals = crate::Offered::Saturating;
    let config = &mut basis.config;
    config.design = fixed.design;
    config.parts = fixed.parts;
    config.switch = fixed.switch;
    config.os = fixed.os;
    config.link = fixed.link;
    config.flash = fixed.flash;
    config.workload.miss_interval_us = fixed.workload.miss_interval_us;
    config.workload.work_us = None;
    config.dram_cache = crate::config::DramCache {
        size: config.dram_cache.size,
        ways: config.dram_cache.ways,
        policy: config.dram_cache.policy,
        ..fixed.dram_cache
    };
    basis
}

/// Runs jobs in no time until evictions keep up with misses in `machine`, which `config` describes,
/// and where pages are promoted over a cache, demotions with promotions: host DRAM is full then. It
/// may never be if hardly any page is promoted; then eight misses a frame end that.
///
/// # Errors
/// [`SimError`].
pub fn warm_up(
    machine: &mut Machine,
    config: &Config,
    watch: Watch<'_>,
) -> Result<Steady, SimError> {
    let frames = config.memory_size().1.0 / PAGE_BYTES as u64;
    let (mut untimed_jobs, mut filled) = (0, 0);
    loop {
        let (mut misses, mut left) = (0, 0);
        let (mut promoted, mut demoted) = (0, 0);
        let (mut window, mut quiet) = (0, 0);
        while misses < window_misses(frames) && window < WINDOW_JOBS_MAX && quiet < QUIET_JOBS {
            // Twice as many misses as there are frames fill nearly all of them.
            let share = (filled + misses) as f64 / (2 * frames) as f64;
            watch.tell("warming up", WARM_SHARE * share.min(1.0))?;
            machine.warm(WARM_BATCH, None)?;
            window += WARM_BATCH;
            let batch = machine.take_counters();
            quiet = if batch.cache.misses == 0 { quiet + WARM_BATCH } else { 0 };
            (misses, left) = (misses + batch.cache.misses, left + batch.left());
            (promoted, demoted) =
                (promoted + batch.promotion.promotions, demoted + batch.promotion.demotions);
        }
        (untimed_jobs, filled) = (untimed_jobs + window, filled + misses);
        let full = promoted == 0 || is_steady(demoted, promoted) || filled >= FILLS_MAX * frames;
        if (is_steady(left, misses) && full) || quiet >= QUIET_JOBS {
            let evictions_per_miss = left as f64 / (misses as f64).max(1.0);
            return Ok(Steady { untimed_jobs, evictions_per_miss });
        }
    }
}

/// After so many misses a frame, host DRAM that promotions have not filled is taken as it is. A whole
/// run of the FlatFlash paper moves no more pages (FL24: 7.5 a frame).
const FILLS_MAX: u64 = 8;

/// After so many jobs without a miss, all that is ever touched is there.
const QUIET_JOBS: u64 = 4_096;

/// Where the untimed warm-up ends on the way to a result, about.
pub(crate) const WARM_SHARE: f64 = 0.5;
