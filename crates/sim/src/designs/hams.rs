//! HAMS (ISCA'21): an NVDIMM that caches flash in hardware, and what it is compared with.
//!
//! Loosely coupled (`lhams`) it reaches an SSD over PCIe, tightly coupled (`thams`) flash on its own
//! DDR bus; `-e` extends memory, `-p` keeps it across power cuts. They differ in parameters alone.

use super::Design;
use crate::config::{Config, ConfigError};
use crate::core_side::CoreSide;
use crate::memory_side::mos::MosCache;
use crate::memory_side::{AllDram, MemorySide, Paging};

pub(super) const LHAMS_E: Design = Design {
    name: "lhams-e",
    about: "HAMS, loosely coupled over PCIe, extend mode: many I/Os at once (ISCA'21 section III-B)",
    config: include_str!("../../../../configs/lhams-e.toml"),
    core_side: block,
    memory_side: mos,
};

pub(super) const THAMS_E: Design = Design {
    name: "thams-e",
    about: "advanced HAMS, tightly coupled on the DDR bus, extend mode (ISCA'21 section III-B)",
    config: include_str!("../../../../configs/thams-e.toml"),
    core_side: block,
    memory_side: mos,
};

pub(super) const LHAMS_P: Design = Design {
    name: "lhams-p",
    about: "HAMS, loosely coupled, persist mode: one journaled I/O at a time (after ISCA'21)",
    config: include_str!("../../../../configs/lhams-p.toml"),
    core_side: block,
    memory_side: mos,
};

pub(super) const THAMS_P: Design = Design {
    name: "thams-p",
    about: "advanced HAMS, tightly coupled, persist mode: one journaled I/O at a time (after ISCA'21)",
    config: include_str!("../../../../configs/thams-p.toml"),
    core_side: block,
    memory_side: mos,
};

/// A miss costs its core the software of a memory-mapped file, and the wait for flash.
pub(super) const MMAP: Design = Design {
    name: "hams-mmap",
    about: "files mapped by the operating system, NVDIMM as page cache (ISCA'21 section II)",
    config: include_str!("../../../../configs/hams-mmap.toml"),
    core_side: block,
    memory_side: |config| Ok(Box::new(Paging::new(config)?)),
};

pub(super) const NVDIMM: Design = Design {
    name: "nvdimm",
    about: "all data in an NVDIMM, HAMS's ideal (ISCA'21 section IV)",
    config: include_str!("../../../../configs/nvdimm.toml"),
    core_side: block,
    memory_side: |config| Ok(Box::new(AllDram::new(config))),
};

pub(super) const OPTANE_P: Design = Design {
    name: "optane-p",
    about: "all data in Optane DC persistent memory (ISCA'21 section IV)",
    config: include_str!("../../../../configs/optane-p.toml"),
    core_side: block,
    memory_side: |config| Ok(Box::new(AllDram::new(config))),
};

fn block(_: &Config) -> Result<CoreSide, ConfigError> {
    Ok(CoreSide::Block)
}

fn mos(config: &Config) -> Result<Box<dyn MemorySide>, ConfigError> {
    Ok(Box::new(MosCache::new(config)?))
}
