//! Tests a device that tells cores to run another thread during a long wait (SkyByte, HPCA'25).

use ebbtide_core::{Span, Time};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::memory_side::{Answer, DeviceCache, Event, MemorySide};
use ebbtide_sim::{Offered, Outcome, Plan, simulate};
use ebbtide_workloads::Kind;

use crate::common::{machine, read};

const FLASH: Span = Span::from_us(50);
/// The link both ways, and the lookup.
const REPLY: Span = Span::from_ns(2 * 20 + 72);

fn device(after_ns: &str) -> DeviceCache {
    let small = [
        ("dram_cache.size", "64KiB"),
        ("dataset.size", "4MiB"),
        ("device.switch_after_ns", after_ns),
        ("flash.preset", "flat"),
    ];
    DeviceCache::new(&resolve("skybyte-c", &small).unwrap()).unwrap()
}

#[test]
fn a_wait_is_long_from_the_threshold_on_and_brief_towards_its_end() {
    let mut device = device("2000");
    let now = Time::from_ns(1_000);
    assert_eq!(device.access(now, read(3, 0)), Answer::Miss(now + REPLY));
    let early = now + Span::from_us(47);
    assert_eq!(device.access(early, read(3, 1)), Answer::Miss(early + REPLY));
    let late = now + Span::from_us(49);
    assert_eq!(device.access(late, read(3, 2)), Answer::Brief(late + REPLY));
    let mut events = Vec::new();
    device.advance(now + FLASH + FLASH, &mut events);
    let arrived: Vec<(u32, Time)> = events
        .iter()
        .filter_map(|event| match event {
            Event::Arrived(waiter, at) => Some((waiter.thread, *at)),
            _ => None,
        })
        .collect();
    // Threads that left repeat their access. The one that waits gets its line over the link.
    let comes = now + FLASH + Span::from_ns(72);
    assert_eq!(arrived[..2], [(0, comes), (1, comes)]);
    assert!(arrived[2].1 >= comes + Span::from_ns(2 * 20 + 46), "{arrived:?}");
}

#[test]
fn with_an_endless_threshold_every_wait_is_brief() {
    let mut device = device("1000000000");
    let now = Time::from_ns(1_000);
    for page in 0..10 {
        assert_eq!(device.access(now, read(page, 0)), Answer::Brief(now + REPLY));
    }
}

/// Runs a small machine of `design` over flash that reads in 50 us.
fn run(design: &str, keys: &[(&str, &str)]) -> Outcome {
    let size = [
        ("cores.count", "2"),
        ("llc.size", "256KiB"),
        ("dataset.size", "32MiB"),
        ("workload.work_us", "10"),
        ("flash.read_us", "50"),
    ];
    let config: Config = machine(design, &[&size, keys].concat(), "2MiB", "1MiB");
    let (workload, arrivals) = (Kind::ArraySwap, Offered::Saturating);
    simulate(&Plan { config, workload, jobs: 2_000, seed: 1, arrivals }).expect("jobs end")
}

/// Whether `one` and `other` differ by less than 3%.
fn near(one: &Outcome, other: &Outcome) -> bool {
    (one.jobs_per_s / other.jobs_per_s - 1.0).abs() < 0.03
}

#[test]
fn a_core_that_never_switches_is_one_that_blocks() {
    let base = run("skybyte-base", &[]);
    let never = run("skybyte-c", &[("device.switch_after_ns", "1000000000")]);
    assert!(near(&never, &base), "{} and {} jobs/s", never.jobs_per_s, base.jobs_per_s);
    let free = [("switch.threads", "1"), ("switch.cost_ns", "0"), ("cores.flush_cycles", "0")];
    let alone = run("skybyte-c", &free);
    assert!(near(&alone, &base), "{} and {} jobs/s", alone.jobs_per_s, base.jobs_per_s);
}

#[test]
fn other_threads_run_during_long_waits() {
    let base = run("skybyte-base", &[]);
    let switching = run("skybyte-c", &[]);
    assert!(switching.jobs_per_s > 1.5 * base.jobs_per_s, "{}", switching.jobs_per_s);
    // A switch that costs more than the wait that it hides does not help.
    let dear = run("skybyte-c", &[("switch.cost_ns", "100000")]);
    assert!(dear.jobs_per_s < base.jobs_per_s, "{}", dear.jobs_per_s);
}
