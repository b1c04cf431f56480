//! `ebbtide size`: the DRAM that a program needs for its service-level objective, the cost, and the
//! lifetime of the flash.
//!
//! [`Demand`] holds a program's misses by size of DRAM, and [`Anatomy`] the costs of a miss on a
//! design. From both, [`run`] finds the least DRAM that meets the objective under two models. They
//! are the analytic queue of [`crate::analytic::queueing`] and the event model of
//! [`crate::analytic::event_model`].
//!
//! If the simulator has the design, it then runs the program with that DRAM. It raises the DRAM
//! until the design meets the objective.

mod anatomy;
mod by_design;
mod cost_and_lifetime;
mod demand;
pub mod figure1;
mod least_dram;
mod miss_ratios;
mod page;
mod text;

use std::path::{Path, PathBuf};

use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::{PAGE_BYTES, Stopped, Watch, brief};
use ebbtide_sim::config::ConfigError;
use ebbtide_trace::{Format, TraceError};
use ebbtide_workloads::{Kind, ShapeError};
use serde::Serialize;
use thiserror::Error;

pub use crate::analytic::lifetime::Cells;
use crate::market::{Market, MarketError};
pub use anatomy::{Anatomy, FlashLatency};
pub use by_design::Tried;
pub use cost_and_lifetime::{CellLifetime, CostAndLifetime};
pub use demand::{Demand, PolicyCurve};
pub use least_dram::{Goal, Need, ResponsePoint};
pub use miss_ratios::{MissRatios, miss_ratios};

use crate::analytic::bandwidth::Traffic;
use crate::claims::Findings;
use crate::runs::RunError;
use crate::side_by_side::{host_threads, side_by_side};
use by_design::DesignRuns;
use demand::INTERVAL_SHARE;
use ebbtide_measure::bench::{BenchError, Profile};

/// The program or trace to size.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// A trace. `-` is standard input.
    Trace {
        /// The file.
        path: PathBuf,
        /// The trace's format. `None` to determine it by the ending of the file's name.
        format: Option<Format>,
        /// Execution of a job in microseconds, above 0. A trace does not record where jobs end.
        job_us: f64,
    },
    /// A program.
    Workload {
        /// Its name.
        name: Kind,
        /// Upper bound of its data in bytes.
        dataset_bytes: u64,
        /// Zipf skew of its keys.
        theta: f64,
        /// Execution between misses of plain LRU with 3% of the data in DRAM, in microseconds.
        miss_interval_us: f64,
        /// Seed of data and jobs.
        seed: u64,
    },
}

/// The options of a sizing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SizeOptions {
    /// The program or trace.
    pub input: Input,
    /// The objective: the longest p99 response, in microseconds, at least 1.
    pub slo_us: f64,
    /// Arriving jobs, as a share of DRAM-only's maximum throughput, above 0 and below 1.
    pub load: f64,
    /// The prices of memory, and the drives that hold the data.
    pub market: Market,
    /// Cores, at least one. Each has its own stream of jobs.
    pub cores: u32,
    /// The required lifetime of the flash, in years of continuous use, above 0. `None` for no
    /// requirement.
    pub min_lifetime_years: Option<f64>,
    /// Replacement policies to compute curves for, in addition to those of the designs.
    pub policies: Vec<PolicyKind>,
}

impl SizeOptions {
    /// Returns the default options for `input`.
    ///
    /// The objective is 1 ms at a load of 0.8 on one core. Service-level objectives are in
    /// milliseconds (AstriFlash's talk, slides 3 and 6).
    pub fn new(input: Input) -> SizeOptions {
        SizeOptions {
            input,
            slo_us: 1000.0,
            load: 0.8,
            market: Market::default(),
            cores: 1,
            min_lifetime_years: None,
            policies: vec![PolicyKind::MiniSim],
        }
    }
}

impl Default for Input {
    /// Returns a hash table of 1 GiB as in AstriFlash §V-A: a Zipf skew of 0.99, and a miss every
    /// 10 µs.
    fn default() -> Input {
        Input::Workload {
            name: Kind::HashTable,
            dataset_bytes: 1 << 30,
            theta: 0.99,
            miss_interval_us: 10.0,
            seed: 1,
        }
    }
}

/// The error of a failed sizing.
#[derive(Debug, Error)]
pub enum SizeError {
    /// An option has an impossible value.
    #[error("{option} {given}: expected {expected}")]
    Option {
        /// The option of the command line, such as `--slo`.
        option: &'static str,
        /// The given value.
        given: String,
        /// The possible values.
        expected: String,
    },
    /// A price or a drive is impossible.
    #[error(transparent)]
    Market(#[from] MarketError),
    /// The trace cannot be read to its end.
    #[error("{error}{}", read_before(*.accesses))]
    Trace {
        /// The reason.
        error: TraceError,
        /// Reads and writes before the error.
        accesses: u64,
    },
    /// The trace cannot be sized.
    #[error("{name}: {problem}")]
    Unfit {
        /// The trace.
        name: String,
        /// The problem, and the expected input.
        problem: &'static str,
    },
    /// The program cannot be built.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A design's parameters do not resolve.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A design cannot be simulated under the program.
    #[error(transparent)]
    Simulation(Box<RunError>),
    /// A job read a wrong value: a bug of the program.
    #[error("a job read something wrong: {0}")]
    Corrupt(ebbtide_workloads::Corrupt),
    /// The sizing was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl SizeError {
    /// Returns true if the user's input, rather than the run, is at fault.
    pub fn is_input(&self) -> bool {
        match self {
            SizeError::Trace { error, .. } => error.is_input(),
            SizeError::Simulation(_) | SizeError::Corrupt(_) | SizeError::Stopped(_) => false,
            _ => true,
        }
    }
}

fn read_before(accesses: u64) -> String {
    if accesses == 0 { String::new() } else { format!("; {accesses} accesses were read before it") }
}

/// The result of a sizing.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The options.
    pub options: SizeOptions,
    /// The source of the costs of a miss, in a line.
    pub machine: String,
    /// The program's accesses.
    pub demand: Demand,
    /// The knee of the program's LRU curve.
    pub knee: Knee,
    /// The design that the recommendation is for.
    pub recommended: &'static str,
    /// The reason why no size of DRAM meets the objective on the recommended design. `None` if one
    /// does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmet: Option<String>,
    /// The result for each design.
    pub designs: Vec<SizedDesign>,
    /// AstriFlash's claims about services, tested on a trace. [`run`] leaves it empty for the
    /// caller to fill.
    #[serde(rename = "astriflash")]
    pub beside: Findings,
    /// Notes for the user.
    pub notices: Vec<String>,
}

/// The knee of a miss-ratio curve.
#[derive(Debug, Clone, Serialize)]
pub struct Knee {
    /// Bytes of DRAM.
    pub dram_bytes: u64,
    /// `dram_bytes` as a share of the data.
    pub dram_share: f64,
    /// Share of accesses that miss.
    pub miss_ratio: f64,
    /// Execution between misses of a core, in microseconds.
    pub miss_interval_us: f64,
    /// Flash bandwidth of all cores, in bytes a second (AstriFlash, Eq. 1).
    pub flash_bytes_per_s: f64,
}

/// The result for one design.
#[derive(Debug, Clone, Serialize)]
pub struct SizedDesign {
    /// The costs of a miss.
    #[serde(flatten)]
    pub anatomy: Anatomy,
    /// The least DRAM that meets the objective under both models, and on the simulated design if
    /// there is one. `None` if no size does.
    pub need: Option<Need>,
    /// The figures of the simulated design with the most DRAM, if the models recommend a size but
    /// no size meets the objective on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuted: Option<Tried>,
    /// p99 response by size of DRAM, for the chart. Empty if all data is in DRAM.
    pub points: Vec<ResponsePoint>,
    /// The cost of the DRAM of `need`, and the lifetime of the SSD. `None` without `need`.
    pub worth: Option<CostAndLifetime>,
}

/// Sizes the program of `options` on every design of `machine`, on all host cores.
///
/// # Errors
/// [`SizeError`] when an option is impossible, the program or a design cannot run, or the trace
/// cannot be read to its end. Also when `watch` requests a stop.
pub fn run(
    options: &SizeOptions,
    machine: &Machine,
    watch: Watch<'_>,
) -> Result<Report, SizeError> {
    check(options)?;
    let policies = policies(options, &machine.designs);
    let mut notices: Vec<String> = machine.notes.clone();
    let demand = demand::measure(&options.input, &policies, watch, &mut notices)?;
    let goal = Goal {
        slo_us: options.slo_us,
        load: options.load,
        cores: options.cores,
        writes_per_s_max: cost_and_lifetime::writes_per_s_max(options, &demand),
    };
    let sized = |number: usize, watch: Watch<'_>| {
        let anatomy: &Anatomy = &machine.designs[number];
        let stage = format!("sizing {}", anatomy.design);
        watch.tell(&stage, 0.0)?;
        let tell = |_: &str, share: f64| watch.show(&stage, share);
        sized(options, &demand, anatomy, &goal, watch.telling(&tell))
    };
    let designs = watch.within(SIZED_FROM, 1.0, |watch| {
        side_by_side(machine.designs.len(), host_threads(), watch, sized)
    })?;
    notices.extend(not_simulated(options, &designs));
    let chosen = designs.iter().find(|design| design.anatomy.design == machine.recommended);
    let unmet = chosen.filter(|chosen| chosen.need.is_none()).map(|chosen| {
        format!(
            "--slo {}: no size of DRAM meets it on {} at load {}: {}",
            ebbtide_report::microseconds(options.slo_us),
            chosen.anatomy.design,
            options.load,
            match &chosen.refuted {
                Some(tried) => refuted(tried),
                None => least_dram::best(&demand, &chosen.anatomy, &goal),
            },
        )
    });
    let years = chosen.and_then(|chosen| chosen.worth.as_ref()?.years(options.market.cells));
    if options.min_lifetime_years.is_none() && years.is_some_and(|years| years < 1.0) {
        notices.push(SHORT_LIFE.to_string());
    }
    let knee = knee(options, &demand);
    Ok(Report {
        options: options.clone(),
        machine: machine.source.clone(),
        demand,
        knee,
        recommended: machine.recommended,
        unmet,
        designs,
        beside: Findings::default(),
        notices,
    })
}

/// Share of the work at which the program's misses are counted.
const SIZED_FROM: f64 = 0.5;

/// Sizes the design of `anatomy`.
fn sized(
    options: &SizeOptions,
    demand: &Demand,
    anatomy: &Anatomy,
    goal: &Goal,
    watch: Watch<'_>,
) -> Result<SizedDesign, SizeError> {
    let (mut need, mut refuted) = (least_dram::need(demand, anatomy, goal), None);
    let runs = anatomy.simulated.as_ref().and_then(|design| DesignRuns::new(design, options));
    if let (Some(modelled), Some(runs)) = (need, runs) {
        let mut sizes = runs.sizes(if anatomy.all_dram { 0 } else { modelled.dram_bytes });
        if anatomy.all_dram {
            sizes.truncate(1);
        }
        let meets = |tried: &Tried| goal.is_met(tried, demand);
        match runs.least(&sizes, meets, watch)? {
            Some(Ok(tried)) => need = Some(modelled.confirmed(tried, demand, anatomy, goal)),
            Some(Err(tried)) => (need, refuted) = (None, Some(tried)),
            None => {}
        }
    }
    let worth = need.as_ref().map(|need| CostAndLifetime::new(options, demand, need));
    let points = least_dram::points(demand, anatomy, goal);
    Ok(SizedDesign { anatomy: anatomy.clone(), need, refuted, points, worth })
}

/// The reason why no size meets the objective on a design, in words.
fn refuted(tried: &Tried) -> String {
    let p99 = tried.p99_us.map_or("it cannot keep up".to_string(), |us| {
        format!("its p99 is {}", ebbtide_report::microseconds(us))
    });
    format!(
        "simulated with {} of DRAM, {p99} and it keeps {} of DRAM-only's throughput",
        ebbtide_report::bytes(tried.dram_bytes as f64),
        ebbtide_report::percent(tried.throughput_kept),
    )
}

/// Notes on recommendations that no design has confirmed, or only a smaller one.
fn not_simulated(options: &SizeOptions, designs: &[SizedDesign]) -> Option<String> {
    let mut simulated = designs.iter().filter_map(|design| design.anatomy.simulated.as_ref());
    let design = simulated.next()?;
    match DesignRuns::new(design, options) {
        None => Some(
            "a trace has no jobs to simulate: its sizes are those of the two models alone, which \
             know a miss by its cost on an idle machine"
                .to_string(),
        ),
        Some(runs) => runs.scaled_note(),
    }
}

/// The note for flash that does not last a year.
const SHORT_LIFE: &str = "the SSD does not last a year: `--min-lifetime YEARS` asks for DRAM enough to \
    spare it the writes, and `--ssd SIZE` for larger drives";

/// The error of a machine whose costs cannot be read.
#[derive(Debug, Error)]
pub enum MachineError {
    /// The file is not one from `ebbtide doctor --write`.
    #[error(transparent)]
    Measured(#[from] BenchError),
    /// A published design's parameters do not resolve.
    #[error(transparent)]
    Published(#[from] ConfigError),
}

/// The name of the file of costs measured on this machine. [`Machine::usual`] looks for it in the
/// current folder.
pub const MEASURED_HERE: &str = "machine.toml";

/// A current drive: the name of its file, and its contents.
const DRIVE_OF_TODAY: (&str, &str) =
    ("micron-7500-pro.toml", include_str!("../../configs/drives/micron-7500-pro.toml"));

/// The costs of a miss on a machine, by design.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The source of the costs, in a line.
    pub source: String,
    /// The designs, each with its costs of a miss.
    pub designs: Vec<Anatomy>,
    /// The design that the recommendation is for.
    pub recommended: &'static str,
    /// Limits of the designs, a sentence each.
    pub notes: Vec<String>,
    /// The measured time of a switch between user-level threads, in nanoseconds. `None` for
    /// published designs.
    pub switch_ns: Option<f64>,
}

impl Machine {
    /// Returns the published designs with their papers' parameters.
    ///
    /// # Errors
    /// [`ConfigError`] when their files do not resolve.
    pub fn published() -> Result<Machine, ConfigError> {
        let (designs, left_out) = anatomy::published()?;
        Ok(Machine {
            source: "the published designs under their papers' parameters".to_string(),
            designs,
            notes: vec![
                format!(
                    "{} bring lines, not pages, which no miss-ratio curve tells of: `ebbtide \
                     compare` simulates them",
                    left_out.join(" and ")
                ),
                "the misses of page tables, in which astriflash-nodp differs from astriflash, are not \
                 counted"
                    .to_string(),
            ],
            recommended: "astriflash",
            switch_ns: None,
        })
    }
}

impl Machine {
    /// Returns the machine `given`: a file for [`Machine::measured`], or the word `published` for
    /// [`Machine::published`]. `None` stands for [`Machine::usual`].
    ///
    /// # Errors
    /// The error of the chosen function.
    pub fn chosen(given: Option<&Path>) -> Result<Machine, MachineError> {
        match given {
            None => Ok(Machine::usual()?),
            Some(name) if name.as_os_str() == "published" => Ok(Machine::published()?),
            Some(file) => Ok(Machine::measured(file)?),
        }
    }

    /// Returns this machine, if the current folder has a file [`MEASURED_HERE`] from `ebbtide
    /// doctor --write`. Otherwise returns a measured machine with a current drive.
    ///
    /// # Errors
    /// As [`Machine::measured`].
    pub fn usual() -> Result<Machine, BenchError> {
        let here = Path::new(MEASURED_HERE);
        if here.exists() {
            return Machine::measured(here);
        }
        let (name, contents) = DRIVE_OF_TODAY;
        let mut machine = Machine::from(&Profile::parse(name, contents)?);
        machine.source = machine.source.replace("as measured on", "on");
        machine.notes.push(format!(
            "`ebbtide doctor --write {MEASURED_HERE}` measures this machine, which is sized instead \
             where that file is; `--machine published` sizes the published designs"
        ));
        Ok(machine)
    }

    /// Reads the machine from the file at `path`, written by `ebbtide doctor --write`.
    ///
    /// # Errors
    /// [`BenchError`] when the file cannot be read or is of another kind.
    pub fn measured(path: &Path) -> Result<Machine, BenchError> {
        Ok(Machine::from(&Profile::read(path)?))
    }
}

impl From<&Profile> for Machine {
    /// Returns the bench's memories with their measured costs in `profile`.
    fn from(profile: &Profile) -> Machine {
        Machine {
            source: format!("what misses cost as measured on {}", profile.machine),
            designs: anatomy::measured(profile),
            recommended: "ebbtide",
            notes: Vec::new(),
            switch_ns: Some(profile.switches.user_ns),
        }
    }
}

/// The least objective in microseconds. A job that leaves the caches takes longer.
const SLO_LEAST_US: f64 = 1.0;

/// The longest objective and the longest job in microseconds.
const HOUR_US: f64 = 3.6e9;

fn check(options: &SizeOptions) -> Result<(), SizeError> {
    if !(SLO_LEAST_US..=HOUR_US).contains(&options.slo_us) {
        let given = format!("{} ns", options.slo_us * 1e3);
        let expected = "at least 1us and at most an hour".to_string();
        return Err(SizeError::Option { option: "--slo", given, expected });
    }
    options.market.check()?;
    let load = options.load;
    let expected = "a share of DRAM-only's throughput, at least 0.000001 and below 1";
    require((1e-6..1.0).contains(&load), "--load", load, expected)?;
    require(options.cores > 0, "--cores", f64::from(options.cores), "at least 1")?;
    let years = options.min_lifetime_years.unwrap_or(1.0);
    let expected = "years, more than 0 and at most 1000000";
    require(years > 0.0 && years <= 1e6, "--min-lifetime", years, expected)?;
    check_input(&options.input)
}

fn check_input(input: &Input) -> Result<(), SizeError> {
    match *input {
        Input::Trace { job_us, .. } => {
            let possible = job_us > 0.0 && job_us <= HOUR_US;
            require(possible, "--job", job_us, "more than 0 and at most an hour")
        }
        Input::Workload { miss_interval_us: us, .. } => {
            let expected = "more than 0 and at most 1000000 us";
            require(us > 0.0 && us <= 1e6, "--miss-interval", us, expected)
        }
    }
}

fn require(holds: bool, option: &'static str, given: f64, expected: &str) -> Result<(), SizeError> {
    if holds {
        return Ok(());
    }
    Err(SizeError::Option { option, given: brief(given), expected: expected.to_string() })
}

/// The policies that need curves, without LRU.
fn policies(options: &SizeOptions, designs: &[Anatomy]) -> Vec<PolicyKind> {
    let kinds = options.policies.iter().copied();
    let mut policies = Vec::new();
    for kind in kinds.chain(designs.iter().map(|design| design.policy)) {
        if kind != PolicyKind::Lru && !policies.contains(&kind) {
            policies.push(kind);
        }
    }
    policies
}

fn knee(options: &SizeOptions, demand: &Demand) -> Knee {
    let pages = demand.lru().knee(demand.dataset_pages);
    let miss_ratio = demand.lru().miss_ratio(pages);
    let traffic = traffic(demand);
    Knee {
        dram_bytes: pages * PAGE_BYTES as u64,
        dram_share: pages as f64 / demand.dataset_pages as f64,
        miss_ratio,
        miss_interval_us: demand.access_us() / miss_ratio,
        flash_bytes_per_s: f64::from(options.cores) * traffic.flash_bytes_per_second(miss_ratio),
    }
}

/// Returns the memory traffic of a core that never waits: a line of 64 B per access (AstriFlash,
/// Eq. 1).
pub fn traffic(demand: &Demand) -> Traffic {
    let (block_bytes, page_bytes) = (64.0, PAGE_BYTES as f64);
    let dram_bytes_per_second = block_bytes * 1e6 / demand.access_us();
    Traffic { dram_bytes_per_second, block_bytes, page_bytes }
}
