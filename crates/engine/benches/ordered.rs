//! Cost of an ordered map that jobs on flash can share: point reads of Masstree in DRAM
//! (`MappedMemory`). The comparison is the standard library's `BTreeMap`, which is not shared and
//! holds no flash. Target: at least half its rate.
//!
//! Both hold the same uniformly random 8-byte keys, inserted in the same random order. Both get the
//! same reads, one after the other, on one pinned thread. They take turns round by round. The table
//! gives the median over the rounds, the spread from the 10th to the 90th percentile, and the ratio
//! within each round. Run with `cargo bench -p ebbtide-engine --bench ordered`; `quick` uses fewer
//! keys and rounds.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use ebbtide_core::{Addr, PAGE_BYTES, PageId};
use ebbtide_engine::{MappedMemory, affinity};
use ebbtide_workloads::masstree::Tree;

/// Reads timed together.
const READS: usize = 400_000;

/// SplitMix64: `number` and the numbers after it give distinct random keys.
fn random(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The tree, and the memory it lies in.
fn masstree(keys: u64) -> (Tree, MappedMemory) {
    // A border node holds at least seven keys.
    let bytes = Tree::bytes(0, keys / 6);
    let tree = Tree::new(Addr(0), bytes, 0, 1);
    let image = |page: PageId, out: &mut [u8; PAGE_BYTES]| {
        tree.image(page, |_| unreachable!("it is empty at first"), out);
    };
    let mut memory =
        MappedMemory::dram(bytes / PAGE_BYTES as u64, &image).expect("there is memory for it");
    for key in (0..keys).map(random) {
        let previous = tree.put(&mut memory, &key.to_be_bytes(), !key);
        assert_eq!(previous, Ok(None));
    }
    (tree, memory)
}

/// Millions of reads a second.
fn rate(reads: impl FnOnce() -> u64) -> f64 {
    let start = Instant::now();
    black_box(reads());
    READS as f64 / start.elapsed().as_secs_f64() / 1e6
}

/// The median of `values` and their 10th and 90th percentile.
fn summary(mut values: Vec<f64>) -> String {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    format!("{:.2} ({:.2}-{:.2})", at(0.5), at(0.1), at(0.9))
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "quick");
    let (keys, rounds) = if quick { (500_000, 7) } else { (4_000_000, 21) };
    let cpus = affinity::allowed().expect("the kernel says where we may run");
    affinity::pin(cpus[0]).expect("it is one of those where we may run");
    let map: BTreeMap<u64, u64> = (0..keys).map(random).map(|key| (key, !key)).fold(
        BTreeMap::new(),
        |mut map, (key, value)| {
            map.insert(key, value);
            map
        },
    );
    let (tree, mut memory) = masstree(keys);
    let (mut rates, mut ratios) = ([Vec::new(), Vec::new()], Vec::new());
    // The first round warms the caches up.
    for round in 0..=rounds {
        let asked: Vec<u64> =
            (0..READS as u64).map(|i| random(random(!(round * READS as u64 + i)) % keys)).collect();
        let mut of_map = 0.0;
        let mut of_tree = 0.0;
        for turn in 0..2 {
            if (round + turn) % 2 == 0 {
                of_map = rate(|| asked.iter().map(|key| map[key]).fold(0, u64::wrapping_add));
            } else {
                of_tree = rate(|| {
                    let read = |key: &u64| tree.get(&mut memory, &key.to_be_bytes());
                    let value = |found: Result<_, _>| found.ok().flatten().expect("it was put in");
                    asked.iter().map(read).map(value).fold(0, u64::wrapping_add)
                });
            }
        }
        if round > 0 {
            rates[0].push(of_map);
            rates[1].push(of_tree);
            ratios.push(of_tree / of_map);
        }
    }
    let [of_map, of_tree] = rates.map(summary);
    println!(
        "point reads over {keys} random keys, median (10th-90th percentile) of {rounds} rounds"
    );
    println!("BTreeMap   {of_map} million/s");
    println!("Masstree   {of_tree} million/s");
    println!("ratio      {}", summary(ratios));
}
