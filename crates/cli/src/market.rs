//! What memory costs and how long flash lasts: the same options, with the same defaults, wherever
//! they matter.

use clap::Args;
use ebbtide_core::UnknownName;
use ebbtide_study::analytic::cost::Prices;
use ebbtide_study::size::Cells;

use crate::numbers;

#[derive(Args)]
pub(crate) struct Market {
    /// Price of a GB of DRAM in dollars
    #[arg(long, value_parser = numbers::number, default_value_t = Prices::default().dram)]
    pub(crate) dram_price: f64,
    /// Price of a GB of flash in dollars
    #[arg(long, value_parser = numbers::number, default_value_t = Prices::default().flash)]
    pub(crate) flash_price: f64,
    /// Kind of flash cells: ull, slc, mlc, tlc or qlc
    #[arg(long, value_parser = cells, default_value = "tlc", value_name = "KIND")]
    pub(crate) cells: Cells,
}

fn cells(name: &str) -> Result<Cells, UnknownName> {
    name.to_uppercase().parse()
}
