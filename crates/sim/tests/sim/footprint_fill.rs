//! Tests footprint fill. A page comes with the lines that the last similar page used. A line that
//! was left out is fetched on access.

use ebbtide_core::{Addr, LINE_BYTES, PAGE_BYTES, Span, Time};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::memory_side::{
    Answer, Counters, DramCache, Event, MemorySide, Observe, Request, Waiter,
};
use ebbtide_sim::{Offered, Plan, designs, simulate};
use ebbtide_workloads::Kind;

/// A small machine: 16 frames in 4 sets, one controller.
fn config(design: &str) -> Config {
    let small = [
        ("dram_cache.size", "64KiB"),
        ("dataset.size", "1MiB"),
        ("dram.controllers", "1"),
        ("dram_cache.fill", "footprint"),
    ];
    resolve(design, &small).unwrap()
}

/// A cache and its clock.
struct Driven {
    cache: DramCache,
    now: Time,
}

impl Driven {
    fn new() -> Driven {
        Driven { cache: DramCache::new(&config("astriflash")).unwrap(), now: Time::ZERO }
    }

    /// Accesses line `line` of page `page` at site `site`, and waits for it. Returns whether it was
    /// present.
    fn access(&mut self, site: u32, page: u64, line: u64, write: bool) -> bool {
        let at = Addr(page * PAGE_BYTES as u64 + line * LINE_BYTES as u64);
        let waiter = Waiter { core: 0, thread: 9, slot: 0 };
        self.now += Span::from_us(1);
        let answer =
            self.cache.access(self.now, Request { site, ..Request::new(at, write, waiter) });
        let mut events = Vec::new();
        while let Some(due) = self.cache.next_event() {
            self.now = self.now.max(due);
            self.cache.advance(due, &mut events);
        }
        match answer {
            Answer::Hit(_) => true,
            Answer::Miss(_) => {
                let told = events.iter().filter(|event| matches!(event, Event::Arrived(..)));
                assert_eq!(told.count(), 1, "whoever missed is told");
                false
            }
            other => panic!("{other:?} on an idle machine"),
        }
    }

    fn read(&mut self, site: u32, page: u64, line: u64) -> bool {
        self.access(site, page, line, false)
    }

    /// Evicts page 0 from its set of four frames. Returns the counts of that time.
    fn evict_page_0(&mut self) -> Counters {
        self.cache.take_counters();
        for page in [4, 8, 12, 16] {
            assert!(!self.read(99, page, 63));
        }
        self.cache.take_counters()
    }
}

#[test]
fn the_first_page_of_a_site_comes_whole() {
    let mut driven = Driven::new();
    assert!(!driven.read(1, 0, 5));
    assert!((0..64).all(|line| driven.read(1, 0, line)));
    assert_eq!(driven.cache.take_counters().footprints.refilled_bytes, 4096);
}

#[test]
fn a_page_comes_with_what_was_used_of_the_last_one_that_was_brought_alike() {
    let mut driven = Driven::new();
    assert!(!driven.read(1, 0, 5) && driven.read(2, 0, 9));
    driven.evict_page_0();
    assert!(!driven.read(1, 1, 5));
    let counters = driven.cache.take_counters();
    assert_eq!((counters.cache.misses, counters.footprints.refilled_bytes), (1, 128));
    assert!(driven.read(3, 1, 5) && driven.read(3, 1, 9), "whoever asks for the lines");
}

#[test]
fn what_moves_is_counted_by_lines() {
    let mut driven = Driven::new();
    assert!(!driven.read(1, 0, 5));
    let whole = driven.cache.take_counters();
    assert_eq!((whole.traffic.dram_pages_in, whole.traffic.dram_page_lines_in), (1, 64));
    assert_eq!((whole.traffic.link_bytes, whole.traffic.device_dram_bytes), (4096, 2 * 4096));
    driven.evict_page_0();
    // Line 5 alone, then a store to line 30, which was left out.
    assert!(!driven.read(1, 0, 5) && !driven.access(1, 0, 30, true));
    let lines = driven.cache.take_counters();
    assert_eq!((lines.traffic.dram_pages_in, lines.traffic.dram_page_lines_in), (2, 2));
    assert_eq!(
        (lines.traffic.link_bytes, lines.traffic.device_dram_bytes),
        (2 * 64, 2 * (4096 + 64))
    );
    // The page leaves with its two present lines, and the SSD writes all of it. Four others come.
    let out = driven.evict_page_0();
    assert_eq!((out.traffic.dram_pages_out, out.traffic.dram_page_lines_out), (1, 2));
    let came = 64 * out.traffic.dram_page_lines_in;
    assert_eq!(out.traffic.link_bytes, came + 2 * 64);
    assert_eq!(out.traffic.device_dram_bytes, 4 * 4096 + came + 2 * 4096);
}

#[test]
fn a_line_that_was_left_out_is_fetched_alone_and_expected_the_next_time() {
    let mut driven = Driven::new();
    assert!(!driven.read(1, 0, 5));
    driven.evict_page_0();
    assert!(!driven.read(1, 0, 5), "the page is gone");
    assert!(!driven.read(2, 0, 6), "only line 5 came");
    assert!(driven.read(2, 0, 6) && driven.read(1, 0, 5));
    let counters = driven.cache.take_counters();
    assert_eq!((counters.cache.misses, counters.footprints.underpredictions), (1, 1));
    assert_eq!(counters.footprints.refilled_bytes, 128);
    assert_eq!(driven.cache.flash().unwrap().counters().reads, 1 + 4 + 1 + 1);
    driven.evict_page_0();
    assert!(!driven.read(1, 0, 5) && driven.read(2, 0, 6));
}

#[test]
fn another_site_that_brings_a_page_knows_nothing_of_it() {
    let mut driven = Driven::new();
    assert!(!driven.read(1, 0, 5));
    driven.evict_page_0();
    assert!(!driven.read(2, 0, 5) && driven.read(2, 0, 40));
}

#[test]
fn a_store_to_a_line_that_was_left_out_makes_the_page_dirty() {
    let mut driven = Driven::new();
    assert!(!driven.read(1, 0, 5));
    driven.evict_page_0();
    assert!(!driven.read(1, 0, 5));
    assert!(!driven.access(1, 0, 30, true));
    assert_eq!(driven.evict_page_0().cache.evictions_dirty, 1);
    assert_eq!(driven.cache.flash().unwrap().counters().writes, 1);
}

#[test]
fn a_page_that_leaves_while_a_line_of_it_comes_is_missed_again() {
    let mut driven = Driven::new();
    assert!(!driven.read(1, 0, 5));
    driven.evict_page_0();
    assert!(!driven.read(1, 0, 5));
    let ask = |driven: &mut Driven, page: u64, line: u64| {
        let at = Addr(page * PAGE_BYTES as u64 + line * LINE_BYTES as u64);
        let request = Request::new(at, false, Waiter { core: 0, thread: line as u32, slot: 0 });
        driven.cache.access(driven.now, request)
    };
    assert!(matches!(ask(&mut driven, 0, 7), Answer::Miss(_)));
    // Four more pages for the set, while line 7 of page 0 is in flight.
    for (thread, page) in [(40, 4), (41, 8), (42, 12), (43, 16)] {
        let answer = ask(&mut driven, page, thread);
        assert!(matches!(answer, Answer::Miss(_) | Answer::Hit(_)), "{answer:?}");
    }
    let mut events = Vec::new();
    while let Some(due) = driven.cache.next_event() {
        driven.now = driven.now.max(due);
        driven.cache.advance(due, &mut events);
    }
    assert!(!driven.read(1, 0, 7), "its page is gone");
    assert!(driven.read(1, 0, 7));
}

#[test]
fn less_is_fetched_and_jobs_find_what_they_should() {
    let run = |fill: &str| {
        let keys = [
            ("cores.count", "2"),
            ("llc.size", "256KiB"),
            ("dataset.size", "64MiB"),
            ("dram_cache.size", "2MiB"),
            ("dram_cache.fill", fill),
        ];
        let config = resolve("astriflash", &keys).unwrap();
        let plan = Plan {
            config,
            workload: Kind::Tatp,
            jobs: 4_000,
            seed: 1,
            arrivals: Offered::Saturating,
        };
        simulate(&plan).unwrap()
    };
    let (page, footprint) = (run("page"), run("footprint"));
    let whole =
        (footprint.memory.cache.misses + footprint.memory.footprints.underpredictions) * 4096;
    assert!(footprint.memory.footprints.refilled_bytes < whole / 2, "{:?}", footprint.memory);
    assert!(footprint.memory.footprints.underpredictions > 0);
    assert_eq!(page.memory.footprints.underpredictions, 0);
}

#[test]
fn memories_that_move_whole_pages_refuse_it() {
    for design in ["os-swap", "cxl-flash", "dram-only"] {
        let message = designs::compose(&config(design)).map(|_| ()).unwrap_err().to_string();
        assert!(message.starts_with("dram_cache.fill = footprint: expected page"), "{message}");
    }
}
