//! Tests the write log of a device: request by request, and its limits in closed form.

use ebbtide_core::{LINE_BYTES, PageId, Span, Time};
use ebbtide_flash::Flash;
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::memory_side::{
    Answer, DeviceCache, Event, LogCounters, MemorySide, Observe, Request, Waiter, Warm,
};
use ebbtide_sim::{Offered, Outcome, Plan, simulate};
use ebbtide_workloads::Kind;

use crate::common::machine;

const LINK: Span = Span::from_ns(2 * 20);
const INDEX: Span = Span::from_ns(72);
const DRAM: Span = Span::from_ns(46);
const FLASH: Span = Span::from_us(50);

/// A small device: 16 frames and a log of two halves of 64 lines, before flash that reads in 50 us
/// at any load.
fn device(overrides: &[(&str, &str)]) -> DeviceCache {
    let small = [
        ("dram_cache.size", "64KiB"),
        ("dataset.size", "4MiB"),
        ("write_log.size", "8KiB"),
        ("flash.preset", "flat"),
    ];
    DeviceCache::new(&resolve("skybyte-w", &[&small, overrides].concat()).unwrap()).unwrap()
}

fn at(page: u64, line: u64, write: bool) -> Request {
    let waiter = Waiter { core: 0, thread: 0, slot: 0 };
    Request::new(PageId(page).start() + line * LINE_BYTES as u64, write, waiter)
}

fn read(page: u64, line: u64) -> Request {
    at(page, line, false)
}

fn write(page: u64, line: u64) -> Request {
    at(page, line, true)
}

/// Handles all events, and returns when the last of them was.
fn settle(device: &mut DeviceCache) -> Time {
    let (mut events, mut last) = (Vec::new(), Time::ZERO);
    while let Some(due) = device.next_event() {
        device.advance(due, &mut events);
        last = last.max(due);
    }
    last
}

fn log(device: &mut DeviceCache) -> LogCounters {
    device.take_counters().log
}

fn programmed(device: &DeviceCache) -> u64 {
    device.flash().map_or(0, |flash: &Flash| flash.counters().host_pages_programmed)
}

#[test]
fn a_written_line_needs_no_page_and_is_read_from_the_log() {
    let mut device = device(&[]);
    let now = Time::from_ns(1_000);
    let Answer::Hit(written) = device.access(now, write(3, 7)) else { panic!("it is accepted") };
    assert!(written.since(now) < LINK + DRAM + Span::from_ns(10), "no lookup: {written:?}");
    let Answer::Hit(ready) = device.access(written, read(3, 7)) else { panic!("it is logged") };
    assert!(ready.since(written) >= LINK + INDEX + DRAM);
    assert!(ready.since(written) < LINK + INDEX + DRAM + Span::from_ns(10));
    assert!(matches!(device.access(ready, read(3, 8)), Answer::Miss(_)), "another line");
    let log = log(&mut device);
    assert_eq!((log.log_appends, log.log_rewrites, log.log_reads), (1, 0, 1));
}

#[test]
fn a_full_half_is_merged_with_one_read_and_one_write_a_page() {
    let mut device = device(&[]);
    device.warm(read(3, 0));
    let now = Time::from_ns(1_000);
    for number in 0..63 {
        // Pages 3 to 6; page 3 is cached. The first line of each is written again.
        let (page, line) = (3 + number % 4, (number / 4).max(1));
        device.access(now, write(page, line));
    }
    assert_eq!((programmed(&device), device.next_event()), (0, None), "the half has room");
    device.access(now, write(6, 60));
    settle(&mut device);
    assert_eq!(programmed(&device), 4);
    let log = log(&mut device);
    assert_eq!((log.log_appends, log.log_rewrites), (64, 4));
    assert_eq!((log.log_pages_read, log.log_pages_written), (3, 4));
    assert_eq!(log.log_lines_merged, 60);
    assert!(matches!(device.access(Time::from_ns(1_000_000), read(3, 1)), Answer::Hit(_)));
    assert!(matches!(device.access(Time::from_ns(1_000_000), read(4, 1)), Answer::Miss(_)));
}

#[test]
fn a_device_with_two_full_halves_accepts_no_request_until_a_half_is_on_flash() {
    let mut device = device(&[("write_log.merges", "1")]);
    let now = Time::from_ns(1_000);
    for page in 0..128 {
        assert_ne!(device.access(now, write(page, 0)), Answer::Stalled, "{page}");
    }
    assert_eq!(device.access(now, write(200, 0)), Answer::Stalled);
    device.write_back(now, write(201, 0));
    let mut events = Vec::new();
    while !events.iter().any(|event| matches!(event, Event::Unstalled(..))) {
        let due = device.next_event().expect("compaction is under way");
        device.advance(due, &mut events);
    }
    // 64 pages one after another, each a read and a write of 16 us in the flat device.
    assert_eq!(log(&mut device).log_pages_written, 64);
    settle(&mut device);
    assert_eq!(programmed(&device), 128, "lines 200 and 201 are in the open half");
}

#[test]
fn an_evicted_page_is_clean_and_a_page_from_flash_gets_its_lines_of_the_log() {
    let mut device = device(&[]);
    let now = Time::from_ns(1_000);
    device.write_back(now, write(3, 7));
    assert!(matches!(device.access(now, read(3, 8)), Answer::Miss(_)));
    let last = settle(&mut device);
    assert!(last >= now + FLASH);
    assert!(matches!(device.access(last, read(3, 7)), Answer::Hit(_)));
    for page in 100..130 {
        device.access(last, read(page, 0));
    }
    settle(&mut device);
    let counters = device.take_counters();
    assert!(counters.cache.evictions_clean > 0 && counters.cache.evictions_dirty == 0);
    assert_eq!((programmed(&device), counters.log.log_reads), (0, 0));
    let later = Time::from_ns(10_000_000);
    assert!(matches!(device.access(later, read(3, 7)), Answer::Hit(_)), "the log has it");
}

/// A small machine of `design`.
fn small(design: &str, keys: &[(&str, &str)]) -> Config {
    let size = [
        ("cores.count", "2"),
        ("llc.size", "256KiB"),
        ("dataset.size", "32MiB"),
        ("workload.work_us", "5"),
    ];
    machine(design, &[&size, keys].concat(), "2MiB", "1MiB")
}

fn run(config: Config) -> Outcome {
    let (workload, arrivals) = (Kind::ArraySwap, Offered::Saturating);
    simulate(&Plan { config, workload, jobs: 2_000, seed: 1, arrivals }).expect("jobs end")
}

#[test]
fn a_log_of_no_size_is_no_log() {
    for (with, without) in [("skybyte-w", "skybyte-base"), ("skybyte-wp", "skybyte-p")] {
        let [with, without] = [
            run(small(with, &[("write_log.size", "0B"), ("write_log.stores", "fetched")])),
            run(small(without, &[])),
        ];
        assert_eq!(with.simulated_ns, without.simulated_ns);
        assert_eq!((with.memory, with.flash), (without.memory, without.flash));
    }
}

#[test]
fn an_endless_log_writes_no_page() {
    for stores in ["logged", "fetched"] {
        let keys = [("write_log.size", "1GiB"), ("write_log.stores", stores)];
        let endless = run(small("skybyte-w", &keys));
        let log = endless.memory.log;
        assert!(log.log_appends > 1_000, "{log:?}");
        assert_eq!((log.log_pages_read, log.log_pages_written), (0, 0));
        assert_eq!(endless.flash.pages_programmed, 0);
    }
}

#[test]
fn a_larger_log_writes_fewer_pages_for_as_many_lines() {
    let written = |size| {
        let log = run(small("skybyte-w", &[("write_log.size", size)])).memory.log;
        log.log_pages_written as f64 / log.log_appends as f64
    };
    let shares = ["16KiB", "64KiB", "256KiB"].map(written);
    assert!(shares.is_sorted_by(|small, large| small > large), "{shares:?}");
    // Each page is written once at most for each of its lines.
    assert!(shares[0] <= 1.0 && shares[2] > 0.0, "{shares:?}");
}
