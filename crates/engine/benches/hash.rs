//! Cost of YCSB's table compared with a plain hash map: reads of workload C, single-threaded, all
//! in DRAM. `MappedMemory` runs against `std`'s map (hashbrown) with rustc's fast hasher. Both look
//! up the same names, drawn beforehand by the client's scrambled Zipfian. Each is measured in two
//! ways. One copies the whole record out, as the client's read does. The other checks every byte of
//! it against key and version, as our programs do. Target: at least half the map's rate.
//!
//! The two take turns round by round, on one pinned thread. The table gives medians over the
//! rounds, the spread from the 10th to the 90th percentile, and the median of the ratios within
//! each round. Run with `cargo bench -p ebbtide-engine --bench hash`; `quick` runs fewer rounds.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::hint::black_box;
use std::time::Instant;

use ebbtide_engine::{MappedMemory, affinity};
use ebbtide_workloads::Scatter;
use ebbtide_workloads::ycsb::{Distribution, Key, Pair, Record, Requests, Stock, Table};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use rustc_hash::FxHasher;

/// Look-ups timed together.
const LOOKUPS: usize = 5_000;

/// Ways to look up: map and table, copying the record out and checking it.
const WAYS: usize = 4;

/// Rounds that are not counted.
const WARM_UP: usize = 100;

/// The sizes of the table, in pages: within a second-level cache, within a last-level cache, and
/// beyond any.
const PAGES: [u64; 3] = [256, 4_096, 65_536];

/// A hash map from names to values of `WORDS` words: a record without its name.
type Map<const WORDS: usize> = HashMap<[u64; 3], [u64; WORDS], BuildHasherDefault<FxHasher>>;

/// The map's value for `key`.
#[inline(always)]
fn value<R: Record, const WORDS: usize>(key: &Key, version: u64) -> [u64; WORDS] {
    let lines = R::lines(1, key, version);
    // The name is words 1 to 3.
    let [first, _, _, _, rest @ ..] = lines.as_ref().as_flattened() else { unreachable!() };
    let mut words = [*first; WORDS];
    words[1..].copy_from_slice(rest);
    words
}

#[inline(never)]
fn copy_from_map<const WORDS: usize>(map: &Map<WORDS>, keys: &[Key]) {
    for key in keys {
        let value = *map.get(&key.name).expect("every key is there");
        black_box(&value);
    }
}

#[inline(never)]
fn check_in_map<R: Record, const WORDS: usize>(map: &Map<WORDS>, keys: &[Key]) {
    for key in keys {
        let found = map.get(&key.name).expect("every key is there");
        let version = found[0] / 2;
        assert!(*found == value::<R, WORDS>(key, version));
        black_box(version);
    }
}

#[inline(never)]
fn copy_from_table<R: Record>(table: &Table<R>, memory: &mut MappedMemory, keys: &[Key]) {
    let mut record = R::Lines::default();
    for key in keys {
        assert!(table.read(memory, key, &mut record), "every key is there");
        black_box(&record);
    }
}

#[inline(never)]
fn check_in_table<R: Record>(table: &Table<R>, memory: &mut MappedMemory, keys: &[Key]) {
    for key in keys {
        let found = table.get(memory, key).expect("memory is as it was written");
        black_box(found.expect("every key is there"));
    }
}

/// Millions of look-ups a second.
fn rate(body: impl FnOnce()) -> f64 {
    let start = Instant::now();
    body();
    LOOKUPS as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// The median of `values`, with the 10th and the 90th percentile.
fn spread(values: impl Iterator<Item = f64>) -> String {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    format!("{:6.2} ({:.2}-{:.2})", at(0.5), at(0.1), at(0.9))
}

fn measure<R: Record, const WORDS: usize>(name: &str, pages: u64, rounds: usize) {
    let table: Table<R> = Table::new(pages, Scatter::Keys, 1);
    let records = table.records();
    let mut memory = MappedMemory::dram(pages, &|page, out| table.image(page, out))
        .expect("there is memory for it");
    let keys = (0..records).map(Key::hashed);
    let map: Map<WORDS> = keys.map(|key| (key.name, value::<R, WORDS>(&key, 0))).collect();
    let requests = Requests::new(Distribution::Zipfian, Scatter::Keys, records, 0.99);
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let mut key = |_| Key::hashed(requests.draw(&mut rng, records - 1));
    let mut measured = Vec::new();
    for round in 0..rounds + WARM_UP {
        let mut rates = [0.0; WAYS];
        // The ways take turns at going first.
        for turn in 0..WAYS {
            let which = (round + turn) % WAYS;
            // Each way gets its own keys, so it does not find records that another has brought into
            // the caches.
            let keys: Vec<Key> = (0..LOOKUPS).map(&mut key).collect();
            rates[which] = rate(|| match which {
                0 => copy_from_map(&map, &keys),
                1 => copy_from_table(&table, &mut memory, &keys),
                2 => check_in_map::<R, WORDS>(&map, &keys),
                _ => check_in_table(&table, &mut memory, &keys),
            });
        }
        if round >= WARM_UP {
            measured.push(rates);
        }
    }
    let of = |what: &dyn Fn(&[f64; WAYS]) -> f64| spread(measured.iter().map(what));
    println!(
        "{name:<12}{records:>9}  {:<24}{:<24}{:<20}{:<24}{:<24}{:<20}",
        of(&|rates| rates[0]),
        of(&|rates| rates[1]),
        of(&|rates| rates[1] / rates[0]),
        of(&|rates| rates[2]),
        of(&|rates| rates[3]),
        of(&|rates| rates[3] / rates[2]),
    );
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "quick");
    let rounds = if quick { 301 } else { 3001 };
    let cpus = affinity::allowed().expect("the kernel says where we may run");
    affinity::pin(cpus[0]).expect("a thread may be pinned to its own CPUs");
    println!("million look-ups a second, median (10th-90th percentile) over {rounds} rounds");
    println!(
        "{:<12}{:>9}  {:<24}{:<24}{:<20}{:<24}{:<24}{:<20}",
        "records", "count", "copy: map", "table", "ratio", "check: map", "table", "ratio"
    );
    for pages in PAGES {
        measure::<Pair, 5>("64 B", pages, rounds);
        measure::<Stock, 133>("10 x 100 B", pages, rounds);
    }
}
