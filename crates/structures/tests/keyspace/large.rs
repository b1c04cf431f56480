//! Large values: written piece by piece, seen only when they are whole, and freed when no job holds
//! them.

use ebbtide_core::{Addr, PAGE_BYTES};
use ebbtide_structures::keyspace::{
    Entry, Full, HashSecret, Key, Keyspace, Large, WHOLE_BYTES_MAX,
};
use ebbtide_testbed::Plain;

const PAGES: u64 = 8_192;

fn keyspace(pages: u64) -> (Plain, Keyspace) {
    let mut memory = Plain::zeroed(pages * PAGE_BYTES as u64);
    let keys = Keyspace::format(&mut memory, Addr(0), pages, HashSecret([5, 6]));
    (memory, keys)
}

fn byte(at: u64) -> u8 {
    (at ^ at >> 9) as u8
}

/// Writes bytes from the end of a value to `end`.
fn write(keys: &Keyspace, memory: &mut Plain, large: &mut Large, end: u64) -> Result<(), Full> {
    while large.bytes < end {
        let (from, to) = (large.bytes, end.min(large.bytes + WHOLE_BYTES_MAX as u64));
        let piece: Vec<u8> = (from..to).map(byte).collect();
        keys.write_large(memory, large, from, &piece)?;
    }
    Ok(())
}

fn value(keys: &Keyspace, memory: &mut Plain, key: &Key<'_>) -> (Entry, Vec<u8>) {
    let mut value = Vec::new();
    let entry = keys.find(memory, 0, key, &mut value).expect("it is there");
    keys.read_range(memory, &entry, 0, entry.value_bytes as usize, &mut value);
    (entry, value)
}

#[test]
fn a_value_of_many_lists_is_read_in_parts_extended_and_given_back_whole() {
    let (mut memory, keys) = keyspace(PAGES);
    let key = keys.key(b"large");
    keys.set(&mut memory, 0, &key, b"small", Some(5)).expect("room");
    let (free, _) = keys.free_pages(&mut memory);
    let (mut large, ()) = keys.begin_large(&mut memory, |_| ()).expect("room");
    // More than three pages of page numbers.
    let bytes = 3 * 1_018 * 4_088 + 77;
    write(&keys, &mut memory, &mut large, bytes).expect("room");
    assert!(value_is_small(&keys, &mut memory, &key));
    assert_eq!(keys.attach_large(&mut memory, 0, &key, &large, Some(7)), Ok(true));
    let (entry, read) = value(&keys, &mut memory, &key);
    assert_eq!((entry.value_bytes, entry.expires_at_ms), (bytes, Some(7)));
    assert!(read.iter().zip(0..).all(|(read, at)| *read == byte(at)) && read.len() as u64 == bytes);
    let mut part = Vec::new();
    keys.read_range(&mut memory, &entry, 1_018 * 4_088 - 3, 9_000, &mut part);
    assert!(part.iter().zip(1_018 * 4_088 - 3..).all(|(read, at)| *read == byte(at)));
    let used = free - keys.free_pages(&mut memory).0;
    assert!(used * 4096 < bytes + bytes / 100, "{used} pages for {bytes} bytes");
    // What is written beyond the end is not seen before the entry says so, and is not lost either.
    let mut more = keys.open_large(&mut memory, &entry).expect("a large one");
    write(&keys, &mut memory, &mut more, bytes + 5_000_000).expect("room");
    assert_eq!(value(&keys, &mut memory, &key).1.len() as u64, bytes);
    let mut again = keys.open_large(&mut memory, &entry).expect("a large one");
    let before = keys.free_pages(&mut memory).0;
    write(&keys, &mut memory, &mut again, bytes + 4_000_000).expect("room");
    assert_eq!(keys.free_pages(&mut memory).0, before, "its pages were there already");
    keys.extend_large(&mut memory, 0, &key, &again, None).expect("room");
    let (_, read) = value(&keys, &mut memory, &key);
    assert_eq!(read.len() as u64, bytes + 4_000_000);
    assert!(read.iter().zip(0..).all(|(read, at)| *read == byte(at)));
    assert!(keys.remove(&mut memory, 0, &key));
    assert!(keys.reclaim_large(&mut memory, |_| false));
    assert!(!keys.reclaim_large(&mut memory, |_| false));
    assert_eq!(keys.free_pages(&mut memory).0, free, "every page came back");
}

fn value_is_small(keys: &Keyspace, memory: &mut Plain, key: &Key<'_>) -> bool {
    let mut value = Vec::new();
    keys.find(memory, 0, key, &mut value).is_some() && value == b"small"
}

#[test]
fn pages_of_values_that_somebody_holds_stay_and_the_others_come_back() {
    let (mut memory, keys) = keyspace(PAGES);
    let (free, _) = keys.free_pages(&mut memory);
    let large: Vec<Large> = (0..5)
        .map(|_| {
            let (mut large, ()) = keys.begin_large(&mut memory, |_| ()).expect("room");
            write(&keys, &mut memory, &mut large, 100_000).expect("room");
            large
        })
        .collect();
    for held in [[1, 3], [3, 3]] {
        while keys.reclaim_large(&mut memory, |id| held.iter().any(|h| large[*h].id() == id)) {}
    }
    let mut bytes = Vec::new();
    keys.read_large(&mut memory, &large[3], 0, 100_000, &mut bytes);
    assert!(bytes.iter().zip(0..).all(|(read, at)| *read == byte(at)));
    // As after a crash: no job holds a value.
    let keys = Keyspace::open(&mut memory, Addr(0)).expect("a keyspace");
    assert!(keys.reclaim_large(&mut memory, |_| false));
    assert_eq!(keys.free_pages(&mut memory).0, free);
}

/// The next piece needs two pages for its bytes and one for their numbers.
#[test]
fn a_piece_without_room_leaves_the_value_as_it_was() {
    const LISTED: u64 = 1_018;
    let (mut memory, keys) = keyspace(1_200);
    let (mut large, ()) = keys.begin_large(&mut memory, |_| ()).expect("room");
    let before = (LISTED - 1) * 4_088;
    write(&keys, &mut memory, &mut large, before).expect("room");
    let mut others = Vec::new();
    // Two pages are left beside the reserve.
    while keys.free_pages(&mut memory).0 > 18 {
        others.push(keys.begin_large(&mut memory, |_| ()).expect("room"));
    }
    assert_eq!(keys.write_large(&mut memory, &mut large, before, &[1; 8_000]), Err(Full));
    assert_eq!((keys.free_pages(&mut memory).0, large.bytes), (18, before));
    keys.write_large(&mut memory, &mut large, before, &[1; 4_000]).expect("one page");
    assert_eq!(keys.free_pages(&mut memory).0, 17);
    while keys.reclaim_large(&mut memory, |_| false) {}
    let (mut empty, new) = keyspace(1_200);
    assert_eq!(keys.free_pages(&mut memory), new.free_pages(&mut empty), "every page came back");
}

#[test]
fn a_large_value_without_room_is_refused_and_what_was_written_comes_back() {
    let (mut memory, keys) = keyspace(200);
    let (free, _) = keys.free_pages(&mut memory);
    let (mut large, ()) = keys.begin_large(&mut memory, |_| ()).expect("room");
    assert_eq!(write(&keys, &mut memory, &mut large, 1 << 20), Err(Full));
    assert!(keys.reclaim_large(&mut memory, |_| false));
    assert_eq!(keys.free_pages(&mut memory).0, free);
}
