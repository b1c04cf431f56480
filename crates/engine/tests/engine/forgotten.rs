//! Pages that a transaction forgets: stored to without a read, and as they were if it does not take
//! place.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ebbtide_core::durability::Policy;
use ebbtide_core::{Addr, FullMemory, Hint, Memory, PageId};
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{Engine, FlashMemory, Jobs, Options};
use ebbtide_structures::latch;

use crate::common;

const PAGES: u64 = 4096;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn start(store: Store, cores: usize) -> Jobs {
    let mut options = Options { cores, durability: Some(Policy::None), ..Options::new(4 << 20) };
    options.tuning.threads = Some(8);
    let engine = Arc::new(Engine::open(&Arc::new(store), &options).unwrap());
    common::watch(&engine);
    engine.start().unwrap()
}

fn create(path: &Path, cores: usize) -> Jobs {
    let (path, tag) = (path.to_path_buf(), "forgotten".into());
    let new = NewStore { path, offset: 0, pages: PAGES, spare_pages: PAGES / 4, tag, force: false };
    start(Store::create_persistent(&new, 1 << 20).unwrap(), cores)
}

fn word(page: u64, index: u64) -> Addr {
    PageId(page).start() + 8 * index
}

/// The words 1 and 2 of a page after [`fill`].
fn filled(page: u64) -> [u64; 2] {
    [page + 1, page + 2]
}

fn both(memory: &mut FlashMemory<'_>, page: u64) -> [u64; 2] {
    [1, 2].map(|index| memory.load(word(page, index)))
}

/// Stores to every page. The first ones are then on flash alone.
fn fill(jobs: &Jobs) {
    let pages = jobs.submit(|memory| {
        for page in 0..PAGES {
            memory.transaction(|memory| memory.store(word(page, 1), filled(page))).unwrap();
        }
    });
    pages.wait().unwrap();
    assert_eq!(jobs.checkpoint(), Ok(true));
    let drop = |memory: &mut FlashMemory<'_>| {
        (0..20).for_each(|page| memory.hint(Hint::DontNeed(word(page, 0))));
    };
    jobs.submit(drop).wait().unwrap();
}

#[test]
fn a_forgotten_page_that_is_on_flash_alone_is_stored_to_without_a_read() {
    let folder = folder();
    let path = folder.path().join("store");
    let jobs = create(&path, 1);
    fill(&jobs);
    let counters = |jobs: &Jobs| jobs.engine().counters().snapshot();
    let before = counters(&jobs);
    let forgets = jobs.submit(|memory| {
        let forget = |memory: &mut FlashMemory<'_>| {
            for page in 0..10 {
                memory.forget(PageId(page));
                assert_eq!(both(memory, page), [0; 2], "its own loads give zeros");
                memory.store(word(page, 1), 100 + page);
                assert_eq!(both(memory, page), [100 + page, 0]);
            }
        };
        memory.transaction(forget).unwrap();
        (0..10).map(|page| both(memory, page)).collect::<Vec<_>>()
    });
    for (page, words) in (0..10).zip(forgets.wait().unwrap()) {
        assert_eq!(words, [100 + page, 0]);
    }
    let after = counters(&jobs);
    assert_eq!(after.flash_reads - before.flash_reads, 0);
    assert_eq!(after.overwritten - before.overwritten, 10);
    assert_eq!(after.misses, before.misses);
    jobs.stop().unwrap();
    let jobs = start(Store::open(&path, 0, Access::Exclusive).unwrap(), 1);
    let read = jobs.submit(|memory| (0..11).map(|page| both(memory, page)).collect::<Vec<_>>());
    let read = read.wait().unwrap();
    for (page, words) in (0..10).zip(&read) {
        assert_eq!(words[0], 100 + page);
        assert!([0, filled(page)[1]].contains(&words[1]), "zero or as before: {}", words[1]);
    }
    assert_eq!(read[10], filled(10), "it was not forgotten");
}

#[test]
fn a_transaction_that_stores_nothing_to_a_forgotten_page_leaves_it_as_it_was() {
    let folder = folder();
    let jobs = create(&folder.path().join("store"), 1);
    fill(&jobs);
    let unwinds = jobs.submit(|memory| {
        memory.transaction(|memory| {
            memory.forget(PageId(3));
            memory.store(word(3, 1), 7u64);
            panic!("on purpose");
        })
    });
    assert!(unwinds.wait().is_err());
    let forgets = jobs.submit(|memory| {
        memory.transaction(|memory| memory.forget(PageId(4))).unwrap();
        [3, 4].map(|page| both(memory, page))
    });
    assert_eq!(forgets.wait().unwrap(), [filled(3), filled(4)]);
}

/// The first run forgets the page and meets at its end that a word has changed. The next one needs
/// the page.
#[test]
fn a_run_that_does_not_count_leaves_a_forgotten_page_as_it_was() {
    let folder = folder();
    let jobs = create(&folder.path().join("store"), 1);
    fill(&jobs);
    let step = Arc::new(AtomicU64::new(0));
    let told = step.clone();
    let exchanges = jobs.submit(move |memory| {
        let mut runs = 0;
        let body = |memory: &mut FlashMemory<'_>| {
            runs += 1;
            if runs == 1 {
                memory.forget(PageId(5));
                memory.store(word(5, 1), 7u64);
            }
            let seen: u64 = memory.load(word(PAGES - 1, 9));
            memory.compare_exchange(word(PAGES - 1, 9), seen, seen + 1).unwrap();
            told.fetch_max(1, Ordering::SeqCst);
            while told.load(Ordering::SeqCst) < 2 {
                memory.yield_now();
            }
            both(memory, 5)
        };
        let (words, _) = memory.transaction(body).unwrap();
        (runs, words)
    });
    let changes = jobs.submit(move |memory| {
        while step.load(Ordering::SeqCst) < 1 {
            memory.yield_now();
        }
        memory.transaction(|memory| memory.store(word(PAGES - 1, 9), 40u64)).unwrap();
        step.store(2, Ordering::SeqCst);
    });
    changes.wait().unwrap();
    assert_eq!(exchanges.wait().unwrap(), (2, filled(5)));
    assert_eq!(jobs.engine().counters().snapshot().overwritten, 0);
}

#[test]
fn a_page_that_is_looked_at_or_whose_latch_is_taken_is_read_although_it_is_forgotten() {
    let folder = folder();
    let jobs = create(&folder.path().join("store"), 1);
    fill(&jobs);
    let forgets = jobs.submit(|memory| {
        let forget = |memory: &mut FlashMemory<'_>| {
            memory.compare_exchange(word(6, 1), 7, 8).unwrap();
            memory.forget(PageId(6));
            // It is not in DRAM when the transaction ends.
            memory.hint(Hint::DontNeed(word(6, 0)));
            latch::write(memory, word(7, 0), |memory| {
                memory.forget(PageId(7));
                memory.store(word(7, 1), 9u64);
            });
        };
        memory.transaction(forget).unwrap();
        [6, 7].map(|page| both(memory, page))
    });
    assert_eq!(forgets.wait().unwrap(), [[8, 8], [9, 9]]);
    assert_eq!(jobs.engine().counters().snapshot().overwritten, 0);
}

/// Jobs on several cores forget and read pages, with far more pages than frames. Others wait for
/// pages that are claimed. The contents of each page come from one transaction.
#[test]
fn jobs_that_share_pages_see_each_as_one_transaction_has_left_it() {
    const SHARED: u64 = 1500;
    const JOBS: u64 = 6000;
    for cores in [1, 3] {
        let folder = folder();
        let path = folder.path().join("store");
        let jobs = create(&path, cores);
        fill(&jobs);
        // The latches lie in pages of their own.
        let latch_of = |page| word(SHARED + page % 64, 3);
        let check = |words: [u64; 2], page: u64| {
            let written = words[0] >> 32 == page && words[1] == words[0] ^ u64::MAX;
            assert!(words == filled(page) || written, "page {page} holds {words:x?}");
        };
        let tickets: Vec<_> = (0..JOBS)
            .map(|n| {
                jobs.submit(move |memory| {
                    let page = n * 7919 % SHARED;
                    if n % 3 == 0 {
                        let look = |memory: &mut FlashMemory<'_>| both(memory, page);
                        return check(latch::read(memory, latch_of(page), look), page);
                    }
                    let written = memory.transaction(|memory| {
                        latch::write(memory, latch_of(page), |memory| {
                            let value = page << 32 | n;
                            memory.forget(PageId(page));
                            memory.store(word(page, 1), value);
                            memory.store(word(page, 2), value ^ u64::MAX);
                        });
                    });
                    written.unwrap();
                })
            })
            .collect();
        tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
        let counters = jobs.engine().counters().snapshot();
        assert!(counters.overwritten > 500, "{counters:?}");
        jobs.stop().unwrap();
        let jobs = start(Store::open(&path, 0, Access::Exclusive).unwrap(), 1);
        let all =
            jobs.submit(|memory| (0..SHARED).map(|page| both(memory, page)).collect::<Vec<_>>());
        (0..SHARED).zip(all.wait().unwrap()).for_each(|(page, words)| check(words, page));
    }
}
