//! [`CostAndLifetime`]: the cost of a size of DRAM, and the lifetime of the flash behind it.

use ebbtide_core::PAGE_BYTES;
use serde::Serialize;

use super::{Demand, Need, SizeOptions};
use crate::analytic::lifetime::{Cells, Wear};

/// The cost of a size of DRAM, the flash traffic and the lifetime of the SSD.
#[derive(Debug, Clone, Serialize)]
pub struct CostAndLifetime {
    /// Price of the DRAM, and of flash for all data, in dollars. Without flash if the DRAM holds
    /// all data.
    pub dollars: f64,
    /// Price of all data in DRAM, in dollars.
    pub dollars_dram_only: f64,
    /// The price of all data in DRAM divided by the price of this memory (AstriFlash §II-A).
    pub saving: f64,
    /// Performance per dollar relative to DRAM-only: the saving times the throughput kept.
    pub effectiveness: f64,
    /// Flash reads of all cores at the offered load, in bytes a second.
    pub flash_read_bytes_per_s: f64,
    /// Flash writes of all cores at the offered load, in bytes a second.
    pub flash_write_bytes_per_s: f64,
    /// The lifetime for every kind of flash cell.
    pub lifetimes: Vec<CellLifetime>,
}

/// The lifetime for one kind of flash cell.
#[derive(Debug, Clone, Serialize)]
pub struct CellLifetime {
    /// The kind of cell.
    pub cells: Cells,
    /// Years of continuous use. `None` if nothing is written.
    pub years: Option<f64>,
}

impl CostAndLifetime {
    /// Cost and lifetime with the DRAM of `need`.
    pub(super) fn new(options: &SizeOptions, demand: &Demand, need: &Need) -> CostAndLifetime {
        let prices = options.market.prices;
        let dataset_bytes = dataset_bytes(demand);
        let all_dram = need.dram_bytes as f64 >= dataset_bytes;
        let flash_bytes = if all_dram { 0.0 } else { dataset_bytes };
        let dollars = prices.dollars(need.dram_bytes as f64, flash_bytes);
        let dollars_dram_only = prices.dollars(dataset_bytes, 0.0);
        let saving = dollars_dram_only / dollars;
        let jobs_per_s = f64::from(options.cores) * options.load * 1e6 / demand.job_us;
        let page = PAGE_BYTES as f64;
        let writes_per_s = jobs_per_s * need.write_backs_per_job;
        let lifetimes = Cells::ALL.map(|cells| {
            let wear = wear(options, demand, cells.endurance_cycles(), writes_per_s);
            let years = wear.years();
            CellLifetime { cells, years: years.is_finite().then_some(years) }
        });
        CostAndLifetime {
            dollars,
            dollars_dram_only,
            saving,
            effectiveness: saving * need.throughput_kept,
            flash_read_bytes_per_s: jobs_per_s * need.reads_per_job * page,
            flash_write_bytes_per_s: writes_per_s * page,
            lifetimes: lifetimes.to_vec(),
        }
    }

    /// Returns the lifetime of flash with `cells`, in years of continuous use. `None` if nothing is
    /// written.
    pub fn years(&self, cells: Cells) -> Option<f64> {
        self.lifetimes.iter().find(|lifetime| lifetime.cells == cells)?.years
    }
}

/// The most pages written a second with which the flash of `options` reaches the required lifetime.
/// Infinite if `options` require none.
pub(super) fn writes_per_s_max(options: &SizeOptions, demand: &Demand) -> f64 {
    let cycles = options.market.cells.endurance_cycles();
    options
        .min_lifetime_years
        .map_or(f64::INFINITY, |years| wear(options, demand, cycles, 1.0).years() / years)
}

/// The wear of the flash of `options` under `writes_per_s` pages a second.
fn wear(options: &SizeOptions, demand: &Demand, cycles: f64, writes_per_s: f64) -> Wear {
    let data_bytes = demand.dataset_pages * PAGE_BYTES as u64;
    let device_bytes = options.market.flash_bytes(data_bytes) as f64;
    Wear { cycles, device_bytes, pages_written: writes_per_s, seconds: 1.0 }
}

fn dataset_bytes(demand: &Demand) -> f64 {
    (demand.dataset_pages * PAGE_BYTES as u64) as f64
}

#[cfg(test)]
mod tests {
    use super::super::demand::Sampling;
    use super::super::{Input, SizeOptions};
    use super::*;

    #[test]
    fn flash_may_be_written_as_often_as_it_lasts_the_years_that_are_asked_for() {
        let demand = Demand {
            source: String::new(),
            dataset_pages: 1000,
            accesses: 1,
            accesses_per_job: 1.0,
            pages_per_job: 1,
            job_us: 1.0,
            first_touches: 0.0,
            sampling: Sampling { rate: 1.0, error: None, small_caches_error: None },
            curves: Vec::new(),
        };
        let mut options = SizeOptions::new(Input::default());
        assert_eq!(writes_per_s_max(&options, &demand), f64::INFINITY);
        options.min_lifetime_years = Some(2.0);
        options.market.drive_bytes = 4096 * 1000;
        // 3,000 erases of each of its pages in two years.
        let seconds = 2.0 * 365.0 * 86400.0;
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-9;
        assert!(near(writes_per_s_max(&options, &demand), 3000.0 * 1000.0 / seconds));
        options.market.cells = Cells::Ull;
        options.market.drive_bytes = 4096 * 5000;
        assert!(near(writes_per_s_max(&options, &demand), 100_000.0 * 5000.0 / seconds));
    }
}
