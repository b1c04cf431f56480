//! Compares each program with a plain model, over every key and every job.

use std::collections::HashMap;

use ebbtide_core::{Addr, Memory};
use ebbtide_testbed::{Plain, Shared, interleave};
use ebbtide_workloads::silo_tpcc::SiloTpcc;
use ebbtide_workloads::{
    ArraySwap, Element, Entry, HashTable, Kind, Named, Observed, Program, RedBlackTree, Scatter,
    Shape, Work, Workload,
};

use crate::common::{image, plain, program};

const SCATTERS: [Scatter; 2] = [Scatter::Pages, Scatter::Keys];

#[test]
fn every_program_runs_its_jobs_at_its_least_size_and_above() {
    for (name, kind) in Kind::ALL.map(|kind| (kind.name(), kind)) {
        for scatter in SCATTERS {
            for pages in [kind.min_bytes() / 4096, 100, 333] {
                let program = program(name, pages, scatter);
                let mut memory = plain(&program);
                let before = memory.words.clone();
                for job in 0..2000 {
                    program.run(job, &mut memory).unwrap_or_else(|w| panic!("{name}: {w}"));
                }
                assert_eq!(before != memory.words, program.writes(), "{name}");
            }
        }
    }
}

#[test]
fn jobs_are_pure_functions_of_seed_and_number() {
    for (name, kind) in Kind::ALL.map(|kind| (kind.name(), kind)) {
        // A New-Order writes where its district's next order goes, whoever placed the others.
        if [Kind::Tpcc, Kind::TpccMix, Kind::Silo].contains(&kind) {
            continue;
        }
        let program = program(name, 100, Scatter::Keys);
        // Which pages a job touches does not depend on what other jobs wrote.
        let touched = |jobs: Vec<u64>| {
            let mut memory = plain(&program);
            let mut pages = Vec::new();
            for job in jobs {
                let mut of_job = Vec::new();
                let mut observed =
                    Observed::new(&mut memory, Work::Skipped, |page, _| of_job.push(page));
                program.run(job, &mut observed).unwrap();
                of_job.sort_unstable();
                of_job.dedup();
                pages.push((job, of_job));
            }
            pages.sort_unstable();
            pages
        };
        assert_eq!(touched((0..300).collect()), touched((0..300).rev().collect()), "{name}");
    }
}

#[test]
fn the_work_of_a_job_is_done_in_full() {
    const WORK: u64 = 1003;
    for name in Kind::ALL.map(Kind::name) {
        let program = program(name, 100, Scatter::Pages).with_work(WORK);
        let mut memory = plain(&program);
        // A transaction of Silo computes by the rows it touches.
        let silo = (name == SiloTpcc::NAME).then(|| {
            let dataset_bytes = program.size_bytes().max(SiloTpcc::MIN_BYTES);
            let mut silo = SiloTpcc::with_shape(&Shape { dataset_bytes, ..Shape::default() });
            silo.set_work(WORK);
            silo
        });
        let (mut expected, jobs) = (0, 500);
        for job in 1..=jobs {
            program.run(job, &mut memory).unwrap();
            expected += silo.as_ref().map_or(WORK, |silo| silo.work_of(job));
            assert_eq!(memory.worked, expected, "{name}");
        }
    }
}

#[test]
fn an_observer_sees_every_access_with_its_page_and_kind() {
    let Program::ArraySwap(array) = program("array-swap", 2, Scatter::Pages) else { panic!() };
    let array = Program::ArraySwap(array).with_work(100);
    let mut memory = plain(&array);
    for (work, worked) in [(Work::Skipped, 0), (Work::Done, 100)] {
        memory.accesses = 0;
        let (mut reads, mut writes) = (0, 0);
        let mut observed = Observed::new(&mut memory, work, |page, write| {
            assert!(page.0 < 2);
            *if write { &mut writes } else { &mut reads } += 1;
        });
        array.run(0, &mut observed).unwrap();
        // 2 touches, 2 elements, and 2 looks at each latch; 2 elements, and 2 steps of each latch.
        assert_eq!((reads, writes), (8, 6));
        assert_eq!((memory.accesses, memory.worked), (14, worked));
    }
}

#[test]
fn swaps_do_what_a_plain_array_does() {
    for scatter in SCATTERS {
        let Program::ArraySwap(array) = program("array-swap", 3, scatter) else { panic!() };
        let mut memory = plain(&array);
        let mut model: Vec<u64> = (0..array.elements()).collect();
        for job in 0..5000 {
            let [a, b] = array.job(job).map(|place| place as usize);
            array.run(job, &mut memory).unwrap();
            model.swap(a, b);
        }
        for (place, &identity) in (0..).zip(&model) {
            let found = array.get(&mut memory, place).unwrap();
            let expected = Element { version: found.version, ..Element::new(identity) };
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn every_key_of_the_hash_table_is_found_and_no_other() {
    for scatter in SCATTERS {
        let Program::HashTable(table) = program("hash-table", 51, scatter) else { panic!() };
        let mut memory = plain(&table);
        assert_eq!(table.keys(), 3 * 1024);
        for key in 0..table.keys() {
            assert_eq!(table.get(&mut memory, key), Ok(Some(Entry::new(key, 0))));
        }
        assert_eq!(table.get(&mut memory, table.keys()), Ok(None));
    }
}

#[test]
fn hash_chains_are_as_long_as_random_ones() {
    let Program::HashTable(table) = program("hash-table", 17 * 20, Scatter::Keys) else { panic!() };
    let mut memory = plain(&table);
    let keys = table.keys();
    (0..keys).for_each(|key| assert!(table.get(&mut memory, key).unwrap().is_some()));
    // One head and, with 16 keys on 8 buckets, 1 + 15 / (2 · 8) nodes a look-up.
    let per_lookup = memory.accesses as f64 / keys as f64;
    assert!((per_lookup - 2.9375).abs() < 0.02, "{per_lookup}");
}

#[test]
fn updates_of_the_hash_table_are_found() {
    let Program::HashTable(table) = program("hash-table", 17, Scatter::Keys) else { panic!() };
    let mut memory = plain(&table);
    let mut model = HashMap::new();
    for job in 0..500 {
        for key in table.job(job) {
            let version = model.entry(key).and_modify(|version| *version += 1).or_insert(1);
            assert_eq!(table.update(&mut memory, key), Ok(Some(Entry::new(key, *version))));
        }
        table.run(job, &mut memory).unwrap();
    }
    for key in 0..table.keys() {
        let version = model.get(&key).copied().unwrap_or(0);
        assert_eq!(table.get(&mut memory, key), Ok(Some(Entry::new(key, version))));
    }
    assert_eq!(table.update(&mut memory, u64::MAX), Ok(None));
}

/// Walks the subtree at `at` in key order; its black height.
fn walk(
    tree: &RedBlackTree,
    memory: &mut Plain,
    at: Option<Addr>,
    parent_red: bool,
    keys: &mut Vec<u64>,
) -> u32 {
    let Some(at) = at else { return 1 };
    let node = tree.node(memory, at).unwrap();
    assert!(!(node.is_red && parent_red), "red under red at {at:?}");
    let [left, right] = node.children;
    let left_height = walk(tree, memory, left, node.is_red, keys);
    keys.push(node.key);
    let right_height = walk(tree, memory, right, node.is_red, keys);
    assert_eq!(left_height, right_height, "black heights below {at:?}");
    left_height + u32::from(!node.is_red)
}

#[test]
fn the_image_is_a_red_black_tree_and_every_key_is_found() {
    for scatter in SCATTERS {
        for pages in [3, 4, 9, 66, 67, 70, 200] {
            let Program::RedBlackTree(tree) = program("red-black-tree", pages, scatter) else {
                panic!()
            };
            let mut memory = plain(&tree);
            let mut keys = Vec::new();
            let root = tree.root();
            assert!(!tree.node(&mut memory, root).unwrap().is_red);
            walk(&tree, &mut memory, Some(root), false, &mut keys);
            assert!(keys.into_iter().eq(0..tree.keys()), "{pages} pages");
            for key in 0..tree.keys() {
                assert_eq!(tree.get(&mut memory, key), Ok(Some(RedBlackTree::value(key))));
            }
            assert_eq!(tree.get(&mut memory, tree.keys()), Ok(None));
        }
    }
}

#[test]
fn tatp_transactions_find_their_facility_five_times_in_eight() {
    let Program::Tatp(tatp) = program("tatp", 2000, Scatter::Keys) else { panic!() };
    let mut memory = plain(&tatp);
    let existing: usize = (1..=tatp.subscribers())
        .map(|s_id| {
            let row = tatp.get(&mut memory, s_id).unwrap().unwrap();
            let facilities = row.data_a.iter().flatten().count();
            assert!((1..=4).contains(&facilities));
            facilities
        })
        .sum();
    let per_subscriber = existing as f64 / tatp.subscribers() as f64;
    assert!((per_subscriber - 2.5).abs() < 0.03, "{per_subscriber} facilities");
    let mut committed = 0;
    for job in 0..20_000 {
        committed += u32::from(tatp.update(&mut memory, tatp.job(job)).unwrap().is_some());
    }
    // A few hot subscribers weigh much, hence the wide bound.
    assert!((0.5..0.75).contains(&(f64::from(committed) / 20_000.0)), "{committed}");
}

#[test]
fn tatp_does_what_a_plain_table_does() {
    let Program::Tatp(tatp) = program("tatp", 4, Scatter::Pages) else { panic!() };
    let mut memory = plain(&tatp);
    let mut model: HashMap<u64, _> = (1..=tatp.subscribers())
        .map(|s_id| (s_id, tatp.get(&mut memory, s_id).unwrap().unwrap()))
        .collect();
    for job in 0..5000 {
        let update = tatp.job(job);
        let row = model.get_mut(&update.s_id).unwrap();
        let facility = update.sf_type as usize - 1;
        if row.data_a[facility].is_some() {
            row.data_a[facility] = Some(update.data_a);
            row.bit_1 = update.bit_1;
            row.commits[facility] += 1;
        }
        tatp.run(job, &mut memory).unwrap();
    }
    for (s_id, row) in model {
        assert_eq!(tatp.get(&mut memory, s_id), Ok(Some(row)));
    }
    assert_eq!(tatp.get(&mut memory, 0), Ok(None));
    assert_eq!(tatp.get(&mut memory, tatp.subscribers() + 1), Ok(None));
}

#[test]
fn lookups_beside_updates_find_whole_entries() {
    let Program::HashTable(table) = program("hash-table", 17, Scatter::Keys) else { panic!() };
    for seed in 0..20 {
        let words = Shared::new(&image(&table));
        let versions = interleave(&words, 3, seed, |_, memory| {
            let mut mine = Vec::new();
            for key in [0, 1, 0, 1, 0] {
                let seen = table.get(memory, key).unwrap().unwrap();
                assert_eq!(seen, Entry::new(key, seen.version));
                let wrote = table.update(memory, key).unwrap().unwrap();
                assert!(wrote.version > seen.version);
                mine.push((key, wrote.version));
            }
            mine
        });
        let mut versions = versions.concat();
        versions.sort_unstable();
        let expected: Vec<(u64, u64)> =
            (1..=9).map(|v| (0, v)).chain((1..=6).map(|v| (1, v))).collect();
        assert_eq!(versions, expected, "every update counts once");
    }
}

#[test]
fn array_elements_lie_a_line_each() {
    let Program::ArraySwap(array) = program("array-swap", 2, Scatter::Pages) else { panic!() };
    let memory = plain(&array);
    assert_eq!(memory.size_bytes(), array.elements() * 64);
    assert_eq!(array.address(65), Addr(4096 + 64));
    assert_eq!(ArraySwap::MIN_BYTES, 4096);
    assert_eq!(HashTable::MIN_BYTES, 17 * 4096);
}
