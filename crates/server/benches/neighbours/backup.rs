//! Writes while the store is copied.

use std::path::Path;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, encode, ok};
use super::served::Served;
use super::{Failure, Plan, spread};

/// Keys, and bytes of each value: 200 MB.
const KEYS: usize = 200_000;
const VALUE_BYTES: usize = 1_000;

/// Requests that are sent at once.
const BATCH: usize = 64;

struct Writer {
    client: Client,
    rng: Pcg64Mcg,
}

impl Writer {
    /// Sets these keys.
    fn set(&mut self, numbers: impl Iterator<Item = usize>) {
        let key = |number: usize| format!("key:{number}").into_bytes();
        let value = [b'v'; VALUE_BYTES];
        let sets: Vec<Vec<u8>> =
            numbers.map(|number| encode(&[b"set", &key(number), &value])).collect();
        self.client.send(&sets.concat());
        sets.iter().for_each(|_| assert_eq!(self.client.reply(), Some(ok())));
    }

    /// Overwrites random keys while `goes_on` returns true. Returns the number of writes a second.
    fn overwrite(&mut self, mut goes_on: impl FnMut(&mut Client) -> bool) -> f64 {
        let (began, mut count) = (Instant::now(), 0);
        while count == 0 || goes_on(&mut self.client) {
            let numbers: Vec<usize> = (0..BATCH).map(|_| self.rng.random_range(0..KEYS)).collect();
            self.set(numbers.into_iter());
            count += BATCH;
        }
        count as f64 / began.elapsed().as_secs_f64()
    }

    /// The state of the last copy.
    fn copy(&mut self) -> String {
        let Reply::Bulk(text) = self.client.call("info persistence") else { panic!("a text") };
        let text = String::from_utf8_lossy(&text).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix("last_copy:"));
        line.expect("a state").to_string()
    }
}

/// Measures writes without and with a copy under way, in turns.
pub(crate) fn measure(folder: &Path, Plan { time, turns }: Plan) -> Result<(), Failure> {
    let served = Served::start(&folder.join("backup"), 1 << 30, 128 << 20);
    let client = Client::connect(served.address);
    let mut writer = Writer { client, rng: Pcg64Mcg::seed_from_u64(1) };
    for from in (0..KEYS).step_by(BATCH) {
        writer.set(from..KEYS.min(from + BATCH));
    }
    let (mut alone, mut ratios, mut copied) = (Vec::new(), Vec::new(), Vec::new());
    let wait = |began: Instant| move |_: &mut Client| began.elapsed() < time;
    for turn in 0..turns {
        let before = writer.overwrite(wait(Instant::now()));
        let path = folder.join(format!("copy-{turn}"));
        let path_bytes = path.to_str().ok_or("a path in UTF-8")?.as_bytes();
        let begun = writer.client.command(&[b"bgsave", b"to", path_bytes]);
        assert!(matches!(begun, Reply::Status(_)), "{begun:?}");
        let (began, mut asked) = (Instant::now(), Instant::now());
        let mut other = Writer { client: Client::connect(served.address), rng: writer.rng.clone() };
        let during = writer.overwrite(|_| {
            if asked.elapsed() < Duration::from_millis(20) {
                return true;
            }
            asked = Instant::now();
            other.copy() == "under way"
        });
        let state = writer.copy();
        assert!(state.starts_with("done"), "{state}");
        copied.push(began.elapsed().as_secs_f64());
        std::fs::remove_file(path)?;
        let after = writer.overwrite(wait(Instant::now()));
        alone.push(before.midpoint(after));
        ratios.push(during / before.midpoint(after));
    }
    let (rate, ..) = spread(&mut alone);
    let (ratio, least, most) = spread(&mut ratios);
    let (seconds, ..) = spread(&mut copied);
    println!("| writes of 1 KB/s | during a copy | range | seconds of a copy |");
    println!("|---|---|---|---|");
    println!("| {rate:.0} | {ratio:.2} | {least:.2} to {most:.2} | {seconds:.1} |");
    Ok(())
}
