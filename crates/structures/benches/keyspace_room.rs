//! Pages that a keyspace uses for each byte of keys and values, measured over one doubling of the
//! keys. Leaves of equal age divide at about the same time, so the number varies within a doubling.
//! Sizes "about N" are lognormal with this median and a sigma of 1.
//!
//! `cargo bench -p ebbtide-structures --bench keyspace_room`

use ebbtide_core::{Addr, PAGE_BYTES};
use ebbtide_structures::keyspace::{HashSecret, Keyspace, WHOLE_BYTES_MAX};
use ebbtide_testbed::Plain;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Bytes of keys and values at the end of the doubling.
const DATA_BYTES: u64 = 64 << 20;

/// Bytes of a key.
const KEY_BYTES: u64 = 16;

/// Sizes of values, around the bounds between their forms.
const SIZES: [u64; 16] =
    [16, 64, 230, 500, 1000, 1400, 1800, 2100, 3000, 4000, 4200, 5000, 6000, 9000, 20_480, 32_000];

/// Looks at the use of pages over the doubling.
const LOOKS: u64 = 64;

fn main() {
    println!(
        "value bytes   keys      mean   least  most   (pages used for a byte of keys and values)"
    );
    for value_bytes in SIZES {
        print(&value_bytes.to_string(), value_bytes, || value_bytes as usize);
    }
    for median in [300.0, 1_500.0, 9_000.0] {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let lognormal = || {
            let (radius, angle): (f64, f64) = (rng.random(), rng.random());
            let normal =
                (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
            (median * normal.exp()).clamp(16.0, WHOLE_BYTES_MAX as f64) as usize
        };
        let mean = (median * 0.5f64.exp()) as u64;
        print(&format!("about {median}"), mean, lognormal);
    }
}

/// Prints the use of pages by values of these sizes, whose mean is about `mean_bytes`.
fn print(name: &str, mean_bytes: u64, value_bytes: impl FnMut() -> usize) {
    let keys = DATA_BYTES / (KEY_BYTES + mean_bytes);
    let uses = doubling(keys, value_bytes);
    let mean = uses.iter().sum::<f64>() / uses.len() as f64;
    let least = uses.iter().copied().fold(f64::INFINITY, f64::min);
    let most = uses.iter().copied().fold(0.0, f64::max);
    println!("{name:>11}   {keys:<8}  {mean:.3}  {least:.3}  {most:.3}");
}

/// Bytes of pages for a byte of keys and values, looked at while the keys grow from half of `keys`
/// to all.
fn doubling(keys: u64, mut value_bytes: impl FnMut() -> usize) -> Vec<f64> {
    let pages = 4 * DATA_BYTES / PAGE_BYTES as u64;
    let mut memory = Plain::zeroed(pages * PAGE_BYTES as u64);
    let keyspace = Keyspace::format(&mut memory, Addr(0), pages, HashSecret([5, 7]));
    let (mut uses, mut data_bytes) = (Vec::new(), 0);
    for number in 0..keys {
        let name = format!("key:{number:012}");
        let key = keyspace.key(name.as_bytes());
        let value = vec![7; value_bytes()];
        data_bytes += KEY_BYTES + value.len() as u64;
        let set = keyspace.exclusive(&mut memory, &[key.hash], |memory| {
            keyspace.set(memory, 0, &key, &value, None)
        });
        set.expect("there is no log").0.expect("there is room");
        let count = number + 1;
        if count > keys / 2 && count.is_multiple_of((keys / 2 / LOOKS).max(1)) {
            let (free, all) = keyspace.free_pages(&mut memory);
            uses.push(((all - free) * PAGE_BYTES as u64) as f64 / data_bytes as f64);
        }
    }
    uses
}
