//! A full keyspace refuses changes that need room, keeps its keys, and takes deletes.

use ebbtide_core::{Addr, PAGE_BYTES};
use ebbtide_structures::keyspace::{Full, HashSecret, Keyspace};
use ebbtide_testbed::Plain;

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
fn use_over_a_doubling(value_bytes: usize) -> f64 {
    let count = (16 << 20) / (16 + value_bytes as u64);
    let pages = count * (value_bytes as u64 + 100) * 3 / PAGE_BYTES as u64;
    let mut memory = Plain::zeroed(pages * PAGE_BYTES as u64);
    let keys = Keyspace::format(&mut memory, Addr(0), pages, HashSecret([2, 9]));
    let value = vec![3; value_bytes];
    let mut uses = Vec::new();
    for number in 0..count {
        let name = format!("key:{number:012}");
        let key = keys.key(name.as_bytes());
        let set = keys.exclusive(&mut memory, &[key.hash], |m| keys.set(m, 0, &key, &value, None));
        set.expect("no log").0.expect("there is room");
        if number >= count / 2 && number % (count / 32) == 0 {
            let (free, all) = keys.free_pages(&mut memory);
            let data_bytes = (number + 1) * (name.len() + value_bytes) as u64;
            uses.push(((all - free) * PAGE_BYTES as u64) as f64 / data_bytes as f64);
        }
    }
    uses.iter().sum::<f64>() / uses.len() as f64
}

#[test]
fn pages_take_little_more_than_their_keys_and_values() {
    let inline = [16, 64, 230, 500, 1_000, 1_400, 1_800].map(|value_bytes| (value_bytes, 1.7));
    for (value_bytes, most) in inline.into_iter().chain([(16 << 10, 1.3)]) {
        let used = use_over_a_doubling(value_bytes);
        assert!(used <= most, "{used} bytes of pages for a byte, values of {value_bytes} bytes");
    }
}
