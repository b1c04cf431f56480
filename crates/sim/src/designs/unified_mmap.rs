//! UnifiedMMap (FlatFlash's first baseline, after FlashMap): page faults with one merged
//! translation.

use super::Design;
use crate::core_side::CoreSide;
use crate::memory_side::Paging;

pub(super) const UNIFIED_MMAP: Design = Design {
    name: "unified-mmap",
    about: "page faults with one translation from memory to flash (ASPLOS'19 section 5)",
    config: include_str!("../../configs/unified-mmap.toml"),
    core_side: |_| Ok(CoreSide::Block),
    memory_side: |config| Ok(Box::new(Paging::new(config)?)),
};

pub(super) const UNIFIED_MMAP_LINUX: Design = Design {
    name: "unified-mmap-linux",
    about: "unified-mmap with the read-ahead of a Linux of today",
    config: include_str!("../../configs/unified-mmap-linux.toml"),
    ..UNIFIED_MMAP
};
