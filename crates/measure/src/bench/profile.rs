//! [`Profile`]: what a machine's memory modes cost, measured apart from any bench.
//!
//! Two programs whose nearly every access misses, uniform look-ups and uniform swaps, run in every
//! mode. What a job then takes beyond DRAM-only, over its misses, is what a miss costs; what swaps
//! lose beyond look-ups, over the pages they write back, is what a write-back costs.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ebbtide_core::Watch;
use ebbtide_workloads::Kind;
use serde::{Deserialize, Serialize};

use super::{BenchError, BenchOptions, Dram, Measured, Mode, Report, run};
use crate::doctor::costs::{self, Switches};
use crate::doctor::probe::{Reads, Target, random_reads};

/// What a machine costs, as `ebbtide doctor --write` stores it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The machine in a line.
    pub machine: String,
    /// Switches between threads.
    pub switches: Switches,
    /// Core time of handing reads to the kernel, in microseconds.
    pub submission: Submission,
    /// Random 4 KiB reads, by how many are in flight, ascending.
    pub reads: Vec<ReadsAt>,
    /// What a miss costs, by mode; those that this machine permits.
    pub modes: Vec<ModeCosts>,
}

/// What a submission costs a core, from the CPU time of reads handed over one by one and in batches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// The call itself and going to sleep for it, in microseconds.
    pub call_us: f64,
    /// Each read besides, in microseconds.
    pub read_us: f64,
}

/// Random 4 KiB reads with so many in flight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadsAt {
    /// Reads in flight.
    pub in_flight: u32,
    /// Reads a second.
    pub reads_per_s: f64,
    /// Mean time of one, in microseconds.
    pub mean_us: f64,
    /// 99th percentile, in microseconds.
    pub p99_us: f64,
}

/// What a miss costs in a mode.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeCosts {
    /// The mode.
    pub mode: Mode,
    /// Core time that a miss costs, in microseconds; in a mode that blocks, the read with it.
    pub miss_us: f64,
    /// Core time that a page written back costs, in microseconds.
    pub write_back_us: f64,
    /// Pages that a write to flash carries, neighbours there; 1 where that is not known.
    #[serde(default = "one")]
    pub pages_per_write: f64,
    /// Under paging: DRAM of the budget that the kernel and its threads took, in bytes.
    pub lost_bytes: u64,
}

fn one() -> f64 {
    1.0
}

impl Profile {
    /// The costs of `mode`; of the engine, whatever is tried with it.
    pub fn mode(&self, mode: Mode) -> Option<&ModeCosts> {
        let mode = if mode == Mode::Plain { Mode::Ebbtide } else { mode };
        self.modes.iter().find(|costs| costs.mode == mode)
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`BenchError::BadInput`] when it cannot be read or is no profile.
    pub fn read(path: &Path) -> Result<Profile, BenchError> {
        let bad = |reason: String| BenchError::BadInput(format!("{}: {reason}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        let profile: Profile = toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            bad(format!("line {line}: {message}; expected what `ebbtide doctor --write` writes"))
        })?;
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let ascending = profile.reads.is_sorted_by(|a, b| a.in_flight < b.in_flight);
        let sane = profile.reads.iter().all(|at| positive(at.reads_per_s) && positive(at.mean_us));
        if profile.reads.is_empty() || !ascending || !sane {
            return Err(bad("reads: expected at least one, by rising in_flight".to_string()));
        }
        let not_negative = |value: f64| value.is_finite() && value >= 0.0;
        if let Some(costs) = profile
            .modes
            .iter()
            .find(|costs| !not_negative(costs.miss_us) || !not_negative(costs.write_back_us))
        {
            return Err(bad(format!("modes, {}: expected costs of at least 0", costs.mode)));
        }
        let not_whole = |costs: &&ModeCosts| !positive(costs.pages_per_write.floor());
        if let Some(costs) = profile.modes.iter().find(not_whole) {
            return Err(bad(format!(
                "modes, {}: expected pages_per_write of at least 1",
                costs.mode
            )));
        }
        Ok(profile)
    }

    /// Writes it to `path`: the file appears when it is whole.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let text = toml::to_string(self).map_err(std::io::Error::other)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        writeln!(
            file,
            "# Measured by `ebbtide doctor --write`. Times in the units of their keys.\n"
        )?;
        file.write_all(text.as_bytes())?;
        file.persist(path).map(drop).map_err(|error| error.error)
    }
}

/// Data of the probing programs, and DRAM for an eighth of it: seven of eight accesses miss.
const PROBE_BYTES: u64 = 512 << 20;
const PROBE_DRAM: f64 = 0.125;

/// Execution between misses of the probing programs, in microseconds: few enough misses that no
/// disk worth the name is what limits them.
const PROBE_INTERVAL_US: f64 = 25.0;

/// Reads in flight at which the device is measured, and for how long.
const QUEUE_DEPTHS: [u32; 7] = [1, 4, 8, 16, 32, 64, 128];
const SECONDS_PER_DEPTH: Duration = Duration::from_millis(400);

/// Measures the costs of `modes`, in files beside `data` that are gone afterwards, and what else a
/// profile holds.
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
    let Measured { report, .. } = run(&options, watch.telling(&within))?;
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

/// What both probing programs say about `mode`; nothing if it did not run.
fn mode_costs(report: &Report, mode: Mode) -> Option<ModeCosts> {
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

/// What a miss of one program costs in one mode.
struct Lost {
    /// Core time a miss.
    us: f64,
    /// Pages written back a miss.
    write_backs: f64,
    /// Pages that a write carries.
    pages_per_write: f64,
    /// DRAM of the budget in which the kernel, where it pages, held no data.
    lost_bytes: u64,
}

impl Lost {
    fn of(report: &Report, workload: Kind, mode: Mode) -> Option<Lost> {
        let mut results = report.results.iter();
        let own =
            results.find(|outcome| outcome.workload == workload.name() && outcome.mode == mode)?;
        let misses = own.misses_per_job?.median;
        let facts = report.workloads.iter().find(|facts| facts.workload == workload.name())?;
        // A job in DRAM was timed by itself; against it, modes were timed turn by turn. The time in
        // which the engine had nothing to run is not what a miss costs it.
        let idle = match mode {
            Mode::Ebbtide | Mode::Plain => own.idle_share.map_or(0.0, |idle| idle.median),
            _ => 0.0,
        };
        let longer = (1.0 - idle) / own.ratio_to_dram.median - 1.0;
        let us = longer * facts.calibration.job_ns / 1e3 / misses;
        let held = own.page_cache_bytes.unwrap_or(report.config.dram_bytes);
        Some(Lost {
            us: us.max(0.0),
            write_backs: own.flash_writes_per_s.median / (own.jobs_per_s.median * misses),
            pages_per_write: own.pages_per_write.map_or(1.0, |pages| pages.median),
            lost_bytes: report.config.dram_bytes.saturating_sub(held),
        })
    }
}

/// The data files of the probing programs, removed when this goes.
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

    fn profile() -> Profile {
        Profile {
            machine: "a machine".to_string(),
            switches: Switches { user_ns: 20.0, os_us: 2.0 },
            submission: Submission { call_us: 5.0, read_us: 1.0 },
            reads: vec![ReadsAt { in_flight: 1, reads_per_s: 1e4, mean_us: 100.0, p99_us: 200.0 }],
            modes: vec![ModeCosts {
                mode: Mode::Ebbtide,
                miss_us: 2.0,
                write_back_us: 1.0,
                pages_per_write: 8.0,
                lost_bytes: 0,
            }],
        }
    }

    #[test]
    fn a_profile_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("machine.toml");
        profile().write(&path).expect("it can be written");
        assert_eq!(Profile::read(&path).expect("it is one"), profile());
    }

    #[test]
    fn what_is_no_profile_is_refused_with_file_and_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("machine.toml");
        let said = |text: &str| {
            fs::write(&path, text).expect("a file");
            let said = Profile::read(&path).expect_err("it is none").to_string();
            assert!(said.contains("machine.toml") && !said.contains('\n'), "{said}");
            said
        };
        assert!(said("machine = 7\n").contains("line 1"));
        assert!(said("").contains("doctor --write"));
        let whole = toml::to_string(&profile()).expect("TOML");
        assert!(said(&whole.replace("miss_us = 2.0", "miss_us = -2.0")).contains("at least 0"));
        let none = whole.replace("pages_per_write = 8.0", "pages_per_write = 0.0");
        assert!(said(&none).contains("at least 1"));
        assert!(said(&whole.replace("miss_us", "mis_us")).contains("mis_us"));
        let missing = Profile::read(&folder.path().join("none")).expect_err("it is not there");
        assert!(missing.is_input());
    }

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
