//! Tests background work of the SSD: it cleans its cache, and makes the host update stale page
//! tables.

use ebbtide_core::Span;
use ebbtide_sim::memory_side::Answer;

use super::driven::{Driven, FLASH, MMIO_READ};

/// Time of a line of the device's DRAM, where the device looks up a moved page.
const LOOK: Span = Span::from_ns(46);

/// Blocks of four pages, cleaned a millisecond after their first write.
fn by_blocks(overrides: &[(&str, &str)]) -> Driven {
    let blocks = [("promotion.clean_after_us", "1000"), ("promotion.block_pages", "4")];
    Driven::new(&[&blocks, overrides].concat())
}

#[test]
fn a_block_is_read_merged_with_its_dirty_pages_and_written() {
    let mut driven = by_blocks(&[]);
    for page in [4, 6, 7] {
        driven.read(page, 0);
        driven.pass(FLASH);
    }
    driven.write(4, 0);
    driven.write(6, 3);
    driven.write(6, 4);
    driven.pass(Span::from_us(990));
    let before = *driven.memory.flash().unwrap().counters();
    driven.pass(Span::from_us(100));
    let counters = driven.memory.take_counters();
    assert_eq!((counters.durability.pages_cleaned, counters.durability.pages_carried), (2, 2));
    let flash = driven.memory.flash().unwrap().counters();
    assert_eq!((flash.reads - before.reads, flash.writes - before.writes), (2, 4));
    // They are clean now: no further write before the next store.
    driven.pass(Span::from_us(5_000));
    assert_eq!(driven.memory.take_counters().durability.pages_cleaned, 0);
    driven.write(6, 3);
    driven.pass(Span::from_us(1_100));
    assert_eq!(driven.memory.take_counters().durability.pages_cleaned, 1);
}

#[test]
fn a_dirty_page_that_left_before_its_block_was_due_is_written_once() {
    // A cache of one set of four pages. Other pages fill it after the write.
    let mut driven = by_blocks(&[("dram_cache.size", "16KiB")]);
    driven.write(0, 0);
    driven.pass(FLASH);
    for page in [20, 24, 28, 32, 36] {
        driven.read(page, 0);
        driven.pass(FLASH + MMIO_READ);
    }
    driven.pass(Span::from_us(2_000));
    let counters = driven.memory.take_counters();
    assert_eq!((counters.cache.evictions_dirty, counters.durability.pages_cleaned), (1, 0));
    assert_eq!(driven.memory.flash().unwrap().counters().writes, 1);
}

#[test]
fn a_page_that_moved_in_flash_is_served_by_its_old_place_until_a_batch_is_mended() {
    // A block moves. Its four pages are less than a batch, and the next block completes it.
    let mut driven = by_blocks(&[("promotion.mend_batch", "8")]);
    for page in [4, 8] {
        driven.read(page, 0);
        driven.pass(FLASH);
    }
    driven.write(4, 0);
    driven.pass(Span::from_us(1_100));
    assert_eq!(driven.read(4, 1), Answer::Hit(driven.now + LOOK + MMIO_READ));
    driven.pass(Span::from_us(1));
    assert_eq!(driven.read(8, 1), Answer::Hit(driven.now + MMIO_READ));
    assert!(!driven.unmapped(4));
    driven.write(8, 0);
    driven.pass(Span::from_us(1_100));
    assert!((4..12).all(|page| driven.unmapped(page)) && !driven.unmapped(12));
    assert_eq!(driven.read(4, 1), Answer::Hit(driven.now + MMIO_READ));
    let counters = driven.memory.take_counters();
    assert_eq!(
        (counters.relocation.pages_moved_in_flash, counters.relocation.page_tables_mended),
        (8, 1)
    );
    assert_eq!(counters.relocation.redirected, 1);
}

#[test]
fn a_page_that_the_host_writes_back_needs_no_mending() {
    let settings = [("promotion.write_back", "all"), ("promotion.threshold_max", "1")];
    let mut driven = Driven::new(&settings);
    for page in 0..6 {
        driven.read(page, 0);
        driven.pass(Span::from_us(100));
    }
    let counters = driven.memory.take_counters();
    assert_eq!(
        (counters.promotion.demotions_written, counters.relocation.pages_moved_in_flash),
        (2, 0)
    );
}
