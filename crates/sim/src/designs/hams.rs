//! HAMS (ISCA'21): an NVDIMM that caches flash in hardware, and the systems that the paper
//! compares.
//!
//! `lhams` is loosely coupled, to an SSD over PCIe. `thams` is tightly coupled, to flash on its own
//! DDR bus. `-e` extends memory; `-p` keeps it across power cuts. The four differ only in
//! parameters.

use super::Design;
use crate::config::{Config, ConfigError};
use crate::core_side::CoreSide;
use crate::memory_side::mos::MosCache;
use crate::memory_side::{AllDram, MemorySide, Paging};

pub(super) const LHAMS_E: Design = design(
    "lhams-e",
    "HAMS, loosely coupled over PCIe, extend mode: many I/Os at once (ISCA'21 section III-B)",
    include_str!("../../configs/lhams-e.toml"),
    mos,
);

pub(super) const THAMS_E: Design = design(
    "thams-e",
    "advanced HAMS, tightly coupled on the DDR bus, extend mode (ISCA'21 section III-B)",
    include_str!("../../configs/thams-e.toml"),
    mos,
);

pub(super) const LHAMS_P: Design = design(
    "lhams-p",
    "HAMS, loosely coupled, persist mode: one journaled I/O at a time (after ISCA'21)",
    include_str!("../../configs/lhams-p.toml"),
    mos,
);

pub(super) const THAMS_P: Design = design(
    "thams-p",
    "advanced HAMS, tightly coupled, persist mode: one journaled I/O at a time (after ISCA'21)",
    include_str!("../../configs/thams-p.toml"),
    mos,
);

/// A miss costs its core the software time of a memory-mapped file and the wait for flash.
pub(super) const MMAP: Design = design(
    "hams-mmap",
    "files mapped by the operating system, NVDIMM as page cache (ISCA'21 section II)",
    include_str!("../../configs/hams-mmap.toml"),
    |config| Ok(Box::new(Paging::new(config)?)),
);

pub(super) const MMAP_LINUX: Design = design(
    "hams-mmap-linux",
    "hams-mmap with the read-ahead of a Linux of today",
    include_str!("../../configs/hams-mmap-linux.toml"),
    |config| Ok(Box::new(Paging::new(config)?)),
);

pub(super) const NVDIMM: Design = design(
    "nvdimm",
    "all data in an NVDIMM, HAMS's ideal (ISCA'21 section IV)",
    include_str!("../../configs/nvdimm.toml"),
    |config| Ok(Box::new(AllDram::new(config))),
);

pub(super) const OPTANE_P: Design = design(
    "optane-p",
    "all data in Optane DC persistent memory (ISCA'21 section IV)",
    include_str!("../../configs/optane-p.toml"),
    |config| Ok(Box::new(AllDram::new(config))),
);

/// A system of the paper. In all of them a miss blocks its core.
const fn design(
    name: &'static str,
    about: &'static str,
    config: &'static str,
    memory_side: fn(&Config) -> Result<Box<dyn MemorySide>, ConfigError>,
) -> Design {
    Design { name, about, config, core_side: |_| Ok(CoreSide::Block), memory_side }
}

fn mos(config: &Config) -> Result<Box<dyn MemorySide>, ConfigError> {
    Ok(Box::new(MosCache::new(config)?))
}
