//! OS-Swap: the operating system pages between DRAM and flash (HPCA'23 §V-A).

use super::Design;
use crate::core_side::CoreSide;
use crate::memory_side::Paging;

pub(super) const OS_SWAP: Design = Design {
    name: "os-swap",
    about: "the operating system pages; a miss is a fault and a context switch (HPCA'23 section V-A)",
    config: include_str!("../../configs/os-swap.toml"),
    core_side: |config| Ok(CoreSide::os_switch(config)),
    memory_side: |config| Ok(Box::new(Paging::new(config)?)),
};
