//! Calibrations and the last warm machine, kept in memory for runs over the same jobs.
//!
//! A kept item is a pure function of a plan's basis. So a run returns the same results with and
//! without it.

use std::sync::{Arc, Mutex, PoisonError};

use ebbtide_core::{Archive, Watch};
use ebbtide_workloads::Program;

use crate::calibration::{Calibration, in_dram};
use crate::machine::{Machine, SimError};
use crate::plan::Plan;
use crate::stages;
use crate::warm::Steady;

/// A calibration that is in progress or complete.
type Making = Arc<Mutex<Option<Calibration>>>;

/// The last calibrations of this process.
static CALIBRATIONS: Mutex<Vec<(Plan, Making)>> = Mutex::new(Vec::new());

/// Most calibrations that this process keeps.
const CALIBRATIONS_MAX: usize = 64;

/// The calibration of `plan`, whose program is `program`. A second caller for the same plan waits
/// for the first. If there is none yet, `count` counts the misses of a job under plain LRU and
/// warms the machine in DRAM, which it receives.
///
/// # Errors
/// [`SimError`].
pub(crate) fn calibration(
    plan: &Plan,
    program: &Program,
    count: impl FnOnce(&mut Machine, Watch<'_>) -> Result<f64, SimError>,
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
    let mut machine = in_dram(plan, program)?;
    let lru_misses_per_job =
        watch.within(0.0, stages::COUNTED, |watch| count(&mut machine, watch))?;
    Ok(known.insert(Calibration::new(plan, machine, lru_misses_per_job, watch)?).clone())
}

/// The last count of misses under plain LRU, with the state of the machine that counted them.
#[derive(Default)]
pub(crate) struct LastCount(Option<Count>);

struct Count {
    of: Plan,
    misses_per_job: f64,
    state: Vec<u8>,
}

/// Counts the misses of a job under plain LRU by `count`, which warms `machine`, the machine of
/// `plan` in DRAM. The count does not depend on the computing of jobs. If the `last` count is of
/// the same jobs, returns it, and restores its machine.
///
/// # Errors
/// [`SimError`].
pub(crate) fn counted(
    machine: &mut Machine,
    LastCount(last): &mut LastCount,
    plan: &Plan,
    count: impl FnOnce(&mut Machine) -> Result<f64, SimError>,
) -> Result<f64, SimError> {
    let of = plan.count_basis();
    if let Some(Count { of: last_of, misses_per_job, state }) = last
        && *last_of == of
    {
        let whole = Archive::restore(state, |archive| machine.state(archive));
        assert!(whole, "a state fits the machines that it is of");
        return Ok(*misses_per_job);
    }
    let misses_per_job = count(machine)?;
    let state = Archive::bytes_of(|archive| machine.state(archive));
    *last = Some(Count { of, misses_per_job, state });
    Ok(misses_per_job)
}

/// The state of the last warm machine, kept in memory.
#[derive(Default)]
pub(crate) struct LastWarm(Option<(String, Vec<u8>)>);

impl LastWarm {
    /// Whether it is the state of `machine` after its warm-up. `basis` is that of [`warm`].
    pub(crate) fn is_of(&self, machine: &mut Machine, basis: &str) -> bool {
        self.0.as_ref().is_some_and(|(of, _)| identity(machine, basis).as_ref() == Some(of))
    }
}

/// All that decides the state of `machine` after its warm-up. `None` if its state cannot be kept.
fn identity(machine: &mut Machine, basis: &str) -> Option<String> {
    let types = Archive::types_of(|archive| machine.state(archive))?;
    Some(format!("{basis} {types}"))
}

/// Warms `machine` up by `warmed_up`. If the `last` state is of such a machine after its warm-up,
/// restores it instead. `basis` is all that decides the state, apart from the kind of memory.
///
/// # Errors
/// [`SimError`].
pub(crate) fn warm(
    machine: &mut Machine,
    last: &mut LastWarm,
    basis: &str,
    warmed_up: impl FnOnce(&mut Machine) -> Result<Steady, SimError>,
) -> Result<Steady, SimError> {
    let Some(of) = identity(machine, basis) else { return warmed_up(machine) };
    if let LastWarm(Some((last_of, state))) = last
        && *last_of == of
    {
        return Ok(restored(machine, state));
    }
    let mut steady = warmed_up(machine)?;
    let state = Archive::bytes_of(|archive| warm_state(machine, &mut steady, archive));
    *last = LastWarm(Some((of, state)));
    Ok(steady)
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
    use crate::calibration::plain_lru;
    use crate::designs::{Overrides, resolve};
    use crate::offered::Offered;
    use crate::shared::Shared;

    fn plan(design: &str, set: Overrides<'_>, workload: Kind) -> Plan {
        let config = resolve(design, set).unwrap().scaled(1, 1024);
        Plan { config, workload, jobs: 200, seed: 1, arrivals: Offered::Saturating }
    }

    /// The outcome of a run of `plan`, and whether jobs warmed its machine.
    fn outcome(plan: &Plan, shared: &mut Shared) -> (String, bool) {
        let (stop, by_jobs) = (Stop::new(), AtomicBool::new(false));
        let show = |stage: &str, _: f64| {
            let is_untimed = ["warming up", "counting misses"].contains(&stage);
            by_jobs.fetch_or(is_untimed, Ordering::Relaxed);
        };
        let watch = Watch::new(&show, &stop);
        let mut outcome = shared.warmed(plan, watch).unwrap().measure(watch).unwrap();
        (outcome.wall_s, outcome.accesses_per_wall_s) = (0.0, 0.0);
        (format!("{outcome:?}"), by_jobs.into_inner())
    }

    #[test]
    #[ignore = "slow"]
    fn a_machine_warmed_by_a_state_does_what_one_does_that_was_warmed_by_jobs() {
        let does_the_same = |plan: &Plan, of: &str| {
            let mut last = Shared::default();
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
    fn a_count_of_misses_serves_all_intervals_between_them() {
        let mut last = LastCount::default();
        let calibrated = |interval_us: &str, last: Option<&mut LastCount>| {
            let plan =
                plan("astriflash", &[("workload.miss_interval_us", interval_us)], Kind::Tatp);
            let (stop, by_jobs) = (Stop::new(), AtomicBool::new(false));
            let show = |stage: &str, _: f64| {
                by_jobs.fetch_or(stage == "counting misses", Ordering::Relaxed);
            };
            let watch = Watch::new(&show, &stop);
            let mut machine = in_dram(&plan, &plan.program().unwrap()).unwrap();
            let count = |machine: &mut Machine| plain_lru(&plan, machine, watch);
            let misses = match last {
                Some(last) => super::counted(&mut machine, last, &plan, count),
                None => count(&mut machine),
            };
            let misses = misses.unwrap();
            let calibration = Calibration::new(&plan, machine, misses, watch).unwrap();
            (calibration, by_jobs.into_inner())
        };
        let (_, counted) = calibrated("5", Some(&mut last));
        assert!(counted);
        for interval_us in ["20", "5"] {
            let (own, _) = calibrated(interval_us, None);
            let (shared, counted) = calibrated(interval_us, Some(&mut last));
            assert_eq!(shared, own, "{interval_us} us");
            assert!(!counted, "the count is kept");
        }
    }

    #[test]
    fn a_memory_does_not_take_the_state_of_another_kind() {
        let mapped = plan("unified-mmap", &[("os.read_ahead", "128KiB")], Kind::ArraySwap);
        let mut hardware = mapped.clone();
        hardware.config.parts.memory_side = Some("astriflash".to_string());
        assert_eq!(hardware.warm_up_basis(), mapped.warm_up_basis());
        let (mut last, mut own) = (Shared::default(), Shared::default());
        outcome(&mapped, &mut last);
        assert_eq!(outcome(&hardware, &mut last), outcome(&hardware, &mut own));
        assert!(!outcome(&hardware, &mut last).1, "its own state is kept");
    }
}
