//! Tests HAMS's memory side access by access: its waiters and its transfers.

use ebbtide_core::{PageId, Span, Time};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::memory_side::mos::MosCache;
use ebbtide_sim::memory_side::{Answer, Event, MemorySide, Observe, Request, Warm};
use proptest::prelude::*;

use crate::common::{self, settle};

/// Pages of 4 KiB in a MoS page.
const PAGES: u64 = 32;
const FRAMES: u64 = 4;

/// A small machine: four frames of 128 KiB in front of 2 MiB. An access waits for its whole MoS
/// page.
fn config(design: &str, overrides: &[(&str, &str)]) -> Config {
    let small =
        [("dram_cache.size", "512KiB"), ("dataset.size", "2MiB"), ("mos.wanted_first", "false")];
    resolve(design, &[&small, overrides].concat()).unwrap()
}

fn cache(design: &str) -> MosCache {
    MosCache::new(&config(design, &[])).unwrap()
}

/// `thread` reads the first line of MoS page `page`.
fn read(page: u64, thread: u32) -> Request {
    common::read(page * PAGES, thread)
}

fn write(page: u64, thread: u32) -> Request {
    Request { write: true, ..read(page, thread) }
}

/// The arrival time of each thread's page, in the order of threads.
fn arrivals(events: &[Event]) -> Vec<Time> {
    let mut arrivals: Vec<(u32, Time)> = events
        .iter()
        .filter_map(|event| match event {
            Event::Arrived(waiter, at) => Some((waiter.thread, *at)),
            _ => None,
        })
        .collect();
    arrivals.sort();
    arrivals.into_iter().map(|(_, at)| at).collect()
}

/// The time of a clean miss on an idle machine.
fn idle_miss(design: &str) -> Span {
    let mut cache = cache(design);
    assert!(matches!(cache.access(Time::ZERO, read(0, 0)), Answer::Miss(_)));
    arrivals(&settle(&mut cache))[0].since(Time::ZERO)
}

#[test]
fn a_miss_fetches_its_whole_mos_page_which_then_hits() {
    for design in ["lhams-e", "thams-e", "lhams-p", "thams-p"] {
        let mut cache = cache(design);
        assert!(matches!(cache.access(Time::ZERO, read(1, 0)), Answer::Miss(_)));
        let at = arrivals(&settle(&mut cache))[0];
        for page in PAGES..2 * PAGES {
            let request = common::read(page, 0);
            assert!(matches!(cache.access(at, request), Answer::Hit(_)), "{design} {page}");
        }
        assert_eq!(cache.flash().unwrap().counters().reads, PAGES);
    }
}

#[test]
fn a_tightly_coupled_miss_is_the_command_flash_and_bursts_on_the_ddr_bus() {
    // The NVDIMM takes 16 GB/s, less than the 20 of the bus.
    let bursts = Span::from_ps(PAGES * (4096 * 1_000 / 16 + 2 * 3_000));
    let rest = Span::from_ns(3 + 18 + 3_000 + 3);
    let miss = idle_miss("thams-e").as_ps() - (bursts + rest).as_ps();
    // The tag is read, and the command built.
    assert!(miss < 60_000, "{miss} ps");
}

#[test]
fn pcie_and_the_internal_dram_make_the_loosely_coupled_miss_longer() {
    let link = PAGES * 4096 / 4;
    let miss = idle_miss("lhams-e").as_ns();
    assert!(miss > link + 3_000 + 4 * 400 && miss < link + 3_000 + 4 * 400 + 2_000, "{miss} ns");
    assert!(miss > 3 * idle_miss("thams-e").as_ns());
}

#[test]
fn the_wanted_part_of_a_mos_page_comes_first_and_ends_the_wait() {
    for design in ["lhams-e", "thams-e"] {
        let mut cache = MosCache::new(&config(design, &[("mos.wanted_first", "true")])).unwrap();
        let sector = |number, thread| Request { page: PageId(number), ..read(0, thread) };
        let whole = idle_miss(design);
        for (number, thread) in [(20, 0), (19, 1), (20, 2), (21, 3)] {
            let answer = cache.access(Time::ZERO, sector(number, thread));
            assert!(matches!(answer, Answer::Miss(_)), "{design} {number}");
        }
        let mut events = Vec::new();
        while arrivals(&events).len() < 2 {
            let due = cache.next_event().unwrap();
            cache.advance(due, &mut events);
        }
        // The first waiter, and the other waiter of the same 4 KiB. The rest of the page is in
        // flight.
        let first = arrivals(&events)[0];
        assert!(matches!(cache.access(first, sector(20, 4)), Answer::Hit(_)), "{design}");
        assert!(matches!(cache.access(first, sector(0, 5)), Answer::Miss(_)), "{design}");
        events.extend(settle(&mut cache));
        let [wanted, last, same, next, start] = arrivals(&events)[..] else { panic!("{events:?}") };
        assert!(wanted == same && wanted < next && next < start && start < last, "{events:?}");
        assert!(
            wanted.since(Time::ZERO).as_ps() < whole.as_ps() - 31 * 4096 * 1_000 / 21,
            "{design}"
        );
        assert!(last.since(Time::ZERO).as_ps().abs_diff(whole.as_ps()) < 1_000_000, "{design}");
        assert_eq!(cache.flash().unwrap().counters().reads, PAGES);
    }
}

#[test]
fn a_busy_frame_makes_a_second_miss_to_its_set_wait() {
    let mut cache = cache("thams-e");
    let once = idle_miss("thams-e");
    assert!(matches!(cache.access(Time::ZERO, read(0, 0)), Answer::Miss(_)));
    assert!(matches!(cache.access(Time::ZERO, read(FRAMES, 1)), Answer::Miss(_)));
    let arrived = arrivals(&settle(&mut cache));
    assert!(arrived[1].since(arrived[0]) >= Span::from_us(3), "{arrived:?}");
    assert!(arrived[1].since(Time::ZERO).as_ps() <= 2 * once.as_ps(), "{arrived:?} {once:?}");
    let counters = cache.take_counters();
    assert_eq!((counters.cache.misses, counters.cache.in_flight_peak), (2, 1));
    assert_eq!(counters.cache.evictions_clean, 1);
}

#[test]
fn a_page_on_its_way_is_read_once_however_many_wait() {
    let mut cache = cache("lhams-e");
    // The last two find another page's fill in their frame, and want one page.
    for (thread, page) in [(0, 0), (1, 0), (2, FRAMES), (3, FRAMES)] {
        assert!(matches!(cache.access(Time::ZERO, read(page, thread)), Answer::Miss(_)));
    }
    let arrived = arrivals(&settle(&mut cache));
    assert!(arrived[0] == arrived[1] && arrived[2] == arrived[3] && arrived[1] < arrived[2]);
    let counters = cache.take_counters();
    assert_eq!((counters.cache.misses, counters.cache.hits_under_miss), (2, 2));
    assert_eq!(cache.flash().unwrap().counters().reads, 2 * PAGES);
}

#[test]
fn extend_mode_overlaps_misses_and_persist_mode_has_one_under_way() {
    let both = |design| {
        let mut cache = cache(design);
        for (thread, page) in [(0, 0), (1, 1)] {
            assert!(matches!(cache.access(Time::ZERO, read(page, thread)), Answer::Miss(_)));
        }
        let arrived = arrivals(&settle(&mut cache));
        (arrived[0].since(Time::ZERO), arrived[1].since(arrived[0]))
    };
    for (extend, persist) in [("lhams-e", "lhams-p"), ("thams-e", "thams-p")] {
        // In extend mode, the second page's flash read ends before the first page is present.
        let (first, second) = both(extend);
        assert!(second.as_ps() + Span::from_us(3).as_ps() <= first.as_ps(), "{extend}");
        // In persist mode, the second command starts when the first is finished.
        let (first, second) = both(persist);
        assert!(second.as_ps().abs_diff(first.as_ps()) < 100_000, "{first:?} {second:?}");
    }
}

#[test]
fn a_fill_waits_for_its_victims_copy_but_not_for_flash_to_take_it() {
    let miss = |dirty: bool| {
        let mut cache = cache("thams-e");
        cache.warm(Request { write: dirty, ..read(0, 0) });
        cache.take_counters();
        assert!(matches!(cache.access(Time::ZERO, read(FRAMES, 0)), Answer::Miss(_)));
        let at = arrivals(&settle(&mut cache))[0].since(Time::ZERO);
        (at, cache.take_counters(), cache.flash().unwrap().counters().writes)
    };
    let ((clean, before, none), (dirty, after, all)) = (miss(false), miss(true));
    assert!(dirty > clean && dirty < clean + Span::from_us(30), "{clean:?} {dirty:?}");
    assert_eq!((before.traffic.copied_bytes, after.traffic.copied_bytes), (0, 2 * PAGES * 4096));
    assert_eq!((none, all), (0, PAGES));
}

#[test]
fn a_victim_wanted_again_waits_until_flash_has_it() {
    let mut cache = cache("thams-e");
    cache.warm(write(0, 0));
    assert!(matches!(cache.access(Time::ZERO, read(FRAMES, 0)), Answer::Miss(_)));
    let mut events = Vec::new();
    while events.is_empty() {
        cache.advance(cache.next_event().unwrap(), &mut events);
    }
    let there = arrivals(&events)[0];
    assert!(matches!(cache.access(there, read(0, 1)), Answer::Miss(_)));
    let again = arrivals(&settle(&mut cache))[0];
    assert!(again.since(there) > Span::from_us(100), "the write takes 100 us: {again:?}");
}

#[test]
fn without_internal_dram_nothing_is_buffered_in_the_device() {
    let moved = |design| {
        let mut cache = cache(design);
        cache.warm(write(0, 0));
        let _ = cache.access(Time::ZERO, read(FRAMES, 0));
        settle(&mut cache);
        cache.take_counters().traffic.device_dram_bytes
    };
    assert_eq!((moved("lhams-e"), moved("thams-e")), (2 * 2 * PAGES * 4096, 0));
}

#[test]
fn a_full_wait_queue_stalls_until_a_frame_is_there() {
    let few = [("dram_cache.backside_queue", "1")];
    let mut cache = MosCache::new(&config("lhams-e", &few)).unwrap();
    assert!(matches!(cache.access(Time::ZERO, read(0, 0)), Answer::Miss(_)));
    assert!(matches!(cache.access(Time::ZERO, read(FRAMES, 1)), Answer::Miss(_)));
    assert_eq!(cache.access(Time::ZERO, read(2 * FRAMES, 2)), Answer::Stalled);
    let events = settle(&mut cache);
    let opened = events.iter().filter(|event| matches!(event, Event::Unstalled(..))).count();
    assert_eq!((opened, cache.take_counters().cache.stalls), (1, 1));
}

#[test]
fn what_hams_cannot_be_is_refused_in_a_line() {
    for (keys, expected) in [
        (vec![("dram_cache.ways", "2")], "direct-mapped"),
        (vec![("dram_cache.size", "500KiB")], "a multiple of mos.page, 128KiB"),
        (vec![("dram_cache.mshr", "1")], "at least 2"),
    ] {
        let error = MosCache::new(&config("lhams-e", &keys)).err().unwrap().to_string();
        assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    }
    let error = MosCache::new(&resolve("astriflash", &[]).unwrap()).err().unwrap().to_string();
    assert!(error.contains("[mos], as in lhams-e"), "{error}");
    let error = resolve("lhams-e", &[("mos.page", "100")]).unwrap_err().to_string();
    assert!(error.contains("mos.page") && error.contains("multiple of 4KiB"), "{error}");
}

proptest! {
    #[test]
    fn every_miss_is_told_once_and_moves_its_page_once(
        accesses in prop::collection::vec((0u64..12, any::<bool>(), 0u64..20_000), 1..120),
        queue in 2usize..8, pool in 1usize..4, wait in 1usize..6,
        design in prop::sample::select(vec!["lhams-e", "thams-e", "lhams-p", "thams-p"]),
    ) {
        let keys = [queue, pool, wait].map(|n| n.to_string());
        let mut cache = MosCache::new(&config(design, &[
            ("dram_cache.mshr", &keys[0]), ("dram_cache.evict_buffer", &keys[1]),
            ("dram_cache.backside_queue", &keys[2]),
        ])).unwrap();
        let (mut now, mut events, mut hits, mut stalls) = (Time::ZERO, Vec::new(), 0u64, 0u64);
        let mut missed = vec![false; accesses.len()];
        for (number, (page, stores, gap_ns)) in (0u32..).zip(&accesses) {
            now += Span::from_ns(*gap_ns);
            cache.advance(now, &mut events);
            let request = if *stores { write(*page, number) } else { read(*page, number) };
            match cache.access(now, request) {
                Answer::Hit(ready) | Answer::Posted(ready) => { prop_assert!(ready > now); hits += 1; }
                Answer::Miss(reply) => { prop_assert!(reply > now); missed[number as usize] = true; }
                Answer::Stalled => stalls += 1,
                Answer::Brief(_) => unreachable!("this memory tells of no brief wait"),
            }
        }
        events.extend(settle(&mut cache));
        let mut told = vec![0; accesses.len()];
        let mut unstalled = 0;
        for event in &events {
            match event {
                Event::Arrived(waiter, _) => told[waiter.thread as usize] += 1,
                Event::Unstalled(..) => unstalled += 1,
                Event::Unmapped(_) | Event::Interrupted(_) => {}
            }
        }
        prop_assert!(told.iter().zip(&missed).all(|(n, missed)| *n == u32::from(*missed)));
        let counters = cache.take_counters();
        prop_assert_eq!((counters.cache.hits, counters.cache.stalls, unstalled), (hits, stalls, stalls));
        let waited = missed.iter().filter(|missed| **missed).count() as u64;
        prop_assert_eq!(counters.cache.misses + counters.cache.hits_under_miss, waited);
        let flash = cache.flash().unwrap().counters();
        prop_assert_eq!(flash.reads, PAGES * counters.cache.misses);
        prop_assert_eq!(flash.writes, PAGES * counters.cache.evictions_dirty);
        prop_assert_eq!(counters.traffic.copied_bytes, 2 * 4096 * PAGES * counters.cache.evictions_dirty);
        let moved = (counters.traffic.dram_pages_in, counters.traffic.dram_pages_out);
        prop_assert_eq!(moved, (flash.reads, flash.writes));
        prop_assert_eq!(counters.traffic.link_bytes, 4096 * (flash.reads + flash.writes));
        prop_assert!(counters.traffic.dram_lines >= counters.cache.hits + waited);
    }
}
