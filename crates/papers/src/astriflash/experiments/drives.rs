//! The number of drives that AstriFlash's throughput needs.

use ebbtide_flash::Config;
use ebbtide_sim::Outcome;
use ebbtide_workloads::Kind;
use serde::Serialize;

use super::{Outcomes, Run, Setting, TYPICAL_US};

/// A drive on the market.
pub(super) struct Drive {
    /// The preset of flash.
    pub(super) preset: &'static str,
    pub(super) name: &'static str,
    /// Bandwidth of its link, in GB/s.
    pub(super) gb_per_s: &'static str,
}

/// A drive of 2022 and one of 2024. Four lanes of PCIe 4.0 and 5.0 carry 7 and 14 GB/s of data.
pub(super) const DRIVES: [Drive; 2] = [
    Drive { preset: "tlc-pcie4", name: "PCIe 4.0, 2022", gb_per_s: "7" },
    Drive { preset: "tlc-pcie5", name: "PCIe 5.0, 2024", gb_per_s: "14" },
];

/// The tested numbers of drives.
pub(super) const COUNTS: [&str; 4] = ["1", "2", "4", "8"];

/// The programs with the most reads and with the most writes.
pub(super) const PROGRAMS: [(&str, Kind); 2] =
    [("Hash Table", Kind::HashTable), ("Array Swap", Kind::ArraySwap)];

/// The least number of jobs of a run. Their writes exceed the write buffers of eight drives.
const JOBS: u64 = 100_000;

/// Jobs of a program that writes, for each plane of the drives. Every second job writes a page. A
/// quick run has [`JOBS`] for any number of drives.
const JOBS_A_PLANE: u64 = 1_600;

/// Writes a plane for a steady state. A plane of an aged drive begins at a random point between two
/// collections, so a short run sees more collections. One drive of 2022 programs 7.24 pages a write
/// with 106 writes a plane. With 863 writes it programs 4.79 pages, with 1,732 writes 4.78.
const STEADY_WRITES: f64 = 800.0;

/// The scheduler is notified of arrivals. If it guessed them by age, a core would wait for every
/// read that takes longer than the mean. The mean differs from drive to drive and with load.
const TOLD: Setting = ("switch.arrivals", "notified");

/// Drives are enough at this share of the throughput over flash without limits.
const ENOUGH: f64 = 0.98;

/// A program over a number of drives of one kind.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DriveRow {
    /// The program.
    pub workload: &'static str,
    /// The kind of drive. The first row of a program has flash without limits.
    pub drive: &'static str,
    /// The number of drives.
    pub drives: Option<&'static str>,
    /// Throughput relative to DRAM-only.
    pub throughput: f64,
    /// Flash reads a second.
    pub reads_per_s: f64,
    /// Share of writes among the requests of flash, in percent.
    pub write_percent: f64,
    /// Writes for each plane of the drives, on average.
    pub writes_a_plane: Option<f64>,
    /// True if the drives had enough writes for a steady state. The throughput of a shorter run is
    /// too low.
    pub steady: bool,
}

/// Planes of `count` drives of a kind.
fn planes(drive: &Drive, count: &str) -> u64 {
    let Ok(Config::Ssd(config)) = Config::preset(drive.preset) else {
        unreachable!("a drive is a preset of an SSD")
    };
    u64::from(config.planes()) * count.parse::<u64>().expect("a count of drives")
}

/// Jobs of a run. If the program writes and the run is not `quick`, they bring the drives to a
/// steady state.
fn jobs(workload: Kind, over: Option<(&'static Drive, &'static str)>, quick: bool) -> u64 {
    match over {
        Some((drive, count)) if !quick && workload == Kind::ArraySwap => {
            JOBS.max(planes(drive, count) * JOBS_A_PLANE)
        }
        _ => JOBS,
    }
}

/// The run of a program over `drives` of a kind, or over flash without limits.
fn run(workload: Kind, over: Option<(&'static Drive, &'static str)>, quick: bool) -> Run {
    let jobs = jobs(workload, over, quick);
    let run = Run::of("astriflash", workload).at_us(TYPICAL_US);
    let run = run.set(TOLD.0, TOLD.1).only(jobs);
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
pub(super) fn runs(quick: bool) -> impl Iterator<Item = Run> {
    all().map(move |(_, workload, over)| run(workload, over, quick))
}

/// The rows for the outcomes of all runs.
pub(super) fn rows(outcomes: &Outcomes, quick: bool) -> Vec<DriveRow> {
    let row = |(name, workload, over): (_, _, Option<(&'static Drive, _)>)| {
        let run = run(workload, over, quick);
        let Outcome { ratio_to_dram, flash, simulated_ns, .. } = outcomes.of(&run);
        let (reads, writes) = (flash.reads as f64, flash.writes as f64);
        let writes_a_plane = over.map(|(drive, count)| writes / planes(drive, count) as f64);
        DriveRow {
            workload: name,
            drive: over.map_or("without limits", |(drive, _)| drive.name),
            drives: over.map(|(_, count)| count),
            throughput: *ratio_to_dram,
            reads_per_s: reads * 1e9 / *simulated_ns as f64,
            write_percent: 100.0 * writes / (reads + writes),
            writes_a_plane,
            steady: writes_a_plane.is_none_or(is_steady),
        }
    };
    all().map(row).collect()
}

/// Whether a plane with this many writes is in a steady state. With almost no writes, it keeps its
/// initial state.
fn is_steady(writes_a_plane: f64) -> bool {
    !(1.0..STEADY_WRITES).contains(&writes_a_plane)
}

/// The number of drives of each kind that are enough, in words.
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
            let short = match of_kind().find(|row| !row.steady).and_then(|row| row.drives) {
                Some(from) => format!(", too short a run with {from} and more"),
                None => String::new(),
            };
            told.push(format!("{name}, {kind}: {count} (one keeps {one:.0}%{short})"));
        }
    }
    format!(
        "Drives that keep {:.0}% of the throughput over flash without limits at {TYPICAL_US} us between \
         misses, where the scheduler is told of arrivals: {}.",
        100.0 * ENOUGH,
        told.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_a_program_that_writes_are_as_long_as_their_planes_need_unless_they_are_quick() {
        let jobs = |drive: usize, count, quick| {
            super::jobs(Kind::ArraySwap, Some((&DRIVES[drive], count)), quick)
        };
        // A drive of 2022 has 64 planes.
        assert_eq!(planes(&DRIVES[0], "8"), 512);
        assert_eq!(jobs(0, "8", false), 512 * JOBS_A_PLANE);
        assert_eq!(jobs(0, "8", true), JOBS);
        assert!((0..2).all(|drive| 8 * jobs(drive, "1", false) == jobs(drive, "8", false)));
        let reads = super::jobs(Kind::HashTable, Some((&DRIVES[0], "8")), false);
        assert_eq!(reads, JOBS, "reads leave a plane as it is");
    }

    #[test]
    fn rows_of_too_few_writes_are_told_of() {
        let row = |drive, drives, throughput, writes_a_plane: Option<f64>| DriveRow {
            workload: "Array Swap",
            drive,
            drives,
            throughput,
            reads_per_s: 1e6,
            write_percent: 50.0,
            writes_a_plane,
            steady: writes_a_plane.is_none_or(is_steady),
        };
        let rows = |writes| {
            [
                row("without limits", None, 0.96, None),
                row(DRIVES[0].name, Some("1"), 0.06, Some(863.0)),
                row(DRIVES[0].name, Some("2"), 0.12, Some(writes)),
            ]
        };
        assert!(enough(&rows(430.0)).contains("one keeps 6%, too short a run with 2 and more)"));
        assert!(!enough(&rows(860.0)).contains("too short"));
        assert!(is_steady(0.0), "a program that only reads");
    }
}
