//! Transactions that interleave at every access must look as if they had run one after the other.
//! No transaction may see half of another.

use std::collections::HashMap;

use ebbtide_testbed::{Interleaved, Raced, Shared, interleave, race};
use ebbtide_workloads::{
    Corrupt, Program, Scatter, SubscriberData, Tatp, UpdateSubscriberData, Updated, Workload,
};

use crate::common::{image, program};

fn tatp(pages: u64) -> Tatp {
    match program("tatp", pages, Scatter::Pages) {
        Program::Tatp(tatp) => tatp,
        _ => unreachable!(),
    }
}

type Done = (UpdateSubscriberData, Option<Updated>);

/// Few subscribers, so that transactions collide.
fn crowded(tatp: &Tatp, job: u64) -> UpdateSubscriberData {
    let update = tatp.job(job);
    UpdateSubscriberData { s_id: update.s_id % 2 + 1, ..update }
}

/// Replays `history` serially on a plain table.
fn replay(model: &mut HashMap<u64, SubscriberData>, mut history: Vec<Done>) -> Result<(), String> {
    while !history.is_empty() {
        let before = history.len();
        history.retain(|(update, found)| {
            let row = model.get_mut(&update.s_id).unwrap();
            let facility = update.sf_type as usize - 1;
            let expected = row.data_a[facility].map(|data_a| Updated {
                bit_1: row.bit_1,
                data_a,
                commits: row.commits,
            });
            let fits = expected == *found;
            if fits && found.is_some() {
                row.bit_1 = update.bit_1;
                row.data_a[facility] = Some(update.data_a);
                row.commits[facility] += 1;
            }
            !fits
        });
        if history.len() == before {
            return Err(format!("{before} transactions fit nowhere, such as {:?}", history[0]));
        }
    }
    Ok(())
}

fn check(tatp: &Tatp, words: Shared, done: Vec<Result<Vec<Done>, Corrupt>>) -> Result<(), String> {
    let mut initial = Shared::new(&image(tatp)).into_plain();
    let mut row = |s_id| tatp.get(&mut initial, s_id).unwrap().unwrap();
    let mut model = (1..=tatp.subscribers()).map(|s_id| (s_id, row(s_id))).collect();
    let done: Result<Vec<Vec<Done>>, Corrupt> = done.into_iter().collect();
    replay(&mut model, done.map_err(|wrong| wrong.to_string())?.concat())?;
    let mut memory = words.into_plain();
    for (s_id, expected) in model {
        let found = tatp.get(&mut memory, s_id).map_err(|wrong| wrong.to_string())?.unwrap();
        if found != expected {
            return Err(format!("subscriber {s_id} is {found:?}, not {expected:?}"));
        }
    }
    Ok(())
}

fn interleaved(
    seed: u64,
    does: for<'a, 'b, 'c> fn(
        &'a Tatp,
        &'b mut Interleaved<'c>,
        UpdateSubscriberData,
    ) -> Result<Option<Updated>, Corrupt>,
) -> Result<(), String> {
    let tatp = tatp(2);
    let words = Shared::new(&image(&tatp));
    let done = interleave(&words, 4, seed, |thread, memory| {
        let mut done = Vec::new();
        for job in 0..6 {
            let update = crowded(&tatp, seed * 24 + thread as u64 * 6 + job);
            done.push((update, does(&tatp, memory, update)?));
        }
        Ok(done)
    });
    check(&tatp, words, done)
}

#[test]
fn interleaved_transactions_are_serialisable() {
    for seed in 0..60 {
        interleaved(seed, |tatp, memory, update| tatp.update(memory, update))
            .unwrap_or_else(|violation| panic!("interleaving {seed}: {violation}"));
    }
}

#[test]
fn the_checker_catches_transactions_without_a_latch() {
    let caught = (0..20).filter(|&seed| {
        interleaved(seed, |tatp, memory, update| tatp.apply(memory, update)).is_err()
    });
    assert!(caught.count() >= 15);
}

#[test]
fn raced_transactions_are_serialisable() {
    let tatp = tatp(2);
    let words = Shared::new(&image(&tatp));
    let done = race(&words, |thread, memory: &mut Raced<'_>| {
        let mut done = Vec::new();
        for job in 0..4000 {
            let update = crowded(&tatp, 2 * job + thread as u64);
            done.push((update, tatp.update(memory, update)?));
        }
        Ok(done)
    });
    check(&tatp, words, done).unwrap();
}

#[test]
fn a_reader_never_sees_half_a_transaction() {
    // `get` itself compares what the rows counted; here writers with and without latches run
    // beside readers.
    let half_seen = |seed, latched: bool| {
        let tatp = tatp(2);
        let words = Shared::new(&image(&tatp));
        let seen = interleave(&words, 3, seed, |thread, memory| -> Result<(), Corrupt> {
            for job in 0..8 {
                let update = crowded(&tatp, 2 * job + thread as u64);
                match (thread, latched) {
                    (0, _) => tatp.get(memory, job % 2 + 1).map(|_| ())?,
                    (_, true) => tatp.update(memory, update).map(|_| ())?,
                    (_, false) => tatp.apply(memory, update).map(|_| ())?,
                }
            }
            Ok(())
        });
        seen.into_iter().any(|result| result.is_err())
    };
    assert!((0..30).all(|seed| !half_seen(seed, true)));
    assert!((0..30).any(|seed| half_seen(seed, false)));
}

#[test]
fn a_lost_page_of_either_table_is_noticed() {
    let tatp = tatp(2);
    let fresh = image(&tatp);
    let job = (0..).find(|&job| {
        let mut memory = Shared::new(&fresh).into_plain();
        tatp.update(&mut memory, tatp.job(job)).unwrap().is_some()
    });
    let job = job.unwrap();
    for lost in 0..2 {
        let mut memory = Shared::new(&fresh).into_plain();
        tatp.run(job, &mut memory).unwrap();
        let page = lost * 512..(lost + 1) * 512;
        memory.words[page.clone()].copy_from_slice(&fresh[page]);
        assert!(tatp.run(job, &mut memory).is_err(), "table {lost} came back old");
    }
}
