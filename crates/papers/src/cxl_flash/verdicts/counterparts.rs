//! The claims about the study's real programs that captured programs of their kind decide in
//! direction: CX1 to CX3, CX17, CX19, CX21, CX22 and CX24 to CX27.
//!
//! A transformer stands for BERT, igraph's PageRank for GAP's, povray for Splash-3's radiosity, and
//! Redis under YCSB's workload F and xz for themselves. All are smaller, behind smaller caches, and
//! their accesses come at other intervals.

use super::captured::{accuracy_and_pollution, best_run, lifetime, prefetchers, run};
use super::{BEST_OFFSET, LEAP, NO_PREFETCHER, percent};
use crate::cxl_flash::CxlFlash;
use crate::cxl_flash::claims::CLAIMS;
use crate::cxl_flash::experiments::{COUNTERPARTS, HINTED, POLICIES, PREFETCHERS, Row, hinted};
use ebbtide_study::claims::{Finding, least, most};

const TRANSFORMER: &str = COUNTERPARTS[0];
const PAGERANK: &str = COUNTERPARTS[1];
const POVRAY: &str = COUNTERPARTS[2];
const XZ: &str = COUNTERPARTS[3];
const REDIS: &str = COUNTERPARTS[4];

/// How the captured PageRank differs from the study's, which loads and builds its graph too.
const ONLY_RANKING: &str = "The trace of PageRank is of the ranking alone. It reads in 96% of its \
     accesses, one every 14 ns, where the study's program reads in 68%, one every 51 ns.";

/// How footprints differ, by `traces/README.md` and Table 5.
const FOOTPRINTS: &str =
    "The footprints are 20, 16, 20, 13 and 33 times the cache; the study's 8, 59, 26, 14 and 29.";

/// The findings of captured programs that do what the study's real ones do.
pub(super) fn all(study: &CxlFlash) -> Vec<Finding> {
    [ranks(study), replacement(study), prefetching(study), addresses_and_hints(study)].concat()
}

/// The program's name in the names of parts of claims.
fn short(program: &str) -> &str {
    program.trim_end_matches(", captured")
}

/// A value of every program, in words.
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

/// The best policy's.
fn best_policy(study: &CxlFlash, program: &str) -> f64 {
    most(POLICIES.map(|name| policy(study, program, name)))
}

/// CX1 to CX3 and CX19: which program has the least or the most.
fn ranks(study: &CxlFlash) -> Vec<Finding> {
    let best = |program| percent(best_run(study, program));
    let years = |program| lifetime(study, program);
    let without = |program| best_policy(study, program);
    let last = format!("Years with the best prefetcher: {}.", shown(years));
    vec![
        CLAIMS
            .found("CX1", "captured pagerank", best(PAGERANK) <= least(COUNTERPARTS.map(best)))
            .note(format!("Below 1 us with the best prefetcher, in %: {}.", shown(best)))
            .note(ONLY_RANKING)
            .note(FOOTPRINTS),
        CLAIMS
            .found("CX2", "captured pagerank", years(PAGERANK) <= least(COUNTERPARTS.map(years)))
            .note(&last)
            .note(ONLY_RANKING),
        CLAIMS
            .found("CX3", "captured povray", years(POVRAY) >= most(COUNTERPARTS.map(years)))
            .note(last),
        CLAIMS
            .found(
                "CX19",
                "captured transformer over pagerank",
                without(TRANSFORMER) > without(PAGERANK),
            )
            .note(format!("Below 1 us under the best policy, in %: {}.", shown(without))),
    ]
}

/// CX17.
fn replacement(study: &CxlFlash) -> Vec<Finding> {
    let cflru_is_best = |program: &'static str| {
        let shares = POLICIES.map(|name| format!("{name} {:.2}", policy(study, program, name)));
        let over_lru = |count: fn(&Row) -> u64| {
            let [cflru, lru] =
                ["cflru", "lru"].map(|policy| count(with_policy(study, program, policy)) as f64);
            100.0 * (cflru / lru - 1.0)
        };
        let best = policy(study, program, "cflru") >= best_policy(study, program);
        let part = format!("CFLRU for captured {}", short(program));
        CLAIMS.found("CX17", &part, best).note(format!(
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

/// CX21, CX22, CX24 and CX25.
fn prefetching(study: &CxlFlash) -> Vec<Finding> {
    let at = |program: &str, name: &str| run(study, program, name, true);
    let share = |program: &str, name: &str| percent(at(program, name));
    let without = |program: &str| share(program, NO_PREFETCHER);
    let with = |program: &'static str| prefetchers().map(move |name| share(program, name));
    let found = |program: &'static str, holds: bool| {
        let shares = PREFETCHERS.map(|(_, name)| format!("{name} {:.1}", share(program, name)));
        let accurate = prefetchers().map(|name| {
            let row = at(program, name);
            format!("{name} {:.0}% and {:.0}%", 100.0 * row.accuracy, 100.0 * row.coverage)
        });
        CLAIMS.found("CX21", &format!("captured {}", short(program)), holds).note(format!(
            "In %: {}. Accuracy and coverage: {}.",
            shares.join(", "),
            accurate.collect::<Vec<_>>().join(", "),
        ))
    };
    let hurts = |program| found(program, with(program).all(|share| share < without(program)));
    let helps = |program| found(program, most(with(program)) > without(program));
    let accuracy = |program: &str, name| 100.0 * at(program, name).accuracy;
    let under_miss = |name| at(POVRAY, name).hits_under_miss;
    let [transformer, povray] = [TRANSFORMER, POVRAY].map(|program| accuracy(program, LEAP));
    let (of_xz, covered) = (accuracy(XZ, BEST_OFFSET), 100.0 * at(XZ, BEST_OFFSET).coverage);
    let correlation = accuracy_and_pollution(study, &[TRANSFORMER, REDIS]);
    vec![
        hurts(TRANSFORMER),
        hurts(XZ),
        hurts(REDIS),
        helps(PAGERANK).note(ONLY_RANKING),
        helps(POVRAY),
        CLAIMS
            .found(
                "CX22",
                "captured povray, requests below 1 µs",
                share(POVRAY, BEST_OFFSET) > without(POVRAY),
            )
            .note(format!(
                "{:.1}% with best offset, {:.1}% without.",
                share(POVRAY, BEST_OFFSET),
                without(POVRAY)
            )),
        CLAIMS
            .found(
                "CX22",
                "captured povray, hits under miss",
                under_miss(BEST_OFFSET) < under_miss(NO_PREFETCHER),
            )
            .note(format!(
                "{} with best offset, {} without.",
                under_miss(BEST_OFFSET),
                under_miss(NO_PREFETCHER)
            )),
        CLAIMS
            .found(
                "CX24",
                "Leap on captured povray over transformer, accuracy",
                povray > transformer,
            )
            .note(format!("{povray:.0}% over {transformer:.0}%, claimed 85% over 27%.")),
        CLAIMS
            .found("CX24", "best offset on captured xz, accuracy over coverage", of_xz > covered)
            .note(format!("{of_xz:.0}% over {covered:.0}%, claimed 48% over 4%.")),
        CLAIMS
            .found("CX25", "captured transformer, redis", correlation < 0.0)
            .note(format!("Rank correlation of accuracy and pollution {correlation:.2}.")),
    ]
}

/// CX26 and CX27.
fn addresses_and_hints(study: &CxlFlash) -> Vec<Finding> {
    let falls = |part, program: &str, claimed, value: fn(&Row) -> f64| {
        let [virtually, physically] =
            [false, true].map(|physical| 100.0 * value(run(study, program, BEST_OFFSET, physical)));
        CLAIMS.found("CX26", part, physically < virtually).note(format!(
            "{virtually:.1}% by virtual, {physically:.1}% by physical addresses, claimed {claimed}."
        ))
    };
    let without = percent(run(study, TRANSFORMER, NO_PREFETCHER, true));
    let with = HINTED.map(|hints| percent(run(study, TRANSFORMER, &hinted(hints), true)));
    vec![
        falls("captured pagerank, accuracy", PAGERANK, "99% and 42%", |row| row.accuracy),
        falls("captured transformer, coverage", TRANSFORMER, "76% and 26%", |row| row.coverage),
        CLAIMS.found("CX27", "captured transformer", most(with) > without).note(format!(
            "Below 1 us without hints {without:.1}%, with chances of 10 and 50% {:.1}% and {:.1}%, \
             claimed 86% to 91%.",
            with[0], with[1]
        )),
    ]
}
