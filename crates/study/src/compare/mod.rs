//! `ebbtide compare`: every design on the same work and the same machine. [`compare()`] returns a
//! [`Comparison`].
//!
//! Each published system has a machine of its own. A comparison gives all of them the cores,
//! caches, data and amount of DRAM of one design, [`REFERENCE`]. A design keeps its core side, its
//! memory side, its link and its flash device.
//!
//! Jobs compute for the same time on all designs. The time is chosen so that plain LRU on the
//! reference misses at the configured interval.

mod machine;
mod page;
mod price;
mod text;

use std::path::PathBuf;

use ebbtide_core::{PAGE_BYTES, Stopped, UnknownName, Watch};
use ebbtide_sim::config::{Config, ConfigError, Scale};
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{
    Distribution, FlashOutcome, Lifetime, Offered, Outcome, Plan, Replay, ReplayError, Shared,
    SimError, designs, replay,
};
use ebbtide_trace::{Compacted, Footprint, Format, Paged, Source, TraceError};
use ebbtide_workloads::Kind;
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

pub use price::Price;

use crate::analytic::cost::effectiveness;
use crate::analytic::lifetime::Wear;
use crate::energy::{Energy, EnergyTable};
use crate::market::{Market, MarketError};
use crate::runs::chains;
use crate::side_by_side::side_by_side_by_cost;
use crate::watched::Watched;
use machine::{Machine, Machines};
use price::GIB;

/// The design whose cores, caches, data and amount of DRAM all designs get.
pub const REFERENCE: &str = "astriflash";

/// The design that throughput is relative to.
const BASELINE: &str = "dram-only";

/// The options of a comparison.
#[derive(Debug, Clone)]
pub struct CompareOptions {
    /// Names of designs, or TOML files of parameters. Empty for all designs. DRAM-only always runs
    /// too.
    pub designs: Vec<String>,
    /// The work.
    pub work: Work,
    /// Keys and values of parameters, set for every design that has them.
    pub set: Vec<(String, String)>,
    /// Scale of capacities in the runs. Prices are those of the full size. With `None`, programs
    /// run at [`USUAL_SCALE`], and the machine is fitted to the pages that a trace touches.
    pub scale: Option<Scale>,
    /// Number of concurrent runs, which does not change the result.
    pub threads: usize,
    /// The energy of operations.
    pub energy: EnergyTable,
    /// The prices of memory, and the drives for lifetimes by formula.
    pub market: Market,
}

impl CompareOptions {
    fn scale(&self) -> Scale {
        match (&self.scale, &self.work) {
            (Some(scale), _) => *scale,
            (None, Work::Program { .. }) => USUAL_SCALE,
            (None, Work::Trace(..)) => Scale::WHOLE,
        }
    }
}

/// The default scale of programs: 1/64.
pub const USUAL_SCALE: Scale = Scale { numerator: 1, denominator: 64 };

/// The least data of a machine that is fitted to a trace, in pages. With less, some designs have
/// too few frames.
const FITTED_PAGES_MIN: u64 = 1024;

/// The work of every design.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Runs a program.
    Program {
        /// The program.
        workload: Kind,
        /// Jobs to measure after the warm-up.
        jobs: u64,
        /// Seed of layout and job stream.
        seed: u64,
    },
    /// Replays the trace in this file directly into the memory side. Without a format, the ending
    /// of the file's name determines it.
    Trace(PathBuf, Option<Format>),
}

/// Every design on the same work.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The name of the program, or the path of the trace.
    pub work: String,
    /// The unit of work: "jobs" or "accesses".
    pub unit: &'static str,
    /// Scale of capacities, such as "1/64".
    pub scale: String,
    /// The pages that the trace touches. `None` for a program.
    pub touched_pages: Option<u64>,
    /// The prices of memory, and the drives for lifetimes by formula.
    pub market: Market,
    /// Computing time of a job, in microseconds, in addition to its accesses. `None` for a trace.
    pub work_us: Option<f64>,
    /// The results, in the order of [`designs::ALL`]. Designs from files come last.
    pub designs: Vec<ComparedDesign>,
    /// Designs that are incompatible with the common machine or with a parameter that was set.
    pub left_out: Vec<LeftOut>,
    /// Warnings about parts of the trace that were not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A design that could not be built.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeftOut {
    /// The design.
    pub design: String,
    /// The reason.
    pub reason: String,
}

/// The result of a design.
#[derive(Debug, Clone, Serialize)]
pub struct ComparedDesign {
    /// Its name.
    pub design: String,
    /// Jobs or accesses per simulated second.
    pub throughput_per_s: f64,
    /// Throughput relative to DRAM-only.
    pub ratio_to_dram: f64,
    /// Median service time of a job or latency of an access, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile of the same time, in microseconds.
    pub p99_us: f64,
    /// Data read from flash, in MB (10⁶ bytes) per simulated second.
    pub flash_read_mb_per_s: f64,
    /// Data written to flash by the host, in MB (10⁶ bytes) per simulated second.
    pub flash_write_mb_per_s: f64,
    /// Lifetime of its flash. `None` without flash or without writes.
    pub lifetime: Option<Life>,
    /// Energy of a job or an access, if the table covers the design.
    pub energy: Option<Energy>,
    /// Price of its memory at full size.
    pub price: Price,
    /// Price of DRAM-only divided by this price.
    pub saving: f64,
    /// Performance per dollar relative to DRAM-only: the saving times `ratio_to_dram` (FlatFlash,
    /// Table 3).
    pub effectiveness: f64,
    /// The full outcome of the run, with the keys of `ebbtide sim --json`.
    pub outcome: Value,
}

/// The lifetime of a design's flash.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Life {
    /// The lifetime in years of continuous use and in working years.
    #[serde(flatten)]
    pub years: Lifetime,
    /// True if the device's model of wear gave the lifetime. Otherwise the formula of
    /// [`crate::analytic::lifetime`] did, for cells of the chosen kind.
    pub modelled: bool,
}

/// The error of a failed comparison.
#[derive(Debug, Error)]
pub enum CompareError {
    /// A design does not exist.
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    /// None of the requested designs fits the common machine.
    #[error("{design}: {reason}")]
    NoneFits {
        /// The first of the designs.
        design: String,
        /// The reason.
        reason: String,
    },
    /// The parameters of the common machine are invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A price or a drive is impossible.
    #[error(transparent)]
    Market(#[from] MarketError),
    /// A run failed.
    #[error("{design}: {error}")]
    Run {
        /// The design.
        design: String,
        /// The reason.
        error: Box<SimError>,
    },
    /// The trace cannot be replayed.
    #[error("{design}: {error}")]
    Replay {
        /// The design.
        design: String,
        /// The reason.
        error: Box<ReplayError>,
    },
    /// The trace cannot be opened or read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The comparison was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl CompareError {
    /// Returns true if the user's input, rather than the run, is at fault.
    pub fn is_input(&self) -> bool {
        match self {
            CompareError::Run { error, .. } => error.is_input(),
            CompareError::Stopped(_) => false,
            CompareError::Trace(error) => error.is_input(),
            _ => true,
        }
    }
}

/// Runs DRAM-only, then the other designs on up to `options.threads` host threads.
///
/// # Errors
/// [`CompareError`] when a run fails or `watch` requests a stop. A design that does not fit the
/// common machine is no error: it is left out.
pub fn compare(options: &CompareOptions, watch: Watch<'_>) -> Result<Comparison, CompareError> {
    options.market.check()?;
    let (footprint, remark) = footprint(options, watch)?.unzip();
    let touched_pages = footprint.as_ref().map(Footprint::pages);
    let fitted = fitted(options, touched_pages)?;
    let options = fitted.as_ref().unwrap_or(options);
    let Machines { baseline, others, left_out } = Machines::of(options)?;
    let work = (&options.work, footprint.as_ref());
    let all = others.len() as f64 + 1.0;
    let show = |stage: &str, share: f64| {
        watch.show(&format!("{BASELINE}: {stage}"), share / all);
    };
    let mut shared = Shared::default();
    let first = run(&baseline, None, work, &mut shared, watch.telling(&show))?;
    let show_others =
        |stage: &str, share: f64| watch.show(stage, (1.0 + share * (all - 1.0)) / all);
    let work_us = first.work_us;
    let chains = chains_of(&others, work_us, &options.work, options.threads);
    if let (Some(first), Some(plan)) = (others.first(), chains.plans.first()) {
        // All designs but the baseline share this calibration, which has the baseline's count.
        let calibrated = shared.calibrate(plan, watch);
        calibrated.map_err(|error| failed(&first.design, error))?;
    }
    drop(shared);
    let lengths: Vec<f64> = chains.numbers.iter().map(|chain| chain.len() as f64).collect();
    let rest = side_by_side_by_cost(
        &lengths,
        options.threads,
        watch.telling(&show_others),
        |chain, watch| {
            let (chain, mut shared) = (&chains.numbers[chain], Shared::default());
            let share = |done: usize| done as f64 / chain.len() as f64;
            let run = |(done, &number): (usize, &usize)| {
                let machine = &others[number];
                let name = &machine.design;
                let ran = watch.within(share(done), share(done + 1), |watch| {
                    let show =
                        |stage: &str, share: f64| watch.show(&format!("{name}: {stage}"), share);
                    run(machine, work_us, work, &mut shared, watch.telling(&show))
                });
                Ok::<_, CompareError>((number, ran?))
            };
            chain.iter().enumerate().map(run).collect::<Result<Vec<_>, _>>()
        },
    )?;
    let mut rest: Vec<(usize, Ran)> = rest.into_iter().flatten().collect();
    rest.sort_by_key(|(number, _)| *number);
    let rest: Vec<Ran> = rest.into_iter().map(|(_, ran)| ran).collect();
    let mut rows: Vec<ComparedDesign> = [&baseline]
        .into_iter()
        .chain(&others)
        .zip([&first].into_iter().chain(&rest))
        .map(|(machine, ran)| row(machine, ran, (&baseline, &first), options.market))
        .collect();
    let place = |row: &ComparedDesign| {
        let shipped = designs::ALL.iter().position(|design| design.name == row.design);
        // Designs from files come after shipped ones.
        shipped.unwrap_or(usize::MAX)
    };
    rows.sort_by_key(place);
    Ok(Comparison {
        work: match &options.work {
            Work::Program { workload, .. } => workload.name().to_string(),
            Work::Trace(path, _) => path.display().to_string(),
        },
        unit: match &options.work {
            Work::Program { .. } => "jobs",
            Work::Trace(..) => "accesses",
        },
        scale: options.scale().to_string(),
        touched_pages,
        market: options.market,
        work_us,
        designs: rows,
        left_out,
        warnings: remark.flatten().into_iter().collect(),
    })
}

/// The pages that the trace of `options` touches, if there is a trace, and the parts of it that are
/// not read.
fn footprint(
    options: &CompareOptions,
    watch: Watch<'_>,
) -> Result<Option<(Footprint, Option<String>)>, CompareError> {
    let Work::Trace(path, format) = &options.work else { return Ok(None) };
    watch.tell("counting the pages of the trace", 0.0)?;
    let mut trace = Watched::new(Paged::new(ebbtide_trace::open_as(path, *format)?), watch);
    let footprint = Footprint::of(&mut trace)?;
    if trace.stopped() {
        return Err(Stopped.into());
    }
    Ok(Some((footprint, trace.remark())))
}

/// `options` with the least power of two of data that holds `touched_pages`, and with
/// [`REFERENCE`]'s share of DRAM. `None` if `options` set the size of the machine, or without a
/// trace.
fn fitted(
    options: &CompareOptions,
    touched_pages: Option<u64>,
) -> Result<Option<CompareOptions>, CompareError> {
    let is_set = |key: &str| options.set.iter().any(|(set, _)| set == key);
    let Some(touched_pages) = touched_pages else { return Ok(None) };
    if options.scale.is_some() || is_set("dataset.size") {
        return Ok(None);
    }
    let reference = resolve(REFERENCE, &[])?;
    let bytes = touched_pages.max(FITTED_PAGES_MIN).next_power_of_two() * PAGE_BYTES as u64;
    let share = reference.dataset.size.0 / reference.dram_cache.size.0;
    let mut fitted = options.clone();
    fitted.set.push(("dataset.size".to_string(), bytes.to_string()));
    if !is_set("dram_cache.size") {
        fitted.set.push(("dram_cache.size".to_string(), (bytes / share).to_string()));
    }
    Ok(Some(fitted))
}

/// The common results of a program and a trace.
struct Ran {
    /// Jobs or accesses.
    count: u64,
    simulated_ns: u64,
    latency: Distribution,
    flash: FlashOutcome,
    lifetime: Option<Lifetime>,
    work_us: Option<f64>,
    energy: Option<Energy>,
    outcome: Value,
}

/// The designs but the baseline, divided for runs that share warm machines.
struct Chains {
    /// The plan of each design. Empty for a trace.
    plans: Vec<Plan>,
    /// The numbers of the designs of each chain.
    numbers: Vec<Vec<usize>>,
}

fn chains_of(machines: &[Machine], work_us: Option<f64>, work: &Work, threads: usize) -> Chains {
    let plans: Option<Vec<Plan>> =
        machines.iter().map(|machine| plan_of(config_of(machine, work_us), work)).collect();
    let all = 0..machines.len();
    match plans {
        Some(plans) => Chains { numbers: chains(&plans, all.collect(), threads), plans },
        None => Chains { plans: Vec::new(), numbers: all.map(|number| vec![number]).collect() },
    }
}

fn config_of(machine: &Machine, work_us: Option<f64>) -> Config {
    let mut config = machine.config.clone();
    config.workload.work_us = work_us.or(config.workload.work_us);
    config
}

/// The plan of a program on the machine of `config`. `None` for a trace.
fn plan_of(config: Config, work: &Work) -> Option<Plan> {
    let Work::Program { workload, jobs, seed } = *work else { return None };
    Some(Plan { config, workload, jobs, seed, arrivals: Offered::Saturating })
}

fn failed(design: &str, error: SimError) -> CompareError {
    match error {
        SimError::Stopped(stopped) => stopped.into(),
        error => CompareError::Run { design: design.to_string(), error: Box::new(error) },
    }
}

fn run(
    machine: &Machine,
    work_us: Option<f64>,
    (work, footprint): (&Work, Option<&Footprint>),
    shared: &mut Shared,
    watch: Watch<'_>,
) -> Result<Ran, CompareError> {
    let config = config_of(machine, work_us);
    let design = &machine.design;
    match work {
        Work::Program { workload, jobs, seed } => {
            let (workload, jobs, seed) = (*workload, *jobs, *seed);
            let plan = Plan { config, workload, jobs, seed, arrivals: Offered::Saturating };
            let outcome = shared.warmed(&plan, watch).and_then(|mut run| run.measure(watch));
            outcome
                .map(|outcome| of_program(machine, outcome))
                .map_err(|error| failed(design, error))
        }
        Work::Trace(path, format) => {
            // The length of a trace is unknown before its end.
            watch.tell("replaying", 0.5)?;
            let mut trace = Watched::new(Paged::new(ebbtide_trace::open_as(path, *format)?), watch);
            let replayed = match footprint {
                Some(footprint) => replay(&config, &mut Compacted::new(&mut trace, footprint)),
                None => replay(&config, &mut trace),
            };
            if trace.stopped() {
                return Err(Stopped.into());
            }
            replayed.map(|replay| of_trace(machine, replay)).map_err(|error| CompareError::Replay {
                design: design.clone(),
                error: Box::new(error),
            })
        }
    }
}

fn of_program(machine: &Machine, outcome: Outcome) -> Ran {
    Ran {
        count: outcome.jobs,
        simulated_ns: outcome.simulated_ns,
        latency: outcome.service_ns.clone(),
        flash: outcome.flash.clone(),
        lifetime: outcome.lifetime_years.clone(),
        work_us: Some(outcome.warm_up.work_ns / 1e3),
        energy: machine.meter.as_ref().map(|meter| meter.of_program(&outcome)),
        outcome: serde_json::to_value(outcome).expect("an outcome is plain data"),
    }
}

fn of_trace(machine: &Machine, replay: Replay) -> Ran {
    Ran {
        count: replay.accesses,
        simulated_ns: replay.simulated_ns,
        latency: replay.latency_ns.clone(),
        flash: replay.flash.clone(),
        lifetime: replay.lifetime_years.clone(),
        work_us: None,
        energy: machine.meter.as_ref().map(|meter| meter.of_trace(&replay)),
        outcome: serde_json::to_value(replay).expect("a replay is plain data"),
    }
}

fn row(
    machine: &Machine,
    ran: &Ran,
    (baseline, first): (&Machine, &Ran),
    market: Market,
) -> ComparedDesign {
    let rate = |ran: &Ran| ran.count as f64 * 1e9 / ran.simulated_ns.max(1) as f64;
    let seconds = ran.simulated_ns.max(1) as f64 / 1e9;
    let mb_per_s = |pages: u64| pages as f64 * PAGE_BYTES as f64 / seconds / 1e6;
    let ratio_to_dram = rate(ran) / rate(first);
    let saving = baseline.price.dollars / machine.price.dollars;
    ComparedDesign {
        design: machine.design.clone(),
        throughput_per_s: rate(ran),
        ratio_to_dram,
        p50_us: ran.latency.p50 as f64 / 1e3,
        p99_us: ran.latency.p99 as f64 / 1e3,
        flash_read_mb_per_s: mb_per_s(ran.flash.reads),
        flash_write_mb_per_s: mb_per_s(ran.flash.writes),
        lifetime: life(machine, ran, seconds, market),
        energy: ran.energy.clone(),
        price: machine.price.clone(),
        saving,
        effectiveness: effectiveness(saving, 1.0 / ratio_to_dram),
        outcome: ran.outcome.clone(),
    }
}

/// The lifetime by the device's model of wear. Without one, it is by the formula, for the drives
/// that hold the data at its full size.
fn life(machine: &Machine, ran: &Ran, seconds: f64, market: Market) -> Option<Life> {
    if let Some(years) = &ran.lifetime {
        return Some(Life { years: years.clone(), modelled: true });
    }
    let wear = Wear {
        cycles: market.cells.endurance_cycles(),
        device_bytes: market.flash_bytes((machine.price.flash_gib * GIB) as u64) as f64,
        pages_written: ran.flash.writes as f64,
        seconds,
    };
    (ran.flash.writes > 0).then(|| Life {
        years: Lifetime { round_the_clock: wear.years(), working_hours: wear.working_years() },
        modelled: false,
    })
}
