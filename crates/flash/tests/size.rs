//! Host memory of a device grows with the pages touched, not with its capacity. The file has one
//! test, because it measures the process.
#![cfg(target_os = "linux")]

mod common;

use common::{Host, random_commands};
use ebbtide_flash::{Config, GarbageCollection, SsdConfig};

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn a_device_of_a_tebibyte_is_small() {
    const MIB: u64 = 1 << 20;
    let Config::Ssd(config) = Config::preset("astriflash-1t").unwrap() else {
        panic!("it is an SSD")
    };
    let before = resident();
    let mut host = Host::new(SsdConfig { garbage_collection: GarbageCollection::Free, ..*config });
    let at_start = resident() - before;
    assert!(at_start <= MIB, "{at_start} bytes at the start");

    // Every plane is written: block tables appear, 13 bytes a block.
    let pages = host.flash.logical_pages().unwrap();
    for (at, kind, page) in random_commands(1, 200_000, pages, 50, 20) {
        host.submit(at, kind, page);
        host.done.clear();
        host.flash.advance(at, &mut host.done);
    }
    host.finish();
    assert!(host.flash.counters().writes > 90_000);
    let in_use = resident() - before;
    assert!(in_use <= 64 * MIB, "{in_use} bytes in use");
}
