//! A successful compare-exchange changes its page like a store, so the page must be written back
//! before its frame is reused. A failed one changes nothing.

use std::sync::Arc;

use ebbtide_core::Memory;
use ebbtide_engine::Engine;
use ebbtide_engine::device::ram::{Latency, Ram};

use crate::common::jobs::{job, run_jobs, word};
use crate::common::{WORDS_PER_PAGE, image, initial, small_cache};

const PAGES: u64 = 128;

fn initial_of(page: u64) -> u64 {
    initial(page * WORDS_PER_PAGE)
}

fn engine(cores: usize) -> Engine {
    let device = Ram::new(PAGES as usize, Latency::Looks(1), image);
    let options = small_cache(16, cores, 8, PAGES);
    Engine::over_device(Arc::new(device), PAGES, &options).unwrap()
}

#[test]
fn pages_changed_by_compare_exchange_alone_keep_their_change_when_they_leave_dram() {
    for cores in [1, 2] {
        let engine = engine(cores);
        let share = PAGES / cores as u64;
        let pages = |core: usize| core as u64 * share..(core as u64 + 1) * share;
        let exchange = |page| {
            job(move |memory| {
                let (old, new) = (initial_of(page), !initial_of(page));
                assert_eq!(memory.compare_exchange(word(page), old, new), Ok(old));
            })
        };
        let check =
            |page| job(move |memory| assert_eq!(memory.load::<u64>(word(page)), !initial_of(page)));
        run_jobs(&engine, |core| pages(core).map(exchange).collect());
        let ended = run_jobs(&engine, |core| pages(core).map(check).collect());
        ended.iter().for_each(|core| drop(core.order()));
        assert!(engine.counters().snapshot().flash_writes >= PAGES - 16);
    }
}

#[test]
fn a_failed_compare_exchange_changes_nothing_and_gives_the_word_found() {
    let engine = engine(1);
    let fails = |page| {
        job(move |memory| {
            assert_eq!(memory.compare_exchange(word(page), 0, 1), Err(initial_of(page)));
            assert_eq!(memory.load::<u64>(word(page)), initial_of(page));
        })
    };
    for _ in 0..2 {
        let ended = run_jobs(&engine, |_| (0..PAGES).map(fails).collect());
        ended.iter().for_each(|core| drop(core.order()));
    }
    assert_eq!(engine.counters().snapshot().evictions_dirty, 0);
}
