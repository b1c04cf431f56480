//! RandomAccess against its definition, its own verification, and updates that race.

use ebbtide_core::{FullMemory, Memory};
use ebbtide_testbed::{Interleaved, Raced, Shared, catch_fault, interleave, race};
use ebbtide_workloads::{Corrupt, Gups, Named, Program, Scatter, Shape, Workload};

use crate::common::{image, plain, program, sparse};

fn gups(pages: u64) -> Gups {
    match program("gups", pages, Scatter::Pages) {
        Program::Gups(gups) => gups,
        _ => unreachable!(),
    }
}

/// The definition: one register, shifted and folded.
fn apply_plainly(table: &mut [u64], updates: u64) {
    let mask = table.len() as u64 - 1;
    let mut a: i64 = 1;
    for _ in 0..updates {
        a = (a << 1) ^ (if a < 0 { 7 } else { 0 });
        table[(a as u64 & mask) as usize] ^= a as u64;
    }
}

#[test]
fn a_run_makes_of_the_table_what_the_definition_makes_of_it() {
    for pages in [1, 2, 5, 33] {
        let gups = gups(pages);
        assert_eq!(gups.words(), 512 << pages.ilog2());
        let mut memory = plain(&gups);
        let mut table: Vec<u64> = (0..gups.words()).collect();
        assert_eq!(memory.words, table);
        (0..gups.jobs_of_a_run()).for_each(|job| gups.run(job, &mut memory).unwrap());
        apply_plainly(&mut table, 4 * gups.words());
        assert_eq!(memory.words, table);
        assert_eq!(gups.wrong_words(&mut memory, gups.jobs_of_a_run()), 0);
        assert_eq!(memory.words, image(&gups));
    }
}

#[test]
fn verification_counts_lost_updates_and_lost_pages() {
    let gups = gups(4);
    let jobs = gups.jobs_of_a_run();
    let after_run = || {
        let mut memory = plain(&gups);
        (0..jobs).for_each(|job| gups.run(job, &mut memory).unwrap());
        memory
    };
    let mut one_lost = after_run();
    let number = gups.job(3).next().unwrap();
    one_lost.words[gups.address(number).0 as usize / 8] ^= number;
    assert_eq!(gups.wrong_words(&mut one_lost, jobs), 1);
    let mut page_lost = after_run();
    page_lost.words[..512].copy_from_slice(&image(&gups)[..512]);
    let wrong = gups.wrong_words(&mut page_lost, jobs);
    // Not all of the page: the stream begins with numbers of few bits, which meet few words.
    assert!((200..=512).contains(&wrong), "{wrong}");
    assert!(wrong as f64 > Gups::WRONG_SHARE_MAX * gups.words() as f64);
}

/// Runs a quarter of a run on each of four interleaved threads; how many words are wrong then.
fn wrong_after(
    seed: u64,
    update: for<'a, 'b, 'c> fn(&'a Gups, &'b mut Interleaved<'c>, u64) -> Result<(), Corrupt>,
) -> u64 {
    let gups = gups(1);
    let words = Shared::new(&image(&gups));
    // Few words, so that updates collide: each thread begins with the same jobs.
    let jobs = 3;
    let done = interleave(&words, 4, seed, |_, memory| {
        (0..jobs).flat_map(|job| gups.job(job)).try_for_each(|number| update(&gups, memory, number))
    });
    done.into_iter().for_each(|done| done.unwrap());
    // An even number of times each: as good as not at all.
    gups.wrong_words(&mut words.into_plain(), 0)
}

#[test]
fn interleaved_updates_are_all_counted() {
    for seed in 0..10 {
        assert_eq!(wrong_after(seed, |gups, memory, number| gups.update(memory, number)), 0);
    }
}

#[test]
fn verification_catches_updates_that_are_not_atomic() {
    fn load_then_store<M: FullMemory>(
        gups: &Gups,
        memory: &mut M,
        number: u64,
    ) -> Result<(), Corrupt> {
        let at = gups.address(number);
        let word: u64 = memory.load(at);
        memory.store(at, word ^ number);
        Ok(())
    }
    for seed in 0..10 {
        assert!(
            wrong_after(seed, |gups, memory, number| load_then_store(gups, memory, number)) > 0
        );
    }
}

#[test]
fn raced_runs_have_no_wrong_word() {
    let gups = gups(8);
    let jobs = gups.jobs_of_a_run();
    let words = Shared::new(&image(&gups));
    race(&words, |thread, memory: &mut Raced<'_>| {
        (thread as u64..jobs).step_by(2).for_each(|job| gups.run(job, memory).unwrap());
    });
    assert_eq!(gups.wrong_words(&mut words.into_plain(), jobs), 0);
}

#[test]
fn a_misplaced_page_is_noticed() {
    let gups = gups(8);
    let mut memory = plain(&gups);
    let (first, second) = memory.words.split_at_mut(512);
    first.swap_with_slice(&mut second[..512]);
    let wrong = (0..100).find_map(|job| gups.run(job, &mut memory).err()).unwrap();
    assert!(wrong.to_string().contains("no updates"), "{wrong}");
}

#[test]
fn a_fault_leaves_every_word_before_or_after_its_update() {
    let gups = gups(2);
    let updated: Vec<u64> = gups.job(0).collect();
    for faulty in 0..2 * updated.len() {
        let mut memory = plain(&gups);
        memory.failing = faulty as u64..faulty as u64 + 1;
        assert!(catch_fault(|| gups.run(0, &mut memory)).is_err());
        let mut table = image(&gups);
        for &number in &updated[..faulty / 2] {
            table[gups.address(number).0 as usize / 8] ^= number;
        }
        assert_eq!(memory.words, table);
    }
}

#[test]
fn tables_are_the_greatest_power_of_two_that_fits_and_need_no_memory() {
    for (dataset_bytes, bytes) in
        [(4096, 4096), (8191, 4096), (1 << 38, 1 << 38), (3 << 37, 1 << 38)]
    {
        let gups = Gups::with_shape(&Shape { dataset_bytes, ..Shape::default() });
        assert_eq!(gups.size_bytes(), bytes);
        let mut memory = sparse(&gups);
        (0..20).for_each(|job| gups.run(job, &mut memory).unwrap());
        for number in (0..20).flat_map(|job| gups.job(job)) {
            let at = gups.address(number);
            assert_ne!(memory.load::<u64>(at), at.0 / 8);
        }
    }
}
