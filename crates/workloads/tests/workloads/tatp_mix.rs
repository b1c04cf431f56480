//! TATP's seven transactions against a plain model, their distribution, and what goes wrong.

use std::collections::HashMap;
use std::mem::discriminant;

use ebbtide_testbed::Plain;
use ebbtide_workloads::tatp::{Digits, Outcome, Transaction};
use ebbtide_workloads::{
    Kind, Observed, Program, Shape, TatpMix, UpdateSubscriberData, Work, Workload,
};
use proptest::prelude::*;

use crate::common::{plain, sparse};
use crate::tatp_model::{about, serial, subscriber, tatp_mix};

fn of_shape(shape: &Shape) -> TatpMix {
    match Kind::TatpMix.build(shape).unwrap() {
        Program::TatpMix(mix) => mix,
        _ => unreachable!(),
    }
}

/// One transaction of each kind, by how many of a hundred there are.
fn shares() -> [(u32, Transaction); 7] {
    let (s_id, sub_nbr, sf_type, start_time, end_time) = (1, Digits::new(1), 1, 0, 1);
    let update = UpdateSubscriberData { s_id, sf_type, bit_1: true, data_a: 0 };
    [
        (35, Transaction::GetSubscriberData { s_id }),
        (10, Transaction::GetNewDestination { s_id, sf_type, start_time, end_time }),
        (35, Transaction::GetAccessData { s_id, ai_type: 1 }),
        (2, Transaction::UpdateSubscriberData(update)),
        (14, Transaction::UpdateLocation { sub_nbr, vlr_location: 0 }),
        (
            2,
            Transaction::InsertCallForwarding {
                sub_nbr,
                sf_type,
                start_time,
                end_time,
                numberx: sub_nbr,
            },
        ),
        (2, Transaction::DeleteCallForwarding { sub_nbr, sf_type, start_time }),
    ]
}

#[test]
fn transactions_do_what_a_plain_table_does() {
    for pages in [6, 50] {
        let mix = tatp_mix(pages);
        let mut memory = plain(&mix);
        let mut model: HashMap<u64, _> = (1..=mix.subscribers())
            .map(|s_id| (s_id, mix.snapshot(&mut memory, s_id).unwrap().unwrap()))
            .collect();
        for job in 0..20_000 {
            let transaction = mix.job(job);
            let expected = serial(model.get_mut(&subscriber(&transaction)).unwrap(), &transaction);
            assert_eq!(mix.execute(&mut memory, &transaction), Ok(expected), "{transaction:?}");
        }
        for (s_id, expected) in model {
            assert_eq!(mix.snapshot(&mut memory, s_id), Ok(Some(expected)));
        }
    }
}

/// Any transaction, for subscribers and types that exist and for others.
fn any_transaction() -> impl Strategy<Value = Transaction> {
    let hour = prop_oneof![4 => Just(0u8), 4 => Just(8), 4 => Just(16), 1 => any::<u8>()];
    let keys = (0..7usize, 0u64..4, 0u64..=5, hour, 0u8..=25);
    (keys, any::<u64>()).prop_map(|((kind, s_id, row_type, start_time, end_time), random)| {
        let (sub_nbr, numberx) = (Digits::new(s_id), Digits::new(random));
        let (bit_1, data_a) = (random & 1 == 1, (random >> 8) as u8);
        let update = UpdateSubscriberData { s_id, sf_type: row_type, bit_1, data_a };
        let sf_type = row_type;
        match kind {
            0 => Transaction::GetSubscriberData { s_id },
            1 => Transaction::GetNewDestination { s_id, sf_type, start_time, end_time },
            2 => Transaction::GetAccessData { s_id, ai_type: row_type },
            3 => Transaction::UpdateSubscriberData(update),
            4 => Transaction::UpdateLocation { sub_nbr, vlr_location: random as u32 },
            5 => Transaction::InsertCallForwarding {
                sub_nbr,
                sf_type,
                start_time,
                end_time,
                numberx,
            },
            _ => Transaction::DeleteCallForwarding { sub_nbr, sf_type, start_time },
        }
    })
}

/// Whether there can be rows such as a transaction asks for.
fn is_in_range(transaction: &Transaction) -> bool {
    let is_type = |row_type| (1..=4).contains(&row_type);
    let is_start = |start_time| [0, 8, 16].contains(&start_time);
    subscriber(transaction) > 0
        && match *transaction {
            Transaction::GetSubscriberData { .. } | Transaction::UpdateLocation { .. } => true,
            Transaction::GetNewDestination { sf_type, .. } => is_type(sf_type),
            Transaction::GetAccessData { ai_type, .. } => is_type(ai_type),
            Transaction::UpdateSubscriberData(update) => is_type(update.sf_type),
            Transaction::InsertCallForwarding { sf_type, start_time, end_time, .. } => {
                is_type(sf_type) && is_start(start_time) && (1..=24).contains(&end_time)
            }
            Transaction::DeleteCallForwarding { sf_type, start_time, .. } => {
                is_type(sf_type) && is_start(start_time)
            }
        }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_transactions_do_what_a_plain_table_does(
        transactions in prop::collection::vec(any_transaction(), 0..400),
    ) {
        let mix = tatp_mix(6);
        let mut memory = plain(&mix);
        let mut model: Vec<_> =
            (1..4).map(|s_id| mix.snapshot(&mut memory, s_id).unwrap().unwrap()).collect();
        for transaction in &transactions {
            let expected = if is_in_range(transaction) {
                serial(&mut model[subscriber(transaction) as usize - 1], transaction)
            } else {
                Outcome::NoRow
            };
            prop_assert_eq!(mix.execute(&mut memory, transaction), Ok(expected));
        }
        for (s_id, expected) in (1..4).zip(model) {
            prop_assert_eq!(mix.snapshot(&mut memory, s_id), Ok(Some(expected)));
        }
    }
}

#[test]
fn the_mix_is_the_standards() {
    let mix = tatp_mix(6);
    let jobs = 200_000u32;
    let mut seen = HashMap::new();
    for job in 0..u64::from(jobs) {
        *seen.entry(discriminant(&mix.job(job))).or_insert(0u32) += 1;
    }
    for (of_a_hundred, transaction) in shares() {
        let share = f64::from(of_a_hundred) / 100.0;
        let found = f64::from(seen[&discriminant(&transaction)]) / f64::from(jobs);
        // Four standard deviations.
        let tolerance = 4.0 * (share * (1.0 - share) / f64::from(jobs)).sqrt();
        assert!((found - share).abs() < tolerance, "{found} of {transaction:?}");
    }
}

/// How often GET_NEW_DESTINATION finds a number, counting all cases of a facility that is active.
fn destination_share() -> f64 {
    let choices: [&[usize]; 8] = [&[], &[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2], &[0, 1, 2]];
    let choices_of_as_many = [1.0, 3.0, 3.0, 1.0];
    let mut share = 0.0;
    for (start_time, end_time) in (0..3).flat_map(|s| (1..=24).map(move |e| (8 * s, e))) {
        for rows in choices {
            let missed = |&row: &usize| {
                let late = (8 * row + 1..=8 * row + 8).filter(|&until| end_time < until).count();
                if 8 * row <= start_time { 1.0 - late as f64 / 8.0 } else { 1.0 }
            };
            let found = 1.0 - rows.iter().map(missed).product::<f64>();
            share += found / (3.0 * 24.0) / (4.0 * choices_of_as_many[rows.len()]);
        }
    }
    share
}

#[test]
fn rows_are_found_as_often_as_the_population_has_them() {
    let mix = of_shape(&Shape { theta: 0.0, dataset_bytes: 64 << 20, ..Shape::default() });
    let mut memory = sparse(&mix);
    let mut seen: HashMap<_, (u32, u32)> = HashMap::new();
    for job in 0..60_000 {
        let transaction = mix.job(job);
        let (runs, found) = seen.entry(discriminant(&transaction)).or_default();
        *runs += 1;
        let outcome = mix.execute(&mut memory, &transaction).unwrap();
        *found += u32::from(outcome != Outcome::NoRow);
    }
    // A facility or access exists with 5/8, is active with 218/256, and has a call forwarding of
    // a given time with 1/2.
    let destination = 0.625 * 218.0 / 256.0 * destination_share();
    let expected = [1.0, destination, 0.625, 0.625, 1.0, 0.3125, 0.3125];
    for ((_, transaction), share) in shares().into_iter().zip(expected) {
        let (runs, found) = seen[&discriminant(&transaction)];
        let (runs, found) = (f64::from(runs), f64::from(found));
        // Four standard deviations; what earlier jobs changed is much less.
        let tolerance = 4.0 * (share * (1.0 - share) / runs).sqrt();
        assert!((found / runs - share).abs() <= tolerance, "{found} of {runs} {transaction:?}");
    }
}

#[test]
fn arguments_are_uniform_and_subscribers_zipf() {
    let mix = of_shape(&Shape { dataset_bytes: 1 << 30, ..Shape::default() });
    let (mut types, mut starts, mut ends) = ([0; 4], [0; 3], [0; 24]);
    let mut by_subscriber: HashMap<u64, u32> = HashMap::new();
    let jobs = 100_000;
    for job in 0..jobs {
        let transaction = mix.job(job);
        *by_subscriber.entry(subscriber(&transaction)).or_default() += 1;
        if let Transaction::GetNewDestination { sf_type, start_time, end_time, .. } = transaction {
            types[sf_type as usize - 1] += 1;
            starts[usize::from(start_time) / 8] += 1;
            ends[usize::from(end_time) - 1] += 1;
        }
    }
    let even = |counts: &[i32]| {
        let mean = f64::from(counts.iter().sum::<i32>()) / counts.len() as f64;
        counts.iter().all(|&count| (f64::from(count) - mean).abs() < 4.0 * mean.sqrt())
    };
    assert!(even(&types) && even(&starts) && even(&ends), "{types:?} {starts:?} {ends:?}");
    // 1 / H(subscribers) with θ = 0.99.
    let sum: f64 = (1..=mix.subscribers()).map(|rank| (rank as f64).powf(-0.99)).sum();
    let hottest = f64::from(*by_subscriber.values().max().unwrap()) / jobs as f64;
    assert!((hottest * sum - 1.0).abs() < 0.06, "{hottest}");
}

#[test]
fn what_does_not_exist_is_not_found_and_changes_nothing() {
    let mix = tatp_mix(6);
    let mut memory = plain(&mix);
    let fresh = memory.words.clone();
    let last = mix.subscribers();
    let mut strange: Vec<Transaction> = Vec::new();
    for (_, transaction) in shares() {
        strange.extend([0, last + 1, 1 << 49].map(|s_id| about(s_id, transaction)));
    }
    let (sub_nbr, numberx) = (Digits::new(1), Digits::new(5));
    let letters = Digits([b'x'; 15]);
    strange.push(Transaction::UpdateLocation { sub_nbr: letters, vlr_location: 1 });
    for sf_type in [0, 5, u64::MAX] {
        let (s_id, ai_type, start_time, end_time) = (1, sf_type, 0, 9);
        let update = UpdateSubscriberData { s_id, sf_type, bit_1: true, data_a: 1 };
        strange.extend([
            Transaction::GetNewDestination { s_id, sf_type, start_time, end_time },
            Transaction::GetAccessData { s_id, ai_type },
            Transaction::UpdateSubscriberData(update),
            Transaction::DeleteCallForwarding { sub_nbr, sf_type, start_time },
        ]);
    }
    for sf_type in 1..=4 {
        for (start_time, end_time) in [(3, 9), (24, 9), (0, 0), (0, 25), (8, 255)] {
            let insert = Transaction::InsertCallForwarding {
                sub_nbr,
                sf_type,
                start_time,
                end_time,
                numberx,
            };
            strange.push(insert);
        }
        strange.push(Transaction::DeleteCallForwarding { sub_nbr, sf_type, start_time: 7 });
    }
    for transaction in strange {
        assert_eq!(mix.execute(&mut memory, &transaction), Ok(Outcome::NoRow), "{transaction:?}");
    }
    let mut changed = (0..fresh.len()).filter(|&word| fresh[word] != memory.words[word]);
    // Latches count how often they were held.
    assert!(changed.all(|word| word % 16 == 0 && word < 512));
    assert_eq!(mix.snapshot(&mut memory, 0), Ok(None));
    assert_eq!(mix.snapshot(&mut memory, last + 1), Ok(None));
}

/// For each kind of transaction, a job that finds its row on fresh data.
fn jobs_that_find(mix: &TatpMix) -> Vec<u64> {
    let found = |job: u64, kind: &Transaction| {
        let transaction = mix.job(job);
        discriminant(&transaction) == discriminant(kind)
            && mix.execute(&mut plain(mix), &transaction) != Ok(Outcome::NoRow)
    };
    shares().map(|(_, kind)| (0..).find(|&job| found(job, &kind)).unwrap()).to_vec()
}

/// Runs a job with a fault at access `faulty`, from 0; how many accesses it made.
fn run_with_fault(mix: &TatpMix, memory: &mut Plain, job: u64, faulty: Option<u64>) -> u64 {
    let faulty = faulty.map_or(0, |access| access + 1);
    let (result, accesses) =
        ebbtide_testbed::run_with_fault(memory, faulty, |memory| mix.run(job, memory));
    result.into_iter().for_each(|done| done.unwrap());
    accesses
}

#[test]
fn a_fault_at_any_access_leaves_all_or_nothing_or_is_noticed() {
    let mix = tatp_mix(6);
    let mut halves = Vec::new();
    for job in jobs_that_find(&mix) {
        let s_id = subscriber(&mix.job(job));
        let before = mix.snapshot(&mut plain(&mix), s_id).unwrap();
        let mut memory = plain(&mix);
        let accesses = run_with_fault(&mix, &mut memory, job, None);
        let after = mix.snapshot(&mut memory, s_id).unwrap();
        let mut half = 0;
        for faulty in 0..accesses {
            let mut memory = plain(&mix);
            run_with_fault(&mix, &mut memory, job, Some(faulty));
            let latches = memory.words[..512].iter().step_by(16);
            assert!(latches.clone().all(|latch| latch & 1 == 0), "held: {faulty}");
            match mix.snapshot(&mut memory, s_id) {
                Ok(found) => assert!(found == before || found == after, "{faulty}"),
                Err(_) => half += 1,
            }
        }
        halves.push(half);
    }
    // Between the two stores of an update, an insertion and a deletion.
    assert_eq!(halves, [0, 0, 0, 1, 0, 1, 1]);
}

#[test]
fn a_job_notices_a_page_that_came_back_old() {
    let mix = tatp_mix(6);
    let fresh = plain(&mix);
    let jobs = jobs_that_find(&mix);
    // Which of an update, an insertion and a deletion changes which pages.
    for (job, pages) in [(jobs[3], vec![0, 1]), (jobs[5], vec![0, 3]), (jobs[6], vec![0, 3])] {
        for page in pages {
            // The call forwardings of 32 subscribers fill two pages.
            let words = page * 512..(page + 1 + page / 3) * 512;
            let mut memory = plain(&mix);
            mix.run(job, &mut memory).unwrap();
            mix.run(job, &mut memory).unwrap();
            memory.words[words.clone()].copy_from_slice(&fresh.words[words]);
            assert!(mix.run(job, &mut memory).is_err(), "page {page} of job {job}");
        }
    }
}

#[test]
fn the_index_of_another_dataset_is_noticed() {
    let mix = tatp_mix(6);
    let job = jobs_that_find(&mix)[4];
    let other = of_shape(&Shape { dataset_bytes: 6 * 4096, seed: 9, ..Shape::default() });
    let mut memory = plain(&mix);
    memory.words[5 * 512..].copy_from_slice(&plain(&other).words[5 * 512..]);
    assert!(mix.run(job, &mut memory).is_err());
}

#[test]
fn writers_touch_what_they_need_before_they_take_the_latch() {
    let mix = tatp_mix(200);
    let mut memory = plain(&mix);
    for job in (0..2_000).filter(|&job| mix.job(job).writes()) {
        let mut accesses = Vec::new();
        let mut observed =
            Observed::new(&mut memory, Work::Skipped, |page, write| accesses.push((page, write)));
        mix.run(job, &mut observed).unwrap();
        let latched = accesses.iter().position(|(_, write)| *write).unwrap();
        let (touched, after) = accesses.split_at(latched);
        let is_touched = |page| touched.iter().any(|(other, _)| other == page);
        assert!(after.iter().all(|(page, _)| is_touched(page)), "{:?}", mix.job(job));
    }
}
