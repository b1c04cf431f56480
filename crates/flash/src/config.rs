//! [`Config`]: the parameters of a device, whose keys carry their units.

use ebbtide_core::{PAGE_BYTES, UnknownName, brief, find_by_name};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::interleaving::Interleaving;
use crate::presets::PRESETS;
use crate::translation::Layout;

/// The parameters of a device. Its TOML file has exactly these fields as keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Config {
    /// Fixed latencies and unlimited parallelism.
    Flat(FlatConfig),
    /// A modelled SSD.
    Ssd(Box<SsdConfig>),
}

/// Collections can keep free at most this share of the spare places without a warning.
const KEPT_FREE_MAX: f64 = 0.5;

/// A device of fixed latencies, unlimited parallelism and no wear.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlatConfig {
    /// Time from a read's submission to its data, in microseconds.
    pub read_us: f64,
    /// Time from a write's submission to its acknowledgement, in microseconds.
    pub write_us: f64,
}

/// A modelled SSD.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdConfig {
    /// Number of identical drives side by side, 1 if missing. Each has channels and a write buffer
    /// of its own.
    #[serde(default = "one")]
    pub drives: u32,
    /// Pages of 4 KiB that go to a drive before the next drive follows, 1 if missing. Without
    /// effect with one drive.
    #[serde(default = "one")]
    pub interleave_pages: u32,
    /// Channels of a drive. A channel is a bus that its chips share.
    pub channels: u32,
    /// Chips on a channel.
    pub chips_per_channel: u32,
    /// Dies in a chip.
    pub dies_per_chip: u32,
    /// Planes in a die.
    pub planes_per_die: u32,
    /// True if planes work independently. If not, a die does one operation at a time, and the model
    /// treats it as one plane with the blocks of all its planes.
    pub independent_planes: bool,
    /// Erase blocks of a plane.
    pub blocks_per_plane: u32,
    /// Physical pages in a block.
    pub pages_per_block: u32,
    /// Size of a physical page in bytes, a multiple of 4096.
    pub page_bytes: u32,

    /// Time to sense a page into the plane's register.
    pub read_us: f64,
    /// Time to program a physical page from the plane's register.
    pub program_us: f64,
    /// Time to erase a block, in milliseconds.
    pub erase_ms: f64,
    /// Transfers of a channel in millions per second. 0 means that transfers take no time.
    pub bus_mt_per_s: f64,
    /// Bytes that one transfer carries: the width of the bus.
    pub bus_bytes: u32,

    /// Percentage of the raw capacity that host data cannot use.
    pub over_provisioning_percent: f64,
    /// Percentage of the raw capacity that holds valid data at the start: the first logical pages.
    /// A read of a page that was never written takes as long as any other read.
    pub valid_percent: f64,
    /// Percentage of the raw capacity that holds overwritten data at the start.
    pub invalid_percent: f64,

    /// What a collection blocks.
    pub garbage_collection: GarbageCollection,
    /// Percentage of free pages of a plane at which collections start. They start later, at half of
    /// the pages without valid data, if these are few.
    pub gc_start_free_percent: f64,
    /// Percentage of free pages of a plane at which its host writes wait for collections. At most a
    /// quarter of the pages without valid data.
    pub gc_hard_free_percent: f64,
    /// Largest difference in erasures between two blocks of a plane. Beyond it, a collection moves
    /// cold data. 0 switches static wear levelling off.
    pub static_wear_spread: u32,
    /// Number of erasures that a block endures, for the lifetime alone: no block fails.
    pub endurance_cycles: u32,

    /// How writes of 4 KiB fill larger physical pages.
    pub write_unit: WriteUnit,
    /// Longest time that a write waits for others to fill its physical page, in microseconds. An
    /// acknowledged write waits longer, until the write buffer is full.
    pub pad_after_us: f64,
    /// When a write is acknowledged.
    pub write_done: WriteDone,
    /// Latency of a write that finds room in the write buffer. Used only with
    /// [`WriteDone::Buffered`].
    pub buffered_write_us: f64,
    /// Latency of a read from the write buffer.
    pub buffered_read_us: f64,
    /// Size of a drive's write buffer in pages of 4 KiB. When it is full, the acknowledgement of a
    /// write to the drive waits for room.
    pub write_buffer_pages: u32,

    /// Operations that waiting reads suspend.
    pub suspend: Suspend,
    /// Time from the decision to suspend until the plane can read.
    pub suspend_us: f64,
    /// Time from the decision to resume until the operation continues.
    pub resume_us: f64,
    /// After this many suspensions of an operation, reads wait for its end.
    pub suspensions_max: u32,
}

/// Durations of the operations of flash arrays.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Operations {
    /// Time to sense a page. On a flat device, the time of a whole read.
    pub read_us: f64,
    /// Time to program a physical page. On a flat device, the time of a whole write.
    pub program_us: f64,
    /// Time to erase a block, in microseconds. 0 on a flat device, which erases none.
    pub erase_us: f64,
    /// Pages of 4 KiB that one program writes.
    pub pages_per_program: u32,
}

/// What a collection blocks (Yan et al., "Tiny-Tail Flash", FAST 2017, §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GarbageCollection {
    /// Its plane and its channel: pages move over the bus.
    ControllerBlocking,
    /// Only its plane: pages move inside it by copyback.
    PlaneBlocking,
    /// Nothing: a collection is counted but takes no time. The ideal for comparisons.
    Free,
}

/// How writes of 4 KiB fill larger physical pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteUnit {
    /// Writes are buffered per plane until they fill a page. A page is padded when its oldest write
    /// has waited for `pad_after_us`, unless writes are acknowledged earlier and the buffer has
    /// room.
    Filled,
    /// Each write is padded to a physical page of its own.
    Padded,
}

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteDone {
    /// When the write is on flash.
    Programmed,
    /// When the write is in the write buffer.
    Buffered,
}

/// Operations that waiting reads suspend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suspend {
    /// Nothing.
    None,
    /// Erasures, with [`GarbageCollection::PlaneBlocking`] alone.
    Erase,
    /// Programs. With [`GarbageCollection::PlaneBlocking`] also erasures and the copies of
    /// collections.
    ProgramErase,
}

/// An error of a configuration, as one line.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ConfigError {
    /// The preset does not exist.
    #[error(transparent)]
    UnknownName(#[from] UnknownName),
    /// The text is not TOML, or has an unknown key or a value of the wrong type.
    #[error("line {line}: {reason}")]
    Malformed {
        /// The line in the text, counted from 1.
        line: usize,
        /// The parser's message, on one line.
        reason: String,
    },
    /// A value is out of its range, or contradicts another.
    #[error("{key} = {value}: expected {expected}")]
    Value {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// The values that are possible.
        expected: String,
    },
}

impl Config {
    /// The names of all presets.
    pub fn preset_names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// The TOML text of the preset `name`, with the source of every number.
    ///
    /// # Errors
    /// [`UnknownName`], with the nearest name.
    pub fn preset_text(name: &str) -> Result<&'static str, UnknownName> {
        find_by_name("flash preset", name, PRESETS)
    }

    /// The preset `name`.
    ///
    /// # Errors
    /// [`ConfigError::UnknownName`], with the nearest name.
    pub fn preset(name: &str) -> Result<Config, ConfigError> {
        Config::from_toml(Config::preset_text(name)?)
    }

    /// The device that `text` describes.
    ///
    /// # Errors
    /// When the text is not TOML, a key is unknown or missing, or a value is impossible.
    pub fn from_toml(text: &str) -> Result<Config, ConfigError> {
        let config: Config = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
            let reason = error.message().lines().collect::<Vec<_>>().join("; ");
            ConfigError::Malformed { line, reason }
        })?;
        config.check()?;
        Ok(config)
    }

    /// Returns the time of a read on an idle device, in microseconds: sensing and transfer.
    pub fn idle_read_us(&self) -> f64 {
        match self {
            Config::Flat(flat) => flat.read_us,
            Config::Ssd(ssd) => ssd.read_us + ssd.transfer_us(PAGE_BYTES as u32),
        }
    }

    /// Returns how pages are spread over the drives. A flat device is one drive.
    pub fn interleaving(&self) -> Interleaving {
        match self {
            Config::Flat(_) => Interleaving::new(1, 1),
            Config::Ssd(ssd) => ssd.interleaving(),
        }
    }

    /// Returns the durations of the operations of the flash arrays, without transfers.
    pub fn operations(&self) -> Operations {
        match self {
            Config::Flat(flat) => Operations {
                read_us: flat.read_us,
                program_us: flat.write_us,
                erase_us: 0.0,
                pages_per_program: 1,
            },
            Config::Ssd(ssd) => Operations {
                read_us: ssd.read_us,
                program_us: ssd.program_us,
                erase_us: ssd.erase_ms * 1e3,
                pages_per_program: ssd.page_bytes / PAGE_BYTES as u32,
            },
        }
    }

    /// Returns one sentence for each value that is possible but probably a mistake.
    pub fn warnings(&self) -> Vec<String> {
        match self {
            Config::Flat(_) => Vec::new(),
            Config::Ssd(ssd) => ssd.kept_free_warning().into_iter().collect(),
        }
    }

    /// Checks that every value is within its range and that the values fit together.
    ///
    /// # Errors
    /// [`ConfigError::Value`] for the first value that is out of its range.
    pub fn check(&self) -> Result<(), ConfigError> {
        match self {
            Config::Flat(flat) => {
                check_duration("read_us", flat.read_us)?;
                check_duration("write_us", flat.write_us)
            }
            Config::Ssd(ssd) => ssd.check(),
        }
    }
}

/// The number of drives, and of pages in a unit of interleaving, where none is given.
fn one() -> u32 {
    1
}

impl SsdConfig {
    pub(crate) fn interleaving(&self) -> Interleaving {
        Interleaving::new(self.drives, self.interleave_pages)
    }

    /// Buses of all drives.
    pub(crate) fn channels_in_all(&self) -> u32 {
        self.drives * self.channels
    }

    /// Time of `bytes` on a channel, in microseconds.
    pub(crate) fn transfer_us(&self, bytes: u32) -> f64 {
        if self.bus_mt_per_s == 0.0 {
            return 0.0;
        }
        f64::from(bytes) / (self.bus_mt_per_s * f64::from(self.bus_bytes))
    }

    /// Returns the number of planes of all drives. A die counts as one plane unless
    /// [`independent_planes`](SsdConfig::independent_planes) is set.
    pub fn planes(&self) -> u32 {
        let dies = self.channels_in_all() * self.chips_per_channel * self.dies_per_chip;
        if self.independent_planes { dies * self.planes_per_die } else { dies }
    }

    /// Blocks of each of the [`planes`](SsdConfig::planes).
    pub(crate) fn blocks(&self) -> u32 {
        let together = if self.independent_planes { 1 } else { self.planes_per_die };
        self.blocks_per_plane * together
    }

    /// Returns the capacity of all blocks of all drives in bytes, over-provisioning included.
    pub fn raw_bytes(&self) -> u64 {
        u64::from(self.planes()) * self.slots_per_plane() * PAGE_BYTES as u64
    }

    /// Returns the number of 4 KiB pages that the host can use. This is the raw capacity without
    /// over-provisioning, in whole stripes over the planes of a drive, and in whole units of
    /// interleaving over several drives.
    pub fn logical_pages(&self) -> u64 {
        self.interleaving().in_all(self.logical_pages_per_drive())
    }

    fn logical_pages_per_drive(&self) -> u64 {
        u64::from(self.planes() / self.drives) * self.logical_pages_per_plane()
    }

    pub(crate) fn logical_pages_per_plane(&self) -> u64 {
        (self.slots_per_plane() as f64 * (1.0 - self.over_provisioning_percent / 100.0)) as u64
    }

    pub(crate) fn slots_per_page(&self) -> u32 {
        self.page_bytes / PAGE_BYTES as u32
    }

    fn slots_per_plane(&self) -> u64 {
        u64::from(self.blocks())
            * u64::from(self.pages_per_block)
            * u64::from(self.slots_per_page())
    }

    /// Valid pages of 4 KiB on each plane at the start.
    pub(crate) fn aged_pages_per_plane(&self) -> u64 {
        let wanted = (self.slots_per_plane() as f64 * self.valid_percent / 100.0) as u64;
        wanted.min(self.logical_pages_per_plane())
    }

    /// Written blocks of each plane at the start.
    pub(crate) fn aged_blocks_per_plane(&self) -> u32 {
        let share = (self.valid_percent + self.invalid_percent) / 100.0;
        (f64::from(self.blocks()) * share).ceil() as u32
    }

    /// Warns if collections that start early keep too many places free. Over-provisioning was meant
    /// to leave those to overwritten pages. The fewer overwritten pages a plane can hold, the more
    /// greedy collection copies.
    fn kept_free_warning(&self) -> Option<String> {
        let spare = (100.0 - self.valid_percent).min(100.0);
        let kept = self.gc_start_free_percent;
        (kept > KEPT_FREE_MAX * spare).then(|| {
            format!(
                "gc_start_free_percent = {kept}: collections keep {kept}% of the places free of the \
                 {spare:.0}% that hold no valid data at the start, so that write amplification is \
                 that of {:.0}% of spare places",
                (spare - kept).max(0.0)
            )
        })
    }

    fn check(&self) -> Result<(), ConfigError> {
        self.check_counts()?;
        for (key, value) in [
            ("read_us", self.read_us),
            ("program_us", self.program_us),
            ("erase_ms", self.erase_ms),
            ("pad_after_us", self.pad_after_us),
            ("buffered_write_us", self.buffered_write_us),
            ("buffered_read_us", self.buffered_read_us),
            ("suspend_us", self.suspend_us),
            ("resume_us", self.resume_us),
        ] {
            check_duration(key, value)?;
        }
        let rate = self.bus_mt_per_s;
        let possible = rate == 0.0 || (1.0..=1e6).contains(&rate);
        require(possible, "bus_mt_per_s", brief(rate), "1 to 1000000, or 0")?;
        for (key, value) in [
            ("over_provisioning_percent", self.over_provisioning_percent),
            ("valid_percent", self.valid_percent),
            ("invalid_percent", self.invalid_percent),
            ("gc_start_free_percent", self.gc_start_free_percent),
            ("gc_hard_free_percent", self.gc_hard_free_percent),
        ] {
            require(
                (0.0..100.0).contains(&value),
                key,
                brief(value),
                "at least 0 and less than 100",
            )?;
        }
        let start = self.gc_start_free_percent;
        let ordered = self.gc_hard_free_percent <= start;
        let expected = format!("at most gc_start_free_percent, {start}");
        require(ordered, "gc_hard_free_percent", self.gc_hard_free_percent, expected)?;
        self.check_room()
    }

    fn check_counts(&self) -> Result<(), ConfigError> {
        for (key, value, most) in [
            ("drives", self.drives, 1 << 6),
            ("interleave_pages", self.interleave_pages, u32::MAX),
            ("channels", self.channels, 1 << 10),
            ("chips_per_channel", self.chips_per_channel, 1 << 10),
            ("dies_per_chip", self.dies_per_chip, 1 << 6),
            ("planes_per_die", self.planes_per_die, 1 << 6),
            ("pages_per_block", self.pages_per_block, 1 << 16),
            ("bus_bytes", self.bus_bytes, 1 << 6),
            ("endurance_cycles", self.endurance_cycles, u32::MAX),
            ("suspensions_max", self.suspensions_max, u32::MAX),
        ] {
            require((1..=most).contains(&value), key, value, format!("1 to {most}"))?;
        }
        let planes = u64::from(self.channels_in_all())
            * u64::from(self.chips_per_channel)
            * u64::from(self.dies_per_chip)
            * u64::from(self.planes_per_die);
        require(planes <= 1 << 20, "channels", self.channels, "at most 1048576 planes in all")?;
        let bytes = self.page_bytes;
        let whole = bytes >= 4096 && bytes.is_multiple_of(4096) && bytes <= 1 << 20;
        require(whole, "page_bytes", bytes, "a multiple of 4096 up to 1048576")?;
        let blocks = self.blocks_per_plane;
        require((8..=1 << 24).contains(&blocks), "blocks_per_plane", blocks, "8 to 16777216")?;
        let fits = self.slots_per_plane() < u64::from(u32::MAX);
        require(fits, "blocks_per_plane", blocks, "less than 16 TiB a plane")
    }

    /// Checks that collections always gain room.
    fn check_room(&self) -> Result<(), ConfigError> {
        let pages = u64::from(self.pages_per_block);
        let slots = u64::from(self.slots_per_page());
        let most = Layout::logical_pages_max(u64::from(self.blocks()), pages, slots);
        let least = 100.0 * (1.0 - most as f64 / self.slots_per_plane() as f64);
        require(
            self.logical_pages_per_plane() <= most && self.logical_pages_per_plane() > 0,
            "over_provisioning_percent",
            self.over_provisioning_percent,
            format!("at least {least:.2}, so that collections always gain room"),
        )?;
        let (unit, each) = (self.interleave_pages, self.logical_pages_per_drive());
        let fits = self.drives == 1 || u64::from(unit) <= each;
        require(fits, "interleave_pages", unit, format!("at most the pages of a drive, {each}"))?;
        let most = 100.0 - self.over_provisioning_percent;
        let expected = format!("at most {most}, what over_provisioning_percent leaves");
        require(self.valid_percent <= most, "valid_percent", self.valid_percent, expected)?;
        let blocks = self.blocks();
        let most = 100.0 * f64::from(blocks - 3) / f64::from(blocks) - self.valid_percent;
        require(
            self.aged_blocks_per_plane() <= blocks - 3,
            "invalid_percent",
            self.invalid_percent,
            format!("at most {most:.2}, so that three blocks of each plane are free"),
        )
    }
}

/// Returns an error that names `key`, its `value` and the `expected` values, unless `holds`.
fn require(
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

/// Checks a duration of up to a second. So a queue of millions of operations is far from an
/// overflow in picoseconds.
fn check_duration(key: &'static str, value: f64) -> Result<(), ConfigError> {
    let most = if key.ends_with("_ms") { 1e3 } else { 1e6 };
    require((0.0..=most).contains(&value), key, brief(value), format!("0 to {most}"))
}
