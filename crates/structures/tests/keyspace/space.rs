//! Space comes back, for any keys and after any time of changes.

use std::collections::BTreeMap;

use ebbtide_core::{Addr, PAGE_BYTES};
use ebbtide_structures::keyspace::{Full, HashSecret, Keyspace};
use ebbtide_testbed::Plain;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const DATABASE: usize = 2;

/// A keyspace, and the lengths of its values.
struct Store {
    memory: Plain,
    keys: Keyspace,
    lengths: BTreeMap<String, usize>,
    live_bytes: usize,
}

impl Store {
    fn new(pages: u64) -> Store {
        let mut memory = Plain::zeroed(pages * PAGE_BYTES as u64);
        let keys = Keyspace::format(&mut memory, Addr(0), pages, HashSecret([5, 6]));
        Store { memory, keys, lengths: BTreeMap::new(), live_bytes: 0 }
    }

    /// As a server does: joins emptied leaves after the change.
    fn join(&mut self, name: &str) {
        let (keys, hash) = (self.keys, self.keys.key(name.as_bytes()).hash);
        if keys.is_sparse(&mut self.memory, DATABASE, hash) {
            let join = |memory: &mut Plain| keys.join(memory, DATABASE, hash);
            keys.exclusive(&mut self.memory, &[hash], join).expect("no log");
        }
    }

    fn set(&mut self, name: &str, length: usize) -> Result<(), Full> {
        let keys = self.keys;
        let key = keys.key(name.as_bytes());
        let value = vec![length as u8; length];
        let set = keys.exclusive(&mut self.memory, &[key.hash], |memory| {
            keys.set(memory, DATABASE, &key, &value, None)
        });
        set.expect("no log").0?;
        self.join(name);
        let before = self.lengths.insert(name.to_string(), length);
        self.live_bytes += name.len() + length;
        self.live_bytes -= before.map_or(0, |before| name.len() + before);
        Ok(())
    }

    fn remove(&mut self, name: &str) {
        let keys = self.keys;
        let key = keys.key(name.as_bytes());
        let removed = keys
            .exclusive(&mut self.memory, &[key.hash], |memory| keys.remove(memory, DATABASE, &key));
        assert!(removed.expect("no log").0, "{name}");
        self.join(name);
        let length = self.lengths.remove(name).expect("it was there");
        self.live_bytes -= name.len() + length;
    }

    fn check(&mut self) {
        for (name, length) in &self.lengths {
            let mut value = Vec::new();
            let key = self.keys.key(name.as_bytes());
            let entry = self.keys.find(&mut self.memory, DATABASE, &key, &mut value);
            let entry = entry.unwrap_or_else(|| panic!("{name} is lost"));
            if !entry.is_inline() {
                self.keys.read_range(&mut self.memory, &entry, 0, *length, &mut value);
            }
            assert_eq!(value, vec![*length as u8; *length], "{name}");
        }
        let counts = self.keys.counts(&mut self.memory, DATABASE);
        assert_eq!(counts.keys, self.lengths.len() as u64);
    }

    fn free_share(&mut self) -> f64 {
        let (free, all) = self.keys.free_pages(&mut self.memory);
        free as f64 / all as f64
    }

    /// Bytes of pages in use for a byte of keys and values.
    fn use_per_byte(&mut self) -> f64 {
        let (free, all) = self.keys.free_pages(&mut self.memory);
        ((all - free) * PAGE_BYTES as u64) as f64 / self.live_bytes as f64
    }

    fn remove_all(&mut self) {
        let names: Vec<String> = self.lengths.keys().cloned().collect();
        names.iter().for_each(|name| self.remove(name));
    }
}

/// Names by their numbers: in any order, rising, or with few prefixes and one slot each.
const NAMES: [fn(u64) -> String; 3] = [
    |number| format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    |number| format!("key:{number:012}"),
    |number| format!("{{order:{}}}:line:{number}", number % 7),
];

/// The sizes of values, the most bytes of pages that a byte may take, and how often all keys are
/// replaced.
type Sizes = (fn(&mut Pcg64Mcg) -> usize, f64, usize);

const SIZES: [Sizes; 4] = [
    (|rng| rng.random_range(10..=3_000), 1.6, 100),
    (|rng| rng.random_range(10..=300), 1.6, 10),
    (|_| 1_000, 1.6, 30),
    (|rng| rng.random_range(16_000..=32_000), 1.25, 100),
];

#[test]
fn a_window_of_keys_moves_a_hundred_times_its_size_without_filling_the_store() {
    for (which, name) in NAMES.into_iter().enumerate() {
        for (size, most, turnovers) in SIZES {
            let mut rng = Pcg64Mcg::seed_from_u64(which as u64);
            let mut store = Store::new(1_000);
            let (mut next, mut first) = (0u64, 0u64);
            let live_max = 1_000 * PAGE_BYTES * 6 / 10;
            let mut moved = 0;
            let mut worst: f64 = 0.0;
            let turnovers = if which == 0 { turnovers } else { turnovers / 5 };
            while moved < turnovers * live_max {
                let length = size(&mut rng);
                store.set(&name(next), length).expect("there is room");
                next += 1;
                moved += length;
                while store.live_bytes > live_max {
                    store.remove(&name(first));
                    first += 1;
                }
                if moved > live_max && next.is_multiple_of(50) {
                    worst = worst.max(store.use_per_byte());
                }
            }
            assert!(worst <= most, "names {which}: {worst} bytes of pages for a byte, not {most}");
            store.check();
            store.remove_all();
            let free = store.free_share();
            assert!(free >= 0.95, "{free} is free after all keys are deleted");
        }
    }
}

#[test]
fn keys_are_overwritten_a_hundred_times_with_other_sizes_without_filling_the_store() {
    for (size, most, turnovers) in SIZES {
        let mut rng = Pcg64Mcg::seed_from_u64(9);
        let mut store = Store::new(1_000);
        let live = 1_000 * PAGE_BYTES * 6 / 10;
        let mut count = 0u64;
        while store.live_bytes < live {
            store.set(&NAMES[1](count), size(&mut rng)).expect("there is room");
            count += 1;
        }
        let mut worst: f64 = 0.0;
        for round in 0..turnovers as u64 * count {
            let name = NAMES[1](rng.random_range(0..count));
            let length = size(&mut rng);
            // The mean of the sizes strays: it stays at 60%.
            if store.live_bytes + length <= live + 40_000 {
                store.set(&name, length).expect("there is room");
            } else {
                let least = store.lengths[&name].min(length);
                store.set(&name, least).expect("there is room");
            }
            if round % 50 == 0 {
                worst = worst.max(store.use_per_byte());
            }
        }
        assert!(worst <= most, "{worst} bytes of pages for a byte, not {most}");
        store.check();
        store.remove_all();
        assert!(store.free_share() >= 0.95);
    }
}

#[test]
fn a_store_that_was_full_takes_as_much_again_of_another_size() {
    let fill = |store: &mut Store, length: usize| {
        let mut count = 0;
        while store.set(&NAMES[1](count), length) == Ok(()) {
            count += 1;
        }
        count * (16 + length as u64)
    };
    let sizes = [1_000, 8_000, 100, 500, 20_000, 10];
    let mut store = Store::new(1_000);
    for length in sizes {
        let mut new = Store::new(1_000);
        let (again, first) = (fill(&mut store, length), fill(&mut new, length));
        assert!(again * 100 >= first * 98, "{again} bytes of {length} after {first}");
        // What is there can be overwritten and deleted.
        for number in 0..20 {
            assert_eq!(store.set(&NAMES[1](number), length), Ok(()), "{length}");
            assert_eq!(store.set(&NAMES[1](number), length - 1), Ok(()), "{length}");
        }
        store.check();
        store.remove_all();
        assert!(store.free_share() >= 0.95, "{} is free", store.free_share());
    }
}

#[test]
fn a_store_that_was_cleared_is_filled_again_at_once() {
    let mut store = Store::new(1_000);
    for round in 0..3 {
        let mut count = 0u64;
        while store.set(&NAMES[1](count), 700 + round) == Ok(()) {
            count += 1;
        }
        let keys = store.keys;
        let clear = |memory: &mut Plain| keys.clear(memory, DATABASE);
        keys.exclusive(&mut store.memory, &[], clear).expect("no log");
        (store.lengths, store.live_bytes) = (BTreeMap::new(), 0);
        for number in 0..count {
            while store.set(&NAMES[0](number), 700) == Err(Full) {
                let reclaim = |memory: &mut Plain| keys.reclaim(memory);
                assert!(keys.exclusive(&mut store.memory, &[1], reclaim).expect("no log").0);
            }
        }
        store.check();
        store.remove_all();
        while keys.reclaim(&mut store.memory) {}
        assert!(store.free_share() >= 0.95);
    }
}
