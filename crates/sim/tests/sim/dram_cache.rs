//! Tests AstriFlash's DRAM cache access by access, and its waiters.

use ebbtide_core::{Span, Time};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::memory_side::{
    Answer, Counters, DramCache, Event, MemorySide, Observe, Request, Warm,
};
use proptest::prelude::*;

use crate::common::{arrival, read, settle, write};

/// A small machine: 16 frames in 4 sets, one controller.
fn config(overrides: &[(&str, &str)]) -> Config {
    let small = [("dram_cache.size", "64KiB"), ("dataset.size", "1MiB"), ("dram.controllers", "1")];
    resolve("astriflash", &[&small, overrides].concat()).unwrap()
}

#[test]
fn a_miss_comes_back_after_the_flash_and_its_page_then_hits() {
    let mut cache = DramCache::new(&config(&[])).unwrap();
    assert!(matches!(cache.access(Time::ZERO, read(3, 7)), Answer::Miss(_)));
    let at = arrival(&settle(&mut cache), 7).unwrap();
    let flash = Span::from_us(50);
    assert!(
        at.since(Time::ZERO) > flash && at.since(Time::ZERO) < flash + Span::from_us(2),
        "{at:?}"
    );
    assert!(
        matches!(cache.access(at, read(3, 7)), Answer::Hit(ready) if ready.since(at) < Span::from_ns(50))
    );
}

#[test]
fn a_page_in_flight_is_read_once_however_many_wait() {
    let mut cache = DramCache::new(&config(&[])).unwrap();
    for thread in 0..9 {
        assert!(matches!(cache.access(Time::ZERO, read(3, thread)), Answer::Miss(_)));
    }
    let events = settle(&mut cache);
    let first = arrival(&events, 0).unwrap();
    assert!((0..9).all(|thread| arrival(&events, thread) == Some(first)));
    let counters = cache.take_counters();
    assert_eq!((counters.cache.misses, counters.cache.hits_under_miss), (1, 8));
    assert_eq!(cache.flash().unwrap().counters().reads, 1);
}

#[test]
fn a_full_miss_table_makes_the_frontside_stall() {
    // Two entries, a queue of two: the fifth miss finds the backside's queue full.
    let few = [
        ("dram_cache.mshr", "2"),
        ("dram_cache.mshr_ways", "2"),
        ("dram_cache.backside_queue", "2"),
    ];
    let mut cache = DramCache::new(&config(&few)).unwrap();
    for page in 0..4 {
        assert!(matches!(cache.access(Time::ZERO, read(page, page as u32)), Answer::Miss(_)));
    }
    assert_eq!(cache.access(Time::ZERO, read(4, 4)), Answer::Stalled);
    // After a stalled access even a present page must wait, as the frontside serves accesses in
    // order.
    assert_eq!(cache.access(Time::ZERO, read(4, 5)), Answer::Stalled);
    let events = settle(&mut cache);
    let opened = events.iter().filter(|event| matches!(event, Event::Unstalled(..))).count();
    assert_eq!((opened, cache.take_counters().cache.stalls), (2, 2));
    assert!((0..4).all(|thread| arrival(&events, thread).is_some()));
}

#[test]
fn a_dirty_victim_never_delays_a_read() {
    let fill = |dirty: bool| {
        let mut cache = DramCache::new(&config(&[])).unwrap();
        (0..16).for_each(|page| cache.warm(Request { write: dirty, ..read(page, 0) }));
        let answer = cache.access(Time::ZERO, read(16, 1));
        assert!(matches!(answer, Answer::Miss(_)));
        let at = arrival(&settle(&mut cache), 1).unwrap();
        (at, cache.take_counters())
    };
    let ((clean_at, clean), (dirty_at, dirty)) = (fill(false), fill(true));
    assert_eq!(clean_at, dirty_at);
    assert_eq!((clean.cache.evictions_clean, dirty.cache.evictions_dirty), (1, 1));
}

#[test]
fn a_victim_of_another_controller_frees_the_evict_buffer_it_was_in() {
    // Fully associative: a miss of one controller evicts a page of the other's.
    let keys =
        [("dram.controllers", "2"), ("dram_cache.ways", "0"), ("dram_cache.evict_buffer", "1")];
    let mut cache = DramCache::new(&config(&keys)).unwrap();
    (0..16).for_each(|i| cache.warm(write(2 * i + 1, 0)));
    for thread in 0..16 {
        let answer = cache.access(Time::ZERO, read(2 * u64::from(thread), thread));
        assert!(matches!(answer, Answer::Miss(_)));
    }
    let events = settle(&mut cache);
    assert!((0..16).all(|thread| arrival(&events, thread).is_some()));
    assert_eq!(cache.take_counters().cache.evictions_dirty, 16);
}

proptest! {
    #[test]
    fn every_access_is_answered_once_and_every_miss_is_one_flash_read(
        accesses in prop::collection::vec((0u64..64, any::<bool>(), 0u64..3_000), 1..300),
        mshr in 1usize..6, queue in 1usize..4, evict in 1usize..3,
    ) {
        let keys = [mshr * 2, queue, evict].map(|n| n.to_string());
        let mut cache = DramCache::new(&config(&[
            ("dram_cache.mshr", &keys[0]), ("dram_cache.mshr_ways", "2"),
            ("dram_cache.backside_queue", &keys[1]), ("dram_cache.evict_buffer", &keys[2]),
        ])).unwrap();
        let (mut now, mut events, mut total) = (Time::ZERO, Vec::new(), Counters::default());
        let (mut hits, mut missed) = (0, vec![false; accesses.len()]);
        for (number, (page, stores, gap_ns)) in (0u32..).zip(&accesses) {
            now += Span::from_ns(*gap_ns);
            cache.advance(now, &mut events);
            let request = if *stores { write(*page, number) } else { read(*page, number) };
            match cache.access(now, request) {
                Answer::Hit(ready) | Answer::Posted(ready) => { prop_assert!(ready > now); hits += 1; }
                Answer::Miss(reply) => { prop_assert!(reply > now); missed[number as usize] = true; }
                Answer::Stalled => {}
                Answer::Brief(_) => unreachable!("this memory tells of no brief wait"),
            }
        }
        events.extend(settle(&mut cache));
        let mut arrived = vec![0; accesses.len()];
        for event in &events {
            if let Event::Arrived(waiter, _) = event {
                arrived[waiter.thread as usize] += 1;
            }
        }
        prop_assert!(arrived.iter().zip(&missed).all(|(n, missed)| *n == u32::from(*missed)));
        let counters = cache.take_counters();
        total.cache.hits += counters.cache.hits;
        prop_assert_eq!(total.cache.hits, hits);
        let flash = cache.flash().unwrap().counters();
        prop_assert_eq!(flash.reads, counters.cache.misses);
        prop_assert_eq!(flash.writes, counters.cache.evictions_dirty);
        prop_assert!(cache.next_event().is_none());
    }
}
