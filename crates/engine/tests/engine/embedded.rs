//! The library that programs embed: stores that a builder opens, maps that are found by name, and
//! errors that name what is wrong.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use ebbtide_core::durability::Policy;
use ebbtide_core::{Addr, Memory, PAGE_BYTES};
use ebbtide_engine::embedded::{
    Builder, Error, MAPS_MAX, OrderedMap, Store, VALUE_BYTES_MAX, order_bytes_for,
};
use ebbtide_engine::store::{Access, NewStore, Store as File};
use ebbtide_engine::{Engine, FlashMemory, Options};
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
    let jobs: Vec<_> =
        (0..10u64).map(|n| store.submit(move |memory| Ok(totals.get(memory, 3) + n))).collect();
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
        (small(&path).size("4KiB"), "size: 4KiB, expected 512KiB to 3TiB"),
        (small(&path).size("3TiB"), "size: 3TiB with 384GiB for their order and 0B for structures"),
        (Store::builder(""), "path: "),
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
    assert_eq!(long(ordered.insert([0; 1025], "")), "a key of 1025 bytes, expected at most 1024");
    let value = vec![0; VALUE_BYTES_MAX as usize + 1];
    let said = "a value of 536870913 bytes, expected at most 536870912";
    assert_eq!(long(map.insert("", value)), said);
    assert!(
        map.insert([0; 1024], [0; 32_705]).unwrap() && ordered.insert([255; 1024], "").unwrap()
    );
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
    let (tag, path) = ("a diary".to_string(), folder.path().join("other"));
    let new = NewStore { path, offset: 0, pages: 256, spare_pages: 128, tag, force: true };
    drop(File::create_persistent(&new, 1 << 20).unwrap());
    assert!(new_error(&new.path, false).contains("holds 'a diary', expected 'maps 2'"));
}

#[test]
fn a_store_grows_while_threads_use_it_and_keeps_everything() {
    static VALUE: [u8; 20_000] = [3; 20_000];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let options = small(&path).size("1MiB").structures("256KiB").durability("none").cores(2);
    let store = options.open().unwrap();
    let (map, ordered) = (store.map("m").unwrap(), store.ordered_map("o").unwrap());
    let totals = store.vector::<u64>("totals", 1_000).unwrap();
    (0..10u32).for_each(|n| _ = map.insert(n.to_be_bytes(), VALUE).unwrap());
    (0..400u32).for_each(|n| _ = ordered.insert(n.to_be_bytes(), "v").unwrap());
    let set = store.transaction(move |memory| {
        totals.set(memory, 999, 7);
        Ok(())
    });
    set.unwrap();
    let fails = |size: &str| store.grow(size).unwrap_err().to_string();
    assert!(fails("1MiB").starts_with("size: 1MiB, expected more than 1MiB"));
    assert!(fails("much").starts_with("size: 'much' is not a size"));
    assert!(fails("100TiB").starts_with("size: 100TiB, expected more than"));
    assert!(fails("1TiB").starts_with("dram: a DRAM budget of 8388608 bytes is too small"));
    std::thread::scope(|threads| {
        for thread in 0..4u64 {
            let (map, ordered) = (&map, &ordered);
            threads.spawn(move || {
                for _ in 0..500 {
                    map.update(thread.to_le_bytes(), increment).unwrap();
                    ordered.update(thread.to_le_bytes(), increment).unwrap();
                }
            });
        }
        for size in ["2MiB", "5MiB", "5124KiB"] {
            store.grow(size).unwrap();
        }
    });
    // It did not fit before.
    (10..200u32).for_each(|n| _ = map.insert(n.to_be_bytes(), VALUE).unwrap());
    (400..4_000u32).for_each(|n| _ = ordered.insert(n.to_be_bytes(), "v").unwrap());
    let check = |store: &Store| {
        let (map, ordered) = (store.map("m").unwrap(), store.ordered_map("o").unwrap());
        let totals = store.vector::<u64>("totals", 1_000).unwrap();
        for thread in 0..4u64 {
            assert_eq!(count(map.get(thread.to_le_bytes()).unwrap().as_deref()), 500);
            assert_eq!(count(ordered.get(thread.to_le_bytes()).unwrap().as_deref()), 500);
        }
        assert!((0..200u32).all(|n| map.get(n.to_be_bytes()).unwrap().unwrap() == VALUE));
        let keys = ordered.iter().map(|pair| pair.unwrap().0).filter(|key| key.len() == 4);
        assert!(keys.eq((0..4_000u32).map(|n| n.to_be_bytes().to_vec())));
        assert_eq!(store.run(move |memory| Ok(totals.get(memory, 999))).unwrap(), 7);
    };
    check(&store);
    drop((store, map, ordered));
    check(&small(&path).size("5124KiB").open().unwrap());
}

#[test]
fn a_stopped_store_refuses_all_and_may_be_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = new(&path);
    let map = store.map("m").unwrap();
    let slow = store.submit(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        Ok(())
    });
    map.insert("a", "1").unwrap();
    store.stop().unwrap();
    slow.wait().unwrap();
    assert!(matches!(map.insert("a", "2"), Err(Error::Closed)));
    assert!(matches!(store.stop(), Err(Error::Closed)));
    assert!(matches!(store.grow("8MiB"), Err(Error::Closed)));
    assert_eq!(small(&path).open().unwrap().map("m").unwrap().get("a").unwrap().unwrap(), b"1");
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
    assert!(matches!(ordered.insert(5_000u32.to_be_bytes(), ""), Err(Error::Full)));
    assert_eq!((ordered.len().unwrap(), ordered.iter().count()), (fitted as u64, fitted));
    assert!(order_bytes_for(fitted as u64) >= 64 << 10);
}

/// A value of this many bytes that no other number has.
fn value_of(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (at * at + number * 31 + at / 251) as u8).collect()
}

#[test]
fn values_of_any_size_come_back_and_their_pages_as_well() {
    const SIZES: [usize; 7] = [0, 1, 4_088, 32_704, 32_705, 300_000, 3_000_000];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = small(&path).size("16MiB").durability("none").open().unwrap();
    let (map, ordered) = (store.map("m").unwrap(), store.ordered_map("o").unwrap());
    // Each size replaces each other. Together they would need several times the store.
    for (round, &bytes) in SIZES.iter().chain(SIZES.iter().rev()).chain(&SIZES).enumerate() {
        let value = value_of(round as u64, bytes);
        assert_eq!(map.insert("key", value.clone()).unwrap(), round == 0);
        ordered.insert("key", value.clone()).unwrap();
        assert_eq!(map.get("key").unwrap().unwrap(), value);
        assert_eq!(map.iter().next().unwrap().unwrap().1, value);
        assert_eq!(
            ordered.iter().map(Result::unwrap).collect::<Vec<_>>(),
            [(b"key".to_vec(), value)]
        );
    }
    let longer = |old: Option<&[u8]>| Some([old.unwrap_or_default(), &[9; 100_000]].concat());
    (0..20).for_each(|_| drop(map.update("other", longer).unwrap()));
    assert_eq!(map.get("other").unwrap().unwrap(), [9; 2_000_000]);
    let full = map.insert("no room", vec![1; 20_000_000]).unwrap_err();
    assert!(matches!(full, Error::Full), "{full}");
    assert!(!map.contains_key("no room").unwrap());
    assert!(map.remove("key").unwrap() && map.remove("other").unwrap());
    assert!(ordered.remove("key").unwrap());
    // There is as much room as in the beginning.
    (0..3).for_each(|n| _ = map.insert([n], value_of(7, 4_600_000)).unwrap());
    drop((store, map, ordered));
    let map = small(&path).open().unwrap().map("m").unwrap();
    assert!((0..3).all(|n| map.get([n]).unwrap().unwrap() == value_of(7, 4_600_000)));
}

#[test]
fn a_large_value_is_read_whole_while_others_replace_it() {
    let folder = tempfile::tempdir().unwrap();
    let options = small(&folder.path().join("store")).size("16MiB").durability("none").cores(2);
    let store = options.open().unwrap();
    let map = store.map("m").unwrap();
    map.insert("key", vec![0; 400_000]).unwrap();
    std::thread::scope(|threads| {
        for thread in 0..2u8 {
            let map = &map;
            threads.spawn(move || {
                for round in 0..40u8 {
                    map.insert("key", vec![round * 2 + thread; 400_000]).unwrap();
                }
            });
            threads.spawn(move || {
                for _ in 0..60 {
                    let value = map.get("key").unwrap().unwrap();
                    assert_eq!(value.len(), 400_000);
                    assert!(value.iter().all(|byte| *byte == value[0]));
                }
            });
        }
    });
}

#[test]
fn many_pairs_are_loaded_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = small(&folder.path().join("store")).size("16MiB").durability("none");
    let store = options.open().unwrap();
    let (map, ordered) = (store.map("m").unwrap(), store.ordered_map("o").unwrap());
    let bytes = |n: u64| match n % 1000 {
        0 => 40_000,
        n => n as usize % 50,
    };
    let pairs = || (0..5_000u64).map(|n| (n.to_be_bytes(), value_of(n, bytes(n))));
    assert_eq!((map.load(pairs()).unwrap(), ordered.load(pairs()).unwrap()), (5_000, 5_000));
    let expected: Vec<_> = pairs().map(|(key, value)| (key.to_vec(), value)).collect();
    assert_eq!(ordered.iter().map(Result::unwrap).collect::<Vec<_>>(), expected);
    let mut found: Vec<_> = map.iter().map(Result::unwrap).collect();
    found.sort();
    assert!(found == expected);
    let nothing: [(&str, &str); 0] = [];
    assert_eq!(map.load(nothing).unwrap(), 0);
    let long = map.load([("a", vec![0; 10]), ("b", vec![0; 100 << 20])]).unwrap_err();
    assert!(matches!(long, Error::Full), "{long}");
}

#[test]
fn changes_that_do_not_fit_together_leave_everything_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let store = small(&folder.path().join("store")).size("1MiB").open().unwrap();
    let map = store.map("m").unwrap();
    let mut fitted = 0u32;
    let error = loop {
        let last = fitted.to_le_bytes().to_vec();
        let changes = [("last".to_string(), last), (fitted.to_string(), vec![1; 40_000])];
        match map.apply(changes.map(|(key, value)| (key, Some(value)))) {
            Ok(()) => fitted += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Full), "{error}");
    assert!(fitted > 10);
    assert_eq!(map.get("last").unwrap().unwrap(), (fitted - 1).to_le_bytes());
    assert_eq!(map.len().unwrap(), u64::from(fitted) + 1);
    map.apply([("0", None), ("last", Some("0"))]).unwrap();
    assert_eq!(map.get("last").unwrap().unwrap(), b"0");
    let nothing: [(&str, Option<&str>); 0] = [];
    map.apply(nothing).unwrap();
}

/// The process that has made the store ends without closing it. It is run by the next test.
#[test]
fn makes_a_store_for_another_test() {
    let Some(path) = std::env::var_os("EBBTIDE_NEW_STORE") else { return };
    let store = small(path.as_ref()).size("4MiB").durability("none").open().unwrap();
    store.map("m").unwrap();
    std::process::abort();
}

#[test]
fn a_new_store_has_its_layout_after_a_crash_under_any_policy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let ended = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "embedded::makes_a_store_for_another_test"])
        .env("EBBTIDE_NEW_STORE", &path)
        .output()
        .unwrap();
    assert!(!ended.status.success());
    // Its size is not given.
    let store = small(&path).open().unwrap();
    assert!(store.map("m").unwrap().is_empty().unwrap());
}

/// Runs `job` on the memory of a closed store.
fn on_memory<R: Send + 'static>(
    path: &Path,
    job: impl FnOnce(&mut FlashMemory<'_>) -> R + Send + 'static,
) -> R {
    let file = Arc::new(File::open(path, 0, Access::Exclusive).unwrap());
    let options = Options { durability: Some(Policy::Always), ..Options::new(8 << 20) };
    let jobs = Arc::new(Engine::open(&file, &options).unwrap()).start().unwrap();
    let result = jobs.submit(job).wait().unwrap();
    jobs.stop().unwrap();
    result
}

/// The place of the word that names the keyspace. Its last byte is the version.
fn name_at(memory: &mut FlashMemory<'_>) -> Addr {
    let [_, structure_pages]: [u64; 2] = memory.load(Addr(0));
    Addr((1 + structure_pages) * PAGE_BYTES as u64)
}

/// Builds that know only the older version would take values of the current one for their own.
#[test]
fn a_store_of_an_older_version_becomes_one_of_the_current_version_when_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    new(&path).map("m").unwrap().insert("a", "1").unwrap();
    let current = on_memory(&path, |memory| {
        let at = name_at(memory);
        let current: u64 = memory.load(at);
        memory.transaction(|memory| memory.store(at, current - (1 << 56))).unwrap();
        current
    });
    assert_eq!(small(&path).open().unwrap().map("m").unwrap().get("a").unwrap().unwrap(), b"1");
    let name = on_memory(&path, |memory| {
        let at = name_at(memory);
        memory.load::<u64>(at)
    });
    assert_eq!(name, current);
}

/// A failed change frees what it has written for itself. It does not take that for room.
#[test]
fn large_values_that_do_not_fit_together_are_refused_together() {
    let folder = tempfile::tempdir().unwrap();
    let options = small(&folder.path().join("store")).size("1MiB").durability("none");
    let store = options.open().unwrap();
    let map = store.map("m").unwrap();
    for bytes in [[600_000, 600_000], [500_000, 700_000], [300_000, 400_000]] {
        let [one, other] = bytes.map(|bytes| Some(value_of(1, bytes)));
        let refused = map.apply([("one", one), ("two", None), ("other", other)]);
        let fits = bytes.iter().sum::<usize>() <= 700_000;
        assert_eq!(matches!(refused, Err(Error::Full)), !fits, "{bytes:?}: {refused:?}");
        assert_eq!(map.len().unwrap(), if fits { 2 } else { 0 });
    }
    map.apply([("one", None::<&str>), ("other", None)]).unwrap();
    map.insert("all", value_of(1, 800_000)).unwrap();
}

/// With some numbers of free pages the value fits, but the entry of its key does not.
#[test]
fn a_large_value_whose_entry_finds_no_page_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = small(&folder.path().join("store")).size("1MiB").durability("none");
    let store = options.open().unwrap();
    let map = store.map("m").unwrap();
    let pads = 0..12u32;
    pads.clone().for_each(|n| _ = map.insert(n.to_le_bytes(), [1; 4_000]).unwrap());
    let mut keys = 100..u32::MAX;
    // No leaf has room for another entry.
    for bytes in [300, 30, 0] {
        let mut refused = 0;
        keys.find(|n| {
            refused += u32::from(map.insert(n.to_le_bytes(), vec![2; bytes]).is_err());
            refused == 1_000
        });
    }
    for pad in pads {
        assert!(map.remove(pad.to_le_bytes()).unwrap());
        for key in keys.by_ref().take(20) {
            let value = value_of(1, 33_000);
            match map.insert(key.to_le_bytes(), value.clone()) {
                Ok(_) => {
                    assert_eq!(map.get(key.to_le_bytes()).unwrap(), Some(value));
                    assert!(map.remove(key.to_le_bytes()).unwrap());
                }
                Err(error) => assert!(matches!(error, Error::Full), "{error}"),
            }
        }
    }
}

/// It is full at first, and again after each time it was emptied, with as many keys.
#[test]
fn a_map_takes_as_much_again_after_it_was_emptied_and_keeps_room_while_keys_change() {
    let folder = tempfile::tempdir().unwrap();
    let options = small(&folder.path().join("store")).size("1MiB").durability("none");
    let store = options.open().unwrap();
    let value = |number: usize, bytes: usize| vec![number as u8; bytes];
    for (name, bytes) in [("one", 700), ("other", 3_000), ("one", 90)] {
        let map = store.map(name).unwrap();
        let mut count = 0;
        while map.insert(count.to_string(), value(count, bytes)).is_ok() {
            count += 1;
        }
        assert!(count * (bytes + 5) > 550_000, "{count} values of {bytes} bytes in 1 MiB");
        map.insert("0", value(1, bytes)).unwrap();
        for number in 0..count {
            assert!(map.remove(number.to_string()).unwrap());
        }
        assert!(map.is_empty().unwrap());
    }
    // A window of keys moves on: 300 kB of 1 MiB live.
    let map = store.map("window").unwrap();
    for number in 0..6_000 {
        map.insert(number.to_string(), value(number, number * 7919 % 1_500)).unwrap();
        if let Some(old) = number.checked_sub(400) {
            assert!(map.remove(old.to_string()).unwrap());
        }
    }
    assert_eq!(map.len().unwrap(), 400);
}

#[test]
fn types_and_lists_are_what_was_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = small(&path).size("4MiB").durability("none").cores(2).open().unwrap();
    let typed = store.ordered_map("typed").unwrap().typed::<(i32, String), Vec<u16>>();
    let key = |number: i32| (number, format!("{number}"));
    for number in [3, -5, 0, 7] {
        assert!(typed.insert(&key(number), &vec![number as u16; 3]).unwrap());
    }
    let from_zero = typed.range(key(0)..).map(|pair| pair.unwrap().0.0);
    assert!(from_zero.eq([0, 3, 7]));
    let keys = typed.keys().map(|key| key.unwrap().1);
    assert!(keys.eq(["-5", "0", "3", "7"].map(str::to_string)));
    typed.update(&key(3), |old| old.map(|old| [old, vec![9]].concat())).unwrap();
    assert_eq!(typed.get(&key(3)).unwrap(), Some(vec![3, 3, 3, 9]));
    let other = store.ordered_map("typed").unwrap().typed::<u64, Vec<u16>>();
    let error = other.iter().next().unwrap().unwrap_err().to_string();
    assert!(error.starts_with("a key that is no u64: "), "{error}");
    let names = store.map("names").unwrap().typed::<String, u8>();
    names.load((0..100).map(|number| (number.to_string(), number))).unwrap();
    assert_eq!((names.get("42").unwrap(), names.len().unwrap()), (Some(42), 100));

    let list = store.list::<String>("list").unwrap();
    std::thread::scope(|threads| {
        for thread in 0..3 {
            let list = &list;
            threads.spawn(move || {
                for number in 0..50 {
                    let index = list.push(&format!("{thread} {number}")).unwrap();
                    // The other two may have ended, with a hundred each; this one adds fifty.
                    assert!(index < 250);
                }
                list.extend((0..50).map(|number| format!("{thread} more {number}"))).unwrap();
            });
        }
    });
    assert_eq!(list.len().unwrap(), 300);
    let all: Vec<String> = list.iter().map(Result::unwrap).collect();
    for thread in 0..3 {
        let pushed = all.iter().filter(|text| text.starts_with(&format!("{thread} "))).count();
        assert_eq!(pushed, 100);
    }
    assert_eq!(list.pop().unwrap().as_ref(), all.last());
    assert!(list.set(0, &"first".into()).unwrap() && !list.set(299, &"none".into()).unwrap());
    assert_eq!(list.update(1, |old| old + "!").unwrap(), Some(format!("{}!", all[1])));
    assert_eq!(list.update(299, |old| old).unwrap(), None);
    let long = list.push(&"x".repeat(40_000)).unwrap_err().to_string();
    assert_eq!(long, "an element of 40003 bytes, expected at most 32704 in a list");
    let error = store.map("list").unwrap_err().to_string();
    assert_eq!(error, "'list' is a list, expected a map");
    drop((store, typed, other, names, list));
    let list = small(&path).open().unwrap().list::<String>("list").unwrap();
    assert_eq!((list.len().unwrap(), list.get(0).unwrap().unwrap()), (299, "first".into()));
    assert!((0..299).all(|_| list.pop().unwrap().is_some()) && list.pop().unwrap().is_none());
}

#[test]
fn jobs_of_a_scope_borrow_and_have_ended_when_it_returns() {
    let folder = tempfile::tempdir().unwrap();
    let options = small(&folder.path().join("store")).size("4MiB").structures("1MiB").cores(2);
    let store = options.open().unwrap();
    let numbers = store.vector::<u64>("numbers", 1_000).unwrap();
    let (ended, texts) = (std::sync::atomic::AtomicU64::new(0), vec!["one".to_string(); 500]);
    let kept = store.scope(|scope| {
        for (index, text) in texts.iter().enumerate() {
            let ended = &ended;
            let job = scope.submit(move |memory| {
                numbers.update(memory, index as u64, |old| old + text.len() as u64);
                ended.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                Ok(text.as_str())
            });
            // Some results are waited for, and others are not wanted.
            if index % 3 == 0 {
                assert_eq!(job.wait().unwrap(), "one");
            }
        }
        let failed = scope.submit(|_| -> Result<(), Error> { panic!("in a scope") });
        let error = failed.wait().unwrap_err().to_string();
        assert!(error.contains("in a scope"), "{error}");
        scope.submit(|_| Ok(texts.len()))
    });
    assert_eq!(ended.into_inner(), 500);
    assert_eq!(kept.wait().unwrap(), 500);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        store.scope(|scope| {
            drop(scope.submit(|memory| {
                numbers.set(memory, 999, texts.len() as u64);
                Ok(())
            }));
            panic!("in the body");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(store.run(move |memory| Ok(numbers.get(memory, 999))).unwrap(), 500);
    store.stop().unwrap();
    let closed = store.scope(|scope| scope.submit(|_| Ok(())).wait());
    assert!(matches!(closed, Err(Error::Closed)));
}

/// The start and the end of a range.
type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

fn pairs_of(map: &OrderedMap, range: Bounds) -> Vec<(Vec<u8>, Vec<u8>)> {
    map.range(range).map(Result::unwrap).collect()
}

/// Keys. Many begin alike, some with more bytes than a row of the order holds.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let end = prop::collection::vec(prop::sample::select(vec![0, 1, 255u8]), 0..5);
    let start = prop::sample::select(vec![0, 0, 0, 55, 113, 1_000usize]);
    (start, end).prop_map(|(bytes, end)| [vec![1; bytes], end].concat())
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
