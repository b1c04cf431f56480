//! The B+-tree against a plain map: alone, full, interleaved, damaged, and when pages fail.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ebbtide_core::{Addr, FullMemory, Memory, PAGE_BYTES, Value};
use ebbtide_structures::{BTree, Corrupt, TreeError, latch};
use ebbtide_testbed::{Kept, Plain, Shared, race};
use proptest::prelude::*;
use rand::seq::{IndexedRandom, IteratorRandom};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::interleave;

#[derive(Debug, Clone, Copy)]
enum Op {
    Insert,
    Remove,
    Get,
    Add,
    Scan,
}

fn ops(keys: u64, count: usize) -> impl Strategy<Value = Vec<(Op, u64, u64)>> {
    let op = prop_oneof![
        6 => Just(Op::Insert), 3 => Just(Op::Remove), 1 => Just(Op::Get), 1 => Just(Op::Add),
        1 => Just(Op::Scan),
    ];
    prop::collection::vec((op, 0..keys, any::<u64>()), 0..count)
}

fn fresh<K: Value + Ord, R: Value>(pages: u64) -> (Plain, BTree<K, R>) {
    (Plain::zeroed(BTree::<K, R>::bytes(pages)), BTree::at(Addr(0), pages))
}

fn rows_in<M: FullMemory, K: Value + Ord, R: Value>(
    memory: &mut M,
    tree: &BTree<K, R>,
    range: (Bound<K>, Bound<K>),
) -> Vec<(K, R)> {
    let mut rows = Vec::new();
    let visit = |_: &mut M, key, row| {
        rows.push((key, row));
        ControlFlow::Continue(())
    };
    tree.scan(memory, range, visit).unwrap();
    rows
}

fn all_rows<M: FullMemory, K: Value + Ord, R: Value>(
    memory: &mut M,
    tree: &BTree<K, R>,
) -> Vec<(K, R)> {
    rows_in(memory, tree, (Bound::Unbounded, Bound::Unbounded))
}

/// Keys of `K` words in the order of numbers. Few of them share their first word.
fn key_of<const K: usize>(number: u64) -> [u64; K] {
    let mut key = [number / 3; K];
    key[K - 1] = if K == 1 { number } else { number % 3 };
    key
}

fn agrees_with_a_map<const K: usize, const R: usize>(ops: &[(Op, u64, u64)])
where
    [u64; K]: Value,
    [u64; R]: Value,
{
    let (mut memory, tree) = fresh::<[u64; K], [u64; R]>(700);
    let memory = &mut memory;
    let mut model = BTreeMap::new();
    for &(op, number, word) in ops {
        let (key, row) = (key_of::<K>(number), [word; R]);
        match op {
            Op::Insert => assert_eq!(tree.insert(memory, key, row), Ok(model.insert(key, row))),
            Op::Remove => assert_eq!(tree.remove(memory, key), Ok(model.remove(&key))),
            Op::Get => assert_eq!(tree.get(memory, key), Ok(model.get(&key).copied())),
            Op::Add => {
                let add = |mut row: [u64; R]| {
                    row[R / 2] = row[R / 2].wrapping_add(word);
                    row
                };
                let before = tree.update(memory, key, |row| row.map(add)).unwrap();
                assert_eq!(before, model.get(&key).copied());
                model.entry(key).and_modify(|row| *row = add(*row));
            }
            Op::Scan => {
                let end = key_of::<K>(number + word % 50);
                let bounds = [
                    (Bound::Included(key), Bound::Excluded(end)),
                    (Bound::Excluded(key), Bound::Unbounded),
                    (Bound::Unbounded, Bound::Included(end)),
                ];
                let range = bounds[word as usize % 3];
                let expected: Vec<_> = if key == end && word % 3 == 0 {
                    Vec::new()
                } else {
                    model.range(range).map(|(key, row)| (*key, *row)).collect()
                };
                assert_eq!(rows_in(memory, &tree, range), expected, "{range:?}");
            }
        }
    }
    let expected: Vec<_> = model.iter().map(|(key, row)| (*key, *row)).collect();
    assert_eq!(all_rows(memory, &tree), expected);
    assert!(model.iter().all(|(key, row)| tree.get(memory, *key) == Ok(Some(*row))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn it_does_what_a_map_in_order_does(
        few in ops(12, 200), many in ops(500, 2500), sparse in ops(1 << 40, 1500),
    ) {
        for ops in [few, many, sparse] {
            agrees_with_a_map::<1, 1>(&ops);
            agrees_with_a_map::<1, 8>(&ops);
            agrees_with_a_map::<3, 7>(&ops);
            // Three rows a leaf, and inner pages of 28 children.
            agrees_with_a_map::<8, 96>(&ops);
        }
    }
}

#[test]
fn rows_that_come_in_order_fill_the_pages_that_were_asked_for() {
    for rows in [0, 1, 55, 56, 5_000, 30_000] {
        let pages = BTree::<u64, [u64; 8]>::pages_for(rows);
        let (mut memory, tree) = fresh::<u64, [u64; 8]>(pages);
        for key in 0..rows {
            assert_eq!(tree.insert(&mut memory, key * 7, [key; 8]), Ok(None), "{key} of {rows}");
        }
        assert_eq!(all_rows(&mut memory, &tree).len() as u64, rows);
        assert!(pages <= rows / 55 + rows / 55 / 300 + 5, "{pages} pages of 55 rows for {rows}");
    }
}

#[test]
fn a_look_up_reads_a_page_of_every_level_and_a_page_a_leaf() {
    let rows = 100_000;
    let (mut memory, tree) = fresh::<u64, [u64; 8]>(BTree::<u64, [u64; 8]>::pages_for(rows));
    (0..rows).for_each(|key| assert_eq!(tree.insert(&mut memory, key, [key; 8]), Ok(None)));
    assert_eq!(BTree::<u64, [u64; 8]>::LEAF_ROWS, 55);
    memory.accesses = 0;
    assert_eq!(tree.get(&mut memory, 77_777), Ok(Some([77_777; 8])));
    // Four words of the tree, and on three levels latch, first line, fences and latch again; on two
    // of them a search.
    let level = 5;
    let (search, leaf) = (10, 3);
    assert!(memory.accesses <= 1 + 3 * level + 2 * search + leaf, "{}", memory.accesses);
}

#[test]
fn a_scan_asks_for_its_leaves_ahead_and_for_no_others() {
    let (mut memory, tree) = fresh::<u64, [u64; 8]>(100);
    (0..55 * 40).for_each(|key| assert_eq!(tree.insert(&mut memory, key, [key; 8]), Ok(None)));
    for (rows, leaves) in [(5, 0), (55 * 3, 2), (55 * 40, 39)] {
        memory.hints.clear();
        let range = (Bound::Included(0), Bound::Excluded(rows));
        assert_eq!(rows_in(&mut memory, &tree, range).len() as u64, rows);
        assert_eq!(memory.hints.len(), leaves, "{rows} rows");
    }
}

#[test]
fn a_full_tree_says_so_and_works_again_after_a_removal() {
    let (mut memory, tree) = fresh::<u64, [u64; 96]>(50);
    let memory = &mut memory;
    let rows = (0..).find(|&key| tree.insert(memory, key, [key; 96]).is_err()).unwrap();
    assert!(rows >= 47 * BTree::<u64, [u64; 96]>::LEAF_ROWS, "{rows} rows");
    let full = TreeError::Full { base: Addr(0), pages: 50 };
    assert_eq!(tree.insert(memory, rows, [0; 96]), Err(full));
    assert_eq!(tree.get(memory, rows), Ok(None));
    assert_eq!(tree.insert(memory, 5, [50; 96]), Ok(Some([5; 96])), "a known key needs no room");
    // Leaves that have lost all rows are given back and serve others, wherever those belong.
    for key in 20..40 {
        assert_eq!(tree.remove(memory, key), Ok(Some([key; 96])));
    }
    for key in rows..rows + 12 {
        assert_eq!(tree.insert(memory, key, [key; 96]), Ok(None));
    }
    assert_eq!(all_rows(memory, &tree).len() as u64, rows - 20 + 12);
}

#[test]
fn a_queue_through_which_many_rows_go_takes_few_pages() {
    let (mut memory, tree) = fresh::<u64, [u64; 40]>(60);
    let memory = &mut memory;
    let rows = 60 * BTree::<u64, [u64; 40]>::LEAF_ROWS;
    for key in 0..100 * rows {
        assert_eq!(tree.insert(memory, key, [key; 40]), Ok(None));
        if key >= rows / 2 {
            assert_eq!(tree.remove(memory, key - rows / 2), Ok(Some([key - rows / 2; 40])));
        }
    }
    assert_eq!(all_rows(memory, &tree).len() as u64, rows / 2);
}

#[test]
fn a_damaged_tree_is_an_error_or_gives_wrong_rows_but_never_panics_or_hangs() {
    let (mut whole, tree) = fresh::<u64, [u64; 30]>(700);
    (0..6_000).for_each(|key| assert_eq!(tree.insert(&mut whole, key, [key; 30]), Ok(None)));
    let pages = BTree::<u64, [u64; 30]>::bytes(700) as usize / PAGE_BYTES;
    let mut noticed = 0;
    for seed in 0..300 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let (mut memory, mut errors) = (whole.clone(), 0);
        for _ in 0..random.random_range(1..40) {
            // Anything but latches, mostly in what leads elsewhere.
            let page = random.random_range(0..pages);
            let words = if page == 0 { 5 } else { *[10, 512].choose(&mut random).unwrap() };
            let word = page * PAGE_BYTES / 8 + random.random_range(1..words);
            let other = random.random_range(0..memory.words.len());
            memory.words[word] = match random.random_range(0..4) {
                0 => random.random(),
                1 => random.random_range(0..1000),
                2 => memory.words[word] ^ 1 << random.random_range(0..64),
                _ => memory.words[other],
            };
        }
        for operation in 0..200 {
            let key = random.random_range(0..7_000);
            let end = if operation == 0 { u64::MAX } else { key + 100 };
            let is_ok = match operation % 4 {
                0 => tree.scan(&mut memory, key..end, |_, _, _| ControlFlow::Continue(())).is_ok(),
                1 => tree.insert(&mut memory, key, [key; 30]).is_ok(),
                2 => tree.remove(&mut memory, key).is_ok(),
                _ => tree.get(&mut memory, key).is_ok(),
            };
            errors += u32::from(!is_ok);
        }
        noticed += u32::from(errors > 0);
    }
    assert!(noticed > 100, "{noticed} of 300 were noticed");
}

#[test]
fn a_walk_goes_on_to_the_right_and_not_in_a_circle() {
    let (mut memory, tree) = fresh::<u64, [u64; 8]>(5);
    (0..100).for_each(|key| assert_eq!(tree.insert(&mut memory, key, [key; 8]), Ok(None)));
    let word_of = |page: usize, offset: usize| (page * PAGE_BYTES + offset) / 8;
    // Page 3 is the root. It no longer tells where the second leaf begins.
    assert_eq!(memory.words[word_of(3, 80)], 55);
    memory.words[word_of(3, 80)] = 1000;
    assert_eq!(tree.get(&mut memory, 60), Ok(Some([60; 8])));
    // The first leaf leads to itself.
    memory.words[word_of(1, 8)] ^= 2 ^ 1;
    assert_eq!(tree.get(&mut memory, 50), Ok(Some([50; 8])));
    let Corrupt(said) = tree.get(&mut memory, 60).unwrap_err();
    assert!(said.contains("damaged"), "{said}");
}

#[test]
fn interleaved_changes_of_neighbours_are_not_lost_and_what_stays_is_always_found() {
    for seed in 0..60 {
        // Rows of three a leaf, so that leaves are divided and given back all the time.
        let (mut memory, tree) = fresh::<u64, [u64; 96]>(60);
        let stays = |key: u64| key % 40 == 39;
        (0..320).filter(|&key| stays(key)).for_each(|key| {
            assert_eq!(tree.insert(&mut memory, key, [key; 96]), Ok(None));
        });
        let left =
            interleave(&mut memory, 3, 2 * seed + 1, |thread, memory| {
                let mut random = Pcg64Mcg::seed_from_u64(seed * 10 + thread as u64);
                let mut own = BTreeMap::new();
                for round in 0..25 {
                    let key = random.random_range(0..80) * 4 + thread as u64;
                    if random.random_bool(0.6) {
                        let row = [key + round * 1000; 96];
                        assert_eq!(tree.insert(memory, key, row), Ok(own.insert(key, row)));
                    } else {
                        assert_eq!(tree.remove(memory, key), Ok(own.remove(&key)));
                    }
                    let key = random.random_range(0..8) * 40 + 39;
                    assert_eq!(tree.get(memory, key), Ok(Some([key; 96])), "seed {seed}");
                }
                if thread == 0 {
                    let rows = all_rows(memory, &tree);
                    assert!(rows.is_sorted_by(|one, next| one.0 < next.0));
                    assert!(rows.iter().all(|(key, row)| row.iter().all(|word| *word == row[0])
                        && row[0] % 1000 == *key));
                    let kept = rows.iter().filter(|row| stays(row.0)).count();
                    assert_eq!(kept, 8, "seed {seed}");
                }
                own
            });
        let mut expected: BTreeMap<u64, [u64; 96]> = left.into_iter().flatten().collect();
        expected.extend((0..320).filter(|&key| stays(key)).map(|key| (key, [key; 96])));
        assert!(all_rows(&mut memory, &tree).into_iter().eq(expected), "seed {seed}");
    }
}

#[test]
fn a_walk_to_a_page_that_was_given_back_meanwhile_begins_again() {
    for seed in 0..40 {
        let (mut memory, tree) = fresh::<u64, [u64; 96]>(40);
        let rows = 8 * BTree::<u64, [u64; 96]>::LEAF_ROWS;
        let stays = |key: u64| key.is_multiple_of(100);
        (0..rows).for_each(|number| {
            assert_eq!(tree.insert(&mut memory, number * 100, [number; 96]), Ok(None));
        });
        interleave(&mut memory, 3, seed, |thread, memory| {
            let mut random = Pcg64Mcg::seed_from_u64(seed * 10 + thread as u64);
            // Two threads make leaves of their own between those that stay, and empty them again.
            let own = (1 + thread as u64) * rows * 25;
            let mine = || (0..8).map(|number| own + 1 + number);
            for _ in 0..6 {
                if thread < 2 {
                    mine().for_each(|key| assert_eq!(tree.insert(memory, key, [1; 96]), Ok(None)));
                    mine().for_each(|key| {
                        assert_eq!(tree.remove(memory, key), Ok(Some([1; 96])), "seed {seed}");
                    });
                    continue;
                }
                for _ in 0..8 {
                    let near = (1 + random.random_range(0..2)) * rows * 25;
                    let key = near + random.random_range(0..12);
                    let found = tree.get(memory, key).unwrap().is_some();
                    assert!(found || !stays(key), "seed {seed}: {key}");
                }
                let found = all_rows(memory, &tree);
                let found = found.iter().filter(|(key, _)| stays(*key)).count() as u64;
                assert_eq!(found, rows, "seed {seed}");
            }
        });
        assert_eq!(all_rows(&mut memory, &tree).len() as u64, rows);
    }
}

/// Leaves of four rows and inner pages of 28 children: a tree of three levels has few rows.
type High = BTree<[u64; 8], [u64; 96]>;

/// Inserts and removes rows in any order until this thread has none left. Reads the rows that stay.
fn grow_and_shrink<M: FullMemory>(memory: &mut M, tree: &High, (thread, seed): (u64, u64)) {
    let key_of = |number: u64| [7, number, 0, 0, 0, 0, 0, 1];
    let mut random = Pcg64Mcg::seed_from_u64(seed * 10 + thread);
    let mut numbers: Vec<u64> = (0..110).map(|number| number * 3 + thread).collect();
    for goes in [false, true] {
        for left in (0..numbers.len()).rev() {
            numbers.swap(left, random.random_range(0..=left));
        }
        for (index, &number) in numbers.iter().enumerate() {
            let (key, row) = (key_of(number), [number; 96]);
            if goes {
                assert_eq!(tree.remove(memory, key), Ok(Some(row)), "seed {seed}: {number}");
            } else {
                assert_eq!(tree.insert(memory, key, row), Ok(None), "seed {seed}: {number}");
            }
            if index % 8 == 0 {
                let stays = random.random_range(0..10u64);
                let key = [7, stays * 33, 0, 0, 0, 0, 0, 9];
                assert_eq!(tree.get(memory, key), Ok(Some([stays; 96])), "seed {seed}: {stays}");
            }
            if index % 50 == 0 {
                let rows = all_rows(memory, tree);
                assert!(rows.is_sorted_by(|one, next| one.0 < next.0), "seed {seed}");
                assert_eq!(rows.iter().filter(|row| row.0[7] == 9).count(), 10, "seed {seed}");
            }
        }
    }
}

fn of_rows_that_stay() -> (Plain, High) {
    let (mut memory, tree) = fresh::<[u64; 8], [u64; 96]>(300);
    for stays in 0..10 {
        let key = [7, stays * 33, 0, 0, 0, 0, 0, 9];
        assert_eq!(tree.insert(&mut memory, key, [stays; 96]), Ok(None));
    }
    (memory, tree)
}

/// Checks that only the rows that stay are left, in few pages. The other pages serve new rows.
fn check_is_low(memory: &mut Plain, tree: &High, name: &str) {
    let rows = all_rows(memory, tree);
    assert_eq!(rows.len(), 10, "{name}");
    for (key, row) in rows {
        assert_eq!(tree.remove(memory, key), Ok(Some(row)), "{name}");
    }
    let room = |memory: &mut Plain| {
        (0..).take_while(|&key| tree.insert(memory, [key; 8], [key; 96]).is_ok()).count()
    };
    assert_eq!(room(memory), room(&mut fresh::<[u64; 8], [u64; 96]>(300).0), "{name}");
}

#[test]
fn interleaved_jobs_find_everything_while_pages_of_all_levels_are_divided_and_joined() {
    for seed in 0..30 {
        let (mut memory, tree) = of_rows_that_stay();
        interleave(&mut memory, 3, seed, |thread, memory| {
            grow_and_shrink(memory, &tree, (thread as u64, seed));
        });
        check_is_low(&mut memory, &tree, &format!("seed {seed}"));
    }
}

#[test]
fn racing_jobs_find_everything_while_pages_of_all_levels_are_divided_and_joined() {
    for seed in 0..100 {
        let (memory, tree) = of_rows_that_stay();
        let words = Shared::new(&memory.words);
        race(&words, |thread, memory| grow_and_shrink(memory, &tree, (thread as u64, seed)));
        check_is_low(&mut words.into_plain(), &tree, &format!("seed {seed}"));
    }
}

#[test]
fn a_join_that_a_fault_ends_loses_no_row() {
    let (mut memory, tree) = fresh::<[u64; 8], [u64; 96]>(300);
    let rows = 28 * High::LEAF_ROWS * 2;
    let key_of = |number: u64| [3, number, 0, 0, 0, 0, 0, 0];
    (0..rows).for_each(|number| {
        assert_eq!(tree.insert(&mut memory, key_of(number), [number; 96]), Ok(None));
    });
    // The removals that touch the most: those that join inner pages, too, and one that lowers the
    // root.
    let mut removals = Vec::new();
    for number in 0..rows {
        let (before, accesses) = (memory.clone(), memory.accesses);
        assert_eq!(tree.remove(&mut memory, key_of(number)), Ok(Some([number; 96])));
        removals.push((memory.accesses - accesses, number, before));
    }
    removals.sort_by_key(|(accesses, number, _)| (u64::MAX - accesses, *number));
    for (accesses, number, before) in &removals[..5] {
        for failing in 0..*accesses {
            let mut memory = before.clone();
            let first = memory.accesses + failing;
            memory.failing = first..first + 1;
            let result =
                catch_unwind(AssertUnwindSafe(|| tree.remove(&mut memory, key_of(*number))));
            memory.failing = 0..0;
            let found = tree.get(&mut memory, key_of(*number)).unwrap();
            assert!(found.is_none() || result.is_err(), "access {failing}");
            let left: Vec<u64> = all_rows(&mut memory, &tree).iter().map(|row| row.0[1]).collect();
            let first = number + u64::from(found.is_none());
            assert!(left.iter().copied().eq(first..rows), "access {failing}: {left:?}");
            // No latch stayed held, and no page leads elsewhere.
            for number in left {
                assert_eq!(tree.remove(&mut memory, key_of(number)), Ok(Some([number; 96])));
            }
            assert_eq!(tree.insert(&mut memory, key_of(1), [1; 96]), Ok(None));
        }
    }
}

#[test]
fn interleaved_updates_of_one_row_are_not_lost() {
    for seed in 0..100 {
        let (mut memory, tree) = fresh::<u64, [u64; 20]>(4);
        let created = interleave(&mut memory, 3, seed, |_, memory| {
            let mut created = 0;
            for _ in 0..4 {
                let add =
                    |old: Option<[u64; 20]>| Some(old.unwrap_or([0; 20]).map(|word| word + 1));
                created += u32::from(tree.update(memory, 7, add).unwrap().is_none());
                let seen = tree.get(memory, 7).unwrap().expect("nobody removes it");
                assert!(seen.iter().all(|&word| word == seen[0]), "torn: {seen:?}");
            }
            created
        });
        assert_eq!(created.iter().sum::<u32>(), 1, "seed {seed}: only one made the row");
        assert_eq!(tree.get(&mut memory, 7), Ok(Some([12; 20])), "seed {seed}");
    }
}

#[test]
fn a_reader_of_one_leaf_does_not_wait_for_a_writer_of_another() {
    let (mut memory, tree) = fresh::<u64, [u64; 8]>(10);
    (0..55 * 3).for_each(|key| assert_eq!(tree.insert(&mut memory, key, [key; 8]), Ok(None)));
    // Waiting would panic: there is no other job.
    let changed = tree.update(&mut memory, 60, |row| row);
    assert_eq!(changed, Ok(Some([60; 8])));
    let latch = (1..10).map(|page| Addr(page * PAGE_BYTES as u64)).find(|page| {
        let before: u64 = memory.load(*page);
        tree.insert(&mut memory, 60, [1; 8]).unwrap();
        memory.load::<u64>(*page) != before
    });
    ebbtide_structures::latch::write(&mut memory, latch.unwrap(), |memory| {
        assert_eq!(tree.get(memory, 20), Ok(Some([20; 8])));
        assert_eq!(tree.insert(memory, 130, [9; 8]), Ok(Some([130; 8])));
        let waits = catch_unwind(AssertUnwindSafe(|| tree.get(memory, 61)));
        assert!(waits.is_err(), "a reader of the same leaf waits");
    });
}

#[test]
fn an_operation_that_a_fault_ends_has_happened_or_not() {
    // Three rows a leaf and 28 children a page: the change divides a leaf and pages above it, or
    // gives a leaf back.
    let (mut whole, tree) = fresh::<[u64; 8], [u64; 8]>(1000);
    let key_of = |number: u64| [number / 10, number % 10, 0, 0, 0, 0, 0, number];
    let rows = 30 * BTree::<[u64; 8], [u64; 8]>::LEAF_ROWS * 29;
    for number in (0..rows).map(|number| number * 2) {
        assert_eq!(tree.insert(&mut whole, key_of(number), [number; 8]), Ok(None));
    }
    let first_leaf = all_rows(&mut whole, &tree)[..60].to_vec();
    let check = |memory: &mut Plain, changed: u64| {
        let rows_now = all_rows(memory, &tree);
        assert!(rows_now.is_sorted_by(|one, next| one.0 < next.0));
        rows_now.iter().filter(|row| row.0 != key_of(changed)).count()
    };
    for (changed, removes) in [(41, false), (40, true)] {
        let others = check(&mut whole.clone(), changed);
        for failing in 0.. {
            let mut memory = whole.clone();
            let first = memory.accesses + failing;
            memory.failing = first..first + 1;
            let result = catch_unwind(AssertUnwindSafe(|| {
                if removes {
                    tree.remove(&mut memory, key_of(changed)).unwrap();
                } else {
                    tree.insert(&mut memory, key_of(changed), [changed; 8]).unwrap();
                }
            }));
            let was_reached = memory.accesses > first;
            memory.failing = 0..0;
            let found = tree.get(&mut memory, key_of(changed)).unwrap();
            let (before, after) =
                if removes { (Some([changed; 8]), None) } else { (None, Some([changed; 8])) };
            assert!(found == after || (result.is_err() && found == before), "{failing}: {found:?}");
            assert_eq!(check(&mut memory, changed), others, "access {failing}");
            for (key, row) in first_leaf.iter().filter(|row| row.0 != key_of(changed)) {
                assert_eq!(tree.get(&mut memory, *key), Ok(Some(*row)), "access {failing}");
            }
            // No latch stayed held: this would wait for it.
            tree.insert(&mut memory, key_of(changed), [3; 8]).unwrap();
            assert_eq!(tree.remove(&mut memory, key_of(changed)), Ok(Some([3; 8])));
            if !was_reached {
                break;
            }
        }
    }
}

#[test]
fn a_panicking_change_leaves_the_row_as_it_was() {
    let (mut memory, tree) = fresh::<u64, u64>(10);
    tree.insert(&mut memory, 1, 2).unwrap();
    let result = catch_unwind(AssertUnwindSafe(|| {
        tree.update(&mut memory, 1, |_| std::panic::resume_unwind(Box::new("boom")))
    }));
    assert!(result.is_err());
    assert_eq!(tree.update(&mut memory, 1, |row| row.map(|row| row + 1)), Ok(Some(2)));
    assert_eq!(tree.get(&mut memory, 1), Ok(Some(3)));
}

/// A commit stores a new root, which lies before all pages, first.
#[test]
fn a_reader_finds_a_whole_tree_after_each_store_of_a_commit() {
    let (mut memory, tree) = fresh::<[u64; 8], [u64; 40]>(400);
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let key_of = |number: u64| [number, 0, 0, 0, 0, 0, 0, 1];
    let mut model = BTreeMap::new();
    for step in 0..1200u64 {
        // Grows to two levels of inner pages, then shrinks to none.
        let key = random.random_range(0..1000);
        let remove = random.random_bool(if step < 700 { 0.1 } else { 0.9 });
        let key =
            if step < 700 { key_of(key) } else { *model.keys().next().unwrap_or(&key_of(key)) };
        let mut transaction = Kept::new(&mut memory);
        if remove {
            tree.remove(&mut transaction, key).unwrap();
        } else {
            tree.insert(&mut transaction, key, [step; 40]).unwrap();
        }
        let after = if remove { None } else { Some([step; 40]) };
        let others: Vec<[u64; 8]> = model.keys().copied().sample(&mut random, 3);
        let latches = transaction.commit(|other| {
            for key in others.iter().copied().filter(|other| *other != key) {
                if let Some(found) = other.unless_it_waits(|memory| tree.get(memory, key)) {
                    assert_eq!(found, Ok(model.get(&key).copied()), "step {step}");
                }
            }
            if let Some(found) = other.unless_it_waits(|memory| tree.get(memory, key)) {
                let found = found.unwrap_or_else(|wrong| panic!("step {step}: {wrong}"));
                assert!(found == after || found == model.get(&key).copied(), "step {step}");
            }
        });
        for at in latches.into_iter().rev() {
            latch::release_taken(&mut memory, at);
        }
        match after {
            Some(row) => model.insert(key, row),
            None => model.remove(&key),
        };
    }
}
