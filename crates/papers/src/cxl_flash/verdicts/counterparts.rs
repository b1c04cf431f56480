//! The claims about the study's real programs whose direction captured programs of the same kinds
//! decide: CX1 to CX3, CX17, CX19, CX21, CX22 and CX24 to CX27.
//!
//! A transformer stands for BERT, igraph's PageRank for GAP's, and povray for Splash-3's radiosity.
//! Redis under YCSB's workload F and xz stand for themselves. All are smaller, behind smaller
//! caches, and have other intervals between accesses.

use super::captured::{accuracy_and_pollution, best_run, lifetime, prefetchers, run};
use super::{BEST_OFFSET, LEAP, NO_PREFETCHER, percent};
use crate::cxl_flash::CxlFlash;
use crate::cxl_flash::experiments::{COUNTERPARTS, HINTED, POLICIES, PREFETCHERS, Row, hinted};
use ebbtide_study::claims::{Claim, Finding, least, most};

const TRANSFORMER: &str = COUNTERPARTS[0];
const PAGERANK: &str = COUNTERPARTS[1];
const POVRAY: &str = COUNTERPARTS[2];
const XZ: &str = COUNTERPARTS[3];
const REDIS: &str = COUNTERPARTS[4];

/// The difference of the captured PageRank from the study's, which also loads and builds its graph.
const ONLY_RANKING: &str = "The trace of PageRank is of the ranking alone. It reads in 96% of its \
     accesses, where the study's program reads in 68%.";

/// The differences of footprints, by `traces/README.md` and Table 5.
const FOOTPRINTS: &str =
    "The footprints are 20, 16, 20, 13 and 33 times the cache; the study's 8, 59, 26, 14 and 29.";

/// The program's name in the names of parts of claims.
fn short(program: &str) -> &str {
    program.trim_end_matches(", captured")
}

/// A value for each program, in words.
fn shown(value: impl Fn(&'static str) -> f64) -> String {
    let shown = COUNTERPARTS.map(|program| format!("{} {:.1}", short(program), value(program)));
    shown.join(", ")
}

/// Requests below 1 us under `policy` with 16 ways, in percent.
fn policy(study: &CxlFlash, program: &str, policy: &str) -> f64 {
    percent(with_policy(study, program, policy))
}

fn with_policy<'a>(study: &'a CxlFlash, program: &str, policy: &str) -> &'a Row {
    run(study, program, &format!("{policy}, 16 ways"), true)
}

/// Requests below 1 us under the best policy, in percent.
fn best_policy(study: &CxlFlash, program: &str) -> f64 {
    most(POLICIES.map(|name| policy(study, program, name)))
}

/// Judges CX1: requests below 1 µs over five programs.
pub(crate) fn least_share(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let best = |program| percent(best_run(study, program));
    let is_least = best(PAGERANK) <= least(COUNTERPARTS.map(best));
    vec![
        claim
            .finding("captured pagerank", is_least)
            .note(format!("Below 1 us with the best prefetcher, in %: {}.", shown(best)))
            .note(ONLY_RANKING)
            .note(FOOTPRINTS),
    ]
}

/// The lifetime of flash for each program, in words.
fn lasting(study: &CxlFlash) -> String {
    format!("Years with the best prefetcher: {}.", shown(|program| lifetime(study, program)))
}

/// Judges CX2: shortest lifetime (Page Rank).
pub(crate) fn shortest_lifetime(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let years = |program| lifetime(study, program);
    let shortest = years(PAGERANK) <= least(COUNTERPARTS.map(years));
    vec![claim.finding("captured pagerank", shortest).note(lasting(study)).note(ONLY_RANKING)]
}

/// Judges CX3: lifetime with Radiosity.
pub(crate) fn longest_lifetime(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let years = |program| lifetime(study, program);
    let longest = years(POVRAY) >= most(COUNTERPARTS.map(years));
    vec![claim.finding("captured povray", longest).note(lasting(study))]
}

/// Judges CX19: requests below 1 µs without prefetching, best policy.
pub(crate) fn without_prefetching(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let without = |program| best_policy(study, program);
    let more = without(TRANSFORMER) > without(PAGERANK);
    vec![
        claim
            .finding("captured transformer over pagerank", more)
            .note(format!("Below 1 us under the best policy, in %: {}.", shown(without))),
    ]
}

/// Judges CX17: replacement policies and ways.
pub(crate) fn replacement(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let cflru_is_best = |program: &'static str| {
        let shares = POLICIES.map(|name| format!("{name} {:.2}", policy(study, program, name)));
        let over_lru = |count: fn(&Row) -> u64| {
            let [cflru, lru] =
                ["cflru", "lru"].map(|policy| count(with_policy(study, program, policy)) as f64);
            100.0 * (cflru / lru - 1.0)
        };
        let best = policy(study, program, "cflru") >= best_policy(study, program);
        let part = format!("CFLRU for captured {}", short(program));
        claim.finding(&part, best).note(format!(
            "Below 1 us with 16 ways, in %: {}. An access to a page that is nearly there is below 1 us, \
             too, so that fewer misses need not give more of these: against LRU, CFLRU writes {:+.1}% \
             pages to flash and reads {:+.1}%.",
            shares.join(", "),
            over_lru(|row| row.flash_writes),
            over_lru(|row| row.flash_reads),
        ))
    };
    [TRANSFORMER, XZ, REDIS].map(cflru_is_best).into()
}

/// Requests below 1 us with the prefetcher `name`, in percent.
fn share(study: &CxlFlash, program: &str, name: &str) -> f64 {
    percent(run(study, program, name, true))
}

/// Judges CX21: prefetching.
pub(crate) fn prefetching(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let at = |program: &str, name: &str| run(study, program, name, true);
    let share = |program: &str, name: &str| share(study, program, name);
    let without = |program: &str| share(program, NO_PREFETCHER);
    let with = |program: &'static str| prefetchers().map(move |name| share(program, name));
    let found = |program: &'static str, holds: bool| {
        let shares = PREFETCHERS.map(|(_, name)| format!("{name} {:.1}", share(program, name)));
        let accurate = prefetchers().map(|name| {
            let row = at(program, name);
            format!("{name} {:.0}% and {:.0}%", 100.0 * row.accuracy, 100.0 * row.coverage)
        });
        claim.finding(&format!("captured {}", short(program)), holds).note(format!(
            "In %: {}. Accuracy and coverage: {}.",
            shares.join(", "),
            accurate.collect::<Vec<_>>().join(", "),
        ))
    };
    let hurts = |program| found(program, with(program).all(|share| share < without(program)));
    let helps = |program| found(program, most(with(program)) > without(program));
    vec![
        hurts(TRANSFORMER),
        hurts(XZ),
        hurts(REDIS),
        helps(PAGERANK).note(ONLY_RANKING),
        helps(POVRAY),
    ]
}

/// Judges CX22: best offset on Radiosity.
pub(crate) fn best_offset_on_povray(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let share = |name| share(study, POVRAY, name);
    let under_miss = |name| run(study, POVRAY, name, true).hits_under_miss;
    vec![
        claim
            .finding(
                "captured povray, requests below 1 µs",
                share(BEST_OFFSET) > share(NO_PREFETCHER),
            )
            .note(format!(
                "{:.1}% with best offset, {:.1}% without.",
                share(BEST_OFFSET),
                share(NO_PREFETCHER)
            )),
        claim
            .finding(
                "captured povray, hits under miss",
                under_miss(BEST_OFFSET) < under_miss(NO_PREFETCHER),
            )
            .note(format!(
                "{} with best offset, {} without.",
                under_miss(BEST_OFFSET),
                under_miss(NO_PREFETCHER)
            )),
    ]
}

/// Judges CX24: accuracy and coverage of prefetchers.
pub(crate) fn accuracy(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let at = |program: &str, name: &str| run(study, program, name, true);
    let accuracy = |program: &str, name| 100.0 * at(program, name).accuracy;
    let [transformer, povray] = [TRANSFORMER, POVRAY].map(|program| accuracy(program, LEAP));
    let (of_xz, covered) = (accuracy(XZ, BEST_OFFSET), 100.0 * at(XZ, BEST_OFFSET).coverage);
    vec![
        claim
            .finding("Leap on captured povray over transformer, accuracy", povray > transformer)
            .note(format!("{povray:.0}% over {transformer:.0}%, claimed 85% over 27%.")),
        claim
            .finding("best offset on captured xz, accuracy over coverage", of_xz > covered)
            .note(format!("{of_xz:.0}% over {covered:.0}%, claimed 48% over 4%.")),
    ]
}

/// Judges CX25: low accuracy goes with high pollution.
pub(crate) fn correlation(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let correlation = accuracy_and_pollution(study, &[TRANSFORMER, REDIS]);
    vec![
        claim
            .finding("captured transformer, redis", correlation < 0.0)
            .note(format!("Rank correlation of accuracy and pollution {correlation:.2}.")),
    ]
}

/// Judges CX26: best offset, virtual against physical.
pub(crate) fn addresses(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let falls = |part, program: &str, claimed, value: fn(&Row) -> f64| {
        let [virtually, physically] =
            [false, true].map(|physical| 100.0 * value(run(study, program, BEST_OFFSET, physical)));
        claim.finding(part, physically < virtually).note(format!(
            "{virtually:.1}% by virtual, {physically:.1}% by physical addresses, claimed {claimed}."
        ))
    };
    vec![
        falls("captured pagerank, accuracy", PAGERANK, "99% and 42%", |row| row.accuracy),
        falls("captured transformer, coverage", TRANSFORMER, "76% and 26%", |row| row.coverage),
    ]
}

/// Judges CX27: BERT with hints, requests below 1 µs.
pub(crate) fn hints(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let without = share(study, TRANSFORMER, NO_PREFETCHER);
    let with = HINTED.map(|hints| share(study, TRANSFORMER, &hinted(hints)));
    vec![claim.finding("captured transformer", most(with) > without).note(format!(
        "Below 1 us without hints {without:.1}%, with chances of 10 and 50% {:.1}% and {:.1}%, \
         claimed 86% to 91%.",
        with[0], with[1]
    ))]
}
