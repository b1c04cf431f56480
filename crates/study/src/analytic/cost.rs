//! The cost of memory, and performance per dollar (AstriFlash §II-A; FlatFlash §5.7; CXL-flash,
//! ATC'23, observation 3).

use serde::Serialize;

/// Returns the price of all-DRAM memory divided by the price of flash with a DRAM cache (AstriFlash
/// §II-A).
///
/// Flash holds all data, and DRAM caches `dram_share` of it. A byte of DRAM costs `price_ratio`
/// times as much as a byte of flash.
pub fn saving(dram_share: f64, price_ratio: f64) -> f64 {
    1.0 / (dram_share + 1.0 / price_ratio)
}

/// Two ways to hold the same dataset: all in DRAM, or on an SSD behind a smaller DRAM. Prices are
/// from FlatFlash §5.7.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Purchase {
    /// DRAM that holds all data, in GB (the paper's X).
    pub all_dram_gb: f64,
    /// DRAM in front of the SSD, in GB (the paper's D).
    pub dram_gb: f64,
    /// Capacity of the SSD, in GB (the paper's S).
    pub ssd_gb: f64,
    /// Extra price of a server that can hold `all_dram_gb`, in dollars. The price of the DRAM
    /// itself is not included.
    pub extra_dollars: f64,
}

/// Prices of memory in dollars a GB, of 10⁹ bytes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Prices {
    /// Price of DRAM.
    pub dram: f64,
    /// Price of flash.
    pub flash: f64,
}

impl Prices {
    /// Returns the price of `dram_bytes` of DRAM and `flash_bytes` of flash, in dollars. A GB is
    /// 10⁹ bytes.
    pub fn dollars(&self, dram_bytes: f64, flash_bytes: f64) -> f64 {
        const GB: f64 = 1e9;
        dram_bytes / GB * self.dram + flash_bytes / GB * self.flash
    }
}

impl Default for Prices {
    /// Returns approximate prices of server DRAM modules and NVMe drives in 2024. They are an
    /// assumption; options replace them.
    fn default() -> Prices {
        Prices { dram: 3.0, flash: 0.1 }
    }
}

/// Dollars for a GB of DRAM (FlatFlash §5.7).
pub(crate) const DRAM_DOLLARS_PER_GB: f64 = 30.0;

/// Dollars for a GB of SSD (FlatFlash §5.7).
pub(crate) const SSD_DOLLARS_PER_GB: f64 = 2.0;

/// Extra price in dollars of a server that can hold all data in DRAM (FlatFlash §5.7).
pub const BIG_SERVER_DOLLARS: f64 = 1500.0;

impl Purchase {
    /// Returns the choice between an SSD with `dram_gb` of DRAM and as much DRAM as the SSD holds.
    /// The SSD has `ratio` times `dram_gb`. The extra price of a larger server is 0.
    pub fn ssd_to_dram(ratio: f64, dram_gb: f64) -> Purchase {
        let ssd_gb = ratio * dram_gb;
        Purchase { all_dram_gb: ssd_gb, dram_gb, ssd_gb, extra_dollars: 0.0 }
    }

    /// Returns the price of all data in DRAM divided by the price of the SSD and its DRAM.
    pub fn saving(&self) -> f64 {
        let all_dram = DRAM_DOLLARS_PER_GB * self.all_dram_gb + self.extra_dollars;
        all_dram / (DRAM_DOLLARS_PER_GB * self.dram_gb + SSD_DOLLARS_PER_GB * self.ssd_gb)
    }
}

/// Returns performance per dollar relative to DRAM-only: the saving divided by the slowdown
/// (FlatFlash, Table 3).
pub fn effectiveness(saving: f64, slowdown: f64) -> f64 {
    saving / slowdown
}

/// Returns performance per dollar relative to DRAM-only (CXL-flash, ATC'23, observation 3). The
/// requests in `share`, from 0 to 1, are as fast as DRAM. The others count as zero performance.
pub fn performance_per_dollar(
    share: f64,
    dram_dollars_per_gb: f64,
    flash_dollars_per_gb: f64,
) -> f64 {
    share * dram_dollars_per_gb / flash_dollars_per_gb
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_decimal(value: f64) -> String {
        format!("{value:.1}")
    }

    #[test]
    fn three_percent_of_dram_save_twenty_times() {
        assert_eq!(one_decimal(saving(0.03, 50.0)), "20.0");
        assert_eq!(one_decimal(saving(32.0 / 1024.0, 50.0)), "19.5");
    }

    #[test]
    fn a_gb_costs_its_price_and_a_gib_more() {
        let prices = Prices { dram: 4.0, flash: 0.5 };
        assert_eq!(prices.dollars(2e9, 4e9), 10.0);
        assert_eq!(prices.dollars(f64::from(1 << 30), 0.0), 4.294967296);
    }

    #[test]
    fn fast_requests_for_the_money() {
        let least = performance_per_dollar(0.68, 5.0, 0.30);
        let most = performance_per_dollar(0.91, 5.0, 0.05);
        assert_eq!((least.round(), most.round()), (11.0, 91.0));
    }

    #[test]
    fn an_ssd_512_times_as_large_as_dram_saves_as_printed_without_the_bigger_server() {
        let saving = Purchase::ssd_to_dram(512.0, 2.0).saving();
        assert_eq!(format!("{saving:.2}"), "14.57");
        let formula = DRAM_DOLLARS_PER_GB / (SSD_DOLLARS_PER_GB + DRAM_DOLLARS_PER_GB / 512.0);
        assert!((saving - formula).abs() < 1e-12);
    }

    #[test]
    fn a_ratio_of_256_needs_part_of_the_bigger_server() {
        let plain = Purchase::ssd_to_dram(256.0, 2.0);
        assert_eq!(format!("{:.2}", plain.saving()), "14.17");
        let with_server = Purchase { extra_dollars: BIG_SERVER_DOLLARS, ..plain };
        assert!(with_server.saving() > 15.0);
    }
}
