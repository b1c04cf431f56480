//! Threads that count in an ordered map, next to threads that read ranges of it.
//!
//! ```sh
//! cargo run --release --example readers_and_writers -p ebbtide -- counts.ebb 100000
//! ```

use std::env;
use std::error::Error as StdError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use ebbtide::{Error, Store};

const WRITERS: u64 = 4;
const READERS: u64 = 4;
const SHOPS: u64 = 20;

fn main() -> Result<(), Box<dyn StdError>> {
    let mut arguments = env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "counts.ebb".into());
    let sales: u64 = arguments.next().map_or(Ok(100_000), |text| text.parse())?;
    let options = Store::builder(path).size("64MiB").dram("16MiB").cores(2).durability("every:1s");
    let store = options.replace(true).open()?;
    // Sold pieces by shop and good.
    let sold = store.ordered_map("sold")?.typed::<(u64, String), u64>();
    let (done, read) = (AtomicBool::new(false), AtomicU64::new(0));
    let write = |writer: u64| -> Result<(), Error> {
        for sale in (writer..sales).step_by(WRITERS as usize) {
            let good = (sale % SHOPS, format!("good {}", sale % 7));
            sold.update(&good, |old| Some(old.unwrap_or(0) + 1))?;
        }
        Ok(())
    };
    let read_shops = |reader: u64| -> Result<(), Error> {
        let (mut shop, mut last) = (reader % SHOPS, vec![0; SHOPS as usize]);
        while !done.load(Ordering::Relaxed) {
            let goods = sold.range((shop, String::new())..(shop + 1, String::new()));
            let sum = goods.map(|pair| pair.map(|(_, pieces)| pieces)).sum::<Result<u64, _>>()?;
            assert!(sum >= last[shop as usize], "no sale is lost");
            last[shop as usize] = sum;
            shop = (shop + 1) % SHOPS;
            read.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|threads| {
        let readers: Vec<_> = (0..READERS).map(|n| threads.spawn(move || read_shops(n))).collect();
        let writers: Vec<_> = (0..WRITERS).map(|n| threads.spawn(move || write(n))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<(), Error>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let written = writers.into_iter().try_for_each(join);
        done.store(true, Ordering::Relaxed);
        readers.into_iter().try_for_each(join).and(written)
    })?;
    let sum = sold.iter().map(|pair| pair.map(|(_, pieces)| pieces)).sum::<Result<u64, _>>()?;
    println!("{sum} pieces sold, and {} sums read meanwhile", read.into_inner());
    if sum == sales { Ok(()) } else { Err(format!("{sum} pieces, expected {sales}").into()) }
}
