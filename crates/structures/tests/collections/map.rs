//! The map against a plain one: alone, full, interleaved, and when pages fail.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ebbtide_core::{Addr, Value};
use ebbtide_structures::{Map, MapFull};
use proptest::prelude::*;

use crate::interleave;
use ebbtide_testbed::Plain;

#[derive(Debug, Clone, Copy)]
enum Op {
    Insert,
    Remove,
    Get,
    Add,
}

fn ops(keys: u64, count: usize) -> impl Strategy<Value = Vec<(Op, u64, u64)>> {
    let op = prop_oneof![3 => Just(Op::Insert), 1 => Just(Op::Remove), 1 => Just(Op::Get), 1 => Just(Op::Add)];
    prop::collection::vec((op, 0..keys, any::<u64>()), 0..count)
}

fn fresh<K: Value, V: Value>(capacity: u64) -> (Plain, Map<K, V>) {
    (Plain::zeroed(Map::<K, V>::bytes(capacity)), Map::at(Addr(0), capacity))
}

fn agrees_with_hash_map<const K: usize, const V: usize>(capacity: u64, ops: &[(Op, u64, u64)])
where
    [u64; K]: Value,
    [u64; V]: Value,
{
    let (mut memory, map) = fresh::<[u64; K], [u64; V]>(capacity);
    let memory = &mut memory;
    let mut model = HashMap::new();
    for &(op, key, number) in ops {
        let (key, value) = ([key; K], [number; V]);
        match op {
            Op::Insert => match map.insert(memory, key, value) {
                Ok(before) => assert_eq!(before, model.insert(key, value)),
                Err(MapFull { .. }) => {
                    assert!(!model.contains_key(&key), "a known key needs no room");
                    assert!(model.len() as u64 >= capacity, "full at {}", model.len());
                }
            },
            Op::Remove => assert_eq!(map.remove(memory, key), model.remove(&key)),
            Op::Get => assert_eq!(map.get(memory, key), model.get(&key).copied()),
            Op::Add => {
                let add = |value: [u64; V]| value.map(|word| word.wrapping_add(number));
                let before = map.update(memory, key, |value| value.map(add)).unwrap();
                assert_eq!(before, model.get(&key).copied());
                model.entry(key).and_modify(|value| *value = add(*value));
            }
        }
    }
    assert_eq!(map.len(memory), model.len() as u64);
    for (key, value) in &model {
        assert_eq!(map.get(memory, *key), Some(*value));
    }
    let mut visited = HashMap::new();
    map.for_each(memory, |_, key, value| assert_eq!(visited.insert(key, value), None, "twice"));
    assert_eq!(visited, model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn it_does_what_a_hash_map_does(
        capacity in 0u64..200, few in ops(12, 200), many in ops(400, 1200),
    ) {
        for ops in [few, many] {
            agrees_with_hash_map::<1, 1>(capacity, &ops);
            agrees_with_hash_map::<1, 8>(capacity, &ops);
            agrees_with_hash_map::<3, 2>(capacity, &ops);
            agrees_with_hash_map::<8, 8>(capacity, &ops);
        }
    }
}

#[test]
fn it_holds_its_capacity_whatever_the_seed() {
    for seed in 0..4 {
        let (mut memory, map) = fresh::<u64, u64>(20_000);
        let map = map.with_seed(seed);
        for key in 0..20_000 {
            assert_eq!(map.insert(&mut memory, key, !key), Ok(None), "seed {seed}, key {key}");
        }
        assert_eq!(map.len(&mut memory), 20_000);
        assert!((0..20_000).all(|key| map.get(&mut memory, key) == Some(!key)));
    }
}

/// Fills a map of two buckets of 31 slots completely.
fn brimful() -> (Plain, Map<[u64; 8], [u64; 8]>, u64) {
    let (mut memory, map) = fresh(40);
    let mut keys = 0;
    while map.insert(&mut memory, [keys; 8], [keys; 8]).is_ok() {
        keys += 1;
    }
    assert_eq!(keys, 62, "every slot is used");
    (memory, map, keys)
}

#[test]
fn a_full_map_says_so_and_works_again_after_a_removal() {
    let (mut memory, map, keys) = brimful();
    let memory = &mut memory;
    assert_eq!(map.insert(memory, [99; 8], [0; 8]), Err(MapFull { capacity: 40 }));
    assert_eq!(map.get(memory, [99; 8]), None);
    assert_eq!(map.insert(memory, [5; 8], [50; 8]), Ok(Some([5; 8])), "a known key needs no room");
    for key in 0..keys {
        assert!(map.remove(memory, [key; 8]).is_some());
        assert_eq!(map.insert(memory, [key + 1000; 8], [key; 8]), Ok(None));
        assert_eq!(map.len(memory), keys);
    }
    for key in 0..keys {
        assert_eq!(map.remove(memory, [key + 1000; 8]), Some([key; 8]));
    }
    // Nothing is left behind that would slow down lookups: all but latch versions is zero again.
    assert!(map.is_empty(memory));
    for bucket in [4096, 8192] {
        assert!(memory.words[bucket / 8 + 2..][..6].iter().all(|&word| word == 0));
    }
}

#[test]
fn interleaved_threads_each_see_a_map_of_their_own_keys() {
    for seed in 0..40 {
        // Two buckets, nearly full: entries of one spill into the other and back.
        let (mut memory, map, keys) = brimful();
        (0..5).for_each(|key| assert!(map.remove(&mut memory, [key; 8]).is_some()));
        interleave(&mut memory, 3, seed, |thread, memory| {
            let mine = |i: u64| [1000 + thread as u64 * 100 + i % 2; 8];
            let mut model = HashMap::new();
            for step in 0..8 {
                let (key, value) = (mine(step), [seed * 100 + step; 8]);
                if let Ok(before) = map.insert(memory, key, value) {
                    assert_eq!(before, model.insert(key, value));
                }
                let old = [5 + (seed + step) % (keys - 5); 8];
                assert_eq!(map.get(memory, old), Some(old), "nobody touches it");
                assert_eq!(map.get(memory, mine(step + 1)), model.get(&mine(step + 1)).copied());
                if step % 2 == 1 {
                    assert_eq!(map.remove(memory, key), model.remove(&key));
                }
                // Another thread's key: there or not, but whole.
                let other = [1000 + (thread as u64 + 1) % 3 * 100; 8];
                let seen = map.get(memory, other);
                assert!(seen.is_none_or(|seen| seen.iter().all(|&word| word == seen[0])));
            }
            for key in model.into_keys() {
                assert!(map.remove(memory, key).is_some());
            }
        });
        assert_eq!(map.len(&mut memory), keys - 5);
    }
}

#[test]
fn a_key_of_two_others_halves_is_not_found() {
    // Keys of two words, in a map of two buckets: which of them is a key's home, and its tag there?
    type Pair = [u64; 2];
    let (mut memory, map) = fresh::<Pair, [u64; 8]>(30);
    let mut place = |key: Pair| {
        map.insert(&mut memory, key, [1; 8]).unwrap();
        let tags: [u64; 2] = [4096, 4096 + 2048].map(|bucket| memory.words[bucket / 8 + 3]);
        map.remove(&mut memory, key);
        (usize::from(tags[0] == 0), tags[0] | tags[1])
    };
    // It is looked for in its home, which is full, and then in the other bucket, where one key
    // replaces another: all have the same tag, and it has a half of each.
    let absent = [1, 2];
    let (home, tag) = place(absent);
    let mut like = |key: fn(u64) -> Pair| {
        (3..).map(key).find(|&key| place(key) == (1 - home, tag)).expect("there are enough")
    };
    let (old, new) = (like(|n| [1, n]), like(|n| [n, 2]));
    let mut homely = (0..).map(|n| [n, n]).filter(|&key| place(key).0 == home);
    let fill: Vec<Pair> = homely.by_ref().take(30).collect();

    for seed in 0..200 {
        let (mut memory, map) = fresh::<Pair, [u64; 8]>(30);
        fill.iter().for_each(|&key| assert!(map.insert(&mut memory, key, [0; 8]).is_ok()));
        map.insert(&mut memory, old, [0; 8]).unwrap();
        interleave(&mut memory, 2, seed, |thread, memory| {
            if thread == 0 {
                (0..4).for_each(|_| assert_eq!(map.get(memory, absent), None, "seed {seed}"));
                return;
            }
            for (from, to) in [(old, new), (new, old)] {
                assert!(map.remove(memory, from).is_some());
                assert_eq!(map.insert(memory, to, [0; 8]), Ok(None));
            }
        });
    }
}

#[test]
fn a_visit_beside_changes_sees_each_entry_that_stays_once_and_all_of_them_whole() {
    for seed in 0..40 {
        // Two buckets, nearly full: entries that come lie in either, and their homes too.
        let (mut memory, map, keys) = brimful();
        (0..6).for_each(|key| assert!(map.remove(&mut memory, [key; 8]).is_some()));
        let (updated, stays) = (6, 7..keys);
        interleave(&mut memory, 3, seed, |thread, memory| match thread {
            0 => {
                let mut seen = Vec::new();
                map.for_each(memory, |_, key, value| {
                    assert!(key.iter().all(|&word| word == key[0]), "{key:?}");
                    assert!(value.iter().all(|&word| word == value[0]), "{value:?}");
                    assert!(value[0] == key[0] || key[0] == updated || key[0] >= 1000);
                    seen.push(key[0]);
                });
                seen.sort_unstable();
                let kept: Vec<u64> =
                    seen.iter().copied().filter(|key| stays.contains(key)).collect();
                assert!(kept.into_iter().eq(stays.clone()), "seed {seed}");
                assert_eq!(seen.iter().filter(|&&key| key == updated).count(), 1);
            }
            1 => (0..12).for_each(|n| {
                let key = [1000 + n % 5; 8];
                assert_eq!(map.insert(memory, key, [n; 8]), Ok(None));
                assert_eq!(map.remove(memory, key), Some([n; 8]));
            }),
            _ => (0..20).for_each(|n| {
                assert!(map.insert(memory, [updated; 8], [n; 8]).unwrap().is_some());
            }),
        });
    }
}

#[test]
fn a_visit_may_change_what_it_visits() {
    let (mut memory, map) = fresh::<u64, u64>(1_000);
    for key in 0..1_000 {
        map.insert(&mut memory, key, key).unwrap();
    }
    map.for_each(&mut memory, |memory, key, value| {
        map.update(memory, key, |_| (key % 3 != 0).then_some(value + 1)).unwrap();
    });
    for key in 0..1_000 {
        assert_eq!(map.get(&mut memory, key), (key % 3 != 0).then_some(key + 1));
    }
    map.for_each(&mut memory, |memory, key, _| {
        map.remove(memory, key);
    });
    map.for_each(&mut memory, |_, key, _| panic!("{key} was removed"));
    assert!(map.is_empty(&mut memory));
}

#[test]
fn interleaved_updates_of_one_entry_are_not_lost() {
    for seed in 0..100 {
        let (mut memory, map) = fresh::<u64, [u64; 3]>(10);
        let created = interleave(&mut memory, 3, seed, |_, memory| {
            let mut created = 0;
            for _ in 0..4 {
                let add = |old: Option<[u64; 3]>| Some(old.unwrap_or([0; 3]).map(|word| word + 1));
                created += u32::from(map.update(memory, 7, add).unwrap().is_none());
                let seen = map.get(memory, 7).expect("nobody removes it");
                assert!(seen.iter().all(|&word| word == seen[0]), "torn: {seen:?}");
            }
            created
        });
        assert_eq!(created.iter().sum::<u32>(), 1, "seed {seed}: only one made the entry");
        assert_eq!(map.get(&mut memory, 7), Some([12; 3]), "seed {seed}");
        assert_eq!(map.len(&mut memory), 1);
    }
}

#[test]
fn an_operation_that_a_fault_ends_has_happened_or_not() {
    for removes in [false, true] {
        for failing in 0..200 {
            let (mut memory, map, keys) = brimful();
            for key in 0..2 {
                assert!(map.remove(&mut memory, [key; 8]).is_some());
            }
            let first = memory.accesses + failing;
            memory.failing = first..first + 1;
            let key = if removes { [7; 8] } else { [0; 8] };
            let result = catch_unwind(AssertUnwindSafe(|| {
                if removes {
                    map.remove(&mut memory, key);
                } else {
                    map.insert(&mut memory, key, [1; 8]).unwrap();
                }
            }));
            memory.failing = 0..0;
            let found = map.get(&mut memory, key);
            let (before, after) = if removes { (Some(key), None) } else { (None, Some([1; 8])) };
            assert!(found == after || (result.is_err() && found == before), "{failing}: {found:?}");
            for other in (2..keys).filter(|&other| other != 7) {
                assert_eq!(map.get(&mut memory, [other; 8]), Some([other; 8]));
            }
            // No latch stayed held: this would wait for it.
            assert_eq!(map.insert(&mut memory, [1; 8], [3; 8]), Ok(None));
            assert_eq!(map.remove(&mut memory, [1; 8]), Some([3; 8]));
        }
    }
}

#[test]
fn a_panicking_change_leaves_the_entry_as_it_was() {
    let (mut memory, map) = fresh::<u64, u64>(10);
    map.insert(&mut memory, 1, 2).unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| {
        map.update(&mut memory, 1, |_| std::panic::resume_unwind(Box::new("boom")))
    }));
    assert!(result.is_err());
    assert_eq!(map.update(&mut memory, 1, |value| value.map(|v| v + 1)), Ok(Some(2)));
    assert_eq!(map.get(&mut memory, 1), Some(3));
}
