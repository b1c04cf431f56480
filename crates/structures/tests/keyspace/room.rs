//! A keyspace that is full refuses what needs room, keeps what it has, and takes deletes.

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
