//! A dictionary in a store that survives crashes: changes are there together or not at all, and a file
//! that holds something else is refused.

mod common;

use std::path::Path;

use common::watched;
use ebbtide_core::Bytes;
use ebbtide_engine::store::{NewStore, Store};
use ebbtide_engine::{Change, Dictionary, DictionaryError, Options};

const CAPACITY: Bytes = Bytes(1 << 20);

fn open(path: &Path) -> Result<Dictionary, DictionaryError> {
    Dictionary::open(path, None, CAPACITY, &Options::new(4 << 20))
}

fn set(key: &str, value: &[u8]) -> Change {
    (key.into(), Some(value.into()))
}

#[test]
fn what_was_changed_is_there_when_it_is_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let made = open(&path).unwrap();
    watched(&made, || {
        made.change(vec![set("a", b"1"), set("b", &[7; 20_000]), set("c", b"3")]).unwrap();
        made.change(vec![("c".into(), None), ("none".into(), None), set("a", b"2")]).unwrap();
    });
    drop(made);
    let again = open(&path).unwrap();
    watched(&again, || {
        assert_eq!(again.get(b"a").unwrap().as_deref(), Some(&b"2"[..]));
        assert_eq!(again.get(b"b").unwrap(), Some(vec![7; 20_000]));
        assert_eq!(again.get(b"c").unwrap(), None);
        assert!(again.contains(b"b").unwrap() && !again.contains(b"none").unwrap());
        let (mut keys, next) = again.keys(0).unwrap();
        keys.sort();
        assert_eq!((keys, next, again.len().unwrap()), (vec![b"a".into(), b"b".into()], None, 2));
    });
}

#[test]
fn a_change_that_does_not_fit_leaves_everything_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let dictionary = open(&folder.path().join("store")).unwrap();
    watched(&dictionary, || fill(&dictionary));
}

/// Adds keys until there is no room for another.
fn fill(dictionary: &Dictionary) {
    let many = |number: u32| vec![set("last", &number.to_le_bytes()), set("x", b"")];
    let mut fitted = 0;
    let error = loop {
        let mut changes = many(fitted);
        changes.push(set(&fitted.to_string(), &[1; 30_000]));
        match dictionary.change(changes) {
            Ok(()) => fitted += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, DictionaryError::Full), "{error}");
    assert!(fitted > 10);
    let last = dictionary.get(b"last").unwrap().unwrap();
    assert_eq!(last, (fitted - 1).to_le_bytes());
    assert_eq!(dictionary.len().unwrap(), u64::from(fitted) + 2);
    assert!(dictionary.change(vec![set(&"k".repeat(1025), b"")]).unwrap_err().is_input());
}

/// It is full at first, and again after each time it was emptied, with as many keys.
#[test]
fn a_dictionary_takes_as_much_again_after_it_was_emptied_and_keeps_room_while_keys_change() {
    let folder = tempfile::tempdir().unwrap();
    let dictionary = open(&folder.path().join("store")).unwrap();
    let value = |number: usize, bytes: usize| vec![number as u8; bytes];
    watched(&dictionary, || {
        for bytes in [700, 3_000, 90] {
            let mut count = 0;
            while dictionary.change(vec![set(&count.to_string(), &value(count, bytes))]).is_ok() {
                count += 1;
            }
            assert!(count * (bytes + 5) > 550_000, "{count} values of {bytes} bytes in 1 MiB");
            dictionary.change(vec![set("0", &value(1, bytes))]).unwrap();
            for number in 0..count {
                dictionary.change(vec![(number.to_string().into_bytes(), None)]).unwrap();
            }
            assert!(dictionary.is_empty().unwrap());
        }
        // A window of keys moves on: 300 kB of 1 MiB live.
        for number in 0..6_000 {
            let bytes = number * 7919 % 1_500;
            dictionary.change(vec![set(&number.to_string(), &value(number, bytes))]).unwrap();
            if let Some(old) = number.checked_sub(400) {
                dictionary.change(vec![(old.to_string().into_bytes(), None)]).unwrap();
            }
        }
        assert_eq!(dictionary.len().unwrap(), 400);
    });
}

#[test]
fn a_store_of_another_program_or_capacity_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(open(&path).unwrap());
    let options = Options::new(4 << 20);
    let other = Dictionary::open(&path, Some(Bytes(2 << 20)), CAPACITY, &options).err().unwrap();
    let said = format!("{}: has a capacity of 1MiB, expected 2MiB", path.display());
    assert_eq!(other.to_string(), said);
    let (tag, pages, spare_pages) = ("a diary".to_string(), 256, 128);
    let new = NewStore { path: path.clone(), offset: 0, pages, spare_pages, tag, force: true };
    drop(Store::create_persistent(&new, 1 << 20).unwrap());
    let said = format!("{}: holds 'a diary', expected 'dictionary'", path.display());
    assert_eq!(open(&path).err().unwrap().to_string(), said);
}
