//! A full keyspace refuses changes that need room, keeps its keys, and takes deletes.

use ebbtide_core::{Addr, PAGE_BYTES};
use ebbtide_structures::keyspace::{Full, HashSecret, Keyspace};
use ebbtide_testbed::Plain;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::collections::{DATABASE, Store, pages_read};

#[test]
fn a_full_keyspace_keeps_every_key_and_has_room_again_after_deletes() {
    const PAGES: u64 = 200;
    let mut memory = Plain::zeroed(PAGES * PAGE_BYTES as u64);
    let keys = Keyspace::format(&mut memory, Addr(0), PAGES, HashSecret([1, 1]));
    let set = |memory: &mut Plain, number: u64, bytes: usize| {
        let name = number.to_string();
        let key = keys.key(name.as_bytes());
        let value = vec![number as u8; bytes];
        let set = keys.exclusive(memory, &[key.hash], |m| keys.set(m, 0, &key, &value, None));
        set.expect("no log").0.map(drop)
    };
    let mut count = 0;
    // Large values, then small ones, fill it; no attempt leaves anything behind.
    for bytes in [20_000, 500, 300] {
        while set(&mut memory, count, bytes) == Ok(()) {
            count += 1;
        }
        let free = keys.free_pages(&mut memory);
        assert_eq!(set(&mut memory, count, 30_000), Err(Full));
        assert_eq!(keys.free_pages(&mut memory), free);
    }
    assert_eq!(keys.counts(&mut memory, 0).keys, count);
    for number in 0..count {
        let name = number.to_string();
        let key = keys.key(name.as_bytes());
        assert!(keys.find(&mut memory, 0, &key, &mut Vec::new()).is_some(), "{number}");
        let removed = keys.exclusive(&mut memory, &[key.hash], |m| keys.remove(m, 0, &key));
        assert!(removed.expect("no log").0);
    }
    assert_eq!(set(&mut memory, 1, 20_000), Ok(()));
}

/// Returns the bytes of pages for each byte of keys and values: the mean while the keys double.
/// `value_bytes` returns the sizes of values, whose mean is about `mean_bytes`.
fn use_over_a_doubling(mean_bytes: u64, mut value_bytes: impl FnMut() -> usize) -> f64 {
    let count = (16 << 20) / (16 + mean_bytes);
    let pages = count * (mean_bytes + 100) * 3 / PAGE_BYTES as u64;
    let mut memory = Plain::zeroed(pages * PAGE_BYTES as u64);
    let keys = Keyspace::format(&mut memory, Addr(0), pages, HashSecret([2, 9]));
    let (mut uses, mut data_bytes) = (Vec::new(), 0);
    for number in 0..count {
        let name = format!("key:{number:012}");
        let key = keys.key(name.as_bytes());
        let value = vec![3; value_bytes()];
        let set = keys.exclusive(&mut memory, &[key.hash], |m| keys.set(m, 0, &key, &value, None));
        set.expect("no log").0.expect("there is room");
        data_bytes += name.len() + value.len();
        if number >= count / 2 && number % (count / 32) == 0 {
            let (free, all) = keys.free_pages(&mut memory);
            uses.push(((all - free) * PAGE_BYTES as u64) as f64 / data_bytes as f64);
        }
    }
    uses.iter().sum::<f64>() / uses.len() as f64
}

#[test]
fn pages_take_little_more_than_their_keys_and_values() {
    let inline = [16, 64, 230, 500, 1_000, 1_400, 1_800].map(|value_bytes| (value_bytes, 1.7));
    for (value_bytes, most) in inline.into_iter().chain([(16 << 10, 1.3)]) {
        let used = use_over_a_doubling(value_bytes as u64, || value_bytes);
        assert!(used <= most, "{used} bytes of pages for a byte, values of {value_bytes} bytes");
    }
}

/// A value that is somewhat longer than some whole pages has no other page for its end.
#[test]
fn a_value_takes_little_more_room_than_whole_pages_and_its_tail() {
    for (value_bytes, most) in
        [(2_100, 2.0), (3_000, 1.45), (4_200, 1.1), (5_000, 1.2), (9_000, 1.1), (20_480, 1.1)]
    {
        let used = use_over_a_doubling(value_bytes as u64, || value_bytes);
        assert!(used <= most, "{used} bytes of pages for a byte, values of {value_bytes} bytes");
    }
}

/// The leaf that has the entry also has the tail.
#[test]
fn a_value_of_one_page_and_a_tail_is_read_from_two_pages() {
    let mut store = Store::new();
    let key = store.keys.key(b"k");
    for (value_bytes, most) in [(1_900, 1), (4_000, 2), (5_000, 2), (9_000, 3), (7_000, 3)] {
        let value: Vec<u8> = (0..value_bytes).map(|byte| byte as u8).collect();
        let set = store.keys.set(&mut store.memory, DATABASE, &key, &value, None);
        set.expect("there is room");
        let mut found = Vec::new();
        let pages = pages_read(&mut store, |keys, memory| {
            let entry = keys.find(memory, DATABASE, &key, &mut found).expect("it is there");
            if !entry.is_inline() {
                keys.read_range(memory, &entry, 0, value_bytes, &mut found);
            }
        });
        assert!(found == value, "{value_bytes} bytes");
        // The page of roots comes in addition.
        assert_eq!(pages, most + 1, "{value_bytes} bytes");
    }
}

/// The sizes of values in caches are about lognormal (Atikoglu et al., SIGMETRICS 2012).
#[test]
fn values_of_lognormal_sizes_take_little_more_room_than_their_bytes() {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let mut lognormal = || {
        let (radius, angle): (f64, f64) = (rng.random(), rng.random());
        let normal = (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
        (1_500.0 * normal.exp()).clamp(16.0, 32_704.0) as usize
    };
    let used = use_over_a_doubling(2_450, &mut lognormal);
    assert!(used <= 1.3, "{used} bytes of pages for a byte");
}
