//! Machines of every design that are small enough for a test.

use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;

/// `design` with `keys`, and with `dram` for its pages. A design that promotes pages has
/// `promoted` of host DRAM instead, and a device's cache of 20 ways.
pub fn machine(design: &str, keys: &[(&str, &str)], dram: &str, promoted: &str) -> Config {
    let own = resolve(design, &[]).expect("a design");
    let of_dram: &[(&str, &str)] = if own.promotion.is_some() {
        // 20 ways and a power of two of sets.
        &[("dram_cache.size", "640KiB"), ("promotion.size", promoted)]
    } else {
        &[("dram_cache.size", dram)]
    };
    resolve(design, &[of_dram, keys].concat()).expect("a machine that can be built")
}
