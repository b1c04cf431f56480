//! CXL-flash (USENIX ATC'23): a core waits for a flash device that it addresses like memory.

use super::Design;
use crate::core_side::CoreSide;
use crate::memory_side::DeviceCache;

pub(super) const CXL_FLASH: Design = Design {
    name: "cxl-flash",
    about: "byte-addressable flash behind CXL: device cache, miss registers, prefetcher (ATC'23)",
    config: include_str!("../../../../configs/cxl-flash.toml"),
    core_side: |_| Ok(CoreSide::Block),
    memory_side: |config| Ok(Box::new(DeviceCache::new(config)?)),
};
