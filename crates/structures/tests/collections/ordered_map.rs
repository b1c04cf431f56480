//! [`OrderedMap`] under jobs that add and remove keys of shared layers at the same time.

use std::collections::BTreeMap;

use ebbtide_core::{Addr, FullMemory};
use ebbtide_structures::OrderedMap;
use ebbtide_testbed::{Plain, Shared, race};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::interleave;

const PAGES: u64 = 200;

/// Keys of up to four layers that all threads share.
fn key(thread: u64, number: u64) -> Vec<u8> {
    let prefix = vec![b'p'; (number % 4) as usize * 57 + (number / 4 % 2) as usize];
    [&prefix[..], &[thread as u8, number as u8]].concat()
}

fn change<M: FullMemory>(memory: &mut M, map: &OrderedMap, (thread, seed): (u64, u64)) {
    let mut random = Pcg64Mcg::seed_from_u64(seed * 10 + thread);
    let mut own = BTreeMap::new();
    for round in 0..60 {
        let key = key(thread, random.random_range(0..12));
        if random.random_bool(0.5) {
            assert_eq!(map.put(memory, &key, round), Ok(own.insert(key, round)), "seed {seed}");
        } else {
            assert_eq!(map.remove(memory, &key), Ok(own.remove(&key)), "seed {seed}");
        }
        if round % 20 == 0 {
            let listed = map.list(memory, b"", usize::MAX).unwrap();
            assert!(listed.is_sorted(), "seed {seed}");
            let mine = listed.into_iter().filter(|(key, _)| key[key.len() - 2] == thread as u8);
            assert!(mine.eq(own.clone()), "seed {seed}");
        }
    }
    for (key, value) in own {
        assert_eq!(map.remove(memory, &key), Ok(Some(value)), "seed {seed}");
    }
}

/// Checks that as many keys fit as in a new map.
fn check_is_empty(memory: &mut Plain, map: &OrderedMap, seed: u64) {
    assert_eq!(map.list(memory, b"", 1), Ok(Vec::new()), "seed {seed}");
    let room = |memory: &mut Plain| {
        let key = |number: u64| [&number.to_be_bytes()[..], &[1; 100]].concat();
        (0..).take_while(|&number| map.put(memory, &key(number), 1).is_ok()).count()
    };
    assert_eq!(room(memory), room(&mut Plain::zeroed(OrderedMap::bytes(PAGES))), "seed {seed}");
}

#[test]
fn interleaved_jobs_share_layers_and_leave_none() {
    for seed in 0..16 {
        let (mut memory, map) =
            (Plain::zeroed(OrderedMap::bytes(PAGES)), OrderedMap::at(Addr(0), PAGES));
        interleave(&mut memory, 3, seed, |thread, memory| {
            change(memory, &map, (thread as u64, seed));
        });
        check_is_empty(&mut memory, &map, seed);
    }
}

#[test]
fn racing_jobs_share_layers_and_leave_none() {
    for seed in 0..20 {
        let (memory, map) =
            (Plain::zeroed(OrderedMap::bytes(PAGES)), OrderedMap::at(Addr(0), PAGES));
        let words = Shared::new(&memory.words);
        race(&words, |thread, memory| change(memory, &map, (thread as u64, seed)));
        check_is_empty(&mut words.into_plain(), &map, seed);
    }
}
