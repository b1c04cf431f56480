//! Calibrations and the last warm machine, kept in memory for runs over the same jobs.
//!
//! A kept item is a pure function of a plan's basis. So a run returns the same results with and
//! without it.

use std::sync::{Arc, Mutex, PoisonError};

use ebbtide_core::{Archive, Watch};
use ebbtide_workloads::Program;

use crate::calibration::Calibration;
use crate::machine::{Machine, SimError};
use crate::plan::Plan;
use crate::warm::{Steady, warmed_up};

/// A calibration that is in progress or complete.
type Making = Arc<Mutex<Option<Calibration>>>;

/// The last calibrations of this process.
static CALIBRATIONS: Mutex<Vec<(Plan, Making)>> = Mutex::new(Vec::new());

/// Most calibrations that this process keeps.
const CALIBRATIONS_MAX: usize = 64;

/// The calibration of `plan`, whose program is `program`. A second caller for the same plan waits
/// for the first.
///
/// # Errors
/// [`SimError`].
pub(crate) fn calibration(
    plan: &Plan,
    program: &Program,
    watch: Watch<'_>,
) -> Result<Calibration, SimError> {
    let basis = plan.calibration_basis();
    let making = {
        let mut kept = CALIBRATIONS.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.iter().find(|(of, _)| *of == basis) {
            Some((_, making)) => Arc::clone(making),
            None => {
                if kept.len() == CALIBRATIONS_MAX {
                    kept.remove(0);
                }
                let making = Making::default();
                kept.push((basis.clone(), Arc::clone(&making)));
                making
            }
        }
    };
    let mut known = making.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = &*known {
        return Ok(known.clone());
    }
    Ok(known.insert(Calibration::new(plan, program, watch)?).clone())
}

/// The state of the last warm machine, kept in memory.
#[derive(Default)]
pub(crate) struct LastWarm(Option<(String, Vec<u8>)>);

/// Warms `machine` of `plan` as [`warmed_up`] does. If the `last` state is of such a machine after
/// its warm-up, restores it instead.
///
/// # Errors
/// [`SimError`].
pub(crate) fn warm(
    machine: &mut Machine,
    last: &mut LastWarm,
    plan: &Plan,
    watch: Watch<'_>,
) -> Result<Steady, SimError> {
    let Some(of) = warm_machine(machine, plan) else {
        return warmed_up(machine, plan, watch);
    };
    if let LastWarm(Some((last_of, state))) = last
        && *last_of == of
    {
        return Ok(restored(machine, state));
    }
    let mut steady = warmed_up(machine, plan, watch)?;
    let state = Archive::bytes_of(|archive| warm_state(machine, &mut steady, archive));
    *last = LastWarm(Some((of, state)));
    Ok(steady)
}

/// All that decides the state of `machine` of `plan` after its warm-up, or `None` if it cannot be
/// kept.
fn warm_machine(machine: &mut Machine, plan: &Plan) -> Option<String> {
    let types = Archive::types_of(|archive| machine.state(archive))?;
    Some(format!("{:?} {types}", plan.warm_up_basis()))
}

fn warm_state(machine: &mut Machine, steady: &mut Steady, archive: &mut Archive<'_>) {
    archive.part(steady);
    machine.state(archive);
}

/// Restores in `machine` the `state` of such a machine after its warm-up.
fn restored(machine: &mut Machine, state: &[u8]) -> Steady {
    let mut steady = Steady::default();
    let whole = Archive::restore(state, |archive| warm_state(machine, &mut steady, archive));
    assert!(whole, "a state fits the machines that it is of");
    steady
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use ebbtide_core::Stop;
    use ebbtide_core::replacement::PolicyKind;
    use ebbtide_workloads::Kind;

    use super::*;
    use crate::designs::{Overrides, compose, resolve};
    use crate::experiment::Simulation;
    use crate::offered::Offered;

    fn plan(design: &str, set: Overrides<'_>, workload: Kind) -> Plan {
        let config = resolve(design, set).unwrap().scaled(1, 1024);
        Plan { config, workload, jobs: 200, seed: 1, arrivals: Offered::Saturating }
    }

    /// The outcome of a run of `plan`, and whether jobs warmed its machine.
    fn outcome(plan: &Plan, last: &mut LastWarm) -> (String, bool) {
        let (stop, by_jobs) = (Stop::new(), AtomicBool::new(false));
        let show = |stage: &str, _: f64| {
            by_jobs.fetch_or(stage == "warming up", Ordering::Relaxed);
        };
        let (parts, watch) = (compose(&plan.config).unwrap(), Watch::new(&show, &stop));
        let warmed = |machine: &mut Machine| warm(machine, last, plan, watch);
        let mut outcome =
            Simulation::by(plan, parts, watch, warmed).unwrap().measure(watch).unwrap();
        (outcome.wall_s, outcome.accesses_per_wall_s) = (0.0, 0.0);
        (format!("{outcome:?}"), by_jobs.into_inner())
    }

    #[test]
    fn a_machine_warmed_by_a_state_does_what_one_does_that_was_warmed_by_jobs() {
        let does_the_same = |plan: &Plan, of: &str| {
            let mut last = LastWarm::default();
            let (by_jobs, _) = outcome(plan, &mut last);
            let (by_state, warmed) = outcome(plan, &mut last);
            assert!(!warmed, "{of}: the state is kept");
            assert!(by_state == by_jobs, "{of}:\n{by_state}\n{by_jobs}");
        };
        std::thread::scope(|scope| {
            scope.spawn(|| does_the_same(&plan("astriflash", &[], Kind::Silo), "Silo"));
            for policy in PolicyKind::ALL {
                let set = [("dram_cache.policy", policy.name())];
                does_the_same(&plan("astriflash", &set, Kind::ArraySwap), policy.name());
            }
            // Sets that are looked up by hash.
            for policy in [PolicyKind::Lru, PolicyKind::MiniSim] {
                let set = [("dram_cache.policy", policy.name()), ("dram_cache.ways", "0")];
                does_the_same(&plan("os-swap", &set, Kind::HashTable), policy.name());
            }
            // Sizes that can be divided by 1024.
            let llc = ("llc.size", "128MiB");
            let memories: [(&str, Overrides<'_>); 6] = [
                ("dram-only", &[]),
                ("astriflash", &[("dram_cache.fill", "footprint")]),
                ("astriflash-nodp", &[]),
                ("hams-mmap", &[llc]),
                ("cxl-flash", &[]),
                ("lhams-e", &[llc]),
            ];
            for (design, set) in memories {
                does_the_same(&plan(design, set, Kind::ArraySwap), design);
            }
            let device = [("dram_cache.size", "512MiB"), ("dram_cache.ways", "16")];
            let rows: [Overrides<'_>; 3] = [
                &[("promotion.meets", "equal")],
                &[("promotion.clean_after_us", "20")],
                // Every page leaves the device's cache at once, as its sets have no other frame.
                &[("promotion.threshold_max", "1"), ("dram_cache.ways", "1")],
            ];
            for own in rows {
                let set = [&device[..], own].concat();
                does_the_same(&plan("flatflash", &set, Kind::Tatp), own[0].0);
            }
        });
    }

    #[test]
    fn a_memory_does_not_take_the_state_of_another_kind() {
        let mapped = plan("unified-mmap", &[("os.read_ahead", "128KiB")], Kind::ArraySwap);
        let mut hardware = mapped.clone();
        hardware.config.parts.memory_side = Some("astriflash".to_string());
        assert_eq!(hardware.warm_up_basis(), mapped.warm_up_basis());
        let (mut last, mut own) = (LastWarm::default(), LastWarm::default());
        outcome(&mapped, &mut last);
        assert_eq!(outcome(&hardware, &mut last), outcome(&hardware, &mut own));
        assert!(!outcome(&hardware, &mut last).1, "its own state is kept");
    }
}
