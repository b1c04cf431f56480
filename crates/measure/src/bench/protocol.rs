//! The protocol between the bench and its children: one JSON object per line.
//!
//! Every memory under test lives in a process of its own. So its resident memory and CPU time are
//! its own, and a memory limit affects nothing else.

use std::path::PathBuf;

use ebbtide_core::durability::Policy;
use ebbtide_engine::Tuning;
use ebbtide_engine::device::path::DevicePath;
use ebbtide_workloads::Scatter;
use serde::{Deserialize, Serialize};

use super::GraphFile;
use super::options::{Flash, Mode};

/// The setup of a child: one memory and one workload.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Setup {
    /// The memory.
    pub mode: Mode,
    /// The workload by name.
    pub workload: String,
    /// Upper bound of the image in bytes.
    pub dataset_bytes: u64,
    /// The graph to run on, if it is from a file.
    pub graph: Option<GraphFile>,
    /// The file of the steps to replay, if the workload is a trace.
    pub replay: Option<PathBuf>,
    /// Stack size of a job, in bytes.
    pub stack_bytes: usize,
    /// Zipf skew of the keys.
    pub theta: f64,
    /// Placement of keys on pages.
    pub scatter: Scatter,
    /// Seed of layout and job stream.
    pub seed: u64,
    /// The DRAM budget in bytes; not for [`Mode::Dram`].
    pub dram_bytes: u64,
    /// The CPUs to use, one per core.
    pub cpus: Vec<usize>,
    /// Storage of the engine's pages.
    pub device: Flash,
    /// The data file.
    pub data: PathBuf,
    /// The engine's way to the drive; `None` takes the one that suits `data`.
    pub device_path: Option<DevicePath>,
    /// Where its store begins in the data file, in bytes.
    pub offset: u64,
    /// When a transaction is acknowledged in [`Mode::Durable`].
    pub durability: Policy,
    /// Tuning of the engine. Under paging, `threads` is the maximum of kernel threads to try.
    pub tuning: Tuning,
    /// Instructions of added work per job, for trials during set-up.
    pub work_instructions: u64,
    /// The share of its usual length that each measurement during set-up takes.
    pub setup_share: f64,
}

/// Arrivals of jobs in a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum WindowArrivals {
    /// A job is always waiting.
    Closed,
    /// A Poisson process over all cores.
    Poisson {
        /// Mean rate.
        jobs_per_s: f64,
    },
}

/// Reads of a file through a ring of the program's own, in batches between its jobs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RawReads {
    /// The file or block device.
    pub file: PathBuf,
    /// Reads per job.
    pub per_job: f64,
    /// Reads handed to the kernel at a time.
    pub batch: u32,
    /// The most reads in flight, at least a batch.
    pub in_flight: u32,
}

/// A command to a child.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Command {
    /// Set up this memory; answered with [`Reply::Ready`].
    Setup(Box<Setup>),
    /// Only for DRAM: calibrate the added work for a miss interval of LRU; answered with
    /// [`Reply::Calibrated`].
    Calibrate {
        /// Frames of the simulated LRU cache.
        frames: u64,
        /// Mean execution time between its misses to calibrate for, in nanoseconds.
        interval_ns: f64,
    },
    /// Run the job stream for a window; answered with [`Reply::Window`].
    Run {
        /// Length of the window, in seconds.
        seconds: f64,
        /// How jobs arrive.
        arrivals: WindowArrivals,
        /// Instructions of added work per job.
        work_instructions: u64,
        /// Only for DRAM: reads through a raw ring between the jobs. The window counts them as
        /// misses.
        #[serde(default)]
        reads: Option<RawReads>,
    },
    /// End.
    Quit,
}

/// The reply of a child.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Reply {
    /// Set up.
    Ready {
        /// Frames of the DRAM cache, where there is one.
        frames: Option<u64>,
        /// Kernel threads per core, if they were chosen by trial.
        threads_per_core: Option<usize>,
        /// Notes for the user.
        notices: Vec<String>,
    },
    /// Calibrated.
    Calibrated(Calibration),
    /// A window is over.
    Window(Box<Window>),
    /// The machine does not permit this mode, for this reason.
    Unavailable(String),
    /// It failed.
    Failed(String),
}

/// The added work of a job, and the figures that follow from it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Instructions of work to add to every job.
    pub work_instructions: u64,
    /// Share of a job's execution that the added work makes up.
    pub work_share: f64,
    /// Misses per job under plain LRU.
    pub lru_misses_per_job: f64,
    /// Accesses to memory per job.
    pub accesses_per_job: f64,
    /// Execution time of a job in DRAM on one core, added work included, in nanoseconds.
    pub job_ns: f64,
}

/// A latency distribution, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
}

/// Mean times of the slowest hundredth of the jobs, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SlowestJobs {
    /// From a job's intended arrival to its end.
    pub response_us: f64,
    /// From a job's intended arrival to its start.
    pub queueing_us: f64,
}

/// Counts of a window.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Window {
    /// Jobs that ended.
    pub jobs: u64,
    /// Length of the window, in seconds.
    pub seconds: f64,
    /// CPU time of the process, in seconds.
    pub cpu_s: f64,
    /// The part of `cpu_s` in the kernel, in seconds.
    pub system_s: f64,
    /// From a job's start to its end.
    pub service_us: Latency,
    /// From a job's intended arrival to its end.
    pub response_us: Latency,
    /// Where the slowest jobs spent their time.
    #[serde(default)]
    pub slowest: SlowestJobs,
    /// Misses: reads started (engine) or major faults (paging).
    pub misses: u64,
    /// Pages read from flash.
    pub flash_reads: u64,
    /// Pages written to flash.
    pub flash_writes: u64,
    /// Write requests, each of one or more adjacent pages; 0 under paging, where the number is not
    /// known.
    pub write_requests: u64,
    /// Submissions to the kernel.
    pub submissions: u64,
    /// Pages fetched ahead of demand.
    pub fetched_ahead: u64,
    /// Prefetched pages that were used.
    pub ahead_used: u64,
    /// Used pages that a job had to wait for.
    pub ahead_late: u64,
    /// Misses on pages that a prefetch evicted.
    pub polluted: u64,
    /// Accesses that waited for a page that was in flight already.
    pub hits_under_miss: u64,
    /// Idle time in seconds, summed over cores.
    pub idle_s: f64,
    /// Times of flash reads, from the miss to the page's arrival.
    pub flash_read_us: Latency,
    /// Total time that flash reads waited for their submission, in seconds.
    #[serde(default)]
    pub held_s: f64,
    /// Resident memory at the end, in bytes.
    pub rss_bytes: u64,
    /// The most bytes of its stack that a job has used so far, in an engine.
    pub stack_used_bytes: u64,
    /// Counts of transactions over a store that survives crashes; zero for others.
    #[serde(default)]
    pub committed: Committed,
}

/// Counts of transactions in a window.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Committed {
    /// Transactions that stored anything.
    pub transactions: u64,
    /// Pages that the transactions stored to. A page counts once per transaction.
    pub stored_pages: u64,
    /// Bytes of the words that they stored.
    pub stored_bytes: u64,
    /// Bytes written to the log, its maps and superblocks.
    pub log_bytes: u64,
    /// Flushes of the log.
    pub flushes: u64,
    /// Total time of the flushes, in seconds.
    pub flush_s: f64,
}

impl Window {
    /// Reads of misses and of prefetches.
    pub(crate) fn reads_started(&self) -> u64 {
        self.misses + self.fetched_ahead
    }
}
