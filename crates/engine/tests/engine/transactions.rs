//! The abilities of a transaction: read more than DRAM holds, give up, forget pages and take them
//! again, catch errors. Each one ends, also one that could never be committed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ebbtide_core::durability::{Aborted, Policy, TransactionError};
use ebbtide_core::{Addr, FullMemory, Hint, Memory, PAGE_BYTES, PageId};
use ebbtide_engine::device::Device;
use ebbtide_engine::device::faulty::{Faults, Faulty};
use ebbtide_engine::device::uring::Uring;
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{Engine, FlashMemory, JobError, Jobs, Options};
use ebbtide_structures::{Region, latch};
use rand::seq::index::sample;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::common;

const PAGES: u64 = 4096;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn create(path: &Path) -> Arc<Store> {
    let (path, tag) = (path.to_path_buf(), "transactions".into());
    let new = NewStore { path, offset: 0, pages: PAGES, spare_pages: PAGES / 4, tag, force: false };
    Arc::new(Store::create_persistent(&new, 1 << 20).unwrap())
}

fn options(cores: usize) -> Options {
    let mut options = Options { cores, durability: Some(Policy::None), ..Options::new(4 << 20) };
    options.tuning.threads = Some(8);
    options
}

fn start(store: &Arc<Store>, cores: usize) -> Jobs {
    let engine = Arc::new(Engine::open(store, &options(cores)).unwrap());
    common::watch(&engine);
    engine.start().unwrap()
}

fn start_over(store: &Arc<Store>, device: impl Device + 'static) -> Jobs {
    let engine = Arc::new(Engine::over(store, Arc::new(device), &options(1)).unwrap());
    common::watch(&engine);
    engine.start().unwrap()
}

fn word(page: u64, index: u64) -> Addr {
    PageId(page).start() + 8 * index
}

/// Puts a page out of DRAM, and waits until it is gone.
fn evict(jobs: &Jobs, pages: std::ops::Range<u64>) {
    assert_eq!(jobs.checkpoint(), Ok(true));
    let drop = |memory: &mut FlashMemory<'_>| {
        pages.for_each(|page| memory.hint(Hint::DontNeed(word(page, 0))));
    };
    jobs.submit(drop).wait().unwrap();
}

/// Runs `body` as a transaction. One run must suffice, because there is no other job.
fn once<R>(memory: &mut FlashMemory<'_>, mut body: impl FnMut(&mut FlashMemory<'_>) -> R) -> R {
    let mut runs = 0;
    let ran = memory.transaction(|memory| {
        runs += 1;
        body(memory)
    });
    let (value, _) = ran.unwrap();
    assert_eq!(runs, 1, "nothing else has changed anything");
    value
}

#[test]
fn a_page_that_a_transaction_forgot_may_be_latched_and_exchanged_by_it() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store")), 1);
    jobs.submit(|memory| {
        for page in 0..4 {
            once(memory, |memory| {
                latch::write(memory, word(page, 0), |memory| {
                    memory.store(word(page, 1), [7u64; 2])
                });
            });
        }
    })
    .wait()
    .unwrap();
    for in_dram in [true, false] {
        if !in_dram {
            evict(&jobs, 0..4);
        }
        let forgets = |memory: &mut FlashMemory<'_>| {
            once(memory, |memory| {
                memory.forget(PageId(0));
                latch::write(memory, word(0, 0), |memory| memory.store(word(0, 1), 8u64));
            });
            once(memory, |memory| {
                memory.forget(PageId(1));
                memory.store(word(1, 2), 8u64);
                latch::read(memory, word(1, 0), |memory| memory.load::<u64>(word(1, 2)))
            });
            let exchanged = once(memory, |memory| {
                memory.forget(PageId(2));
                let seen = memory.load::<u64>(word(2, 1));
                assert_eq!(memory.compare_exchange(word(2, 1), seen, seen + 1), Ok(seen));
                memory.compare_exchange(word(2, 2), 7, 9)
            });
            assert_eq!(exchanged, Err(0), "as its loads say");
            once(memory, |memory| {
                memory.forget(PageId(3));
                assert_eq!(memory.load_checked(word(3, 1)), 0);
                memory.store(word(3, 1), 8u64);
            });
            [word(0, 1), word(1, 2), word(2, 1), word(3, 1)].map(|at| memory.load::<u64>(at))
        };
        assert_eq!(jobs.submit(forgets).wait().unwrap(), [8, 8, 1, 8], "in DRAM: {in_dram}");
    }
}

/// Random transactions of one job against a plain array: none of them ever runs twice.
#[test]
fn a_job_that_is_alone_runs_each_transaction_once_whatever_it_does() {
    const USED: u64 = 6;
    let folder = folder();
    for seed in 0..20 {
        let path = folder.path().join(format!("store {seed}"));
        let jobs = start(&create(&path), 1);
        let random_runs = move |memory: &mut FlashMemory<'_>| {
            let mut random = Pcg64Mcg::seed_from_u64(seed);
            let mut model = [[0u64; 8]; USED as usize];
            for _ in 0..60 {
                let steps = random.random_range(1..12);
                let before = model;
                let gives_up = random.random_bool(0.2);
                let mut runs = 0;
                let done = memory.try_transaction(|memory| {
                    runs += 1;
                    for _ in 0..steps {
                        step(memory, &mut random, &mut model);
                    }
                    if gives_up { Err(()) } else { Ok(()) }
                });
                assert_eq!(runs, 1);
                assert_eq!(done.is_err(), gives_up);
                if gives_up {
                    model = before;
                }
                for (page, words) in (0..).zip(&mut model) {
                    for (index, expected) in (1..).zip(&mut words[1..]) {
                        let found = memory.load::<u64>(word(page, index));
                        // A forgotten word is zero or its old value.
                        *expected = if *expected == FORGOTTEN { found } else { *expected };
                        assert_eq!(found, *expected, "word {index} of page {page}");
                    }
                    if random.random_bool(0.3) {
                        memory.hint(Hint::DontNeed(word(page, 0)));
                    }
                }
            }
        };
        jobs.submit(random_runs).wait().unwrap();
    }

    /// In the model: the word is unknown once the transaction is over.
    const FORGOTTEN: u64 = u64::MAX;

    fn step(memory: &mut FlashMemory<'_>, random: &mut Pcg64Mcg, model: &mut [[u64; 8]; 6]) {
        let (page, index) = (random.random_range(0..USED), random.random_range(1..8));
        let at = word(page, index);
        let known = &mut model[page as usize][index as usize];
        let expected = if *known == FORGOTTEN { 0 } else { *known };
        let value = random.random_range(1..100);
        match random.random_range(0..8) {
            0 => {
                memory.forget(PageId(page));
                // The stores of the transaction itself stay.
                let stored =
                    |word: &mut u64, now: u64| *word = if now == 0 { FORGOTTEN } else { now };
                for (index, word) in (0..).zip(&mut model[page as usize]) {
                    stored(word, memory.load(self::word(page, index)));
                }
            }
            1 => assert_eq!(memory.load::<u64>(at), expected),
            2 => assert_eq!(memory.load_checked(at), expected),
            3 => {
                memory.store(at, value);
                *known = value;
            }
            4 => {
                assert_eq!(memory.compare_exchange(at, expected, value), Ok(expected));
                *known = value;
            }
            5 => assert_eq!(memory.compare_exchange(at, value + 1000, 1), Err(expected)),
            6 => {
                let read = latch::read(memory, word(page, 0), |memory| memory.load::<u64>(at));
                assert_eq!(read, expected);
            }
            _ => {
                latch::write(memory, word(page, 0), |memory| memory.store(at, value));
                *known = value;
            }
        }
    }
}

#[test]
fn a_transaction_may_read_more_pages_than_dram_holds() {
    let folder = folder();
    for cores in [1, 2] {
        let jobs = start(&create(&folder.path().join(format!("store of {cores}"))), cores);
        let frames = jobs.engine().budget().frames as u64;
        assert!(2 * frames < PAGES);
        let sum = jobs.submit(move |memory| {
            for page in 0..PAGES {
                memory.transaction(|memory| memory.store(word(page, 1), page)).unwrap();
            }
            once(memory, |memory| {
                memory.store(word(3, 2), 1u64);
                (0..PAGES).fold(0, |sum, page| {
                    sum + latch::read(memory, word(page, 0), |memory| {
                        memory.load::<u64>(word(page, 1))
                    }) + memory.load_checked(word(page, 1))
                })
            })
        });
        assert_eq!(sum.wait().unwrap(), PAGES * (PAGES - 1));
        jobs.stop().unwrap();
    }
}

/// Each commit needs an eighth of all frames. All commits together need more than four times the
/// frames that exist.
fn large_transactions_of_many_jobs_end(cores: usize) {
    const JOBS: u64 = 48;
    const ROUNDS: u64 = 3;
    let folder = folder();
    let mut options = options(cores);
    (options.dram_bytes, options.tuning.threads) = (12 << 20, Some(JOBS as usize));
    let store = create(&folder.path().join("store"));
    let engine = Arc::new(Engine::open(&store, &options).unwrap());
    common::watch(&engine);
    let stored = engine.budget().frames as u64 / 8;
    assert!(JOBS * stored > 4 * engine.budget().frames as u64 && stored > 16);
    let jobs = engine.start().unwrap();
    let counts = |job: u64| {
        move |memory: &mut FlashMemory<'_>| {
            let mut random = Pcg64Mcg::seed_from_u64(job);
            for _ in 0..ROUNDS {
                let pages = sample(&mut random, PAGES as usize, stored as usize);
                let adds = |memory: &mut FlashMemory<'_>| {
                    for page in pages.iter() {
                        let at = word(page as u64, job);
                        let count: u64 = memory.load(at);
                        memory.store(at, count + 1);
                    }
                };
                memory.transaction(adds).unwrap();
            }
        }
    };
    let all: Vec<_> = (0..JOBS).map(|job| jobs.submit(counts(job))).collect();
    all.into_iter().for_each(|job| job.wait().unwrap());
    let sum = jobs.submit(|memory| {
        let words = (0..PAGES).flat_map(|page| (0..JOBS).map(move |job| word(page, job)));
        words.map(|at| memory.load::<u64>(at)).sum::<u64>()
    });
    assert_eq!(sum.wait().unwrap(), JOBS * ROUNDS * stored);
    jobs.stop().unwrap();
}

#[test]
fn large_transactions_of_many_jobs_end_on_one_core() {
    large_transactions_of_many_jobs_end(1);
}

#[test]
fn large_transactions_of_many_jobs_end_on_two_cores() {
    large_transactions_of_many_jobs_end(2);
}

/// Moves money between two of `accounts`, whose latches and balances lie in pages of their own.
fn moves(memory: &mut FlashMemory<'_>, [from, to]: [u64; 2]) {
    let moves = |memory: &mut FlashMemory<'_>| {
        latch::write_two(memory, word(from, 0), word(to, 0), |memory| {
            for (account, amount) in [(from, 5u64.wrapping_neg()), (to, 5)] {
                let balance: u64 = memory.load(word(account, 1));
                memory.store(word(account, 1), balance.wrapping_add(amount));
            }
        });
    };
    memory.transaction(moves).unwrap();
}

/// Sums over accounts on more pages than DRAM holds. During the first runs of each another job
/// moves money.
fn sums_are_of_one_moment(cores: usize) {
    const ACCOUNTS: u64 = 1500;
    const SUMS: u64 = 8;
    const OVER: u64 = u64::MAX;
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store")), cores);
    assert!((jobs.engine().budget().frames as u64) < ACCOUNTS);
    // How often money may be moved, and was.
    let (may, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (see_may, tell_done) = (may.clone(), done.clone());
    let mover = jobs.submit(move |memory| {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        while see_may.load(Ordering::SeqCst) != OVER {
            if tell_done.load(Ordering::SeqCst) < see_may.load(Ordering::SeqCst) {
                moves(memory, [(); 2].map(|()| random.random_range(0..ACCOUNTS)));
                tell_done.fetch_add(1, Ordering::SeqCst);
            }
            memory.yield_now();
        }
    });
    let see_over = may.clone();
    let sums = jobs.submit(move |memory| {
        let mut random = Pcg64Mcg::seed_from_u64(2);
        let sums: Vec<(u64, u32)> = (0..SUMS)
            .map(|_| {
                let mut runs = 0;
                let all = memory.transaction(|memory| {
                    runs += 1;
                    let disturbed_at = random.random_range(0..ACCOUNTS);
                    let waits = random.random_bool(0.5);
                    (0..ACCOUNTS).fold(0u64, |sum, account| {
                        if runs < 4 && account == disturbed_at {
                            let wanted = may.fetch_add(1, Ordering::SeqCst) + 1;
                            while waits && done.load(Ordering::SeqCst) < wanted {
                                memory.yield_now();
                            }
                        }
                        let read =
                            |memory: &mut FlashMemory<'_>| memory.load::<u64>(word(account, 1));
                        sum.wrapping_add(latch::read(memory, word(account, 0), read))
                    })
                });
                (all.unwrap().0, runs)
            })
            .collect();
        sums
    });
    let sums = sums.wait();
    see_over.store(OVER, Ordering::SeqCst);
    mover.wait().unwrap();
    let sums = sums.unwrap();
    assert!(sums.iter().all(|(sum, _)| *sum == 0), "{sums:?}");
    assert!(sums.iter().any(|(_, runs)| *runs > 1), "{sums:?}");
}

#[test]
fn sums_over_more_pages_than_dram_holds_are_of_one_moment_on_one_core() {
    sums_are_of_one_moment(1);
}

#[test]
fn sums_over_more_pages_than_dram_holds_are_of_one_moment_on_two_cores() {
    sums_are_of_one_moment(2);
}

#[test]
fn a_transaction_that_reads_more_words_than_the_engine_keeps_says_the_bound() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store")), 1);
    let read = jobs.submit(|memory| {
        memory.transaction(|memory| {
            (0..PAGES * 512)
                .fold(0, |sum: u64, index| sum.wrapping_add(memory.load_checked(Addr(8 * index))))
        })
    });
    let error = read.wait().unwrap().unwrap_err();
    assert!(matches!(error, TransactionError::TooLarge { max: 65536, .. }), "{error}");
}

/// The stores before and after an error that the body catches take effect together. No job sees
/// them before that.
#[test]
fn a_body_that_catches_a_device_error_stays_a_transaction() {
    let folder = folder();
    let path = folder.path().join("store");
    let store = create(&path);
    let filled = start(&store, 1);
    filled
        .submit(|memory| {
            (0..PAGES).for_each(|page| {
                memory.transaction(|memory| memory.store(word(page, 1), page + 1)).unwrap();
            });
        })
        .wait()
        .unwrap();
    filled.stop().unwrap();
    drop(store);
    let store = Arc::new(Store::open(&path, 0, Access::Exclusive).unwrap());
    let faults = Faults { read_errors: 1.0, ..Faults::default() };
    let device = Faulty::new(Uring::new(store.file()).unwrap(), faults, 1);
    let jobs = start_over(&store, device);
    let caught = jobs.submit(|memory| {
        let readable = (0..PAGES).find(|&page| {
            catch_unwind(AssertUnwindSafe(|| memory.load::<u64>(word(page, 1)))).is_ok()
        });
        assert_eq!(readable, None, "no page is in DRAM");
        memory.transaction(|memory| {
            let calls: [&mut dyn FnMut(&mut FlashMemory<'_>); 4] = [
                &mut |memory| assert_eq!(memory.load::<u64>(word(9, 1)), 0),
                &mut |memory| assert!(memory.compare_exchange(word(9, 1), 0, 1).is_ok()),
                &mut |memory| assert!(memory.exchange_latch(word(9, 1), 0, 1).is_ok()),
                &mut |memory| memory.read_bytes(word(9, 1), &mut [0; 100]),
            ];
            for call in calls {
                let fault = catch_unwind(AssertUnwindSafe(|| call(memory)));
                assert!(fault.is_err());
                assert!(memory.latches().is_some(), "the transaction goes on");
                // In memory it would need the page.
                memory.store(word(9, 2), 8u64);
            }
            panic!("on purpose");
        })
    });
    assert_eq!(caught.wait(), Err(JobError::Panicked("on purpose".into())));
    assert_eq!(jobs.engine().progress().unwrap().stored.transactions, 0);
}

#[test]
fn a_body_that_catches_what_ends_its_run_is_not_committed_with_half_of_it() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store")), 1);
    // More than is reserved, and more than one may store.
    for words in [1000u64, 9000] {
        let stores = jobs.submit(move |memory| {
            memory.transaction(|memory| {
                let store = |index: u64| memory.store(Addr(8 * index), index + 1);
                let _ = catch_unwind(AssertUnwindSafe(|| (0..words).for_each(store)));
            })
        });
        let stored = stores.wait().unwrap();
        let count = jobs.submit(move |memory| {
            (0..words).filter(|index| memory.load::<u64>(Addr(8 * index)) == index + 1).count()
                as u64
        });
        let count = count.wait().unwrap();
        match stored {
            Ok(_) => assert_eq!((words, count), (1000, 1000)),
            Err(error) => {
                assert!(matches!(error, TransactionError::TooLarge { .. }), "{error}");
                assert_eq!((words, count), (9000, 1000), "those of the first");
            }
        }
    }
}

/// Two jobs store to bytes of the same words, each in transactions of its own.
#[test]
fn bytes_of_one_word_that_two_transactions_store_are_both_there() {
    const ROUNDS: u8 = 200;
    let folder = folder();
    let path = folder.path().join("store");
    let jobs = start(&create(&path), 2);
    let write = |first: u64| {
        jobs.submit(move |memory| {
            for round in 1..=ROUNDS {
                let stores = |memory: &mut FlashMemory<'_>| {
                    for index in 0..16 {
                        memory.write_bytes(Addr(8 * index + first), &[round; 3]);
                    }
                    memory.yield_now();
                };
                memory.transaction(stores).unwrap();
                let mut bytes = [0; 3];
                memory.read_bytes(Addr(8 + first), &mut bytes);
                assert_eq!(bytes, [round; 3]);
            }
        })
    };
    let writers = [0, 3].map(write);
    writers.into_iter().for_each(|writer| writer.wait().unwrap());
    let expected = [ROUNDS, ROUNDS, ROUNDS, ROUNDS, ROUNDS, ROUNDS, 0, 0].repeat(16);
    let read = |jobs: &Jobs| {
        let read = jobs.submit(|memory| {
            let mut bytes = vec![0; 128];
            memory.read_bytes(Addr(0), &mut bytes);
            bytes
        });
        read.wait().unwrap()
    };
    assert_eq!(read(&jobs), expected);
    jobs.stop().unwrap();
    let jobs = start(&Arc::new(Store::open(&path, 0, Access::Exclusive).unwrap()), 1);
    assert_eq!(read(&jobs), expected, "as the log says");
}

#[test]
fn a_body_that_gives_up_stores_nothing() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store")), 1);
    let tried = jobs.submit(|memory| {
        let store = |value: u64, result: Result<u64, &'static str>| {
            move |memory: &mut FlashMemory<'_>| {
                memory.store(word(1, 1), value);
                latch::write(memory, word(2, 0), |memory| memory.store(word(2, 1), value));
                result
            }
        };
        let given_up = memory.try_transaction(store(1, Err("no"))).unwrap_err();
        assert_eq!(given_up, Aborted::GivenUp("no"));
        let after = [1, 2].map(|page| memory.load::<u64>(word(page, 1)));
        let (value, _) = memory.try_transaction(store(2, Ok(7))).unwrap();
        (after, value, [1, 2].map(|page| memory.load::<u64>(word(page, 1))))
    });
    assert_eq!(tried.wait().unwrap(), ([0, 0], 7, [2, 2]));
}

#[test]
fn a_part_of_a_transaction_that_gives_up_is_dropped_and_the_rest_is_not() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store")), 1);
    let tried = jobs.submit(|memory| {
        once(memory, |memory| {
            memory.store(word(1, 1), [1u64, 1]);
            let part = memory.try_transaction(|memory| {
                memory.store(word(1, 2), [2u64, 2]);
                Err::<(), _>("no")
            });
            assert_eq!(part, Err(Aborted::GivenUp("no")));
            assert_eq!(memory.load::<[u64; 2]>(word(1, 2)), [1, 0]);
            let part = memory.try_transaction(|memory| {
                memory.store(word(1, 4), 4u64);
                Ok::<_, ()>(())
            });
            assert!(part.is_ok());
        });
        [1, 2, 3, 4].map(|index| memory.load::<u64>(word(1, index)))
    });
    assert_eq!(tried.wait().unwrap(), [1, 1, 0, 4]);
}

/// An error from reads of different moments is not returned.
#[test]
fn an_error_is_of_one_moment_as_well() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store")), 1);
    let (read, changed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (tell_read, see_changed) = (read.clone(), changed.clone());
    let tried = jobs.submit(move |memory| {
        memory.try_transaction(|memory| {
            let first = memory.load_checked(word(1, 1));
            tell_read.store(true, Ordering::SeqCst);
            while !see_changed.load(Ordering::SeqCst) {
                memory.yield_now();
            }
            let second = memory.load_checked(word(2, 1));
            if first == second { Ok(first) } else { Err((first, second)) }
        })
    });
    let changes = jobs.submit(move |memory| {
        while !read.load(Ordering::SeqCst) {
            memory.yield_now();
        }
        once(memory, |memory| [1, 2].map(|page| memory.store(word(page, 1), 5u64)));
        changed.store(true, Ordering::SeqCst);
    });
    changes.wait().unwrap();
    assert_eq!(tried.wait().unwrap().unwrap().0, 5);
}

#[test]
fn sums_over_a_vector_of_words_are_of_one_moment() {
    const COUNT: u64 = 64;
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store")), 2);
    let vector = Region::new(Addr(0), PAGES * PAGE_BYTES as u64).vector::<u64>(COUNT).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let see_over = over.clone();
    let moves = jobs.submit(move |memory| {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        while !see_over.load(Ordering::SeqCst) {
            let [from, to] = [(); 2].map(|()| random.random_range(0..COUNT));
            let moves = |memory: &mut FlashMemory<'_>| {
                vector.update(memory, from, |balance| balance.wrapping_sub(1));
                vector.update(memory, to, |balance| balance.wrapping_add(1));
            };
            memory.transaction(moves).unwrap();
            memory.yield_now();
        }
    });
    let sums = jobs.submit(move |memory| {
        let sum = |memory: &mut FlashMemory<'_>| {
            (0..COUNT).fold(0u64, |sum, index| {
                if index % 16 == 0 {
                    memory.yield_now();
                }
                sum.wrapping_add(vector.get(memory, index))
            })
        };
        (0..2000).filter(|_| memory.transaction(sum).unwrap().0 != 0).count()
    });
    let wrong = sums.wait();
    over.store(true, Ordering::SeqCst);
    moves.wait().unwrap();
    assert_eq!(wrong, Ok(0));
}

#[test]
fn a_body_that_could_never_be_committed_ends_with_the_reason() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store")), 1);
    let never = jobs.submit(|memory| {
        memory.transaction(|memory| {
            // As a memory that is wrong about the word would.
            memory.latches().unwrap().note_read(word(5, 0), 1 << 40);
            memory.store(word(6, 0), 1u64);
        })
    });
    let error = never.wait().unwrap().unwrap_err();
    assert!(matches!(error, TransactionError::NoProgress { .. }), "{error}");
    assert!(
        error.to_string().contains("the word at 0x5000 as 0x10000000000, but it is 0x0"),
        "{error}"
    );
    assert_eq!(jobs.submit(|memory| memory.load::<u64>(word(6, 0))).wait(), Ok(0));
}
