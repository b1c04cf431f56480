//! The rows of AstriFlash's figures and tables, computed from the outcomes of runs.

use ebbtide_report::statistics::Estimate;
use ebbtide_sim::{Outcome, ServiceParts};
use serde::Serialize;

use super::{
    ASSUMPTIONS, DESIGNS, INTERVALS_US, LOADED, LOADS, OTHER_SCALES, OTHER_SPREADS, Outcomes, Run,
    SKEWS, SWEPT, Spread, TAIL_CAUSES, TYPICAL_US, VARIED, WORKLOADS, loaded, over_seeds,
};
use crate::ReproduceOptions;

/// A value for each design.
pub(crate) type ByDesign<T> = Vec<(&'static str, T)>;

/// A workload in Fig. 9 and Table II.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct WorkloadRow {
    /// The workload.
    pub workload: &'static str,
    /// Throughput relative to DRAM-only, by design.
    pub throughput: ByDesign<Estimate>,
    /// p99 of service divided by Flash-Sync's, by design.
    pub p99_over_flash_sync: ByDesign<Estimate>,
    /// Execution between misses of plain LRU.
    pub interval_us: f64,
    /// Computing of a job in DRAM if it misses plain LRU every [`TYPICAL_US`].
    pub job_at_typical_us: f64,
    /// Execution between misses on AstriFlash.
    pub miss_interval_us: f64,
    /// Misses of a job on AstriFlash.
    pub misses_per_job: f64,
    /// Share of all accesses of jobs that started no flash read.
    pub absorbed: f64,
    /// The most pages in flight on AstriFlash.
    pub in_flight_peak: u64,
    /// Accesses of a job on AstriFlash divided by those on DRAM-only. Above one if jobs repeat.
    pub accesses_over_dram: f64,
    /// Misses on noDP divided by those on AstriFlash: the misses of page tables.
    pub misses_over_astriflash_nodp: f64,
    /// The parts of a job's time, by design.
    pub service_parts: ByDesign<ServiceParts>,
    /// Misses of Flash-Sync.
    pub blocked: BlockedRow,
}

/// The misses of a core that waits for each.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct BlockedRow {
    /// Execution between them.
    pub miss_interval_us: f64,
    /// Mean time of a miss.
    pub miss_us: f64,
    /// Share of misses that are stores, which a store buffer could hide.
    pub stores: f64,
    /// Share of misses that are loads within a reorder buffer of the miss before.
    pub loads_close: f64,
    /// Throughput relative to DRAM-only if these stores and loads cost nothing.
    pub throughput_if_hidden: f64,
}

/// Throughput at one interval between misses.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct IntervalRow {
    /// Interval under plain LRU.
    pub miss_interval_us: f64,
    /// Throughput relative to DRAM-only, by design.
    pub throughput: ByDesign<f64>,
    /// The most pages in flight on AstriFlash.
    pub in_flight_peak: u64,
}

/// The means of Fig. 9 and Table II with other intervals of the programs.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SpreadRow {
    /// The intervals.
    pub spread: &'static str,
    /// Mean throughput by design.
    pub mean_throughput: ByDesign<f64>,
    /// Geometric mean of p99 of service divided by Flash-Sync's, by design.
    pub geometric_mean_p99: ByDesign<f64>,
}

/// A point of Fig. 10.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct LoadRow {
    /// The design.
    pub design: &'static str,
    /// Share of DRAM-only's throughput that arrives.
    pub load: f64,
    /// p99 of response.
    pub response_p99_us: Estimate,
    /// p99 of service alone.
    pub service_p99_us: Estimate,
}

/// The share of accesses that 3% of the data absorbs, for one skew.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SkewRow {
    /// Zipf skew of the keys.
    pub theta: f64,
    /// Share of all accesses of jobs.
    pub absorbed: f64,
}

/// Tail and throughput with one changed setting.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct TailCauseRow {
    /// The workload.
    pub workload: &'static str,
    /// The changed key and its value.
    pub setting: (&'static str, &'static str),
    /// p99 of service divided by Flash-Sync's.
    pub p99_over_flash_sync: f64,
    /// Throughput relative to DRAM-only.
    pub throughput: f64,
}

/// The effect of another value of an assumption.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct AssumptionRow {
    /// The design.
    pub design: &'static str,
    /// The parameter.
    pub key: &'static str,
    /// Its value. "ours" in the first row of a design.
    pub value: &'static str,
    /// Throughput relative to DRAM-only.
    pub throughput: f64,
    /// p99 of service divided by Flash-Sync's with our parameters.
    pub p99_over_flash_sync: f64,
}

/// Figures at other capacities.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ScaleRow {
    /// The divisor of the capacities.
    pub scale_denominator: u64,
    /// Mean throughput by design.
    pub mean_throughput: ByDesign<f64>,
    /// AstriFlash's throughput by workload.
    pub throughput: Vec<(&'static str, f64)>,
    /// AstriFlash's p99 of service divided by Flash-Sync's, by workload. The geometric mean is the
    /// last.
    pub p99_over_flash_sync: Vec<(&'static str, f64)>,
}

pub(super) fn workloads(outcomes: &Outcomes) -> Vec<WorkloadRow> {
    let row = |(workload, kind)| {
        let by_design = |value: &dyn Fn(&Run) -> f64| {
            let over = |design| over_seeds(|seed| value(&Run::of(design, kind).seed(seed)));
            DESIGNS.map(|design| (design, over(design))).to_vec()
        };
        let astriflash = outcomes.of(&Run::of("astriflash", kind));
        WorkloadRow {
            workload,
            throughput: by_design(&|run| outcomes.throughput(run)),
            p99_over_flash_sync: by_design(&|run| outcomes.p99_ratio(run)),
            interval_us: Spread::ByJobLength.us(kind),
            job_at_typical_us: outcomes
                .of(&Run::of("astriflash", kind).spread(Spread::Same(TYPICAL_US)))
                .warm_up
                .job_ns
                / 1e3,
            miss_interval_us: astriflash.miss_interval_us,
            misses_per_job: misses(astriflash),
            absorbed: absorbed(astriflash),
            in_flight_peak: astriflash.memory.cache.in_flight_peak,
            accesses_over_dram: outcomes.accesses_over_dram(kind, None),
            misses_over_astriflash_nodp: misses(outcomes.of(&Run::of("astriflash-nodp", kind)))
                / misses(astriflash),
            service_parts: DESIGNS
                .map(|design| (design, outcomes.of(&Run::of(design, kind)).service_parts))
                .to_vec(),
            blocked: blocked(outcomes.of(&Run::of("flash-sync", kind))),
        }
    };
    WORKLOADS.map(row).to_vec()
}

fn misses(outcome: &Outcome) -> f64 {
    outcome.memory.cache.misses as f64 / outcome.jobs as f64
}

fn blocked(outcome: &Outcome) -> BlockedRow {
    let missed = &outcome.missed;
    let all = (missed.loads + missed.stores).max(1) as f64;
    let [stores, loads_close] = [missed.stores, missed.loads_close].map(|of| of as f64 / all);
    // The time of a job, divided by DRAM-only's, is one plus the waiting.
    let waiting = 1.0 / outcome.ratio_to_dram - 1.0;
    BlockedRow {
        miss_interval_us: outcome.miss_interval_us,
        miss_us: outcome.service_parts.mean.memory_ns / misses(outcome) / 1e3,
        stores,
        loads_close,
        throughput_if_hidden: 1.0 / (1.0 + waiting * (1.0 - stores - loads_close)),
    }
}

fn absorbed(outcome: &Outcome) -> f64 {
    1.0 - outcome.memory.cache.misses as f64 / outcome.accesses as f64
}

pub(super) fn intervals(outcomes: &Outcomes) -> Vec<IntervalRow> {
    let row = |us| {
        let run = |design| Run::of(design, SWEPT).at_us(us);
        IntervalRow {
            miss_interval_us: us,
            throughput: DESIGNS.map(|d| (d, outcomes.throughput(&run(d)))).to_vec(),
            in_flight_peak: outcomes.of(&run("astriflash")).memory.cache.in_flight_peak,
        }
    };
    INTERVALS_US.map(row).to_vec()
}

pub(super) fn spreads(outcomes: &Outcomes) -> Vec<SpreadRow> {
    let row = |(name, spread)| {
        let each = |of: &dyn Fn(&'static str) -> f64| DESIGNS.map(|d| (d, of(d))).to_vec();
        SpreadRow {
            spread: name,
            mean_throughput: each(&|d| outcomes.mean_throughput(d, |run| run.spread(spread))),
            geometric_mean_p99: each(&|d| outcomes.geometric_mean_p99(d, |run| run.spread(spread))),
        }
    };
    OTHER_SPREADS.map(row).to_vec()
}

pub(super) fn loads(outcomes: &Outcomes) -> Vec<LoadRow> {
    let row = |(design, load)| {
        let run = |seed| loaded(design, load, seed);
        let of =
            |p99: fn(&Outcome) -> u64| over_seeds(|seed| p99(outcomes.of(&run(seed))) as f64 / 1e3);
        LoadRow {
            design,
            load,
            response_p99_us: of(|outcome| outcome.response_ns.p99),
            service_p99_us: of(|outcome| outcome.service_ns.p99),
        }
    };
    LOADED.into_iter().flat_map(|design| LOADS.map(|load| row((design, load)))).collect()
}

pub(super) fn skews(outcomes: &Outcomes) -> Vec<SkewRow> {
    let own = outcomes.of(&Run::of("astriflash", SWEPT));
    let other = |theta| outcomes.of(&Run::of("astriflash", SWEPT).set("workload.theta", theta));
    let row = |outcome: &Outcome| SkewRow {
        theta: outcome.config.workload.theta,
        absorbed: absorbed(outcome),
    };
    let mut rows: Vec<SkewRow> = SKEWS.into_iter().map(other).chain([own]).map(row).collect();
    rows.sort_by(|a, b| a.theta.total_cmp(&b.theta));
    rows
}

pub(super) fn tail_causes(outcomes: &Outcomes) -> Vec<TailCauseRow> {
    let row = |(workload, kind), setting: (&'static str, &'static str)| {
        let run = Run::of("astriflash", kind).set(setting.0, setting.1);
        TailCauseRow {
            workload,
            setting,
            p99_over_flash_sync: outcomes.p99_ratio(&run),
            throughput: outcomes.throughput(&run),
        }
    };
    WORKLOADS.into_iter().flat_map(|of| TAIL_CAUSES.map(|setting| row(of, setting))).collect()
}

pub(super) fn assumptions(outcomes: &Outcomes) -> Vec<AssumptionRow> {
    let sync = outcomes.of(&Run::of("flash-sync", VARIED)).service_ns.p99 as f64;
    let row = |design, key, value, run: &Run| AssumptionRow {
        design,
        key,
        value,
        throughput: outcomes.throughput(run),
        p99_over_flash_sync: outcomes.of(run).service_ns.p99 as f64 / sync,
    };
    let ours = |design| row(design, "", "ours", &Run::of(design, VARIED));
    let mut rows = vec![ours("astriflash"), ours("os-swap")];
    for (design, key, values) in ASSUMPTIONS {
        let run = |value| Run::of(design, VARIED).set(key, value);
        rows.extend(values.map(|value| row(design, key, value, &run(value))));
    }
    rows
}

pub(super) fn scales(outcomes: &Outcomes, options: &ReproduceOptions) -> Vec<ScaleRow> {
    let row = |scale: Option<u64>| {
        let run = |run: Run| scale.map_or(run.clone(), |scale| run.scaled(scale));
        let ratio =
            |(workload, kind)| (workload, outcomes.p99_ratio(&run(Run::of("astriflash", kind))));
        let mut p99_over_flash_sync = WORKLOADS.map(ratio).to_vec();
        let mean = outcomes.geometric_mean_p99("astriflash", run);
        p99_over_flash_sync.push(("geometric mean", mean));
        let throughput =
            |(workload, kind)| (workload, outcomes.throughput(&run(Run::of("astriflash", kind))));
        let mean = |design| (design, outcomes.mean_throughput(design, run));
        ScaleRow {
            scale_denominator: scale.unwrap_or(options.scale_denominator()),
            mean_throughput: super::SCALED.map(mean).to_vec(),
            throughput: WORKLOADS.map(throughput).to_vec(),
            p99_over_flash_sync,
        }
    };
    if !options.quick {
        return Vec::new();
    }
    let mut rows: Vec<ScaleRow> =
        OTHER_SCALES.into_iter().map(Some).chain([None]).map(row).collect();
    rows.sort_by_key(|row| row.scale_denominator);
    rows
}

/// The value of `design` in `values`.
pub(crate) fn of<T: Copy>(values: &[(&'static str, T)], design: &str) -> T {
    let found = values.iter().find(|(name, _)| *name == design);
    found.expect("every design was run").1
}

/// The mean throughput and the geometric mean of p99 of each design (Fig. 9, Table II).
pub(super) fn means(outcomes: &Outcomes) -> [Vec<(&'static str, Estimate)>; 2] {
    let throughput =
        |design| over_seeds(|seed| outcomes.mean_throughput(design, |run| run.seed(seed)));
    let tail =
        |design| over_seeds(|seed| outcomes.geometric_mean_p99(design, |run| run.seed(seed)));
    [
        DESIGNS.map(|design| (design, throughput(design))).to_vec(),
        DESIGNS.map(|design| (design, tail(design))).to_vec(),
    ]
}
