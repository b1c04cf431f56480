//! [`Config`]: the parameters of a machine. Its keys carry their units.

mod flash;
mod mos;
mod promotion;
mod scale;
mod write_log;

use ebbtide_core::prefetch::{PrefetcherKind, Preset};
use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::schedule::Discipline;
use ebbtide_core::{Bytes, PAGE_BYTES, Span, UnknownName, brief, choice};
use ebbtide_workloads::SKEWS;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub(crate) use flash::malformed_flash;
pub use mos::{Attachment, Mode, Mos};
pub use promotion::{Promotion, WriteBack};
pub use scale::{NoScale, Scale};
pub use write_log::{Stores, WriteLog};

/// The parameters of a design. Its TOML file has exactly these fields as keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Name of the design, a composition of parts.
    pub design: String,
    /// Sides of the machine that come from other designs.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    pub parts: Parts,
    /// The cores.
    pub cores: Cores,
    /// First-level data cache of each core.
    pub l1: Cache,
    /// Last-level cache of all tiles together.
    pub llc: Cache,
    /// The on-chip network.
    pub noc: Noc,
    /// Address translation.
    pub tlb: Tlb,
    /// DRAM timing.
    pub dram: Dram,
    /// The DRAM cache of pages.
    pub dram_cache: DramCache,
    /// A byte-addressable device with a cache in its own DRAM, for designs that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
    /// The log of written lines in that device's DRAM, for designs that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_log: Option<WriteLog>,
    /// Prefetching by a device, for designs that do it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<Prefetch>,
    /// HAMS's memory-over-storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mos: Option<Mos>,
    /// Promotion of pages to host DRAM, for designs that do it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion: Option<Promotion>,
    /// Switching between user-level threads.
    pub switch: Switch,
    /// Costs of the operating system.
    pub os: Os,
    /// The link between host and flash device.
    pub link: Link,
    /// The flash device: a `preset`, and keys of the preset that are replaced.
    pub flash: toml::Table,
    /// The data.
    pub dataset: Dataset,
    /// The programs.
    pub workload: Workload,
}

/// Sides of the machine that come from designs other than [`Config::design`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// The design that the core side comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_side: Option<String>,
    /// The design that the memory side comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_side: Option<String>,
}

impl Parts {
    fn is_empty(&self) -> bool {
        *self == Parts::default()
    }
}

/// The cores.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cores {
    /// Number of cores.
    pub count: usize,
    /// Clock frequency.
    pub frequency_mhz: u64,
    /// Instructions retired per cycle, at most 8. A wider core would fill its reorder buffer sooner
    /// than this model lets it compute.
    pub width: u64,
    /// Entries of the reorder buffer. It hides `rob_entries / width` cycles of a load.
    pub rob_entries: u64,
    /// Entries of the store buffer: stores that can be pending while the core goes on. With 0 a
    /// core waits for each store.
    pub store_buffer: usize,
    /// Miss registers of the private cache: lines that can be in flight at a time.
    pub miss_registers: usize,
    /// How far ahead the stream prefetcher of a core runs, in lines; 0 without one.
    pub prefetch_lines: u16,
    /// Time to refill the pipeline after a flush.
    pub flush_cycles: u64,
    /// How far a core may run ahead of the rest of the machine, at most 1,000: beyond that, results
    /// depend on it.
    pub run_ahead_ns: u64,
}

impl Cores {
    /// Time of `count` clock cycles. A cycle is a whole number of picoseconds.
    pub(crate) fn cycles(&self, count: u64) -> Span {
        Span::from_ps(count * (1_000_000 / self.frequency_mhz))
    }
}

/// A cache of lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Capacity.
    pub size: Bytes,
    /// Associativity.
    pub ways: usize,
    /// Latency from request to reply, without the network.
    pub latency_cycles: u64,
}

/// The on-chip network: a mesh of tiles. A tile is a core and a slice of the last-level cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noc {
    /// Tiles in a row.
    pub columns: usize,
    /// Latency of a hop.
    pub hop_cycles: u64,
    /// Width of a link in bytes per cycle.
    pub link_bytes: u64,
}

choice! {
    /// Where page tables lie.
    pub enum PageTables as "place of page tables" {
        /// In a partition of DRAM that is not a cache (AstriFlash §IV-A).
        Flat = "flat",
        /// In pages on flash like all data: the ablation noDP.
        Cached = "cached",
    }
}

/// Address translation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// Entries of the first level, which is fully associative.
    pub l1_entries: usize,
    /// Entries of the second level.
    pub l2_entries: usize,
    /// Associativity of the second level.
    pub l2_ways: usize,
    /// Latency of a hit in the second level.
    pub l2_latency_cycles: u64,
    /// Page-table entries that a walk fetches one after another. The upper levels are in walk
    /// caches.
    pub walk_levels: u32,
    /// Where page tables lie.
    pub page_tables: PageTables,
}

/// DRAM timing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// Memory controllers. Pages are striped over them.
    pub controllers: usize,
    /// Time to open a row.
    pub ras_cycles: u64,
    /// Time of each 8 bytes of a column.
    pub cas_cycles_per_8_bytes: u64,
    /// Time of each command and each reply of a controller.
    pub command_cycles: u64,
}

choice! {
    /// How much of a missed page is fetched into the DRAM cache.
    #[derive(Default)]
    pub enum Fill as "fill" {
        /// The whole page.
        #[default]
        Page = "page",
        /// The lines that [`Footprints`](ebbtide_core::Footprints) expects (AstriFlash §II-A).
        Footprint = "footprint",
    }
}

/// The DRAM cache of pages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DramCache {
    /// Capacity.
    pub size: Bytes,
    /// Associativity. 0: fully associative.
    pub ways: usize,
    /// The replacement policy.
    pub policy: PolicyKind,
    /// How much of a page is fetched.
    #[serde(default)]
    pub fill: Fill,
    /// Entries of the miss status table. In a byte-addressable device, 0 means that a page in
    /// flight is read again.
    pub mshr: usize,
    /// Associativity of the miss status table.
    pub mshr_ways: usize,
    /// Size of a tag in bytes.
    pub tag_bytes: u64,
    /// Time of each command of a backside controller.
    pub backside_cycles: u64,
    /// Misses that can wait for a backside controller. When its queue is full, the frontside
    /// stalls.
    pub backside_queue: usize,
    /// Pages that a controller's evict buffer holds.
    pub evict_buffer: usize,
}

/// A byte-addressable device with a cache in its own DRAM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Time to find where a line that is read lies. Requests look up side by side.
    pub index_ns: u64,
    /// Time of a line in a bank of its DRAM.
    pub dram_ns: u64,
    /// Banks of its DRAM, over which lines are interleaved. 1: it serves one line after another.
    pub dram_banks: u64,
    /// Part of `dram_ns` that a line takes on the bus. All banks share the bus.
    pub dram_bus_ns: u64,
    /// Whether pages between flash and this DRAM use that bus. They move while no line does.
    pub pages_take_bus: bool,
    /// Lines that can wait for its DRAM. When the queue is full, the device accepts no request.
    pub dram_queue: u64,
    /// Requests that a miss status entry can merge. When one is full, the device accepts no
    /// request.
    pub mshr_requests: usize,
    /// Flash commands in flight at once. At this number the device accepts no request.
    pub flash_commands: u64,
    /// The least expected wait for flash at which the device tells the core to run another thread.
    /// By default it never does. Only some core sides then switch (SkyByte, HPCA'25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_after_ns: Option<u64>,
    /// Whether prefetches go to flash before the demand read that caused them.
    pub prefetches_first: bool,
    /// Whether address bits 32 and up are combined with bits 31 and up. MQSim_CXL, the simulator of
    /// the CXL-flash study (ATC'23), does so.
    pub fold_addresses: bool,
}

/// Prefetching by a device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetch {
    /// The prefetcher.
    pub policy: PrefetcherKind,
    /// The variant of the prefetcher.
    pub preset: Preset,
    /// The most prefetches in flight.
    pub in_flight: u64,
    /// For next-n-line: pages to fetch.
    pub degree: u64,
    /// For next-n-line: pages to skip before them.
    pub offset: u64,
    /// Whether pages that the host announces are fetched too.
    pub hints: bool,
}

/// Switching between user-level threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// User-level threads per core.
    pub threads: usize,
    /// Time of a switch.
    pub cost_ns: u64,
    /// The scheduler that chooses the next thread.
    pub scheduler: Discipline,
    /// Whether a core looks at its pending threads also after a finished job, and not only at a
    /// miss.
    pub looks_after_jobs: bool,
    /// How the scheduler learns that a page has arrived.
    pub arrivals: Wakeup,
    /// Age of a miss after which its page is assumed to be present, if arrivals are guessed. By
    /// default, the response time of idle flash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ripe_after_us: Option<f64>,
}

choice! {
    /// How a scheduler learns that a page has arrived.
    pub enum Wakeup as "way to learn of arrivals" {
        /// The scheduler guesses by the age of the miss.
        Guessed = "guessed",
        /// The scheduler is notified.
        Notified = "notified",
    }
}

/// Costs of the operating system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Os {
    /// Time of a page fault without I/O.
    pub fault_us: u64,
    /// Time to start a read through the I/O stack.
    pub io_us: u64,
    /// Time from flash's answer until the page is mapped in DRAM.
    pub install_ns: u64,
    /// Bytes that a fault on an uncached page of a mapped file reads, with that page. 0: only the
    /// page.
    pub read_ahead: Bytes,
    /// Faults on uncached pages, less those on cached ones, above which a fault reads its page
    /// alone.
    pub read_ahead_misses: u64,
    /// The aligned block around a faulting page of a mapped file whose cached pages are mapped with
    /// it.
    pub fault_around: Bytes,
    /// Time of a fault on a page that is cached and not mapped.
    pub minor_fault_ns: u64,
    /// Frames that the kernel keeps free. A fault that finds none waits until a page has been
    /// written.
    pub free_pages: u64,
    /// Time of a context switch.
    pub switch_us: u64,
    /// Time of a broadcast TLB shootdown to `shootdown_cores` cores. It is proportional to the
    /// cores.
    pub shootdown_us: u64,
    /// Number of cores to which `shootdown_us` applies.
    pub shootdown_cores: usize,
    /// Time that another core loses to the interrupt of such a broadcast.
    pub interrupt_ns: u64,
    /// Pages unmapped per broadcast.
    pub shootdown_batch: usize,
    /// Kernel threads per core.
    pub threads: usize,
}

/// The link between host and flash device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Latency in one direction.
    pub latency_ns: u64,
    /// Bandwidth of page transfers over one link in each direction.
    pub bandwidth_gb_per_s: u64,
}

/// The data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// Size of the data. The image of a program takes at most this.
    pub size: Bytes,
}

/// The programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Execution between two misses of a plain LRU cache of `lru_share` of the data. The computing
    /// of programs is calibrated to it.
    pub miss_interval_us: f64,
    /// Size of that cache, as a share of the data. The default is the share that the design's own
    /// memory holds. So a sweep of memory sizes does not change what jobs compute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lru_share: Option<f64>,
    /// Zipf skew of the keys.
    pub theta: f64,
    /// Total time that a job computes between its accesses, instead of a calibrated time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_us: Option<f64>,
}

/// An error of a configuration, as one line.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ConfigError {
    /// A design, policy or preset does not exist.
    #[error(transparent)]
    UnknownName(#[from] UnknownName),
    /// A key does not exist.
    #[error("{file}: {error}")]
    UnknownKey {
        /// The file or option that has it.
        file: String,
        /// The key, and the nearest known one.
        error: UnknownName,
    },
    /// A text is not TOML, or a value has the wrong type.
    #[error("{file}: {reason}")]
    Malformed {
        /// The file or option that has it.
        file: String,
        /// The line or key, and what is expected.
        reason: String,
    },
    /// A value is out of its range, or contradicts another.
    #[error("{key} = {value}: expected {expected}")]
    Value {
        /// The key, with its section.
        key: &'static str,
        /// The value.
        value: String,
        /// The values that are possible.
        expected: String,
    },
}

/// Fails unless `holds`, with an error that names `key`, its `value` and what is `expected`.
pub(crate) fn require(
    holds: bool,
    key: &'static str,
    value: impl ToString,
    expected: impl Into<String>,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError::Value { key, value: value.to_string(), expected: expected.into() })
}

/// The section called `name`, which the design needs.
pub(crate) fn needed<'a, T>(
    section: &'a Option<T>,
    name: &'static str,
) -> Result<&'a T, ConfigError> {
    let reason = || format!("the design needs a section [{name}], as flatflash has");
    section
        .as_ref()
        .ok_or_else(|| ConfigError::Malformed { file: "design".to_string(), reason: reason() })
}

/// The longest time of a key in microseconds: a second.
const SECOND_US: f64 = 1e6;

impl Config {
    /// Checks the values that every machine needs.
    ///
    /// # Errors
    /// The first impossible value, with the possible ones.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_ranges()?;
        let Config { cores, dram_cache, .. } = self;
        let mhz = cores.frequency_mhz;
        let divides = mhz > 0 && 1_000_000 % mhz == 0;
        require(divides, "cores.frequency_mhz", mhz, "a divisor of 1000000 (whole picoseconds)")?;
        require(
            dram_cache.size.0 < self.dataset.size.0,
            "dram_cache.size",
            dram_cache.size,
            format!("less than dataset.size, {}", self.dataset.size),
        )?;
        let interval = self.workload.miss_interval_us;
        let sane = interval > 0.0 && interval <= SECOND_US;
        let expected = format!("more than 0, at most {SECOND_US}");
        require(sane, "workload.miss_interval_us", brief(interval), expected)?;
        self.mos.as_ref().map_or(Ok(()), Mos::check)?;
        if let Some(log) = &self.write_log {
            log.check(dram_cache)?;
        }
        if let Some(promotion) = &self.promotion {
            promotion.check(self.dataset.size)?;
        }
        let theta = self.workload.theta;
        require(SKEWS.contains(&theta), "workload.theta", brief(theta), "0 to 10")?;
        let share = self.workload.lru_share.unwrap_or(1.0);
        require(
            share > 0.0 && share <= 1.0,
            "workload.lru_share",
            brief(share),
            "more than 0, at most 1",
        )?;
        let work = self.workload.work_us.unwrap_or(0.0);
        require((0.0..=1e9).contains(&work), "workload.work_us", brief(work), "0 to 1000000000")
    }

    /// Checks that no number exhausts the host's memory or the 64 bits of time.
    fn check_ranges(&self) -> Result<(), ConfigError> {
        let Config { cores, l1, llc, noc, tlb, dram, dram_cache, switch, os, link, .. } = self;
        const CORES: u64 = 1 << 10;
        const THREADS: u64 = 1 << 12;
        const ENTRIES: u64 = 1 << 24;
        const CYCLES: u64 = 1_000_000;
        for (key, value, least, most) in [
            ("cores.count", cores.count as u64, 1, CORES),
            ("cores.width", cores.width, 1, 8),
            ("cores.rob_entries", cores.rob_entries, 0, CYCLES),
            ("cores.store_buffer", cores.store_buffer as u64, 0, 1 << 12),
            ("cores.miss_registers", cores.miss_registers as u64, 0, 1 << 12),
            ("cores.prefetch_lines", u64::from(cores.prefetch_lines), 0, 63),
            ("cores.flush_cycles", cores.flush_cycles, 0, CYCLES),
            ("cores.run_ahead_ns", cores.run_ahead_ns, 1, 1_000),
            ("l1.ways", l1.ways as u64, 1, ENTRIES),
            ("llc.ways", llc.ways as u64, 1, ENTRIES),
            ("l1.latency_cycles", l1.latency_cycles, 1, CYCLES),
            ("llc.latency_cycles", llc.latency_cycles, 1, CYCLES),
            ("noc.columns", noc.columns as u64, 1, CORES),
            ("noc.hop_cycles", noc.hop_cycles, 0, CYCLES),
            ("noc.link_bytes", noc.link_bytes, 1, 4096),
            ("tlb.l1_entries", tlb.l1_entries as u64, 1, ENTRIES),
            ("tlb.l2_entries", tlb.l2_entries as u64, 1, ENTRIES),
            ("tlb.l2_ways", tlb.l2_ways as u64, 1, ENTRIES),
            ("tlb.l2_latency_cycles", tlb.l2_latency_cycles, 0, CYCLES),
            ("tlb.walk_levels", u64::from(tlb.walk_levels), 1, 5),
            ("dram.controllers", dram.controllers as u64, 1, CORES),
            ("dram.ras_cycles", dram.ras_cycles, 1, CYCLES),
            ("dram.cas_cycles_per_8_bytes", dram.cas_cycles_per_8_bytes, 1, CYCLES),
            ("dram.command_cycles", dram.command_cycles, 0, CYCLES),
            ("dram_cache.ways", dram_cache.ways as u64, 0, ENTRIES),
            ("dram_cache.mshr", dram_cache.mshr as u64, 0, ENTRIES),
            ("dram_cache.mshr_ways", dram_cache.mshr_ways as u64, 1, ENTRIES),
            ("dram_cache.tag_bytes", dram_cache.tag_bytes, 0, 4096),
            ("dram_cache.backside_cycles", dram_cache.backside_cycles, 0, CYCLES),
            ("dram_cache.backside_queue", dram_cache.backside_queue as u64, 1, ENTRIES),
            ("dram_cache.evict_buffer", dram_cache.evict_buffer as u64, 1, ENTRIES),
            ("switch.threads", switch.threads as u64, 1, THREADS),
            ("switch.cost_ns", switch.cost_ns, 0, 1_000_000_000),
            ("os.fault_us", os.fault_us, 0, 1_000_000),
            ("os.io_us", os.io_us, 0, 1_000_000),
            ("os.install_ns", os.install_ns, 0, 1_000_000_000),
            ("os.minor_fault_ns", os.minor_fault_ns, 0, 1_000_000_000),
            ("os.free_pages", os.free_pages, 0, ENTRIES),
            ("os.read_ahead_misses", os.read_ahead_misses, 0, 1_000_000_000),
            ("os.switch_us", os.switch_us, 0, 1_000_000),
            ("os.shootdown_us", os.shootdown_us, 0, 1_000_000),
            ("os.interrupt_ns", os.interrupt_ns, 0, 1_000_000_000),
            ("os.shootdown_cores", os.shootdown_cores as u64, 1, CORES),
            ("os.shootdown_batch", os.shootdown_batch as u64, 1, ENTRIES),
            ("os.threads", os.threads as u64, 1, THREADS),
            ("link.latency_ns", link.latency_ns, 0, 1_000_000_000),
            ("link.bandwidth_gb_per_s", link.bandwidth_gb_per_s, 1, 10_000),
        ] {
            let expected = format!("{least} to {most}");
            require((least..=most).contains(&value), key, value, expected)?;
        }
        let ripe = switch.ripe_after_us.unwrap_or(0.0);
        let expected = format!("0 to {SECOND_US}");
        require((0.0..=SECOND_US).contains(&ripe), "switch.ripe_after_us", brief(ripe), expected)?;
        if let Some(device) = &self.device {
            for (key, value, least, most) in [
                ("device.index_ns", device.index_ns, 0, 1_000_000),
                ("device.switch_after_ns", device.switch_after_ns.unwrap_or(0), 0, 1_000_000_000),
                ("device.dram_ns", device.dram_ns, 1, 1_000_000),
                ("device.dram_banks", device.dram_banks, 1, 4096),
                ("device.dram_bus_ns", device.dram_bus_ns, 1, device.dram_ns),
                ("device.dram_queue", device.dram_queue, 1, ENTRIES),
                ("device.mshr_requests", device.mshr_requests as u64, 1, ENTRIES),
                ("device.flash_commands", device.flash_commands, 1, ENTRIES),
            ] {
                let expected = format!("{least} to {most}");
                require((least..=most).contains(&value), key, value, expected)?;
            }
        }
        if let Some(prefetch) = &self.prefetch {
            for (key, value, most) in [
                ("prefetch.in_flight", prefetch.in_flight, ENTRIES),
                ("prefetch.degree", prefetch.degree, 1 << 12),
                ("prefetch.offset", prefetch.offset, ENTRIES),
            ] {
                require(value <= most, key, value, format!("0 to {most}"))?;
            }
        }
        for (key, value, most) in [
            ("os.read_ahead", os.read_ahead, Bytes(64 << 20)),
            ("os.fault_around", os.fault_around, Bytes(64 << 20)),
            ("l1.size", l1.size, Bytes(1 << 30)),
            ("llc.size", llc.size, Bytes(4 << 30)),
            ("dram_cache.size", dram_cache.size, Bytes(1 << 40)),
            ("dataset.size", self.dataset.size, Bytes(16 << 40)),
        ] {
            require(value <= most, key, value, format!("at most {most}"))?;
        }
        Ok(())
    }

    /// The parameters of the flash device: its preset, with the keys that `[flash]` replaces.
    ///
    /// # Errors
    /// [`ConfigError`] for an unknown preset or key, or an impossible value.
    pub fn flash_device(&self) -> Result<ebbtide_flash::Config, ConfigError> {
        flash::flash_config(&self.flash)
    }

    /// Returns the number of links to flash. Each drive has its own, but drives behind the cache of
    /// a device or behind an NVDIMM share one.
    ///
    /// # Errors
    /// As [`flash_device`](Config::flash_device).
    pub fn links(&self) -> Result<u64, ConfigError> {
        let drives = self.flash_device()?.interleaving().drives() as u64;
        Ok(if self.device.is_some() || self.mos.is_some() { 1 } else { drives })
    }

    /// Size of the memory that caches the pages of a program, with its key. It is host DRAM if
    /// pages are promoted to it, and the DRAM cache otherwise.
    pub(crate) fn memory_size(&self) -> (&'static str, Bytes) {
        match &self.promotion {
            Some(promotion) => ("promotion.size", promotion.size),
            None => ("dram_cache.size", self.dram_cache.size),
        }
    }

    /// Pages of the plain LRU cache that programs are calibrated to, at least 1.
    pub(crate) fn lru_pages(&self) -> u64 {
        let share = self.workload.lru_share.unwrap_or_else(|| self.memory_share());
        ((self.dataset.size.0 as f64 * share / PAGE_BYTES as f64) as u64).max(1)
    }

    /// Size of the memory as a share of the data.
    pub(crate) fn memory_share(&self) -> f64 {
        self.memory_size().1.0 as f64 / self.dataset.size.0 as f64
    }

    /// The same machine with smaller capacities. Multiplies the sizes of the dataset, DRAM cache,
    /// write log, promotion's DRAM and last-level cache by `numerator / denominator`. Their ratios
    /// stay.
    #[must_use]
    pub fn scaled(mut self, numerator: u64, denominator: u64) -> Config {
        let promotion = self.promotion.iter_mut();
        let promoted =
            promotion.flat_map(|promotion| [&mut promotion.size, &mut promotion.persist]);
        for size in [&mut self.dataset.size, &mut self.dram_cache.size, &mut self.llc.size]
            .into_iter()
            .chain(promoted)
            .chain(self.write_log.iter_mut().map(|log| &mut log.size))
        {
            size.0 = (u128::from(size.0) * u128::from(numerator) / u128::from(denominator)) as u64;
        }
        self
    }
}
