//! [`Outcome`]: the results of a run.

use ebbtide_core::Span;
use ebbtide_flash::{Counters as Flash, DriveCounters, Flash as Device, Lifetime as Wear};
use serde::Serialize;

use crate::config::Config;
use crate::machine::{Coherence, Distribution, MissedAccesses, ServiceParts};
use crate::memory_side::Counters;
use crate::offered::Offered;

/// The warm-up of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WarmUp {
    /// Untimed jobs, until evictions kept up with arriving pages.
    pub untimed_jobs: u64,
    /// Evictions over arrived pages, missed or read ahead, in the last window of those jobs.
    pub evictions_per_miss: f64,
    /// Jobs that then ran in virtual time without being measured.
    pub timed_jobs: u64,
    /// Misses per job of a plain LRU cache of `workload.lru_share` of the data.
    pub lru_misses_per_job: f64,
    /// Time of a job in DRAM with its added computing, in nanoseconds.
    pub job_ns: f64,
    /// Added computing of a job, in nanoseconds. It is `workload.work_us`, or the computing with
    /// which plain LRU misses at the wanted interval.
    pub work_ns: f64,
    /// Execution between two misses of the plain LRU cache on a core in DRAM, in microseconds, as
    /// measured. `None` if it never misses. Above `workload.miss_interval_us` if
    /// `workload.work_us` is set; above or below it by at most 1% if jobs are slower or faster
    /// without added computing.
    pub miss_interval_us: Option<f64>,
}

/// The results of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// The design.
    pub design: String,
    /// The program.
    pub workload: String,
    /// All parameters.
    pub config: Config,
    /// Seed of the layout, the job stream and the arrivals.
    pub seed: u64,
    /// The load.
    pub arrivals: Offered,
    /// Jobs measured.
    pub jobs: u64,
    /// The warm-up to a steady state.
    pub warm_up: WarmUp,
    /// The halves of the measured part, which are alike if the run is steady.
    pub halves: [Half; 2],
    /// Jobs that arrived in a second. `None` if a job was always waiting.
    pub offered_jobs_per_s: Option<f64>,
    /// Accesses measured.
    pub accesses: u64,
    /// Accesses that no TLB translated.
    pub page_walks: u64,
    /// Simulated time of the measured part.
    pub simulated_ns: u64,
    /// Time of the whole run on the host.
    pub wall_s: f64,
    /// Accesses per second on the host, over the measured part.
    pub accesses_per_wall_s: f64,
    /// Share of time that the cores waited neither for a page nor for a job. They executed, or
    /// waited for the chip and for lines in DRAM.
    pub busy_share: f64,
    /// Dirty lines that left the last-level cache.
    pub lines_written_back: u64,
    /// Coherence of private caches.
    pub coherence: Coherence,
    /// Throughput in jobs per second.
    pub jobs_per_s: f64,
    /// Throughput divided by DRAM-only's on the same jobs.
    pub ratio_to_dram: f64,
    /// Execution between two misses of a core, in microseconds.
    pub miss_interval_us: f64,
    /// Counters of the memory side.
    #[serde(rename = "dram_cache")]
    pub memory: Counters,
    /// The flash device over the measured part.
    pub flash: FlashOutcome,
    /// How busy the flash device was.
    pub flash_use: FlashUse,
    /// Latency of accesses that left the chip, from their issue.
    pub latency_ns: Distribution,
    /// Latency of accesses that left the chip, from their entry to memory.
    pub device_latency_ns: Distribution,
    /// Accesses that missed.
    pub missed: MissedAccesses,
    /// Service time of jobs, from their start.
    pub service_ns: Distribution,
    /// The parts of the service time.
    pub service_parts: ServiceParts,
    /// Response time of jobs, from their arrival.
    pub response_ns: Distribution,
    /// Lifetime of the flash at this rate of writes.
    pub lifetime_years: Option<Lifetime>,
}

/// A half of the measured jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Half {
    /// Throughput in jobs per second.
    pub jobs_per_s: f64,
    /// Pages written to flash by the host.
    pub flash_writes: u64,
    /// Pages programmed per page written.
    pub write_amplification: f64,
}

impl Half {
    /// Half of a run: `jobs` jobs took `time`. `flash` has the device's counters at both ends.
    pub(crate) fn new(jobs: u64, time: Span, flash: [Option<&Flash>; 2]) -> Half {
        let FlashOutcome { writes, write_amplification, .. } = flash_outcome(flash[0], flash[1]);
        let jobs_per_s = jobs as f64 * 1e12 / time.as_ps().max(1) as f64;
        Half { jobs_per_s, flash_writes: writes, write_amplification }
    }
}

impl Outcome {
    /// Whether jobs arrive faster than the machine completes them. The queue then grows during the
    /// whole run, and response times have no distribution.
    pub fn is_overloaded(&self) -> bool {
        // Chance alone makes the number of arrivals differ by its square root.
        let chance = 4.0 / (self.jobs as f64).sqrt();
        self.offered_jobs_per_s.is_some_and(|offered| self.jobs_per_s < offered * (0.95 - chance))
    }
}

/// The flash device over the measured part.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FlashOutcome {
    /// Pages read.
    pub reads: u64,
    /// Pages written by the host.
    pub writes: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Pages of 4 KiB sensed in the array: reads that the write buffer did not serve, and pages
    /// that collections moved.
    pub array_reads: u64,
    /// Pages of 4 KiB programmed, with padding and collections.
    pub pages_programmed: u64,
    /// Pages programmed per page written.
    pub write_amplification: f64,
    /// Share of requests that waited for garbage collection.
    pub gc_blocked_share: f64,
    /// The counts of each drive. Empty without several drives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drives: Vec<DriveCounters>,
}

/// How busy a flash device was over the measured part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct FlashUse {
    /// Mean number of commands in the device over time.
    pub mean_queue_depth: f64,
    /// Mean share of time that a plane was busy, over all planes. `None` for a flat device, which
    /// has no planes.
    pub planes_busy: Option<f64>,
}

impl FlashUse {
    /// The use of a device over `time`. Its commands took `commands` in all, and its `planes` were
    /// busy for `busy`.
    pub(crate) fn new(time: Span, commands: Span, busy: Span, planes: u64) -> FlashUse {
        let of_time = |span: Span| span.as_ps() as f64 / time.as_ps().max(1) as f64;
        FlashUse {
            mean_queue_depth: of_time(commands),
            planes_busy: (planes > 0).then(|| of_time(busy) / planes as f64),
        }
    }
}

/// A lifetime in years, by two definitions of a year.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lifetime {
    /// Years of use round the clock.
    pub round_the_clock: f64,
    /// Years of 2,080 hours, as the CXL-flash paper (ATC'23) counts them.
    pub working_hours: f64,
}

impl FlashOutcome {
    /// Counters of a device since its start.
    pub(crate) fn since_start(device: &Device) -> FlashOutcome {
        let of_all = flash_outcome(Some(&Flash::default()), Some(device.counters()));
        of_all.with_drives(&[], &device.drive_counters().collect::<Vec<_>>())
    }

    /// The outcome with the counts of each drive between `before` and `after`, if there are several
    /// drives. A drive that is not in `before` starts with none.
    pub(crate) fn with_drives(self, before: &[DriveCounters], after: &[DriveCounters]) -> Self {
        if after.len() < 2 {
            return self;
        }
        let earlier = before.iter().copied().chain(std::iter::repeat(DriveCounters::default()));
        let drives = after.iter().zip(earlier).map(|(after, before)| after.since(before)).collect();
        FlashOutcome { drives, ..self }
    }
}

impl Lifetime {
    pub(crate) fn new(wear: Wear) -> Lifetime {
        Lifetime { round_the_clock: wear.years(), working_hours: wear.working_years() }
    }
}

/// Counters of a device between `before` and `after`. All are zero without a device.
pub(crate) fn flash_outcome(before: Option<&Flash>, after: Option<&Flash>) -> FlashOutcome {
    let (Some(before), Some(after)) = (before, after) else { return FlashOutcome::default() };
    let programmed = |c: &Flash| c.host_pages_programmed + c.gc_pages_programmed;
    let blocked = |c: &Flash| c.reads_blocked_by_gc + c.writes_blocked_by_gc;
    let sensed = |c: &Flash| c.reads - c.buffer_reads + c.gc_pages_moved;
    let (reads, writes) = (after.reads - before.reads, after.writes - before.writes);
    let programmed = programmed(after) - programmed(before);
    FlashOutcome {
        reads,
        writes,
        erases: after.erases - before.erases,
        array_reads: sensed(after) - sensed(before),
        pages_programmed: programmed,
        write_amplification: if writes == 0 { 1.0 } else { programmed as f64 / writes as f64 },
        gc_blocked_share: (blocked(after) - blocked(before)) as f64
            / (reads + writes).max(1) as f64,
        drives: Vec::new(),
    }
}
