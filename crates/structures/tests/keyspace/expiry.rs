//! Expired keys are found in the order of time, and make room for new ones.

use std::collections::BTreeSet;

use ebbtide_core::{Addr, PAGE_BYTES};
use ebbtide_structures::keyspace::{Field, Full, HashSecret, Keyspace, Kind};
use ebbtide_testbed::Plain;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const DATABASE: usize = 1;

/// A moment, in milliseconds since the Unix epoch.
const NOW_MS: u64 = 1_764_000_000_000;

struct Store {
    memory: Plain,
    keys: Keyspace,
}

impl Store {
    fn new(pages: u64) -> Store {
        let mut memory = Plain::zeroed(pages * PAGE_BYTES as u64);
        let keys = Keyspace::format(&mut memory, Addr(0), pages, HashSecret([7, 8]));
        Store { memory, keys }
    }

    fn set(&mut self, now_ms: u64, name: &str, length: usize, at: Option<u64>) -> Result<(), Full> {
        let keys = self.keys.at(now_ms);
        let key = keys.key(name.as_bytes());
        let value = vec![1; length];
        let set = keys.exclusive(&mut self.memory, &[key.hash], |memory| {
            keys.set(memory, DATABASE, &key, &value, at).map(drop)
        });
        set.expect("no log").0
    }

    /// Sets a field of a hash.
    fn set_field(&mut self, now_ms: u64, name: &str, field: &Field<'_>) {
        let keys = self.keys.at(now_ms);
        let key = keys.key(name.as_bytes());
        let set = keys.exclusive(&mut self.memory, &[key.hash], |memory| {
            let mut value = Vec::new();
            let entry = keys.find(memory, DATABASE, &key, &mut value);
            let found = entry.and_then(|entry| keys.open_collection(&key, &entry, &value));
            let mut hash = found.unwrap_or_else(|| keys.new_collection(&key, Kind::Hash));
            hash.put(memory, &field.encode())?;
            keys.store_collection(memory, DATABASE, &key, &mut hash)
        });
        set.expect("no log").0.expect("room");
    }

    /// The number of fields of a hash that have not been removed.
    fn stored_fields(&mut self, name: &str) -> u64 {
        let (keys, mut value) = (self.keys, Vec::new());
        let key = keys.key(name.as_bytes());
        let entry = keys.find(&mut self.memory, DATABASE, &key, &mut value);
        let hash = entry.and_then(|entry| keys.open_collection(&key, &entry, &value));
        hash.map_or(0, |hash| hash.stored(&mut self.memory))
    }

    /// Removes expired fields of the hashes of a leaf, as upkeep does. Returns their number.
    fn expire_fields(&mut self, now_ms: u64, leaf: u64) -> usize {
        let keys = self.keys.at(now_ms);
        let names = keys.with_expired_fields(&mut self.memory, DATABASE, leaf);
        let expire = |name: Vec<u8>| {
            let key = keys.key(&name);
            let (expired, _) = keys
                .exclusive(&mut self.memory, &[key.hash], |memory| {
                    keys.expire_fields(memory, DATABASE, &key, 32).expect("room")
                })
                .expect("no log");
            expired.fields
        };
        names.into_iter().map(expire).sum()
    }

    fn join(&mut self, hash: u64) {
        let keys = self.keys;
        let join = |memory: &mut Plain| keys.join(memory, DATABASE, hash);
        keys.exclusive(&mut self.memory, &[hash], join).expect("no log");
    }

    /// Removes expired keys, as upkeep does. Returns their names, and how many leaves were
    /// searched.
    fn expire(&mut self, now_ms: u64) -> (BTreeSet<String>, usize) {
        let keys = self.keys.at(now_ms);
        let (mut names, mut looks) = (BTreeSet::new(), 0);
        while let Some(due) = keys.first_due(&mut self.memory, DATABASE) {
            while self.expire_fields(now_ms, due.hash()) > 0 {}
            let hashes = keys.expired(&mut self.memory, DATABASE, due.hash());
            let held = if hashes.is_empty() { vec![due.hash()] } else { hashes };
            let (gone, _) = keys
                .exclusive(&mut self.memory, &held, |memory| {
                    keys.expire(memory, DATABASE, due, &held)
                })
                .expect("no log");
            names.extend(gone.into_iter().map(|(key, _)| String::from_utf8(key).expect("text")));
            if keys.is_sparse(&mut self.memory, DATABASE, due.hash()) {
                self.join(due.hash());
            }
            looks += 1;
            assert!(looks < 100_000, "it ends");
        }
        (names, looks)
    }
}

#[test]
fn keys_are_removed_when_they_have_expired_and_none_before() {
    let mut rng = Pcg64Mcg::seed_from_u64(4);
    let mut store = Store::new(2_000);
    let mut expiries = std::collections::BTreeMap::new();
    let mut now_ms = NOW_MS;
    for step in 0..20_000u64 {
        let name = format!("key:{}", rng.random_range(0..4_000));
        let length = rng.random_range(0..600);
        let at = rng.random_bool(0.7).then(|| now_ms + rng.random_range(1..120_000));
        store.set(NOW_MS, &name, length, at).expect("room");
        expiries.insert(name, at);
        if step % 500 == 499 {
            now_ms += 3_000;
            let (gone, _) = store.expire(now_ms);
            for name in &gone {
                let at = expiries.remove(name).expect("it was there").expect("it expires");
                assert!(at <= now_ms, "{name} was removed {} ms early", at - now_ms);
            }
            let left = expiries.values().flatten().filter(|at| **at + 1_000 <= now_ms).count();
            assert_eq!(left, 0, "keys that expired a second ago are there");
        }
    }
    store.expire(now_ms + 1_000_000);
    expiries.retain(|_, at| at.is_none());
    let counts = store.keys.counts(&mut store.memory, DATABASE);
    assert_eq!((counts.keys, counts.expiring), (expiries.len() as u64, 0));
}

#[test]
fn few_keys_that_expire_among_many_take_few_looks() {
    let mut store = Store::new(4_000);
    for number in 0..100_000u64 {
        let soon = number.is_multiple_of(10_000);
        let at = NOW_MS + if soon { 5_000 } else { 80_000_000 + number };
        store.set(NOW_MS, &number.to_string(), 20, Some(at)).expect("room");
    }
    assert_eq!(store.expire(NOW_MS).1, 0);
    let (gone, looks) = store.expire(NOW_MS + 6_000);
    assert_eq!(gone.len(), 10);
    assert!(looks <= 20, "{looks} looks for ten keys");
}

#[test]
fn leaves_that_are_due_come_in_the_order_of_time() {
    let mut store = Store::new(4_000);
    for number in 0..2_000u64 {
        let at = NOW_MS + number * 7_919 % 60_000;
        store.set(NOW_MS, &number.to_string(), 1_000, Some(at)).expect("room");
    }
    let keys = store.keys.at(NOW_MS + 30_000);
    let all = keys.due(&mut store.memory, DATABASE, 10_000);
    assert!((300..2_000).contains(&all.len()), "{} leaves", all.len());
    for most in [1, 16, 300] {
        assert_eq!(keys.due(&mut store.memory, DATABASE, most)[..], all[..most]);
    }
    assert_eq!(keys.first_due(&mut store.memory, DATABASE), all.first().copied());
    let keys = store.keys.at(NOW_MS - 1);
    assert_eq!(keys.due(&mut store.memory, DATABASE, 10_000), []);
}

/// Every byte that is stored is logged, so the keys that stay are not written again.
#[test]
fn a_key_that_expires_leaves_the_others_where_they_are() {
    let mut store = Store::new(300);
    for number in 0..60u64 {
        let at = NOW_MS + if number == 20 { 1_000 } else { 5_000_000 };
        store.set(NOW_MS, &number.to_string(), 1_000, Some(at)).expect("room");
    }
    let keys = store.keys.at(NOW_MS + 3_000);
    let due = keys.first_due(&mut store.memory, DATABASE).expect("one is due");
    let hashes = keys.expired(&mut store.memory, DATABASE, due.hash());
    let before = store.memory.accesses;
    let gone = keys.expire(&mut store.memory, DATABASE, due, &hashes);
    assert_eq!(gone.len(), 1);
    let accesses = store.memory.accesses - before;
    assert!(accesses <= 120, "{accesses} accesses to remove a key");
    for number in (0..60u64).filter(|number| *number != 20) {
        let (name, mut value) = (number.to_string(), Vec::new());
        keys.find(&mut store.memory, DATABASE, &keys.key(name.as_bytes()), &mut value);
        assert_eq!(value, vec![1; 1_000], "{name}");
    }
}

/// Leaves that were just joined would be divided again by the next keys.
#[test]
fn leaves_are_seldom_joined_and_divided_again_while_most_pages_are_free() {
    let mut store = Store::new(4_000);
    let (mut now_ms, mut changes, mut count) = (NOW_MS, 0, 0);
    for second in 0..20u64 {
        for number in 0..600 {
            let (before, _) = store.keys.free_pages(&mut store.memory);
            let name = format!("{second}:{number}");
            store.set(now_ms, &name, 1_000, Some(now_ms + 3_000)).expect("room");
            let (after, _) = store.keys.free_pages(&mut store.memory);
            changes += u64::from(after != before && second > 4);
            count += u64::from(second > 4);
        }
        now_ms += 1_000;
        store.expire(now_ms);
    }
    assert!(changes * 3 <= count, "{changes} of {count} keys took or freed a page");
}

#[test]
fn keys_that_expire_and_come_again_take_no_more_and_more_room() {
    let mut store = Store::new(1_000);
    let mut now_ms = NOW_MS;
    for second in 0..60u64 {
        for number in 0..3_000 {
            let name = format!("{second}:{number}");
            store.set(now_ms, &name, 100, Some(now_ms + 3_000)).expect("room");
        }
        now_ms += 1_000;
        store.expire(now_ms);
        let keys = store.keys.counts(&mut store.memory, DATABASE).keys;
        assert!(keys <= 12_000, "{keys} keys where 9,000 live");
    }
    store.expire(now_ms + 10_000);
    let (free, all) = store.keys.free_pages(&mut store.memory);
    assert!(free * 100 >= all * 95, "{free} of {all} pages are free");
}

#[test]
fn a_leaf_that_needs_room_takes_that_of_keys_that_have_expired() {
    let mut store = Store::new(300);
    let mut count = 0;
    while store.set(NOW_MS, &count.to_string(), 400, Some(NOW_MS + 10)).is_ok() {
        count += 1;
    }
    // Nothing else removes them.
    let later = NOW_MS + 20_000;
    let later_keys = count * 6 / 10;
    for number in 0..later_keys {
        store.set(later, &format!("later:{number}"), 400, None).expect("room");
    }
    let keys = store.keys.counts(&mut store.memory, DATABASE).keys;
    assert!(keys <= count, "{keys} keys, of which {later_keys} live");
}

#[test]
fn what_is_due_goes_with_a_database_that_is_swapped_or_cleared() {
    let mut store = Store::new(500);
    for number in 0..500 {
        let at = NOW_MS + number * 10;
        store.set(NOW_MS - 1, &number.to_string(), 300, Some(at)).expect("room");
    }
    let keys = store.keys;
    let swap = |memory: &mut Plain| keys.swap(memory, DATABASE, 5);
    keys.exclusive(&mut store.memory, &[], swap).expect("no log");
    assert_eq!(store.expire(NOW_MS + 10_000).0.len(), 0);
    keys.exclusive(&mut store.memory, &[], swap).expect("no log");
    assert_eq!(store.expire(NOW_MS + 2_000).0.len(), 201);
    let clear = |memory: &mut Plain| keys.clear(memory, DATABASE);
    keys.exclusive(&mut store.memory, &[], clear).expect("no log");
    assert_eq!(store.expire(NOW_MS + 10_000), (BTreeSet::new(), 0));
    while keys.reclaim(&mut store.memory) {}
    let (free, all) = keys.free_pages(&mut store.memory);
    assert_eq!(all - free, 9, "the header and the counts");
}

#[test]
fn hashes_whose_fields_have_expired_vanish_and_give_their_pages_back() {
    let mut store = Store::new(4_000);
    let (free, _) = store.keys.free_pages(&mut store.memory);
    // Packed hashes, some in trees, and one that expires only in part.
    let sizes = [("one", 1), ("packed", 20), ("tree", 300), ("large", 5_000)];
    for (name, fields) in sizes {
        for number in 0..fields {
            let field_name = format!("field:{number}");
            let expires_at_ms = Some(NOW_MS + 1_000 + number % 3_000);
            let field = Field { name: field_name.as_bytes(), expires_at_ms, value: b"value" };
            store.set_field(NOW_MS, name, &field);
        }
    }
    for number in 0..1_000u64 {
        let (name, at) = (number.to_string(), NOW_MS + 1_000);
        let expires_at_ms = (!number.is_multiple_of(10)).then_some(at);
        let field = Field { name: name.as_bytes(), expires_at_ms, value: b"value" };
        store.set_field(NOW_MS, "part", &field);
    }
    assert_eq!(store.expire(NOW_MS + 500).1, 0, "nothing is due");
    store.expire(NOW_MS + 2_000);
    let counts = store.keys.counts(&mut store.memory, DATABASE);
    assert_eq!(counts.keys, 2, "the large one has later fields, and the other some that stay");
    assert_eq!(store.stored_fields("large"), 5_000 - 2 * 1_001);
    assert_eq!(store.stored_fields("part"), 100);
    store.expire(NOW_MS + 10_000);
    assert_eq!(store.keys.counts(&mut store.memory, DATABASE).keys, 1);
    assert_eq!(store.expire(NOW_MS + 1_000_000).1, 0, "nothing is due any more");
    let key = store.keys.key(b"part");
    assert!(store.keys.remove(&mut store.memory, DATABASE, &key));
    while store.keys.reclaim_large(&mut store.memory, |_| false) {}
    let (left, _) = store.keys.free_pages(&mut store.memory);
    assert!(free - left <= 4, "{} pages are lost", free - left);
}

#[test]
fn few_fields_that_expire_among_many_take_few_looks() {
    let mut store = Store::new(8_000);
    for number in 0..40_000u64 {
        let soon = number.is_multiple_of(4_000);
        let expires_at_ms = Some(NOW_MS + if soon { 5_000 } else { 80_000_000 + number });
        let field = Field { name: b"field", expires_at_ms, value: b"value" };
        store.set_field(NOW_MS, &number.to_string(), &field);
        // An earlier time that is taken back costs one look.
        let later = Field { expires_at_ms: Some(NOW_MS + 90_000_000), ..field };
        store.set_field(NOW_MS, "again", &later);
    }
    assert_eq!(store.expire(NOW_MS).1, 0);
    let (gone, looks) = store.expire(NOW_MS + 6_000);
    assert_eq!(gone.len(), 10);
    assert!(looks <= 20, "{looks} looks for ten fields");
}
