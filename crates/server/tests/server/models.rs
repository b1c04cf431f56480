//! Clients change values of several kinds at once, and each finds its own as it left them.

use std::collections::BTreeMap;

use ebbtide_server::{EvictionPolicy, ServeOptions};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, Server, ok};

const CLIENTS: u64 = 4;

/// Changes by each client.
const CHANGES: usize = 1_500;

#[derive(Clone)]
enum Value {
    Text(Vec<u8>),
    List(Vec<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
}

/// A client with the values that its keys should have.
struct Owner {
    client: Client,
    number: u64,
    rng: Pcg64Mcg,
    keys: u64,
    values: BTreeMap<Vec<u8>, Value>,
    /// True if the server may give up keys.
    is_cache: bool,
}

impl Owner {
    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.rng.fill_bytes(&mut bytes);
        bytes
    }

    fn key(&mut self) -> Vec<u8> {
        format!("{}:{}", self.number, self.rng.random_range(0..self.keys)).into_bytes()
    }

    /// Elements of up to 100 bytes.
    fn elements(&mut self) -> Vec<Vec<u8>> {
        let lengths: Vec<usize> =
            (0..self.rng.random_range(1..300)).map(|_| self.rng.random_range(0..100)).collect();
        lengths.into_iter().map(|length| self.bytes(length)).collect()
    }

    fn text(&mut self) -> Vec<u8> {
        let length = match self.rng.random_range(0..10) {
            0..4 => self.rng.random_range(0..300),
            4..7 => self.rng.random_range(300..4_000),
            7..9 => self.rng.random_range(4_000..33_000),
            _ => self.rng.random_range(33_000..200_000),
        };
        self.bytes(length)
    }

    fn run(&mut self, words: &[&[u8]]) -> Reply {
        self.client.command(words)
    }

    /// Makes a change, or checks a value.
    fn change(&mut self) {
        let (key, other) = (self.key(), self.key());
        match self.rng.random_range(0..10) {
            0..3 => {
                let text = self.text();
                assert_eq!(self.run(&[b"set", &key, &text]), ok());
                self.values.insert(key, Value::Text(text));
            }
            3 => {
                self.run(&[b"del", &key]);
                self.values.remove(&key);
            }
            4 => {
                self.run(&[b"del", &key]);
                let elements = self.elements();
                let words = [&b"rpush"[..], &key].into_iter();
                let words: Vec<_> = words.chain(elements.iter().map(Vec::as_slice)).collect();
                assert_eq!(self.run(&words), Reply::Integer(elements.len() as i64));
                self.values.insert(key, Value::List(elements));
            }
            5 => {
                self.run(&[b"del", &key]);
                let mut fields = BTreeMap::new();
                for value in self.elements() {
                    fields.insert(self.bytes(8), value);
                }
                let mut words = vec![&b"hset"[..], &key];
                fields.iter().for_each(|(field, value)| words.extend([&field[..], &value[..]]));
                assert_eq!(self.run(&words), Reply::Integer(fields.len() as i64));
                self.values.insert(key, Value::Hash(fields));
            }
            6 => self.append(key),
            7 if key != other => {
                let copied = self.run(&[b"copy", &key, &other, b"replace"]);
                self.moved(&key, other, copied == Reply::Integer(1));
            }
            8 if key != other => {
                let renamed = self.run(&[b"rename", &key, &other]) == ok();
                if self.moved(&key, other, renamed) {
                    self.values.remove(&key);
                }
            }
            _ => self.check(key),
        }
    }

    /// Notes that `to` has become the value of `from`, if that `took` place. Returns `took`.
    fn moved(&mut self, from: &[u8], to: Vec<u8>, took: bool) -> bool {
        let value = self.values.get(from).cloned();
        assert!(took == value.is_some() || self.is_cache && !took, "{}", value.is_some());
        if let Some(value) = value.filter(|_| took) {
            self.values.insert(to, value);
        }
        took
    }

    fn append(&mut self, key: Vec<u8>) {
        let Some(Value::Text(mut text)) = self.values.get(&key).cloned() else { return };
        let length = self.rng.random_range(1..20_000);
        let more = self.bytes(length);
        let length = self.run(&[b"append", &key, &more]);
        if self.is_cache && length == Reply::Integer(more.len() as i64) {
            text.clear();
        }
        text.extend(more);
        assert_eq!(length, Reply::Integer(text.len() as i64));
        self.values.insert(key, Value::Text(text));
    }

    fn check(&mut self, key: Vec<u8>) {
        if self.is_cache && self.run(&[b"exists", &key]) == Reply::Integer(0) {
            self.values.remove(&key);
            return;
        }
        let array =
            |parts: Vec<Vec<u8>>| Reply::Array(parts.into_iter().map(Reply::Bulk).collect());
        let (found, expected) = match self.values.get(&key).cloned() {
            None => (self.run(&[b"exists", &key]), Reply::Integer(0)),
            Some(Value::Text(text)) => (self.run(&[b"get", &key]), Reply::Bulk(text)),
            Some(Value::List(list)) => (self.run(&[b"lrange", &key, b"0", b"-1"]), array(list)),
            Some(Value::Hash(fields)) => {
                let Reply::Array(parts) = self.run(&[b"hgetall", &key]) else { panic!("a hash") };
                let mut found: Vec<&[Reply]> = parts.chunks(2).collect();
                found.sort_by_key(|pair| match &pair[0] {
                    Reply::Bulk(field) => field.clone(),
                    other => panic!("{other:?}"),
                });
                let expected = fields.into_iter().flat_map(|(field, value)| [field, value]);
                (Reply::Array(found.concat()), array(expected.collect()))
            }
        };
        let is_none = found == Reply::Null || found == Reply::Array(Vec::new());
        let given_up = self.is_cache && is_none;
        assert!(found == expected || given_up, "{}", String::from_utf8_lossy(&key));
    }
}

/// Runs all clients with this many keys each.
fn all_find_what_they_left(keys: u64, set: impl FnOnce(&mut ServeOptions)) {
    let server = Server::start(|options| {
        (options.cores, options.dram_bytes) = (2, 64 << 20);
        set(options);
    });
    let mut is_cache = false;
    let mut client = server.client();
    if let Reply::Array(policy) = client.call("config get maxmemory-policy") {
        is_cache = policy[1] != Reply::Bulk(b"noeviction".to_vec());
    }
    std::thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (client, rng) = (server.client(), Pcg64Mcg::seed_from_u64(number));
            let values = BTreeMap::new();
            let mut owner = Owner { client, number, rng, keys, values, is_cache };
            scope.spawn(move || {
                (0..CHANGES).for_each(|_| owner.change());
                (0..keys).for_each(|key| owner.check(format!("{number}:{key}").into_bytes()));
            });
        }
    });
}

#[test]
fn with_a_log() {
    all_find_what_they_left(60, |options| {
        options.durability = "every:1s".parse().expect("a policy");
        options.capacity_bytes = Some(128 << 20);
    });
}

#[test]
fn without_a_log() {
    all_find_what_they_left(60, |options| options.capacity_bytes = Some(128 << 20));
}

#[test]
fn in_a_full_cache() {
    all_find_what_they_left(400, |options| {
        options.policy = EvictionPolicy::AllKeysLru;
        options.durability = "every:1s".parse().expect("a policy");
        options.capacity_bytes = Some(24 << 20);
    });
}
