//! Tests FlatFlash's memory access by access: the pages that move to DRAM, the time of moves, and
//! accesses during a move.

mod driven;
mod persistence;
mod upkeep;
mod warm_up;

use driven::{Driven, FLASH, MAP, MMIO_READ, MOVE, POSTED_WRITE, request};
use ebbtide_core::Span;
use ebbtide_sim::designs::{compose, resolve};
use ebbtide_sim::memory_side::{Answer, Event, Waiter};

#[test]
fn a_line_costs_mmio_and_flash_as_printed() {
    let mut driven = Driven::new(&[]);
    assert_eq!(driven.read(3, 0), Answer::Miss(driven.now));
    let asked = driven.now;
    driven.pass(FLASH);
    let arrived = Event::Arrived(Waiter { core: 3, thread: 0, slot: 0 }, asked + FLASH + MMIO_READ);
    assert_eq!(driven.events, [arrived]);
    driven.pass(Span::from_us(10));
    assert_eq!(driven.read(3, 1), Answer::Hit(driven.now + MMIO_READ));
}

#[test]
fn a_write_is_posted_and_the_device_fetches_its_page_by_itself() {
    let mut driven = Driven::new(&[]);
    assert_eq!(driven.write(3, 0), Answer::Posted(driven.now + POSTED_WRITE));
    driven.pass(FLASH);
    assert_eq!(driven.events, [], "nobody waits for it");
    driven.pass(Span::from_us(10));
    assert!(driven.waits_for_ssd(3, 0));
}

#[test]
fn the_seventh_access_starts_a_promotion_off_the_critical_path() {
    let mut driven = Driven::new(&[]);
    driven.promote(3);
    // The page is in flight: a line that was not sent yet is read from the SSD.
    assert!(driven.waits_for_ssd(3, 63));
    driven.pass(MOVE + MAP);
    assert!(driven.unmapped(3), "the core walks to its new place");
    assert!(!driven.waits_for_ssd(3, 63) && !driven.waits_for_ssd(3, 0));
    assert_eq!(driven.memory.take_counters().promotion.promotions, 1);
}

#[test]
fn lines_of_a_page_on_its_way_are_read_from_dram_as_they_come() {
    let mut driven = Driven::new(&[]);
    driven.promote(3);
    driven.pass(Span::from_ps(MOVE.as_ps() / 2));
    assert!(!driven.waits_for_ssd(3, 31) && driven.waits_for_ssd(3, 32));
    assert!(!driven.unmapped(3));
}

#[test]
fn a_line_that_the_core_wrote_is_in_dram_before_the_ssd_sends_it() {
    let mut driven = Driven::new(&[]);
    driven.promote(3);
    assert!(matches!(driven.write(3, 63), Answer::Hit(ready) if ready - driven.now < POSTED_WRITE));
    assert!(!driven.waits_for_ssd(3, 63) && driven.waits_for_ssd(3, 62));
}

#[test]
fn a_full_look_aside_buffer_drops_the_promotion() {
    let mut driven = Driven::new(&[("promotion.look_aside", "1")]);
    driven.promote(3);
    // The threshold is 6 after a promotion. This access and seven more reach it three times.
    driven.memory.warm(request(4, 0, false));
    (0..7).for_each(|_| assert!(driven.waits_for_ssd(4, 0)));
    driven.pass(MOVE + MAP);
    assert!(driven.unmapped(3) && !driven.unmapped(4));
    let counters = driven.memory.take_counters();
    assert_eq!((counters.promotion.promotions, counters.promotion.promotions_dropped), (1, 3));
}

#[test]
fn full_dram_demotes_the_least_recently_used_page_and_writes_it_only_if_dirty() {
    for (write_back, dirty, written) in [("dirty", false, 0), ("dirty", true, 1), ("all", false, 1)]
    {
        let settings = [("promotion.write_back", write_back), ("promotion.threshold_max", "1")];
        let mut driven = Driven::new(&settings);
        for page in 0..5 {
            if page == 4 {
                let answer = driven.access(0, 9, dirty);
                assert!(matches!(answer, Answer::Hit(ready) if ready - driven.now < POSTED_WRITE));
                // Page 0 is now the most recently used. Page 1 is the next victim, and then 0 would
                // be.
                (1..4).for_each(|page| assert!(!driven.waits_for_ssd(page, 0)));
            }
            driven.memory.access(driven.now, request(page, 0, false));
            driven.pass(FLASH + MOVE + MAP);
        }
        assert!(driven.unmapped(0));
        let counters = driven.memory.take_counters();
        assert_eq!(
            (counters.promotion.demotions, counters.promotion.demotions_written),
            (1, written),
            "{write_back}"
        );
        driven.pass(Span::from_us(100));
        assert_eq!(driven.memory.flash().unwrap().counters().writes, written);
    }
}

#[test]
fn a_promoted_page_frees_its_place_in_the_ssd_cache() {
    let mut driven = Driven::new(&[("promotion.threshold_max", "1")]);
    // Pages of one set of four ways. Each leaves the set for DRAM, so none is evicted.
    for page in [0, 4, 8, 12] {
        driven.read(page, 0);
        driven.pass(FLASH + MOVE + MAP);
    }
    for page in [16, 20] {
        driven.read(page, 0);
        driven.pass(FLASH);
    }
    let counters = driven.memory.take_counters();
    assert_eq!(
        (counters.cache.misses, counters.cache.evictions_clean + counters.cache.evictions_dirty),
        (6, 0)
    );
}

#[test]
fn what_cannot_be_composed_is_refused_with_the_reason() {
    for design in ["unified-mmap", "astriflash"] {
        let config = resolve("flatflash", &[("parts.memory_side", design)]).unwrap();
        let error = compose(&config).err().unwrap().to_string();
        assert!(error.contains(design) && error.contains("answers single lines"), "{error}");
    }
    let no_battery = [("promotion.persist", "1MiB"), ("promotion.battery_backed", "false")];
    let error = resolve("flatflash", &no_battery).unwrap_err().to_string();
    assert!(error.contains("not durable") && !error.contains('\n'), "{error}");
}

#[test]
fn an_astriflash_core_runs_over_a_cxl_device_with_promotion() {
    // Each section that the parts need comes from their own designs.
    let config = resolve("flatflash", &[("parts.core_side", "astriflash")]).unwrap();
    let parts = compose(&config).unwrap();
    assert!(parts.memory_side.capabilities().byte_addressable);
    assert_ne!(parts.core_side, ebbtide_sim::CoreSide::Block);
}
