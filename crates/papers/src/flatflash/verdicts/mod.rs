//! The verdict on each claim of FlatFlash.

mod programs;
mod tables;

use ebbtide_core::Span;
use ebbtide_sim::designs::resolve;

use self::programs::{p99, tails_by_reading};
use super::FlatFlash;
use super::claims::CLAIMS;
use super::experiments::{
    AT_LEAST, AT_ONCE, DEVICES_US, DatabaseRow, FILE_SYSTEMS, FLATFLASH, FileRow, GRAPH_RATIOS,
    GRAPHS, GUPS, Logging, OPERATIONS, PAGE_INTERVAL, TRADITIONAL_STACK, UNIFIED_MMAP, YCSB,
    YCSB_RATIO, YCSB_RATIOS, at, gain_of_tpcb,
};
use crate::ReproduceError;
use ebbtide_study::claims::{Finding, Findings, geometric_mean, least, most};

/// The system and what the claims call it.
const BASELINES: [(&str, &str); 2] =
    [("UnifiedMMap", UNIFIED_MMAP), ("TraditionalStack", TRADITIONAL_STACK)];

/// Every claim.
pub(super) fn findings(r: &FlatFlash) -> Result<Findings, ReproduceError> {
    let mut decided = [
        highlights(r),
        constants()?,
        tables::table_1(r),
        files(r),
        programs::micro(r),
        programs::gups(r),
        programs::graphs(r),
        programs::ycsb(r),
        databases(r),
        tables::table_3(r),
    ]
    .concat();
    decided.extend(super::formulas::findings());
    Ok(CLAIMS.findings(decided))
}

/// The geometric mean of several values, and their range in words.
struct Spread {
    mean: f64,
    range: String,
    most: f64,
}

fn spread(values: impl IntoIterator<Item = f64>) -> Spread {
    let values: Vec<f64> = values.into_iter().collect();
    let (least, most) = (least(values.iter().copied()), most(values.iter().copied()));
    let range = format!("Geometric mean; from {least:.2} to {most:.2}.");
    Spread { mean: geometric_mean(values), range, most }
}

fn highlights(r: &FlatFlash) -> Vec<Finding> {
    let graphs = GRAPHS.iter().flat_map(|(name, _)| GRAPH_RATIOS.map(|ratio| at(name, ratio)));
    let memory = graphs.chain([GUPS.to_string()]).map(|name| r.gain(&name, UNIFIED_MMAP));
    let tails = YCSB.iter().flat_map(|(name, _)| YCSB_RATIOS.map(|ratio| at(name, ratio)));
    let tails = tails.map(|name| p99(r, &name, UNIFIED_MMAP));
    let tails_at_once = YCSB.map(|(name, _)| {
        let name = at(name, YCSB_RATIO);
        r.run(&name, UNIFIED_MMAP).p99_ns / r.run(&name, AT_ONCE).p99_ns
    });
    let databases = own_logs(r, DEVICES_US[0]).map(|row| row.over_unified_mmap);
    let at_once = r.readings.iter().filter(|row| row.reading == AT_ONCE).map(|row| row.gain);
    vec![
        CLAIMS.found("FL1", "", spread(memory).most).note(format!(
            "With promotion at the first access at most {:.2}, databases included; see FL17.",
            spread(at_once).most
        )),
        CLAIMS.found("FL2", "", spread(tails).most).note(format!(
            "With promotion at the first access at most {:.2}; see FL22.",
            spread(tails_at_once).most
        )),
        CLAIMS.found("FL3", "", spread(databases).most).note(format!(
            "The most of any database and number of clients, each transaction with its own log. On \
             UnifiedMMap 16 clients of TPCB wait for the device, which takes a page every {} us \
             (assumption): {}.",
            PAGE_INTERVAL.as_ns() as f64 / 1e3,
            by_interval(r, DEVICES_US[0]),
        )),
        CLAIMS
            .found("FL4", "", spread(r.files.iter().map(|row| row.gain)).most)
            .note("The most of any operation and file system."),
    ]
}

/// The gain of TPCB on devices that take pages at other intervals.
fn by_interval(r: &FlatFlash, device_us: u64) -> String {
    let at = |ps| gain_of_tpcb(r, device_us, Span::from_ps(ps));
    let interval = PAGE_INTERVAL.as_ps();
    format!("twice as often {:.2}, half as often {:.2}", at(interval / 2), at(interval * 2))
}

fn constants() -> Result<Vec<Finding>, ReproduceError> {
    let config = resolve(FLATFLASH, &[])?;
    let promotion = config.promotion.expect("FlatFlash promotes");
    Ok(vec![
        CLAIMS.found("FL11", "lower ratio", promotion.lower_ratio),
        CLAIMS.found("FL11", "higher ratio", promotion.higher_ratio),
        CLAIMS.found("FL11", "greatest threshold", promotion.threshold_max as f64),
        CLAIMS.found("FL11", "epoch", promotion.epoch as f64),
    ])
}

/// The gain under the other readings of Algorithm 1, which FL17's note explains.
fn readings(r: &FlatFlash, experiment: &str, system: &str) -> String {
    let gain = |own: &str| r.run(experiment, system).job_ns / r.run(experiment, own).job_ns;
    format!(
        "Where at least the threshold promotes {:.2}, at the first access {:.2} (FL17).",
        gain(AT_LEAST),
        gain(AT_ONCE)
    )
}

fn files(r: &FlatFlash) -> Vec<Finding> {
    let of = |of: &dyn Fn(&FileRow) -> bool, value: fn(&FileRow) -> f64| {
        spread(r.files.iter().filter(|row| of(row)).map(value))
    };
    let mut findings = Vec::new();
    for operation in OPERATIONS {
        let same = |row: &FileRow| row.operation == operation.name;
        let gain = of(&same, |row| row.gain);
        findings.push(CLAIMS.found("FL13", operation.name, gain.mean).note(gain.range));
        let lifetime = of(&same, |row| row.lifetime);
        findings.push(CLAIMS.found("FL13", &format!("{}, lifetime", operation.name), lifetime.mean).note(
            format!(
                "{} The battery-backed cache merges small pieces for as long as they stay in it; \
                 the paper writes them back from time to time, in whole blocks, and does not say \
                 how often.",
                lifetime.range
            ),
        ));
    }
    for file_system in FILE_SYSTEMS {
        let gain = of(&|row: &FileRow| row.file_system == file_system.name, |row| row.gain);
        findings.push(CLAIMS.found("FL25", file_system.name, gain.mean).note(gain.range));
    }
    findings
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

/// The rows in which each transaction has its own log, as in Fig. 14.
fn own_logs(r: &FlatFlash, device_us: u64) -> impl Iterator<Item = &DatabaseRow> {
    let own = |row: &&DatabaseRow| row.logging == Logging::PerTransaction;
    r.databases.iter().filter(own).filter(move |row| row.device_us == device_us)
}

fn databases(r: &FlatFlash) -> Vec<Finding> {
    let unified = spread(own_logs(r, DEVICES_US[0]).map(|row| row.over_unified_mmap));
    let traditional = spread(own_logs(r, DEVICES_US[0]).map(|row| row.over_traditional_stack));
    let central = r
        .databases
        .iter()
        .filter(|row| row.logging == Logging::Central && row.device_us == DEVICES_US[0]);
    let central = spread(central.map(|row| row.over_unified_mmap));
    let faster = r.databases.iter().filter(|row| {
        row.logging == Logging::PerTransaction
            && row.clients == 16
            && row.device_us != DEVICES_US[0]
    });
    vec![
        CLAIMS
            .found("FL27", "UnifiedMMap", unified.mean)
            .note(format!("{} With central logs on both {:.2}.", unified.range, central.mean)),
        CLAIMS.found("FL27", "TraditionalStack", traditional.mean).note(traditional.range),
        CLAIMS.found("FL28", "", spread(faster.map(|row| row.over_unified_mmap)).most).note(
            format!(
                "The most of any database on devices of 10 and 5 us. It is TPCB's pages that wait \
             (FL3): with 5 us and pages taken {}.",
                by_interval(r, DEVICES_US[DEVICES_US.len() - 1])
            ),
        ),
    ]
}
