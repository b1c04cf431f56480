//! Runs a month of use in little time against one store of the library:
//! `cargo bench -p ebbtide --bench month -- FOLDER [MIB ROUNDS]`, 64 MiB and 3 rounds by default.
//! It prints a row for each phase. It ends with an error if a value is wrong, or a later round has
//! less room than the first.

use std::error::Error as StdError;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use ebbtide::{Error, Map, Ordered, Store, Unordered};

/// Threads that call the store at once.
const THREADS: usize = 32;

/// Keys of either map that the phases use.
const KEYS: usize = 1 << 22;

/// Later rounds must hold this share of the first round's bytes.
const ROOM_SHARE: f64 = 0.97;

/// Changes that a killed process acknowledges before it is killed.
const ACKNOWLEDGED: u64 = 2_000;

/// A key with its value.
type Pair = (Vec<u8>, Vec<u8>);

type Done<T = ()> = Result<T, Box<dyn StdError + Send + Sync>>;

fn main() -> Done {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match &arguments[..] {
        [] => Ok(()),
        [word, path] if word == "count" => count(Path::new(path)),
        [folder, rest @ ..] => {
            let number = |at: usize, default| rest.get(at).map_or(Ok(default), |word| word.parse());
            let folder = tempfile::tempdir_in(folder)?;
            Month::new(folder.path().join("month.ebb"), number(0, 64)?)?.run(number(1, 3)?)
        }
    }
}

/// A draw that depends on nothing but its arguments.
fn draw(key: usize, version: u32) -> u64 {
    let mut word = (key as u64) << 32 | u64::from(version);
    for _ in 0..2 {
        word = (word ^ (word >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    word ^ (word >> 29)
}

/// Bytes of a value, with its own length.
fn value(key: usize, version: u32, bytes: usize) -> Vec<u8> {
    let word = draw(key, version).to_le_bytes();
    word.into_iter().cycle().take(bytes).collect()
}

/// The value that a map must hold under a key.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Held {
    version: u32,
    bytes: u32,
}

/// The key of a thread's place. All keys are different, and in another order than the numbers.
fn key_of(thread: usize, at: usize) -> Vec<u8> {
    let number = at * THREADS + thread;
    // The factor is odd, so it maps the numbers below a power of two to each other.
    format!("key:{:07}", number.wrapping_mul(2_654_435_761) % KEYS).into_bytes()
}

/// A map with what it must hold. Thread `n` has the keys whose number is `n` modulo the threads.
struct Kept<Order> {
    map: Map<Order>,
    held: Vec<Vec<Option<Held>>>,
}

impl<Order: Sync> Kept<Order> {
    fn new(map: Map<Order>) -> Kept<Order> {
        Kept { map, held: vec![vec![None; KEYS / THREADS]; THREADS] }
    }

    /// Runs `body` for each key on the thread that has it, until `body` returns false or a thread
    /// finds the store full. Returns whether it was full.
    fn each(
        &mut self,
        body: impl Fn(&Map<Order>, usize, usize, &mut Option<Held>) -> Result<bool, Error> + Sync,
    ) -> Done<bool> {
        let (full, map, body) = (AtomicBool::new(false), &self.map, &body);
        let of_thread = |thread: usize, held: &mut [Option<Held>]| -> Result<(), Error> {
            for (at, held) in held.iter_mut().enumerate() {
                match body(map, thread, at, held) {
                    Ok(true) if !full.load(Ordering::Relaxed) => {}
                    Ok(_) => break,
                    Err(Error::Full) => {
                        full.store(true, Ordering::Relaxed);
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        };
        thread::scope(|threads| {
            let each = self.held.iter_mut().enumerate();
            let of_thread = &of_thread;
            let running: Vec<_> =
                each.map(|(n, held)| threads.spawn(move || of_thread(n, held))).collect();
            running.into_iter().try_for_each(|thread| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        })?;
        Ok(full.into_inner())
    }

    /// Replaces the value of each key that is there by one of another size. With `new`, stores new
    /// keys instead, of about that many bytes. Returns whether the store was full.
    fn write(&mut self, version: u32, sizes: &Range<usize>, new: Option<usize>) -> Done<bool> {
        self.each(|map, thread, at, held| {
            let key = at * THREADS + thread;
            if new.is_some() == held.is_some() {
                return Ok(true);
            }
            if new.is_some_and(|most| key * sizes.end / 2 > most) {
                return Ok(false);
            }
            let bytes = sizes.start + draw(key, version) as usize % sizes.len();
            map.insert(key_of(thread, at), value(key, version, bytes))?;
            *held = Some(Held { version, bytes: bytes as u32 });
            Ok(true)
        })
    }

    /// Removes one key of `of`, or all for 1.
    fn remove(&mut self, of: usize) -> Done {
        self.each(|map, thread, at, held| {
            if held.is_some() && at % of == 0 {
                if !map.remove(key_of(thread, at))? {
                    return Err(Error::program(format!("key {at} of {thread} was not there")));
                }
                *held = None;
            }
            Ok(true)
        })?;
        Ok(())
    }

    /// Compares every value, and counts the pairs of a walk.
    fn check(&mut self, pairs: impl Iterator<Item = Result<Pair, Error>>) -> Done {
        self.each(|map, thread, at, held| {
            let Some(Held { version, bytes }) = *held else { return Ok(true) };
            let expected = value(at * THREADS + thread, version, bytes as usize);
            if map.get(key_of(thread, at))?.as_deref() == Some(&expected[..]) {
                return Ok(true);
            }
            Err(Error::program(format!("key {at} of {thread} has another value")))
        })?;
        let mut walked = 0;
        for pair in pairs {
            pair?;
            walked += 1;
        }
        let keys = self.keys();
        if walked == keys { Ok(()) } else { Err(format!("{walked} keys, not {keys}").into()) }
    }

    fn keys(&self) -> usize {
        self.held.iter().flatten().flatten().count()
    }

    fn bytes(&self) -> usize {
        self.held.iter().flatten().flatten().map(|held| held.bytes as usize + 11).sum()
    }
}

struct Month {
    path: PathBuf,
    store: Store,
    mib: usize,
    version: u32,
    map: Kept<Unordered>,
    ordered: Kept<Ordered>,
    /// Bytes that the store held when it was full for the first time.
    first_full: Option<usize>,
}

fn open(path: &Path, mib: usize) -> Result<Store, Error> {
    let dram = (mib / 20).max(16);
    let builder = Store::builder(path).size(format!("{mib}MiB")).structures("4MiB");
    builder.dram(format!("{dram}MiB")).durability("every:1s").open()
}

impl Month {
    fn new(path: PathBuf, mib: usize) -> Done<Month> {
        let store = open(&path, mib)?;
        let (map, ordered) = (store.map("map")?, store.ordered_map("ordered")?);
        let (map, ordered) = (Kept::new(map), Kept::new(ordered));
        Ok(Month { path, store, mib, version: 0, map, ordered, first_full: None })
    }

    fn run(&mut self, rounds: usize) -> Done {
        println!("| phase | took s | keys | MiB | RSS MiB | p99 µs of a read | reads a get |");
        println!("|---|---|---|---|---|---|---|");
        for round in 1..=rounds {
            println!("| **round {round}** | | | | | | |");
            self.phase("fill", |month| month.fill(&(10..3_000)))?;
            self.phase("remove all", Month::clear)?;
            self.phase("fill with small values", |month| month.fill(&(10..100)))?;
            self.phase("remove all", Month::clear)?;
            self.phase("fill", |month| month.fill(&(10..3_000)))?;
            self.phase("remove half", |month| month.remove(2))?;
            self.phase("overwrite with other sizes", |month| month.overwrite(&(10..3_000)))?;
            self.phase("overwrite with small values", |month| month.overwrite(&(10..300)))?;
            self.phase("large values", Month::large)?;
            self.phase("list", Month::list)?;
            self.phase("vector", Month::vector)?;
            self.phase("reopen", Month::stop_and_open)?;
            self.phase("kill", Month::kill)?;
            self.phase("remove all", Month::clear)?;
        }
        Ok(())
    }

    fn phase(&mut self, name: &str, body: impl FnOnce(&mut Month) -> Done) -> Done {
        let start = Instant::now();
        body(self).map_err(|error| format!("{name}: {error}"))?;
        let took = start.elapsed().as_secs_f64();
        let (pairs, in_order) = (self.map.map.iter(), self.ordered.map.iter());
        self.map.check(pairs).map_err(|error| format!("{name}: map: {error}"))?;
        self.ordered.check(in_order).map_err(|error| format!("{name}: ordered map: {error}"))?;
        let (p99, reads) = self.speed()?;
        let keys = self.map.keys() + self.ordered.keys();
        let mib = (self.map.bytes() + self.ordered.bytes()) >> 20;
        println!(
            "| {name} | {took:.1} | {keys} | {mib} | {} | {p99:.0} | {reads:.2} |",
            rss_mib()?
        );
        Ok(())
    }

    /// The 99th percentile of single gets of the map, in microseconds, and reads of flash a get.
    fn speed(&self) -> Done<(f64, f64)> {
        let before = self.store.counters()?;
        let mut times: Vec<f64> = Vec::new();
        for n in 0..2_000 {
            let (thread, at) = (n % THREADS, draw(n, 1) as usize % (KEYS / THREADS));
            let start = Instant::now();
            self.map.map.get(key_of(thread, at))?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        let reads = self.store.counters()?.flash_reads - before.flash_reads;
        times.sort_by(f64::total_cmp);
        Ok((times[times.len() * 99 / 100], reads as f64 / times.len() as f64))
    }

    /// Fills half of the room with keys of the map, and the rest with those of the ordered map.
    fn fill(&mut self, sizes: &Range<usize>) -> Done {
        self.version += 1;
        self.map.write(self.version, sizes, Some(self.mib << 19))?;
        if !self.ordered.write(self.version, sizes, Some(usize::MAX))? {
            return Err("the keys end before the store is full".into());
        }
        if sizes.end < 1_000 {
            return Ok(());
        }
        let bytes = self.map.bytes() + self.ordered.bytes();
        let first = *self.first_full.get_or_insert(bytes);
        if (bytes as f64) < ROOM_SHARE * first as f64 {
            return Err(format!("full with {bytes} bytes, {first} at first").into());
        }
        Ok(())
    }

    fn clear(&mut self) -> Done {
        self.remove(1)
    }

    fn remove(&mut self, of: usize) -> Done {
        self.map.remove(of)?;
        self.ordered.remove(of)
    }

    fn overwrite(&mut self, sizes: &Range<usize>) -> Done {
        self.version += 1;
        let full = self.map.write(self.version, sizes, None)?;
        if full || self.ordered.write(self.version, sizes, None)? {
            return Err("full with half of its keys".into());
        }
        Ok(())
    }

    /// Values of a fiftieth of the store come, are replaced, and go.
    fn large(&mut self) -> Done {
        let bytes = (self.mib << 20) / 50;
        for version in 0..3 {
            for n in 0..8 {
                self.ordered.map.insert(format!("large:{n}"), value(n, version, bytes + n))?;
            }
            for n in 0..8 {
                let found = self.ordered.map.get(format!("large:{n}"))?;
                if found != Some(value(n, version, bytes + n)) {
                    return Err(format!("large value {n} is another").into());
                }
            }
        }
        for n in 0..8 {
            self.ordered.map.remove(format!("large:{n}"))?;
        }
        Ok(())
    }

    fn list(&mut self) -> Done {
        let list = self.store.list::<(u64, String)>("list")?;
        let element = |n: u64| (n, "x".repeat(n as usize % 500));
        list.extend((0..20_000).map(element))?;
        for n in 0..2_000 {
            list.set(n * 10, &element(n * 10 + 1))?;
        }
        for n in (0..20_000).rev() {
            let expected = element(if n % 10 == 0 { n + 1 } else { n });
            if list.pop()? != Some(expected) {
                return Err(format!("element {n} is another").into());
            }
        }
        if list.is_empty()? { Ok(()) } else { Err("elements are left".into()) }
    }

    /// Transfers between accounts keep their sum.
    fn vector(&mut self) -> Done {
        let accounts = self.store.vector::<u64>("accounts", 100_000)?;
        for n in 0..20_000_usize {
            let (from, to) = (draw(n, 2) % 100_000, draw(n, 3) % 100_000);
            self.store.transaction(move |memory| {
                accounts.update(memory, from, |money| money.wrapping_sub(1));
                accounts.update(memory, to, |money| money.wrapping_add(1));
                Ok(())
            })?;
        }
        let sum = self.store.run(move |memory| {
            Ok((0..accounts.len()).fold(0, |sum: u64, n| sum.wrapping_add(accounts.get(memory, n))))
        })?;
        if sum == 0 { Ok(()) } else { Err(format!("the accounts have {sum}").into()) }
    }

    fn stop_and_open(&mut self) -> Done {
        self.store.stop()?;
        self.open()
    }

    fn open(&mut self) -> Done {
        self.store = open(&self.path, self.mib)?;
        (self.map.map, self.ordered.map) =
            (self.store.map("map")?, self.store.ordered_map("ordered")?);
        Ok(())
    }

    /// Another process changes the store and is killed. What it acknowledged is there.
    fn kill(&mut self) -> Done {
        self.store.stop()?;
        let program = std::env::current_exe()?;
        let mut child =
            Command::new(program).arg("count").arg(&self.path).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let mut last = 0;
        for line in lines {
            last = line?.parse()?;
            if last == ACKNOWLEDGED {
                child.kill()?;
            }
        }
        child.wait()?;
        self.open()?;
        self.counted(last)
    }

    /// Checks the numbers that a killed process has stored, and removes them.
    fn counted(&self, last: u64) -> Done {
        let counts = self.store.map("counts")?.typed::<u64, u64>();
        for n in 1..=last {
            if counts.get(&n)? != Some(n) {
                return Err(format!("{n} of {last} was acknowledged and is not there").into());
            }
        }
        let keys = counts.keys().collect::<Result<Vec<u64>, Error>>()?;
        keys.iter().try_for_each(|key| counts.remove(key).map(drop))?;
        if last < ACKNOWLEDGED {
            Err(format!("the process ended at {last}").into())
        } else {
            Ok(())
        }
    }
}

/// Stores numbers under `always`, and prints each once it is acknowledged.
fn count(path: &Path) -> Done {
    let store = Store::builder(path).durability("always").open()?;
    let counts = store.map("counts")?.typed::<u64, u64>();
    for n in 1.. {
        counts.insert(&n, &n)?;
        println!("{n}");
    }
    Ok(())
}

fn rss_mib() -> Done<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS")?;
    let kib: u64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kib >> 10)
}
