//! The claims whose direction all captured traces show: CX15, CX17, CX25 to CX27.
//!
//! The traces are from small programs behind a small last-level cache, in front of a small device
//! cache. They are not expected to reach the study's numbers, as its programs are others.

use super::{BEST_OFFSET, NO_PREFETCHER, percent, wear};
use crate::cxl_flash::CxlFlash;
use crate::cxl_flash::experiments::Row;
use crate::cxl_flash::experiments::{CAPTURED, COUNTERPARTS};
use crate::cxl_flash::experiments::{
    CAPTURED_CACHE_LARGE, CAPTURED_FIGURE, HINTED, POLICIES, PREFETCHERS, hinted, of_space,
};
use crate::cxl_flash::formulas::performance_for_the_money;
use ebbtide_report::statistics::rank_correlation;
use ebbtide_study::analytic::lifetime::Cells;
use ebbtide_study::claims::{Claim, Finding, most};

const NEXT_LINE: &str = PREFETCHERS[1].1;
const SQLITE: &str = CAPTURED[3].name;

/// All prefetchers except none.
pub(super) fn prefetchers() -> impl Iterator<Item = &'static str> {
    PREFETCHERS.iter().skip(1).map(|(_, name)| *name)
}

fn programs() -> impl Iterator<Item = &'static str> {
    CAPTURED.iter().map(|captured| captured.name)
}

pub(super) fn run<'a>(study: &'a CxlFlash, program: &str, setup: &str, physical: bool) -> &'a Row {
    study.at(CAPTURED_FIGURE, program, &of_space(setup, physical))
}

/// The run of `program` with the prefetcher that is best for it.
pub(super) fn best_run<'a>(study: &'a CxlFlash, program: &str) -> &'a Row {
    let rows = PREFETCHERS.map(|(_, name)| run(study, program, name, true));
    let best = rows.into_iter().max_by(|a, b| a.sub_us.total_cmp(&b.sub_us));
    best.expect("there are prefetchers")
}

/// The lifetime of flash under `program` with its best prefetcher, in the paper's years.
pub(super) fn lifetime(study: &CxlFlash, program: &str) -> f64 {
    wear(best_run(study, program), Cells::Ull.endurance_cycles()).working_years()
}

/// The lifetime of flash under captured programs, in words.
pub(super) fn lifetimes(study: &CxlFlash) -> String {
    let years = programs().map(|program| format!("{program} {:.1}", lifetime(study, program)));
    format!("With the best prefetcher, in such years: {}.", years.collect::<Vec<_>>().join("; "))
}

/// The performance for the money of captured programs, in words.
pub(super) fn worth(study: &CxlFlash) -> String {
    let worth = programs().map(|program| {
        let [dear, cheap] = performance_for_the_money(best_run(study, program).sub_us);
        format!("{program} {dear:.0} to {cheap:.0}x")
    });
    format!("Performance for the money: {}.", worth.collect::<Vec<_>>().join("; "))
}

/// The rank correlation of accuracy and pollution over prefetchers on `programs`.
pub(super) fn accuracy_and_pollution(study: &CxlFlash, programs: &[&str]) -> f64 {
    let rows = programs
        .iter()
        .flat_map(|program| prefetchers().map(move |name| run(study, program, name, true)));
    rank_correlation(&rows.map(|row| (row.accuracy, row.pollution)).collect::<Vec<_>>())
}

/// The value of every program by virtual and by physical addresses.
fn both(study: &CxlFlash, setup: &str, value: fn(&Row) -> f64) -> Vec<[f64; 2]> {
    let value = |program, physical| value(run(study, program, setup, physical));
    programs().map(|program| [false, true].map(|physical| value(program, physical))).collect()
}

fn shown(values: &[[f64; 2]]) -> String {
    let shown = programs().zip(values).map(|(program, [one, other])| {
        format!("{} {one:.1} then {other:.1}", program.trim_end_matches(", captured"))
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// The finding that the value under the prefetcher `name` is lower by physical addresses.
fn falls(
    claim: &Claim,
    part: &str,
    study: &CxlFlash,
    name: &str,
    value: fn(&Row) -> f64,
) -> Finding {
    let small = both(study, name, value);
    let large = both(study, &format!("{name}, {CAPTURED_CACHE_LARGE}"), value);
    claim.finding(part, small.iter().all(|[one, other]| other < one)).note(format!(
        "In %, by virtual then physical addresses: {}. With {CAPTURED_CACHE_LARGE} of cache: {}.",
        shown(&small),
        shown(&large)
    ))
}

/// Judges CX15: requests below 1 µs, by virtual and physical addresses.
pub(crate) fn addresses(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let below = falls(claim, "captured programs, physical below", study, NEXT_LINE, percent);
    vec![below.note(format!(
        "Without a prefetcher, where frames only fall into other sets: {}. Next line is right \
         in {:.0}% of sqlite's and {:.0}% of the transformer's by virtual addresses in so small a \
         cache, so that it has little to lose.",
        shown(&both(study, NO_PREFETCHER, percent)),
        100.0 * run(study, SQLITE, NEXT_LINE, false).accuracy,
        100.0 * run(study, COUNTERPARTS[0], NEXT_LINE, false).accuracy,
    ))]
}

/// Judges CX17: replacement policies and ways.
pub(crate) fn ways(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let at = |program: &str, setup: &str| run(study, program, setup, true);
    let ways = |program: &str, policy: &str, ways: u64| {
        percent(at(program, &format!("{policy}, {ways} ways")))
    };
    let one_way = |program: &str| ways(program, POLICIES[0], 1);
    let best = |program: &str, count| most(POLICIES.map(|policy| ways(program, policy, count)));
    let more_ways = programs().all(|program| {
        one_way(program) <= best(program, 4) && best(program, 4) <= best(program, 16)
    });
    let by_ways = programs().map(|program| {
        let [four, sixteen] = [4, 16].map(|count| best(program, count));
        format!("{program} {:.2}, {four:.2}, {sixteen:.2}", one_way(program))
    });

    let misses = programs().map(|program| {
        let [four, sixteen] = [4, 16].map(|ways| {
            let row = at(program, &format!("lru, {ways} ways"));
            100.0 * row.misses as f64 / row.accesses as f64
        });
        format!("{program} {four:.1}, {sixteen:.1}")
    });
    vec![claim.finding("more ways, captured programs", more_ways).note(format!(
        "Below 1 us with 1, 4, 16 ways, in %: {}. An access to a page that is nearly there is \
         below 1 us too, and fewer misses make fewer of those: misses under LRU with 4 and 16 \
         ways, in %: {}.",
        by_ways.collect::<Vec<_>>().join("; "),
        misses.collect::<Vec<_>>().join("; ")
    ))]
}

/// Judges CX25: low accuracy goes with high pollution.
pub(crate) fn correlation(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let correlation = accuracy_and_pollution(study, &CAPTURED.each_ref().map(|one| one.name));
    vec![
        claim
            .finding("captured programs", correlation < 0.0)
            .note(format!("Rank correlation of accuracy and pollution {correlation:.2}.")),
    ]
}

/// Judges CX26: best offset, virtual against physical.
pub(crate) fn best_offset(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let falls = |part, value| falls(claim, part, study, BEST_OFFSET, value);
    vec![
        falls("captured programs, accuracy", |row| 100.0 * row.accuracy),
        falls("captured programs, coverage", |row| 100.0 * row.coverage),
    ]
}

/// Judges CX27: BERT with hints, requests below 1 µs.
pub(crate) fn hints(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let at = |program: &str, setup: &str| percent(run(study, program, setup, true));
    let without = |program: &str| at(program, NO_PREFETCHER);
    let hinted = |program: &str| HINTED.map(|hints| at(program, &hinted(hints)));
    let helped = programs().all(|program| most(hinted(program)) > without(program));
    let by_hints = programs().map(|program| {
        let [some, more] = hinted(program);
        format!("{program} {:.1}, {some:.1}, {more:.1}", without(program))
    });
    vec![claim.finding("captured programs", helped).note(format!(
        "Below 1 us without hints, and with chances of 10 and 50%, in %: {}.",
        by_hints.collect::<Vec<_>>().join("; ")
    ))]
}
