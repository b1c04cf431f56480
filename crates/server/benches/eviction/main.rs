//! Compares hit rates of the server as a cache and of Redis at the same `maxmemory`. The loads are
//! what the caches of Rails and Django send.
//!
//! `cargo bench -p ebbtide-server --bench eviction -- FOLDER SECONDS [POLICY [MIB]]`
//!
//! Both servers get the same requests in turns, for SECONDS with each load. MIB is the capacity of
//! both, 128 without it. POLICY is `allkeys-lru` without it. Hits are counted once a quarter of the
//! time has passed and both stores are full. Without `redis-server` it measures this server alone.

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../../tests/server/client.rs"]
mod client;
mod loads;
#[path = "../neighbours/served.rs"]
mod served;

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use client::{Client, Reply, encode};
use loads::{Django, Load, Rails, Step, Wanted};
use served::Served;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// DRAM of this server for each byte of capacity, and at least.
const DRAM_SHARE: u64 = 8;
const DRAM_BYTES_MIN: u64 = 24 << 20;

/// Steps that one server makes before the other makes the same.
const TURN: usize = 20;

/// A server under test and what was counted of it.
struct Side {
    name: &'static str,
    client: Client,
    reads: u64,
    hits: u64,
    errors: u64,
}

impl Side {
    fn new(name: &'static str, address: SocketAddr) -> Side {
        Side { name, client: Client::connect(address), reads: 0, hits: 0, errors: 0 }
    }

    /// Reads the keys of a step, sets those that are missing, and makes its writes.
    fn make(&mut self, step: &Step, counts: bool) {
        let mut words: Vec<&[u8]> = vec![b"mget"];
        words.extend(step.reads.iter().map(|wanted| wanted.key.as_bytes()));
        let mut missing: Vec<&Wanted> = step.writes.iter().collect();
        if let Reply::Array(found) = self.client.command(&words) {
            let missed = step.reads.iter().zip(&found).filter(|(_, reply)| **reply == Reply::Null);
            let before = missing.len();
            missing.extend(missed.map(|(wanted, _)| wanted));
            if counts {
                self.reads += step.reads.len() as u64;
                self.hits += (step.reads.len() + before - missing.len()) as u64;
            }
        } else {
            self.errors += 1;
        }
        let mut bytes = Vec::new();
        for wanted in &missing {
            let (value, ttl_s) = (vec![b'v'; wanted.value_bytes], wanted.ttl_s.to_string());
            let mut words: Vec<&[u8]> = vec![b"set", wanted.key.as_bytes(), &value];
            if wanted.ttl_s > 0 {
                words.extend([&b"ex"[..], ttl_s.as_bytes()]);
            }
            bytes.extend(encode(&words));
        }
        self.client.send(&bytes);
        for _ in &missing {
            let reply = self.client.reply();
            self.errors += u64::from(reply != Some(client::ok()));
        }
    }

    /// Returns the hits among all reads in percent.
    fn rate(&self) -> f64 {
        100.0 * self.hits as f64 / self.reads.max(1) as f64
    }

    /// Returns a number of `INFO`.
    fn told(&mut self, name: &str) -> u64 {
        let Reply::Bulk(info) = self.client.call("info") else { return 0 };
        let info = String::from_utf8_lossy(&info).into_owned();
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    }

    fn print(&mut self, load: &str) {
        let Reply::Integer(keys) = self.client.call("dbsize") else { return };
        let told = ["evicted_keys", "expired_keys", "used_memory_rss"].map(|name| self.told(name));
        let [evicted, expired, resident] = told;
        println!(
            "| {load} | {} | {} | {:.2}% | {keys} | {evicted} | {expired} | {} MiB | {} |",
            self.name,
            self.reads,
            self.rate(),
            resident >> 20,
            self.errors
        );
    }
}

/// A stock server, which is killed when dropped.
struct Redis(Child);

impl Redis {
    /// Starts it, if it is installed. Returns its address.
    fn start(folder: &Path, policy: &str, capacity_bytes: u64) -> Option<(Redis, SocketAddr)> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--save", "", "--appendonly", "no"])
            .args(["--maxmemory", &capacity_bytes.to_string(), "--maxmemory-policy", policy])
            .arg("--dir")
            .arg(folder)
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let redis = Redis(process);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let until = Instant::now() + Duration::from_secs(60);
        while std::net::TcpStream::connect(address).is_err() {
            if Instant::now() > until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Some((redis, address))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is measured.
struct Plan<'a> {
    folder: &'a Path,
    time: Duration,
    policy: &'a str,
    capacity_bytes: u64,
}

fn measure(name: &str, mut load: impl Load, plan: &Plan<'_>) -> Result<(), Failure> {
    let Plan { folder, time, policy, capacity_bytes } = *plan;
    let dram_bytes = (capacity_bytes / DRAM_SHARE).max(DRAM_BYTES_MIN);
    let served =
        Served::start_cache(&folder.join(name), (capacity_bytes, dram_bytes), policy.parse()?);
    let redis = Redis::start(folder, policy, capacity_bytes);
    let mut sides = vec![Side::new("Ebbtide", served.address)];
    sides.extend(redis.as_ref().map(|(_, address)| Side::new("Redis", *address)));
    let began = Instant::now();
    while began.elapsed() < time {
        let counts = began.elapsed() > time / 4;
        let steps: Vec<Step> = (0..TURN).map(|_| load.next()).collect();
        for side in &mut sides {
            steps.iter().for_each(|step| side.make(step, counts));
        }
    }
    sides.iter_mut().for_each(|side| side.print(name));
    if let [ours, theirs] = &sides[..] {
        let (less, more) = (ours.rate() - theirs.rate(), ours.rate() / theirs.rate());
        println!("{name}: {less:+.2} points beside Redis, {more:.3} of its hit rate");
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if served::serve_if_asked(&arguments) {
        return Ok(());
    }
    let [folder, seconds, rest @ ..] = &arguments[..] else {
        return Err("expected FOLDER SECONDS [POLICY [MIB]]".into());
    };
    let folder = tempfile::tempdir_in(folder)?;
    let mib: u64 = rest.get(1).map_or(Ok(128), |mib| mib.parse())?;
    let plan = Plan {
        folder: folder.path(),
        time: Duration::from_secs_f64(seconds.parse()?),
        policy: rest.first().map_or("allkeys-lru", String::as_str),
        capacity_bytes: mib << 20,
    };
    println!("| load | server | reads | hit rate | keys | evicted | expired | RSS | errors |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let scale = plan.capacity_bytes as f64 / f64::from(128 << 20);
    // Hits are counted, not times, so the loads can run side by side.
    std::thread::scope(|scope| {
        let rails = scope.spawn(|| measure("Rails", Rails::new(scale), &plan));
        let django = measure("Django", Django::new(scale), &plan);
        rails.join().map_err(|_| "the load Rails panicked")?.and(django)
    })
}
