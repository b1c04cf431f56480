//! The verdict on each claim of AstriFlash.

pub(super) mod tails;

use super::AstriFlash;
use super::experiments::{
    self, BlockedRow, Collections, DRAM_ONLY_LOAD, GivenUp, IntervalRow, LOADED, LoadRow,
    OPTIMISTIC, Outcomes, QUEUEING_LOAD, QUIET_LOAD, RANGE_US, Run, SHARED_LESS, ScaleRow, TPCC_US,
    TYPICAL_US, TailCauseRow, WORKLOADS, WorkloadRow, at_load, crossing, over_seeds,
};
use ebbtide_report::statistics::Estimate;
use ebbtide_study::claims::{CONVERGED, Claim, Finding, Verdict, mean};
use ebbtide_study::size::figure1;

fn interval(estimate: Estimate, unit: &str) -> String {
    match estimate.half_width() {
        Some(half) => format!("± {half:.2}{unit} over seeds (95%)."),
        None => String::new(),
    }
}

fn percent(estimate: Estimate) -> Estimate {
    let hundred = |value: f64| 100.0 * value;
    Estimate { mean: hundred(estimate.mean), ci95: estimate.ci95.map(|ends| ends.map(hundred)) }
}

/// A percentage of each of Fig. 1's curves: the mean, and each value in words.
fn of_curves(r: &AstriFlash, percent: fn(&figure1::Row) -> f64) -> (f64, String) {
    let of_curve = |row: &figure1::Row| format!("{} {:.1}%", row.workload, percent(row));
    let all: Vec<String> = r.miss_curves.iter().map(of_curve).collect();
    (mean(r.miss_curves.iter().map(percent)), all.join(", "))
}

/// Judges AS6: capacity at the knee of the miss curve.
pub(crate) fn knee(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let (_, knees) = of_curves(r, |row| 100.0 * row.knee.dram_share);
    let knee = figure1::mean_knee(&r.miss_curves).unwrap_or(f64::NAN);
    vec![claim.finding("", 100.0 * knee).note(format!(
        "The knee of the mean of the programs' curves, as Fig. 1 draws it; by program {knees}. \
         YCSB's stand for CloudSuite's, the others are AstriFlash's own; at a Zipf skew of 0.99, \
         under LRU.",
    ))]
}

/// Judges AS11: accesses absorbed by 3% of the dataset.
pub(crate) fn absorbed(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let (absorbed, shares) = of_curves(r, |row| 100.0 * row.absorbed);
    let jobs: Vec<String> =
        r.skews.iter().map(|s| format!("{:.1}% at {}", 100.0 * s.absorbed, s.theta)).collect();
    let of_jobs = |row: &WorkloadRow| format!("{} {:.1}%", row.workload, 100.0 * row.absorbed);
    let by_workload: Vec<String> = r.workloads.iter().map(of_jobs).collect();
    let absorbed = claim.finding("", absorbed).note(format!(
        "Mean of the same programs: {shares}. Of Hash Table's accesses on the simulated machine, by Zipf \
         skew: {}.",
        jobs.join(", "),
    ));
    let absorbed = match by_workload.is_empty() {
        true => absorbed,
        false => absorbed.note(format!("On the simulated machine: {}.", by_workload.join(", "))),
    };
    let by_skew = r.skews.iter().map(|skew| (skew.theta, skew.absorbed));
    let absorbed = match (absorbed.verdict, crossing(by_skew, 0.95)) {
        (Verdict::Outside, Some(theta)) => absorbed.note(format!(
            "So it takes a skew of {theta:.2}, or jobs that come back to what they have touched, as \
             Masstree's and Silo's do.",
        )),
        _ => absorbed,
    };
    vec![absorbed]
}

/// The mean throughput of `design`, with its values at other intervals.
fn mean_throughput(claim: &Claim, part: &str, r: &AstriFlash, design: &'static str) -> Finding {
    let at = |us: f64| 100.0 * experiments::of(&interval_row(r, us).throughput, design);
    let estimate = mean_of(r, design);
    let others: Vec<String> = r
        .spreads
        .iter()
        .map(|row| {
            let mean = experiments::of(&row.mean_throughput, design);
            format!("{:.1}% {}", 100.0 * mean, row.spread)
        })
        .collect();
    claim.finding(part, estimate.mean).note(interval(estimate, " pp")).note(format!(
        "With {} to {} us between misses, in order of job length (AS10); {}; under Hash Table {:.1}% \
         at 5 us, {:.1}% at 15, {:.1}% at 25.",
        RANGE_US[0],
        RANGE_US[1],
        others.join(", "),
        at(5.0),
        at(15.0),
        at(25.0),
    ))
}

fn mean_of(r: &AstriFlash, design: &'static str) -> Estimate {
    percent(over_seeds(|seed| r.outcomes.mean_throughput(design, |run| run.seed(seed))))
}

/// Judges AS3: mean throughput relative to DRAM-only.
pub(crate) fn throughput(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let found = mean_throughput(claim, "", r, "astriflash");
    vec![found.note(moved(r, "astriflash")).note(experiments::drives::enough(&r.drives))]
}

/// Judges AS10: interval between DRAM misses of a core.
pub(crate) fn miss_interval(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let interval = mean(r.workloads.iter().map(|row| row.miss_interval_us));
    let why = "An input of these runs: computing is calibrated to it.";
    let mut rows: Vec<&WorkloadRow> = r.workloads.iter().collect();
    rows.sort_by(|a, b| a.job_at_typical_us.total_cmp(&b.job_at_typical_us));
    let spread = rows.iter().map(|row| {
        let WorkloadRow { workload, job_at_typical_us: us, interval_us, .. } = row;
        format!("{workload} {us:.1} us and {interval_us:.1} us")
    });
    vec![claim.finding("", interval).by_construction(why).note(format!(
        "The paper does not print it by program. The programs have {} to {} us evenly spread, in order \
         of the length of a job at {TYPICAL_US} us. Length and interval: {}.",
        RANGE_US[0],
        RANGE_US[1],
        spread.collect::<Vec<_>>().join(", "),
    ))]
}

/// Judges AS27: AstriFlash-Ideal relative to DRAM-only.
pub(crate) fn ideal(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let not_below = mean_of(r, "astriflash-ideal").mean >= mean_of(r, "astriflash").mean;
    vec![
        mean_throughput(claim, "mean throughput", r, "astriflash-ideal"),
        claim.finding("not below AstriFlash", not_below),
    ]
}

/// Judges AS28: OS-Swap relative to DRAM-only.
pub(crate) fn os_swap(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    vec![mean_throughput(claim, "", r, "os-swap").note(moved(r, "os-swap"))]
}

/// Judges AS29: Flash-Sync relative to DRAM-only.
pub(crate) fn flash_sync(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let found = mean_throughput(claim, "", r, "flash-sync");
    vec![match found.verdict {
        Verdict::Outside => found.note(blocked_cause(r)),
        _ => found,
    }]
}

/// The interval that decides the claims, in words.
fn at_typical() -> String {
    format!("At {TYPICAL_US} us between misses, under Hash Table.")
}

/// The throughput of `design` at an interval, in percent.
fn swept(r: &AstriFlash, us: f64, design: &str) -> f64 {
    100.0 * experiments::of(&interval_row(r, us).throughput, design)
}

/// Judges AS12: OS paging.
pub(crate) fn paging(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let os_swap = swept(r, TYPICAL_US, "os-swap");
    let overhead = (100.0 / os_swap - 1.0) * TYPICAL_US;
    vec![
        claim.finding("overhead a miss", overhead).note(at_typical()),
        claim
            .finding("throughput lost even where the set fits", 100.0 - os_swap)
            .note(at_typical()),
    ]
}

/// Judges AS16: throughput lost without switching.
pub(crate) fn without_switching(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let lost = |us| 100.0 / swept(r, us, "flash-sync");
    vec![claim.finding("", lost(TYPICAL_US)).note(format!(
        "{} At 5 us it is {:.1}, at 8 us {:.1}.",
        at_typical(),
        lost(5.0),
        lost(8.0),
    ))]
}

/// Judges AS26: concurrent misses over 16 cores.
pub(crate) fn in_flight(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let peak = |row: &IntervalRow| format!("{} at {} us", row.in_flight_peak, row.miss_interval_us);
    let peaks: Vec<String> = r.intervals.iter().map(peak).collect();
    let typical = interval_row(r, TYPICAL_US).in_flight_peak as f64;
    vec![claim.finding("", typical).note(format!(
        "{} Over AS10's range of intervals: {}.",
        at_typical(),
        peaks.join(", ")
    ))]
}

/// The reasons for Flash-Sync's throughput, in words.
fn blocked_cause(r: &AstriFlash) -> String {
    let of =
        |value: fn(&BlockedRow) -> f64| mean(r.workloads.iter().map(|row| value(&row.blocked)));
    format!(
        "Its cores wait out misses of {:.1} us after {:.1} us of execution each: the DRAM cache's ways \
         miss sooner than the plain LRU that the interval is of. {:.0}% of the misses are stores, which \
         a store buffer might take, and {:.0}% loads within a reorder buffer of the miss before: with \
         none of these waited for it would be {:.1}%. 27% is where it gets at {:.1} us between misses \
         under Hash Table.",
        of(|row| row.miss_us),
        of(|row| row.miss_interval_us),
        100.0 * of(|row| row.stores),
        100.0 * of(|row| row.loads_close),
        100.0 * of(|row| row.throughput_if_hidden),
        interval_for(r, "flash-sync", 0.27),
    )
}

fn interval_row(r: &AstriFlash, us: f64) -> &IntervalRow {
    let row = r.intervals.iter().find(|row| row.miss_interval_us == us);
    row.expect("this interval was run")
}

/// The interval at which `design` has the throughput `share`, by linear interpolation.
fn interval_for(r: &AstriFlash, design: &str, share: f64) -> f64 {
    let point =
        |row: &IntervalRow| (row.miss_interval_us, experiments::of(&row.throughput, design));
    crossing(r.intervals.iter().map(point), share).unwrap_or(f64::INFINITY)
}

/// The assumption that changes the throughput of `design` most, in words.
fn moved(r: &AstriFlash, design: &str) -> String {
    let of_design = || r.assumptions.iter().filter(|row| row.design == design);
    let Some(ours) = of_design().find(|row| row.key.is_empty()) else { return String::new() };
    let by = |row: &experiments::AssumptionRow| 100.0 * (row.throughput - ours.throughput);
    let most = of_design().max_by(|a, b| by(a).abs().total_cmp(&by(b).abs())).unwrap_or(ours);
    format!(
        "Of the assumptions, {} = {} moves it most, by {:+.1} pp under Array Swap (sweep below).",
        most.key,
        most.value,
        by(most)
    )
}

/// AS30: the workload that loses most.
pub(crate) fn rank(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let of = |row: &WorkloadRow| experiments::of(&row.throughput, "astriflash").mean;
    let by_loss = r.workloads.iter().min_by(|a, b| of(a).total_cmp(&of(b)));
    let Some(lowest) = by_loss else { return Vec::new() };
    let finding = claim.finding("", lowest.workload == "TPCC");
    if finding.verdict == Verdict::Within {
        return vec![finding];
    }
    let tpcc = r.workloads.iter().find(|row| row.workload == "TPCC").map_or(0.0, of);
    let sooner: Vec<String> = TPCC_US
        .iter()
        .map(|us| {
            let run = Run::of("astriflash", ebbtide_workloads::Kind::Tpcc).at_us(*us);
            format!("{:.1}% at {us}", 100.0 * r.outcomes.throughput(&run))
        })
        .collect();
    vec![finding.note(format!(
        "{} loses most here, with {:.1}% against TPCC's {:.1}%, by the intervals of AS10; TPCC alone \
         has {} us.",
        lowest.workload,
        100.0 * of(lowest),
        100.0 * tpcc,
        sooner.join(", "),
    ))
    .note(run_again(lowest, &r.outcomes))
    .note(format!(
        "{} keeps {}{}.",
        lowest.workload,
        with_causes_changed(r, lowest.workload, |cause| cause.throughput),
        at_scales(r, lowest.workload, |row| &row.throughput),
    ))]
}

/// The work that jobs of `row` repeat after conflicts, in words.
fn run_again(row: &WorkloadRow, outcomes: &Outcomes) -> String {
    let more = |ratio: f64| format!("{:.0}% more accesses", 100.0 * (ratio - 1.0));
    let again = format!(
        "Its jobs make {} than in DRAM, where one a core is open: that alone leaves {:.0}%.",
        more(row.accesses_over_dram),
        100.0 / row.accesses_over_dram,
    );
    if WORKLOADS.iter().all(|(name, kind)| *name != row.workload || *kind != OPTIMISTIC) {
        return again;
    }
    let less = Run::of("astriflash", OPTIMISTIC).set(SHARED_LESS.0, SHARED_LESS.1);
    format!(
        "{again} They are transactions that run again when what they read was written meanwhile. With \
         {} = {} they make {} and keep {:.1}%.",
        SHARED_LESS.0,
        SHARED_LESS.1,
        more(outcomes.accesses_over_dram(OPTIMISTIC, Some(SHARED_LESS))),
        100.0 * outcomes.throughput(&less),
    )
}

/// The values of `workload` with each possible cause of a long tail changed, in words.
fn with_causes_changed(r: &AstriFlash, workload: &str, value: fn(&TailCauseRow) -> f64) -> String {
    let varied = r.tail_causes.iter().filter(|cause| cause.workload == workload);
    let varied = varied.map(|cause| {
        let (key, set) = cause.setting;
        format!("{:.2} with {key} = {set}", value(cause))
    });
    varied.collect::<Vec<_>>().join(", ")
}

/// The values of `workload` at other capacities, in words. Empty if there are none.
fn at_scales(
    r: &AstriFlash,
    workload: &str,
    values: fn(&ScaleRow) -> &experiments::ByDesign<f64>,
) -> String {
    let at = |scale: &ScaleRow| {
        let value = experiments::of(values(scale), workload);
        format!("{value:.2} at 1/{} of the capacities", scale.scale_denominator)
    };
    if r.scales.is_empty() {
        return String::new();
    }
    format!("; {}", r.scales.iter().map(at).collect::<Vec<_>>().join(", "))
}

/// The finding. It has not converged if seeds disagree on a tail of `rows`.
fn if_known(rows: &[&LoadRow], finding: Finding) -> Finding {
    let unknown = rows.iter().find(|row| !row.response_p99_us.is_within(CONVERGED));
    match unknown {
        None => finding,
        Some(row) => finding.not_converged(&format!(
            "p99 of {} at {:.0}% load is {:.0} us {}",
            row.design,
            100.0 * row.load,
            row.response_p99_us.mean,
            interval(row.response_p99_us, " us"),
        )),
    }
}

/// Judges AS37: load given up for DRAM-only's p99 at 96% load.
pub(crate) fn load_given_up(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let GivenUp { limit, equal, around } = GivenUp::of(&r.loads);
    let limit = limit.response_p99_us;
    let finding = claim.finding("", 100.0 * (DRAM_ONLY_LOAD - equal));
    vec![if_known(&around, finding).note(format!(
        "At {TYPICAL_US} us between misses AstriFlash has that tail at {:.1}% load: {:.0} us {}",
        100.0 * equal,
        limit.mean,
        interval(limit, " us"),
    ))]
}

/// Judges AS38: p99 at low load.
pub(crate) fn low_load(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let [quiet_dram, quiet] = LOADED.map(|design| at_load(&r.loads, design, QUIET_LOAD));
    let longer = quiet.response_p99_us.mean > quiet_dram.response_p99_us.mean;
    vec![if_known(&[quiet, quiet_dram], claim.finding("", longer)).note(format!(
        "At 20% load {:.0} us against {:.0}.",
        quiet.response_p99_us.mean, quiet_dram.response_p99_us.mean
    ))]
}

/// Judges AS47: why the tail holds.
pub(crate) fn queueing(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let [dram_only, astriflash] = LOADED.map(|design| at_load(&r.loads, design, QUEUEING_LOAD));
    let queued = |row: &LoadRow| 1.0 - row.service_p99_us.mean / row.response_p99_us.mean;
    let holds = astriflash.service_p99_us.mean > dram_only.service_p99_us.mean
        && queued(astriflash) < queued(dram_only);
    vec![if_known(&[astriflash, dram_only], claim.finding("", holds)).note(format!(
        "At 90% load p99 of service is {:.0} us against {:.0}; the rest of p99 of response, mostly \
         queueing, is {:.0}% of it against {:.0}%.",
        astriflash.service_p99_us.mean,
        dram_only.service_p99_us.mean,
        100.0 * queued(astriflash),
        100.0 * queued(dram_only),
    ))]
}

/// Judges AS39: requests blocked by garbage collection, 256 GB.
pub(crate) fn collections(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let found = |measured: &Collections| {
        let [small, _] = measured.blocked();
        claim
            .finding("", small)
            .by_construction("The rate of writes is the one that makes this share.")
            .note(measured.asked())
            .note(measured.own())
            .note(measured.sweep())
    };
    r.collections.iter().map(found).collect()
}

/// Judges AS40: garbage collection with 1 TB.
pub(crate) fn collections_of_four_times_the_planes(claim: &Claim, r: &AstriFlash) -> Vec<Finding> {
    let found = |measured: &Collections| {
        let [small, large] = measured.blocked();
        let reduction = claim.finding("reduction", small / large);
        let reduction = match reduction.verdict {
            Verdict::Outside => reduction.note(measured.with_same_data()),
            _ => reduction,
        };
        let blocked = claim.finding("requests blocked", large);
        [reduction, blocked]
            .map(|found| found.note(measured.asked()).note(measured.own()).note(measured.sweep()))
    };
    r.collections.iter().flat_map(found).collect()
}
