//! The claims of Tables 1 and 3: FL12 and FL29.

use super::{database, over_seeds, p99, readings, tails_by_reading};
use crate::flatflash::FlatFlash;
use crate::flatflash::experiments::Logging;
use crate::flatflash::experiments::{
    AT_ONCE, BY_BLOCKS, CLEAN_AFTER_US, DATABASES, DEVICES_US, GRAPH_RATIO, GRAPHS, GUPS,
    OF_DATABASE, YCSB, YCSB_RATIO, at, in_rows, on_device, seeded, with_cache,
};
use crate::flatflash::experiments::{DRAM_ONLY, FLATFLASH, UNIFIED_MMAP};
use crate::flatflash::experiments::{log_pages, ratio_of_writes};
use crate::flatflash::formulas::{worth, worth_by_slow_down};
use ebbtide_study::claims::{Claim, Finding, most};

/// Judges FL12: gain over UnifiedMMap.
pub(crate) fn table_1(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let lifetime = |name: &str| {
        let written = |system| r.run(name, system).pages_written;
        ratio_of_writes(written(UNIFIED_MMAP), written(FLATFLASH))
    };
    let mut findings = vec![
        claim.finding("GUPS", r.gain(GUPS, UNIFIED_MMAP)),
        claim.finding("GUPS, lifetime", lifetime(GUPS)).note(format!(
            "Uniform updates dirty a page each: what DRAM merges on one system, the SSD-Cache does \
             on the other. Cleaned by whole blocks every {} ms, FlatFlash writes {:.1} times as \
             many pages: the claimed lifetimes count dirty pages alone.",
            CLEAN_AFTER_US / 1_000,
            r.run(GUPS, BY_BLOCKS).pages_written / r.run(GUPS, FLATFLASH).pages_written,
        )),
    ];
    for name in GRAPHS.map(|graph| graph.name) {
        let at = at(name, GRAPH_RATIO);
        findings.push(claim.finding(name, r.gain(&at, UNIFIED_MMAP)).note(readings(
            r,
            &at,
            UNIFIED_MMAP,
        )));
        let (paged, own) = (r.run(&at, UNIFIED_MMAP), r.run(&at, FLATFLASH));
        let rows = |system| r.run(&at, &in_rows(system));
        findings.push(claim.finding(&format!("{name}, lifetime"), lifetime(&at)).note(format!(
            "UnifiedMMap writes {:.2} of the {:.2} pages that it moves a job, FlatFlash {:.2} of {:.2}. Over \
             compressed rows, whose edges are only read, UnifiedMMap writes {:.4} of {:.2}, and the \
             lifetime gains {:.2}.",
            paged.pages_written,
            paged.pages_moved,
            own.pages_written,
            own.pages_moved,
            rows(UNIFIED_MMAP).pages_written,
            rows(UNIFIED_MMAP).pages_moved,
            ratio_of_writes(rows(UNIFIED_MMAP).pages_written, rows(FLATFLASH).pages_written),
        )));
    }
    for (name, _) in YCSB {
        let at = at(name, YCSB_RATIO);
        let mean = r.gain(&at, UNIFIED_MMAP);
        findings.push(
            claim
                .tail(name, over_seeds(|seed| p99(r, &seeded(&at, seed), UNIFIED_MMAP)))
                .note(format!(
                    "By p99, {}; the mean gains {mean:.2}.",
                    tails_by_reading(r, &at, UNIFIED_MMAP)
                ))
                .note("See FL22."),
        );
        findings.push(
            claim
                .finding(&format!("{name}, lifetime"), lifetime(&at))
                .note(lifetime_at_once(r, &at)),
        );
    }
    for (name, _) in DATABASES {
        let row = database(r, name, 16, DEVICES_US[0], Logging::PerTransaction);
        let run = on_device(name, DEVICES_US[0]);
        findings.push(claim.finding(name, row.over_unified_mmap).note(format!(
            "16 clients. Without commits {:.2}; with an SSD-Cache of 0.125% of the database instead of \
             the SSD {:.2}. {}",
            r.gain(&run, UNIFIED_MMAP),
            r.run(&run, UNIFIED_MMAP).job_ns / r.run(&run, &with_cache(OF_DATABASE.0)).job_ns,
            readings(r, &run, UNIFIED_MMAP),
        )));
        let written = |system| r.run(&run, system).pages_written + log_pages(name);
        let lifetime = written(UNIFIED_MMAP) / written(FLATFLASH);
        findings.push(
            claim
                .finding(&format!("{name}, lifetime"), lifetime)
                .note("Against a central log, whose records share pages.")
                .note(lifetime_at_once(r, &run)),
        );
    }
    findings
}

/// The lifetime with promotion at the first access. DRAM merges the writes of promoted pages.
fn lifetime_at_once(r: &FlatFlash, experiment: &str) -> String {
    let written = |system| r.run(experiment, system).pages_written;
    let lifetime = ratio_of_writes(written(UNIFIED_MMAP), written(AT_ONCE));
    format!("With promotion at the first access {lifetime:.2}.")
}

/// The programs of Table 3 without commits: the experiment, the operations in a job, and the
/// printed slow-down.
fn without_commits() -> [(&'static str, String, f64, f64); 5] {
    [
        ("GUPS", GUPS.to_string(), 64.0, 8.9),
        ("PageRank", at("PageRank", GRAPH_RATIO), 1.0, 11.0),
        ("CC", at("CC", GRAPH_RATIO), 1.0, 6.9),
        ("YCSB-B", at("YCSB-B", YCSB_RATIO), 1.0, 6.1),
        ("YCSB-D", at("YCSB-D", YCSB_RATIO), 1.0, 5.5),
    ]
}

/// The slow-down of every program of Table 3 relative to DRAM-only.
fn slow_downs(r: &FlatFlash) -> Vec<(&'static str, f64)> {
    let of_programs = without_commits().map(|(name, experiment, ..)| {
        (name, r.run(&experiment, FLATFLASH).job_ns / r.run(&experiment, DRAM_ONLY).job_ns)
    });
    let of_databases = DATABASES.map(|(name, _)| {
        (name, database(r, name, 16, DEVICES_US[0], Logging::PerTransaction).slow_down)
    });
    of_programs.into_iter().chain(of_databases).collect()
}

/// Judges FL5: performance for the money against DRAM-only.
pub(crate) fn worth_highlight(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let worth = slow_downs(r).into_iter().map(|(name, slow_down)| worth(name, slow_down));
    vec![claim.finding("", most(worth)).note("The most of Table 3's programs.")]
}

/// Judges FL29: slow-down and effectiveness against DRAM-only.
pub(crate) fn table_3(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, slow_down) in slow_downs(r) {
        let found = claim.finding(&format!("{name}, slow-down"), slow_down);
        findings.push(match without_commits().into_iter().find(|row| row.0 == name) {
            Some((_, experiment, operations, printed)) => {
                found.note(computing(r, &experiment, operations, printed))
            }
            None => found.note(where_time_goes(r, name)),
        });
        let part = format!("{name}, effectiveness");
        findings.push(
            claim.finding(&part, worth(name, slow_down)).note(worth_by_slow_down(name, slow_down)),
        );
    }
    let gups = findings.remove(0).inconsistent(&bound_of_gups(r)).note(
        "Nothing is computed between accesses here, for the paper does not say how much is; each \
         of these notes says how much would give the slow-down, and what it would do to the gain.",
    );
    findings.insert(0, gups);
    findings
}

/// The least loss of FlatFlash with GUPS, by the paper's own numbers.
fn bound_of_gups(r: &FlatFlash) -> String {
    const OUTSIDE: f64 = 15.0 / 16.0;
    const LINE_US: f64 = 4.8;
    let update_us = r.run(GUPS, DRAM_ONLY).job_ns / 64.0 / 1e3;
    format!(
        "DRAM holds a sixteenth of the table (§5.2), so that 15 of 16 updates read a line over the link, \
         which takes 4.8 us (Table 2). An update then takes {:.2} us at least. For a slow-down of 8.9 it \
         would take {:.2} us in DRAM, where it takes {update_us:.2} us here.",
        OUTSIDE * LINE_US,
        OUTSIDE * LINE_US / 8.9,
    )
}

/// The computing with which the printed slow-down would result.
fn computing(r: &FlatFlash, experiment: &str, operations: f64, printed: f64) -> String {
    let [own, dram, unified] =
        [FLATFLASH, DRAM_ONLY, UNIFIED_MMAP].map(|system| r.run(experiment, system).job_ns);
    // (own + x) / (dram + x) = printed
    let computing_ns = (own - printed * dram) / (printed - 1.0);
    format!(
        "{:.2} us of computing an operation would make it {printed}, and FlatFlash {:.2} times \
         as fast as UnifiedMMap.",
        computing_ns / operations / 1e3,
        (unified + computing_ns) / (own + computing_ns),
    )
}

/// The parts of the time of a database's transactions, in words.
fn where_time_goes(r: &FlatFlash, name: &str) -> String {
    let own = database(r, name, 16, DEVICES_US[0], Logging::PerTransaction);
    let job_ns = |system| r.run(&on_device(name, DEVICES_US[0]), system).job_ns;
    let without = |system| job_ns(system) / job_ns(DRAM_ONLY);
    format!(
        "16 clients; DRAM-only has its log in DRAM too. If it committed to the same SSD by pages \
         {:.2}. Without commits on either {:.1}, with promotion at the first access {:.1}: nothing is \
         computed here, and {:.1} of a transaction's {:.1} us are flash's.",
        own.slow_down_with_commits,
        without(FLATFLASH),
        without(AT_ONCE),
        (job_ns(FLATFLASH) - job_ns(DRAM_ONLY)) / 1e3,
        job_ns(FLATFLASH) / 1e3,
    )
}
