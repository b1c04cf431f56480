//! `ebbtide doctor`: the abilities of this machine, the speed of its flash, and what is missing,
//! with its cost and its fix.
//!
//! [`examine`] reports an item that cannot be examined as a diagnosis, not as an error.

pub mod costs;
mod diagnosis;
pub mod disk;
mod flush;
mod gaps;
mod kernel;
pub mod machine;
mod memory;
mod paths;
pub mod probe;
mod storage;

use std::path::{Path, PathBuf};
use std::time::Duration;

use ebbtide_core::{Stopped, Watch};
use thiserror::Error;

pub use diagnosis::{Diagnosis, DoctorReport, Status};
pub use flush::Flushes;
use machine::{MachineSummary, ServedBy};
use probe::{ProbeError, Reads, Target};

/// The options of an examination.
#[derive(Clone, Debug)]
pub struct DoctorOptions {
    /// Location of the data. In a folder, a test file is made and removed. A data file or block
    /// device is only read. `None` is the current folder.
    pub data: Option<PathBuf>,
    /// Length of the measurement at each queue depth, in seconds. Zero measures nothing.
    pub seconds_per_depth: f64,
    /// Queue depths to measure.
    pub queue_depths: Vec<u32>,
    /// Size of the test file in bytes. It never takes more than a quarter of the free space.
    pub test_file_bytes: u64,
}

impl Default for DoctorOptions {
    fn default() -> DoctorOptions {
        DoctorOptions {
            data: None,
            seconds_per_depth: 0.4,
            queue_depths: vec![1, 4, 8, 16, 32, 64, 128],
            test_file_bytes: 512 << 20,
        }
    }
}

/// Why an examination failed.
#[derive(Debug, Error)]
pub enum DoctorError {
    /// The data path does not exist.
    #[error("{}: {source}; expected a folder, a file or a block device", path.display())]
    Data {
        /// The path as given.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// An invalid option.
    #[error("{option}: {given}, expected {expected}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// The given value.
        given: String,
        /// The expected value.
        expected: &'static str,
    },
    /// The examination was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Examines this machine. Removes its test file, also if `watch` stops the examination.
///
/// # Errors
/// [`DoctorError`] if the data path does not exist, an option is invalid, or `watch` requests a
/// stop.
pub fn examine(options: &DoctorOptions, watch: Watch<'_>) -> Result<DoctorReport, DoctorError> {
    check(options)?;
    let data = options.data.clone().unwrap_or_else(|| PathBuf::from("."));
    let about = std::fs::metadata(&data)
        .map_err(|source| DoctorError::Data { path: data.clone(), source })?;
    watch.tell("looking at the system", 0.0)?;
    let folder = if about.is_dir() { data.clone() } else { parent(&data) };
    let measured = measure(options, &data, about.is_dir(), watch)?;

    let disks = disk::behind(&data).map(|disks| disks_judged(disks, &measured));
    let mut machine = MachineSummary::of_system();
    machine.disks = disks.clone().unwrap_or_default();
    machine.reads = measured.reads.clone();
    machine.reads_from = measured.served_by();
    machine.flushes = measured.flushes.clone().ok();
    let mut findings = kernel::findings();
    if options.seconds_per_depth > 0.0 {
        findings.push(gaps::finding(Duration::from_secs_f64(options.seconds_per_depth)));
    }
    findings.extend(memory::findings());
    findings.extend(storage::findings((&data, &folder), disks, &measured));
    Ok(DoctorReport { machine, data, findings })
}

/// Returns the disks, with the medium according to their reads.
fn disks_judged(mut disks: Vec<disk::Disk>, measured: &Measured) -> Vec<disk::Disk> {
    let one = measured.reads.iter().find(|reads| reads.queue_depth == 1);
    let read_us = one.map(|reads| reads.mean_us).filter(|_| measured.direct.is_ok());
    for disk in &mut disks {
        disk.medium = disk::Medium::of(disk.rotational.value().copied(), read_us);
    }
    disks
}

/// Measured reads by queue depth, with the reason if they used the page cache. Flushes, or the
/// reason why they were not measured.
#[derive(Debug)]
struct Measured {
    reads: Vec<Reads>,
    direct: Result<(), String>,
    failure: Option<String>,
    flushes: Result<Flushes, String>,
}

impl Measured {
    fn served_by(&self) -> ServedBy {
        if self.direct.is_ok() { ServedBy::Disk } else { ServedBy::Dram }
    }
}

fn measure(
    options: &DoctorOptions,
    data: &Path,
    is_folder: bool,
    watch: Watch<'_>,
) -> Result<Measured, DoctorError> {
    let flushes = Err("only a folder is written to: give --data one".into());
    let mut measured = Measured { reads: Vec::new(), direct: Ok(()), failure: None, flushes };
    // Writing the test file takes about as long as two measurements.
    let steps = options.queue_depths.len() as f64 + 3.0;
    let target = if is_folder {
        // Without measurements, one page tells whether direct I/O works.
        let wanted = if options.seconds_per_depth > 0.0 { options.test_file_bytes } else { 1 };
        let bytes = storage::free_bytes(data).map_or(wanted, |free| wanted.min(free / 4));
        let within = |stage: &str, share: f64| watch.show(stage, 2.0 * share / steps);
        Target::temporary(data, bytes, watch.telling(&within))
    } else {
        Target::open(data)
    };
    let target = match target {
        Ok(target) => target,
        Err(ProbeError::Stopped(stopped)) => return Err(stopped.into()),
        Err(error) => {
            measured.direct = Err(error.to_string());
            measured.failure = Some(error.to_string());
            measured.flushes = Err(error.to_string());
            return Ok(measured);
        }
    };
    measured.direct = match disk::memory_file_system(data) {
        Some(name) => Err(format!("{name} keeps its files in DRAM")),
        None => target.direct().map_err(str::to_string),
    };
    if options.seconds_per_depth == 0.0 {
        measured.flushes = Err("no measurement was asked for".into());
        return Ok(measured);
    }
    let duration = Duration::from_secs_f64(options.seconds_per_depth);
    for (index, &depth) in options.queue_depths.iter().enumerate() {
        let step = format!("reading at queue depth {depth}");
        watch.tell(&step, (index as f64 + 2.0) / steps)?;
        match probe::random_reads(&target, depth, duration) {
            Ok(reads) => measured.reads.push(reads),
            Err(error) => {
                measured.failure = Some(error.to_string());
                break;
            }
        }
    }
    if is_folder {
        watch.tell("flushing", (steps - 1.0) / steps)?;
        measured.flushes = match &measured.direct {
            Ok(()) => flush::measure(&target, duration).map_err(|error| error.to_string()),
            Err(reason) => Err(reason.clone()),
        };
    }
    Ok(measured)
}

fn check(options: &DoctorOptions) -> Result<(), DoctorError> {
    let seconds = options.seconds_per_depth;
    if !(0.0..=3600.0).contains(&seconds) {
        return Err(DoctorError::Option {
            option: "seconds per depth",
            given: seconds.to_string(),
            expected: "0 to 3600",
        });
    }
    if let Some(depth) = options.queue_depths.iter().find(|depth| !(1..=4096).contains(*depth)) {
        return Err(DoctorError::Option {
            option: "queue depth",
            given: depth.to_string(),
            expected: "1 to 4096",
        });
    }
    Ok(())
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}
