//! How many drives AstriFlash's throughput takes.

use ebbtide_sim::Outcome;
use ebbtide_workloads::Kind;
use serde::Serialize;

use super::{Outcomes, Run, Setting};

/// A drive that can be bought.
pub(super) struct Drive {
    /// The preset of flash.
    pub(super) preset: &'static str,
    pub(super) name: &'static str,
    /// Bandwidth of its link.
    pub(super) gb_per_s: &'static str,
}

/// A drive of 2022 and one of 2024. Four lanes of PCIe 4.0 and 5.0 carry 7 and 14 GB/s of data.
pub(super) const DRIVES: [Drive; 2] = [
    Drive { preset: "tlc-pcie4", name: "PCIe 4.0, 2022", gb_per_s: "7" },
    Drive { preset: "tlc-pcie5", name: "PCIe 5.0, 2024", gb_per_s: "14" },
];

/// Numbers of drives.
pub(super) const COUNTS: [&str; 4] = ["1", "2", "4", "8"];

/// The programs: the one that reads most and the one that writes most.
pub(super) const PROGRAMS: [(&str, Kind); 2] =
    [("Hash Table", Kind::HashTable), ("Array Swap", Kind::ArraySwap)];

/// Jobs of a run: more than the write buffers of eight drives take in.
pub(super) const JOBS: u64 = 100_000;

/// The scheduler is told of arrivals: guessed by age, a core waits for every read that takes longer
/// than the mean, which differs from drive to drive and with load.
const TOLD: Setting = ("switch.arrivals", "notified");

/// Share of the throughput over flash without limits from which drives are enough.
const ENOUGH: f64 = 0.98;

/// A program over some drives of a kind.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DriveRow {
    /// The program.
    pub workload: &'static str,
    /// The kind of drive; flash without limits in the first row of a program.
    pub drive: &'static str,
    /// How many.
    pub drives: Option<&'static str>,
    /// Throughput relative to DRAM-only.
    pub throughput: f64,
    /// Flash reads a second.
    pub reads_per_s: f64,
    /// Share of writes among the requests of flash, in percent.
    pub write_percent: f64,
}

/// The run of a program over `drives` of a kind, or over flash without limits.
fn run(workload: Kind, over: Option<(&'static Drive, &'static str)>) -> Run {
    let run = Run::of("astriflash", workload).set(TOLD.0, TOLD.1).only(JOBS);
    match over {
        Some((drive, count)) => run.over([
            ("flash.preset", drive.preset),
            ("flash.drives", count),
            ("link.bandwidth_gb_per_s", drive.gb_per_s),
        ]),
        None => run,
    }
}

fn all() -> impl Iterator<Item = (&'static str, Kind, Option<(&'static Drive, &'static str)>)> {
    PROGRAMS.into_iter().flat_map(|(name, workload)| {
        let each = |drive| COUNTS.map(|count| Some((drive, count)));
        let over = std::iter::once(None).chain(DRIVES.iter().flat_map(each));
        over.map(move |over| (name, workload, over))
    })
}

/// Every run.
pub(super) fn runs() -> impl Iterator<Item = Run> {
    all().map(|(_, workload, over)| run(workload, over))
}

/// The rows from the outcomes of all runs.
pub(super) fn rows(outcomes: &Outcomes) -> Vec<DriveRow> {
    let row = |(name, workload, over): (_, _, Option<(&'static Drive, _)>)| {
        let Outcome { ratio_to_dram, flash, simulated_ns, .. } = outcomes.of(&run(workload, over));
        let (reads, writes) = (flash.reads as f64, flash.writes as f64);
        DriveRow {
            workload: name,
            drive: over.map_or("without limits", |(drive, _)| drive.name),
            drives: over.map(|(_, count)| count),
            throughput: *ratio_to_dram,
            reads_per_s: reads * 1e9 / *simulated_ns as f64,
            write_percent: 100.0 * writes / (reads + writes),
        }
    };
    all().map(row).collect()
}

/// How many drives of each kind are enough, in words.
pub(crate) fn enough(rows: &[DriveRow]) -> String {
    let mut told = Vec::new();
    for (name, _) in PROGRAMS {
        let own = || rows.iter().filter(|row| row.workload == name);
        let Some(without) = own().find(|row| row.drives.is_none()) else { continue };
        for Drive { name: kind, .. } in DRIVES {
            let of_kind = || own().filter(|row| row.drive == kind);
            let enough = of_kind().find(|row| row.throughput >= ENOUGH * without.throughput);
            let one = of_kind().next().map_or(f64::NAN, |row| 100.0 * row.throughput);
            let count = match enough.and_then(|row| row.drives) {
                Some(count) => count.to_string(),
                None => format!("more than {}", COUNTS[COUNTS.len() - 1]),
            };
            told.push(format!("{name}, {kind}: {count} (one keeps {one:.0}%)"));
        }
    }
    format!(
        "Drives that keep {:.0}% of the throughput over flash without limits, where the scheduler is told of \
         arrivals: {}.",
        100.0 * ENOUGH,
        told.join("; ")
    )
}
