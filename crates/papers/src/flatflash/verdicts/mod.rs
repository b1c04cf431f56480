//! The verdict on each claim of FlatFlash.

pub(super) mod programs;
pub(super) mod tables;

use ebbtide_core::Span;
use ebbtide_sim::designs::resolve;

use self::programs::{p99, tails_by_reading};
use super::FlatFlash;
use super::experiments::{
    AT_ONCE, DEVICES_US, DatabaseRow, EQUAL, FILE_SYSTEMS, FLATFLASH, FileRow, GRAPH_RATIOS,
    GRAPHS, GUPS, Logging, OPERATIONS, PAGE_INTERVAL, SEEDS, TRADITIONAL_STACK, UNIFIED_MMAP, YCSB,
    YCSB_RATIO, YCSB_RATIOS, at, gain_of_tpcb, seeded,
};
use ebbtide_report::statistics::Estimate;
use ebbtide_study::claims::{Claim, Finding, Ours, geometric_mean, most};

/// The systems, with their names in the claims.
const BASELINES: [(&str, &str); 2] =
    [("UnifiedMMap", UNIFIED_MMAP), ("TraditionalStack", TRADITIONAL_STACK)];

/// Several values. Their range is judged.
struct Spread {
    range: Ours,
    /// Their geometric mean, in words.
    mean: String,
    geometric_mean: f64,
    most: f64,
}

fn spread(values: impl IntoIterator<Item = f64>) -> Spread {
    let values: Vec<f64> = values.into_iter().collect();
    let (range, most) = (Ours::range(values.iter().copied()), most(values.iter().copied()));
    let geometric_mean = geometric_mean(values);
    let mean = format!("Geometric mean {geometric_mean:.2}.");
    Spread { range, mean, geometric_mean, most }
}

/// Judges FL1: memory-intensive programs over UnifiedMMap.
pub(super) fn memory_highlight(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let graphs = GRAPHS.iter().flat_map(|graph| GRAPH_RATIOS.map(|ratio| at(graph.name, ratio)));
    let memory = graphs.chain([GUPS.to_string()]).map(|name| r.gain(&name, UNIFIED_MMAP));
    let at_once = r.readings.iter().filter(|row| row.reading == AT_ONCE).map(|row| row.gain);
    vec![claim.finding("", spread(memory).most).note(format!(
        "With promotion at the first access at most {:.2}; see FL17.",
        spread(at_once).most
    ))]
}

/// Judges FL2: reduction of tail latency.
pub(super) fn tail_highlight(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let most_of = |seed| {
        let names = YCSB.iter().flat_map(|(name, _)| YCSB_RATIOS.map(|ratio| at(name, ratio)));
        most(names.map(|name| p99(r, &seeded(&name, seed), UNIFIED_MMAP)))
    };
    let tails_at_once = YCSB.map(|(name, _)| {
        let name = at(name, YCSB_RATIO);
        r.run(&name, UNIFIED_MMAP).p99_ns / r.run(&name, AT_ONCE).p99_ns
    });
    vec![claim.tail("", over_seeds(most_of)).note(format!(
        "With promotion at the first access at most {:.2}; see FL22.",
        spread(tails_at_once).most
    ))]
}

/// Judges FL3: database throughput.
pub(super) fn database_highlight(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let databases = own_logs(r, DEVICES_US[0]).map(|row| row.over_unified_mmap);
    vec![claim.finding("", spread(databases).most).note(format!(
        "The most of any database and number of clients, each transaction with its own log. On \
         UnifiedMMap 16 clients of TPCB wait for the device, which takes a page every {} us \
         (assumption): {}.",
        PAGE_INTERVAL.as_ns() as f64 / 1e3,
        by_interval(r, DEVICES_US[0]),
    ))]
}

/// The estimate of `of` over the seeds of YCSB.
fn over_seeds(of: impl Fn(u64) -> f64) -> Estimate {
    Estimate::of(&(0..SEEDS).map(of).collect::<Vec<_>>())
}

/// The gain of TPCB on devices that accept pages at other intervals.
fn by_interval(r: &FlatFlash, device_us: u64) -> String {
    let at = |ps| gain_of_tpcb(r, device_us, Span::from_ps(ps));
    let interval = PAGE_INTERVAL.as_ps();
    format!("twice as often {:.2}, half as often {:.2}", at(interval / 2), at(interval * 2))
}

/// Judges FL11: constants of adaptive promotion.
pub(super) fn constants(claim: &Claim, _: &FlatFlash) -> Vec<Finding> {
    let config = resolve(FLATFLASH, &[]).expect("a shipped design resolves");
    let promotion = config.promotion.expect("FlatFlash promotes");
    vec![
        claim.finding("lower ratio", promotion.lower_ratio),
        claim.finding("higher ratio", promotion.higher_ratio),
        claim.finding("greatest threshold", promotion.threshold_max as f64),
        claim.finding("epoch", promotion.epoch as f64),
    ]
}

/// The gain with the other readings of Algorithm 1. FL17's note explains them.
fn readings(r: &FlatFlash, experiment: &str, system: &str) -> String {
    let gain = |own: &str| r.run(experiment, system).job_ns / r.run(experiment, own).job_ns;
    format!(
        "Where counts must equal the threshold {:.2}, at the first access {:.2} (FL17).",
        gain(EQUAL),
        gain(AT_ONCE)
    )
}

/// The values of the rows of file systems for which `is_of` is true.
fn of_files(r: &FlatFlash, is_of: impl Fn(&FileRow) -> bool, value: fn(&FileRow) -> f64) -> Spread {
    spread(r.files.iter().filter(|row| is_of(row)).map(value))
}

/// Judges FL4: reduction of the cost of file-system metadata.
pub(super) fn metadata_highlight(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let most = of_files(r, |_| true, |row| row.gain).most;
    vec![claim.finding("", most).note("The most of any operation and file system.")]
}

/// Judges FL13: file systems, gain over UnifiedMMap.
pub(super) fn by_operation(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let mut findings = Vec::new();
    for operation in OPERATIONS {
        let same = |row: &FileRow| row.operation == operation.name;
        let gain = of_files(r, same, |row| row.gain);
        findings.push(claim.finding(operation.name, gain.range).note(gain.mean));
        let lifetime = of_files(r, same, |row| row.lifetime);
        let part = format!("{}, lifetime", operation.name);
        findings.push(claim.finding(&part, lifetime.range).note(format!(
            "{} The battery-backed cache merges small pieces for as long as they stay in it; \
             the paper writes them back from time to time, in whole blocks, and does not say \
             how often.",
            lifetime.mean
        )));
    }
    findings
}

/// Judges FL25: file systems, gain.
pub(super) fn by_file_system(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let of = |name| of_files(r, |row| row.file_system == name, |row| row.gain);
    let finding = |name| {
        let gain = of(name);
        claim.finding(name, gain.range).note(gain.mean)
    };
    FILE_SYSTEMS.iter().map(|file_system| finding(file_system.name)).collect()
}

fn database<'a>(
    r: &'a FlatFlash,
    name: &str,
    clients: usize,
    device_us: u64,
    logging: Logging,
) -> &'a DatabaseRow {
    let found = r.databases.iter().find(|row| {
        row.database == name
            && row.clients == clients
            && row.device_us == device_us
            && row.logging == logging
    });
    found.expect("every database has every point")
}

/// The rows with a log for each transaction, as in Fig. 14.
fn own_logs(r: &FlatFlash, device_us: u64) -> impl Iterator<Item = &DatabaseRow> {
    let own = |row: &&DatabaseRow| row.logging == Logging::PerTransaction;
    r.databases.iter().filter(own).filter(move |row| row.device_us == device_us)
}

/// Judges FL27: databases, gain over the baselines.
pub(super) fn databases(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let unified = spread(own_logs(r, DEVICES_US[0]).map(|row| row.over_unified_mmap));
    let traditional = spread(own_logs(r, DEVICES_US[0]).map(|row| row.over_traditional_stack));
    let central = r
        .databases
        .iter()
        .filter(|row| row.logging == Logging::Central && row.device_us == DEVICES_US[0]);
    let central = spread(central.map(|row| row.over_unified_mmap));
    vec![
        claim.finding("UnifiedMMap", unified.range).note(format!(
            "{} With central logs on both {:.2}.",
            unified.mean, central.geometric_mean
        )),
        claim.finding("TraditionalStack", traditional.range).note(traditional.mean),
    ]
}

/// Judges FL28: databases, 16 threads, faster devices, over UnifiedMMap.
pub(super) fn faster_devices(claim: &Claim, r: &FlatFlash) -> Vec<Finding> {
    let faster = r.databases.iter().filter(|row| {
        row.logging == Logging::PerTransaction
            && row.clients == 16
            && row.device_us != DEVICES_US[0]
    });
    let most = spread(faster.map(|row| row.over_unified_mmap)).most;
    vec![claim.finding("", most).note(format!(
        "The most of any database on devices of 10 and 5 us. It is TPCB's pages that wait (FL3): \
         with 5 us and pages taken {}.",
        by_interval(r, DEVICES_US[DEVICES_US.len() - 1])
    ))]
}
