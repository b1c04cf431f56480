//! The contents of a store when it is opened again.

use ebbtide_core::durability::{Lsn, Policy};
use ebbtide_core::{Addr, FullMemory, Hint, Memory, Span};
use ebbtide_engine::Jobs;
use ebbtide_structures::{Map, Region, latch};

use super::{PAGES, create, folder, options, reopen, start, word};

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

/// Transfers between accounts on many pages, far more than the cache and the log hold, on two
/// cores.
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
