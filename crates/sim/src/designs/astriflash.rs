//! AstriFlash (HPCA'23) and its ablations: a hardware DRAM cache, and a switch of user-level
//! threads on a miss. The ablations are the same composition with other parameters.

use super::Design;
use crate::config::{Config, ConfigError};
use crate::core_side::CoreSide;
use crate::memory_side::{DramCache, MemorySide};

pub(super) const ASTRIFLASH: Design = Design {
    name: "astriflash",
    about: "hardware DRAM cache over flash; a miss switches user-level threads (HPCA'23)",
    config: include_str!("../../configs/astriflash.toml"),
    core_side: CoreSide::user_switch,
    memory_side: dram_cache,
};

pub(super) const IDEAL: Design = Design {
    name: "astriflash-ideal",
    about: "AstriFlash whose thread switches are free (HPCA'23 section V-A)",
    config: include_str!("../../configs/astriflash-ideal.toml"),
    core_side: CoreSide::user_switch,
    memory_side: dram_cache,
};

pub(super) const NO_PS: Design = Design {
    name: "astriflash-nops",
    about: "AstriFlash without priority scheduling: first in, first out (HPCA'23 section VI-B)",
    config: include_str!("../../configs/astriflash-nops.toml"),
    core_side: CoreSide::user_switch,
    memory_side: dram_cache,
};

pub(super) const NO_DP: Design = Design {
    name: "astriflash-nodp",
    about: "AstriFlash without the DRAM partition for page tables (HPCA'23 section VI-B)",
    config: include_str!("../../configs/astriflash-nodp.toml"),
    core_side: CoreSide::user_switch,
    memory_side: dram_cache,
};

fn dram_cache(config: &Config) -> Result<Box<dyn MemorySide>, ConfigError> {
    Ok(Box::new(DramCache::new(config)?))
}
