//! The lifetime of flash, by the formula of the CXL-flash authors' simulator (ATC'23, observation
//! 2).
//!
//! The paper's years are working years of 2,080 hours (40 a week). The device is only written to in
//! these hours, so a device in continuous use lasts less than a quarter as long. Wear is assumed to
//! be even, and write amplification to be 1.

use ebbtide_core::choice;

/// Hours of a year of continuous use.
const HOURS: f64 = 24.0 * 365.0;

/// Hours of the paper's year.
const WORKING_HOURS: f64 = 2080.0;

choice! {
    /// Kinds of flash cell.
    pub enum Cells as "kind of flash" {
        /// Ultra-low-latency flash.
        Ull = "ULL",
        /// One bit a cell.
        Slc = "SLC",
        /// Two bits a cell.
        Mlc = "MLC",
        /// Three bits a cell.
        Tlc = "TLC",
        /// Four bits a cell.
        Qlc = "QLC",
    }
}

impl Cells {
    /// Returns the program and erase cycles that a block survives (ATC'23, Table 1; QLC: an
    /// assumption).
    pub const fn endurance_cycles(self) -> f64 {
        match self {
            Cells::Ull | Cells::Slc => 100_000.0,
            Cells::Mlc => 10_000.0,
            Cells::Tlc => 3_000.0,
            // Not in the table: makers of such drives state it, an assumption.
            Cells::Qlc => 1_000.0,
        }
    }
}

/// A device and the writes of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wear {
    /// Program and erase cycles that a block survives, as in [`Cells::endurance_cycles`].
    pub cycles: f64,
    /// Capacity of the device in bytes.
    pub device_bytes: f64,
    /// Pages of 4 KiB written to flash in the run.
    pub pages_written: f64,
    /// Length of the run, in seconds.
    pub seconds: f64,
}

impl Wear {
    /// Returns the lifetime in years of 2,080 hours, as the paper prints it. Infinite if no page
    /// was written.
    pub fn working_years(&self) -> f64 {
        self.hours() / WORKING_HOURS
    }

    /// Returns the lifetime in years of continuous use. Infinite if no page was written.
    pub fn years(&self) -> f64 {
        self.hours() / HOURS
    }

    /// Returns the pages that such a run may write for the device to last exactly `working_years`.
    pub fn pages_for(&self, working_years: f64) -> f64 {
        self.pages_written * self.working_years() / working_years
    }

    fn hours(&self) -> f64 {
        self.cycles * self.device_bytes * self.seconds / (self.pages_written * 4096.0) / 3600.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wear(accesses: f64, interval_ns: f64, pages_written: f64) -> Wear {
        let (device_bytes, seconds) = ((1_u64 << 40) as f64, accesses * interval_ns / 1e9);
        Wear { cycles: Cells::Ull.endurance_cycles(), device_bytes, pages_written, seconds }
    }

    #[test]
    fn radiosity_lasts_as_printed() {
        let wear = wear(61e6, 1863.0, 1e6);
        assert_eq!(format!("{:.1} s", wear.seconds), "113.6 s");
        // The paper prints 403 from an unrounded count of writes.
        assert_eq!(format!("{:.0}", wear.working_years()), "407");
    }

    #[test]
    fn page_rank_lasts_nine_months_round_the_clock() {
        let some = wear(435e6, 51.0, 1e6);
        let page_rank = Wear { pages_written: some.pages_for(3.1), ..some };
        assert_eq!(format!("{:.1} s", page_rank.seconds), "22.2 s");
        assert_eq!(format!("{:.1} M", page_rank.pages_written / 1e6), "25.7 M");
        assert_eq!(format!("{:.1}", page_rank.working_years()), "3.1");
        assert_eq!(format!("{:.2}", page_rank.years()), "0.74");
    }
}
