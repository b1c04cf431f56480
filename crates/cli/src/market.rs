//! Options for the price of memory and the life of flash, with the same defaults for all verbs.

use clap::Args;
use ebbtide_core::{Bytes, UnknownName};
use ebbtide_study::analytic::cost::Prices;
use ebbtide_study::market;
use ebbtide_study::size::Cells;

use crate::{names, numbers};

#[derive(Args)]
pub(crate) struct Market {
    /// Price of a GB of DRAM in dollars
    #[arg(long, value_parser = numbers::number, default_value_t = Prices::default().dram)]
    dram_price: f64,
    /// Price of a GB of flash in dollars
    #[arg(long, value_parser = numbers::number, default_value_t = Prices::default().flash)]
    flash_price: f64,
    /// Kind of flash cells: ull, slc, mlc, tlc or qlc
    #[arg(
        long,
        value_parser = names::with(cells, ["ull", "slc", "mlc", "tlc", "qlc"]),
        hide_possible_values = true,
        default_value = "tlc",
        value_name = "KIND"
    )]
    cells: Cells,
    /// Capacity of an SSD. It determines the lifetime. The data takes as many SSDs as it needs
    #[arg(long, default_value = "3.84TB", value_name = "SIZE")]
    ssd: Bytes,
}

impl Market {
    pub(crate) fn options(&self) -> market::Market {
        market::Market {
            prices: Prices { dram: self.dram_price, flash: self.flash_price },
            cells: self.cells,
            drive_bytes: self.ssd.0,
        }
    }
}

fn cells(name: &str) -> Result<Cells, String> {
    name.to_uppercase().parse().map_err(|error: UnknownName| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        market: Market,
    }

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let given = Only::parse_from(["ebbtide"]).market.options();
        assert_eq!(given, market::Market::default());
    }
}
