//! A month of use in little time: the phases, and the checks after each one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, encode, ok};
use super::month_collections::Collections;

/// Requests of a connection that are under way at once.
pub(crate) const PIPELINE: usize = 64;

/// After the last key is deleted, all flash is free again within this time.
const FREED_WITHIN: Duration = Duration::from_secs(30);

/// The elements of all collections of one type take this part of the capacity.
const COLLECTIONS_PART: u64 = 100;

/// Bytes of a key's value, except large values.
const VALUE_BYTES: std::ops::Range<usize> = 10..3_000;

/// The host of the server under test.
pub(crate) trait Host {
    /// Address of the server.
    fn address(&self) -> SocketAddr;

    /// Stops or kills the server, and starts it again.
    fn restart(&mut self, kill: bool);

    /// Returns a new path next to the store.
    fn path(&self, name: &str) -> String;
}

/// Scale of the test.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Bytes of flash for keys and values.
    pub(crate) capacity_bytes: u64,
    /// The share of the capacity that keys and values take.
    pub(crate) live_share: f64,
    /// Number of connections that open and close.
    pub(crate) connections: usize,
    /// Repetitions of all phases.
    pub(crate) rounds: usize,
    /// True to kill the server. A kill may lose the changes of the last second.
    pub(crate) kills: bool,
}

/// Measurements after a phase.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) phase: String,
    pub(crate) took: Duration,
    pub(crate) keys: usize,
    /// Bytes of flash in use for each byte of keys and values.
    pub(crate) flash_per_byte: f64,
    pub(crate) rss_bytes: u64,
    /// 99.9th percentile of the time of a batch of [`PIPELINE`] reads.
    pub(crate) p999: Duration,
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Row { phase, took, keys, flash_per_byte, rss_bytes, p999 } = self;
        write!(
            f,
            "| {phase} | {:.1} s | {keys} | {flash_per_byte:.2} | {} MiB | {:.1} ms |",
            took.as_secs_f64(),
            rss_bytes >> 20,
            p999.as_secs_f64() * 1e3
        )
    }
}

/// A value, generated from these numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Value {
    pub(crate) seed: u64,
    pub(crate) bytes: usize,
}

impl Value {
    pub(crate) fn write(self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes];
        Pcg64Mcg::seed_from_u64(self.seed).fill_bytes(&mut bytes);
        bytes
    }
}

type Phase = fn(&mut Month<'_>);

struct Month<'a> {
    host: &'a mut dyn Host,
    scale: Scale,
    rng: Pcg64Mcg,
    client: Client,
    live: BTreeMap<String, Value>,
    collections: Collections,
    next: u64,
    rows: Vec<Row>,
}

/// Runs a month of use and checks the server after every phase. `told` gets each row at once.
pub(crate) fn run(host: &mut dyn Host, scale: Scale, told: impl Fn(&Row)) -> Vec<Row> {
    let client = Client::connect(host.address());
    let (rng, live, rows) = (Pcg64Mcg::seed_from_u64(30), BTreeMap::new(), Vec::new());
    let collections = Collections::default();
    let mut month = Month { host, scale, rng, client, live, collections, next: 0, rows };
    for round in 1..=scale.rounds {
        let phases: [(&str, Phase); 14] = [
            ("fill with 10 B to 3 KB", |month| month.fill()),
            ("overwrite with other sizes", |month| month.overwrite()),
            ("keys that expire", |month| month.expire()),
            ("delete half", |month| month.delete()),
            ("large values", |month| month.large()),
            ("fill collections", |month| month.fill_collections()),
            ("overwrite their elements", |month| month.overwrite_elements()),
            ("delete half of their elements", |month| month.delete_elements()),
            ("connections", |month| month.connections()),
            ("backup under writes", |month| month.back_up()),
            ("restart", |month| month.restart(false)),
            ("kill", |month| month.restart(true)),
            ("empty collections", |month| month.empty_collections()),
            ("clear", |month| month.clear()),
        ];
        for (name, phase) in phases {
            let began = Instant::now();
            phase(&mut month);
            month.check(format!("{name}, round {round}"), began.elapsed());
            told(month.rows.last().expect("it was checked"));
        }
    }
    month.rows
}

impl Month<'_> {
    fn key(&mut self) -> String {
        self.next += 1;
        format!("item:{}", self.next)
    }

    fn value(&mut self) -> Value {
        Value { seed: self.rng.next_u64(), bytes: self.rng.random_range(VALUE_BYTES) }
    }

    fn live_bytes(&self) -> usize {
        let strings: usize = self.live.iter().map(|(key, value)| key.len() + value.bytes).sum();
        strings + self.collections.bytes()
    }

    /// Sends requests in batches and expects `reply` to each.
    fn all(&mut self, requests: &[Vec<u8>], reply: &Reply) {
        for batch in requests.chunks(PIPELINE) {
            self.client.send(&batch.concat());
            batch.iter().for_each(|_| assert_eq!(self.client.reply().as_ref(), Some(reply)));
        }
    }

    fn set(&mut self, keys: Vec<String>) {
        for keys in keys.chunks(PIPELINE) {
            let requests: Vec<Vec<u8>> = keys
                .iter()
                .map(|key| {
                    let value = self.value();
                    self.live.insert(key.clone(), value);
                    encode(&[b"set", key.as_bytes(), &value.write()])
                })
                .collect();
            self.all(&requests, &ok());
        }
    }

    fn fill(&mut self) {
        let Scale { capacity_bytes, live_share, .. } = self.scale;
        while (self.live_bytes() as f64) < capacity_bytes as f64 * live_share {
            let keys = (0..200).map(|_| self.key()).collect();
            self.set(keys);
        }
    }

    fn overwrite(&mut self) {
        for _ in 0..3 {
            let keys = self.live.keys().cloned().collect();
            self.set(keys);
        }
    }

    fn expire(&mut self) {
        let requests: Vec<Vec<u8>> = (0..self.live.len() / 2)
            .map(|number| {
                let key = format!("short:{number}");
                encode(&[b"set", key.as_bytes(), &[b'v'; 200], b"px", b"500"])
            })
            .collect();
        self.all(&requests, &ok());
        std::thread::sleep(Duration::from_millis(600));
        assert_eq!(self.client.call("exists short:0 short:1 short:7"), Reply::Integer(0));
    }

    fn delete(&mut self) {
        let keys: Vec<String> = self.live.keys().step_by(2).cloned().collect();
        for keys in keys.chunks(5_000) {
            let mut words: Vec<&[u8]> = vec![b"del"];
            words.extend(keys.iter().map(|key| key.as_bytes()));
            assert_eq!(self.client.command(&words), Reply::Integer(keys.len() as i64));
            for key in keys {
                self.live.remove(key);
            }
        }
    }

    fn large(&mut self) {
        let most = (self.scale.capacity_bytes / 50) as usize;
        for number in 0..5 {
            let key = format!("large:{number}");
            let bytes = self.rng.random_range(most / 4..most);
            let value = Value { seed: self.rng.next_u64(), bytes };
            assert_eq!(self.client.command(&[b"set", key.as_bytes(), &value.write()]), ok());
            let copied = self.client.call(&format!("copy {key} copy:{number} replace"));
            assert_eq!(copied, Reply::Integer(1));
            self.live.insert(key, value);
            self.live.insert(format!("copy:{number}"), value);
        }
    }

    fn fill_collections(&mut self) {
        let bytes = self.scale.capacity_bytes / COLLECTIONS_PART;
        self.collections.fill(&mut self.client, &mut self.rng, bytes as usize);
    }

    fn overwrite_elements(&mut self) {
        for _ in 0..3 {
            self.collections.overwrite(&mut self.client, &mut self.rng);
        }
    }

    fn delete_elements(&mut self) {
        self.collections.delete_half(&mut self.client);
    }

    fn empty_collections(&mut self) {
        self.collections.empty(&mut self.client);
    }

    fn connections(&mut self) {
        let address = self.host.address();
        for _ in 0..3 {
            let mut clients: Vec<Client> =
                (0..self.scale.connections).map(|_| Client::connect(address)).collect();
            for client in &mut clients {
                client.send(b"set counted 1\r\nget counted\r\n");
            }
            for client in &mut clients {
                assert_eq!(client.reply(), Some(ok()));
                assert_eq!(client.reply(), Some(Reply::Bulk(b"1".to_vec())));
            }
        }
        assert_eq!(self.client.call("del counted"), Reply::Integer(1));
    }

    fn back_up(&mut self) {
        let path = self.host.path(&format!("backup-{}", self.rows.len()));
        let begun = self.client.command(&[b"bgsave", b"to", path.as_bytes()]);
        assert!(matches!(begun, Reply::Status(_)), "{begun:?}");
        loop {
            let keys: Vec<String> = self.live.keys().take(2_000).cloned().collect();
            self.set(keys);
            let last = self.info("last_copy");
            assert!(!last.starts_with("failed"), "{last}");
            if last.starts_with("done") {
                break;
            }
        }
        std::fs::remove_file(path).expect("the backup is there");
    }

    fn restart(&mut self, kill: bool) {
        let kill = kill && self.scale.kills;
        // A saved change survives a kill.
        assert_eq!(self.client.call("save"), ok());
        self.host.restart(kill);
        self.client = Client::connect(self.host.address());
    }

    fn clear(&mut self) {
        assert_eq!(self.client.call("flushdb"), ok());
        self.live.clear();
        self.collections.clear();
        let began = Instant::now();
        while self.used_bytes() > self.scale.capacity_bytes / 100 {
            assert!(began.elapsed() < FREED_WITHIN, "{} bytes are in use", self.used_bytes());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn info(&mut self, field: &str) -> String {
        let Reply::Bulk(text) = self.client.call("info") else { panic!("no text") };
        let text = String::from_utf8(text).expect("text");
        let found = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        found.unwrap_or_else(|| panic!("no {field}")).to_string()
    }

    fn number(&mut self, field: &str) -> u64 {
        self.info(field).parse().expect("a number")
    }

    /// Bytes of flash in use.
    fn used_bytes(&mut self) -> u64 {
        self.number("flash_bytes") - self.number("flash_bytes_free")
    }

    /// Checks all values, and that the server accepts a new one.
    fn check(&mut self, phase: String, took: Duration) {
        let mut times = Vec::new();
        let all: Vec<(String, Value)> =
            self.live.iter().map(|(key, value)| (key.clone(), *value)).collect();
        for batch in all.chunks(PIPELINE) {
            let requests: Vec<Vec<u8>> =
                batch.iter().map(|(key, _)| encode(&[b"get", key.as_bytes()])).collect();
            let began = Instant::now();
            self.client.send(&requests.concat());
            for (key, value) in batch {
                let found = self.client.reply();
                assert!(found == Some(Reply::Bulk(value.write())), "{phase}: {key}");
            }
            times.push(began.elapsed());
        }
        self.collections.check(&mut self.client, &phase);
        assert_eq!(self.client.call("set writable yes"), ok(), "{phase}");
        assert_eq!(self.client.call("del writable"), Reply::Integer(1), "{phase}");
        times.sort_unstable();
        let used = self.used_bytes();
        let row = Row {
            phase,
            took,
            keys: self.live.len() + self.collections.len(),
            flash_per_byte: used as f64 / self.live_bytes().max(1 << 20) as f64,
            rss_bytes: self.number("used_memory_rss"),
            p999: times.get(times.len() * 999 / 1000).copied().unwrap_or_default(),
        };
        self.rows.push(row);
    }
}
