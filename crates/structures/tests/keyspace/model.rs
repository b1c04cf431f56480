//! Random operations on a keyspace and on a map give the same answers.

use std::collections::BTreeMap;

use ebbtide_core::{Addr, Memory, PAGE_BYTES};
use ebbtide_structures::keyspace::{
    Counts, HASHES, HashSecret, Key, Keyspace, Kind, Large, Scanned, WHOLE_BYTES_MAX,
};
use ebbtide_testbed::Plain;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const PAGES: u64 = 4_096;

/// The value and expiry of each key.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

struct Pair {
    memory: Plain,
    keys: Keyspace,
    model: Model,
    database: usize,
}

impl Pair {
    fn new() -> Pair {
        let mut memory = Plain::zeroed(PAGES * PAGE_BYTES as u64);
        let keys = Keyspace::format(&mut memory, Addr(0), PAGES, HashSecret([11, 12]));
        Pair { memory, keys, model: Model::new(), database: 3 }
    }

    fn change<R>(&mut self, key: &[u8], body: impl Fn(&Keyspace, &mut Plain, &Key<'_>) -> R) -> R {
        let keys = self.keys;
        let key = keys.key(key);
        let (result, _) = keys
            .exclusive(&mut self.memory, &[key.hash], |memory| body(&keys, memory, &key))
            .expect("no log to fail");
        result
    }

    fn set(&mut self, key: &[u8], value: Vec<u8>, expiry: Option<u64>) {
        let database = self.database;
        let large = (value.len() > WHOLE_BYTES_MAX).then(|| self.large(&value));
        let existed = self.change(key, |keys, memory, key| match &large {
            Some(large) => keys.attach_large(memory, database, key, large, expiry).expect("room"),
            None => keys.set(memory, database, key, &value, expiry).expect("room"),
        });
        assert_eq!(existed, self.model.insert(key.to_vec(), (value, expiry)).is_some());
    }

    /// A large value without a key.
    fn large(&mut self, value: &[u8]) -> Large {
        let (mut large, ()) = self.keys.begin_large(&mut self.memory, |_| ()).expect("room");
        for piece in value.chunks(20_000) {
            let offset = large.bytes;
            let written = self.keys.write_large(&mut self.memory, &mut large, offset, piece);
            written.expect("room");
        }
        large
    }

    fn remove(&mut self, key: &[u8]) {
        let database = self.database;
        let existed = self.change(key, |keys, memory, key| keys.remove(memory, database, key));
        assert_eq!(existed, self.model.remove(key).is_some());
    }

    fn set_expiry(&mut self, key: &[u8], expiry: Option<u64>) {
        let database = self.database;
        let there = self.change(key, |keys, memory, key| {
            keys.set_expiry(memory, database, key, expiry).expect("room")
        });
        let known = self.model.get_mut(key).map(|entry| entry.1 = expiry);
        assert_eq!(there, known.is_some());
    }

    fn write_range(&mut self, key: &[u8], offset: u64, bytes: &[u8]) {
        let database = self.database;
        let written = self.change(key, |keys, memory, key| {
            let entry = keys.find(memory, database, key, &mut Vec::new());
            let end = offset as usize + bytes.len();
            let paged = entry.filter(|entry| {
                let fits = end <= WHOLE_BYTES_MAX || entry.large().is_some();
                !entry.is_inline() && fits && bytes.len() <= WHOLE_BYTES_MAX
            });
            paged.map(|entry| {
                keys.write_range(memory, database, key, &entry, offset, bytes).expect("room");
            })
        });
        if written.is_some() {
            let (value, _) = self.model.get_mut(key).expect("it was found");
            let end = offset as usize + bytes.len();
            value.resize(value.len().max(end), 0);
            value[offset as usize..end].copy_from_slice(bytes);
        }
    }

    fn rename(&mut self, from: &[u8], to: &[u8]) {
        let (keys, database) = (self.keys, self.database);
        let (a, b) = (keys.key(from), keys.key(to));
        if from == to {
            return;
        }
        let renamed = keys.exclusive(&mut self.memory, &[a.hash, b.hash], |memory| {
            keys.rename(memory, (database, &a), (database, &b)).expect("room");
        });
        renamed.expect("no log to fail");
        if let Some(entry) = self.model.remove(from) {
            self.model.insert(to.to_vec(), entry);
        }
    }

    fn check(&mut self, key: &[u8]) {
        let mut value = Vec::new();
        let found = self.keys.key(key);
        let entry = self.keys.find(&mut self.memory, self.database, &found, &mut value);
        let found = entry.map(|entry| {
            if !entry.is_inline() {
                let length = entry.value_bytes as usize;
                self.keys.read_range(&mut self.memory, &entry, 0, length, &mut value);
            }
            assert_eq!(entry.value_bytes, value.len() as u64);
            (value, entry.expires_at_ms)
        });
        assert_eq!(found.as_ref(), self.model.get(key), "{key:?}");
    }

    fn check_all(&mut self) {
        let mut found = Vec::new();
        let mut from = 0;
        while from < HASHES {
            from = self.keys.scan(&mut self.memory, self.database, from, &mut found);
        }
        found.sort_by(|a, b| a.key.cmp(&b.key));
        let expected = self.model.iter().map(|(key, (_, expires_at_ms))| Scanned {
            key: key.clone(),
            expires_at_ms: *expires_at_ms,
            kind: Kind::String,
        });
        assert_eq!(found, expected.collect::<Vec<_>>());
        let expiring = self.model.values().filter(|(_, expiry)| expiry.is_some()).count() as u64;
        let keys = self.model.len() as u64;
        let counts = self.keys.counts(&mut self.memory, self.database);
        assert_eq!(counts, Counts { keys, expiring });
        for key in self.model.keys().cloned().collect::<Vec<_>>() {
            self.check(&key);
        }
    }
}

fn bytes(rng: &mut Pcg64Mcg, length: usize) -> Vec<u8> {
    (0..length).map(|_| rng.next_u32() as u8).collect()
}

/// Lengths around every boundary: inline, one page, listed pages, pages of lists.
fn length(rng: &mut Pcg64Mcg) -> usize {
    match rng.random_range(0..100) {
        0..60 => rng.random_range(0..300),
        60..80 => rng.random_range(900..1100),
        80..95 => rng.random_range(1000..9000),
        95..99 => rng.random_range(4096..40_000),
        _ => rng.random_range(64 * 4096 - 1..64 * 4096 + 5_000),
    }
}

#[test]
fn a_keyspace_answers_as_a_map_does() {
    for seed in 0..4 {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut pair = Pair::new();
        for step in 0..4_000 {
            let mut key = format!("key:{}", rng.random_range(0..600)).into_bytes();
            if key.ends_with(b"7") {
                key.resize(1 + step % 1024, b'x');
            }
            match rng.random_range(0..20) {
                0..8 => {
                    let length = length(&mut rng);
                    let value = bytes(&mut rng, length);
                    let expiry = rng.random_bool(0.3).then(|| rng.next_u64() >> 20);
                    pair.set(&key, value, expiry);
                }
                8..12 => pair.remove(&key),
                12..14 => {
                    let expiry = rng.random_bool(0.6).then(|| rng.next_u64() >> 20);
                    pair.set_expiry(&key, expiry);
                }
                14..16 => {
                    let (offset, length) = (rng.random_range(0..30_000), length(&mut rng));
                    let written = bytes(&mut rng, length);
                    pair.write_range(&key, offset, &written);
                }
                16 => {
                    let to = format!("key:{}", rng.random_range(0..600)).into_bytes();
                    pair.rename(&key, &to);
                }
                _ => pair.check(&key),
            }
        }
        pair.check_all();
        while pair.keys.reclaim_large(&mut pair.memory, |_| false) {}
        let before = pair.keys.free_pages(&mut pair.memory);
        for key in pair.model.keys().cloned().collect::<Vec<_>>() {
            pair.remove(&key);
        }
        pair.check_all();
        assert!(pair.keys.free_pages(&mut pair.memory).0 > before.0);
    }
}

/// Returns a length near a boundary between the forms of values.
fn length_at_a_boundary(rng: &mut Pcg64Mcg) -> usize {
    const PAGE: usize = PAGE_BYTES - 8;
    let whole = rng.random_range(0..=8) * PAGE;
    // The longest inline value and the longest tail depend on the key.
    let rest = [0, 1_000, 1_900, 1_960, 1_990, 2_040, PAGE / 2][rng.random_range(0..7)];
    let near = (whole + rest + rng.random_range(0..80)).saturating_sub(40);
    if rng.random_bool(0.8) { near.min(WHOLE_BYTES_MAX) } else { rng.random_range(0..=near) }
        .min(WHOLE_BYTES_MAX)
}

/// Runs random operations on a keyspace of this size. Returns how many had no room.
fn change_values_at_boundaries(seed: u64, pages: u64) -> u32 {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut memory = Plain::zeroed(pages * PAGE_BYTES as u64);
    let keys = Keyspace::format(&mut memory, Addr(0), pages, HashSecret([seed, 12]));
    let before = keys.free_pages(&mut memory);
    let mut pair = Pair { memory, keys, model: Model::new(), database: 3 };
    let database = pair.database;
    let mut refused = 0;
    for step in 0..6_000u64 {
        let number = rng.random_range(0..60u32);
        let key = match number % 10 {
            7 => vec![number as u8; 1_024],
            8 => vec![number as u8; 300],
            _ => format!("key:{number}").into_bytes(),
        };
        let entry = pair.model.get(&key).cloned();
        match (rng.random_range(0..20), entry) {
            (0..8, _) => {
                let length = length_at_a_boundary(&mut rng);
                let value = bytes(&mut rng, length);
                let expiry = rng.random_bool(0.3).then(|| rng.next_u64() >> 20);
                let set = pair.change(&key, |keys, memory, key| {
                    keys.set(memory, database, key, &value, expiry)
                });
                match set {
                    Ok(existed) => {
                        assert_eq!(existed, pair.model.insert(key, (value, expiry)).is_some());
                    }
                    Err(_) => refused += 1,
                }
            }
            (8..13, Some((mut value, expiry))) => {
                let appends = rng.random_bool(0.5);
                let offset = if appends { value.len() } else { length_at_a_boundary(&mut rng) };
                let most = (WHOLE_BYTES_MAX - offset).min(6_000);
                let length = rng.random_range(0..=most);
                let written = bytes(&mut rng, length);
                let end = offset + written.len();
                let done = pair.change(&key, |keys, memory, key| {
                    let entry = keys.find(memory, database, key, &mut Vec::new());
                    let entry = entry.filter(|entry| !entry.is_inline() && !written.is_empty());
                    entry.map(|entry| {
                        keys.write_range(memory, database, key, &entry, offset as u64, &written)
                    })
                });
                match done {
                    Some(Ok(())) => {
                        value.resize(value.len().max(end), 0);
                        value[offset..end].copy_from_slice(&written);
                        pair.model.insert(key, (value, expiry));
                    }
                    Some(Err(_)) => refused += 1,
                    None => {}
                }
            }
            (13..16, Some((value, _))) => {
                let from = rng.random_range(0..=value.len());
                let length = rng.random_range(0..=value.len() - from);
                let found = pair.keys.key(&key);
                let entry = pair.keys.find(&mut pair.memory, database, &found, &mut Vec::new());
                let entry = entry.expect("it is there");
                assert_eq!(entry.value_bytes, value.len() as u64);
                if !entry.is_inline() {
                    let mut part = Vec::new();
                    let range = (from as u64, length);
                    pair.keys.read_range(&mut pair.memory, &entry, range.0, range.1, &mut part);
                    assert!(part == value[from..from + length], "step {step}");
                }
            }
            (16, _) => {
                let expiry = rng.random_bool(0.6).then(|| rng.next_u64() >> 20);
                let set = pair.change(&key, |keys, memory, key| {
                    keys.set_expiry(memory, database, key, expiry)
                });
                match set {
                    Ok(_) => _ = pair.model.get_mut(&key).map(|entry| entry.1 = expiry),
                    Err(_) => refused += 1,
                }
            }
            (17, Some(entry)) => {
                let to = [&[b'r'][..], &vec![b'x'; rng.random_range(0..1_023)]].concat();
                let (a, b) = (pair.keys.key(&key), pair.keys.key(&to));
                let renamed = pair.keys.exclusive(&mut pair.memory, &[a.hash, b.hash], |memory| {
                    keys.rename(memory, (database, &a), (database, &b))
                });
                match renamed.expect("no log to fail").0 {
                    Ok(()) => {
                        pair.model.remove(&key);
                        pair.model.insert(to, entry);
                    }
                    Err(_) => refused += 1,
                }
            }
            (18.., _) => pair.remove(&key),
            _ => pair.check(&key),
        }
        if step % 500 == 0 {
            pair.check_all();
        }
    }
    pair.check_all();
    let clear = |memory: &mut Plain| keys.clear(memory, database);
    keys.exclusive(&mut pair.memory, &[], clear).expect("no log to fail");
    while keys.reclaim(&mut pair.memory) {}
    assert_eq!(keys.free_pages(&mut pair.memory), before, "every page came back");
    refused
}

#[test]
fn values_around_every_boundary_are_read_as_they_were_written() {
    for seed in 0..4 {
        assert_eq!(change_values_at_boundaries(seed, PAGES), 0);
        assert!(change_values_at_boundaries(seed, 250) > 100, "a full keyspace refuses some");
    }
}

#[test]
fn many_small_keys_make_a_tree_of_three_levels_and_clearing_gives_every_page_back() {
    let mut pair = Pair::new();
    let (free, _) = pair.keys.free_pages(&mut pair.memory);
    for number in 0..9_000u32 {
        let value = vec![number as u8; 900];
        pair.set(format!("{number}").as_bytes(), value, None);
    }
    pair.check_all();
    let reopened = Keyspace::open(&mut pair.memory, Addr(0)).expect("a keyspace");
    assert_eq!(reopened.key(b"5").hash, pair.keys.key(b"5").hash);
    let (keys, database) = (pair.keys, pair.database);
    let clear = keys.exclusive(&mut pair.memory, &[], |memory| keys.clear(memory, database));
    clear.expect("no log to fail");
    pair.model.clear();
    pair.check_all();
    let mut given = 0;
    while keys.reclaim(&mut pair.memory) {
        given += 1;
    }
    assert!(given > 2_000, "{given} pages");
    assert_eq!(keys.free_pages(&mut pair.memory).0, free, "every page came back");
    pair.set(b"again", vec![1], None);
    pair.check_all();
}

#[test]
fn keys_of_one_slot_make_one_deep_branch_and_no_empty_pages() {
    let mut pair = Pair::new();
    let (free, _) = pair.keys.free_pages(&mut pair.memory);
    for number in 0..9_000u32 {
        pair.set(format!("{{tag}}{number}").as_bytes(), vec![7; 100], None);
    }
    pair.check_all();
    let used = free - pair.keys.free_pages(&mut pair.memory).0;
    // 116 bytes an entry with its slot: 259 pages if all were full.
    assert!((259..380).contains(&used), "{used} pages");
}

#[test]
fn databases_have_their_own_keys_and_can_be_swapped() {
    let mut pair = Pair::new();
    pair.set(b"a", b"three".to_vec(), Some(5));
    let keys = pair.keys;
    keys.exclusive(&mut pair.memory, &[], |memory| keys.swap(memory, 3, 9)).expect("no log");
    let moved = std::mem::take(&mut pair.model);
    pair.check_all();
    (pair.database, pair.model) = (9, moved);
    pair.check_all();
}

#[test]
fn a_keyspace_of_another_version_is_refused_by_its_version() {
    let mut pair = Pair::new();
    let word: u64 = pair.memory.load(Addr(0));
    let refused = |memory: &mut Plain, word: u64| {
        memory.store(Addr(0), word);
        Keyspace::open(memory, Addr(0)).expect_err("it is another").to_string()
    };
    let older = refused(&mut pair.memory, u64::from_le_bytes(*b"EBBKEYS\x03"));
    assert!(older.starts_with("the keyspace has version 3 of its format, expected 4"), "{older}");
    assert_eq!(refused(&mut pair.memory, word ^ 1), "the memory holds no keyspace");
    pair.memory.store(Addr(0), word);
    assert!(Keyspace::open(&mut pair.memory, Addr(0)).is_ok());
}
