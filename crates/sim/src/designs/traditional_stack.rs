//! TraditionalStack (FlatFlash's second baseline): mmap over a file system, with separate
//! translations.

use super::Design;
use crate::core_side::CoreSide;
use crate::memory_side::Paging;

pub(super) const TRADITIONAL_STACK: Design = Design {
    name: "traditional-stack",
    about: "page faults through mmap, file system and block layer (ASPLOS'19 section 5)",
    config: include_str!("../../configs/traditional-stack.toml"),
    core_side: |_| Ok(CoreSide::Block),
    memory_side: |config| Ok(Box::new(Paging::new(config)?)),
};
