//! The library that programs embed: stores that a builder opens, maps that are found by name, and errors that
//! name what is wrong.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::Path;

use ebbtide_engine::embedded::{Builder, Error, MAPS_MAX, OrderedMap, Store, order_bytes_for};
use ebbtide_engine::{Dictionary, Options};
use proptest::prelude::*;

fn small(path: &Path) -> Builder {
    Store::builder(path).dram("8MiB")
}

fn new(path: &Path) -> Store {
    small(path).size("4MiB").open().expect("a store")
}

fn count(value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value.try_into().expect("8 bytes")))
}

fn increment(old: Option<&[u8]>) -> Option<Vec<u8>> {
    Some((count(old) + 1).to_le_bytes().to_vec())
}

#[test]
fn increments_of_many_threads_are_all_there() {
    let folder = tempfile::tempdir().unwrap();
    let options = small(&folder.path().join("store")).size("4MiB").cores(2);
    let store = options.durability("every:1s").open().unwrap();
    let (map, ordered) = (store.map("counts").unwrap(), store.ordered_map("in order").unwrap());
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                for _ in 0..1_600 {
                    map.update("all", increment).unwrap();
                }
                (0..100).for_each(|_| drop(ordered.update("all", increment).unwrap()));
            });
        }
    });
    assert_eq!(count(map.get("all").unwrap().as_deref()), 12_800);
    assert_eq!(count(ordered.get("all").unwrap().as_deref()), 800);
}

#[test]
fn maps_are_found_by_name_when_the_store_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = new(&path);
    for (number, name) in ["users", "orders"].into_iter().enumerate() {
        let map = store.map(name).unwrap();
        assert!(map.insert("name", name).unwrap());
        assert!(map.insert("number", number.to_string()).unwrap());
        assert!(!map.insert("number", number.to_string()).unwrap());
    }
    let days = store.ordered_map("days").unwrap();
    for day in 1..=31 {
        assert!(days.insert(format!("{day:02}"), vec![day; 9_000]).unwrap());
    }
    drop((store, days));

    let store = small(&path).open().unwrap();
    assert_eq!(store.names().unwrap(), ["days", "orders", "users"]);
    let users = store.map("users").unwrap();
    assert_eq!(users.get("name").unwrap().as_deref(), Some(&b"users"[..]));
    assert_eq!(users.get("none").unwrap(), None);
    let mut pairs: Vec<_> = users.iter().map(Result::unwrap).collect();
    pairs.sort();
    assert_eq!(pairs, [(b"name".to_vec(), b"users".to_vec()), (b"number".to_vec(), b"0".to_vec())]);
    assert!(users.remove("name").unwrap() && !users.remove("name").unwrap());
    assert_eq!((users.len().unwrap(), store.map("orders").unwrap().len().unwrap()), (1, 2));
    let days = store.ordered_map("days").unwrap();
    let ends: Vec<_> = days.range("09"..="11").map(|pair| pair.unwrap().1[0]).collect();
    assert_eq!(ends, [9, 10, 11]);
    let error = store.map("days").unwrap_err().to_string();
    assert_eq!(error, "'days' is an ordered map, expected a map");
}

#[test]
fn what_is_changed_survives_as_one_and_a_given_up_transaction_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = small(&path).size("4MiB").structures("1MiB").open().unwrap();
    let totals = store.vector::<u64>("totals", 10).unwrap();
    let by_user = store.typed_map::<u64, [u64; 2]>("by user", 100).unwrap();
    let given_up: Result<(), Error> = store.transaction(move |memory| {
        totals.set(memory, 3, 7);
        by_user.insert(memory, 1, [2, 3])?;
        Err(Error::program("no"))
    });
    assert_eq!(given_up.unwrap_err().to_string(), "no");
    assert_eq!(store.run(move |memory| Ok(totals.get(memory, 3))).unwrap(), 0);
    store
        .transaction(move |memory| {
            totals.set(memory, 3, 9);
            Ok(by_user.insert(memory, 1, [2, 3])?)
        })
        .unwrap();
    let jobs: Vec<_> = (0..10u64)
        .map(|n| store.submit(move |memory| Ok(totals.get(memory, 3) + n)).unwrap())
        .collect();
    let sums: Vec<u64> = jobs.into_iter().map(|job| job.wait().unwrap()).collect();
    assert_eq!(sums, (9..19).collect::<Vec<_>>());
    let panicked = store.run(|_| -> Result<(), Error> { panic!("in the job") }).unwrap_err();
    assert!(panicked.to_string().contains("in the job"), "{panicked}");
    drop(store);
    let store = small(&path).open().unwrap();
    let totals = store.vector::<u64>("totals", 10).unwrap();
    assert_eq!(store.run(move |memory| Ok(totals.get(memory, 3))).unwrap(), 9);
    let error = store.vector::<u64>("totals", 11).unwrap_err().to_string();
    assert!(error.contains("'totals' is a vector of 10 values"), "{error}");
}

#[test]
fn an_error_names_the_option_or_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let said = |builder: Builder| builder.open().unwrap_err().to_string();
    for (builder, start) in [
        (small(&path).size("much"), "size: 'much' is not a size"),
        (small(&path).size("4KiB"), "size: 4KiB, expected 256KiB to "),
        (small(&path).size("4MiB").dram("1KiB"), "dram: a DRAM budget of 1024 bytes is too small"),
        (small(&path).dram("0.5 pages"), "dram: '0.5 pages' is not a size"),
        (small(&path).size("4MiB").cores(0), "cores: the number of cores must be 1 to 1024"),
        (small(&path).durability("seldom"), "durability: 'seldom' is no durability policy"),
        (small(&path).order("1"), "order: 1B, expected 32KiB to "),
        (small(&path).structures("x"), "structures: 'x' is not a size"),
    ] {
        let said = said(builder);
        assert!(said.starts_with(start), "{said}");
    }
    assert!(!path.exists(), "nothing was made");
    let store = new(&path);
    let (map, ordered) = (store.map("m").unwrap(), store.ordered_map("o").unwrap());
    let long = |result: Result<bool, Error>| result.unwrap_err().to_string();
    assert_eq!(long(map.insert([0; 1025], "")), "a key of 1025 bytes, expected at most 1024");
    assert_eq!(long(map.insert("", [0; 32_705])), "a value of 32705 bytes, expected at most 32704");
    assert_eq!(
        long(ordered.insert([0; 63], "")),
        "a key of 63 bytes, expected at most 62 in an ordered map"
    );
    assert!(map.insert([0; 1024], [0; 32_704]).unwrap() && ordered.insert([255; 62], "").unwrap());
    let error = store.vector::<u64>("v", 1).unwrap_err().to_string();
    assert!(error.starts_with("structures: none, expected room"), "{error}");
    (2..MAPS_MAX).for_each(|number| drop(store.map(&number.to_string()).unwrap()));
    assert_eq!(store.map("one more").unwrap_err().to_string(), "a store has at most 15 maps");
    assert!(store.map("").is_err() && store.map(&"n".repeat(65)).is_err());
    assert_eq!(store.map("m").unwrap().len().unwrap(), 1);
    drop((store, map, ordered));
    let error = small(&path).size("8MiB").open().unwrap_err().to_string();
    assert_eq!(error, "size: 8MiB, expected 4MiB, which the store has, or none");
}

#[test]
fn a_store_is_replaced_only_if_asked_and_another_file_never() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = new(&path);
    store.map("m").unwrap().insert("a", "1").unwrap();
    let error = small(&path).open().unwrap_err().to_string();
    assert!(error.contains("in use"), "{error}");
    drop(store);
    let store = small(&path).size("8MiB").replace(true).open().unwrap();
    assert!(store.map("m").unwrap().is_empty().unwrap());
    drop(store);
    let diary = folder.path().join("diary");
    fs::write(&diary, "a diary\n".repeat(2_000)).unwrap();
    for replace in [false, true] {
        let error = new_error(&diary, replace);
        assert!(error.contains("not an Ebbtide data file"), "{error}");
    }
    assert_eq!(fs::read_to_string(&diary).unwrap().len(), 16_000);
    let other = folder.path().join("dictionary");
    let size = ebbtide_core::Bytes(1 << 20);
    drop(Dictionary::open(&other, None, size, &Options::new(8 << 20)).unwrap());
    assert!(new_error(&other, false).contains("holds 'dictionary'"));
}

fn new_error(path: &Path, replace: bool) -> String {
    small(path).size("4MiB").replace(replace).open().unwrap_err().to_string()
}

#[test]
fn a_full_store_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = small(&path).size("512KiB").order("64KiB").durability("none");
    let store = options.open().unwrap();
    let map = store.map("m").unwrap();
    let fitted = (0..100u32)
        .take_while(|number| match map.insert(number.to_le_bytes(), [1; 30_000]) {
            Ok(_) => true,
            Err(error) => {
                assert!(error.to_string().starts_with("the store is full"), "{error}");
                false
            }
        })
        .count();
    assert!((5..100).contains(&fitted), "{fitted} values");
    assert_eq!(map.len().unwrap(), fitted as u64);
    assert!((0..fitted as u32).all(|number| map.remove(number.to_le_bytes()).unwrap()));
    // The order may be full as well. The key then has no value either.
    let ordered = store.ordered_map("o").unwrap();
    let fitted = (0..5_000u32).take_while(|n| ordered.insert(n.to_be_bytes(), "").is_ok()).count();
    assert!((100..5_000).contains(&fitted), "{fitted} keys");
    assert_eq!((ordered.len().unwrap(), ordered.iter().count()), (fitted as u64, fitted));
    assert!(order_bytes_for(fitted as u64) >= 64 << 10);
}

/// The start and the end of a range.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

fn pairs_of(map: &OrderedMap, range: Bounds) -> Vec<(Vec<u8>, Vec<u8>)> {
    map.range(range).map(Result::unwrap).collect()
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0, 1, 255u8]), 0..5)
}

fn bounds() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        keys().prop_map(Bound::Included),
        keys().prop_map(Bound::Excluded),
        Just(Bound::Unbounded)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]
    #[test]
    fn an_ordered_map_is_that_of_std(
        changes in prop::collection::vec((keys(), any::<Option<u8>>()), 0..200),
        ranges in prop::collection::vec((bounds(), bounds()), 20),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let options = small(&folder.path().join("store")).size("4MiB").durability("none");
        let store = options.open().unwrap();
        // Neighbours in the same order.
        let others = ["before", "after"].map(|name| store.ordered_map(name).unwrap());
        let (map, mut model) = (store.ordered_map("map").unwrap(), BTreeMap::new());
        for (number, (key, value)) in changes.into_iter().enumerate() {
            match value {
                Some(value) => {
                    let is_new = model.insert(key.clone(), vec![value]).is_none();
                    prop_assert_eq!(map.insert(&key, vec![value]).unwrap(), is_new);
                }
                None => {
                    let was_there = model.remove(&key).is_some();
                    prop_assert_eq!(map.remove(&key).unwrap(), was_there);
                }
            }
            others[number % 2].insert(&key, "other").unwrap();
        }
        let all: Vec<_> = model.clone().into_iter().collect();
        prop_assert_eq!(map.iter().map(Result::unwrap).collect::<Vec<_>>(), all);
        for (start, end) in ranges {
            // What std refuses to range over is empty.
            let inside = |key: &Vec<u8>| {
                let after = match &start {
                    Bound::Included(start) => key >= start,
                    Bound::Excluded(start) => key > start,
                    Bound::Unbounded => true,
                };
                after && match &end {
                    Bound::Included(end) => key <= end,
                    Bound::Excluded(end) => key < end,
                    Bound::Unbounded => true,
                }
            };
            let expected: Vec<_> =
                model.iter().filter(|(key, _)| inside(key)).map(|(k, v)| (k.clone(), v.clone())).collect();
            prop_assert_eq!(pairs_of(&map, (start.clone(), end.clone())), expected);
        }
    }
}
