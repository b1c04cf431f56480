//! DRAM-only: the design that all others are compared with.

use super::Design;
use crate::core_side::CoreSide;
use crate::memory_side::AllDram;

pub(super) const DRAM_ONLY: Design = Design {
    name: "dram-only",
    about: "all data in DRAM (HPCA'23 section V-A)",
    config: include_str!("../../configs/dram-only.toml"),
    core_side: |_| Ok(CoreSide::Block),
    memory_side: |config| Ok(Box::new(AllDram::new(config))),
};
