//! [`Market`]: prices of memory and lifetimes of flash, for sizings and comparisons.

use ebbtide_core::{Bytes, brief};
use serde::Serialize;
use thiserror::Error;

use crate::analytic::cost::Prices;
use crate::analytic::lifetime::Cells;

/// Prices of memory, and the drives that hold the data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Market {
    /// Prices in dollars a GB. Flash is priced by the size of the data, not by whole drives.
    pub prices: Prices,
    /// The kind of flash cell, which sets the endurance.
    pub cells: Cells,
    /// Capacity of a drive in bytes, above 0. Lifetimes assume the fewest drives that hold the
    /// data.
    pub drive_bytes: u64,
}

impl Default for Market {
    /// Returns the default prices and TLC drives of 3.84 TB, a common size for servers.
    fn default() -> Market {
        let drive_bytes = 3_840_000_000_000;
        Market { prices: Prices::default(), cells: Cells::Tlc, drive_bytes }
    }
}

/// The error of an impossible price or capacity.
#[derive(Debug, Error, PartialEq)]
#[error("{option} {given}: expected {expected}")]
pub struct MarketError {
    /// The option of the command line, such as `--ssd`.
    pub option: &'static str,
    /// The given value.
    pub given: String,
    /// The expected values.
    pub expected: &'static str,
}

impl Market {
    /// Returns the capacity in bytes of the fewest drives that hold `data_bytes`, at least one.
    pub fn flash_bytes(&self, data_bytes: u64) -> u64 {
        let drives = data_bytes.div_ceil(self.drive_bytes.max(1)).max(1);
        drives.saturating_mul(self.drive_bytes)
    }

    /// Checks the prices and the drive's capacity.
    ///
    /// # Errors
    /// [`MarketError`] when a price or the capacity is out of its range.
    pub fn check(&self) -> Result<(), MarketError> {
        let expected = "0.000001 to 1000000 dollars a GB";
        let prices = [("--dram-price", self.prices.dram), ("--flash-price", self.prices.flash)];
        for (option, price) in prices {
            if !(1e-6..=1e6).contains(&price) {
                return Err(MarketError { option, given: brief(price), expected });
            }
        }
        if !(1..=1 << 50).contains(&self.drive_bytes) {
            let (option, expected) = ("--ssd", "a capacity above 0, at most 1PiB");
            let given = Bytes(self.drive_bytes).to_string();
            return Err(MarketError { option, given, expected });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_drives_are_taken_as_hold_the_data() {
        let market = Market { drive_bytes: 100, ..Market::default() };
        assert_eq!(
            [0, 1, 100, 101, 1000].map(|data| market.flash_bytes(data)),
            [100, 100, 100, 200, 1000]
        );
    }
}
