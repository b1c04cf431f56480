//! Claims of Figs. 8 to 12, about programs that use memory: FL14 to FL24.

use super::{BASELINES, over_seeds, readings, spread};
use crate::flatflash::FlatFlash;
use crate::flatflash::experiments::{
    AT_ONCE, CACHES_MIB, EQUAL, FEW_COMMANDS, GRAPH_RATIO, GRAPH_RATIOS, GRAPHS, GUPS,
    GUPS_FROM_ONE, Measure, STACKS, TWICE, WINDOWED, YCSB, YCSB_RATIO, YCSB_RATIOS, at, contiguous,
    in_rows, on_32_gib, on_less_data, on_ssd, seeded, threaded, with_cache,
};
use crate::flatflash::experiments::{FLATFLASH, TRADITIONAL_STACK, UNIFIED_MMAP};
use ebbtide_report::statistics::Estimate;
use ebbtide_study::claims::{CONVERGED, Claim, Finding, Ours};

/// Judges FL14: sequential reads, latency over UnifiedMMap's.
pub(crate) fn sequential(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let sequential = "sequential read";
    let ratios =
        [sequential, on_32_gib(sequential).as_str()].map(|on| 1.0 / r.gain(on, UNIFIED_MMAP));
    let traditional = r.run(sequential, TRADITIONAL_STACK).job_ns;
    let far = BASELINES_AND_OWN.map(|system| traditional / r.run(sequential, system).job_ns);
    let [quick, slow] = STACKS.map(|stack| {
        let stack = r.run(sequential, stack).job_ns;
        BASELINES_AND_OWN.map(|system| stack / r.run(sequential, system).job_ns)
    });
    vec![
        claim.finding("ratio", Ours::range(ratios)).note("On SSDs of 1 TB and of 32 GB."),
        claim.finding("both", far.iter().all(|far| *far > FAR_BELOW)).note(format!(
            "TraditionalStack takes {:.2} times as long as FlatFlash and {:.2} times as \
             UnifiedMMap; with 15 us of software a fault instead of 17 (HAMS, ISCA'21 §II: 15 to 20) {:.2} and \
             {:.2}, with 20 us {:.2} and {:.2}.",
            far[0], far[1], quick[0], quick[1], slow[0], slow[1],
        )),
    ]
}

/// Judges FL15: random reads, latency below the baselines'.
pub(crate) fn random(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let finding = |(part, system)| {
        let random = "random read";
        let gains = [random, on_32_gib(random).as_str()].map(|on| r.gain(on, system));
        let job_ns = |system| r.run(random, &contiguous(system)).job_ns;
        claim.finding(part, Ours::range(gains)).note(format!(
            "On SSDs of 1 TB and of 32 GB. With the pages side by side instead of over the SSD {:.2}.",
            job_ns(system) / job_ns(FLATFLASH)
        ))
    };
    BASELINES.map(finding).into()
}

/// A latency is far below another that is at least this many times as long.
const FAR_BELOW: f64 = 1.25;

const BASELINES_AND_OWN: [&str; 2] = [FLATFLASH, UNIFIED_MMAP];

/// Judges FL16: GUPS, gain over the baselines.
pub(crate) fn gups(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let [quick, slow] = STACKS.map(|stack| r.gain(GUPS, stack));
    let [unified, traditional] = BASELINES.map(|(part, system)| {
        claim.finding(part, r.gain(GUPS, system)).note(format!(
            "By one process from the sparse start of the stream {:.2}.",
            r.gain(GUPS_FROM_ONE, system)
        ))
    });
    vec![
        unified.note(posted_writes(r)),
        traditional.note(format!(
            "With 15 us of software a fault instead of 17 (HAMS, ISCA'21 §II: 15 to 20) {quick:.2}, with \
             20 us {slow:.2}."
        )),
    ]
}

/// Judges FL17: GUPS, pages moved.
pub(crate) fn pages_of_gups(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let moved = |system: &str| r.run(GUPS, system).pages_moved;
    let mut findings = Vec::new();
    let bound = bound_of_promotions();
    for (part, system) in BASELINES {
        let part = format!("{part} over FlatFlash");
        let ratio = moved(system) / moved(FLATFLASH);
        let finding = claim.finding(&part, ratio).inconsistent(&bound);
        findings.push(match system {
            UNIFIED_MMAP => finding.note(too_few_promotions(r)),
            _ => finding.note(format!(
                "With promotion at the second access {:.2}, at the first {:.2}: see UnifiedMMap's.",
                moved(system) / moved(TWICE),
                moved(system) / moved(AT_ONCE)
            )),
        });
    }
    let below = moved(UNIFIED_MMAP) < moved(TRADITIONAL_STACK);
    findings.push(claim.finding("UnifiedMMap below TraditionalStack", below));
    findings
}

/// The most pages of GUPS that Algorithm 1 can promote, by the paper's own numbers.
fn bound_of_promotions() -> String {
    const TABLE_PAGES: f64 = (32_u64 << 30) as f64 / 4096.0;
    const CACHE_PAGES: f64 = 0.00125 * (1_u64 << 40) as f64 / 4096.0;
    // During a page's stay, the cache reads as many pages as it has. Six more accesses of one page
    // are among them.
    let others = CACHE_PAGES / TABLE_PAGES;
    let seventh = (-others).exp() * others.powi(6) / 720.0;
    format!(
        "Updates are uniform over 8 M pages, and a page stays in an SSD-Cache of 0.125% of 1 TB for \
         about {:.0} k updates elsewhere. It meets {others:.2} more of these on average, so that one stay in \
         {:.0} G has the seven accesses of §3.4's threshold: FlatFlash would move next to nothing.",
        CACHE_PAGES / 1e3,
        1.0 / seventh / 1e9,
    )
}

/// Judges FL18: GUPS, gain over the size of the SSD-Cache.
pub(crate) fn caches_of_gups(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let mut caches: Vec<(u64, f64)> = CACHES_MIB
        .iter()
        .map(|mib| (*mib, r.run(GUPS, &with_cache(*mib)).job_ns))
        .chain([(1280, r.run(GUPS, FLATFLASH).job_ns)])
        .collect();
    caches.sort_by_key(|(mib, _)| *mib);
    let base = r.run(GUPS, UNIFIED_MMAP).job_ns;
    let gains: Vec<String> =
        caches.iter().map(|(mib, ns)| format!("{:.2} at {mib} MiB", base / ns)).collect();
    vec![
        claim
            .finding("", caches.is_sorted_by(|small, large| small.1 > large.1))
            .note(format!("Over UnifiedMMap: {}.", gains.join(", "))),
    ]
}

/// The assumption on posted writes, and its effect.
fn posted_writes(r: &FlatFlash) -> String {
    let slower = |experiment: &str| {
        r.run(experiment, FEW_COMMANDS).job_ns / r.run(experiment, FLATFLASH).job_ns
    };
    format!(
        "The paper posts writes at 0.6 us and gives no queue for them: they wait once 1024 \
         commands are at flash (assumption). With 16, GUPS takes {:.2} times as long, random \
         writes {:.2} times.",
        slower(GUPS),
        slower("random write"),
    )
}

/// The reason why the printed algorithm promotes hardly any page, and the needs of the other
/// claims.
fn too_few_promotions(r: &FlatFlash) -> String {
    let moved =
        |system: &str| r.run(GUPS, UNIFIED_MMAP).pages_moved / r.run(GUPS, system).pages_moved;
    let range = |reading: &str| {
        let rows = r.readings.iter().filter(|row| row.reading == reading);
        let gains: Vec<f64> = rows.map(|row| row.gain).collect();
        let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
        format!("{least:.2} to {:.2}", gains.iter().copied().fold(0.0, f64::max))
    };
    format!(
        "Algorithm 1 promotes a page at its seventh access in one stay in an SSD-Cache of 0.125%, \
         and hardly a page has so many: uniform updates least of all. FL17 and FL24 have FlatFlash \
         move two thirds of the pages that paging does, which with promotion at the second access \
         is 1/{:.0}, at the first 1/{:.2}. Over all programs the gain over UnifiedMMap is {} here, \
         {} with the reset repaired, {} where counts must equal the threshold, as listed (a page \
         past a lowered threshold is stuck then: graphs), and {} at the first access.",
        moved(TWICE),
        moved(AT_ONCE),
        range(FLATFLASH),
        range(WINDOWED),
        range(EQUAL),
        range(AT_ONCE),
    )
}

/// Judges FL19: PageRank, gain over the baselines.
pub(crate) fn page_rank(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    graph(claim, r, GRAPHS[0].name)
}

/// Judges FL20: connected components, gain over the baselines.
pub(crate) fn components(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    graph(claim, r, GRAPHS[1].name)
}

fn graph(claim: &Claim, r: &FlatFlash, name: &str) -> Vec<Finding> {
    let finding = |(part, system)| {
        let gains = spread(gains_of_graph(r, name, system));
        let middle = at(name, GRAPH_RATIO);
        let rows = |system| r.run(&middle, &in_rows(system)).job_ns;
        claim
            .finding(part, gains.range)
            .note(gains.mean)
            .note(readings(r, &middle, system))
            .note(format!("Over compressed rows {:.2}.", rows(system) / rows(FLATFLASH)))
            .note(format!(
                "A job moves {:.2} pages on FlatFlash and {:.2} on the baseline: lines of a page are \
                 read one after the other, so that nearly every page is promoted.",
                r.run(&middle, FLATFLASH).pages_moved,
                r.run(&middle, system).pages_moved,
            ))
    };
    BASELINES.map(finding).into()
}

fn gains_of_graph(r: &FlatFlash, name: &str, system: &str) -> [f64; GRAPH_RATIOS.len()] {
    GRAPH_RATIOS.map(|ratio| r.gain(&at(name, ratio), system))
}

/// Judges FL21: graphs, gain over SSD:DRAM.
pub(crate) fn larger_graphs(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let grows = |name, system| {
        let gains = gains_of_graph(r, name, system);
        gains[gains.len() - 1] > gains[0]
    };
    let all =
        GRAPHS.iter().all(|graph| BASELINES.iter().all(|(_, system)| grows(graph.name, system)));
    let over_paging = GRAPHS.map(|graph| {
        let [least, middle, most] = gains_of_graph(r, graph.name, UNIFIED_MMAP);
        format!("{} {least:.3}, {middle:.3} and {most:.3}", graph.name)
    });
    vec![claim.finding("", all).note(format!(
        "Over UnifiedMMap with data of {GRAPH_RATIOS:?} times the DRAM: {}. The systems move \
         equally many pages at each (FL19).",
        over_paging.join("; ")
    ))]
}

pub(super) fn p99(r: &FlatFlash, experiment: &str, system: &str) -> f64 {
    r.run(experiment, system).p99_ns / r.run(experiment, FLATFLASH).p99_ns
}

/// YCSB's programs at every ratio.
fn ycsb() -> impl Iterator<Item = String> {
    YCSB.iter().flat_map(|(name, _)| YCSB_RATIOS.map(|ratio| at(name, ratio)))
}

/// The gain of `name` at the largest ratio over `system` with 16 executing threads.
fn gain_threaded(r: &FlatFlash, name: &str, system: &str, of: fn(&Measure) -> f64) -> f64 {
    let of = |system| of(r.run(&at(name, YCSB_RATIO), &threaded(system)));
    of(system) / of(FLATFLASH)
}

/// Judges FL22: YCSB B and D, p99 below the baselines'.
pub(crate) fn tails(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let finding = |(part, system)| {
        let estimates: Vec<(String, Estimate)> = ycsb()
            .map(|name| (name.clone(), over_seeds(|seed| p99(r, &seeded(&name, seed), system))))
            .collect();
        let tails = spread(estimates.iter().map(|(_, estimate)| estimate.mean));
        let unknown = estimates.iter().find(|(_, estimate)| !estimate.is_within(CONVERGED));
        let largest = at(YCSB[1].0, YCSB_RATIO);
        let by_reading = format!("{largest}, {}.", tails_by_reading(r, &largest, system));
        let threads =
            spread(YCSB.map(|(name, _)| gain_threaded(r, name, system, |row| row.p99_ns)));
        let finding = claim.finding(part, tails.range).note(tails.mean).note(by_reading).note(
            format!("With 16 threads instead of one, at the largest ratio: {}", threads.mean),
        );
        let finding = match unknown {
            None => finding,
            Some((name, Estimate { mean, ci95 })) => {
                let [low, high] = ci95.unwrap_or([*mean; 2]);
                finding.not_converged(&format!(
                    "Over seeds {name} is between {low:.2} and {high:.2} (95%)."
                ))
            }
        };
        if system == UNIFIED_MMAP { finding.note(tail_bound(r)) } else { finding }
    };
    BASELINES.map(finding).into()
}

/// Judges FL23: YCSB B and D, mean latency below the baselines'.
pub(crate) fn mean_latencies(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let finding = |(part, system)| {
        let means = spread(ycsb().map(|name| r.gain(&name, system)));
        let threads =
            spread(YCSB.map(|(name, _)| gain_threaded(r, name, system, |row| row.job_ns)));
        let less = spread(YCSB.map(|(name, _)| {
            let job_ns = |system| r.run(&at(name, YCSB_RATIOS[0]), &on_less_data(system)).job_ns;
            job_ns(system) / job_ns(FLATFLASH)
        }));
        claim
            .finding(part, means.range)
            .note(means.mean)
            .note(format!("With 16 threads instead of one, at the largest ratio: {}", threads.mean))
            .note(format!(
                "With {} times as much data as DRAM, instead of more skewed requests for the same \
                 data: {}",
                YCSB_RATIOS[0], less.mean
            ))
    };
    BASELINES.map(finding).into()
}

/// Judges FL24: YCSB-B at 16×, pages moved: TraditionalStack over FlatFlash.
pub(crate) fn pages_of_ycsb(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let largest = at(YCSB[0].0, YCSB_RATIO);
    let moved = |system: &str| r.run(&largest, system).pages_moved;
    vec![claim.finding("", moved(TRADITIONAL_STACK) / moved(FLATFLASH)).note(format!(
        "With the reset repaired {:.2}, with promotion at the first access {:.2} (FL17).",
        moved(TRADITIONAL_STACK) / moved(WINDOWED),
        moved(TRADITIONAL_STACK) / moved(AT_ONCE),
    ))]
}

/// The tail with other readings of Algorithm 1.
pub(super) fn tails_by_reading(r: &FlatFlash, experiment: &str, system: &str) -> String {
    let gain = |own: &str| r.run(experiment, system).p99_ns / r.run(experiment, own).p99_ns;
    format!(
        "where counts must equal the threshold {:.2}, at the first access {:.2} (FL17)",
        gain(EQUAL),
        gain(AT_ONCE)
    )
}

/// The most that the tail of a single miss can gain, and the effect of waiting in the device.
fn tail_bound(r: &FlatFlash) -> String {
    let largest = at(YCSB[0].0, YCSB_RATIO);
    let queued = |system| r.run(&largest, &on_ssd(system)).p99_ns;
    format!(
        "By Table 2 a cold line takes 24.8 us on FlatFlash, 34.2 us on UnifiedMMap and 49 us on \
         TraditionalStack, so that tails of lone misses gain 1.38 and 1.98 at most. Where reads \
         wait in a modelled SSD (preset ull) they do so on both systems, and p99 gains {:.2}.",
        queued(UNIFIED_MMAP) / queued(FLATFLASH)
    )
}
