//! FlatFlash (ASPLOS'19): a core waits for lines of an SSD over MMIO, and hot pages move to host
//! DRAM.

use super::Design;
use super::cxl_flash::lines;
use crate::core_side::CoreSide;

pub(super) const FLATFLASH: Design = Design {
    name: "flatflash",
    about: "byte-addressable SSD over MMIO; hot pages are promoted to host DRAM (ASPLOS'19)",
    config: include_str!("../../configs/flatflash.toml"),
    core_side: |_| Ok(CoreSide::Block),
    memory_side: lines,
};
