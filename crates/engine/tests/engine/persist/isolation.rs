//! The isolation of a transaction: its view, the view of others, and when its body runs again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebbtide_core::durability::{Lsn, Policy};
use ebbtide_core::{Addr, Memory};
use ebbtide_engine::FlashMemory;
use ebbtide_structures::latch;

use super::{create, folder, options, start, word};

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
                // Others write at this time if they can.
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
