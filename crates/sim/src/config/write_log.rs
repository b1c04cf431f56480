//! [`WriteLog`]: parameters of a log of written lines.

use ebbtide_core::{Bytes, LINE_BYTES, choice};
use serde::{Deserialize, Serialize};

use super::{ConfigError, DramCache, require};

/// A log of written lines in the DRAM of a byte-addressable device (SkyByte, HPCA'25).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteLog {
    /// Size of the log. 0: none.
    pub size: Bytes,
    /// Pages that compaction merges at a time.
    pub merges: u64,
    /// The way of a store to a line that the chip does not have.
    pub stores: Stores,
}

choice! {
    /// The way of a store to a line that the chip does not have.
    pub enum Stores as "way of stores" {
        /// The chip fetches the line, and writes it back when it leaves the chip.
        Fetched = "fetched",
        /// The store goes to the log at once. The core does not wait for the line.
        Logged = "logged",
    }
}

impl WriteLog {
    /// Lines that the log has room for. `None` if there is no log.
    pub(crate) fn lines(&self) -> Option<u64> {
        (self.size.0 > 0).then_some(self.size.0 / LINE_BYTES as u64)
    }

    /// Checks the values. A log needs a `cache` in the device.
    pub(crate) fn check(&self, cache: &DramCache) -> Result<(), ConfigError> {
        const MOST: Bytes = Bytes(1 << 40);
        let least = ebbtide_core::WriteLog::LINES_MIN;
        let holds = self.lines().is_none_or(|lines| lines >= least) && self.size <= MOST;
        let expected = format!("0B, or {} to {MOST}", Bytes(least * LINE_BYTES as u64));
        require(holds, "write_log.size", self.size, expected)?;
        let merges = (1..=1 << 24).contains(&self.merges);
        require(merges, "write_log.merges", self.merges, "1 to 16777216")?;
        let cached = cache.size.0 > 0 || self.lines().is_none();
        let expected = "0B, where dram_cache.size = 0: lines are read from pages of that cache";
        require(cached, "write_log.size", self.size, expected)
    }
}
