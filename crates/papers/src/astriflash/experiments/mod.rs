//! The runs of the simulator for AstriFlash's figures, tables and claims.

mod collections;
pub(super) mod drives;
mod host;
mod length;
mod rows;

use std::path::Path;
use std::thread;

use ebbtide_core::Watch;
use ebbtide_report::statistics::Estimate;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Outcome, Plan};
use ebbtide_study::claims::{Findings, geometric_mean, mean};
use ebbtide_study::convergence::until_converged;
use ebbtide_study::runs::run_all;
use ebbtide_study::size::figure1;
use ebbtide_workloads::Kind;

pub(super) use self::collections::Collections;
use self::collections::{Devices, Requests};
pub(super) use self::drives::DriveRow;
pub(super) use self::host::Host;
pub(super) use self::length::{DRAM_ONLY_LOAD, GivenUp, at_load, crossing};
pub(super) use self::rows::{
    AssumptionRow, BlockedRow, ByDesign, IntervalRow, LoadRow, ScaleRow, SkewRow, SpreadRow,
    TailCauseRow, WorkloadRow, of,
};
use super::AstriFlash;
use crate::{ReproduceError, ReproduceOptions};

/// The workloads of Fig. 9 and Table II, with the paper's names.
pub(super) const WORKLOADS: [(&str, Kind); 7] = [
    ("Masstree", Kind::Masstree),
    ("Silo", Kind::Silo),
    ("Array Swap", Kind::ArraySwap),
    ("RBT", Kind::RedBlackTree),
    ("Hash Table", Kind::HashTable),
    ("TATP", Kind::Tatp),
    ("TPCC", Kind::Tpcc),
];

/// The designs of Fig. 9 and Table II.
pub(super) const DESIGNS: [&str; 6] = [
    "astriflash",
    "astriflash-ideal",
    "astriflash-nops",
    "flash-sync",
    "astriflash-nodp",
    "os-swap",
];

/// Execution between misses for the claims about one program. The paper calls it typical (§II-A).
pub(super) const TYPICAL_US: f64 = 10.0;

/// The execution between misses over all programs, in microseconds (§V-A). The paper does not print
/// it by program. So the programs have it evenly spread, in the order of [`BY_JOB_LENGTH`].
pub(super) const RANGE_US: [f64; 2] = [5.0, 25.0];

/// The programs from the shortest job to the longest, by the model. A job computes for one interval
/// for each of its misses under plain LRU. The note of AS10 has the lengths.
pub(super) const BY_JOB_LENGTH: [Kind; 7] = [
    Kind::ArraySwap,
    Kind::Tatp,
    Kind::Masstree,
    Kind::RedBlackTree,
    Kind::HashTable,
    Kind::Tpcc,
    Kind::Silo,
];

/// The execution between misses of every program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Spread {
    /// Over [`RANGE_US`], least for the program with the shortest jobs.
    ByJobLength,
    /// Over [`RANGE_US`], most for the program with the shortest jobs.
    Reversed,
    /// The same for all.
    Same(f64),
}

/// Other intervals than those that decide claims, with their names.
pub(super) const OTHER_SPREADS: [(&str, Spread); 3] = [
    ("in reverse order", Spread::Reversed),
    ("10 us for all", Spread::Same(TYPICAL_US)),
    ("15 us for all", Spread::Same(15.0)),
];

impl Spread {
    /// The interval of `workload`.
    pub(super) fn us(self, workload: Kind) -> f64 {
        let place = BY_JOB_LENGTH.iter().position(|kind| *kind == workload);
        let (place, last) = (place.expect("a program of Fig. 9"), BY_JOB_LENGTH.len() - 1);
        let from_shortest = match self {
            Spread::ByJobLength => place,
            Spread::Reversed => last - place,
            Spread::Same(us) => return us,
        };
        let [least, most] = RANGE_US;
        least + (most - least) * from_shortest as f64 / last as f64
    }
}

/// Intervals for the throughput of [`SWEPT`].
pub(super) const INTERVALS_US: [f64; 5] = [5.0, 8.0, TYPICAL_US, 15.0, 25.0];

/// The workload of the sweep over intervals.
pub(super) const SWEPT: Kind = Kind::HashTable;

/// Independent repetitions of Fig. 9, Table II and Fig. 10.
pub(super) const SEEDS: u64 = 3;

/// Load of AstriFlash in Fig. 10, as a share of DRAM-only's throughput.
pub(super) const LOADS: [f64; 8] = [0.2, 0.5, 0.8, 0.88, 0.9, 0.92, 0.94, 0.96];

/// The load of Fig. 10 with almost no queue.
pub(super) const QUIET_LOAD: f64 = 0.2;

/// The load of Fig. 10 at which the parts of tails are compared.
pub(super) const QUEUEING_LOAD: f64 = 0.9;

/// The designs of Fig. 10.
pub(super) const LOADED: [&str; 2] = ["dram-only", "astriflash"];

/// Further Zipf skews for the share of accesses that 3% of the data absorbs.
pub(super) const SKEWS: [&str; 4] = ["0.8", "0.9", "1.1", "1.2"];

/// Divisors of the capacities of quick runs that measure the effect of capacities.
pub(super) const OTHER_SCALES: [u64; 2] = [32, 128];

/// The designs that run with [`OTHER_SCALES`].
pub(super) const SCALED: [&str; 3] = ["astriflash", "flash-sync", "os-swap"];

/// Possible causes of long tails on AstriFlash. Many open jobs wait for one another or write the
/// same rows. A scheduler guesses when a job can continue.
pub(super) const TAIL_CAUSES: [Setting; 3] =
    [("switch.threads", "8"), ("switch.threads", "4"), ("switch.arrivals", "notified")];

/// A setting with which jobs of [`OPTIMISTIC`] share fewer rows.
pub(super) const SHARED_LESS: Setting = ("workload.theta", "0.5");

/// The workload with jobs that repeat if rows that they read were written.
pub(super) const OPTIMISTIC: Kind = Kind::Silo;

/// A longer page walk, for the design without a partition for page tables.
pub(super) const DEEPER_WALK: Setting = ("tlb.walk_levels", "4");

/// A shorter run of the workload with jobs of hundreds of misses. A run may end before its longest
/// jobs do. A shorter run shows the effect.
pub(super) const SHORTER: (Kind, u64) = (Kind::Silo, 2_500);

/// The designs that run [`SHORTER`].
pub(super) const SHORTER_OF: [&str; 2] = ["astriflash-nops", "flash-sync"];

/// Intervals of TPCC. The paper says that it loses most.
pub(super) const TPCC_US: [f64; 2] = [5.0, 15.0];

/// A parameter and its value.
pub(super) type Setting = (&'static str, &'static str);

/// Parameters that the sources leave open: a design, a key, and values below and above ours.
pub(super) const ASSUMPTIONS: [(&str, &str, [&str; 2]); 17] = [
    ("astriflash", "cores.flush_cycles", ["0", "52"]),
    ("astriflash", "cores.run_ahead_ns", ["50", "400"]),
    ("astriflash", "tlb.l2_ways", ["1", "16"]),
    ("astriflash", "tlb.l2_latency_cycles", ["1", "20"]),
    ("astriflash", "tlb.walk_levels", ["2", "4"]),
    ("astriflash", "dram_cache.policy", ["fifo", "clock"]),
    ("astriflash", "dram_cache.mshr", ["512", "16384"]),
    ("astriflash", "dram_cache.backside_queue", ["2", "128"]),
    ("astriflash", "dram_cache.evict_buffer", ["2", "128"]),
    ("astriflash", "switch.threads", ["16", "64"]),
    ("astriflash", "switch.ripe_after_us", ["40", "60"]),
    ("astriflash", "link.bandwidth_gb_per_s", ["4", "64"]),
    ("astriflash", "flash.preset", ["tlc-pcie4", "tlc-pcie5"]),
    ("astriflash", "workload.theta", ["0.9", "1.1"]),
    ("os-swap", "os.shootdown_batch", ["1", "512"]),
    ("os-swap", "os.interrupt_ns", ["0", "4000"]),
    ("os-swap", "os.threads", ["8", "64"]),
];

/// The workload for variations of assumptions. Its jobs both read and write.
pub(super) const VARIED: Kind = Kind::ArraySwap;

/// Data of each of Fig. 1's programs, at any scale.
const FIGURE1_BYTES: u64 = 1 << 30;

/// Does the runs of `sets`. The findings are left empty.
pub(super) fn run(
    sets: &[Runs],
    options: &ReproduceOptions,
    watch: Watch<'_>,
) -> Result<AstriFlash, ReproduceError> {
    // This machine is measured first, while nothing else runs.
    let host = options.real.then(|| Host::measure(Path::new("."))).transpose()?;
    let made = |set| sets.contains(&set);
    let (outcomes, (devices, miss_curves)) = thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let unseen = watch.telling(&|_, _| ());
            let programs = &figure1::PROGRAMS;
            let curves = match made(Runs::Curves) {
                true => figure1::figure1(programs, FIGURE1_BYTES, options.seed, unseen)?,
                false => Vec::new(),
            };
            let devices = made(Runs::Collections).then(|| Devices::new(watch)).transpose()?;
            Ok((devices, curves))
        });
        let outcomes = Outcomes::new(sets, options, watch);
        let beside: Result<_, ReproduceError> = beside.join().expect("it does not panic");
        Ok::<_, ReproduceError>((outcomes?, beside?))
    })?;
    let own = |devices: Devices| {
        let runs = WORKLOADS.map(|(_, workload)| Run::of("astriflash", workload));
        devices.measure(Requests::of(runs.iter().map(|run| outcomes.of(run))), watch)
    };
    let collections = devices.map(own).transpose()?;
    let denominator = options.scale_denominator();
    let [mean_throughput, geometric_mean_p99] = match made(Runs::Table) {
        true => rows::means(&outcomes),
        false => [Vec::new(), Vec::new()],
    };
    /// `rows` if their runs were done.
    fn if_made<T>(made: bool, rows: impl FnOnce() -> Vec<T>) -> Vec<T> {
        if made { rows() } else { Vec::new() }
    }
    let table = made(Runs::Table);
    Ok(AstriFlash {
        scale_denominator: denominator,
        seed: options.seed,
        seeds: SEEDS,
        parameters: resolve("astriflash", &[])?.scaled(1, denominator),
        workloads: if_made(table, || rows::workloads(&outcomes)),
        mean_throughput,
        geometric_mean_p99,
        intervals: if_made(made(Runs::Intervals), || rows::intervals(&outcomes)),
        spreads: if_made(table, || rows::spreads(&outcomes)),
        loads: if_made(made(Runs::Loads), || rows::loads(&outcomes)),
        miss_curves,
        skews: if_made(made(Runs::Skews), || rows::skews(&outcomes)),
        tail_causes: if_made(table, || rows::tail_causes(&outcomes)),
        assumptions: if_made(table, || rows::assumptions(&outcomes)),
        scales: if_made(table, || rows::scales(&outcomes, options)),
        drives: if_made(made(Runs::Drives), || drives::rows(&outcomes, options.quick)),
        collections,
        host,
        findings: Findings::default(),
        outcomes,
    })
}

/// A run of the simulator.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Run {
    design: &'static str,
    workload: Kind,
    interval_us: f64,
    load: Option<f64>,
    seed: u64,
    scale_denominator: Option<u64>,
    set: Option<Setting>,
    /// The flash drives.
    over: Option<[Setting; 3]>,
    jobs: Option<u64>,
}

impl Run {
    /// A run at the program's own interval, saturated, with the first seed.
    pub(super) fn of(design: &'static str, workload: Kind) -> Run {
        Run {
            design,
            workload,
            interval_us: Spread::ByJobLength.us(workload),
            load: None,
            seed: 0,
            scale_denominator: None,
            set: None,
            over: None,
            jobs: None,
        }
    }

    pub(super) fn at_us(self, interval_us: f64) -> Run {
        Run { interval_us, ..self }
    }

    /// The run at the interval that `spread` gives the program.
    pub(super) fn spread(self, spread: Spread) -> Run {
        let us = spread.us(self.workload);
        self.at_us(us)
    }

    pub(super) fn loaded(self, load: f64) -> Run {
        Run { load: Some(load), ..self }
    }

    pub(super) fn seed(self, seed: u64) -> Run {
        Run { seed, ..self }
    }

    pub(super) fn scaled(self, denominator: u64) -> Run {
        Run { scale_denominator: Some(denominator), ..self }
    }

    pub(super) fn set(self, key: &'static str, value: &'static str) -> Run {
        Run { set: Some((key, value)), ..self }
    }

    pub(super) fn over(self, drives: [Setting; 3]) -> Run {
        Run { over: Some(drives), ..self }
    }

    pub(super) fn only(self, jobs: u64) -> Run {
        Run { jobs: Some(jobs), ..self }
    }

    fn plan(&self, options: &ReproduceOptions) -> Result<Plan, ReproduceError> {
        let interval = self.interval_us.to_string();
        let mut given = vec![("workload.miss_interval_us", interval.as_str())];
        given.extend(self.set);
        given.extend(self.over.into_iter().flatten());
        let denominator = self.scale_denominator.unwrap_or(options.scale_denominator());
        Ok(Plan {
            config: resolve(self.design, &given)?.scaled(1, denominator),
            workload: self.workload,
            jobs: self.jobs.unwrap_or(self.first_jobs()),
            seed: options.seed + self.seed,
            arrivals: self.load.map_or(Offered::Saturating, Offered::PoissonShare),
        })
    }

    /// The number of jobs for ten thousand misses or more. Some tails need more. A full run has
    /// these ([`length`]). In a quick run the note of a finding says that they are missing.
    fn first_jobs(&self) -> u64 {
        match (self.load, self.workload) {
            // The tail of a nearly saturated queue needs many jobs.
            (Some(_), _) => 150_000,
            (_, Kind::Silo) => 8_000,
            (_, Kind::Tpcc) => 5_000,
            _ => 20_000,
        }
    }
}

/// A set of runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Runs {
    /// Fig. 9 and Table II, with every variation in their notes.
    Table,
    /// The sweep over intervals between misses.
    Intervals,
    /// Fig. 10.
    Loads,
    /// Drives for AstriFlash.
    Drives,
    /// The curves of Fig. 1.
    Curves,
    /// The sweep over skews.
    Skews,
    /// Garbage collection under the requests of AstriFlash's own runs.
    Collections,
}

/// Every run of `sets` on the simulator.
fn all(quick: bool, sets: &[Runs]) -> Vec<Run> {
    let mut runs = Vec::new();
    if sets.contains(&Runs::Loads) {
        for seed in 0..SEEDS {
            for design in LOADED {
                runs.extend(LOADS.map(|load| loaded(design, load, seed)));
            }
        }
    }
    if sets.contains(&Runs::Intervals) {
        for us in INTERVALS_US {
            runs.extend(DESIGNS.map(|design| Run::of(design, SWEPT).at_us(us)));
        }
    }
    if sets.contains(&Runs::Skews) {
        let skewed = |theta| Run::of("astriflash", SWEPT).set("workload.theta", theta);
        runs.extend(SKEWS.map(skewed).into_iter().chain([Run::of("astriflash", SWEPT)]));
    }
    if sets.contains(&Runs::Collections) {
        runs.extend(WORKLOADS.map(|(_, workload)| Run::of("astriflash", workload)));
    }
    if sets.contains(&Runs::Table) {
        runs.extend(table(quick));
    }
    if sets.contains(&Runs::Drives) {
        runs.extend(drives::runs(quick));
    }
    let mut once: Vec<Run> = Vec::new();
    for run in runs {
        if !once.contains(&run) {
            once.push(run);
        }
    }
    once
}

/// A run of Fig. 10. A TATP job of about 10 us (AS36) that misses about once has that interval.
pub(super) fn loaded(design: &'static str, load: f64, seed: u64) -> Run {
    Run::of(design, Kind::Tatp).at_us(TYPICAL_US).loaded(load).seed(seed)
}

/// The runs of Fig. 9 and Table II, and of every variation in their notes.
fn table(quick: bool) -> Vec<Run> {
    let mut runs = Vec::new();
    for seed in 0..SEEDS {
        for (_, workload) in WORKLOADS {
            runs.extend(DESIGNS.map(|design| Run::of(design, workload).seed(seed)));
        }
    }
    for (_, spread) in OTHER_SPREADS {
        for (_, workload) in WORKLOADS {
            runs.extend(DESIGNS.map(|design| Run::of(design, workload).spread(spread)));
        }
    }
    runs.extend(TPCC_US.map(|us| Run::of("astriflash", Kind::Tpcc).at_us(us)));
    for (_, workload) in WORKLOADS {
        let run = |(key, value)| Run::of("astriflash", workload).set(key, value);
        runs.extend(TAIL_CAUSES.map(run));
        runs.push(Run::of("astriflash-nodp", workload).set(DEEPER_WALK.0, DEEPER_WALK.1));
        runs.push(Run::of("dram-only", workload));
    }
    for design in LOADED {
        runs.push(Run::of(design, OPTIMISTIC).set(SHARED_LESS.0, SHARED_LESS.1));
    }
    for (design, key, values) in ASSUMPTIONS {
        runs.extend(values.map(|value| Run::of(design, VARIED).set(key, value)));
    }
    let (workload, jobs) = SHORTER;
    runs.extend(SHORTER_OF.map(|design| Run::of(design, workload).only(jobs)));
    for scale in OTHER_SCALES.into_iter().filter(|_| quick) {
        for (_, workload) in WORKLOADS {
            runs.extend(SCALED.map(|design| Run::of(design, workload).scaled(scale)));
        }
    }
    runs
}

/// The number of runs of `sets`.
pub(super) fn count(sets: &[Runs], options: &ReproduceOptions) -> usize {
    all(options.quick, sets).len()
}

/// The runs and their outcomes.
#[derive(Debug, Clone)]
pub(crate) struct Outcomes(Vec<(Run, Outcome)>);

impl Outcomes {
    /// Does all runs. If the run is not quick, those that are too short for their tails run again.
    fn new(
        sets: &[Runs],
        options: &ReproduceOptions,
        watch: Watch<'_>,
    ) -> Result<Outcomes, ReproduceError> {
        let runs = all(options.quick, sets);
        let plans = runs.iter().map(|run| run.plan(options)).collect::<Result<Vec<_>, _>>()?;
        let of = |outcomes: &[Outcome]| {
            Outcomes(runs.iter().cloned().zip(outcomes.iter().cloned()).collect())
        };
        let mut done = 0.0;
        let run = |asked: &[(usize, u64)]| {
            let longer = |&(number, length): &(usize, u64)| {
                let plan = &plans[number];
                Plan { jobs: plan.jobs * length, ..plan.clone() }
            };
            let longer: Vec<Plan> = asked.iter().map(longer).collect();
            // The number of further rounds is unknown, so each has half of the rest.
            let from = done;
            done = if options.quick { 1.0 } else { f64::midpoint(from, 1.0) };
            watch.within(from, done, |watch| run_all(&longer, options.threads, watch))
        };
        let outcomes = until_converged(plans.len(), run, |outcomes| match options.quick {
            true => Vec::new(),
            false => length::wanted(sets, &of(outcomes)),
        })?;
        Ok(of(&outcomes))
    }

    /// The outcome of `run`.
    ///
    /// # Panics
    /// When [`all`] does not contain the run.
    pub(super) fn of(&self, run: &Run) -> &Outcome {
        let found = self.0.iter().find(|(known, _)| known == run);
        &found.unwrap_or_else(|| panic!("{run:?} was not run")).1
    }

    /// Accesses of a job on AstriFlash divided by those on DRAM-only, both with `set`.
    pub(super) fn accesses_over_dram(&self, workload: Kind, set: Option<Setting>) -> f64 {
        let accesses = |design| {
            let outcome = self.of(&Run { set, ..Run::of(design, workload) });
            outcome.accesses as f64 / outcome.jobs as f64
        };
        accesses("astriflash") / accesses("dram-only")
    }

    /// Throughput relative to DRAM-only.
    pub(super) fn throughput(&self, run: &Run) -> f64 {
        self.of(run).ratio_to_dram
    }

    /// p99 of service divided by Flash-Sync's on the same jobs.
    pub(super) fn p99_ratio(&self, run: &Run) -> f64 {
        let flash_sync = Run { design: "flash-sync", set: None, ..run.clone() };
        let p99 = |run: &Run| self.of(run).service_ns.p99 as f64;
        p99(run) / p99(&flash_sync)
    }

    /// Mean throughput of `design` over the workloads. `run` modifies each run.
    pub(super) fn mean_throughput(&self, design: &'static str, run: impl Fn(Run) -> Run) -> f64 {
        let of = |(_, workload)| self.throughput(&run(Run::of(design, workload)));
        mean(WORKLOADS.map(of))
    }

    /// Geometric mean over the workloads of p99 of service divided by Flash-Sync's. `run` modifies
    /// each run.
    pub(super) fn geometric_mean_p99(&self, design: &'static str, run: impl Fn(Run) -> Run) -> f64 {
        let of = |(_, workload)| self.p99_ratio(&run(Run::of(design, workload)));
        geometric_mean(WORKLOADS.map(of))
    }
}

/// The estimate of `of` over all seeds.
pub(super) fn over_seeds(of: impl Fn(u64) -> f64) -> Estimate {
    Estimate::of(&(0..SEEDS).map(of).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    use crate::Selection;
    use crate::astriflash::claims::RECORDS;
    use crate::record::needed;

    #[test]
    fn every_assumption_of_the_configuration_is_varied() {
        let config = ebbtide_sim::designs::find("astriflash").expect("it is shipped").config;
        let mut section = "";
        let mut assumed = HashSet::new();
        for line in config.lines() {
            if let Some(name) = line.strip_prefix('[') {
                section = name.trim_end_matches(']');
            } else if let Some((setting, "assumption")) = line
                .split_once("# ")
                .map(|(setting, source)| (setting, source.split(':').next()))
                .and_then(|(setting, source)| Some((setting, source?.trim())))
            {
                let key = setting.split('=').next().unwrap_or("").trim();
                assumed.insert(format!("{section}.{key}"));
            }
        }
        assert!(assumed.len() > 10, "{assumed:?}");
        let varied = ASSUMPTIONS.map(|(_, key, _)| key.to_string());
        let missing: Vec<&String> = assumed.iter().filter(|key| !varied.contains(key)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn programs_are_spread_evenly_over_the_range_in_either_order() {
        let us = |spread: Spread| BY_JOB_LENGTH.map(|kind| spread.us(kind));
        let even = us(Spread::ByJobLength);
        assert_eq!([even[0], even[3], even[6]], [5.0, 15.0, 25.0]);
        assert!(even.windows(2).all(|pair| (pair[1] - pair[0] - 20.0 / 6.0).abs() < 1e-9));
        let mut reversed = us(Spread::Reversed);
        reversed.reverse();
        assert_eq!(reversed, even);
        assert_eq!(us(Spread::Same(10.0)), [10.0; 7]);
        assert!(WORKLOADS.iter().all(|(_, kind)| BY_JOB_LENGTH.contains(kind)));
    }

    #[test]
    fn a_part_of_the_claims_runs_a_part() {
        let runs =
            |ids: &[&'static str]| all(true, &needed(&RECORDS, &Selection::Claims(ids.to_vec())));
        assert!(runs(&["AS4", "AS24"]).is_empty(), "formulas need none");
        assert_eq!(runs(&["AS39"]).len(), WORKLOADS.len());
        assert_eq!(runs(&["AS37"]).len(), LOADED.len() * LOADS.len() * SEEDS as usize);
        assert_eq!(runs(&["AS16"]).len(), INTERVALS_US.len() * DESIGNS.len());
        let everything = all(true, &needed(&RECORDS, &Selection::All));
        let parts = ["AS3", "AS37", "AS11"].map(|id| runs(&[id]));
        assert!(everything.iter().all(|run| parts.iter().any(|part| part.contains(run))));
    }

    #[test]
    fn every_run_can_be_planned_and_is_made_once() {
        for quick in [true, false] {
            let selection = Selection::All;
            let runs = all(quick, &needed(&RECORDS, &selection));
            let (real, seed, threads, traces) = (false, 1, 1, None);
            let options = ReproduceOptions { selection, quick, real, seed, threads, traces };
            for (i, run) in runs.iter().enumerate() {
                run.plan(&options).unwrap_or_else(|error| panic!("{run:?}: {error}"));
                assert!(!runs[..i].contains(run), "{run:?}");
            }
        }
    }
}
