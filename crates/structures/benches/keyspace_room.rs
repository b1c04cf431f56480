//! Pages that a keyspace uses for each byte of keys and values, measured over one doubling of the
//! keys. Leaves of equal age divide at about the same time, so the number varies within a doubling.
//!
//! `cargo bench -p ebbtide-structures --bench keyspace_room`

use ebbtide_core::{Addr, PAGE_BYTES};
use ebbtide_structures::keyspace::{HashSecret, Keyspace, WHOLE_BYTES_MAX};
use ebbtide_testbed::Plain;

/// Bytes of keys and values at the end of the doubling.
const DATA_BYTES: u64 = 64 << 20;

/// Bytes of a key.
const KEY_BYTES: u64 = 16;

/// Looks at the use of pages over the doubling.
const LOOKS: u64 = 64;

fn main() {
    println!(
        "value bytes   keys      mean   least  most   (pages used for a byte of keys and values)"
    );
    for value_bytes in [16, 64, 230, 500, 1000, 1400, 1800, 4000, 16 << 10, 32_000] {
        let keys = DATA_BYTES / (KEY_BYTES + value_bytes);
        let uses = doubling(keys, value_bytes as usize);
        let mean = uses.iter().sum::<f64>() / uses.len() as f64;
        let least = uses.iter().copied().fold(f64::INFINITY, f64::min);
        let most = uses.iter().copied().fold(0.0, f64::max);
        println!("{value_bytes:>11}   {keys:<8}  {mean:.2}   {least:.2}   {most:.2}");
    }
}

/// Bytes of pages for a byte of keys and values, looked at while the keys grow from half of `keys`
/// to all.
fn doubling(keys: u64, value_bytes: usize) -> Vec<f64> {
    assert!(value_bytes <= WHOLE_BYTES_MAX, "larger ones are written in pieces");
    let pages = 4 * DATA_BYTES / PAGE_BYTES as u64;
    let mut memory = Plain::zeroed(pages * PAGE_BYTES as u64);
    let keyspace = Keyspace::format(&mut memory, Addr(0), pages, HashSecret([5, 7]));
    let value = vec![7; value_bytes];
    let mut uses = Vec::new();
    for number in 0..keys {
        let name = format!("key:{number:012}");
        let key = keyspace.key(name.as_bytes());
        let set = keyspace.exclusive(&mut memory, &[key.hash], |memory| {
            keyspace.set(memory, 0, &key, &value, None)
        });
        set.expect("there is no log").0.expect("there is room");
        let count = number + 1;
        if count > keys / 2 && count.is_multiple_of((keys / 2 / LOOKS).max(1)) {
            let (free, all) = keyspace.free_pages(&mut memory);
            let data_bytes = count * (KEY_BYTES + value_bytes as u64);
            uses.push(((all - free) * PAGE_BYTES as u64) as f64 / data_bytes as f64);
        }
    }
    uses
}
