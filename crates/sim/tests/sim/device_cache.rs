//! Tests the CXL-flash device request by request: its waiters and its requests to flash.

use ebbtide_core::{FrameId, PageId, Span, Time};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::memory_side::{
    Answer, DeviceCache, Event, Happened, MemorySide, Observe, Seen, Waiter, Warm,
};
use proptest::prelude::*;

use crate::common::{arrival, read, settle, write};

const DRAM: Span = Span::from_ns(46);
const FLASH: Span = Span::from_us(50);

/// A small device: 16 frames in 4 sets, before flash that reads in 50 us at any load.
fn config(overrides: &[(&str, &str)]) -> Config {
    let small = [
        ("dram_cache.size", "64KiB"),
        ("dram_cache.ways", "4"),
        ("dataset.size", "1MiB"),
        ("device.dram_banks", "1"),
        ("device.pages_take_bus", "false"),
        ("flash.preset", "flat"),
    ];
    resolve("cxl-flash", &[&small, overrides].concat()).unwrap()
}

fn device(overrides: &[(&str, &str)]) -> DeviceCache {
    DeviceCache::new(&config(overrides)).unwrap()
}

#[test]
fn hits_wait_for_each_other_at_the_dram() {
    let mut device = device(&[]);
    device.warm(read(3, 0));
    let now = Time::from_ns(1_000);
    assert_eq!(device.access(now, read(3, 0)), Answer::Hit(now + DRAM));
    assert_eq!(device.access(now, read(3, 1)), Answer::Hit(now + DRAM + DRAM));
}

#[test]
fn a_full_dram_queue_closes_the_door_until_a_line_is_served() {
    let mut device = device(&[]);
    device.warm(read(3, 0));
    // One in service, eight that wait.
    for thread in 0..9 {
        assert!(matches!(device.access(Time::ZERO, read(3, thread)), Answer::Hit(_)));
    }
    assert_eq!(device.access(Time::ZERO, read(3, 9)), Answer::Stalled);
    let opened = Event::Unstalled(Waiter { core: 0, thread: 9, slot: 0 }, Time::ZERO + DRAM);
    assert_eq!(settle(&mut device), [opened]);
    assert!(matches!(device.access(Time::ZERO + DRAM, read(3, 9)), Answer::Hit(_)));
}

#[test]
fn a_page_that_comes_while_the_dram_is_busy_gives_up_another_only_when_there_is_room() {
    let mut device = device(&[]);
    [8, 12, 16, 20].iter().for_each(|page| device.warm(write(*page, 0)));
    // Twenty lines of one page are served before the other page, whose set is full and dirty.
    (0..20).for_each(|thread| {
        assert!(matches!(device.access(Time::ZERO, read(3, thread)), Answer::Miss(_)))
    });
    device.access(Time::ZERO, read(4, 20));
    let lines = |count: u64| Span::from_ns(count * DRAM.as_ns());
    let mut events = Vec::new();
    device.advance(Time::ZERO + FLASH + lines(11), &mut events);
    assert_eq!((events.len(), device.flash().unwrap().counters().writes), (20, 0));
    assert_eq!(device.access(Time::ZERO + FLASH + lines(11), read(3, 21)), Answer::Stalled);
    events.extend(settle(&mut device));
    assert_eq!(arrival(&events, 20), Some(Time::ZERO + FLASH + lines(21)));
    assert_eq!(device.flash().unwrap().counters().writes, 1);
    let opened =
        Event::Unstalled(Waiter { core: 0, thread: 21, slot: 0 }, Time::ZERO + FLASH + lines(13));
    assert!(events.contains(&opened), "{events:?}");
}

#[test]
fn requests_for_a_page_on_its_way_are_merged_and_served_one_after_the_other() {
    let mut device = device(&[]);
    for thread in 0..3 {
        assert_eq!(device.access(Time::ZERO, read(3, thread)), Answer::Miss(Time::ZERO));
    }
    let events = settle(&mut device);
    let arrived = Time::ZERO + FLASH + DRAM;
    let served = [0, 1, 2].map(|thread| arrival(&events, thread));
    assert_eq!(served, [Some(arrived), Some(arrived + DRAM), Some(arrived + DRAM + DRAM)]);
    let counters = device.take_counters();
    assert_eq!(
        (counters.cache.misses, counters.cache.hits_under_miss, counters.cache.hits),
        (1, 2, 0)
    );
    assert_eq!(device.flash().unwrap().counters().reads, 1);
}

#[test]
fn without_miss_registers_a_page_on_its_way_is_read_again() {
    let mut device = device(&[("dram_cache.mshr", "0")]);
    for thread in 0..3 {
        device.access(Time::ZERO, read(3, thread));
    }
    let events = settle(&mut device);
    assert!((0..3).all(|thread| arrival(&events, thread).is_some()));
    let counters = device.take_counters();
    assert_eq!((counters.cache.misses, counters.cache.repeated_reads), (3, 2));
    assert_eq!(device.flash().unwrap().counters().reads, 3);
    assert!(matches!(device.access(Time::ZERO + FLASH + FLASH, read(3, 0)), Answer::Hit(_)));
}

#[test]
fn without_a_cache_every_request_is_a_flash_command() {
    let mut device = device(&[("dram_cache.size", "0KiB")]);
    device.access(Time::ZERO, read(3, 0));
    device.access(Time::ZERO, read(3, 1));
    device.access(Time::ZERO, write(3, 2));
    let events = settle(&mut device);
    // The two lines share the link, 64 bytes at 64 GB/s.
    assert_eq!(arrival(&events, 0), Some(Time::ZERO + FLASH));
    assert_eq!(arrival(&events, 1), Some(Time::ZERO + FLASH + Span::from_ns(1)));
    assert_eq!(arrival(&events, 2), Some(Time::ZERO + FLASH + FLASH));
    let flash = device.flash().unwrap().counters();
    assert_eq!((flash.reads, flash.writes), (2, 1));
}

#[test]
fn a_write_miss_fetches_its_page_and_leaves_it_dirty() {
    let mut device = device(&[("dram_cache.ways", "1"), ("dram_cache.policy", "lru")]);
    device.access(Time::ZERO, write(0, 0));
    settle(&mut device);
    // The same set of one way.
    device.access(Time::ZERO + FLASH + FLASH, read(16, 0));
    settle(&mut device);
    let counters = device.take_counters();
    assert_eq!(
        (counters.cache.misses, counters.cache.evictions_dirty, counters.cache.evictions_clean),
        (2, 1, 0)
    );
    let flash = device.flash().unwrap().counters();
    assert_eq!((flash.reads, flash.writes), (2, 1));
}

#[test]
fn a_full_row_of_the_miss_registers_closes_the_door_even_to_hits() {
    let mut device = device(&[("device.mshr_requests", "2")]);
    device.warm(read(4, 0));
    device.access(Time::ZERO, read(3, 0));
    device.access(Time::ZERO, read(3, 1));
    assert_eq!(device.access(Time::ZERO, read(4, 2)), Answer::Stalled);
    let events = settle(&mut device);
    let opened = Event::Unstalled(Waiter { core: 0, thread: 2, slot: 0 }, Time::ZERO + FLASH);
    assert!(events.contains(&opened), "{events:?}");
}

#[test]
fn flash_takes_so_many_commands_and_then_the_device_no_request() {
    let mut device = device(&[("device.flash_commands", "2")]);
    device.access(Time::ZERO, read(1, 0));
    device.access(Time::ZERO, read(2, 1));
    assert_eq!(device.access(Time::ZERO, read(3, 2)), Answer::Stalled);
    let events = settle(&mut device);
    assert!(
        events.contains(&Event::Unstalled(
            Waiter { core: 0, thread: 2, slot: 0 },
            Time::ZERO + FLASH
        ))
    );
}

#[test]
fn a_prefetched_page_hits_and_one_still_on_its_way_is_late() {
    let mut device = device(&[("prefetch.policy", "next-n-line")]);
    device.access(Time::ZERO, read(0, 0));
    // Pages 17 to 20 are in flight.
    assert_eq!(device.access(Time::ZERO, read(17, 1)), Answer::Miss(Time::ZERO));
    assert_eq!(device.access(Time::ZERO, read(17, 2)), Answer::Miss(Time::ZERO));
    let events = settle(&mut device);
    assert!([1, 2].iter().all(|thread| arrival(&events, *thread).is_some()));
    assert!(matches!(device.access(Time::ZERO + FLASH + FLASH, read(20, 3)), Answer::Hit(_)));
    let (counters, prefetched) = (device.take_counters(), *device.prefetched().unwrap());
    assert_eq!(
        (counters.cache.misses, counters.cache.hits_under_miss, counters.cache.hits),
        (1, 1, 1)
    );
    assert_eq!((prefetched.used, prefetched.late, prefetched.hits), (2, 1, 1));
}

#[test]
fn prefetches_leave_room_for_the_demand_that_caused_them() {
    let mut device = device(&[("prefetch.policy", "next-n-line"), ("device.flash_commands", "3")]);
    device.access(Time::ZERO, read(0, 0));
    assert_eq!(
        (device.prefetched().unwrap().issued, device.flash().unwrap().outstanding()),
        (2, 3)
    );
}

#[test]
fn a_prefetcher_without_miss_registers_is_refused() {
    let keys = [("prefetch.policy", "next-n-line"), ("dram_cache.mshr", "0")];
    let error = DeviceCache::new(&config(&keys)).err().unwrap().to_string();
    assert!(error.starts_with("prefetch.policy = next-n-line: expected none"), "{error}");
}

#[test]
fn who_watches_is_told_of_every_request_and_every_page_given_up() {
    let mut device = device(&[("dram_cache.ways", "1")]);
    device.watch();
    device.access(Time::ZERO, write(0, 0));
    settle(&mut device);
    device.access(Time::ZERO + FLASH + FLASH, read(16, 0));
    settle(&mut device);
    let frame = FrameId(0);
    let served = |page, write| Seen { frame, page, what: Happened::Served { write } };
    let evicted = Seen { frame, page: PageId(0), what: Happened::Evicted };
    assert_eq!(device.take_seen(), [served(PageId(0), true), evicted, served(PageId(16), false)]);
    assert_eq!(device.take_seen(), []);
}

#[test]
fn folded_addresses_lie_where_the_studys_simulator_puts_them() {
    // The device maps byte 4 GiB to byte 2 GiB.
    let keys = [("device.fold_addresses", "true"), ("dataset.size", "8GiB")];
    let mut device = device(&keys);
    device.warm(read(1 << 19, 0));
    assert!(matches!(device.access(Time::ZERO, read(1 << 20, 0)), Answer::Hit(_)));
    assert!(matches!(device.access(Time::ZERO, read(7, 0)), Answer::Miss(_)));
}

#[test]
fn a_hint_fetches_a_page_that_is_not_known_yet() {
    let mut device = device(&[]);
    device.warm(read(4, 0));
    for page in [3, 3, 4] {
        assert_eq!(device.hint(Time::ZERO, PageId(page)), Time::ZERO, "the host goes on at once");
    }
    assert_eq!(device.flash().unwrap().outstanding(), 1);
    settle(&mut device);
    assert!(matches!(device.access(Time::ZERO + FLASH + FLASH, read(3, 0)), Answer::Hit(_)));
    assert_eq!(device.prefetched().unwrap().used, 1);
}

#[test]
fn a_device_told_not_to_listen_fetches_nothing_for_a_hint() {
    let mut device = device(&[("prefetch.hints", "false")]);
    device.hint(Time::ZERO, PageId(3));
    assert_eq!(device.flash().unwrap().outstanding(), 0);
}

#[test]
fn pages_that_feedback_fetched_in_vain_go_before_those_that_were_asked_for() {
    let keys = [("dram_cache.policy", "lru"), ("prefetch.policy", "feedback-directed")];
    let mut device = device(&keys);
    // All are of one set. Page 32 enters it before its most recent half.
    [0, 4, 8, 12].iter().for_each(|page| device.warm(read(*page, 0)));
    let mut now = Time::ZERO;
    // At a miss of page p, p + 17 and p + 18 are fetched: one of the set, 32.
    for page in [15, 16, 20, 24] {
        now += FLASH + FLASH;
        device.access(now, read(page, 0));
        settle(&mut device);
    }
    now += FLASH + FLASH;
    let answers = [12, 16, 20, 24].map(|page| device.access(now, read(page, 1)));
    assert!(answers.iter().all(|answer| matches!(answer, Answer::Hit(_))), "{answers:?}");
    assert!(matches!(device.access(now, read(32, 1)), Answer::Miss(_)));
}

proptest! {
    #[test]
    fn every_request_is_answered_once_and_every_read_has_a_reason(
        accesses in prop::collection::vec((0u64..64, any::<bool>(), 0u64..300), 1..300),
        rows in 0usize..6, merged in 1usize..4, commands in 1u64..9, prefetch in any::<bool>(),
    ) {
        let [rows, merged, commands] = [rows as u64, merged as u64, commands].map(|n| n.to_string());
        let policy = if prefetch && rows != "0" { "next-n-line" } else { "none" };
        let mut device = device(&[
            ("dram_cache.mshr", &rows), ("device.mshr_requests", &merged),
            ("device.flash_commands", &commands), ("prefetch.policy", policy),
        ]);
        let (mut now, mut events) = (Time::ZERO, Vec::new());
        let (mut hits, mut missed) = (0, vec![false; accesses.len()]);
        for (number, (page, stores, gap_ns)) in (0u32..).zip(&accesses) {
            now += Span::from_ns(*gap_ns);
            device.advance(now, &mut events);
            let request = if *stores { write(*page, number) } else { read(*page, number) };
            match device.access(now, request) {
                Answer::Hit(ready) | Answer::Posted(ready) => { prop_assert!(ready > now); hits += 1; }
                Answer::Miss(_) => missed[number as usize] = true,
                Answer::Stalled => {}
                Answer::Brief(_) => unreachable!("this device tells of no brief wait"),
            }
        }
        events.extend(settle(&mut device));
        let mut arrived = vec![0; accesses.len()];
        for event in &events {
            if let Event::Arrived(waiter, _) = event {
                arrived[waiter.thread as usize] += 1;
            }
        }
        prop_assert!(arrived.iter().zip(&missed).all(|(n, missed)| *n == u32::from(*missed)));
        let (counters, prefetched) = (device.take_counters(), *device.prefetched().unwrap());
        let stalls = events.iter().filter(|event| matches!(event, Event::Unstalled(..))).count();
        prop_assert_eq!(counters.cache.stalls, stalls as u64);
        prop_assert_eq!(counters.cache.hits, hits);
        let waited = missed.iter().filter(|missed| **missed).count() as u64;
        prop_assert_eq!(counters.cache.misses + counters.cache.hits_under_miss + prefetched.late, waited);
        let flash = device.flash().unwrap().counters();
        prop_assert_eq!(flash.reads, counters.cache.misses + prefetched.issued);
        prop_assert_eq!(flash.writes, counters.cache.evictions_dirty);
        prop_assert!(device.next_event().is_none());
    }
}
