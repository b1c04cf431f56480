//! [`Market`]: prices of memory and lifetimes of flash, for sizings and comparisons.

use serde::Serialize;
use thiserror::Error;

use crate::analytic::cost::Prices;
use crate::analytic::lifetime::Cells;

/// Prices of memory, and the drives that hold the data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Market {
    /// Dollars a GB. Only the data's part of a drive is paid for.
    pub prices: Prices,
    /// The kind of flash cells. It determines the number of writes that they endure.
    pub cells: Cells,
    /// Capacity of a drive in bytes. The number of drives is the least that holds the data.
    pub drive_bytes: u64,
}

impl Default for Market {
    /// TLC drives of 3.84 TB, a common size of drives for servers.
    fn default() -> Market {
        let drive_bytes = 3_840_000_000_000;
        Market { prices: Prices::default(), cells: Cells::Tlc, drive_bytes }
    }
}

/// The error of an impossible price or capacity.
#[derive(Debug, Error, PartialEq)]
#[error("{option} {given}: expected {expected}")]
pub struct MarketError {
    /// The option of the command line.
    pub option: &'static str,
    /// The given value.
    pub given: String,
    /// The expected values.
    pub expected: &'static str,
}

impl Market {
    /// Capacity of the drives that hold `data_bytes`, in bytes.
    pub fn flash_bytes(&self, data_bytes: u64) -> u64 {
        let drives = data_bytes.div_ceil(self.drive_bytes.max(1)).max(1);
        drives.saturating_mul(self.drive_bytes)
    }

    /// # Errors
    /// When a price or a capacity is not above 0.
    pub fn check(&self) -> Result<(), MarketError> {
        let expected = "dollars a GB, more than 0";
        let prices = [("--dram-price", self.prices.dram), ("--flash-price", self.prices.flash)];
        for (option, price) in prices {
            if !(price.is_finite() && price > 0.0) {
                return Err(MarketError { option, given: price.to_string(), expected });
            }
        }
        if self.drive_bytes == 0 {
            let (option, expected) = ("--ssd", "a capacity above 0");
            return Err(MarketError { option, given: "0".to_string(), expected });
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
