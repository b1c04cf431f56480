//! A fresh tree is whole at any size. Damage to one is noticed and ends every walk.

use std::ops::ControlFlow;

use ebbtide_core::{Addr, FullMemory, PageId};
use ebbtide_testbed::{Plain, run_with_fault, words_of_page};
use ebbtide_workloads::masstree::{Census, Changed, KEY_BYTES_MAX, Seen, Tree, Visitor};

/// A tree of the keys 10, 20, … and the memory it lies in.
fn tree(keys: u64, more: u64) -> (Tree, Plain) {
    super::tree(Addr(0), keys, more, |rank| (10 * (rank + 1), rank))
}

fn keys_in_order<M: FullMemory>(tree: &Tree, m: &mut M) -> Result<Vec<Vec<u8>>, String> {
    let mut keys = Vec::new();
    let scanned = tree.scan(m, &[], |key, _| {
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    });
    scanned.map(|()| keys).map_err(|wrong| wrong.to_string())
}

#[test]
fn fresh_trees_of_every_size_are_whole() {
    for keys in (0..40).chain([127, 128, 129, 500, 2_000, 30_000]) {
        let (tree, mut m) = tree(keys, 0);
        let census = tree.census(&mut m).unwrap();
        let expected = Census {
            keys,
            layers: 1,
            border_nodes: census.border_nodes,
            interior_nodes: census.interior_nodes,
            empty_nodes: u64::from(keys == 0),
            suffixes: 0,
        };
        assert_eq!(census, expected);
        // Room for four or five keys in each.
        assert!(keys < 500 || (10.0..11.0).contains(&(keys as f64 / census.border_nodes as f64)));
        for rank in 0..keys {
            let key = 10 * (rank + 1);
            assert_eq!(tree.get(&mut m, &key.to_be_bytes()), Ok(Some(rank)));
            assert_eq!(tree.get(&mut m, &(key + 1).to_be_bytes()), Ok(None));
        }
    }
}

#[test]
fn a_queue_for_ever_needs_no_more_nodes() {
    let (tree, mut m) = tree(0, 150);
    let queued = 600u64;
    for key in 0..60_000u64 {
        assert_eq!(tree.put(&mut m, &key.to_be_bytes(), key), Ok(None));
        if let Some(old) = key.checked_sub(queued) {
            assert_eq!(tree.remove(&mut m, &old.to_be_bytes()), Ok(Some(old)));
        }
    }
    let census = tree.census(&mut m).unwrap();
    assert_eq!(census.keys, queued);
    assert!(census.border_nodes + census.interior_nodes < 100, "{census:?}");
}

#[test]
fn a_full_tree_says_so_and_stays_whole() {
    let (tree, mut m) = tree(0, 12);
    let key = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let full = (0..100_000).find(|&i| tree.put(&mut m, &key(i), i).is_err()).unwrap();
    let error = tree.put(&mut m, &key(full), full).unwrap_err().to_string();
    assert!(error.contains("no room"), "{error}");
    assert!((0..full).all(|i| tree.get(&mut m, &key(i)) == Ok(Some(i))));
    tree.scan(&mut m, &[], |_, _| ControlFlow::Continue(())).unwrap();
}

#[test]
fn any_damaged_word_is_noticed_or_does_no_harm_and_no_walk_is_endless() {
    let (tree, clean) = tree(300, 20);
    let mut clean = Plain::new(clean.words);
    for key in ["suffixes are long", "suffixes are longer", "suffixes aren't"] {
        tree.put(&mut clean, key.as_bytes(), 1).unwrap();
    }
    let keys = keys_in_order(&tree, &mut clean).unwrap();
    let bits = [3, 17, 33, 60];
    for (word, bit) in (0..clean.words.len()).map(|word| (word, bits[word % bits.len()])) {
        let mut m = Plain::new(clean.words.clone());
        m.words[word] ^= 1 << bit;
        for key in keys.iter().step_by(7) {
            // Values are the caller's to check; a key must not get lost.
            assert_ne!(tree.get(&mut m, key), Ok(None), "word {word}");
        }
        if let Ok(found) = keys_in_order(&tree, &mut m) {
            assert_eq!(found, keys, "word {word}");
        }
        for key in keys.iter().step_by(50) {
            let _noticed_or_not = tree.put(&mut m, &[&key[..], b"x"].concat(), 5);
            let _noticed_or_not = tree.remove(&mut m, key);
        }
    }
}

#[test]
fn pages_that_are_garbage_or_of_another_tree_are_errors() {
    let (tree, clean) = tree(3000, 20);
    let other = Tree::new(Addr(0), Tree::bytes(3000, 20), 3000, 8);
    let entry = |rank| (10 * (rank + 1), rank);
    let foreign = words_of_page(PageId(0), |page, out| other.image(page, entry, out));
    for page in [vec![0; 512], vec![u64::MAX; 512], vec![3; 512], vec![5; 512], foreign] {
        let mut m = Plain::new(clean.words.clone());
        m.words[..512].copy_from_slice(&page);
        let key = 10u64.to_be_bytes();
        assert!(tree.get(&mut m, &key).is_err());
        assert!(tree.put(&mut m, &key, 1).is_err());
        assert!(tree.remove(&mut m, &key).is_err());
        assert!(keys_in_order(&tree, &mut m).is_err());
    }
}

#[test]
fn a_fault_in_an_operation_leaves_no_lock_and_no_half_truth() {
    // Keys such that operations split nodes, make layers and join.
    let key = |i: u64| match i % 3 {
        0 => i.to_be_bytes().to_vec(),
        1 => format!("a long prefix, then {i}").into_bytes(),
        _ => (1 << 40 | i).to_be_bytes().to_vec(),
    };
    let prepared = || {
        let (tree, mut m) = tree(0, 100);
        (0..60).for_each(|i| assert_eq!(tree.put(&mut m, &key(i), i), Ok(None)));
        (tree, m)
    };
    for (i, removes) in (0..66).step_by(5).map(|i| (i, i < 60)) {
        for faulty in 0..200 {
            let (tree, mut m) = prepared();
            let (result, _) = run_with_fault(&mut m, faulty, |m| match removes {
                true => tree.remove(m, &key(i)),
                false => tree.put(m, &key(i), i),
            });
            let done = result.is_ok();
            // A lock left behind would make this wait, which a plain memory refuses.
            for other in (0..60).filter(|&other| other != i) {
                // A node whose change was cut off is an error, never a wrong answer.
                if let Ok(found) = tree.get(&mut m, &key(other)) {
                    assert_eq!(found, Some(other), "key {i}, fault {faulty}");
                }
                let _error_or_not = tree.put(&mut m, &key(other), other);
            }
            if done {
                break;
            }
            assert!(faulty < 199, "the operation takes more accesses than were tried");
        }
    }
}

/// Remembers which nodes a scan depends on.
struct Nodes(Vec<Seen>, usize);

impl Visitor for Nodes {
    fn node(&mut self, seen: Seen) {
        self.0.push(seen);
    }
    fn entry(&mut self, _key: &[u8], _value: u64) -> ControlFlow<()> {
        self.1 += 1;
        ControlFlow::Continue(())
    }
}

#[test]
fn every_phantom_changes_a_node_that_was_seen() {
    let (tree, mut m) = tree(100, 200);
    for i in 0..300u64 {
        let key = match i % 3 {
            0 => (i * 7 % 1000 + 1).to_be_bytes().to_vec(),
            1 => [10u64.to_be_bytes().to_vec(), vec![7; i as usize % 40 + 1]].concat(),
            _ => vec![b'p'; i as usize % (KEY_BYTES_MAX + 1)],
        };
        let mut scan = Nodes(Vec::new(), 0);
        tree.scan_seen(&mut m, &[], &mut scan).unwrap();
        let (before, miss) = tree.get_seen(&mut m, &key).unwrap();
        let mut changes: Vec<Changed> = Vec::new();
        let found = tree.insert_seen(&mut m, &key, i, |changed| changes.push(changed)).unwrap();
        assert_eq!(found, before);
        let holds = |m: &mut Plain, seen: &Seen| tree.version_of(m, seen.node) == Ok(seen.version);
        assert_eq!(scan.0.iter().all(|seen| holds(&mut m, seen)), found.is_some());
        assert_eq!(holds(&mut m, &miss), found.is_some());
        // Who made the change himself goes on with what it says.
        for changed in changes {
            for depends in [&mut scan.0, &mut vec![miss]] {
                if let Some(index) = depends.iter().position(|seen| *seen == changed.before) {
                    depends.swap_remove(index);
                    depends.extend(changed.after.into_iter().flatten());
                }
            }
        }
        let mut again = Nodes(Vec::new(), 0);
        tree.scan_seen(&mut m, &[], &mut again).unwrap();
        let sorted = |mut seen: Vec<Seen>| {
            seen.sort_unstable_by_key(|seen| (seen.node, seen.version));
            seen
        };
        assert_eq!(sorted(scan.0), sorted(again.0), "insert {i}");
        // A removal shows too.
        if i % 4 == 0 {
            let (_, seen) = tree.get_seen(&mut m, &key).unwrap();
            tree.remove(&mut m, &key).unwrap();
            assert!(!holds(&mut m, &seen));
        }
    }
}
