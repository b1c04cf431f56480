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
    GRAPHS, GUPS, Logging, OPERATIONS, PAGE_INTERVAL, SEEDS, TRADITIONAL_STACK, UNIFIED_MMAP, YCSB,
    YCSB_RATIO, YCSB_RATIOS, at, gain_of_tpcb, seeded,
};
use crate::{ReproduceError, Selection};
use ebbtide_report::statistics::Estimate;
use ebbtide_study::claims::{Finding, Findings, Ours, geometric_mean, most};

/// The system and what the claims call it.
const BASELINES: [(&str, &str); 2] =
    [("UnifiedMMap", UNIFIED_MMAP), ("TraditionalStack", TRADITIONAL_STACK)];

/// Every claim.
pub(super) fn findings(r: &FlatFlash, selection: &Selection) -> Result<Findings, ReproduceError> {
    type Decide = fn(&FlatFlash) -> Vec<Finding>;
    let groups: [(&[&str], Decide); 11] = [
        (&["FL1"], memory_highlight),
        (&["FL2"], tail_highlight),
        (&["FL3"], database_highlight),
        (&["FL12"], tables::table_1),
        (&["FL4", "FL13", "FL25"], files),
        (&["FL14", "FL15"], programs::micro),
        (&["FL16", "FL17", "FL18"], programs::gups),
        (&["FL19", "FL20", "FL21"], programs::graphs),
        (&["FL22", "FL23", "FL24"], programs::ycsb),
        (&["FL27", "FL28"], databases),
        (&["FL29"], tables::table_3),
    ];
    let mut decided = constants()?;
    for (_, decide) in groups.iter().filter(|(claims, _)| selection.takes_any(claims)) {
        decided.extend(decide(r));
    }
    decided.extend(super::formulas::findings());
    Ok(CLAIMS.findings(decided).only(|id| selection.takes(id)))
}

/// Several values, which are judged by their range.
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

fn memory_highlight(r: &FlatFlash) -> Vec<Finding> {
    let graphs = GRAPHS.iter().flat_map(|(name, _)| GRAPH_RATIOS.map(|ratio| at(name, ratio)));
    let memory = graphs.chain([GUPS.to_string()]).map(|name| r.gain(&name, UNIFIED_MMAP));
    let at_once = r.readings.iter().filter(|row| row.reading == AT_ONCE).map(|row| row.gain);
    vec![CLAIMS.found("FL1", "", spread(memory).most).note(format!(
        "With promotion at the first access at most {:.2}; see FL17.",
        spread(at_once).most
    ))]
}

fn tail_highlight(r: &FlatFlash) -> Vec<Finding> {
    let most_of = |seed| {
        let names = YCSB.iter().flat_map(|(name, _)| YCSB_RATIOS.map(|ratio| at(name, ratio)));
        most(names.map(|name| p99(r, &seeded(&name, seed), UNIFIED_MMAP)))
    };
    let tails_at_once = YCSB.map(|(name, _)| {
        let name = at(name, YCSB_RATIO);
        r.run(&name, UNIFIED_MMAP).p99_ns / r.run(&name, AT_ONCE).p99_ns
    });
    vec![CLAIMS.found_tail("FL2", "", over_seeds(most_of)).note(format!(
        "With promotion at the first access at most {:.2}; see FL22.",
        spread(tails_at_once).most
    ))]
}

fn database_highlight(r: &FlatFlash) -> Vec<Finding> {
    let databases = own_logs(r, DEVICES_US[0]).map(|row| row.over_unified_mmap);
    vec![CLAIMS.found("FL3", "", spread(databases).most).note(format!(
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
    let mut findings = vec![
        CLAIMS
            .found("FL4", "", spread(r.files.iter().map(|row| row.gain)).most)
            .note("The most of any operation and file system."),
    ];
    for operation in OPERATIONS {
        let same = |row: &FileRow| row.operation == operation.name;
        let gain = of(&same, |row| row.gain);
        findings.push(CLAIMS.found("FL13", operation.name, gain.range).note(gain.mean));
        let lifetime = of(&same, |row| row.lifetime);
        findings.push(CLAIMS.found("FL13", &format!("{}, lifetime", operation.name), lifetime.range).note(
            format!(
                "{} The battery-backed cache merges small pieces for as long as they stay in it; \
                 the paper writes them back from time to time, in whole blocks, and does not say \
                 how often.",
                lifetime.mean
            ),
        ));
    }
    for file_system in FILE_SYSTEMS {
        let gain = of(&|row: &FileRow| row.file_system == file_system.name, |row| row.gain);
        findings.push(CLAIMS.found("FL25", file_system.name, gain.range).note(gain.mean));
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
        CLAIMS.found("FL27", "UnifiedMMap", unified.range).note(format!(
            "{} With central logs on both {:.2}.",
            unified.mean, central.geometric_mean
        )),
        CLAIMS.found("FL27", "TraditionalStack", traditional.range).note(traditional.mean),
        CLAIMS.found("FL28", "", spread(faster.map(|row| row.over_unified_mmap)).most).note(
            format!(
                "The most of any database on devices of 10 and 5 us. It is TPCB's pages that wait \
             (FL3): with 5 us and pages taken {}.",
                by_interval(r, DEVICES_US[DEVICES_US.len() - 1])
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_alone_finds_the_runs_that_it_needs() {
        let everything = FlatFlash::made_up(&Selection::All).runs.len();
        for claim in CLAIMS.iter() {
            let selection = Selection::Claims(vec![claim.id]);
            let made_up = FlatFlash::made_up(&selection);
            let found = findings(&made_up, &selection).expect("a shipped design resolves");
            let ids: Vec<&str> = found.claims.iter().map(|finding| finding.id).collect();
            assert_eq!(ids, vec![claim.id; claim.parts().len()]);
            assert!(made_up.runs.len() < everything || ["FL12", "FL29"].contains(&claim.id));
        }
    }
}
