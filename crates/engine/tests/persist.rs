//! Transactions on a persistent store: whole, in order, and there again after the store is opened.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::recorder::Recorder;
use ebbtide_core::durability::{Lsn, Policy, TransactionError};
use ebbtide_core::{Addr, Hint, Memory, PAGE_BYTES, PageId, Span, Watch};
use ebbtide_engine::device::uring::Uring;
use ebbtide_engine::store::{Access, NewStore, Store, StoreError};
use ebbtide_engine::{Engine, EngineError, FlashMemory, JobError, Jobs, Options};
use ebbtide_structures::{Map, Region, latch};

const PAGES: u64 = 4096;

fn new_store(path: &Path) -> NewStore {
    let (path, tag) = (path.to_path_buf(), "persist".into());
    NewStore { path, offset: 0, pages: PAGES, spare_pages: PAGES / 4, tag, force: false }
}

/// A folder for one test, on a file system that is there after a process ends.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn create(path: &Path, log_bytes: u64) -> Arc<Store> {
    Arc::new(Store::create_persistent(&new_store(path), log_bytes).unwrap())
}

fn options(cores: usize, durability: Policy) -> Options {
    let mut options = Options { cores, durability: Some(durability), ..Options::new(4 << 20) };
    options.tuning.threads = Some(8);
    options
}

fn start(store: &Arc<Store>, options: &Options) -> Jobs {
    let engine = Arc::new(Engine::open(store, options).unwrap());
    common::watch(&engine);
    engine.start().unwrap()
}

fn reopen(path: &Path) -> Arc<Store> {
    Arc::new(Store::open(path, 0, Access::Exclusive).unwrap())
}

fn word(page: u64) -> Addr {
    PageId(page).start()
}

#[test]
fn what_was_committed_is_there_when_the_store_is_opened_again() {
    let folder = folder();
    let path = folder.path().join("store");
    let jobs = start(&create(&path, 1 << 20), &options(1, Policy::Always));
    let lsn = jobs
        .submit(|memory| {
            let ((), lsn) = memory
                .transaction(|memory| {
                    (0..20).for_each(|page| memory.store(word(page * 100), page + 1));
                })
                .unwrap();
            memory.durable(lsn).unwrap();
            lsn
        })
        .wait()
        .unwrap();
    assert!(lsn > Lsn::ZERO);
    jobs.stop().unwrap();
    // Twice: recovery is repeatable.
    for _ in 0..2 {
        let store = reopen(&path);
        let jobs = start(&store, &options(1, Policy::Always));
        let read = move |page: u64| {
            jobs.submit(move |memory| memory.load::<u64>(word(page * 100))).wait().unwrap()
        };
        assert!((0..20).all(|page| read(page) == page + 1));
        assert_eq!(read(20), 0);
    }
}

#[test]
fn after_a_checkpoint_there_is_nothing_to_recover_but_what_came_later() {
    let folder = folder();
    let path = folder.path().join("store");
    for cores in [1, 2] {
        let jobs = start(&create(&path, 1 << 20), &options(cores, Policy::None));
        let commit = |pages: std::ops::Range<u64>| {
            let commits = pages.map(|page| {
                jobs.submit(move |memory| {
                    memory.transaction(|memory| memory.store(word(page), page + 1)).unwrap();
                })
            });
            commits.collect::<Vec<_>>().into_iter().for_each(|ticket| ticket.wait().unwrap());
        };
        for (first, later) in [(0, 0), (100, 0), (200, 3)] {
            commit(first..first + 100);
            assert_eq!(jobs.checkpoint(), Ok(true));
            // With nothing new.
            assert_eq!(jobs.checkpoint(), Ok(true));
            commit(first..first + later);
        }
        jobs.stop().unwrap();
        drop(reopened(&path, cores, 3));
        std::fs::remove_file(&path).unwrap();
    }
}

/// Opens the store again, which finds so many transactions to redo, and all that was committed.
fn reopened(path: &Path, cores: usize, transactions: u64) -> Jobs {
    let jobs = start(&reopen(path), &options(cores, Policy::None));
    assert_eq!(jobs.engine().recovered().unwrap().transactions, transactions);
    let read = jobs.submit(|memory| {
        (0..300).filter(|&page| memory.load::<u64>(word(page)) == page + 1).count()
    });
    assert_eq!(read.wait().unwrap(), 300);
    jobs
}

#[test]
fn a_transaction_sees_its_own_stores_and_nobody_else_does() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let looked = Arc::new(AtomicBool::new(false));
    let (wait_for, tell) = (looked.clone(), looked);
    let outcome = jobs.submit(move |memory| {
        memory.transaction(|memory| {
            memory.store(Addr(64), [1u64, 2]);
            memory.write_bytes(Addr(4099), b"abcdefghijk");
            let mut bytes = [0; 13];
            memory.read_bytes(Addr(4098), &mut bytes);
            assert_eq!(&bytes, b"\0abcdefghijk\0");
            while !wait_for.load(Ordering::SeqCst) {
                memory.yield_now();
            }
            (memory.load::<[u64; 2]>(Addr(64)), memory.load::<u64>(Addr(4096)))
        })
    });
    let look = move |memory: &mut ebbtide_engine::FlashMemory<'_>| {
        let seen = memory.load::<u64>(Addr(64));
        tell.store(true, Ordering::SeqCst);
        seen
    };
    let seen = jobs.submit(look).wait().unwrap();
    assert_eq!(seen, 0, "it has not committed");
    let ((pair, _), _) = outcome.wait().unwrap().unwrap();
    assert_eq!(pair, [1, 2]);
    let seen = jobs.submit(|memory| memory.load::<[u64; 2]>(Addr(64))).wait().unwrap();
    assert_eq!(seen, [1, 2]);
}

#[test]
fn a_transaction_runs_again_for_a_word_that_it_exchanged_unless_it_had_stored_it_before() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    for (stored_before, expected_runs) in [(true, 1), (false, 2)] {
        let at = word(u64::from(stored_before));
        let exchanged = Arc::new(AtomicBool::new(false));
        let changed = Arc::new(AtomicBool::new(false));
        let (tell_exchanged, see_changed) = (exchanged.clone(), changed.clone());
        let exchanges = jobs.submit(move |memory| {
            let mut runs = 0;
            let body = |memory: &mut ebbtide_engine::FlashMemory<'_>| {
                runs += 1;
                if stored_before {
                    memory.store(at, 5u64);
                }
                let seen = memory.load::<u64>(at);
                let result = memory.compare_exchange(at, seen, seen + 1);
                tell_exchanged.store(true, Ordering::SeqCst);
                assert_eq!(result, Ok(seen));
                while !see_changed.load(Ordering::SeqCst) {
                    memory.yield_now();
                }
            };
            memory.transaction(body).unwrap();
            (runs, memory.load::<u64>(at))
        });
        let change = jobs.submit(move |memory| {
            while !exchanged.load(Ordering::SeqCst) {
                memory.yield_now();
            }
            memory.transaction(|memory| memory.store(at, 8u64)).unwrap();
            changed.store(true, Ordering::SeqCst);
        });
        change.wait().unwrap();
        let expected = if stored_before { 6 } else { 9 };
        assert_eq!(exchanges.wait().unwrap(), (expected_runs, expected));
    }
}

#[test]
fn a_transaction_waits_on_a_word_until_it_is_woken() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let waits = Arc::new(AtomicBool::new(false));
    let see_waits = waits.clone();
    let waiting = jobs.submit(move |memory| {
        memory.transaction(|memory| {
            while memory.load::<u64>(word(1)) == 0 {
                waits.store(true, Ordering::SeqCst);
                memory.wait(word(1), 0);
            }
            memory.store(word(2), 7u64);
        })
    });
    let waking = jobs.submit(move |memory| {
        while !see_waits.load(Ordering::SeqCst) {
            memory.yield_now();
        }
        memory.store(word(1), 1u64);
        memory.wake(word(1));
    });
    waking.wait().unwrap();
    waiting.wait().unwrap().unwrap();
    assert_eq!(jobs.submit(|memory| memory.load::<u64>(word(2))).wait(), Ok(7));
}

#[test]
fn a_latch_that_a_transaction_takes_is_taken_before_it_commits() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let taken = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(AtomicBool::new(false));
    let (see_taken, tell_seen) = (taken.clone(), seen.clone());
    let takes = jobs.submit(move |memory| {
        memory.transaction(|memory| {
            latch::write(memory, word(1), |memory| memory.store(word(2), 7u64));
            taken.store(true, Ordering::SeqCst);
            while !seen.load(Ordering::SeqCst) {
                memory.yield_now();
            }
        })
    });
    let looks = jobs.submit(move |memory| {
        while !see_taken.load(Ordering::SeqCst) {
            memory.yield_now();
        }
        let words = [1, 2].map(|page| memory.load::<u64>(word(page)));
        tell_seen.store(true, Ordering::SeqCst);
        words
    });
    let [while_taken, stored] = looks.wait().unwrap();
    takes.wait().unwrap().unwrap();
    assert_eq!(stored, 0, "it has not committed");
    let later = jobs.submit(|memory| [1, 2].map(|page| memory.load::<u64>(word(page))));
    let [when_free, stored] = later.wait().unwrap();
    assert!(while_taken != 0 && while_taken != when_free, "{while_taken} and {when_free}");
    assert_eq!(stored, 7);
}

#[test]
fn a_body_that_unwinds_stores_nothing() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let failed = jobs.submit(|memory| {
        memory.transaction(|memory| {
            memory.store(Addr(0), 7u64);
            assert!(memory.load::<u64>(Addr(0)) == 0, "on purpose");
        })
    });
    assert!(failed.wait().is_err());
    assert_eq!(jobs.submit(|memory| memory.load::<u64>(Addr(0))).wait().unwrap(), 0);
}

#[test]
fn a_transaction_beyond_its_bound_says_the_bound_and_stores_nothing() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let store = |words: u64| {
        let job = move |memory: &mut ebbtide_engine::FlashMemory<'_>| {
            memory.transaction(|memory| {
                (0..words).for_each(|word| memory.store(Addr(word * 8), word + 1));
            })
        };
        jobs.submit(job).wait().unwrap()
    };
    let error = store(8193).unwrap_err();
    assert!(matches!(error, TransactionError::TooLarge { max: 65536, .. }), "{error}");
    assert_eq!(jobs.submit(|memory| memory.load::<u64>(Addr(0))).wait().unwrap(), 0);
    store(8192).unwrap();
    assert_eq!(jobs.submit(|memory| memory.load::<u64>(Addr(65528))).wait().unwrap(), 8192);
}

/// Transfers between accounts on many pages, far more than the cache and the log hold, on two cores.
fn transfers(cores: usize, log_bytes: u64, policy: Policy) {
    const ACCOUNTS: u64 = 2000;
    const JOBS: u64 = 3000;
    let folder = folder();
    let path = folder.path().join("store");
    let jobs = start(&create(&path, log_bytes), &options(cores, policy));
    let sum = |jobs: &Jobs| {
        let add = move |memory: &mut ebbtide_engine::FlashMemory<'_>| {
            (0..ACCOUNTS)
                .fold(0, |sum: u64, account| sum.wrapping_add(memory.load(word(account) + 8)))
        };
        jobs.submit(add).wait().unwrap()
    };
    let tickets: Vec<_> = (0..JOBS)
        .map(|n| {
            jobs.submit(move |memory| {
                let (from, to) = (n * 7919 % ACCOUNTS, (n * 104_729 + 1) % ACCOUNTS);
                let moved = memory.transaction(|memory| {
                    latch::write_two(memory, word(from), word(to), |memory| {
                        for (account, amount) in [(from, n.wrapping_neg()), (to, n)] {
                            let balance: u64 = memory.load(word(account) + 8);
                            memory.store(word(account) + 8, balance.wrapping_add(amount));
                            // Enough that the log goes round.
                            memory.store(word(account) + 128, [n; 8]);
                        }
                    });
                });
                let ((), lsn) = moved.unwrap();
                memory.durable(lsn).unwrap();
            })
        })
        .collect();
    tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
    assert_eq!(sum(&jobs), 0);
    let counters = jobs.engine().counters().snapshot();
    assert!(counters.evictions_dirty > 100, "{counters:?}");
    jobs.stop().unwrap();
    let store = reopen(&path);
    let mut fewer = options(1, policy);
    fewer.dram_bytes = 3 << 20;
    let jobs = start(&store, &fewer);
    assert_eq!(sum(&jobs), 0);
    let recovered = jobs.engine().recovered().unwrap();
    assert!(recovered.poisoned.is_empty());
    assert!(recovered.log_blocks < log_bytes / 4096, "{recovered:?}");
}

#[test]
fn transfers_on_one_core_go_round_the_log_and_sum_to_zero_after_recovery() {
    transfers(1, 512 << 10, Policy::None);
}

#[test]
fn transfers_on_two_cores_go_round_the_log_and_sum_to_zero_after_recovery() {
    transfers(2, 512 << 10, Policy::Every(Span::from_us(100_000)));
}

#[test]
fn a_job_that_ends_in_a_commit_frees_its_thread_and_its_ticket_waits_for_the_flush() {
    let folder = folder();
    let path = folder.path().join("store");
    let jobs = start(&create(&path, 1 << 20), &options(1, Policy::Always));
    // More than there are threads, all in a few flushes.
    let count = |n: u64| {
        jobs.submit_commit(move |memory| {
            memory.transaction(|memory| {
                memory.store(word(n), n + 1);
                n
            })
        })
    };
    let tickets: Vec<_> = (0..200).map(count).collect();
    for (n, ticket) in (0..).zip(tickets) {
        assert_eq!(ticket.wait().unwrap(), Ok(n));
    }
    let progress = jobs.engine().progress().unwrap();
    assert_eq!(progress.durable, progress.acknowledged);
    assert!(progress.durable >= progress.committed, "{progress:?}");
}

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
fn nothing_is_waited_for_inside_a_transaction() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::Always));
    let waited = jobs.submit(|memory| {
        let ((), earlier) = memory.transaction(|memory| memory.store(word(1), 1u64))?;
        let (inside, lsn) = memory.transaction(|memory| {
            memory.store(word(0), 7u64);
            let (inner, lsn) = memory.transaction(|memory| memory.durable(Lsn::ZERO))?;
            assert_eq!(inner, Err(TransactionError::Inside));
            Ok::<_, TransactionError>([memory.durable(lsn), memory.durable(earlier)])
        })?;
        memory.durable(lsn)?;
        inside
    });
    let inside = waited.wait().unwrap().unwrap();
    assert_eq!(inside, [Err(TransactionError::Inside), Err(TransactionError::Inside)]);
}

#[test]
fn a_range_alone_is_logged_and_not_what_lies_before_it() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let committed = || jobs.engine().progress().unwrap().committed.0;
    let before = committed();
    jobs.submit(|memory| memory.persist(word(100) + 128, 64).unwrap()).wait().unwrap();
    // A flush meanwhile fills a block or two.
    let logged_bytes = committed() - before;
    assert!((64..3 * 4096).contains(&logged_bytes), "{logged_bytes} bytes");
}

#[test]
fn recovery_leaves_pages_alone_that_were_written_after_their_stores() {
    let folder = folder();
    let path = folder.path().join("store");
    let jobs = start(&create(&path, 1 << 20), &options(1, Policy::None));
    let store = jobs.submit(|memory| {
        let all = |memory: &mut ebbtide_engine::FlashMemory<'_>| {
            (0..40).for_each(|page| memory.store(word(page), page + 1));
        };
        memory.transaction(all).unwrap();
        (0..40).for_each(|page| memory.hint(Hint::DontNeed(word(page))));
    });
    store.wait().unwrap();
    while jobs.engine().counters().snapshot().flash_writes < 40 {
        jobs.submit(|memory| memory.yield_now()).wait().unwrap();
    }
    jobs.stop().unwrap();
    let jobs = start(&reopen(&path), &options(1, Policy::None));
    let recovered = jobs.engine().recovered().unwrap();
    assert_eq!((recovered.transactions, recovered.pages), (1, 0));
    let read = jobs.submit(|memory| (0..40).all(|page| memory.load::<u64>(word(page)) == page + 1));
    assert_eq!(read.wait(), Ok(true));
}

#[test]
fn a_job_that_waited_for_the_log_is_later_no_reason_to_wait_for_ever() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::Always));
    let durable = jobs.submit(|memory| {
        let ((), lsn) = memory.transaction(|memory| memory.store(Addr(0), 1u64)).unwrap();
        memory.durable(lsn)
    });
    assert_eq!(durable.wait(), Ok(Ok(())));
    let stuck = jobs.submit(|memory| {
        while memory.load::<u64>(Addr(8)) == 0 {
            memory.wait(Addr(8), 0);
        }
    });
    jobs.stop().unwrap();
    assert!(matches!(stuck.wait(), Err(JobError::Deadlock(_))));
}

#[test]
fn who_waits_until_a_transaction_is_durable_finds_it_flushed() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::Always));
    for value in 0..5u64 {
        let durable = jobs.submit(move |memory| {
            let ((), lsn) = memory.transaction(|memory| memory.store(Addr(0), value)).unwrap();
            memory.durable(lsn).map(|()| lsn)
        });
        let lsn = durable.wait().unwrap().unwrap();
        assert!(jobs.engine().progress().unwrap().durable >= lsn);
    }
}

#[test]
fn a_memory_knows_how_many_times_its_store_was_opened() {
    let folder = folder();
    let path = folder.path().join("store");
    drop(create(&path, 1 << 20));
    let boots = (0..3).map(|_| {
        let jobs = start(&reopen(&path), &options(1, Policy::None));
        let boot = jobs.submit(|memory| memory.boot()).wait().unwrap();
        jobs.stop().unwrap();
        boot
    });
    let boots: Vec<u32> = boots.collect();
    assert!(boots[0] > 0 && boots[1] == boots[0] + 1 && boots[2] == boots[0] + 2, "{boots:?}");
}

#[test]
fn bytes_beside_those_stored_in_a_transaction_keep_their_values() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let read = jobs.submit(|memory| {
        memory.write_bytes(Addr(0), &[7; 40]);
        memory.transaction(|memory| memory.write_bytes(Addr(5), &[9; 22])).unwrap();
        let mut bytes = [0; 40];
        memory.read_bytes(Addr(0), &mut bytes);
        bytes
    });
    let expected: Vec<u8> = [(7, 5), (9, 22), (7, 13)].map(|(byte, n)| vec![byte; n]).concat();
    assert_eq!(read.wait().unwrap()[..], expected);
}

#[test]
fn what_lies_beyond_the_end_is_an_error_in_a_transaction_as_well() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let bad: [fn(&mut ebbtide_engine::FlashMemory<'_>, Addr); 3] = [
        |memory, at| assert_ne!(memory.load::<u64>(at), 1),
        |memory, at| memory.store::<u64>(at, 1),
        |memory, at| assert!(memory.compare_exchange(at, 0, 1).is_ok()),
    ];
    for bad in bad {
        let ended = jobs.submit(move |memory| {
            memory.transaction(|memory| bad(memory, word(PAGES))).unwrap();
        });
        let ended = ended.wait();
        let beyond = |said: &str| said.contains("beyond the address space");
        assert!(matches!(&ended, Err(JobError::Panicked(said)) if beyond(said)), "{ended:?}");
    }
}

#[test]
fn a_transaction_may_store_to_as_many_pages_as_it_says_and_to_no_more() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let store = |pages: u64| {
        let job = move |memory: &mut ebbtide_engine::FlashMemory<'_>| {
            memory.transaction(|memory| (0..pages).for_each(|page| memory.store(word(page), 7u64)))
        };
        jobs.submit(job).wait().unwrap()
    };
    let error = store(1000).unwrap_err();
    let TransactionError::TooLarge { max, .. } = &error else { panic!("{error}") };
    assert!(error.to_string().contains("to 1000 pages"), "{error}");
    store(*max).unwrap();
    store(max + 1).unwrap_err();
}

#[test]
fn a_checkpoint_writes_pages_and_leaves_them_in_dram() {
    let folder = folder();
    for cores in [1, 2] {
        let path = folder.path().join(format!("store of {cores}"));
        let jobs = start(&create(&path, 1 << 20), &options(cores, Policy::None));
        let store = jobs.submit(|memory| {
            let all = |memory: &mut ebbtide_engine::FlashMemory<'_>| {
                (0..40).for_each(|page| memory.store(word(page), page + 1));
            };
            memory.transaction(all).unwrap();
        });
        store.wait().unwrap();
        assert_eq!(jobs.checkpoint(), Ok(true));
        let before = jobs.engine().counters().snapshot();
        assert!(before.flash_writes >= 40);
        let read = jobs.submit(|memory| {
            (0..40).filter(|&page| memory.load::<u64>(word(page)) == page + 1).count()
        });
        assert_eq!(read.wait(), Ok(40));
        let after = jobs.engine().counters().snapshot();
        assert_eq!(after.misses, before.misses, "on {cores} cores");
        jobs.stop().unwrap();
    }
}

/// While they are on their way, nobody can use them.
#[test]
fn a_checkpoint_writes_no_more_pages_at_once_than_two_batches() {
    const BATCH: usize = 8;
    let folder = folder();
    let store = create(&folder.path().join("store"), 1 << 20);
    let drive = Uring::new(store.file()).unwrap();
    let blocks = store.file().metadata().unwrap().len() / PAGE_BYTES as u64;
    let device = Recorder::new(drive, blocks).taking_runs_of(1).holding_writes(200);
    let log = device.log();
    let mut options = options(1, Policy::None);
    options.tuning.batch_max = BATCH;
    let engine = Arc::new(Engine::over(&store, Arc::new(device), &options).unwrap());
    common::watch(&engine);
    let jobs = engine.start().unwrap();
    let change = |memory: &mut ebbtide_engine::FlashMemory<'_>| {
        (0..5 * BATCH as u64).for_each(|page| memory.store(word(page), page + 1));
    };
    jobs.submit(move |memory| memory.transaction(change).unwrap()).wait().unwrap();
    let ended = Arc::new(AtomicBool::new(false));
    let see_ended = ended.clone();
    let most = jobs.submit(move |memory| {
        let mut most = 0;
        while !see_ended.load(Ordering::SeqCst) {
            most = most.max(log.held());
            memory.yield_now();
        }
        most
    });
    assert_eq!(jobs.checkpoint(), Ok(true));
    ended.store(true, Ordering::SeqCst);
    assert_eq!(most.wait(), Ok(2 * BATCH));
}

#[test]
fn a_map_in_transactions_is_whole_after_recovery() {
    let folder = folder();
    let path = folder.path().join("store");
    let map: Map<u64, u64> = Region::new(Addr(0), PAGES * 4096).map(10_000).unwrap();
    let jobs = start(&create(&path, 1 << 20), &options(1, Policy::None));
    for n in 0..500u64 {
        let insert = move |memory: &mut ebbtide_engine::FlashMemory<'_>| {
            memory.transaction(|memory| {
                map.insert(memory, n, n + 1).unwrap();
                map.insert(memory, n + 100_000, n).unwrap();
                map.remove(memory, n / 2 + 100_000);
            })
        };
        jobs.submit(insert).wait().unwrap().unwrap();
    }
    jobs.stop().unwrap();
    let jobs = start(&reopen(&path), &options(1, Policy::None));
    let (len, all) = jobs
        .submit(move |memory| {
            let there = (0..500).all(|n| map.get(memory, n) == Some(n + 1));
            (map.len(memory), there)
        })
        .wait()
        .unwrap();
    assert!(all);
    assert_eq!(len, 500 + 500 - 250);
}

#[test]
fn a_damaged_page_is_a_named_error_and_the_rest_is_there() {
    let folder = folder();
    let path = folder.path().join("store");
    let store = create(&path, 1 << 20);
    let slots = store.pages_offset();
    let jobs = start(&store, &options(1, Policy::None));
    let fill = |jobs: &Jobs, value: u64| {
        for page in 0..PAGES {
            let store = move |memory: &mut ebbtide_engine::FlashMemory<'_>| {
                memory.transaction(|memory| memory.store(word(page), value + page)).unwrap();
            };
            jobs.submit(store).wait().unwrap();
        }
    };
    fill(&jobs, 1);
    jobs.stop().unwrap();
    drop(store);
    // After this every page is in its slot.
    start(&reopen(&path), &options(1, Policy::None)).stop().unwrap();
    {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        // Wherever a copy of page 500 lies, an old one or the last.
        let mut first = [0; 8];
        for slot in 0..PAGES + PAGES / 4 {
            file.read_exact_at(&mut first, slots + slot * 4096).unwrap();
            if u64::from_le_bytes(first) == 501 {
                file.write_all_at(&[0xff; 16], slots + slot * 4096 + 2000).unwrap();
            }
        }
    }
    let jobs = start(&reopen(&path), &options(1, Policy::None));
    let mut damaged = 0;
    for page in 0..PAGES {
        match jobs.submit(move |memory| memory.load::<u64>(word(page))).wait() {
            Ok(value) => assert_eq!(value, 1 + page),
            Err(error) => {
                damaged += 1;
                assert!(error.to_string().starts_with("page 500: "), "{error}");
            }
        }
    }
    assert_eq!(damaged, 1);
}

/// A new store whose pages are not zeros, and whose log has not been written.
fn with_image(path: &Path) -> Arc<Store> {
    let image = |page: PageId, out: &mut [u8; 4096]| common::image(page.index(), out);
    let new = new_store(path);
    Arc::new(Store::create_persistent_image(&new, 1 << 20, &image, Watch::unattended()).unwrap())
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

/// Loads the first word of every page: what cannot be read, and nothing that is wrong.
fn unreadable(jobs: &Jobs) -> Vec<String> {
    let load = |page: u64| jobs.submit(move |memory| memory.load::<u64>(word(page))).wait();
    let check = |page: u64| match load(page) {
        Ok(found) => {
            assert_eq!(found, common::initial(page * common::WORDS_PER_PAGE), "page {page}");
            None
        }
        Err(error) => Some(error.to_string()),
    };
    (0..PAGES).filter_map(check).collect()
}

/// A log that is reserved and not written yet was taken for what had been cut off, as soon as the file
/// needed fewer blocks for whatever reason.
#[test]
fn a_store_whose_file_loses_only_what_lies_behind_it_is_read_on() {
    let folder = folder();
    let path = folder.path().join("store");
    let store = with_image(&path);
    let file = store.file();
    let end = file.metadata().unwrap().len();
    std::fs::write(folder.path().join("behind"), vec![7; 1 << 20]).unwrap();
    let mut behind = std::fs::File::open(folder.path().join("behind")).unwrap();
    let mut longer = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    std::io::copy(&mut behind, &mut longer).unwrap();
    longer.sync_all().unwrap();
    let jobs = start(&store, &options(1, Policy::None));
    file.set_len(end).unwrap();
    assert_eq!(unreadable(&jobs).first(), None);
    jobs.stop().unwrap();
}

#[test]
fn a_store_cut_short_under_an_engine_gives_errors_and_no_zeros_also_when_it_has_grown_again() {
    let folder = folder();
    let store = with_image(&folder.path().join("store"));
    let file = store.file();
    let end = file.metadata().unwrap().len();
    let jobs = start(&store, &options(1, Policy::None));
    file.set_len(end / 2).unwrap();
    file.set_len(end).unwrap();
    let unreadable = unreadable(&jobs);
    assert!(unreadable.len() > 100 && unreadable.len() < PAGES as usize, "{}", unreadable.len());
    assert!(unreadable.iter().all(|error| error.contains("is not what was written there")));
}

#[test]
fn either_superblock_of_a_new_store_is_enough() {
    use std::os::unix::fs::FileExt;
    let folder = folder();
    for kept in 1..3 {
        let path = folder.path().join(format!("store{kept}"));
        drop(create(&path, 1 << 20));
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&[9; 4096], (3 - kept) * 4096).unwrap();
        let jobs = start(&reopen(&path), &options(1, Policy::None));
        assert_eq!(jobs.submit(|memory| memory.load::<u64>(word(3))).wait(), Ok(0));
    }
}

#[test]
fn a_damaged_superblock_or_another_version_is_refused_with_what_is_wrong() {
    use std::os::unix::fs::FileExt;
    let folder = folder();
    let path = folder.path().join("store");
    drop(create(&path, 1 << 20));
    let damage = |offset: u64, bytes: &[u8]| {
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(bytes, offset).unwrap();
    };
    (1..5).for_each(|block| damage(block * 4096 + 50, &[9]));
    let error = Engine::open(&reopen(&path), &options(1, Policy::None)).map(drop).unwrap_err();
    assert!(matches!(error, EngineError::Store(StoreError::Recovery(_))), "{error}");
    damage(8, &1u32.to_le_bytes());
    let error = Store::open(&path, 0, Access::Exclusive).unwrap_err();
    assert!(error.to_string().contains("version 1, expected 2"), "{error}");
}

#[test]
fn what_a_transaction_read_before_it_took_the_latch_is_looked_at_again() {
    const COUNTED: u64 = 64;
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let (latch_at, count_at) = (word(1), word(1) + 8);
    let count = move |memory: &mut ebbtide_engine::FlashMemory<'_>| {
        memory
            .transaction(|memory| {
                let seen = latch::read(memory, latch_at, |memory| memory.load::<u64>(count_at));
                memory.yield_now();
                latch::write(memory, latch_at, |memory| memory.store(count_at, seen + 1));
            })
            .unwrap()
    };
    let tickets: Vec<_> = (0..COUNTED).map(|_| jobs.submit(count)).collect();
    let ends: Vec<Lsn> = tickets.into_iter().map(|ticket| ticket.wait().unwrap().1).collect();
    assert_eq!(ends.len() as u64, COUNTED);
    assert_eq!(jobs.submit(move |memory| memory.load::<u64>(count_at)).wait(), Ok(COUNTED));
}

#[test]
fn a_transaction_that_reads_what_others_keep_changing_ends() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let done = Arc::new(AtomicBool::new(false));
    let is_done = done.clone();
    let writes = jobs.submit(move |memory| {
        let mut written = 0u64;
        while !is_done.load(Ordering::SeqCst) {
            written += 1;
            let write = |memory: &mut FlashMemory<'_>| memory.store(word(1) + 8, written);
            memory.transaction(|memory| latch::write(memory, word(1), write)).unwrap();
            memory.yield_now();
        }
    });
    let reads = jobs.submit(move |memory| {
        let mut runs = 0;
        memory
            .transaction(|memory| {
                runs += 1;
                assert!(runs < 100, "others have changed it a hundred times");
                let read = |memory: &mut FlashMemory<'_>| memory.load::<u64>(word(1) + 8);
                latch::read(memory, word(1), read);
                // Others write meanwhile if they can.
                (0..10).for_each(|_| memory.yield_now());
            })
            .unwrap();
        runs
    });
    let runs = reads.wait().unwrap();
    done.store(true, Ordering::SeqCst);
    writes.wait().unwrap();
    assert!(runs > 1, "nobody wrote");
}
