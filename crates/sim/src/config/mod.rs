//! What a machine is made of, in numbers: typed parameters whose keys carry their units.

mod flash;
mod mos;
mod promotion;
mod scale;

use ebbtide_core::prefetch::{PrefetcherKind, Preset};
use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::schedule::Discipline;
use ebbtide_core::{Bytes, Span, UnknownName, choice};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub(crate) use flash::malformed_flash;
pub use mos::{Attachment, Mode, Mos};
pub use promotion::{Promotion, WriteBack};
pub use scale::{NoScale, Scale};

/// A design's parameters. Every key of the TOML file is a field here, and the other way round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Which composition of parts: a name of [`designs`](crate::designs).
    pub design: String,
    /// Sides of the machine that come from other designs.
    #[serde(default, skip_serializing_if = "Parts::is_empty")]
    pub parts: Parts,
    /// The cores.
    pub cores: Cores,
    /// First-level data cache of each core.
    pub l1: Cache,
    /// Last-level cache, all tiles together.
    pub llc: Cache,
    /// The on-chip network.
    pub noc: Noc,
    /// Address translation.
    pub tlb: Tlb,
    /// DRAM timing.
    pub dram: Dram,
    /// The DRAM cache of pages.
    pub dram_cache: DramCache,
    /// A device that answers lines from a cache in its own DRAM, for designs that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<Device>,
    /// What a device fetches ahead of demand, for designs that do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<Prefetch>,
    /// HAMS's memory-over-storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mos: Option<Mos>,
    /// Host DRAM to which pages are promoted, for designs that do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion: Option<Promotion>,
    /// Switching between user-level threads.
    pub switch: Switch,
    /// What the operating system charges.
    pub os: Os,
    /// Between the DRAM cache and the flash device.
    pub link: Link,
    /// The flash device: `preset`, and any of the preset's keys to override.
    pub flash: toml::Table,
    /// The data.
    pub dataset: Dataset,
    /// The programs.
    pub workload: Workload,
}

/// Sides of the machine that come from other designs than [`Config::design`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parts {
    /// The design whose core side it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_side: Option<String>,
    /// The design whose memory side it is.
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
    /// How many.
    pub count: usize,
    /// Clock.
    pub frequency_mhz: u64,
    /// Instructions retired per cycle.
    pub width: u64,
    /// Reorder buffer: hides `rob_entries / width` cycles of a load.
    pub rob_entries: u64,
    /// Refill of the pipeline after a flush.
    pub flush_cycles: u64,
    /// How far a core may run ahead of the rest of the machine between looks at it.
    pub run_ahead_ns: u64,
}

impl Cores {
    /// So many cycles of the clock, which is a whole number of picoseconds long.
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
    /// From request to reply, the network apart.
    pub latency_cycles: u64,
}

/// The on-chip network: a mesh of tiles, each a core and a slice of the last-level cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noc {
    /// Tiles in a row.
    pub columns: usize,
    /// A hop.
    pub hop_cycles: u64,
    /// Width of a link, bytes per cycle.
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
    /// Entries of the first level, fully associative.
    pub l1_entries: usize,
    /// Entries of the second level.
    pub l2_entries: usize,
    /// Associativity of the second level.
    pub l2_ways: usize,
    /// A hit in the second level.
    pub l2_latency_cycles: u64,
    /// Page-table entries a walk fetches one after the other, the upper levels being in walk caches.
    pub walk_levels: u32,
    /// Where page tables lie.
    pub page_tables: PageTables,
}

/// DRAM timing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// Memory controllers; pages are striped over them.
    pub controllers: usize,
    /// Opening a row.
    pub ras_cycles: u64,
    /// Each 8 bytes of a column.
    pub cas_cycles_per_8_bytes: u64,
    /// Each command and reply of a controller.
    pub command_cycles: u64,
}

choice! {
    /// How much of a missed page is fetched into the DRAM cache.
    #[derive(Default)]
    pub enum Fill as "fill" {
        /// All of it.
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
    /// Associativity; 0 is full.
    pub ways: usize,
    /// Which page is evicted.
    pub policy: PolicyKind,
    /// How much of a page is fetched.
    #[serde(default)]
    pub fill: Fill,
    /// Miss status entries in all.
    pub mshr: usize,
    /// Associativity of the miss status table.
    pub mshr_ways: usize,
    /// Bytes of a tag.
    pub tag_bytes: u64,
    /// Each command of a backside controller.
    pub backside_cycles: u64,
    /// Misses that wait for a backside controller; when it is full, the frontside stalls.
    pub backside_queue: usize,
    /// Pages in a controller's evict buffer.
    pub evict_buffer: usize,
}

/// A device that answers lines from a cache in its own DRAM.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// What its DRAM takes for a line; it serves one after the other.
    pub dram_ns: u64,
    /// Lines that wait for its DRAM; when they are so many, the device takes no request.
    pub dram_queue: u64,
    /// Requests that a miss status entry merges; when one has so many, the device takes no request.
    pub mshr_requests: usize,
    /// Flash commands at once; when they are so many, the device takes no request.
    pub flash_commands: u64,
    /// Whether prefetches go to flash before the demand read that caused them.
    pub prefetches_first: bool,
    /// Whether the bits of an address from 32 on are combined with those from 31 on, as in MQSim_CXL, the
    /// simulator of the CXL-flash study (ATC'23).
    pub fold_addresses: bool,
}

/// What is fetched ahead of demand.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetch {
    /// Which prefetcher.
    pub policy: PrefetcherKind,
    /// Which form of it.
    pub preset: Preset,
    /// Prefetches at once.
    pub in_flight: u64,
    /// Of next-n-line: how many pages.
    pub degree: u64,
    /// Of next-n-line: how many pages are left out before them.
    pub offset: u64,
    /// Whether pages that the host says it will need are fetched, too.
    pub hints: bool,
}

/// Switching between user-level threads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// User-level threads a core.
    pub threads: usize,
    /// A switch.
    pub cost_ns: u64,
    /// Which job runs next.
    pub scheduler: Discipline,
    /// How the scheduler learns that a page is there.
    pub arrivals: Wakeup,
    /// Age from which a page is taken to be there, where that is guessed.
    pub ripe_after_us: u64,
}

choice! {
    /// How a scheduler learns that a page is there.
    pub enum Wakeup as "way to learn of arrivals" {
        /// By the age of the job.
        Guessed = "guessed",
        /// It is told.
        Notified = "notified",
    }
}

/// What the operating system charges.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Os {
    /// A page fault's own work.
    pub fault_us: u64,
    /// Starting a read through the I/O stack.
    pub io_us: u64,
    /// From flash's answer until the page is mapped in DRAM.
    pub install_ns: u64,
    /// A context switch.
    pub switch_us: u64,
    /// A broadcast TLB shootdown to `shootdown_cores` cores; proportional to cores.
    pub shootdown_us: u64,
    /// See `shootdown_us`.
    pub shootdown_cores: usize,
    /// Pages unmapped per broadcast.
    pub shootdown_batch: usize,
    /// Kernel threads a core.
    pub threads: usize,
}

/// Between the DRAM cache and the flash device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// One way.
    pub latency_ns: u64,
    /// Of page transfers, each direction.
    pub bandwidth_gb_per_s: u64,
}

/// The data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// Upper bound of the image.
    pub size: Bytes,
}

/// The programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Execution between misses of a plain LRU cache as large as the DRAM in front of flash; the
    /// programs' computing is calibrated to it.
    pub miss_interval_us: f64,
    /// Zipf skew of the keys.
    pub theta: f64,
    /// What a job computes between its accesses, in all, where it is not to be calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_us: Option<f64>,
}

/// What is wrong with a configuration, in one line.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ConfigError {
    /// A design, policy or preset that does not exist.
    #[error(transparent)]
    UnknownName(#[from] UnknownName),
    /// A key that does not exist.
    #[error("{file}: {error}")]
    UnknownKey {
        /// Where it was given.
        file: String,
        /// The key, and the nearest there is.
        error: UnknownName,
    },
    /// Not TOML, or a value of the wrong type.
    #[error("{file}: {reason}")]
    Malformed {
        /// Where it was given.
        file: String,
        /// Line or key, and what was expected.
        reason: String,
    },
    /// A value that cannot be, by itself or with another.
    #[error("{key} = {value}: expected {expected}")]
    Value {
        /// The key, with its section.
        key: &'static str,
        /// What was given.
        value: String,
        /// What can be.
        expected: String,
    },
}

/// Fails unless `holds`, saying that `key` is `value` but was expected to be `expected`.
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

/// A section that the design cannot do without.
pub(crate) fn needed<'a, T>(
    section: &'a Option<T>,
    name: &'static str,
) -> Result<&'a T, ConfigError> {
    let reason = || format!("the design needs a section [{name}], as that of cxl-flash");
    section
        .as_ref()
        .ok_or_else(|| ConfigError::Malformed { file: "design".to_string(), reason: reason() })
}

impl Config {
    /// Checks what every machine needs, whatever its design.
    ///
    /// # Errors
    /// The first value that cannot be, with what can.
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
        let sane = interval.is_finite() && interval > 0.0;
        require(sane, "workload.miss_interval_us", interval, "more than 0")?;
        self.mos.as_ref().map_or(Ok(()), Mos::check)?;
        if let Some(promotion) = &self.promotion {
            promotion.check(self.dataset.size)?;
        }
        let theta = self.workload.theta;
        require(theta.is_finite() && theta >= 0.0, "workload.theta", theta, "at least 0")?;
        let work = self.workload.work_us.unwrap_or(0.0);
        require((0.0..=1e9).contains(&work), "workload.work_us", work, "0 to 1000000000")
    }

    /// Numbers far beyond any machine would only exhaust the host's memory, or the 64 bits of time.
    fn check_ranges(&self) -> Result<(), ConfigError> {
        let Config { cores, l1, llc, noc, tlb, dram, dram_cache, switch, os, link, .. } = self;
        const CORES: u64 = 1 << 10;
        const THREADS: u64 = 1 << 12;
        const ENTRIES: u64 = 1 << 24;
        const CYCLES: u64 = 1_000_000;
        for (key, value, least, most) in [
            ("cores.count", cores.count as u64, 1, CORES),
            ("cores.width", cores.width, 1, 64),
            ("cores.rob_entries", cores.rob_entries, 0, CYCLES),
            ("cores.flush_cycles", cores.flush_cycles, 0, CYCLES),
            ("cores.run_ahead_ns", cores.run_ahead_ns, 1, 1_000_000),
            ("l1.latency_cycles", l1.latency_cycles, 1, CYCLES),
            ("llc.latency_cycles", llc.latency_cycles, 1, CYCLES),
            ("noc.columns", noc.columns as u64, 1, CORES),
            ("noc.hop_cycles", noc.hop_cycles, 0, CYCLES),
            ("noc.link_bytes", noc.link_bytes, 1, 4096),
            ("tlb.l1_entries", tlb.l1_entries as u64, 1, ENTRIES),
            ("tlb.l2_entries", tlb.l2_entries as u64, 1, ENTRIES),
            ("tlb.l2_latency_cycles", tlb.l2_latency_cycles, 0, CYCLES),
            ("tlb.walk_levels", u64::from(tlb.walk_levels), 1, 5),
            ("dram.controllers", dram.controllers as u64, 1, CORES),
            ("dram.ras_cycles", dram.ras_cycles, 1, CYCLES),
            ("dram.cas_cycles_per_8_bytes", dram.cas_cycles_per_8_bytes, 1, CYCLES),
            ("dram.command_cycles", dram.command_cycles, 0, CYCLES),
            ("dram_cache.mshr", dram_cache.mshr as u64, 0, ENTRIES),
            ("dram_cache.mshr_ways", dram_cache.mshr_ways as u64, 1, ENTRIES),
            ("dram_cache.tag_bytes", dram_cache.tag_bytes, 0, 4096),
            ("dram_cache.backside_cycles", dram_cache.backside_cycles, 0, CYCLES),
            ("dram_cache.backside_queue", dram_cache.backside_queue as u64, 1, ENTRIES),
            ("dram_cache.evict_buffer", dram_cache.evict_buffer as u64, 1, ENTRIES),
            ("switch.threads", switch.threads as u64, 1, THREADS),
            ("switch.cost_ns", switch.cost_ns, 0, 1_000_000_000),
            ("switch.ripe_after_us", switch.ripe_after_us, 0, 1_000_000),
            ("os.fault_us", os.fault_us, 0, 1_000_000),
            ("os.io_us", os.io_us, 0, 1_000_000),
            ("os.install_ns", os.install_ns, 0, 1_000_000_000),
            ("os.switch_us", os.switch_us, 0, 1_000_000),
            ("os.shootdown_us", os.shootdown_us, 0, 1_000_000),
            ("os.shootdown_cores", os.shootdown_cores as u64, 1, CORES),
            ("os.shootdown_batch", os.shootdown_batch as u64, 1, ENTRIES),
            ("os.threads", os.threads as u64, 1, THREADS),
            ("link.latency_ns", link.latency_ns, 0, 1_000_000_000),
            ("link.bandwidth_gb_per_s", link.bandwidth_gb_per_s, 1, 10_000),
        ] {
            let expected = format!("{least} to {most}");
            require((least..=most).contains(&value), key, value, expected)?;
        }
        if let Some(device) = &self.device {
            for (key, value, least, most) in [
                ("device.dram_ns", device.dram_ns, 1, 1_000_000),
                ("device.dram_queue", device.dram_queue, 1, ENTRIES),
                ("device.mshr_requests", device.mshr_requests as u64, 1, ENTRIES),
                ("device.flash_commands", device.flash_commands, 1, ENTRIES),
            ] {
                let expected = format!("{least} to {most}");
                require((least..=most).contains(&value), key, value, expected)?;
            }
        }
        for (key, value, most) in [
            ("l1.size", l1.size, Bytes(1 << 30)),
            ("llc.size", llc.size, Bytes(4 << 30)),
            ("dram_cache.size", dram_cache.size, Bytes(1 << 40)),
            ("dataset.size", self.dataset.size, Bytes(16 << 40)),
        ] {
            require(value <= most, key, value, format!("at most {most}"))?;
        }
        Ok(())
    }

    /// The parameters of the flash device: those of the preset that `[flash]` names, and its own.
    ///
    /// # Errors
    /// [`ConfigError`] for a preset, key or value that cannot be.
    pub fn flash_device(&self) -> Result<ebbtide_flash::Config, ConfigError> {
        flash::flash_config(&self.flash)
    }

    /// The memory that a program's pages share with each other: host DRAM where pages are promoted
    /// to it, and the DRAM cache otherwise. With its key.
    pub(crate) fn memory_size(&self) -> (&'static str, Bytes) {
        match &self.promotion {
            Some(promotion) => ("promotion.size", promotion.size),
            None => ("dram_cache.size", self.dram_cache.size),
        }
    }

    /// The same machine with capacities multiplied by `numerator / denominator`: dataset, DRAM
    /// cache, promotion's DRAM and last-level cache together, so that their ratios stay.
    #[must_use]
    pub fn scaled(mut self, numerator: u64, denominator: u64) -> Config {
        let promotion = self.promotion.iter_mut();
        let promoted =
            promotion.flat_map(|promotion| [&mut promotion.size, &mut promotion.persist]);
        for size in [&mut self.dataset.size, &mut self.dram_cache.size, &mut self.llc.size]
            .into_iter()
            .chain(promoted)
        {
            size.0 = (u128::from(size.0) * u128::from(numerator) / u128::from(denominator)) as u64;
        }
        self
    }
}
