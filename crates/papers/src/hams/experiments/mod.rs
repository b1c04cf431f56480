//! What runs on the simulator for HAMS's figures and claims.

mod rows;

use std::iter;
use std::time::Duration;

use ebbtide_core::{Bytes, Span, Watch};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Plan, run_cold};
use ebbtide_study::claims::Findings;
use ebbtide_study::runs::{self, RunError, run_all};
use ebbtide_study::side_by_side::side_by_side;
use ebbtide_workloads::Kind;

pub(super) use self::rows::{
    Curve, EnergyRow, Point, ShareRow, VariationRow, WorkloadRow, mean_share, mean_speedup,
};
use self::rows::{curve, energies, rows};
use super::Hams;
use crate::{ReproduceError, ReproduceOptions};

/// The mmap benchmark's four and SQLite's five, as the paper calls them; without Rodinia's three.
pub(super) const WORKLOADS: [(&str, Kind); 9] = [
    ("seqRd", Kind::SeqRead),
    ("seqWr", Kind::SeqWrite),
    ("rndRd", Kind::RandomRead),
    ("rndWr", Kind::RandomWrite),
    ("seqSel", Kind::SqlSeqSelect),
    ("rndSel", Kind::SqlRandomSelect),
    ("seqIns", Kind::SqlSeqInsert),
    ("rndIns", Kind::SqlRandomInsert),
    ("update", Kind::SqlUpdate),
];

/// The designs that miss. All computing is calibrated on the NVDIMM that never does.
pub(super) const DESIGNS: [&str; 3] = [MMAP, LHAMS_E, THAMS_E];
pub(super) const MMAP: &str = "hams-mmap";
pub(super) const LHAMS_E: &str = "lhams-e";
pub(super) const THAMS_E: &str = "thams-e";

/// The designs of Fig. 4.
const CURVES: [&str; 5] = [MMAP, LHAMS_E, THAMS_E, OPTANE_P, "nvdimm"];
pub(super) const OPTANE_P: &str = "optane-p";

/// A change of the configuration.
struct Variation {
    what: &'static str,
    keys: &'static [(&'static str, &'static str)],
    /// The workloads it is varied under.
    under: &'static [(&'static str, Kind)],
}

const UNVARIED: Variation = Variation { what: "as configured", keys: &[], under: &WORKLOADS };

/// What the sources leave open, and persist mode. The first three change HM1 and HM4, and run under
/// every workload.
const VARIATIONS: [Variation; 8] = [
    Variation { what: SMALL_PAGES, keys: &[("mos.page", "4KiB")], under: &WORKLOADS },
    Variation {
        what: ONE_CORE,
        keys: &[("cores.count", "1"), ("noc.columns", "1")],
        under: &WORKLOADS,
    },
    Variation {
        what: "an access waits for its whole MoS page",
        keys: &[("mos.wanted_first", "false")],
        under: &WORKLOADS,
    },
    Variation { what: "MoS pages of 16 KiB", keys: &[("mos.page", "16KiB")], under: &EXTREMES },
    Variation {
        what: "20 us of computing between misses",
        keys: &[("workload.miss_interval_us", "20")],
        under: &EXTREMES,
    },
    Variation {
        what: "15 us of software a fault",
        keys: &[("os.fault_us", "7"), ("os.io_us", "8")],
        under: &EXTREMES,
    },
    Variation {
        what: "20 us of software a fault",
        keys: &[("os.fault_us", "10"), ("os.io_us", "10")],
        under: &EXTREMES,
    },
    Variation {
        what: "persist mode (lhams-P, thams-P)",
        keys: &[("mos.mode", "persist")],
        under: &EXTREMES,
    },
];
pub(super) const SMALL_PAGES: &str = "MoS pages of 4 KiB";
pub(super) const ONE_CORE: &str = "one core";

/// The best and the worst workload for MoS pages of 128 KiB.
pub(super) const EXTREMES: [(&str, Kind); 2] = [WORKLOADS[0], WORKLOADS[3]];

/// Capacities of a quick run are the paper's divided by this: 32 MiB of NVDIMM.
const QUICK_DENOMINATOR: u64 = 256;

/// The same of a full run: the host keeps in memory what jobs write, and may not hold 16 GiB.
const FULL_DENOMINATOR: u64 = 8;

/// Stretches in which the pages of Fig. 4 are touched once.
const STRETCHES: u64 = 16;

/// How often the pages of Fig. 4 are touched.
const ROUNDS: u64 = 3;

/// Pages that a job of the mmap benchmark touches.
const PAGES_PER_JOB: u64 = 64;

/// Claims that need the programs and their variations.
pub(super) const OF_PROGRAMS: [&str; 5] = ["HM1", "HM2", "HM3", "HM4", "HM12"];

/// Claims that need Fig. 4. It computes as long as the first program.
pub(super) const OF_CURVES: [&str; 4] = ["HM9", "HM10", "HM11", "HM12"];

/// Runs every experiment. The findings are left empty.
pub(super) fn run(options: &ReproduceOptions, watch: Watch<'_>) -> Result<Hams, ReproduceError> {
    let plans = plans(options)?;
    let (programs, curves_time) = (runs::host_time(&plans), curves_time(options));
    let curves_from = programs.div_duration_f64(programs + curves_time);
    let outcomes =
        watch.within(0.0, curves_from, |watch| run_all(&plans, options.threads, watch))?;
    let (outcomes, mut varied) = outcomes.split_at(WORKLOADS.len() * DESIGNS.len());
    let mut variations = Vec::new();
    for &Variation { what, under, .. } in variations_of(options) {
        let (own, others) = varied.split_at(under.len() * DESIGNS.len());
        let (workloads, shares) = rows(under, own);
        variations.push(VariationRow { what, workloads, shares });
        varied = others;
    }
    let work = Span::from_ps((outcomes[0].warm_up.work_ns * 1e3) as u64);
    let curves = match options.selection.takes_any(&OF_CURVES) {
        true => watch.within(curves_from, 1.0, |watch| curves(options, work, watch))?,
        false => Vec::new(),
    };
    let (workloads, shares) = rows(&WORKLOADS, outcomes);
    Ok(Hams {
        scale_denominator: denominator(options),
        seed: options.seed,
        workloads,
        shares,
        energies: energies(outcomes)?,
        curves,
        variations,
        findings: Findings::default(),
    })
}

/// The host time of every experiment, about.
pub(super) fn host_time(options: &ReproduceOptions) -> Result<Duration, ReproduceError> {
    Ok(runs::host_time(&plans(options)?) + curves_time(options))
}

/// The host time of Fig. 4, about.
fn curves_time(options: &ReproduceOptions) -> Duration {
    if options.selection.takes_any(&OF_CURVES) { CURVES_TIME } else { Duration::ZERO }
}

/// The programs on the designs, and then under every variation that is asked for.
fn plans(options: &ReproduceOptions) -> Result<Vec<Plan>, ReproduceError> {
    let mut plans = Vec::new();
    for &Variation { keys, under, .. } in iter::once(&UNVARIED).chain(variations_of(options)) {
        for (_, workload) in under {
            for design in DESIGNS {
                plans.push(plan(options, design, *workload, keys)?);
            }
        }
    }
    Ok(plans)
}

fn variations_of(options: &ReproduceOptions) -> &'static [Variation] {
    if options.selection.takes_any(&OF_PROGRAMS) { &VARIATIONS } else { &[] }
}

fn denominator(options: &ReproduceOptions) -> u64 {
    if options.quick { QUICK_DENOMINATOR } else { FULL_DENOMINATOR }
}

fn plan(
    options: &ReproduceOptions,
    design: &str,
    workload: Kind,
    keys: &[(&str, &str)],
) -> Result<Plan, ReproduceError> {
    let software = design == MMAP;
    let own = |(key, _): &&(&str, &str)| !(software && key.starts_with("mos."));
    let keys: Vec<(&str, &str)> = keys.iter().filter(own).copied().collect();
    // In order, a job misses a fraction of a MoS page; at random, several.
    let jobs = match workload {
        Kind::SqlSeqSelect | Kind::SqlSeqInsert => 16_384,
        Kind::SeqRead | Kind::SeqWrite => 512,
        _ => 256,
    };
    let config = scaled(resolve(design, &keys)?, denominator(options));
    Ok(Plan { config, workload, jobs, seed: options.seed, arrivals: Offered::Saturating })
}

/// The NVDIMM and the data divided by `denominator`; the chip's caches, which are small beside either,
/// as they are.
fn scaled(mut config: Config, denominator: u64) -> Config {
    for size in [&mut config.dataset.size, &mut config.dram_cache.size] {
        size.0 /= denominator;
    }
    config
}

/// Host time of Fig. 4.
const CURVES_TIME: Duration = Duration::from_secs(1);

/// Fig. 4: the mmap benchmark reads half of the NVDIMM, from cold on, and again. A job computes for
/// `work`. Its capacities are always a full run's: with smaller ones a stretch is one job a core, and
/// shows only how cores start.
fn curves(
    options: &ReproduceOptions,
    work: Span,
    watch: Watch<'_>,
) -> Result<Vec<Curve>, ReproduceError> {
    side_by_side(CURVES.len(), options.threads, watch, |number, watch| {
        let design = CURVES[number];
        watch.tell(design, 0.0)?;
        let mut plan = plan(options, design, Kind::SeqRead, &[])?;
        plan.config = scaled(resolve(design, &[])?, FULL_DENOMINATOR);
        plan.config.dataset.size = Bytes(plan.config.dram_cache.size.0 / 2);
        plan.jobs = plan.config.dataset.size.0 / 4096 / PAGES_PER_JOB / STRETCHES;
        let stretches = run_cold(&plan, work, (STRETCHES * ROUNDS) as usize);
        Ok(curve(design, &stretches.map_err(|error| RunError::of(&plan, error))?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_times;

    /// Seconds of `ebbtide reproduce hams --quick` on one core, by program, in the order of
    /// [`WORKLOADS`].
    const RECORDED_S: [f64; 9] = [5.9, 3.5, 1.9, 43.3, 2.6, 2.9, 8.8, 5.6, 3.5];

    #[test]
    fn the_time_left_of_the_programs_is_right_by_half_whatever_program_runs_first() {
        let plans = plans(&host_times::recorded_options()).expect("they can be planned");
        let parts: Vec<_> = (WORKLOADS.iter().zip(RECORDED_S))
            .map(|((_, workload), took)| (host_times::expected_s(&plans, *workload), took))
            .collect();
        host_times::assert_right_by_half(&parts);
    }
}
