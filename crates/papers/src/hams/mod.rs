//! HAMS (ISCA'21) on the simulator: its Figs. 3a and 4, its gains over memory-mapped files, and every
//! claim that they and the formulas decide.

pub mod claims;
mod figures;
pub mod formulas;
mod verdicts;

use ebbtide_core::{Bytes, Span, Watch};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Outcome, Plan, Stretch, run_cold};
use ebbtide_workloads::Kind;
use serde::Serialize;

use super::runs::{failed, run_all, run_each};
use super::{Paper, ReproduceError, ReproduceOptions, Reproduced, Reproduction};
use crate::claims::Findings;
use ebbtide_report::Page;
use ebbtide_study::energy::{Energy, EnergyTable, Meter};

/// The mmap benchmark's four and SQLite's five, as the paper calls them; without Rodinia's three.
const WORKLOADS: [(&str, Kind); 9] = [
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
const DESIGNS: [&str; 3] = [MMAP, LHAMS_E, THAMS_E];
const MMAP: &str = "hams-mmap";
const LHAMS_E: &str = "lhams-e";
const THAMS_E: &str = "thams-e";

/// The designs of Fig. 4.
const CURVES: [&str; 5] = [MMAP, LHAMS_E, THAMS_E, OPTANE_P, "nvdimm"];
const OPTANE_P: &str = "optane-p";

/// Something that is otherwise than configured.
struct Variation {
    what: &'static str,
    keys: &'static [(&'static str, &'static str)],
    /// The workloads it is varied under.
    under: &'static [(&'static str, Kind)],
}

/// What the sources leave open; and persist mode. Under every workload, what HM1 and HM4 move with.
const VARIATIONS: [Variation; 7] = [
    Variation { what: SMALL_PAGES, keys: &[("mos.page", "4KiB")], under: &WORKLOADS },
    Variation {
        what: ONE_CORE,
        keys: &[("cores.count", "1"), ("noc.columns", "1")],
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
const SMALL_PAGES: &str = "MoS pages of 4 KiB";
const ONE_CORE: &str = "one core";

/// The best and the worst workload for MoS pages of 128 KiB.
const EXTREMES: [(&str, Kind); 2] = [WORKLOADS[0], WORKLOADS[3]];

/// Capacities of a quick run are the paper's divided by this: 32 MiB of NVDIMM.
const QUICK_DENOMINATOR: u64 = 256;

/// And of a full one: what jobs write is kept in the host's memory, which holds no 16 GiB.
const FULL_DENOMINATOR: u64 = 8;

/// Stretches in which the pages of Fig. 4 are touched once.
const STRETCHES: u64 = 16;

/// How often they are touched.
const ROUNDS: u64 = 3;

/// Pages that a job of the mmap benchmark touches.
const PAGES_PER_JOB: u64 = 64;

/// What was run and what it says.
#[derive(Debug, Clone, Serialize)]
pub struct Hams {
    /// Capacities were divided by this.
    pub scale_denominator: u64,
    /// Of layouts and job streams.
    pub seed: u64,
    /// Throughput over mmap's.
    pub workloads: Vec<WorkloadRow>,
    /// Fig. 3a.
    pub shares: Vec<ShareRow>,
    /// What a job takes in energy, by the shipped table.
    pub energies: Vec<EnergyRow>,
    /// Fig. 4.
    pub curves: Vec<Curve>,
    /// What follows from what the sources leave open.
    pub variations: Vec<VariationRow>,
    /// Every claim.
    #[serde(flatten)]
    pub findings: Findings,
}

/// A workload.
#[derive(Debug, Clone, Serialize)]
pub struct WorkloadRow {
    /// Which.
    pub workload: &'static str,
    /// Throughput over mmap's, by design.
    pub speedup: Vec<(&'static str, f64)>,
    /// Throughput of an NVDIMM that holds everything, over mmap's.
    pub nvdimm: f64,
}

/// Where the time of mmap goes: a bar of Fig. 3a.
#[derive(Debug, Clone, Serialize)]
pub struct ShareRow {
    /// Under which workload.
    pub workload: &'static str,
    /// Faults and context switches.
    pub mmap: f64,
    /// File system, block layer, driver.
    pub io_stack: f64,
    /// Flash and the link to it.
    pub flash: f64,
    /// Computing, and the NVDIMM.
    pub compute: f64,
}

/// A curve of Fig. 4.
#[derive(Debug, Clone, Serialize)]
pub struct Curve {
    /// Which design.
    pub design: &'static str,
    /// Its points, from cold on.
    pub points: Vec<Point>,
}

/// A point of Fig. 4.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Point {
    /// Pages touched since the start.
    pub pages: u64,
    /// Pages a second since the last point.
    pub pages_per_s: f64,
    /// Pages a second since the start.
    pub pages_per_s_so_far: f64,
}

/// Throughput where something is not as configured.
#[derive(Debug, Clone, Serialize)]
pub struct VariationRow {
    /// What is varied.
    pub what: &'static str,
    /// The workloads it is varied under.
    pub workloads: Vec<WorkloadRow>,
    /// Where mmap's time goes under them.
    pub shares: Vec<ShareRow>,
}

/// Energy of a workload.
#[derive(Debug, Clone, Serialize)]
pub struct EnergyRow {
    /// Which.
    pub workload: &'static str,
    /// What a job takes, by design.
    pub designs: Vec<(&'static str, Energy)>,
}

pub(super) const PAPER: Paper = Paper {
    name: "hams",
    about: "HAMS, ISCA 2021",
    full_run: "about a quarter of an hour at an eighth of them",
    reproduce,
};

fn reproduce(options: &ReproduceOptions, watch: Watch<'_>) -> Result<Reproduced, ReproduceError> {
    let mut plans = Vec::new();
    for (_, workload) in WORKLOADS {
        for design in DESIGNS {
            plans.push(plan(options, design, workload, &[])?);
        }
    }
    let compared = plans.len();
    for &Variation { keys, under, .. } in &VARIATIONS {
        for (_, workload) in under {
            for design in DESIGNS {
                plans.push(plan(options, design, *workload, keys)?);
            }
        }
    }
    let show = |stage: &str, share: f64| watch.show(stage, SIMULATED * share);
    let outcomes = run_all(&plans, options, watch.telling(&show))?;
    let (outcomes, mut varied) = outcomes.split_at(compared);
    let mut variations = Vec::new();
    for &Variation { what, under, .. } in &VARIATIONS {
        let (own, others) = varied.split_at(under.len() * DESIGNS.len());
        let (workloads, shares) = rows(under, own);
        variations.push(VariationRow { what, workloads, shares });
        varied = others;
    }
    let work = Span::from_ps((outcomes[0].warm_up.work_ns * 1e3) as u64);
    let show = |stage: &str, share: f64| {
        watch.show(stage, SIMULATED + (1.0 - SIMULATED) * share);
    };
    let curves = curves(options, work, watch.telling(&show))?;
    let (workloads, shares) = rows(&WORKLOADS, outcomes);
    let mut hams = Hams {
        scale_denominator: denominator(options),
        seed: options.seed,
        workloads,
        shares,
        energies: energies(outcomes)?,
        curves,
        variations,
        findings: Findings::default(),
    };
    hams.findings = verdicts::findings(&hams);
    Ok(Box::new(hams))
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

/// What of `reproduce` is done when Fig. 4 begins.
const SIMULATED: f64 = 0.8;

/// Fig. 4: the mmap benchmark reads as many pages as fill half of the NVDIMM, from cold on and again.
/// A job computes for `work`. Its capacities are a full run's always: in a smaller one a stretch is a
/// job a core, and says how cores start side by side.
fn curves(
    options: &ReproduceOptions,
    work: Span,
    watch: Watch<'_>,
) -> Result<Vec<Curve>, ReproduceError> {
    run_each(CURVES.len(), options, watch, |number, watch| {
        let design = CURVES[number];
        watch.tell(design, 0.0)?;
        let mut plan = plan(options, design, Kind::SeqRead, &[])?;
        plan.config = scaled(resolve(design, &[])?, FULL_DENOMINATOR);
        plan.config.dataset.size = Bytes(plan.config.dram_cache.size.0 / 2);
        plan.jobs = plan.config.dataset.size.0 / 4096 / PAGES_PER_JOB / STRETCHES;
        let stretches = run_cold(&plan, work, (STRETCHES * ROUNDS) as usize);
        Ok(curve(design, &stretches.map_err(|error| failed(&plan, error))?))
    })
}

fn curve(design: &'static str, stretches: &[Stretch]) -> Curve {
    let (mut pages, mut ns) = (0, 0);
    let point = |stretch: &Stretch| {
        let now = stretch.jobs * PAGES_PER_JOB;
        (pages, ns) = (pages + now, ns + stretch.simulated_ns);
        let per_s = |pages, ns| pages as f64 * 1e9 / ns as f64;
        Point {
            pages,
            pages_per_s: per_s(now, stretch.simulated_ns),
            pages_per_s_so_far: per_s(pages, ns),
        }
    };
    Curve { design, points: stretches.iter().map(point).collect() }
}

fn workload_row(workload: &'static str, runs: &[Outcome]) -> WorkloadRow {
    let mmap = runs[0].jobs_per_s;
    let speedup = |(design, run): (&'static str, &Outcome)| (design, run.jobs_per_s / mmap);
    WorkloadRow {
        workload,
        speedup: DESIGNS.into_iter().zip(runs).map(speedup).collect(),
        nvdimm: 1.0 / runs[0].ratio_to_dram,
    }
}

fn share_row(workload: &'static str, run: &Outcome) -> ShareRow {
    let Outcome { config, memory, warm_up, .. } = run;
    let all_ns = run.simulated_ns as f64 * config.cores.count as f64;
    let faults = (memory.cache.misses + memory.cache.hits_under_miss) as f64;
    let mmap = faults * config.os.fault_us as f64 * 1e3 / all_ns;
    let io_stack = memory.cache.misses as f64 * config.os.io_us as f64 * 1e3 / all_ns;
    let compute = run.jobs as f64 * (warm_up.bare_job_ns + warm_up.work_ns) / all_ns;
    ShareRow { workload, mmap, io_stack, flash: 1.0 - mmap - io_stack - compute, compute }
}

/// What the runs of every design under `workloads` say.
fn rows(
    workloads: &[(&'static str, Kind)],
    outcomes: &[Outcome],
) -> (Vec<WorkloadRow>, Vec<ShareRow>) {
    let runs = workloads.iter().zip(outcomes.chunks(DESIGNS.len()));
    runs.map(|((name, _), runs)| (workload_row(name, runs), share_row(name, &runs[0]))).unzip()
}

/// By the shipped table, with the paper's capacities powered whatever those of the runs.
fn energies(outcomes: &[Outcome]) -> Result<Vec<EnergyRow>, ReproduceError> {
    let table = EnergyTable::shipped();
    let meter = |design| Ok((design, Meter::new(&table, &resolve(design, &[])?, true)?));
    let meters = DESIGNS.into_iter().map(meter).collect::<Result<Vec<_>, ReproduceError>>()?;
    let row = |(&(workload, _), runs): (&(&'static str, Kind), &[Outcome])| EnergyRow {
        workload,
        designs: meters
            .iter()
            .zip(runs)
            .filter_map(|((design, meter), run)| Some((*design, meter.as_ref()?.of_program(run))))
            .collect(),
    };
    Ok(WORKLOADS.iter().zip(outcomes.chunks(DESIGNS.len())).map(row).collect())
}

impl Hams {
    /// What was found where something is otherwise than configured.
    fn variation(&self, what: &str) -> &VariationRow {
        let found = self.variations.iter().find(|row| row.what == what);
        found.expect("every variation was run")
    }

    /// The mean over workloads of a design's energy a job over mmap's.
    fn mean_energy(&self, design: &str) -> f64 {
        let of = |row: &EnergyRow| row.total_uj(design) / row.total_uj(MMAP);
        mean(self.energies.iter().map(of))
    }

    fn curve(&self, design: &str) -> &[Point] {
        let found = self.curves.iter().find(|curve| curve.design == design);
        &found.expect("every design was run").points
    }

    /// The most by which one design of Fig. 4 outruns another at any point.
    fn best(&self, design: &str, other: &str) -> f64 {
        let pairs = self.curve(design).iter().zip(self.curve(other));
        pairs.map(|(a, b)| a.pages_per_s / b.pages_per_s).fold(0.0, f64::max)
    }
}

/// The mean over workloads of a design's throughput over mmap's.
fn mean_speedup(rows: &[WorkloadRow], design: &str) -> f64 {
    mean(rows.iter().map(|row| row.speedup(design)))
}

/// The mean over workloads of a share of mmap's time.
fn mean_share(rows: &[ShareRow], of: fn(&ShareRow) -> f64) -> f64 {
    mean(rows.iter().map(of))
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

impl EnergyRow {
    fn total_uj(&self, design: &str) -> f64 {
        self.of(design).total_uj
    }

    fn of(&self, design: &str) -> &Energy {
        let found = self.designs.iter().find(|(name, _)| *name == design);
        &found.expect("the shipped table is for every design here").1
    }
}

impl ShareRow {
    /// What HM4 counts.
    fn software(&self) -> f64 {
        self.mmap + self.io_stack
    }
}

impl WorkloadRow {
    fn speedup(&self, design: &str) -> f64 {
        let found = self.speedup.iter().find(|(name, _)| *name == design);
        found.expect("every design was run").1
    }
}

impl Reproduction for Hams {
    fn findings(&self) -> &Findings {
        &self.findings
    }

    fn json(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(self)
    }

    fn page(&self) -> Page {
        self.figures()
    }
}
