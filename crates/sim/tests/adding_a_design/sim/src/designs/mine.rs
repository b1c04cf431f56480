//! Mine (PAPER'27): a hardware DRAM cache whose misses switch user-level threads.

use super::Design;
use crate::core_side::CoreSide;
use crate::memory_side::DramCache;

pub(super) const MINE: Design = Design {
    name: "mine",
    about: "AstriFlash with few threads (PAPER'27)",
    config: include_str!("../../configs/mine.toml"),
    core_side: CoreSide::user_switch,
    memory_side: |config| Ok(Box::new(DramCache::new(config)?)),
};
