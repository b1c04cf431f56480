//! Write amplification of uniformly random overwrites, against the analytic value.

mod common;

use common::{Host, small};
use ebbtide_core::Time;
use ebbtide_flash::{GarbageCollection, SsdConfig, victim_share};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// One plane of 512 blocks of 256 pages, full of data.
fn full(over_provisioning_percent: f64) -> SsdConfig {
    SsdConfig {
        channels: 1,
        chips_per_channel: 1,
        blocks_per_plane: 512,
        pages_per_block: 256,
        over_provisioning_percent,
        valid_percent: 100.0 - over_provisioning_percent,
        invalid_percent: over_provisioning_percent - 1.0,
        garbage_collection: GarbageCollection::Free,
        ..small()
    }
}

/// Measured over twice the device's capacity, after one to settle.
fn measured(config: SsdConfig) -> f64 {
    let mut host = Host::new(config);
    let pages = host.flash.logical_pages().unwrap();
    let mut random = Pcg64::seed_from_u64(1);
    let mut programmed = |writes| {
        for _ in 0..writes {
            let now = host.done.last().map_or(Time::ZERO, |done| done.at);
            host.done.clear();
            host.write(now, random.random_range(0..pages));
            host.finish();
        }
        let counters = host.flash.counters();
        counters.host_pages_programmed + counters.gc_pages_programmed
    };
    let settled = programmed(pages);
    (programmed(2 * pages) - settled) as f64 / (2 * pages) as f64
}

/// Xiang and Kurkoski's value, see [`victim_share`]: `1 / (1 - g)`, where `g` depends on the share
/// of places that hold valid data; one block on average is not used. The value is for blocks of
/// many pages: with fewer, chance leaves some blocks emptier, and a greedy collector finds them.
fn analytic(config: &SsdConfig) -> f64 {
    let places = f64::from((config.blocks_per_plane - 1) * config.pages_per_block);
    1.0 / (1.0 - victim_share(config.logical_pages() as f64 / places))
}

#[test]
fn uniformly_random_overwrites_amplify_as_greedy_collection_should() {
    for over_provisioning_percent in [10.0, 20.0, 35.0] {
        let config = full(over_provisioning_percent);
        let (expected, found) = (analytic(&config), measured(config));
        let ratio = found / expected;
        assert!(
            (0.95..1.02).contains(&ratio),
            "{over_provisioning_percent}%: {found} / {expected}"
        );
    }
}

#[test]
fn a_preconditioned_device_is_in_the_steady_state_from_the_first_write() {
    let config = full(20.0);
    let expected = analytic(&config);
    let mut host = Host::new(config);
    let pages = host.flash.logical_pages().unwrap();
    let mut random = Pcg64::seed_from_u64(2);
    for _ in 0..pages / 4 {
        let now = host.done.last().map_or(Time::ZERO, |done| done.at);
        host.done.clear();
        host.write(now, random.random_range(0..pages));
        host.finish();
    }
    let found = host.flash.counters().write_amplification();
    assert!((0.9..1.1).contains(&(found / expected)), "{found} / {expected}");
}

#[test]
fn wear_is_what_was_erased() {
    let config = full(20.0);
    let mut host = Host::new(config);
    let pages = host.flash.logical_pages().unwrap();
    let mut random = Pcg64::seed_from_u64(3);
    for _ in 0..2 * pages {
        host.write(Time::ZERO, random.random_range(0..pages));
    }
    host.finish();
    let (wear, counters) = (host.flash.wear(), *host.flash.counters());
    assert_eq!(wear.erases_mean, counters.erases as f64 / 512.0);
    assert!(f64::from(wear.erases_max) < 2.5 * wear.erases_mean, "{wear:?}");
}
