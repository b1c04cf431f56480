//! Imports records in bulk, 10 million by default, and reads some of them back.
//!
//! ```sh
//! cargo run --release --example bulk_import -p ebbtide -- records.ebb 10000000
//! ```

use std::env;
use std::error::Error;
use std::time::Instant;

use ebbtide::Store;

/// Bytes of a record's value.
const VALUE_BYTES: usize = 100;

/// Room for each record: key, value and index, in pages that are two thirds full.
const ROOM_BYTES: u64 = 224;

fn key(number: u64) -> String {
    format!("record:{number:010}")
}

fn value(number: u64) -> Vec<u8> {
    let word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    word.into_iter().cycle().take(VALUE_BYTES).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "records.ebb".into());
    let records: u64 = arguments.next().map_or(Ok(10_000_000), |text| text.parse())?;
    let size = (records * ROOM_BYTES).max(8 << 20);
    // A crash in the middle loses at most the last second. The import ends with all records
    // durable.
    let options = Store::builder(path).size(size).dram("128MiB").durability("every:1s");
    let store = options.replace(true).open()?;
    let map = store.map("records")?;
    let start = Instant::now();
    map.load((0..records).map(|number| (key(number), value(number))))?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{} records in {seconds:.1} s: {:.0} a second", map.len()?, records as f64 / seconds);
    for number in (0..records).step_by(records.div_ceil(1000).max(1) as usize) {
        if map.get(key(number))? != Some(value(number)) {
            return Err(format!("record {number} is another one").into());
        }
    }
    Ok(())
}
