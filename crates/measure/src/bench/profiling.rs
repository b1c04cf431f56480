//! [`measure`]: measures a [`Profile`] of this machine.
//!
//! Two programs run in every mode: uniform look-ups and uniform swaps. Nearly every access of both
//! misses. The cost of a miss is the time of a job beyond its time in DRAM-only, over its misses.
//! The cost of a write-back is the time that swaps lose beyond look-ups, over the pages that they
//! write back.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebbtide_core::Watch;
use ebbtide_workloads::Kind;

use super::error::BenchError;
use super::figures::Figure;
use super::options::{BenchOptions, Dram, Mode};
use super::profile::{ModeCosts, Profile, ReadsAt, Submission};
use super::{BenchReport, BenchRun, run};
use crate::doctor::costs;
use crate::doctor::probe::{Reads, Target, random_reads};

/// Data of the probing programs, with DRAM for an eighth of it: seven of eight accesses miss.
const PROBE_BYTES: u64 = 512 << 20;
const PROBE_DRAM: f64 = 0.125;

/// Execution between misses of the probing programs, in microseconds. Misses are so rare that no
/// usable disk limits the programs.
const PROBE_INTERVAL_US: f64 = 25.0;

/// Reads in flight at which the device is measured, and for how long.
const QUEUE_DEPTHS: [u32; 7] = [1, 4, 8, 16, 32, 64, 128];
const SECONDS_PER_DEPTH: Duration = Duration::from_millis(400);

/// Measures the costs of `modes` and the rest of a profile, in files next to `data` that are
/// removed at the end.
///
/// # Errors
/// As [`run`].
pub fn measure(data: &Path, modes: &[Mode], watch: Watch<'_>) -> Result<Profile, BenchError> {
    let mut file = data.as_os_str().to_owned();
    file.push(".probe");
    let files = ProbeFiles(PathBuf::from(file));
    let options = BenchOptions {
        workloads: vec![Kind::HashTable.name(), Kind::ArraySwap.name()],
        modes: modes.to_vec(),
        dataset_bytes: PROBE_BYTES,
        dram: Dram::Share(PROBE_DRAM),
        theta: 0.0,
        miss_interval_us: PROBE_INTERVAL_US,
        ..BenchOptions::new(files.0.clone())
    };
    let within =
        |stage: &str, share: f64| watch.show(&format!("what misses cost: {stage}"), share * 0.9);
    let BenchRun { report, .. } = run(&options, watch.telling(&within))?;
    watch.tell("what the device does", 0.9)?;
    let target = Target::open(&files.0)?;
    let reads = QUEUE_DEPTHS.map(|depth| random_reads(&target, depth, SECONDS_PER_DEPTH));
    let reads: Vec<Reads> = reads.into_iter().collect::<Result<_, _>>()?;
    let modes = modes.iter().filter_map(|mode| mode_costs(&report, *mode)).collect();
    Ok(Profile {
        machine: report.machine.headline.clone(),
        switches: costs::switches().map_err(BenchError::Switches)?,
        submission: submission(&reads),
        reads: reads.iter().map(reads_at).collect(),
        modes,
    })
}

fn reads_at(reads: &Reads) -> ReadsAt {
    ReadsAt {
        in_flight: reads.queue_depth,
        reads_per_s: reads.iops,
        mean_us: reads.mean_us,
        p99_us: reads.p99_us,
    }
}

/// Splits the CPU time of reads into that of each call and that of each read.
fn submission(reads: &[Reads]) -> Submission {
    let (Some(first), Some(last)) = (reads.first(), reads.last()) else {
        return Submission { call_us: 0.0, read_us: 0.0 };
    };
    let calls = |reads: &Reads| 1.0 / f64::from(costs::reads_a_call(reads.queue_depth));
    let fewer = calls(first) - calls(last);
    let call_us = if fewer > 0.0 {
        ((first.cpu_us_per_read - last.cpu_us_per_read) / fewer).max(0.0)
    } else {
        0.0
    };
    Submission { call_us, read_us: (last.cpu_us_per_read - call_us * calls(last)).max(0.0) }
}

/// Returns the costs of `mode` from both probing programs; nothing if it did not run.
fn mode_costs(report: &BenchReport, mode: Mode) -> Option<ModeCosts> {
    let (reads, writes) =
        (Lost::of(report, Kind::HashTable, mode)?, Lost::of(report, Kind::ArraySwap, mode)?);
    let write_back_us = if writes.write_backs > 0.0 {
        ((writes.us - reads.us) / writes.write_backs).max(0.0)
    } else {
        0.0
    };
    Some(ModeCosts {
        mode,
        miss_us: reads.us,
        write_back_us,
        pages_per_write: writes.pages_per_write,
        lost_bytes: reads.lost_bytes,
    })
}

/// Costs of a miss of one program in one mode.
struct Lost {
    /// Core time a miss.
    us: f64,
    /// Pages written back a miss.
    write_backs: f64,
    /// Pages that a write carries.
    pages_per_write: f64,
    /// DRAM of the budget in which the paging kernel held no data.
    lost_bytes: u64,
}

impl Lost {
    fn of(report: &BenchReport, workload: Kind, mode: Mode) -> Option<Lost> {
        let mut results = report.results.iter();
        let own =
            results.find(|outcome| outcome.workload == workload.name() && outcome.mode == mode)?;
        let misses = own.number(Figure::MissesPerJob)?;
        let facts = report.workloads.iter().find(|facts| facts.workload == workload.name())?;
        // A job in DRAM was timed by itself; against it, modes were timed turn by turn. The time in
        // which the engine had nothing to run is not what a miss costs it.
        let idle = match mode {
            Mode::Ebbtide | Mode::Mapped | Mode::Plain | Mode::Durable => {
                own.number(Figure::IdleShare).unwrap_or(0.0)
            }
            _ => 0.0,
        };
        let longer = (1.0 - idle) / own.number(Figure::RatioToDram)? - 1.0;
        let us = longer * facts.calibration.job_ns / 1e3 / misses;
        let held = own.number(Figure::PageCacheBytes).map(|bytes| bytes as u64);
        let written_per_s = own.number(Figure::FlashWritesPerS)?;
        Some(Lost {
            us: us.max(0.0),
            write_backs: written_per_s / (own.number(Figure::JobsPerS)? * misses),
            pages_per_write: own.number(Figure::PagesPerWrite).unwrap_or(1.0),
            lost_bytes: held.map_or(0, |held| report.config.dram_bytes.saturating_sub(held)),
        })
    }
}

/// The data files of the probing programs. Dropping it removes them.
struct ProbeFiles(PathBuf);

impl Drop for ProbeFiles {
    fn drop(&mut self) {
        for suffix in ["", ".sync", ".paging"] {
            let mut path = self.0.clone().into_os_string();
            path.push(suffix);
            // One that was never made needs no removal.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::probe::Issued;

    #[test]
    fn the_cost_of_a_call_is_told_from_that_of_a_read() {
        let reads = |queue_depth, cpu_us_per_read| Reads {
            queue_depth,
            issued: Issued::IoUring,
            iops: 1e4,
            mean_us: 100.0,
            p50_us: 100.0,
            p99_us: 100.0,
            cpu_us_per_read,
        };
        // 8 us a call and 1 us a read, one and sixteen to a call.
        let split = submission(&[reads(1, 9.0), reads(128, 1.5)]);
        assert!((split.call_us - 8.0).abs() < 1e-9 && (split.read_us - 1.0).abs() < 1e-9);
    }
}
