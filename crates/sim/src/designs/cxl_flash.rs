//! CXL-flash (USENIX ATC'23): a core addresses a flash device like memory and waits for it.

use super::Design;
use crate::config::{Config, ConfigError};
use crate::core_side::CoreSide;
use crate::memory_side::{DeviceCache, MemorySide, Promotion};

pub(super) const CXL_FLASH: Design = Design {
    name: "cxl-flash",
    about: "byte-addressable flash behind CXL: device cache, miss registers, prefetcher (ATC'23)",
    config: include_str!("../../configs/cxl-flash.toml"),
    core_side: |_| Ok(CoreSide::Block),
    memory_side: lines,
};

/// A byte-addressable device. With a `[promotion]` section, host DRAM lies over it.
pub(super) fn lines(config: &Config) -> Result<Box<dyn MemorySide>, ConfigError> {
    let device = DeviceCache::new(config)?;
    if config.promotion.is_none() {
        return Ok(Box::new(device));
    }
    Ok(Box::new(Promotion::new(config, device)?))
}
