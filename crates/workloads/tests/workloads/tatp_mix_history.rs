//! Transactions of the mix that interleave at every access must look as if they had run one after
//! the other. This order must agree with each thread's own.

use std::collections::HashMap;

use ebbtide_testbed::{Interleaved, Raced, Shared, interleave, race};
use ebbtide_workloads::tatp::{Before, Outcome, Snapshot, Transaction};
use ebbtide_workloads::{Corrupt, TatpMix};

use crate::common::image;
use crate::tatp_model::{about, serial, subscriber, tatp_mix};

type Done = (Transaction, Outcome);

/// Few subscribers, and about as many writers as readers, so that transactions collide.
fn crowded(mix: &TatpMix, nth: u64) -> Transaction {
    let first = 16 * nth;
    let writer = (first..first + 16).find(|&job| mix.job(job).writes());
    let job = writer.filter(|_| !nth.is_multiple_of(2)).unwrap_or(first);
    about(nth / 2 % 2 + 1, mix.job(job))
}

/// All states of one subscriber in the order of the transactions that changed it, which each say
/// what they found.
fn states(initial: Snapshot, done: &[Vec<Done>]) -> Result<Vec<Snapshot>, String> {
    let mut changes: HashMap<Before, &Transaction> = HashMap::new();
    for (transaction, outcome) in done.iter().flatten() {
        if let Outcome::Changed(before) = outcome
            && let Some(other) = changes.insert(*before, transaction)
        {
            return Err(format!("{transaction:?} and {other:?} found the same"));
        }
    }
    let mut states = vec![initial];
    let mut state = initial;
    while let Some(transaction) = changes.remove(&state.before) {
        serial(&mut state, transaction);
        states.push(state);
    }
    match changes.values().next() {
        None => Ok(states),
        Some(unordered) => Err(format!("{unordered:?} found what never was")),
    }
}

/// Whether each transaction of a thread answers as in some state, none earlier than those of the
/// transactions before it.
fn follows(states: &[Snapshot], done: &[Done]) -> Result<(), String> {
    let mut now = 0;
    for (transaction, outcome) in done {
        let fits = |state: &Snapshot| serial(&mut state.clone(), transaction) == *outcome;
        let Some(later) = states[now..].iter().position(fits) else {
            return Err(format!("{transaction:?} cannot have found {outcome:?}"));
        };
        now += later + usize::from(matches!(outcome, Outcome::Changed(_)));
    }
    Ok(())
}

/// Checks the results of the threads, then that memory holds the last states.
fn check(
    mix: &TatpMix,
    words: Shared,
    done: Vec<Result<Vec<Done>, Corrupt>>,
) -> Result<(), String> {
    let done: Result<Vec<Vec<Done>>, Corrupt> = done.into_iter().collect();
    let done = done.map_err(|wrong| wrong.to_string())?;
    let mut initial = Shared::new(&image(mix)).into_plain();
    let mut memory = words.into_plain();
    for s_id in 1..=mix.subscribers() {
        let of_subscriber: Vec<Vec<Done>> = done
            .iter()
            .map(|done| done.iter().filter(|(t, _)| subscriber(t) == s_id).copied().collect())
            .collect();
        let states = states(mix.snapshot(&mut initial, s_id).unwrap().unwrap(), &of_subscriber)?;
        of_subscriber.iter().try_for_each(|done| follows(&states, done))?;
        let found = mix.snapshot(&mut memory, s_id).map_err(|wrong| wrong.to_string())?.unwrap();
        if found != *states.last().unwrap() {
            return Err(format!("subscriber {s_id} is {found:?}"));
        }
    }
    Ok(())
}

fn interleaved(
    seed: u64,
    does: for<'a, 'b, 'c> fn(
        &'a TatpMix,
        &'b mut Interleaved<'c>,
        &'b Transaction,
    ) -> Result<Outcome, Corrupt>,
) -> Result<(), String> {
    let mix = tatp_mix(6);
    let words = Shared::new(&image(&mix));
    let done = interleave(&words, 4, seed, |thread, memory| {
        let mut done = Vec::new();
        for nth in 0..8 {
            let transaction = crowded(&mix, seed * 32 + nth * 4 + thread as u64);
            done.push((transaction, does(&mix, memory, &transaction)?));
        }
        Ok(done)
    });
    check(&mix, words, done)
}

#[test]
fn interleaved_transactions_are_serialisable() {
    for seed in 0..60 {
        interleaved(seed, |mix, memory, transaction| mix.execute(memory, transaction))
            .unwrap_or_else(|violation| panic!("interleaving {seed}: {violation}"));
    }
}

#[test]
fn the_checker_catches_transactions_without_a_latch() {
    let caught = (0..20).filter(|&seed| {
        interleaved(seed, |mix, memory, transaction| mix.apply(memory, transaction)).is_err()
    });
    assert!(caught.count() >= 15);
}

#[test]
fn the_checker_catches_a_reader_of_the_past() {
    let mix = tatp_mix(6);
    let mut memory = Shared::new(&image(&mix)).into_plain();
    let read = Transaction::GetSubscriberData { s_id: 1 };
    let write = (0..).map(|job| about(1, mix.job(job)));
    let write = write.into_iter().find(|t| matches!(t, Transaction::UpdateLocation { .. }));
    let mut run = |transaction| (transaction, mix.execute(&mut memory, &transaction).unwrap());
    let [old, change, new] = [run(read), run(write.unwrap()), run(read)];
    let initial = mix.snapshot(&mut Shared::new(&image(&mix)).into_plain(), 1).unwrap().unwrap();
    let judge = |done: &[Done]| follows(&states(initial, &[done.to_vec()])?, done);
    assert_eq!(judge(&[old, change, new]), Ok(()));
    assert!(judge(&[old, change, old]).is_err());
    assert!(judge(&[new, change, new]).is_err());
    assert!(judge(&[change, change]).is_err());
}

#[test]
fn raced_transactions_are_serialisable() {
    let mix = tatp_mix(6);
    let words = Shared::new(&image(&mix));
    let done = race(&words, |thread, memory: &mut Raced<'_>| {
        let mut done = Vec::new();
        for nth in 0..3000 {
            let transaction = crowded(&mix, nth * 2 + thread as u64);
            done.push((transaction, mix.execute(memory, &transaction)?));
        }
        Ok(done)
    });
    check(&mix, words, done).unwrap();
}

#[test]
fn a_snapshot_never_sees_half_a_transaction() {
    // `snapshot` itself compares what the rows counted; here writers with and without latches run
    // beside readers.
    let half_seen = |seed, latched: bool| {
        let mix = tatp_mix(6);
        let words = Shared::new(&image(&mix));
        let seen = interleave(&words, 3, seed, |thread, memory| -> Result<(), Corrupt> {
            for nth in 0..8 {
                let transaction = crowded(&mix, 1 + 2 * (seed * 8 + nth));
                match (thread, latched) {
                    (0, _) => mix.snapshot(memory, nth % 2 + 1).map(|_| ())?,
                    (_, true) => mix.execute(memory, &transaction).map(|_| ())?,
                    (_, false) => mix.apply(memory, &transaction).map(|_| ())?,
                }
            }
            Ok(())
        });
        seen.into_iter().any(|result| result.is_err())
    };
    assert!((0..30).all(|seed| !half_seen(seed, true)));
    assert!((0..30).any(|seed| half_seen(seed, false)));
}
