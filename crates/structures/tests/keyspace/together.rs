//! Jobs that read, write, join and clear at the same time: no key is lost, none comes back, and no
//! value is mixed up.

use ebbtide_core::{Addr, FullMemory, Memory, PAGE_BYTES};
use ebbtide_structures::keyspace::{HashSecret, Keyspace};
use ebbtide_structures::latch;
use ebbtide_testbed::{Kept, Plain, Shared, interleave_bursts, race};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const PAGES: u64 = 220;

const DATABASE: usize = 0;

fn store() -> (Shared, Keyspace) {
    let mut memory = Plain::zeroed(PAGES * PAGE_BYTES as u64);
    let keys = Keyspace::format(&mut memory, Addr(0), PAGES, HashSecret([9, 9]));
    for number in 0..60 {
        set(&keys, &mut memory, &format!("stays:{number}"), 300);
    }
    let words = (0..PAGES * PAGE_BYTES as u64 / 8).map(|word| memory.load(Addr(word * 8)));
    (Shared::new(&words.collect::<Vec<u64>>()), keys)
}

fn set<M: FullMemory>(keys: &Keyspace, memory: &mut M, name: &str, length: usize) {
    let key = keys.key(name.as_bytes());
    let value = vec![name.len() as u8; length];
    let set = |memory: &mut M| keys.set(memory, DATABASE, &key, &value, None).map(drop);
    // A store that is full keeps what it has.
    let _ = keys.exclusive(memory, &[key.hash], set).expect("no log");
    join(keys, memory, key.hash);
}

fn remove<M: FullMemory>(keys: &Keyspace, memory: &mut M, name: &str) {
    let key = keys.key(name.as_bytes());
    let remove = |memory: &mut M| keys.remove(memory, DATABASE, &key);
    keys.exclusive(memory, &[key.hash], remove).expect("no log");
    join(keys, memory, key.hash);
}

fn join<M: FullMemory>(keys: &Keyspace, memory: &mut M, hash: u64) {
    if keys.is_sparse(memory, DATABASE, hash) {
        let join = |memory: &mut M| keys.join(memory, DATABASE, hash);
        keys.exclusive(memory, &[hash], join).expect("no log");
    }
}

/// Reads a key that is always there.
fn check<M: FullMemory>(keys: &Keyspace, memory: &mut M, number: u64) {
    let name = format!("stays:{number}");
    let key = keys.key(name.as_bytes());
    let found = keys.consistent(memory, key.hash, |memory| {
        let mut value = Vec::new();
        let entry = keys.find(memory, DATABASE, &key, &mut value)?;
        if !entry.is_inline() {
            keys.read_range(memory, &entry, 0, entry.value_bytes as usize, &mut value);
        }
        Some(value)
    });
    let found = found.unwrap_or_else(|| panic!("{name} is lost"));
    assert!(found.iter().all(|byte| *byte == name.len() as u8), "{name} is mixed up");
}

/// The work of one job of several. Writers fill and empty whole stretches, so leaves divide and are
/// joined.
fn work<M: FullMemory>(keys: &Keyspace, memory: &mut M, me: usize, seed: u64, rounds: u64) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed << 8 | me as u64);
    for round in 0..rounds {
        let lengths = [200, 900, 5_000];
        let length = lengths[rng.random_range(0..lengths.len())];
        let names = || (0..25).map(move |number| format!("{me}:{round}:{number}"));
        for name in names() {
            set(keys, memory, &name, length);
            check(keys, memory, rng.random_range(0..60));
        }
        let stays = rng.random_range(0..60);
        set(keys, memory, &format!("stays:{stays}"), rng.random_range(0..1_800));
        for name in names() {
            remove(keys, memory, &name);
            check(keys, memory, rng.random_range(0..60));
        }
    }
}

/// A commit stores in the order of addresses, so pages that lead to others are stored first.
#[test]
fn a_reader_finds_every_key_after_each_store_of_a_commit() {
    let (words, keys) = store();
    let mut memory = words.into_plain();
    let mut random = Pcg64Mcg::seed_from_u64(1);
    for step in 0..600 {
        let name = format!("moves:{}", random.random_range(0..80));
        let fills = random.random_bool(if step / 150 % 2 == 0 { 0.9 } else { 0.1 });
        let mut transaction = Kept::new(&mut memory);
        if fills {
            set(&keys, &mut transaction, &name, [200, 900, 5_000][step % 3]);
        } else {
            remove(&keys, &mut transaction, &name);
        }
        let latches = transaction.commit(|other| {
            let number = random.random_range(0..60);
            other.unless_it_waits(|memory| check(&keys, memory, number));
        });
        latches.into_iter().rev().for_each(|at| latch::release_taken(&mut memory, at));
    }
}

fn check_all(words: Shared, keys: &Keyspace) {
    let mut memory = words.into_plain();
    (0..60).for_each(|number| check(keys, &mut memory, number));
    assert_eq!(keys.counts(&mut memory, DATABASE).keys, 60);
    (0..60).for_each(|number| remove(keys, &mut memory, &format!("stays:{number}")));
    let (free, all) = keys.free_pages(&mut memory);
    assert!(all - free <= 9 + 4, "{} pages are in use", all - free);
}

#[test]
fn jobs_that_take_turns_lose_no_key_while_leaves_divide_and_are_joined() {
    for seed in 0..6 {
        let (words, keys) = store();
        interleave_bursts(&words, 3, seed, 40.0, |me, memory| work(&keys, memory, me, seed, 3));
        check_all(words, &keys);
    }
}

#[test]
fn cores_that_race_lose_no_key_while_leaves_divide_and_are_joined() {
    let (words, keys) = store();
    race(&words, |me, memory| work(&keys, memory, me, 1, 150));
    check_all(words, &keys);
}
