//! Measures for hours how space is freed and whether expiry keeps up. Serves a new store, drives
//! it, and prints a table.
//!
//! `cargo bench -p ebbtide-server --bench space -- FOLDER SECONDS RATE [PART…]`
//!
//! * `refill`: fills 100 MiB, deletes all keys, and fills it again with values of another size.
//!   Does so after `FLUSHALL`, too.
//! * `overwrite`: overwrites keys at 60% live data with values of 10 B to 3 KB until each was
//!   written as often as fits in SECONDS.
//! * `expire`: RATE times a second `SET … PX 3000` in 400 MiB for SECONDS. It fails if a command
//!   is refused, if there are more than twice the live keys, or if the rate is not reached.
//! * `few`: 600,000 keys that expire in days, and 60 that expire within SECONDS. It fails if upkeep
//!   reads much.
//!
//! Without a part it runs all.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ebbtide_core::Stop;
use ebbtide_server::{ServeError, ServeOptions, serve};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

type Failure = Box<dyn std::error::Error>;

/// Requests that are sent at once.
const BATCH: u64 = 200;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [folder, seconds, rate, parts @ ..] = &arguments[..] else {
        return Err("expected FOLDER SECONDS RATE [PART…]".into());
    };
    let (folder, rate) = (PathBuf::from(folder), rate.parse()?);
    let time = Duration::from_secs(seconds.parse()?);
    const PARTS: [&str; 4] = ["refill", "overwrite", "expire", "few"];
    if let Some(other) = parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        return Err(format!("no part {other}: expected some of {PARTS:?}").into());
    }
    for part in PARTS {
        if parts.is_empty() || parts.iter().any(|wanted| wanted == part) {
            match part {
                "refill" => refill(&folder)?,
                "overwrite" => overwrite(&folder, time)?,
                "expire" => expire(&folder, time, rate)?,
                _ => few(&folder, time)?,
            }
        }
    }
    Ok(())
}

/// A server in this process, and a connection to it.
struct Served {
    stop: &'static Stop,
    runner: Option<JoinHandle<Result<(), ServeError>>>,
    address: SocketAddr,
    client: Client,
}

/// A connection.
struct Client(BufReader<TcpStream>);

impl Served {
    fn start(data: &Path, capacity: u64, dram: u64) -> Result<Served, Failure> {
        let options = ServeOptions {
            data: data.to_path_buf(),
            capacity_bytes: Some(capacity),
            dram_bytes: dram,
            durability: "every:1s".parse()?,
            port: 0,
            ..ServeOptions::default()
        };
        let stop: &'static Stop = Box::leak(Box::default());
        let (send, receive) = channel::<SocketAddr>();
        let runner = std::thread::spawn(move || {
            // The receiver exists until the server has started.
            serve(&options, stop, |started| _ = send.send(started.address))
        });
        let address = receive.recv()?;
        Ok(Served { stop, runner: Some(runner), address, client: Client::connect(address)? })
    }

    fn send(&mut self, requests: &[Vec<Vec<u8>>]) -> Result<Vec<String>, Failure> {
        self.client.send(requests)
    }

    fn call(&mut self, line: &str) -> Result<String, Failure> {
        let words = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        Ok(self.send(&[words])?.remove(0))
    }

    /// Returns the bytes of flash in use.
    fn used(&mut self, capacity: u64) -> Result<u64, Failure> {
        Ok(capacity - self.number("flash_bytes_free")?)
    }

    /// Returns a number of `INFO`.
    fn number(&mut self, field: &str) -> Result<u64, Failure> {
        let info = self.call("info")?;
        let found = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(found.ok_or_else(|| format!("no {field}"))?.trim().parse()?)
    }

    fn keys(&mut self) -> Result<u64, Failure> {
        Ok(self.call("dbsize")?[1..].parse()?)
    }
}

impl Client {
    fn connect(address: SocketAddr) -> Result<Client, Failure> {
        Ok(Client(BufReader::new(TcpStream::connect(address)?)))
    }

    /// Sends requests. Returns the first line of each reply.
    fn send(&mut self, requests: &[Vec<Vec<u8>>]) -> Result<Vec<String>, Failure> {
        let mut bytes = Vec::new();
        for words in requests {
            bytes.extend(format!("*{}\r\n", words.len()).into_bytes());
            for word in words {
                bytes.extend(format!("${}\r\n", word.len()).into_bytes());
                bytes.extend_from_slice(word);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        self.0.get_mut().write_all(&bytes)?;
        requests.iter().map(|_| self.reply()).collect()
    }

    fn reply(&mut self) -> Result<String, Failure> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let line = line.trim_end().to_string();
        let Some(length) = line.strip_prefix('$') else { return Ok(line) };
        let mut text = vec![0; length.parse::<usize>()? + 2];
        self.0.read_exact(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.stop();
        let ended = self.runner.take().map(JoinHandle::join);
        println!("  the server ended: {:?}", ended.map(|ended| ended.is_ok_and(|r| r.is_ok())));
    }
}

fn set(number: u64, length: usize) -> Vec<Vec<u8>> {
    vec![b"SET".to_vec(), format!("key:{number}").into_bytes(), vec![b'v'; length]]
}

/// Sets keys until one is refused. Returns the number of accepted keys.
fn fill(served: &mut Served, length: usize) -> Result<u64, Failure> {
    let mut count = 0;
    loop {
        let requests: Vec<_> = (count..count + BATCH).map(|number| set(number, length)).collect();
        let replies = served.send(&requests)?;
        match replies.iter().position(|reply| reply != "+OK") {
            Some(set) => return Ok(count + set as u64),
            None => count += BATCH,
        }
    }
}

fn refill(folder: &Path) -> Result<(), Failure> {
    const CAPACITY: u64 = 100 << 20;
    let mut served = Served::start(&folder.join("refill"), CAPACITY, 32 << 20)?;
    for (length, how) in [(1_000, "del"), (8_000, "del"), (500, "flushall"), (1_000, "flushall")] {
        let began = Instant::now();
        let count = fill(&mut served, length)?;
        println!("{count} values of {length} bytes filled 100 MiB in {:.1?}", began.elapsed());
        let began = Instant::now();
        if how == "flushall" {
            served.call(how)?;
            println!("  flushall: {:.1?}", began.elapsed());
            continue;
        }
        for from in (0..count + BATCH).step_by(BATCH as usize) {
            let key = |number: u64| format!("key:{number}").into_bytes();
            let del = |number| vec![b"DEL".to_vec(), key(number)];
            served.send(&(from..from + BATCH).map(del).collect::<Vec<_>>())?;
        }
        let used = served.used(CAPACITY)?;
        println!("  deleted in {:.1?}: {used} bytes are in use", began.elapsed());
    }
    Ok(())
}

fn overwrite(folder: &Path, time: Duration) -> Result<(), Failure> {
    const CAPACITY: u64 = 100 << 20;
    let mut served = Served::start(&folder.join("overwrite"), CAPACITY, 32 << 20)?;
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    // The mean value has 1,505 bytes, and the mean key 9.
    let keys = CAPACITY * 6 / 10 / 1_514;
    let mut lengths = vec![0u64; keys as usize];
    let (mut live, mut written, mut refused, mut worst) = (0u64, 0u64, 0, 0.0f64);
    let began = Instant::now();
    while began.elapsed() < time {
        let chosen: Vec<(u64, usize)> = (0..BATCH)
            .map(|at| {
                let first = written + at < keys;
                let key = if first { written + at } else { rng.random_range(0..keys) };
                (key, rng.random_range(10..=3_000))
            })
            .collect();
        let requests: Vec<_> = chosen.iter().map(|&(key, length)| set(key, length)).collect();
        for (reply, (key, length)) in served.send(&requests)?.iter().zip(&chosen) {
            if reply != "+OK" {
                refused += 1;
                continue;
            }
            let name = format!("key:{key}").len() as u64;
            let before = std::mem::replace(&mut lengths[*key as usize], name + *length as u64);
            live = live + name + *length as u64 - before;
        }
        written += BATCH;
        if written > keys && written.is_multiple_of(BATCH * 50) {
            worst = worst.max(served.used(CAPACITY)? as f64 / live as f64);
        }
    }
    let turnovers = written as f64 / keys as f64;
    println!(
        "{turnovers:.1} turnovers at {live} live bytes of {CAPACITY}: {refused} refused, at most \
         {worst:.2} bytes of flash a byte, {:.0} SETs/s",
        written as f64 / began.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Milliseconds until a key of [`expire`] expires.
const LIFE_MS: u64 = 3_000;

/// A `SET` with an expiry in milliseconds.
fn expiring(number: u64, length: usize, milliseconds: u64) -> Vec<Vec<u8>> {
    let mut words = set(number, length);
    words.extend([b"PX".to_vec(), milliseconds.to_string().into_bytes()]);
    words
}

/// Connections of [`expire`]. The server reads the pages of one while another one's commands run.
const CLIENTS: u64 = 8;

/// Sends `SET`s with an expiry at `rate` a second, for `time`. Client `number` of [`CLIENTS`] has
/// its own keys. Returns how many were refused.
fn send_expiring(
    (address, number): (SocketAddr, u64),
    rate: f64,
    time: Duration,
    total: &AtomicU64,
) -> Result<u64, String> {
    let mut client = Client::connect(address).map_err(|error| error.to_string())?;
    let (mut sent, mut refused, began) = (0, 0, Instant::now());
    while began.elapsed() < time {
        let due = Duration::from_secs_f64(sent as f64 / rate);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let key = |at: u64| at * CLIENTS + number;
        let requests: Vec<_> =
            (sent..sent + BATCH).map(|at| expiring(key(at), 1_000, LIFE_MS)).collect();
        let replies = client.send(&requests).map_err(|error| error.to_string())?;
        refused += replies.iter().filter(|reply| *reply != "+OK").count() as u64;
        sent += BATCH;
        total.fetch_add(BATCH, Ordering::Relaxed);
    }
    Ok(refused)
}

fn expire(folder: &Path, time: Duration, rate: u64) -> Result<(), Failure> {
    const CAPACITY: u64 = 400 << 20;
    let mut served = Served::start(&folder.join("expire"), CAPACITY, 64 << 20)?;
    let (total, address, mut most) = (AtomicU64::new(0), served.address, 0.0f64);
    println!("| seconds | SETs with PX {LIFE_MS} | keys | live keys at most |");
    println!("|---|---|---|---|");
    let began = Instant::now();
    let refused = std::thread::scope(|scope| -> Result<u64, Failure> {
        let each = rate as f64 / CLIENTS as f64;
        let send = |number| {
            let total = &total;
            scope.spawn(move || send_expiring((address, number), each, time, total))
        };
        let clients: Vec<_> = (0..CLIENTS).map(send).collect();
        // What was sent by the end of each second. Keys that live were sent in the last seconds.
        let mut by_second = vec![0];
        while began.elapsed() < time {
            let next = Duration::from_secs(by_second.len() as u64);
            std::thread::sleep(next.saturating_sub(began.elapsed()));
            let keys = served.keys()?;
            by_second.push(total.load(Ordering::Relaxed));
            let second = by_second.len() - 1;
            let live_from = second.saturating_sub(LIFE_MS as usize / 1000);
            let live = by_second[second] - by_second[live_from];
            most = most.max(keys as f64 / live.max(1) as f64);
            if second < 10 || second.is_multiple_of(10) {
                println!("| {second} | {} | {keys} | {live} |", by_second[second]);
            }
        }
        let mut refused = 0;
        for client in clients {
            refused += client.join().map_err(|_| "a client panicked")??;
        }
        Ok(refused)
    })?;
    let reached = total.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
    println!("{reached:.0} SETs/s: {refused} refused, at most {most:.2} keys for each that lives");
    let ended = Instant::now();
    while served.keys()? > 0 {
        std::thread::sleep(Duration::from_millis(50));
    }
    let used = served.used(CAPACITY)?;
    println!("  all were gone after {:.1?}, {used} bytes in use", ended.elapsed());
    if refused > 0 || most > 2.0 {
        return Err("expiry does not keep up".into());
    }
    if reached < 0.98 * rate as f64 {
        return Err(format!("{reached:.0} of {rate} SETs a second were reached").into());
    }
    Ok(())
}

/// Few keys that are due among many that are not.
fn few(folder: &Path, time: Duration) -> Result<(), Failure> {
    const CAPACITY: u64 = 400 << 20;
    const KEYS: u64 = 600_000;
    const DUE: u64 = 60;
    /// Reads of flash for each key that is due: its leaf, and the index of what is due.
    const READS_MAX: u64 = 20;
    let mut served = Served::start(&folder.join("few"), CAPACITY, 32 << 20)?;
    for from in (0..KEYS).step_by(BATCH as usize) {
        let days = |number: u64| 1_000 * 86_400 * (2 + number % 30);
        let sets = (from..from + BATCH).map(|number| expiring(number, 300, days(number)));
        served.send(&sets.collect::<Vec<_>>())?;
    }
    let milliseconds = time.as_millis() as u64;
    let sets = (0..DUE).map(|at| expiring(KEYS / DUE * at, 300, milliseconds * (at + 1) / DUE));
    served.send(&sets.collect::<Vec<_>>())?;
    let before = served.number("memory_misses")?;
    let end = Instant::now() + time + Duration::from_secs(30);
    while served.keys()? > KEYS - DUE {
        if Instant::now() > end {
            return Err("keys that have expired are there".into());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let reads = served.number("memory_misses")? - before;
    println!("{DUE} of {KEYS} keys expired in {time:.0?}, and upkeep waited for {reads} pages");
    if reads > DUE * READS_MAX {
        return Err("upkeep reads much".into());
    }
    Ok(())
}
