//! Transactions that interleave at every access must look as if they had run one after the other,
//! also those that scan. A checker looks for such an order. Tests show that it finds none where a
//! transaction does not check all it depends on.

use ebbtide_structures::Corrupt;
use ebbtide_testbed::{Raced, Shared, interleave_bursts, race};
use ebbtide_workloads::silo::Isolation;

use super::ledger::{Event, Ledger, check};

const THREADS: usize = 3;
const JOBS: u64 = 10;
/// Long enough that whole transactions interleave in reasonable time.
const WORDS_A_TURN: f64 = 8.0;

/// Runs a few transactions on each of three threads.
fn interleaved(seed: u64, isolation: Isolation) -> (Shared, Vec<Result<Vec<Event>, Corrupt>>) {
    let ledger = Ledger::new();
    let words = Shared::new(&ledger.words());
    let events = interleave_bursts(&words, THREADS, seed, WORDS_A_TURN, |thread, memory| {
        let first = (seed * THREADS as u64 + thread as u64) * JOBS;
        (first..first + JOBS).map(|job| ledger.run(memory, job, isolation)).collect()
    });
    (words, events)
}

fn violations(seeds: std::ops::Range<u64>, isolation: Isolation) -> usize {
    let is_violated = |seed: &u64| {
        let (words, events) = interleaved(*seed, isolation);
        check(&Ledger::new(), words, events).is_err()
    };
    seeds.filter(is_violated).count()
}

#[test]
fn interleaved_transactions_are_serialisable() {
    let mut again = 0;
    for seed in 0..300 {
        let (words, events) = interleaved(seed, Isolation::Serializable);
        again += events.iter().flatten().flatten().filter(|event| event.attempts > 1).count();
        check(&Ledger::new(), words, events)
            .unwrap_or_else(|violation| panic!("interleaving {seed}: {violation}"));
    }
    assert!(again > 1500, "only {again} transactions met a conflict");
}

#[test]
fn the_checker_catches_transactions_that_do_not_check_what_they_read() {
    let caught = violations(0..100, Isolation::ReadCommitted);
    assert!(caught >= 70, "{caught}");
}

#[test]
fn the_checker_catches_transactions_that_do_not_check_for_phantoms() {
    let caught = violations(0..200, Isolation::RepeatableRead);
    assert!(caught >= 40, "{caught}");
}

#[test]
fn raced_transactions_are_serialisable() {
    let ledger = Ledger::new();
    let words = Shared::new(&ledger.words());
    let events = race(&words, |thread, memory: &mut Raced<'_>| {
        let run = |job: u64| ledger.run(memory, 2 * job + thread as u64, Isolation::Serializable);
        (0..3000).map(run).collect()
    });
    check(&ledger, words, events).unwrap();
}
