//! The tree against an ordered map: every operation, keys that force layers, splits and joins.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ebbtide_core::{Addr, PAGE_BYTES};
use ebbtide_structures::Corrupt;
use ebbtide_testbed::Plain;
use ebbtide_workloads::masstree::{KEY_BYTES_MAX, Tree};
use proptest::prelude::*;

/// The start of the trees of these tests. It is not 0, where a wrong zero would do no harm.
const START: Addr = Addr(3 * PAGE_BYTES as u64);

/// A tree of `keys` keys and the memory it lies in.
fn tree(keys: u64, more: u64) -> (Tree, Plain) {
    super::tree(START, keys, more, entry)
}

/// The initial key and value of a rank.
fn entry(rank: u64) -> (u64, u64) {
    (rank * 10 + 5, !rank)
}

fn initial(keys: u64) -> BTreeMap<Vec<u8>, u64> {
    (0..keys).map(entry).map(|(key, value)| (key.to_be_bytes().to_vec(), value)).collect()
}

/// All keys from `from` on, as a scan of the tree returns them.
fn scanned(tree: &Tree, m: &mut Plain, from: &[u8]) -> Result<Vec<(Vec<u8>, u64)>, Corrupt> {
    let mut found = Vec::new();
    tree.scan(m, from, |key, value| {
        found.push((key.to_vec(), value));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

fn expected(model: &BTreeMap<Vec<u8>, u64>, from: &[u8]) -> Vec<(Vec<u8>, u64)> {
    model.range(from.to_vec()..).map(|(key, &value)| (key.clone(), value)).collect()
}

#[derive(Debug, Clone)]
enum Step {
    Put(Vec<u8>, u64),
    Insert(Vec<u8>, u64),
    Remove(Vec<u8>),
    Get(Vec<u8>),
    Scan(Vec<u8>),
}

/// Keys that share slices and suffixes: runs of few letters, of any length.
fn crowded_key() -> BoxedStrategy<Vec<u8>> {
    let run = (0u8..3, 0usize..20).prop_map(|(letter, len)| vec![letter; len]);
    let keys = prop::collection::vec(run, 0..5).prop_map(|runs| {
        let mut key = runs.concat();
        key.truncate(KEY_BYTES_MAX);
        key
    });
    keys.boxed()
}

fn short_key() -> BoxedStrategy<Vec<u8>> {
    (0u64..3000).prop_map(|key| key.to_be_bytes().to_vec()).boxed()
}

fn step(key: BoxedStrategy<Vec<u8>>) -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (key.clone(), any::<u64>()).prop_map(|(key, value)| Step::Put(key, value)),
        3 => (key.clone(), any::<u64>()).prop_map(|(key, value)| Step::Insert(key, value)),
        4 => key.clone().prop_map(Step::Remove),
        2 => key.clone().prop_map(Step::Get),
        1 => key.prop_map(Step::Scan),
    ]
}

fn check(keys: u64, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let (tree, mut m) = tree(keys, 600);
    let mut model = initial(keys);
    for step in steps {
        match step {
            Step::Put(key, value) => {
                prop_assert_eq!(tree.put(&mut m, &key, value), Ok(model.insert(key, value)));
            }
            Step::Insert(key, value) => {
                let present = model.get(&key).copied();
                let found = tree.insert_seen(&mut m, &key, value, |_| ());
                prop_assert_eq!(found, Ok(present));
                model.entry(key).or_insert(value);
            }
            Step::Remove(key) => {
                prop_assert_eq!(tree.remove(&mut m, &key), Ok(model.remove(&key)));
            }
            Step::Get(key) => {
                prop_assert_eq!(tree.get(&mut m, &key), Ok(model.get(&key).copied()));
            }
            Step::Scan(from) => {
                prop_assert_eq!(scanned(&tree, &mut m, &from), Ok(expected(&model, &from)));
            }
        }
    }
    for (key, value) in &model {
        prop_assert_eq!(tree.get(&mut m, key), Ok(Some(*value)));
    }
    prop_assert_eq!(scanned(&tree, &mut m, &[]), Ok(expected(&model, &[])));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn keys_that_share_prefixes_do_what_an_ordered_map_does(
        steps in prop::collection::vec(step(crowded_key()), 1..400),
    ) {
        check(0, steps)?;
    }

    #[test]
    fn short_keys_split_and_join_as_an_ordered_map_does(
        keys in 0u64..2000,
        steps in prop::collection::vec(step(short_key()), 1..600),
    ) {
        check(keys, steps)?;
    }
}

#[test]
fn many_keys_come_and_go_in_any_order() {
    let (tree, mut m) = tree(0, 3000);
    let count = 20_000u64;
    let key = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).to_be_bytes();
    for round in 0..3 {
        for i in 0..count {
            assert_eq!(tree.put(&mut m, &key(i), i + round), Ok(None));
        }
        assert_eq!(scanned(&tree, &mut m, &[]).unwrap().len(), count as usize);
        for i in 0..count {
            assert_eq!(tree.remove(&mut m, &key(count - 1 - i)), Ok(Some(count - 1 - i + round)));
        }
        assert_eq!(scanned(&tree, &mut m, &[]), Ok(vec![]));
    }
}
