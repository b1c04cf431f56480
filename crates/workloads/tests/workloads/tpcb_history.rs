//! Transactions that interleave at every access must look as if they had run one after the other.
//! The bank's sums must agree at every audit.

use std::collections::HashMap;

use ebbtide_testbed::{Interleaved, Raced, Shared, interleave, race};
use ebbtide_workloads::tpcb::{Balance, Found, Transaction};
use ebbtide_workloads::{Corrupt, Program, Scatter, Tpcb};

use crate::common::{image, program};

fn tpcb() -> Tpcb {
    match program("tpcb", 5, Scatter::Pages) {
        Program::Tpcb(tpcb) => tpcb,
        _ => unreachable!(),
    }
}

type Done = (Transaction, Found);

/// Few accounts, tellers and places of the history, so that transactions collide; local and remote.
fn crowded(tpcb: &Tpcb, job: u64) -> Transaction {
    let Transaction { account, teller, delta, .. } = tpcb.job(job);
    let accounts = tpcb.accounts_per_branch();
    let account = account / accounts * accounts + account % 2;
    let teller = teller / 10 * 10 + teller % 2;
    Transaction { number: job % 3, account, teller, delta }
}

fn book(balance: &mut Balance, delta: i64) {
    balance.amount += delta;
    balance.transactions += 1;
}

/// Replays `history` serially: each transaction once all four rows are as it found them.
fn replay(mut history: Vec<Done>) -> Result<(), String> {
    let mut rows: [HashMap<u64, Balance>; 3] = Default::default();
    let mut places: HashMap<u64, u64> = HashMap::new();
    while !history.is_empty() {
        let before = history.len();
        history.retain(|(transaction, found)| {
            let [accounts, tellers, branches] = &mut rows;
            let account = accounts.entry(transaction.account).or_default();
            let teller = tellers.entry(transaction.teller).or_default();
            let branch = branches.entry(transaction.branch()).or_default();
            let history_rows = places.entry(transaction.number).or_default();
            let state = Found {
                account: *account,
                teller: *teller,
                branch: *branch,
                history_rows: *history_rows,
            };
            let fits = state == *found;
            if fits {
                for balance in [account, teller, branch] {
                    book(balance, transaction.delta);
                }
                *history_rows += 1;
            }
            !fits
        });
        if history.len() == before {
            return Err(format!("{before} transactions fit nowhere, such as {:?}", history[0]));
        }
    }
    Ok(())
}

/// Checks that the transactions are serialisable and the bank they left is consistent.
fn check(tpcb: &Tpcb, words: Shared, done: Vec<Result<Vec<Done>, Corrupt>>) -> Result<(), String> {
    let done: Result<Vec<Vec<Done>>, Corrupt> = done.into_iter().collect();
    let done = done.map_err(|wrong| wrong.to_string())?.concat();
    let mut sum = Balance::default();
    done.iter().for_each(|(transaction, _)| book(&mut sum, transaction.delta));
    replay(done)?;
    match tpcb.audit(&mut words.into_plain()) {
        Ok(total) if total == sum => Ok(()),
        found => Err(format!("the audit says {found:?}, not {sum:?}")),
    }
}

fn interleaved(
    seed: u64,
    does: for<'a, 'b, 'c> fn(
        &'a Tpcb,
        &'b mut Interleaved<'c>,
        &'b Transaction,
    ) -> Result<Found, Corrupt>,
) -> Result<(), String> {
    let tpcb = tpcb();
    let words = Shared::new(&image(&tpcb));
    let done = interleave(&words, 4, seed, |thread, memory| {
        let mut done = Vec::new();
        for job in 0..5 {
            let transaction = crowded(&tpcb, seed * 20 + thread as u64 * 5 + job);
            done.push((transaction, does(&tpcb, memory, &transaction)?));
        }
        Ok(done)
    });
    check(&tpcb, words, done)
}

#[test]
fn interleaved_transactions_are_serialisable() {
    for seed in 0..40 {
        interleaved(seed, |tpcb, memory, transaction| {
            Ok(tpcb.execute(memory, transaction)?.unwrap())
        })
        .unwrap_or_else(|violation| panic!("interleaving {seed}: {violation}"));
    }
}

#[test]
fn the_checker_catches_transactions_without_latches() {
    let caught = (0..20).filter(|&seed| {
        interleaved(seed, |tpcb, memory, transaction| tpcb.apply(memory, transaction)).is_err()
    });
    assert!(caught.count() >= 18);
}

#[test]
fn raced_transactions_are_serialisable() {
    let tpcb = tpcb();
    let words = Shared::new(&image(&tpcb));
    let done = race(&words, |thread, memory: &mut Raced<'_>| {
        let mut done = Vec::new();
        for job in 0..3000 {
            let transaction = crowded(&tpcb, 2 * job + thread as u64);
            done.push((transaction, tpcb.execute(memory, &transaction)?.unwrap()));
        }
        Ok(done)
    });
    check(&tpcb, words, done).unwrap();
}

#[test]
fn a_branch_has_what_its_tellers_have_whenever_somebody_looks() {
    // `branch` itself compares; here writers with and without latches run beside readers.
    let disagreement_seen = |seed, latched: bool| {
        let tpcb = tpcb();
        let words = Shared::new(&image(&tpcb));
        let seen = interleave(&words, 3, seed, |thread, memory| -> Result<(), Corrupt> {
            for job in 0..5 {
                let transaction = crowded(&tpcb, 2 * job + thread as u64);
                match (thread, latched) {
                    (0, _) => tpcb.branch(memory, job % 2).map(|_| ())?,
                    (_, true) => tpcb.execute(memory, &transaction).map(|_| ())?,
                    (_, false) => tpcb.apply(memory, &transaction).map(|_| ())?,
                }
            }
            Ok(())
        });
        seen.into_iter().any(|result| result.is_err())
    };
    assert!((0..30).all(|seed| !disagreement_seen(seed, true)));
    assert!((0..30).any(|seed| disagreement_seen(seed, false)));
}

#[test]
fn a_reader_beside_payers_sees_whole_accounts() {
    let tpcb = tpcb();
    for seed in 0..10 {
        let words = Shared::new(&image(&tpcb));
        interleave(&words, 3, seed, |thread, memory| {
            let mut last = 0;
            for job in 0..15 {
                if thread == 0 {
                    let seen = tpcb.account(memory, 0).unwrap().unwrap();
                    assert!(seen.transactions >= last);
                    last = seen.transactions;
                } else {
                    let transaction = Transaction { account: 0, ..crowded(&tpcb, job) };
                    tpcb.execute(memory, &transaction).unwrap();
                }
            }
        });
    }
}
