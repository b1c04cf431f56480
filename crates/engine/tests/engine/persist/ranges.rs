//! Ranges that are persisted without a transaction, and stored ones.

use std::sync::Arc;

use ebbtide_core::durability::Policy;
use ebbtide_core::{Addr, FullMemory, Hint, Memory};
use ebbtide_engine::Engine;

use super::{PAGES, create, folder, options, reopen, start, with_image, word};
use crate::common;

#[test]
fn a_range_that_was_persisted_survives_with_what_was_stored_without_a_transaction() {
    let folder = folder();
    let path = folder.path().join("store");
    let jobs = start(&create(&path, 1 << 20), &options(1, Policy::Always));
    let persisted = jobs.submit(|memory| {
        (0..1000).for_each(|index: u64| memory.store(Addr(4000 + index * 8), index + 1));
        let lsn = memory.persist(Addr(4000), 8000).unwrap();
        memory.durable(lsn)
    });
    assert_eq!(persisted.wait().unwrap(), Ok(()));
    jobs.stop().unwrap();
    let jobs = start(&reopen(&path), &options(1, Policy::Always));
    let there = jobs.submit(|memory| {
        (0..1000).all(|index: u64| memory.load::<u64>(Addr(4000 + index * 8)) == index + 1)
    });
    assert!(there.wait().unwrap());
}

#[test]
fn a_page_of_a_range_that_was_persisted_is_written_again_although_nothing_has_changed_in_it() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let written = || jobs.engine().counters().snapshot().flash_writes;
    // Loads other pages until page 0 has left DRAM, as the count of written pages tells.
    let leaves = |expected| {
        let others = |memory: &mut ebbtide_engine::FlashMemory<'_>| {
            memory.hint(Hint::DontNeed(word(0)));
            (1..PAGES).map(|page| memory.load::<u64>(word(page))).sum::<u64>()
        };
        for _ in 0..50 {
            assert_eq!(jobs.submit(others).wait().unwrap(), 0);
            if written() == expected {
                return true;
            }
        }
        false
    };
    jobs.submit(|memory| memory.store(word(0), 7u64)).wait().unwrap();
    assert!(leaves(1));
    // Its words are in the log now, and the log goes on only when its copy has them.
    jobs.submit(|memory| memory.persist(word(0), 8).map(drop)).wait().unwrap().unwrap();
    assert!(leaves(2));
}

#[test]
fn a_range_alone_is_logged_and_not_what_lies_before_it() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let committed = || jobs.engine().progress().unwrap().committed.0;
    let before = committed();
    jobs.submit(|memory| memory.persist(word(100) + 128, 64).unwrap()).wait().unwrap();
    // A flush in between fills a block or two.
    let logged_bytes = committed() - before;
    assert!((64..3 * 4096).contains(&logged_bytes), "{logged_bytes} bytes");
}

#[test]
fn the_pages_of_a_stored_range_are_read_ahead_where_there_is_a_log() {
    let folder = folder();
    let store = with_image(&folder.path().join("store"));
    let engine = Arc::new(Engine::open(&store, &options(1, Policy::None)).unwrap());
    common::watch(&engine);
    let jobs = engine.clone().start().unwrap();
    jobs.submit(|memory| memory.write_bytes(word(10) + 100, &[7; 6 * 4096])).wait().unwrap();
    jobs.stop().unwrap();
    let counted = engine.counters().snapshot();
    assert_eq!((counted.misses, counted.fetched_ahead), (1, 6));
}
