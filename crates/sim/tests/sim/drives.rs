//! Several drives behind one design, against closed forms.

use ebbtide_core::{Addr, PAGE_BYTES, Time};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Plan, Replay, replay, simulate};
use ebbtide_trace::{Access, Op, Source, TraceError};
use ebbtide_workloads::Kind;

use crate::common::machine;

/// Pages of the data.
const PAGES: u64 = 8_192;

/// One read of each of the first `pages` pages, `apart_ps` picoseconds apart.
struct EachPage {
    next: u64,
    pages: u64,
    apart_ps: u64,
}

impl Source for EachPage {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        let more = self.next < self.pages;
        let end = self.pages.min(self.next + 512);
        batch.clear();
        batch.extend((self.next..end).map(|page| {
            Access::new(
                Time::from_ps(page * self.apart_ps),
                Addr(page * PAGE_BYTES as u64),
                8,
                Op::Read,
            )
        }));
        self.next = end;
        Ok(more)
    }
}

fn read(config: &Config, pages: u64, apart_ps: u64) -> Replay {
    replay(config, &mut EachPage { next: 0, pages, apart_ps }).expect("a whole trace")
}

/// `design` over `drives` drives that take turns every `unit` pages. A drive has 64 fast dies on
/// one channel of 0.25 GB/s. A link carries 1 GB/s.
fn over(design: &str, drives: &str, unit: &str, more: &[(&str, &str)]) -> Config {
    let keys = [
        ("dataset.size", "32MiB"),
        ("link.bandwidth_gb_per_s", "1"),
        ("flash.preset", "ull"),
        ("flash.channels", "1"),
        ("flash.chips_per_channel", "64"),
        ("flash.bus_mt_per_s", "250"),
        ("flash.drives", drives),
        ("flash.interleave_pages", unit),
    ];
    machine(design, &[&keys[..], more].concat(), "4MiB", "2MiB")
}

/// Gigabytes a second of reads that come as fast as memory takes them.
fn gb_per_s(config: &Config) -> f64 {
    let replayed = read(config, PAGES, 100);
    (replayed.flash.reads * PAGE_BYTES as u64) as f64 / replayed.simulated_ns as f64
}

fn assert_near(found: f64, expected: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < 0.03, "{what}: {found}, expected {expected}");
}

#[test]
fn drives_carry_as_many_times_what_one_carries() {
    for (drives, unit) in [("1", "1"), ("2", "1"), ("4", "1"), ("4", "16"), ("8", "1")] {
        let count: f64 = drives.parse().expect("a count");
        let what = format!("{drives} drives by {unit}");
        let by_channels = gb_per_s(&over("astriflash", drives, unit, &[]));
        assert_near(by_channels, 0.25 * count, &what);
        let endless = [("flash.bus_mt_per_s", "0"), ("dram.controllers", "8")];
        let by_links = gb_per_s(&over("astriflash", drives, unit, &endless));
        assert_near(by_links, count, &what);
    }
}

#[test]
fn drives_behind_one_link_carry_no_more_than_it() {
    for (drives, expected) in [("1", 0.25), ("2", 0.5), ("8", 1.0)] {
        let found = gb_per_s(&over("lhams-e", drives, "1", &[]));
        assert_near(found, expected, drives);
    }
}

#[test]
fn a_lone_access_takes_as_long_over_several_drives_as_over_one() {
    // A read takes 3 µs and 16.4 µs on the channel, 4.1 µs on the link.
    let latencies = |drives, unit| {
        let replayed = read(&over("astriflash", drives, unit, &[]), 200, 100_000_000);
        (replayed.latency_ns, replayed.device_latency_ns)
    };
    let one = latencies("1", "1");
    assert!((23_000.0..26_000.0).contains(&one.1.mean), "{}", one.1.mean);
    assert_eq!(latencies("4", "1"), one);
    assert_eq!(latencies("4", "16"), one);
}

#[test]
fn a_report_has_a_row_for_each_of_several_drives() {
    let plan = |drives| Plan {
        config: over("astriflash", drives, "1", &[("cores.count", "2"), ("llc.size", "512KiB")]),
        workload: Kind::ArraySwap,
        jobs: 400,
        seed: 1,
        arrivals: Offered::Saturating,
    };
    let of_all = simulate(&plan("3")).expect("jobs end").flash;
    assert_eq!(of_all.drives.len(), 3);
    let [reads, writes] = [
        of_all.drives.iter().map(|drive| drive.reads).sum::<u64>(),
        of_all.drives.iter().map(|drive| drive.writes).sum(),
    ];
    assert_eq!((reads, writes), (of_all.reads, of_all.writes));
    assert!(of_all.drives.iter().all(|drive| drive.reads > 50), "{of_all:?}");
    let one = simulate(&plan("1")).expect("jobs end").flash;
    assert!(one.drives.is_empty() && one.reads > 0);
    let replayed = read(&over("astriflash", "4", "1", &[]), 1_000, 100).flash;
    assert!(replayed.drives.iter().all(|drive| drive.reads == 250), "{replayed:?}");
}

#[test]
fn every_modelled_device_may_stand_side_by_side() {
    let given = |preset| [("flash.preset", preset), ("flash.drives", "4")];
    for preset in ["astriflash-256g", "ull", "tlc-pcie5", "hbf"] {
        let config = resolve("astriflash", &given(preset)).expect("keys of a device");
        assert_eq!(config.flash_device().expect("a device").interleaving().drives(), 4);
        assert_eq!(config.links(), Ok(4));
    }
    assert_eq!(over("lhams-e", "4", "1", &[]).links(), Ok(1));
    let flat = resolve("astriflash", &given("flat")).and_then(|config| config.flash_device());
    assert!(flat.expect_err("it has no drives").to_string().contains("drives"));
}
