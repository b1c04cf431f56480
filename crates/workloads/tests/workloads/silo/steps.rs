//! Transactions step by step: the rows they see, their conflicts, the moment of their effect, and
//! the state after a device error.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ebbtide_core::{Addr, FullMemory, Memory, MemoryFault, Value};
use ebbtide_testbed::{Faulty, Plain, Raced, Shared, catch_fault, interleave};
use ebbtide_workloads::silo::{Abort, Conflict, Isolation, Transaction};

use super::ledger::{KEYS, Ledger, PLACES, Stamped};

const ROW: Stamped = [7; 9];

/// A key without a row at first, whose place is free.
const ABSENT: u64 = 21;

fn stamps<'a, M: FullMemory>(ledger: &'a Ledger, transaction: &mut Transaction<'a, M>) -> Vec<u64> {
    let rows = transaction.scan(&ledger.table, 0..=KEYS, usize::MAX).unwrap();
    rows.iter().map(|found| found.key).collect()
}

/// Inserts keys without conflicts, in a transaction of its own.
fn insert(ledger: &Ledger, mut memory: Raced<'_>, keys: &[u64]) {
    let done = ledger.silo.run(&mut memory, 1, Isolation::Serializable, |transaction| {
        for &key in keys {
            assert!(transaction.insert(&ledger.table, key, ledger.place(key), &ROW)?);
        }
        Ok(())
    });
    assert!(done.unwrap().is_some());
}

#[test]
fn a_transaction_sees_its_own_writes_and_nobody_else_does_before_it_commits() {
    let ledger = Ledger::new();
    let shared = Shared::new(&ledger.words());
    let (mut one, mut other) = (Raced(&shared), Raced(&shared));
    let mut writer = Transaction::new(&ledger.silo, &mut one, Isolation::Serializable);
    let before = stamps(&ledger, &mut writer);
    let mut changed = writer.get(&ledger.table, 2).unwrap().unwrap();
    changed.row = ROW;
    writer.put(&changed);
    let removed = writer.get(&ledger.table, 4).unwrap().unwrap();
    writer.remove(&ledger.table, &removed);
    let place = ledger.place(ABSENT);
    assert_eq!(writer.insert(&ledger.table, ABSENT, place, &ROW), Ok(true));
    assert_eq!(writer.insert(&ledger.table, ABSENT, place, &ROW), Ok(false));
    assert_eq!(writer.get(&ledger.table, 2).unwrap().unwrap().row, ROW);
    assert_eq!(writer.get(&ledger.table, 4), Ok(None));
    let mut after: Vec<u64> = before.iter().copied().filter(|&key| key != 4).collect();
    after.push(ABSENT);
    after.sort_unstable();
    assert_eq!(stamps(&ledger, &mut writer), after);

    let mut reader = Transaction::new(&ledger.silo, &mut other, Isolation::Serializable);
    assert_eq!(stamps(&ledger, &mut reader), before);
    reader.commit().unwrap();
    reader.restart();
    writer.commit().unwrap();
    assert_eq!(stamps(&ledger, &mut reader), after);
    assert_eq!(reader.get(&ledger.table, ABSENT).unwrap().unwrap().row, ROW);
    reader.commit().unwrap();
}

#[test]
fn who_read_what_another_changed_does_not_commit() {
    let ledger = Ledger::new();
    let shared = Shared::new(&ledger.words());
    let mut memory = Raced(&shared);
    let mut slow = Transaction::new(&ledger.silo, &mut memory, Isolation::Serializable);
    slow.get(&ledger.table, 2).unwrap();
    ledger
        .silo
        .run(&mut Raced(&shared), 1, Isolation::Serializable, |quick| {
            let found = quick.get(&ledger.table, 2)?.unwrap();
            quick.remove(&ledger.table, &found);
            Ok(())
        })
        .unwrap();
    let conflict = Abort::Conflict(Conflict::Record(ledger.place(2)));
    assert_eq!(slow.commit(), Err(conflict));
}

#[test]
fn a_rehearsal_touches_what_it_reads_and_binds_nobody() {
    let ledger = Ledger::new();
    let shared = Shared::new(&ledger.words());
    let mut memory = Raced(&shared);
    let mut read = None;
    ledger.silo.rehearse(&mut memory, |transaction| {
        read = transaction.get(&ledger.table, 2)?.map(|found| found.row);
        let mut found = transaction.get(&ledger.table, 4)?.unwrap();
        found.row = ROW;
        transaction.put(&found);
        Ok(())
    });
    assert!(read.is_some());
    insert(&ledger, Raced(&shared), &[ABSENT]);
    let mut bound = Transaction::new(&ledger.silo, &mut memory, Isolation::Serializable);
    assert_ne!(bound.get(&ledger.table, 4).unwrap().unwrap().row, ROW, "it wrote nothing");
    bound.commit().unwrap();
}

#[test]
fn phantoms_are_seen_also_where_a_nodes_keys_went_by_ones_own_inserts() {
    let ledger = Ledger::new();
    // Ten keys at first: six more split the node.
    let own: Vec<u64> = (0..6).map(|i| 21 + 2 * i % PLACES).collect();
    for other in (21..40).filter(|key| key % 2 == 1 && !own.contains(key)) {
        let shared = Shared::new(&ledger.words());
        let mut memory = Raced(&shared);
        let mut scanned = Transaction::new(&ledger.silo, &mut memory, Isolation::Serializable);
        stamps(&ledger, &mut scanned);
        for &key in &own {
            assert_eq!(scanned.insert(&ledger.table, key, ledger.place(key), &ROW), Ok(true));
        }
        insert(&ledger, Raced(&shared), &[other]);
        let result = scanned.commit();
        assert!(matches!(result, Err(Abort::Conflict(Conflict::Node(_)))), "{other}: {result:?}");
    }
}

#[test]
fn ones_own_inserts_are_no_phantoms() {
    let ledger = Ledger::new();
    let shared = Shared::new(&ledger.words());
    let mut memory = Raced(&shared);
    let mut transaction = Transaction::new(&ledger.silo, &mut memory, Isolation::Serializable);
    stamps(&ledger, &mut transaction);
    for key in (21..40).filter(|key| key % 2 == 1) {
        assert_eq!(transaction.insert(&ledger.table, key, ledger.place(key), &ROW), Ok(true));
    }
    transaction.commit().unwrap();
}

/// Runs `then` once, after the first lock was taken.
struct AfterLock<'a, F> {
    words: Raced<'a>,
    then: Option<F>,
}

impl<F: FnOnce()> Memory for AfterLock<'_, F> {
    fn size_bytes(&self) -> u64 {
        self.words.size_bytes()
    }
    fn load<T: Value>(&mut self, at: Addr) -> T {
        self.words.load(at)
    }
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        self.words.store(at, value);
    }
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let result = self.words.compare_exchange(at, current, new);
        if let Some(then) = self.then.take() {
            then();
        }
        result
    }
    fn wait(&mut self, at: Addr, _seen: u64) {
        panic!("nobody holds {at:?}");
    }
    fn wake(&mut self, _at: Addr) {}
}

impl<F: FnOnce()> FullMemory for AfterLock<'_, F> {
    fn work(&mut self, _instructions: u64) {}
}

#[test]
fn a_transaction_is_of_the_epoch_in_which_it_held_all_it_writes() {
    let ledger = Ledger::new();
    let shared = Shared::new(&ledger.words());
    let next_epoch = || {
        ledger.silo.run(&mut Raced(&shared), 0, Isolation::Serializable, |_| Ok(())).unwrap();
    };
    let mut memory = AfterLock { words: Raced(&shared), then: Some(next_epoch) };
    let mut transaction = Transaction::new(&ledger.silo, &mut memory, Isolation::Serializable);
    let mut found = transaction.get(&ledger.table, 2).unwrap().unwrap();
    found.row = ROW;
    transaction.put(&found);
    assert_eq!(found.tid().epoch(), 0);
    assert_eq!(transaction.commit().unwrap().epoch(), 2);
}

#[test]
fn transactions_that_write_what_the_others_read_all_get_through() {
    let ledger = Ledger::new();
    let words = Shared::new(&ledger.words());
    let attempts = interleave(&words, 4, 3, |thread, memory| {
        let run = |turn: u64| {
            let (mine, other) = (thread as u64 % 2 * 2, (thread as u64 + 1) % 2 * 2);
            let job = turn * 4 + thread as u64 + 1;
            let done = ledger.silo.run(memory, job, Isolation::Serializable, |transaction| {
                let read = transaction.get(&ledger.table, other)?.unwrap();
                let mut found = transaction.get(&ledger.table, mine)?.unwrap();
                found.row = [found.row[0] + read.row[0] + 1; 9];
                transaction.put(&found);
                Ok(())
            });
            done.unwrap().unwrap().attempts
        };
        (0..20).map(run).collect::<Vec<u32>>()
    });
    let attempts = attempts.concat();
    let (all, most) = (attempts.iter().sum::<u32>(), attempts.iter().max().unwrap());
    assert!(all > 100, "they never met");
    assert!(all < 400 && *most < 30, "80 transactions took {all} attempts, one of them {most}");
}

/// Runs one job of the ledger and lets access number `fault` fail, unless that changes the index.
/// Nodes that cannot be finished are tested with the tree. Returns how many accesses there were, or
/// `Err` if the job ended with the fault.
fn run_with_fault(
    ledger: &Ledger,
    memory: &mut Plain,
    job: u64,
    fault: Option<u64>,
) -> Result<u64, MemoryFault> {
    let mut accesses = 0;
    let mut faulty = Faulty::new(memory, |page, stores| {
        accesses += 1;
        fault == Some(accesses) && !(stores && page < ledger.place(0).page())
    });
    let result = catch_fault(|| {
        ledger.run(&mut faulty, job, Isolation::Serializable).unwrap();
    });
    result.map(|()| accesses)
}

#[test]
fn a_fault_anywhere_leaves_no_lock_and_all_or_nothing() {
    let ledger = Ledger::new();
    let mut faults = [0, 0];
    for job in 0..25 {
        let mut memory = Plain::new(ledger.words());
        (100..130).for_each(|job| drop(ledger.run(&mut memory, job, Isolation::Serializable)));
        let words = memory.words.clone();
        let fresh = || Plain::new(words.clone());
        let before = ledger.state(&mut fresh());
        let mut whole = fresh();
        let accesses = run_with_fault(&ledger, &mut whole, job, None).unwrap();
        let after = ledger.state(&mut whole);
        for fault in 1..=accesses {
            let mut memory = fresh();
            // One access fails, and what is tried again succeeds.
            let failed = run_with_fault(&ledger, &mut memory, job, Some(fault));
            // `state` would wait for a lock, which panics.
            let found = ledger.state(&mut memory);
            assert!(found == before || found == after, "job {job}, fault at access {fault}");
            assert!(failed.is_err() || found == after);
            faults[usize::from(found == after)] += 1;
            ledger.run(&mut memory, job + 1000, Isolation::Serializable).unwrap();
        }
    }
    assert!(faults[0] > 500 && faults[1] > 100, "{faults:?}");
}

#[test]
fn a_record_that_cannot_be_finished_stays_locked_and_is_never_half_read() {
    let ledger = Ledger::new();
    let mut memory = Plain::new(ledger.words());
    let broken = ledger.place(4);
    let mut stored = false;
    let mut accesses = 0;
    // From the first store to its page on, the device does not give the page of the records back.
    let mut faulty = Faulty::new(&mut memory, |page, stores| {
        accesses += u32::from(stores && page == broken.page());
        // Two locks, then the first record's two lines and its release.
        stored |= accesses > 5;
        stored && page == broken.page()
    });
    let result = catch_fault(|| {
        ledger.silo.run(&mut faulty, 1, Isolation::Serializable, |transaction| {
            for key in [2, 4] {
                let mut found = transaction.get(&ledger.table, key)?.unwrap();
                found.row = ROW;
                transaction.put(&found);
            }
            Ok(())
        })
    });
    assert!(result.is_err());
    let first = memory.words[ledger.place(2).0 as usize / 8];
    let second = memory.words[broken.0 as usize / 8];
    assert_eq!((first & 1, second & 1), (0, 1), "the first is finished, the second is held");
    let mut reader = Transaction::new(&ledger.silo, &mut memory, Isolation::Serializable);
    assert_eq!(reader.get(&ledger.table, 2).unwrap().unwrap().row, ROW);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(reader.get(&ledger.table, 4)))).is_err());
}

#[test]
fn an_index_that_leads_to_another_keys_record_or_out_of_memory_is_wrong() {
    let ledger = Ledger::new();
    for lead in [ledger.place(4).0, ledger.place(4).0 + 64, u64::MAX - 63, 12] {
        let mut memory = Plain::new(ledger.words());
        ledger.table.index().put(&mut memory, &2u64.to_be_bytes(), lead).unwrap();
        let mut reader = Transaction::new(&ledger.silo, &mut memory, Isolation::Serializable);
        assert!(matches!(reader.get(&ledger.table, 2), Err(Abort::Corrupt(_))), "{lead:#x}");
        reader.restart();
        assert!(matches!(reader.scan(&ledger.table, 0..=9, 9), Err(Abort::Corrupt(_))));
    }
}
