//! The Masstree program: its tree is whole at any size, and its puts are all counted.

use ebbtide_core::PAGE_BYTES;
use ebbtide_testbed::{Shared, race};
use ebbtide_workloads::{Masstree, Program, Scatter, Shape, Workload};

use crate::common::{image, plain, program, sparse};

fn store(dataset_bytes: u64, scatter: Scatter) -> Masstree {
    let shape = Shape { dataset_bytes, scatter, ..Shape::default() };
    match Program::new("masstree", &shape).unwrap() {
        Program::Masstree(store) => store,
        _ => unreachable!(),
    }
}

#[test]
fn the_store_s_tree_is_whole_page_by_page_too() {
    for scatter in [Scatter::Pages, Scatter::Keys] {
        let store = store(200 * PAGE_BYTES as u64, scatter);
        let whole = store.tree().census(&mut plain(&store)).unwrap();
        let sparse = store.tree().census(&mut sparse(&store)).unwrap();
        assert_eq!(whole, sparse);
        assert_eq!(whole.keys, store.keys());
    }
}

#[test]
fn a_store_of_256_gib_gives_any_key_by_touching_a_page_a_level() {
    let store = store(256 << 30, Scatter::Keys);
    let mut memory = sparse(&store);
    for number in [0, 1, 127, 128, store.keys() / 3, store.keys() - 1] {
        let before = memory.pages.len();
        assert_eq!(store.get(&mut memory, number).unwrap().version, 0);
        // Nine levels of the tree, and the record.
        assert!(memory.pages.len() - before <= 10, "key {number}");
    }
}

#[test]
fn the_store_s_tree_changes_shape_but_not_size_for_long() {
    let store = store(17 * PAGE_BYTES as u64, Scatter::Pages);
    let mut memory = plain(&store);
    let fresh = store.tree().census(&mut memory).unwrap();
    let mut last = fresh;
    for round in 0..10 {
        for job in 0..20_000 {
            store.run(round * 20_000 + job, &mut memory).unwrap();
        }
        last = store.tree().census(&mut memory).unwrap();
        assert!(last.keys > fresh.keys && last.keys <= fresh.keys + 4 * 15, "{last:?}");
        assert!(last.border_nodes <= fresh.border_nodes + 4 * 2, "{last:?}");
    }
    assert!(last.border_nodes > fresh.border_nodes);
}

#[test]
fn puts_of_a_record_are_all_counted() {
    let Program::Masstree(store) = program("masstree", 40, Scatter::Keys) else { panic!() };
    let words = Shared::new(&image(&store));
    let versions = race(&words, |_, memory| {
        let put = |i: u64| store.put(memory, i % 3).unwrap().version;
        (0..3000).map(put).collect::<Vec<u64>>()
    });
    let mut memory = words.into_plain();
    for number in 0..3 {
        assert_eq!(store.get(&mut memory, number).unwrap().version, 2000);
    }
    assert!(versions.iter().all(|versions| versions.len() == 3000));
}
