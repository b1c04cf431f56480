//! Flash-Sync: AstriFlash's DRAM cache with cores that wait for flash (HPCA'23 §V-A).

use super::Design;
use crate::core_side::CoreSide;
use crate::memory_side::DramCache;

pub(super) const FLASH_SYNC: Design = Design {
    name: "flash-sync",
    about: "hardware DRAM cache over flash; a miss blocks its core (HPCA'23 section V-A)",
    config: include_str!("../../configs/flash-sync.toml"),
    core_side: |_| Ok(CoreSide::Block),
    memory_side: |config| Ok(Box::new(DramCache::new(config)?)),
};
