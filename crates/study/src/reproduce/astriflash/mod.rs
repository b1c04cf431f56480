//! AstriFlash (HPCA'23) on the simulator: its Figs. 9 and 10, its Table II, and every claim that
//! they and the formulas decide.

mod page;

use std::fmt;

use ebbtide_sim::config::resolve;
use ebbtide_sim::{Offered, Outcome, Plan};
use ebbtide_workloads::Kind;
use serde::Serialize;

use super::runs::run_all;
use super::{Cancel, Options, Paper, Progress, ReproduceError, Reproduced, Reproduction};
use crate::claims::{self, Finding, Findings};
use crate::report::Page;

/// The workloads of Fig. 9 and Table II, as the paper calls them.
const WORKLOADS: [(&str, Kind); 7] = [
    ("Masstree", Kind::Masstree),
    ("Silo", Kind::Silo),
    ("Array Swap", Kind::ArraySwap),
    ("RBT", Kind::RedBlackTree),
    ("Hash Table", Kind::HashTable),
    ("TATP", Kind::Tatp),
    ("TPCC", Kind::Tpcc),
];

/// The designs of Fig. 9 and Table II.
const DESIGNS: [&str; 6] = [
    "astriflash",
    "astriflash-ideal",
    "astriflash-nops",
    "astriflash-nodp",
    "os-swap",
    "flash-sync",
];

/// Execution between misses: the middle of the 5 to 25 us of §V-A, which does not say which workload
/// has which.
const MIDDLE_US: f64 = 15.0;

/// Where else in that range throughput is looked at.
const OTHER_US: [f64; 4] = [5.0, 8.0, 10.0, 25.0];

/// Load of AstriFlash in Fig. 10, as a share of DRAM-only's throughput.
const LOADS: [f64; 8] = [0.2, 0.5, 0.8, 0.88, 0.9, 0.92, 0.94, 0.96];

/// DRAM-only's load whose tail AstriFlash is compared with.
const DRAM_ONLY_LOAD: f64 = 0.96;

/// What was run and what it says.
#[derive(Debug, Clone, Serialize)]
pub struct AstriFlash {
    /// Capacities were divided by this.
    pub scale_denominator: u64,
    /// Of layouts, job streams and arrivals.
    pub seed: u64,
    /// Fig. 9 and Table II.
    pub workloads: Vec<WorkloadRow>,
    /// How throughput follows the interval between misses, under Hash Table.
    pub intervals: Vec<IntervalRow>,
    /// Fig. 10.
    pub loads: Vec<LoadRow>,
    /// Every claim.
    #[serde(flatten)]
    pub findings: Findings,
}

/// A workload in Fig. 9 and Table II.
#[derive(Debug, Clone, Serialize)]
pub struct WorkloadRow {
    /// Which.
    pub workload: &'static str,
    /// Throughput relative to DRAM-only, by design.
    pub throughput: Vec<(&'static str, f64)>,
    /// p99 of service over Flash-Sync's, by design.
    pub p99_over_flash_sync: Vec<(&'static str, f64)>,
    /// Execution between misses on AstriFlash.
    pub miss_interval_us: f64,
    /// Share of all accesses that started no flash read.
    pub absorbed: f64,
    /// The most pages in flight on AstriFlash.
    pub in_flight_peak: u64,
}

/// Throughput at one interval between misses.
#[derive(Debug, Clone, Serialize)]
pub struct IntervalRow {
    /// Under plain LRU.
    pub miss_interval_us: f64,
    /// Throughput relative to DRAM-only, by design.
    pub throughput: Vec<(&'static str, f64)>,
}

/// A point of Fig. 10.
#[derive(Debug, Clone, Serialize)]
pub struct LoadRow {
    /// Which design.
    pub design: &'static str,
    /// Share of DRAM-only's throughput that arrives.
    pub load: f64,
    /// p99 of response.
    pub response_p99_us: f64,
    /// p99 of service alone.
    pub service_p99_us: f64,
}

pub(super) const PAPER: Paper = Paper {
    name: "astriflash",
    about: "AstriFlash, HPCA 2023",
    full_run: "most of an hour",
    reproduce,
};

fn reproduce(
    options: &Options,
    cancel: &Cancel,
    progress: Progress<'_>,
) -> Result<Reproduced, ReproduceError> {
    let plans = plans(options)?;
    let outcomes = run_all(&plans, options, cancel, progress)?;
    let (figure9, rest) = outcomes.split_at(WORKLOADS.len() * DESIGNS.len());
    let (intervals, figure10) = rest.split_at(OTHER_US.len() * DESIGNS.len());
    let mut reproduction = AstriFlash {
        scale_denominator: options.scale_denominator(),
        seed: options.seed,
        workloads: WORKLOADS
            .iter()
            .zip(figure9.chunks(DESIGNS.len()))
            .map(|((name, _), outcomes)| workload_row(name, outcomes))
            .collect(),
        intervals: OTHER_US
            .iter()
            .zip(intervals.chunks(DESIGNS.len()))
            .map(|(us, outcomes)| IntervalRow {
                miss_interval_us: *us,
                throughput: by_design(outcomes, |outcome| outcome.ratio_to_dram),
            })
            .collect(),
        loads: figure10.iter().zip(figure10_points()).map(|(o, p)| load_row(o, p)).collect(),
        findings: Findings::default(),
    };
    reproduction.findings = findings(&reproduction);
    Ok(Box::new(reproduction))
}

fn plan(
    options: &Options,
    design: &str,
    workload: Kind,
    interval_us: f64,
    arrivals: Offered,
) -> Result<Plan, ReproduceError> {
    let interval = interval_us.to_string();
    let config = resolve(design, &[("workload.miss_interval_us", &interval)])?;
    let jobs = match arrivals {
        Offered::Saturating => 40_000,
        // The tail of a nearly saturated queue needs many.
        Offered::PoissonShare(_) => 400_000,
    };
    let config = config.scaled(1, options.scale_denominator());
    Ok(Plan { config, workload, jobs, seed: options.seed, arrivals })
}

fn plans(options: &Options) -> Result<Vec<Plan>, ReproduceError> {
    let mut plans = Vec::new();
    for (_, workload) in WORKLOADS {
        for design in DESIGNS {
            plans.push(plan(options, design, workload, MIDDLE_US, Offered::Saturating)?);
        }
    }
    for interval in OTHER_US {
        for design in DESIGNS {
            plans.push(plan(options, design, Kind::HashTable, interval, Offered::Saturating)?);
        }
    }
    for (design, load) in figure10_points() {
        // A TATP job lasts about 10 us (AS36), in which it misses less than once.
        plans.push(plan(options, design, Kind::Tatp, MIDDLE_US, Offered::PoissonShare(load))?);
    }
    Ok(plans)
}

fn figure10_points() -> impl Iterator<Item = (&'static str, f64)> {
    let dram_only = LOADS.map(|load| ("dram-only", load));
    dram_only.into_iter().chain(LOADS.map(|load| ("astriflash", load)))
}

fn by_design(outcomes: &[Outcome], of: impl Fn(&Outcome) -> f64) -> Vec<(&'static str, f64)> {
    DESIGNS.into_iter().zip(outcomes).map(|(design, outcome)| (design, of(outcome))).collect()
}

fn workload_row(workload: &'static str, outcomes: &[Outcome]) -> WorkloadRow {
    let flash_sync = outcomes[DESIGNS.len() - 1].service_ns.p99 as f64;
    let astriflash = &outcomes[0];
    WorkloadRow {
        workload,
        throughput: by_design(outcomes, |outcome| outcome.ratio_to_dram),
        p99_over_flash_sync: by_design(outcomes, |o| o.service_ns.p99 as f64 / flash_sync),
        miss_interval_us: astriflash.miss_interval_us,
        absorbed: 1.0 - astriflash.dram_cache.misses as f64 / astriflash.accesses as f64,
        in_flight_peak: astriflash.dram_cache.in_flight_peak,
    }
}

fn load_row(outcome: &Outcome, (design, load): (&'static str, f64)) -> LoadRow {
    LoadRow {
        design,
        load,
        response_p99_us: outcome.response_ns.p99 as f64 / 1e3,
        service_p99_us: outcome.service_ns.p99 as f64 / 1e3,
    }
}

/// The value of `design` in `values`.
fn of(values: &[(&'static str, f64)], design: &str) -> f64 {
    let found = values.iter().find(|(name, _)| *name == design);
    found.expect("every design was run").1
}

impl AstriFlash {
    fn mean_throughput(&self, design: &str) -> f64 {
        let sum: f64 = self.workloads.iter().map(|row| of(&row.throughput, design)).sum();
        sum / self.workloads.len() as f64
    }

    fn geometric_mean_p99(&self, design: &str) -> f64 {
        let logs = self.workloads.iter().map(|row| of(&row.p99_over_flash_sync, design).ln());
        (logs.sum::<f64>() / self.workloads.len() as f64).exp()
    }

    fn at_interval(&self, us: f64, design: &str) -> f64 {
        let row = self.intervals.iter().find(|row| row.miss_interval_us == us);
        of(&row.expect("this interval was run").throughput, design)
    }

    fn loads_of<'a>(&'a self, design: &'a str) -> impl Iterator<Item = &'a LoadRow> {
        self.loads.iter().filter(move |row| row.design == design)
    }

    /// The load at which AstriFlash has DRAM-only's tail at [`DRAM_ONLY_LOAD`], between the points.
    fn equal_tail_load(&self) -> f64 {
        let dram_only = self.loads_of("dram-only").find(|row| row.load == DRAM_ONLY_LOAD);
        let limit = dram_only.expect("this load was run").response_p99_us;
        let points: Vec<&LoadRow> = self.loads_of("astriflash").collect();
        let above = points.iter().position(|row| row.response_p99_us > limit);
        match above {
            None => DRAM_ONLY_LOAD,
            Some(0) => 0.0,
            Some(i) => {
                let (low, high) = (points[i - 1], points[i]);
                let part =
                    (limit - low.response_p99_us) / (high.response_p99_us - low.response_p99_us);
                low.load + part * (high.load - low.load)
            }
        }
    }
}

fn found(id: &str, part: &str, ours: impl Into<claims::Ours>) -> Finding {
    claims::find(id).expect("it is in the table").finding(part, ours)
}

fn findings(r: &AstriFlash) -> Findings {
    let simulated = [throughput(r), tails(r), loads(r)].concat();
    let formulas = claims::analytic::astriflash::findings();
    let mut all = Vec::new();
    for claim in claims::astriflash::CLAIMS {
        let before = all.len();
        let decided = simulated.iter().chain(&formulas).filter(|f| f.id == claim.id);
        all.extend(decided.cloned());
        if all.len() == before {
            all.extend(claim.findings_beforehand());
        }
    }
    all.into_iter().collect()
}

fn throughput(r: &AstriFlash) -> Vec<Finding> {
    let percent = |design| 100.0 * r.mean_throughput(design);
    let range = |design| {
        let at = |us| 100.0 * r.at_interval(us, design);
        format!(
            "At an interval of {MIDDLE_US} us, the middle of AS10's range; under Hash Table {:.1}% at 5 \
             us, {:.1}% at 10, {:.1}% at 25.",
            at(5.0),
            at(10.0),
            at(25.0),
        )
    };
    let lowest = r
        .workloads
        .iter()
        .min_by(|a, b| of(&a.throughput, "astriflash").total_cmp(&of(&b.throughput, "astriflash")));
    let lowest = lowest.expect("there are workloads").workload;
    let mean = |value: fn(&WorkloadRow) -> f64| {
        r.workloads.iter().map(value).sum::<f64>() / r.workloads.len() as f64
    };
    let overhead_us = (1.0 / r.at_interval(10.0, "os-swap") - 1.0) * 10.0;
    let peak = r.workloads.iter().map(|row| row.in_flight_peak).max().unwrap_or(0);
    vec![
        found("AS3", "", percent("astriflash")).note(range("astriflash")),
        found("AS10", "", mean(|row| row.miss_interval_us))
            .note("An input of these runs: computing is calibrated to it."),
        found("AS11", "", 100.0 * mean(|row| row.absorbed))
            .note("Of all accesses of jobs, those that no cache on the chip absorbs included."),
        found("AS12", "overhead a miss", overhead_us),
        found(
            "AS12",
            "throughput lost even where the set fits",
            100.0 * (1.0 - r.at_interval(10.0, "os-swap")),
        ),
        found("AS16", "", 1.0 / r.at_interval(8.0, "flash-sync"))
            .note("Under Hash Table at an interval of 8 us."),
        found("AS26", "", peak as f64),
        found("AS27", "mean throughput", percent("astriflash-ideal"))
            .note(range("astriflash-ideal")),
        found(
            "AS27",
            "not below AstriFlash",
            r.mean_throughput("astriflash-ideal") >= r.mean_throughput("astriflash"),
        ),
        found("AS28", "", percent("os-swap")).note(range("os-swap")),
        found("AS29", "", percent("flash-sync")).note(range("flash-sync")),
        found("AS30", "", lowest == "TPCC").note(format!(
            "{lowest} loses most here, all workloads having the same interval between misses."
        )),
    ]
}

fn tails(r: &AstriFlash) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (id, design) in [("AS32", "astriflash"), ("AS33", "astriflash-nops")] {
        for row in &r.workloads {
            findings.push(found(id, row.workload, of(&row.p99_over_flash_sync, design)));
        }
        findings.push(found(id, "geometric mean", r.geometric_mean_p99(design)));
    }
    findings.push(found("AS34", "", r.geometric_mean_p99("astriflash-nodp")));
    findings.push(found("AS35", "", 100.0 * (r.geometric_mean_p99("astriflash") - 1.0)));
    findings
}

fn loads(r: &AstriFlash) -> Vec<Finding> {
    let at = |design, load: f64| {
        let row = r.loads_of(design).find(|row| row.load == load);
        row.expect("this load was run").clone()
    };
    let gap = 100.0 * (DRAM_ONLY_LOAD - r.equal_tail_load());
    let [dram_only, astriflash] = ["dram-only", "astriflash"].map(|design| at(design, 0.9));
    let queued = |row: &LoadRow| (row.response_p99_us - row.service_p99_us) / row.response_p99_us;
    vec![
        found("AS37", "", gap).note(format!(
            "AstriFlash has that tail at {:.1}% load.",
            100.0 * r.equal_tail_load()
        )),
        found(
            "AS38",
            "",
            at("astriflash", 0.2).response_p99_us > at("dram-only", 0.2).response_p99_us,
        ),
        found(
            "AS47",
            "",
            astriflash.service_p99_us > dram_only.service_p99_us
                && queued(&astriflash) < queued(&dram_only),
        )
        .note(format!(
            "At 90% load p99 of service is {:.0} us against {:.0}; the rest of p99 of response, mostly \
             queueing, is {:.0}% of it against {:.0}%.",
            astriflash.service_p99_us,
            dram_only.service_p99_us,
            100.0 * queued(&astriflash),
            100.0 * queued(&dram_only),
        )),
    ]
}

impl Reproduction for AstriFlash {
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

impl fmt::Display for AstriFlash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "AstriFlash (HPCA'23), capacities 1/{} of the paper's",
            self.scale_denominator
        )?;
        writeln!(f, "\nFig. 9: throughput relative to DRAM-only")?;
        self.design_table(f, |row| &row.throughput, |design| self.mean_throughput(design), "mean")?;
        writeln!(f, "\nTable II: p99 of service over Flash-Sync's")?;
        let geometric = |design: &str| self.geometric_mean_p99(design);
        self.design_table(f, |row| &row.p99_over_flash_sync, geometric, "geo. mean")?;
        writeln!(f, "\nFig. 10: TATP, p99 of response (of service) in us over load")?;
        writeln!(f, "{:>6} {:>20} {:>20}", "load", "dram-only", "astriflash")?;
        for (dram_only, astriflash) in self.loads_of("dram-only").zip(self.loads_of("astriflash")) {
            let cell =
                |row: &LoadRow| format!("{:.0} ({:.0})", row.response_p99_us, row.service_p99_us);
            let (dram_only, load) = (cell(dram_only), dram_only.load);
            writeln!(f, "{load:>6.2} {dram_only:>20} {:>20}", cell(astriflash))?;
        }
        write!(f, "\n{}", self.findings)
    }
}

impl AstriFlash {
    fn design_table(
        &self,
        f: &mut fmt::Formatter<'_>,
        values: impl Fn(&WorkloadRow) -> &[(&'static str, f64)],
        mean: impl Fn(&str) -> f64,
        mean_name: &str,
    ) -> fmt::Result {
        write!(f, "{:<12}", "")?;
        DESIGNS.iter().try_for_each(|design| write!(f, " {design:>16}"))?;
        writeln!(f)?;
        for row in &self.workloads {
            write!(f, "{:<12}", row.workload)?;
            let values = values(row);
            DESIGNS.iter().try_for_each(|design| write!(f, " {:>16.3}", of(values, design)))?;
            writeln!(f)?;
        }
        write!(f, "{mean_name:<12}")?;
        DESIGNS.iter().try_for_each(|design| write!(f, " {:>16.3}", mean(design)))?;
        writeln!(f)
    }
}
