//! Designs with the caller's own policy or prefetcher.

use ebbtide_core::prefetch::Prefetcher;
use ebbtide_core::replacement::{Geometry, Replacement};

use super::{Parts, compose};
use crate::config::{Config, ConfigError, require};
use crate::memory_side::{DeviceCache, DramCache};

/// The machine that `config` describes, with the caller's own replacement policy in its hardware
/// DRAM cache. The cache reports hits to the policy as touches.
///
/// # Errors
/// As [`compose`], and when the machine has no hardware DRAM cache.
pub fn with_policy(
    config: &Config,
    policy: impl FnOnce(Geometry) -> Box<dyn Replacement>,
) -> Result<Parts, ConfigError> {
    let parts = compose(config)?;
    let expected = "a hardware DRAM cache, as astriflash and flash-sync have, for a replacement \
                    policy of one's own";
    let name = parts.memory_side.name();
    require(name == "DramCache", "parts.memory_side", &config.design, expected)?;
    Ok(Parts { memory_side: Box::new(DramCache::with_policy(config, policy)?), ..parts })
}

/// The machine that `config` describes, with the caller's own prefetcher in its device.
///
/// # Errors
/// As [`compose`], and when the machine has no device that prefetches.
pub fn with_prefetcher(
    config: &Config,
    prefetcher: Box<dyn Prefetcher>,
) -> Result<Parts, ConfigError> {
    let parts = compose(config)?;
    let expected = "a device that prefetches, as cxl-flash has, for a prefetcher of one's own";
    let fits = parts.memory_side.name() == "DeviceCache" && config.prefetch.is_some();
    require(fits, "parts.memory_side", &config.design, expected)?;
    let device = DeviceCache::with_prefetcher(config, prefetcher)?;
    Ok(Parts { memory_side: Box::new(device), ..parts })
}

#[cfg(test)]
mod tests {
    use ebbtide_core::prefetch::{NextNLine, Preset};
    use ebbtide_core::replacement::PolicyKind;

    use super::super::resolve;
    use super::*;

    #[test]
    fn a_policy_needs_a_dram_cache_and_a_prefetcher_a_device() {
        let fifo = |geometry| PolicyKind::Fifo.build(geometry, 1, 1);
        let scaled = |name| resolve(name, &[]).unwrap().scaled(1, 1024);
        assert!(with_policy(&scaled("astriflash"), fifo).is_ok());
        let error = with_policy(&scaled("os-swap"), fifo).err().unwrap().to_string();
        assert!(error.contains("os-swap") && error.contains("astriflash"), "{error}");
        let next = || Box::new(NextNLine::new(Preset::Original));
        assert!(with_prefetcher(&scaled("cxl-flash"), next()).is_ok());
        let error = with_prefetcher(&scaled("astriflash"), next()).err().unwrap().to_string();
        assert!(error.contains("cxl-flash"), "{error}");
    }
}
