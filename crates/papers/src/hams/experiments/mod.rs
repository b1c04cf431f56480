//! The runs of the simulator for HAMS's figures and claims.

mod rows;

use std::iter;

use ebbtide_core::{Bytes, Span, Watch};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Plan, run_cold};
use ebbtide_study::claims::Findings;
use ebbtide_study::runs::{RunError, run_all};
use ebbtide_study::side_by_side::side_by_side;
use ebbtide_workloads::Kind;

pub(super) use self::rows::{
    Curve, EnergyRow, Point, ShareRow, VariationRow, WorkloadRow, mean_share, mean_speedup,
};
use self::rows::{curve, energies, rows};
use super::Hams;
use crate::{ReproduceError, ReproduceOptions};

/// The four programs of the mmap benchmark and SQLite's five, with the paper's names. Rodinia's
/// three are missing.
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

/// The designs that miss. All computing is calibrated on the NVDIMM, which never misses.
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
    /// The workloads of the variation.
    under: &'static [(&'static str, Kind)],
}

const UNVARIED: Variation = Variation { what: "as configured", keys: &[], under: &WORKLOADS };

/// Values that the sources leave open, and persist mode. Those that change HM1 and HM4 run under
/// every workload.
const VARIATIONS: [Variation; 14] = [
    Variation { what: PAGE_SIZES[0].1, keys: &[("mos.page", "4KiB")], under: &WORKLOADS },
    Variation { what: PAGE_SIZES[1].1, keys: &[("mos.page", "8KiB")], under: &WORKLOADS },
    Variation { what: PAGE_SIZES[2].1, keys: &[("mos.page", "16KiB")], under: &WORKLOADS },
    Variation { what: PAGE_SIZES[3].1, keys: &[("mos.page", "32KiB")], under: &WORKLOADS },
    Variation { what: PAGE_SIZES[4].1, keys: &[("mos.page", "64KiB")], under: &WORKLOADS },
    Variation { what: ONE_CORE, keys: &ONE_THREAD, under: &WORKLOADS },
    Variation {
        what: "an access waits for its whole MoS page",
        keys: &[("mos.wanted_first", "false")],
        under: &WORKLOADS,
    },
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
        what: FOUR_THREADS,
        keys: &[("cores.count", "4"), ("noc.columns", "2")],
        under: &SQLITE,
    },
    // The data sheet of the SZ985: 12 to 20 us a random read. The 3 us are those of the medium.
    Variation { what: WITH_FIRMWARE, keys: &[("flash.read_us", "12")], under: &WORKLOADS },
    // Amber, the paper's simulator (SimpleSSD 2.0, `cpu/cpu.cc`): the functions on the path of a
    // read of a page have 5,868 instructions, one a cycle at the 400 MHz of `config/sample.cfg`.
    Variation { what: AMBER_FIRMWARE, keys: &[("flash.read_us", "17.7")], under: &WORKLOADS },
    Variation {
        what: "persist mode (lhams-P, thams-P)",
        keys: &[("mos.mode", "persist")],
        under: &EXTREMES,
    },
];

/// Sizes of a MoS page other than 128 KiB, which is second-hand: in KiB, and the variation's name.
pub(super) const PAGE_SIZES: [(u64, &str); 5] = [
    (4, "MoS pages of 4 KiB"),
    (8, "MoS pages of 8 KiB"),
    (16, "MoS pages of 16 KiB"),
    (32, "MoS pages of 32 KiB"),
    (64, "MoS pages of 64 KiB"),
];
pub(super) const ONE_CORE: &str = "one core";
pub(super) const WITH_FIRMWARE: &str = "12 us a flash read, with the SSD's firmware";
pub(super) const AMBER_FIRMWARE: &str = "17.7 us a flash read, with Amber's firmware";
const FOUR_THREADS: &str = "SQLite with four threads, which share a scan";

/// SQLite's programs.
const SQLITE: [(&str, Kind); 5] =
    [WORKLOADS[4], WORKLOADS[5], WORKLOADS[6], WORKLOADS[7], WORKLOADS[8]];

/// A machine of one core.
const ONE_THREAD: [(&str, &str); 2] = [("cores.count", "1"), ("noc.columns", "1")];

/// The best and the worst workload for MoS pages of 128 KiB.
pub(super) const EXTREMES: [(&str, Kind); 2] = [WORKLOADS[0], WORKLOADS[3]];

/// The divisor of the paper's capacities in a quick run: 32 MiB of NVDIMM.
const QUICK_DENOMINATOR: u64 = 256;

/// The same in a full run. The host keeps written data in memory, and may not have 16 GiB.
const FULL_DENOMINATOR: u64 = 8;

/// A way to run Fig. 4.
#[derive(Clone, Copy)]
struct Sequence {
    what: &'static str,
    /// Whether a job computes for the time of the programs. Without, designs reach the full
    /// bandwidth, as the paper says.
    computes: bool,
    /// The pages that are read, in halves of the NVDIMM.
    halves: u64,
}

/// Fig. 4, and its variations.
const SEQUENCES: [Sequence; 3] = [
    Sequence { what: AT_BANDWIDTH, computes: false, halves: 1 },
    Sequence { what: COMPUTING, computes: true, halves: 1 },
    Sequence { what: BEYOND_NVDIMM, computes: false, halves: 4 },
];
pub(super) const AT_BANDWIDTH: &str = "at full bandwidth";
pub(super) const COMPUTING: &str = "with the programs' computing between pages";
pub(super) const BEYOND_NVDIMM: &str = "over twice the NVDIMM";

/// Parts of a round over the pages of Fig. 4. A round touches each page once.
const STRETCHES: u64 = 16;

/// The number of rounds over the pages of Fig. 4.
const ROUNDS: u64 = 3;

/// Pages that a job of the mmap benchmark touches.
const PAGES_PER_JOB: u64 = 64;

/// A set of runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Runs {
    /// The programs.
    Programs,
    /// The programs under every variation.
    Variations,
    /// Fig. 4. Its jobs compute for the time of the first program, so it needs the programs.
    Curves,
}

/// Does the runs of `sets`. The findings are left empty.
pub(super) fn run(
    sets: &[Runs],
    options: &ReproduceOptions,
    watch: Watch<'_>,
) -> Result<Hams, ReproduceError> {
    let plans = plans(sets, options)?;
    let all = count(sets, options)?;
    let curves_from = plans.len() as f64 / all.max(1) as f64;
    let outcomes =
        watch.within(0.0, curves_from, |watch| run_all(&plans, options.threads, watch))?;
    let programs = if sets.is_empty() { 0 } else { WORKLOADS.len() * DESIGNS.len() };
    let (outcomes, mut varied) = outcomes.split_at(programs);
    let mut variations = Vec::new();
    for &Variation { what, under, .. } in variations_of(sets) {
        let (own, others) = varied.split_at(under.len() * DESIGNS.len());
        let (workloads, shares) = rows(under, own);
        variations.push(VariationRow { what, workloads, shares });
        varied = others;
    }
    let curves = match sets.contains(&Runs::Curves) {
        true => watch.within(curves_from, 1.0, |watch| {
            let work = Span::from_ps((outcomes[0].warm_up.work_ns * 1e3) as u64);
            curves(options, work, watch)
        })?,
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

/// The number of runs of `sets`.
pub(super) fn count(sets: &[Runs], options: &ReproduceOptions) -> Result<usize, ReproduceError> {
    let curves = if sets.contains(&Runs::Curves) { SEQUENCES.len() * CURVES.len() } else { 0 };
    Ok(plans(sets, options)?.len() + curves)
}

/// The programs on the designs, and then with every requested variation.
fn plans(sets: &[Runs], options: &ReproduceOptions) -> Result<Vec<Plan>, ReproduceError> {
    let mut plans = Vec::new();
    if sets.is_empty() {
        return Ok(plans);
    }
    for &Variation { keys, under, .. } in iter::once(&UNVARIED).chain(variations_of(sets)) {
        for (_, workload) in under {
            for design in DESIGNS {
                plans.push(plan(options, design, *workload, keys)?);
            }
        }
    }
    Ok(plans)
}

fn variations_of(sets: &[Runs]) -> &'static [Variation] {
    if sets.contains(&Runs::Variations) { &VARIATIONS } else { &[] }
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
    let mut keys: Vec<(&str, &str)> = keys.iter().filter(own).copied().collect();
    // SQLite has one thread.
    if SQLITE.iter().any(|(_, program)| *program == workload) {
        let set: Vec<&str> = keys.iter().map(|(key, _)| *key).collect();
        keys.extend(ONE_THREAD.into_iter().filter(|(key, _)| !set.contains(key)));
    }
    // In order, a job misses a fraction of a MoS page. At random, it misses several.
    let jobs = match workload {
        Kind::SqlSeqSelect | Kind::SqlSeqInsert => 16_384,
        Kind::SeqRead | Kind::SeqWrite => 512,
        _ => 256,
    };
    let config = scaled(resolve(design, &keys)?, denominator(options));
    Ok(Plan { config, workload, jobs, seed: options.seed, arrivals: Offered::Saturating })
}

/// Divides the NVDIMM and the data by `denominator`. The chip's caches are small in comparison and
/// stay.
fn scaled(mut config: Config, denominator: u64) -> Config {
    for size in [&mut config.dataset.size, &mut config.dram_cache.size] {
        size.0 /= denominator;
    }
    config
}

/// Fig. 4: the mmap benchmark reads a part of the NVDIMM, from a cold start and then again. If a
/// job computes, it does for `work`. The capacities are always a full run's. With smaller ones a
/// stretch is one job a core, and only shows the start of cores.
fn curves(
    options: &ReproduceOptions,
    work: Span,
    watch: Watch<'_>,
) -> Result<Vec<Curve>, ReproduceError> {
    side_by_side(SEQUENCES.len() * CURVES.len(), options.threads, watch, |number, watch| {
        let Sequence { what, computes, halves } = SEQUENCES[number / CURVES.len()];
        let design = CURVES[number % CURVES.len()];
        watch.tell(design, 0.0)?;
        let mut plan = plan(options, design, Kind::SeqRead, &[])?;
        plan.config = scaled(resolve(design, &[])?, FULL_DENOMINATOR);
        plan.config.dataset.size = Bytes(plan.config.dram_cache.size.0 / 2 * halves);
        plan.jobs = plan.config.dataset.size.0 / 4096 / PAGES_PER_JOB / STRETCHES;
        let work = if computes { work } else { Span::ZERO };
        let stretches = run_cold(&plan, work, (STRETCHES * ROUNDS) as usize);
        Ok(curve(what, design, &stretches.map_err(|error| RunError::of(&plan, error))?))
    })
}
