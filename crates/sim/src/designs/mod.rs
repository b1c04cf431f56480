//! The published systems. Each is a composition of parts and a file of parameters.

mod astriflash;
mod cxl_flash;
mod description;
mod dram_only;
mod flash_sync;
mod flatflash;
mod hams;
mod load;
mod os_swap;
mod own_parts;
mod skybyte;
mod sources;
mod traditional_stack;
mod unified_mmap;

use ebbtide_core::UnknownName;
use ebbtide_core::find_by_name;

use crate::config::{Config, ConfigError, Fill, require};
use crate::core_side::CoreSide;
use crate::memory_side::MemorySide;

pub use description::{Description, describe};
pub use load::{Overrides, preset_names, resolve};
pub use own_parts::{with_policy, with_prefetcher};
pub use sources::{Parameter, Sources, sources};

/// A system that can be simulated.
pub struct Design {
    /// Its name on the command line.
    pub name: &'static str,
    /// A description in one line.
    pub about: &'static str,
    /// Its parameters, as TOML.
    pub config: &'static str,
    /// The reaction of a core to a miss.
    pub core_side: fn(&Config) -> Result<CoreSide, ConfigError>,
    /// The memory behind the chip.
    pub memory_side: fn(&Config) -> Result<Box<dyn MemorySide>, ConfigError>,
}

impl Design {
    /// Its parameters with `overrides`. The design need not be in [`ALL`].
    ///
    /// # Errors
    /// As [`resolve`].
    pub fn resolve(&self, overrides: Overrides<'_>) -> Result<Config, ConfigError> {
        load::resolve_design(self, overrides)
    }

    /// Its parts under `config`. The design need not be in [`ALL`].
    ///
    /// # Errors
    /// When a part cannot have these parameters.
    pub fn compose(&self, config: &Config) -> Result<Parts, ConfigError> {
        put_together(self, self, config)
    }
}

/// The parts of a machine that differ between designs.
pub struct Parts {
    /// The reaction of a core to a miss.
    pub core_side: CoreSide,
    /// The memory behind the chip.
    pub memory_side: Box<dyn MemorySide>,
}

/// Composes the machine that `config` describes. Its parts come from its design. A side that
/// `[parts]` names comes from the design named there.
///
/// # Errors
/// When a design does not exist, or a part cannot have these parameters.
pub fn compose(config: &Config) -> Result<Parts, ConfigError> {
    let core_side = find(config.parts.core_side.as_ref().unwrap_or(&config.design))?;
    let memory_side = find(config.parts.memory_side.as_ref().unwrap_or(&config.design))?;
    put_together(core_side, memory_side, config)
}

/// Whether the machine that `config` describes has flash.
///
/// # Errors
/// As [`compose`].
pub fn has_flash(config: &Config) -> Result<bool, ConfigError> {
    Ok(compose(config)?.memory_side.flash().is_some())
}

fn put_together(
    core_side: &Design,
    memory_side: &Design,
    config: &Config,
) -> Result<Parts, ConfigError> {
    let parts = Parts {
        core_side: (core_side.core_side)(config)?,
        memory_side: (memory_side.memory_side)(config)?,
    };
    let can = parts.memory_side.capabilities();
    require(
        config.dram_cache.fill == Fill::Page || can.fetches_lines,
        "dram_cache.fill",
        "footprint",
        "page: only a hardware DRAM cache, as astriflash has, fetches single lines",
    )?;
    require(
        config.promotion.is_none() || can.byte_addressable,
        "parts.memory_side",
        memory_side.name,
        "a memory that answers single lines, as cxl-flash and flatflash have: with [promotion], \
         pages are used where they are until they are promoted",
    )?;
    Ok(parts)
}

/// Every design.
pub const ALL: [&Design; 27] = [
    &dram_only::DRAM_ONLY,
    &astriflash::ASTRIFLASH,
    &astriflash::IDEAL,
    &astriflash::NO_PS,
    &astriflash::NO_DP,
    &os_swap::OS_SWAP,
    &flash_sync::FLASH_SYNC,
    &cxl_flash::CXL_FLASH,
    &skybyte::BASE,
    &skybyte::P,
    &skybyte::C,
    &skybyte::W,
    &skybyte::CP,
    &skybyte::WP,
    &skybyte::FULL,
    &hams::NVDIMM,
    &hams::OPTANE_P,
    &hams::MMAP,
    &hams::MMAP_LINUX,
    &hams::LHAMS_E,
    &hams::THAMS_E,
    &hams::LHAMS_P,
    &hams::THAMS_P,
    &flatflash::FLATFLASH,
    &unified_mmap::UNIFIED_MMAP,
    &unified_mmap::UNIFIED_MMAP_LINUX,
    &traditional_stack::TRADITIONAL_STACK,
];

/// The design called `name`.
///
/// # Errors
/// [`UnknownName`] when there is none.
pub fn find(name: &str) -> Result<&'static Design, UnknownName> {
    let known: Vec<(&str, &Design)> = ALL.iter().map(|design| (design.name, *design)).collect();
    find_by_name("design", name, &known)
}
