//! [`Mos`]: the parameters that HAMS (ISCA'21) adds to the cache in front of flash.

use serde::{Deserialize, Serialize};

use ebbtide_core::{Bytes, choice};

use super::{Config, ConfigError, require};

/// HAMS's memory-over-storage. Its cache is `[dram_cache]`, and its link to flash `[link]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mos {
    /// The page that moves between flash and the NVDIMM.
    pub page: Bytes,
    /// Whether the wanted 4 KiB of an access come first and end its wait. Otherwise, and always in
    /// persist mode, the access waits for the whole page.
    pub wanted_first: bool,
    /// How flash is attached.
    pub attachment: Attachment,
    /// What may be in flight at once, and what survives a power cut.
    pub mode: Mode,
    /// Time of the lookup in the SSD's mapping table for each command.
    pub lookup_ns: u64,
    /// Time to hand the NVDIMM from one master to the other. 0 if the host is the only master.
    pub lock_ns: u64,
    /// Size of the SSD's internal DRAM, which buffers writes. 0: there is none.
    pub ssd_dram: Bytes,
    /// Bandwidth of the SSD's internal DRAM.
    pub ssd_dram_gb_per_s: u64,
}

choice! {
    /// How flash is attached.
    pub enum Attachment as "attachment" {
        /// An SSD with doorbells behind PCIe: loosely coupled.
        Pcie = "pcie",
        /// Registers on the NVDIMM's own DDR bus: tightly coupled.
        Ddr = "ddr",
    }
}

choice! {
    /// What may be in flight at once, and what survives a power cut.
    pub enum Mode as "mode" {
        /// Memory expansion: as many commands in flight as the queue holds, all lost in a power
        /// cut.
        Extend = "extend",
        /// Durable: one command at a time, each with a journal tag. Unfinished commands are
        /// replayed.
        Persist = "persist",
    }
}

impl Config {
    /// The `[mos]` section, which a design with HAMS's memory side needs.
    ///
    /// # Errors
    /// When it is missing.
    pub(crate) fn mos(&self) -> Result<&Mos, ConfigError> {
        let missing = || ConfigError::Value {
            key: "mos",
            value: "nothing".to_string(),
            expected: "a section [mos], as in lhams-e".to_string(),
        };
        self.mos.as_ref().ok_or_else(missing)
    }
}

impl Mos {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let whole = self.page.0 > 0 && self.page.0.is_multiple_of(4096) && self.page.0 <= 1 << 30;
        require(whole, "mos.page", self.page, "a multiple of 4KiB up to 1GiB")?;
        for (key, value) in [("mos.lookup_ns", self.lookup_ns), ("mos.lock_ns", self.lock_ns)] {
            require(value <= 1_000_000, key, value, "0 to 1000000")?;
        }
        let most = Bytes(1 << 40);
        require(self.ssd_dram <= most, "mos.ssd_dram", self.ssd_dram, format!("at most {most}"))?;
        let (least, speed) = (u64::from(self.ssd_dram.0 > 0), self.ssd_dram_gb_per_s);
        let expected = format!("{least} to 10000");
        require((least..=10_000).contains(&speed), "mos.ssd_dram_gb_per_s", speed, expected)
    }
}
