//! Flash bandwidth by miss ratio (AstriFlash, HPCA'23, Eq. 1).
//!
//! Every access to DRAM moves a block, and every miss moves a whole page from flash. Flash
//! bandwidth is therefore DRAM bandwidth, times the miss ratio, times the page size over the block
//! size.

use std::time::Duration;

/// The memory traffic of one core.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Traffic {
    /// Bytes a second that one core takes from DRAM.
    pub dram_bytes_per_second: f64,
    /// Bytes of one access to DRAM.
    pub block_bytes: f64,
    /// Bytes fetched from flash on a miss.
    pub page_bytes: f64,
}

/// The paper's inputs (AstriFlash §II-A): 0.5 GB/s a core, blocks of 64 B, pages of 4 KiB.
pub const ASTRIFLASH: Traffic =
    Traffic { dram_bytes_per_second: 0.5e9, block_bytes: 64.0, page_bytes: 4096.0 };

impl Traffic {
    /// Returns the bytes a second that one core reads from flash when `miss_ratio` of its accesses
    /// miss. `miss_ratio` is from 0 to 1.
    pub fn flash_bytes_per_second(&self, miss_ratio: f64) -> f64 {
        self.dram_bytes_per_second / self.block_bytes * miss_ratio * self.page_bytes
    }

    /// Returns the miss ratio at which one core reads `bytes_per_second` from flash.
    pub fn miss_ratio_at(&self, bytes_per_second: f64) -> f64 {
        bytes_per_second / self.flash_bytes_per_second(1.0)
    }

    /// Returns the mean time between two DRAM accesses of one core.
    pub fn access_interval(&self) -> Duration {
        Duration::from_secs_f64(self.block_bytes / self.dram_bytes_per_second)
    }

    /// Returns the mean time between two misses of one core.
    ///
    /// # Panics
    /// When `miss_ratio` is 0 or negative.
    pub fn miss_interval(&self, miss_ratio: f64) -> Duration {
        self.access_interval().div_f64(miss_ratio)
    }

    /// Returns the miss ratio at which a core misses once per `interval`. Infinite if `interval` is
    /// zero.
    pub fn miss_ratio_every(&self, interval: Duration) -> f64 {
        self.access_interval().as_secs_f64() / interval.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORES: f64 = 64.0;

    fn percent(share: f64) -> String {
        format!("{:.2}%", 100.0 * share)
    }

    #[test]
    fn a_core_takes_thirty_two_gigabytes_a_second_times_the_miss_ratio() {
        assert!((ASTRIFLASH.flash_bytes_per_second(1.0) - 32e9).abs() < 1.0);
        assert_eq!(ASTRIFLASH.access_interval(), Duration::from_nanos(128));
    }

    #[test]
    fn sixty_gigabytes_a_second_mean_a_page_every_four_microseconds() {
        let ratio = ASTRIFLASH.miss_ratio_at(60e9 / CORES);
        assert_eq!(percent(ratio), "2.93%");
        let interval = ASTRIFLASH.miss_interval(ratio).as_secs_f64();
        assert_eq!(format!("{:.1} µs", interval * 1e6), "4.4 µs");
    }

    #[test]
    fn the_stated_intervals_need_far_less() {
        let ratio = |us| ASTRIFLASH.miss_ratio_every(Duration::from_micros(us));
        assert_eq!([10, 5, 25].map(ratio).map(percent), ["1.28%", "2.56%", "0.51%"]);
        let mean = CORES * ASTRIFLASH.flash_bytes_per_second(ratio(15));
        assert_eq!(format!("{:.0} GB/s", mean / 1e9), "17 GB/s");
    }
}
