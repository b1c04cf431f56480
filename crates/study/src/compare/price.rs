//! [`Price`]: the price of a design's memory.

use ebbtide_sim::config::Config;
use serde::Serialize;

use crate::analytic::cost::Prices;

/// Bytes of a GiB.
pub(super) const GIB: f64 = (1u64 << 30) as f64;

/// A design's memory and its price.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Price {
    /// All DRAM, in front of flash and inside the SSD, in GiB. Memory that replaces DRAM is priced
    /// as DRAM.
    pub dram_gib: f64,
    /// Flash, in GiB. If there is any, it holds all data once, over any number of drives.
    pub flash_gib: f64,
    /// The price in dollars, at the comparison's prices, without the server.
    pub dollars: f64,
}

impl Price {
    /// The price of the memory of `config`.
    pub(super) fn of(config: &Config, has_flash: bool, prices: Prices) -> Price {
        let data = config.dataset.size.0;
        let in_ssd = config.mos.as_ref().map_or(0, |mos| mos.ssd_dram.0);
        let promoted = config.promotion.as_ref().map_or(0, |promotion| promotion.size.0);
        let log = config.write_log.as_ref().map_or(0, |log| log.size.0);
        let dram = config.dram_cache.size.0 + in_ssd + promoted + log;
        let (dram, flash) = if has_flash { (dram, data) } else { (data, 0) };
        let (dram, flash) = (dram as f64, flash as f64);
        let dollars = prices.dollars(dram, flash);
        Price { dram_gib: dram / GIB, flash_gib: flash / GIB, dollars }
    }
}

#[cfg(test)]
mod tests {
    use ebbtide_sim::designs::resolve;

    use super::*;

    #[test]
    fn memory_is_priced_by_what_it_is_made_of() {
        let prices = Prices { dram: 30.0, flash: 2.0 };
        let price =
            |design, has_flash| Price::of(&resolve(design, &[]).unwrap(), has_flash, prices);
        let gib = |dram, flash| prices.dollars(dram * GIB, flash * GIB);
        assert_eq!(price("dram-only", false).dollars, gib(256.0, 0.0));
        assert_eq!(price("astriflash", true).dollars, gib(8.0, 256.0));
        // 8 GiB of NVDIMM and 1.5 in the SSD.
        assert_eq!(price("lhams-e", true).dram_gib, 9.5);
        // 2 GiB of promoted pages and 40 MiB in the SSD.
        assert_eq!(price("flatflash", true).dram_gib, 2.0390625);
        // 2 GiB of promoted pages, and 448 MiB of cache and 64 of log in the SSD.
        assert_eq!(price("skybyte-wp", true).dram_gib, 2.5);
    }

    #[test]
    fn the_data_is_priced_once_over_any_number_of_drives() {
        let price = |drives| {
            let keys = [("flash.preset", "tlc-pcie4"), ("flash.drives", drives)];
            let config = resolve("astriflash", &keys).unwrap();
            Price::of(&config, true, Prices::default())
        };
        assert_eq!(price("1").flash_gib, 256.0);
        assert_eq!(price("4"), price("1"));
    }
}
