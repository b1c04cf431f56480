//! The server as a cache: what each policy gives up, and what it keeps.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use ebbtide_server::EvictionPolicy;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, Server, bulk, encode, ok};

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// Requests that are under way at once.
const PIPELINE: usize = 50;

fn start(policy: EvictionPolicy, capacity_bytes: u64) -> Server {
    Server::start(|options| {
        options.policy = policy;
        options.capacity_bytes = Some(capacity_bytes);
        options.dram_bytes = 32 << 20;
    })
}

/// Sends requests and returns their replies.
fn all(client: &mut Client, requests: &[Vec<Vec<u8>>]) -> Vec<Reply> {
    let words =
        |request: &Vec<Vec<u8>>| encode(&request.iter().map(Vec::as_slice).collect::<Vec<&[u8]>>());
    client.send(&requests.iter().flat_map(words).collect::<Vec<u8>>());
    requests.iter().map(|_| client.reply().expect("a reply")).collect()
}

fn set(name: &str, value_bytes: usize, ttl_s: Option<u64>) -> Vec<Vec<u8>> {
    let mut words = vec![b"set".to_vec(), name.into(), vec![b'v'; value_bytes]];
    if let Some(ttl_s) = ttl_s {
        words.extend([b"ex".to_vec(), ttl_s.to_string().into_bytes()]);
    }
    words
}

fn get(name: &str) -> Vec<Vec<u8>> {
    vec![b"get".to_vec(), name.into()]
}

/// Returns a number of `INFO`.
fn told(client: &mut Client, name: &str) -> u64 {
    let Reply::Bulk(info) = client.call("info all") else { panic!("text") };
    let info = String::from_utf8(info).expect("text");
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.expect("it is told").trim().parse().expect("a number")
}

fn keys(client: &mut Client) -> u64 {
    let Reply::Integer(keys) = client.call("dbsize") else { panic!("a number") };
    keys as u64
}

/// Returns how many of these keys exist.
fn existing(client: &mut Client, names: impl Iterator<Item = String>) -> usize {
    let names: Vec<String> = names.collect();
    let mut found = 0;
    for names in names.chunks(PIPELINE) {
        let exists = |name: &String| vec![b"exists".to_vec(), name.clone().into_bytes()];
        let replies = all(client, &names.iter().map(exists).collect::<Vec<_>>());
        found += replies.iter().filter(|reply| **reply == Reply::Integer(1)).count();
    }
    found
}

/// Sets new keys with values of mixed sizes, of this many bytes together. Asserts that none is
/// refused. Returns the number of keys.
fn write_mixed(client: &mut Client, name: &str, bytes: usize, ttl_s: Option<u64>) -> usize {
    let mut rng = Pcg64Mcg::seed_from_u64(bytes as u64);
    let (mut written, mut number) = (0, 0);
    while written < bytes {
        let batch: Vec<_> = (0..PIPELINE)
            .map(|_| {
                let value_bytes = match rng.random_range(0..10) {
                    0..5 => rng.random_range(0..300),
                    5..8 => rng.random_range(300..4_000),
                    8 => rng.random_range(4_000..30_000),
                    _ => rng.random_range(30_000..60_000),
                };
                number += 1;
                written += value_bytes;
                set(&format!("{name}:{number}"), value_bytes, ttl_s)
            })
            .collect();
        for (reply, request) in all(client, &batch).into_iter().zip(&batch) {
            assert_eq!(reply, ok(), "{} bytes after {written}", request[2].len());
        }
    }
    number
}

#[test]
fn a_full_store_of_the_lru_policy_takes_twenty_times_its_capacity_in_steady_space() {
    const CAPACITY: u64 = 12 << 20;
    let server = Server::start(|options| {
        options.policy = EvictionPolicy::AllKeysLru;
        options.capacity_bytes = Some(CAPACITY);
        options.dram_bytes = 32 << 20;
        options.durability = "every:1s".parse().expect("a policy");
    });
    let mut client = server.client();
    let mut counts = Vec::new();
    for round in 0..20 {
        write_mixed(&mut client, &format!("round{round}"), CAPACITY as usize, None);
        counts.push(keys(&mut client));
        assert_eq!(told(&mut client, "maxmemory"), CAPACITY);
        assert!(told(&mut client, "used_memory") <= CAPACITY);
    }
    // As many keys as fit stay, from the second round to the last.
    let (least, most) = (counts[2..].iter().min(), counts[2..].iter().max());
    assert!(most < least.map(|least| least * 5 / 4).as_ref(), "{counts:?}");
    assert!(told(&mut client, "evicted_keys") > 18 * counts[2] * 3 / 4);
    // The keys of the last round are there, apart from those that the round itself replaced.
    let last = existing(&mut client, (1..=200).map(|number| format!("round18:{number}")));
    assert!(last < 60, "{last} of 200 old keys are there");
}

#[test]
fn every_policy_over_all_keys_takes_more_than_the_capacity_and_keeps_most_of_it_used() {
    for policy in [EvictionPolicy::AllKeysRandom, EvictionPolicy::AllKeysLfu] {
        let server = start(policy, 6 << 20);
        let mut client = server.client();
        write_mixed(&mut client, "a", 12 << 20, None);
        assert!(told(&mut client, "evicted_keys") > 0, "{policy}");
        assert!(told(&mut client, "used_memory") > 5 << 20, "{policy}");
        // Values of one size only, smaller and larger ones.
        for value_bytes in [20, 500, 1_800, 3_000, 20_000] {
            for first in (0..(4 << 20) / (value_bytes + 100)).step_by(PIPELINE) {
                let batch: Vec<_> = (first..first + PIPELINE)
                    .map(|number| set(&format!("{value_bytes}:{number}"), value_bytes, None))
                    .collect();
                let refused = all(&mut client, &batch).into_iter().find(|reply| *reply != ok());
                assert_eq!(refused, None, "{policy}, values of {value_bytes} bytes");
            }
        }
    }
}

#[test]
fn keys_in_use_stay_and_others_go() {
    for policy in [EvictionPolicy::AllKeysLru, EvictionPolicy::AllKeysLfu] {
        let server = start(policy, 12 << 20);
        let mut client = server.client();
        let hot = |number: usize| format!("hot:{number}");
        all(&mut client, &(0..500).map(|number| set(&hot(number), 900, None)).collect::<Vec<_>>());
        for round in 0..60 {
            all(&mut client, &(0..500).map(|number| get(&hot(number))).collect::<Vec<_>>());
            let cold = |number| set(&format!("cold:{round}:{number}"), 900, None);
            all(&mut client, &(0..500).map(cold).collect::<Vec<_>>());
        }
        let hot = existing(&mut client, (0..500).map(hot));
        assert!(hot >= 450, "{policy}: {hot} of 500 keys in use");
        let first = existing(&mut client, (0..500).map(|number| format!("cold:0:{number}")));
        // By frequency, all keys that were used once are equal. So an eighth of these are left.
        let most = if policy == EvictionPolicy::AllKeysLru { 50 } else { 125 };
        assert!(first < most, "{policy}: {first} of the first 500 others");
    }
}

#[test]
fn volatile_policies_give_up_keys_that_expire_and_refuse_writes_without_any() {
    for policy in [
        EvictionPolicy::VolatileLru,
        EvictionPolicy::VolatileLfu,
        EvictionPolicy::VolatileRandom,
        EvictionPolicy::VolatileTtl,
    ] {
        let server = start(policy, 12 << 20);
        let mut client = server.client();
        let kept = |number: usize| format!("kept:{number}");
        all(&mut client, &(0..500).map(|number| set(&kept(number), 900, None)).collect::<Vec<_>>());
        write_mixed(&mut client, "volatile", 36 << 20, Some(10_000));
        assert!(told(&mut client, "evicted_keys") > 0, "{policy}");
        assert_eq!(existing(&mut client, (0..500).map(kept)), 500, "{policy}");
        // Keys without an expiry take the place of all others. Then the store is full.
        let fill = |number| set(&format!("fill:{number}"), 3_000, None);
        let refused = (0..10_000).step_by(PIPELINE).find_map(|first| {
            let batch: Vec<_> = (first..first + PIPELINE).map(fill).collect();
            all(&mut client, &batch).into_iter().find(|reply| *reply != ok())
        });
        assert_eq!(refused, Some(Reply::Error(OOM.into())), "{policy}");
        let Reply::Bulk(info) = client.call("info keyspace") else { panic!("text") };
        let info = String::from_utf8(info).expect("text");
        assert!(info.contains("expires=0,"), "{policy}: {info}");
        assert_eq!(existing(&mut client, (0..500).map(kept)), 500, "{policy}");
    }
}

#[test]
fn the_policy_by_time_gives_up_what_expires_soonest() {
    let server = start(EvictionPolicy::VolatileTtl, 12 << 20);
    let mut client = server.client();
    let mut rng = Pcg64Mcg::seed_from_u64(5);
    // A hash whose fields expire sooner than all keys, and that has no expiry itself.
    client.call("hset fields a 1 b 2");
    assert_eq!(client.call("hexpire fields 500 fields 1 a"), Reply::Array(vec![Reply::Integer(1)]));
    let mut ttls = BTreeMap::new();
    for first in (0..20_000).step_by(PIPELINE) {
        let batch: Vec<_> = (first..first + PIPELINE)
            .map(|number| {
                let ttl_s = rng.random_range(1_000..1_000_000);
                ttls.insert(ttl_s, format!("k{number}"));
                set(&format!("k{number}"), 900, Some(ttl_s))
            })
            .collect();
        assert!(all(&mut client, &batch).into_iter().all(|reply| reply == ok()));
    }
    let left = keys(&mut client) as usize - 1;
    assert!(left < 14_000, "{left} keys are left");
    assert_eq!(client.call("hlen fields"), Reply::Integer(2));
    // Those that expire last are those that are left. Some were given up when it was not known yet
    // which would follow.
    let names: Vec<String> = ttls.into_values().rev().collect();
    let last = existing(&mut client, names[..left / 2].iter().cloned());
    assert!(last * 100 >= left / 2 * 97, "{last} of the {} that expire last", left / 2);
    let first = existing(&mut client, names[left * 3 / 2..].iter().cloned());
    assert!(first * 20 < names.len() - left * 3 / 2, "{first} of those that expire first");
}

#[test]
fn collections_of_any_size_are_given_up_and_their_space_comes_back() {
    let server = start(EvictionPolicy::AllKeysLru, 8 << 20);
    let mut client = server.client();
    for round in 0..25 {
        let element = |number: usize| format!("element {round} {number} {}", "x".repeat(50));
        for first in (0..2_000).step_by(100) {
            let words = |command: &str, score: bool| {
                let mut words =
                    vec![command.as_bytes().to_vec(), format!("{command}:{round}").into_bytes()];
                for number in first..first + 100 {
                    if score {
                        words.push(number.to_string().into_bytes());
                    }
                    words.push(element(number).into_bytes());
                }
                words
            };
            let batch = [words("zadd", true), words("rpush", false), words("sadd", false)];
            for reply in all(&mut client, &batch) {
                assert!(matches!(reply, Reply::Integer(_)), "round {round}: {reply:?}");
            }
        }
        assert_eq!(client.call(&format!("zcard zadd:{round}")), Reply::Integer(2_000));
        assert_eq!(client.call(&format!("llen rpush:{round}")), Reply::Integer(2_000));
    }
    let left = keys(&mut client);
    assert!((6..65).contains(&left), "{left} collections");
    assert!(told(&mut client, "evicted_keys") >= 75 - left);
}

#[test]
fn commands_that_cannot_run_again_and_large_values_find_room() {
    let server = start(EvictionPolicy::AllKeysLru, 16 << 20);
    let mut client = server.client();
    write_mixed(&mut client, "fill", 32 << 20, None);
    let value = vec![b'w'; 3_000];
    for round in 0..30 {
        let name = |what: &str, number: usize| format!("{what}:{round}:{number}").into_bytes();
        // 300 pages.
        assert_eq!(client.call("multi"), ok());
        for number in 0..300 {
            let queued = client.command(&[b"set", &name("exec", number), &value]);
            assert_eq!(queued, Reply::Status("QUEUED".into()));
        }
        assert_eq!(client.call("exec"), Reply::Array(vec![ok(); 300]), "round {round}");
        let mut msetnx = vec![b"msetnx".to_vec()];
        (0..100).for_each(|number| msetnx.extend([name("msetnx", number), value.clone()]));
        assert_eq!(all(&mut client, &[msetnx]), [Reply::Integer(1)]);
        let script = "for i = 1, 100 do redis.call('set', KEYS[1] .. i, ARGV[1]) end return 1";
        let eval = client.command(&[b"eval", script.as_bytes(), b"1", &name("eval", 0), &value]);
        assert_eq!(eval, Reply::Integer(1));
        let mut hset = vec![b"hset".to_vec(), name("hset", 0)];
        (0..400).for_each(|number| hset.extend([name("field", number), vec![b'f'; 40]]));
        assert_eq!(all(&mut client, &[hset]), [Reply::Integer(400)], "round {round}");
        let large = vec![b'l'; 5_000_000];
        assert_eq!(client.command(&[b"set", &name("large", 0), &large]), ok());
        assert_eq!(client.command(&[b"get", &name("large", 0)]), Reply::Bulk(large));
        assert_eq!(
            client.command(&[b"setrange", &name("range", 0), b"3000000", b"end"]),
            Reply::Integer(3_000_003)
        );
    }
}

#[test]
fn the_policy_is_read_and_changed_and_uses_are_told() {
    let server = start(EvictionPolicy::AllKeysLru, 12 << 20);
    let mut client = server.client();
    let told = |client: &mut Client| client.call("config get maxmemory-policy");
    let is = |name: &str| Reply::Array(vec![bulk("maxmemory-policy"), bulk(name)]);
    assert_eq!(told(&mut client), is("allkeys-lru"));
    client.call("set a 1");
    assert!(matches!(client.call("object idletime a"), Reply::Integer(0..600)));
    let Reply::Error(error) = client.call("object freq a") else { panic!("no frequency is kept") };
    assert!(error.starts_with("ERR An LFU maxmemory policy is not selected"), "{error}");
    for policy in EvictionPolicy::ALL {
        assert_eq!(client.call(&format!("config set maxmemory-policy {policy}")), ok());
        assert_eq!(told(&mut client), is(policy.name()));
    }
    assert_eq!(client.call("config set maxmemory-policy ALLKEYS-LFU"), ok());
    let Reply::Error(error) = client.call("config set maxmemory-policy newest") else {
        panic!("there is no such policy")
    };
    assert!(error.contains("must be one of the following: noeviction, allkeys-lru"), "{error}");
    client.call("set b 1");
    // A counter loses one each minute.
    assert!(matches!(client.call("object freq b"), Reply::Integer(4..=5)));
    for _ in 0..300 {
        client.call("get b");
    }
    let Reply::Integer(count) = client.call("object freq b") else { panic!("a number") };
    assert!((8..30).contains(&count), "{count} after 300 uses");
    // These do not use the key, nor do those of a client that asked for it.
    for _ in 0..2_000 {
        client.send(&encode(&[b"ttl", b"b"]));
        client.send(&encode(&[b"exists", b"b"]));
    }
    (0..4_000).for_each(|_| drop(client.reply()));
    assert_eq!(client.call("client no-touch on"), ok());
    (0..1_000).for_each(|_| client.send(&encode(&[b"get", b"b"])));
    (0..1_000).for_each(|_| drop(client.reply()));
    let Reply::Integer(after) = client.call("object freq b") else { panic!("a number") };
    assert!(after <= count, "{count} became {after}");
    let Reply::Error(error) = client.call("object idletime b") else { panic!("no time is kept") };
    assert!(error.starts_with("ERR An LFU maxmemory policy is selected"), "{error}");
}

#[test]
fn a_server_without_a_cache_keeps_no_uses_and_refuses_policies_that_need_them() {
    let server = start(EvictionPolicy::NoEviction, 12 << 20);
    let mut client = server.client();
    assert_eq!(told(&mut client, "dram_uses_bytes"), 0);
    let Reply::Error(error) = client.call("config set maxmemory-policy allkeys-lru") else {
        panic!("it has no table")
    };
    assert!(error.contains("restart with --maxmemory-policy allkeys-lru"), "{error}");
    let fill = |client: &mut Client, name: &str| {
        (0..10_000).step_by(PIPELINE).find_map(|first| {
            let set = |number| set(&format!("{name}:{number}"), 3_000, Some(10_000));
            let batch: Vec<_> = (first..first + PIPELINE).map(set).collect();
            all(client, &batch).into_iter().find(|reply| *reply != ok())
        })
    };
    assert_eq!(fill(&mut client, "a"), Some(Reply::Error(OOM.into())));
    for policy in ["allkeys-random", "volatile-ttl"] {
        assert_eq!(client.call(&format!("config set maxmemory-policy {policy}")), ok());
        assert_eq!(fill(&mut client, policy), None, "{policy}");
    }
    assert_eq!(client.call("config set maxmemory-policy noeviction"), ok());
    assert_eq!(fill(&mut client, "b"), Some(Reply::Error(OOM.into())));
}

#[test]
fn a_watched_key_that_is_given_up_breaks_its_transaction() {
    let server = start(EvictionPolicy::AllKeysRandom, 12 << 20);
    let (mut client, mut other) = (server.client(), server.client());
    client.call("set watched 1");
    client.call("watch watched");
    client.call("multi");
    client.call("get watched");
    let mut round = 0;
    while other.call("exists watched") == Reply::Integer(1) {
        write_mixed(&mut other, &format!("fill{round}"), 12 << 20, None);
        round += 1;
    }
    assert_eq!(client.call("exec"), Reply::Null);
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let data = folder.path().join("store");
    (folder, data)
}

#[test]
fn a_full_cache_opens_again_with_what_it_kept_and_goes_on() {
    let (_folder, data) = folder();
    let start = |policy: EvictionPolicy| {
        Server::start(|options| {
            options.policy = policy;
            options.data = data.clone();
            options.capacity_bytes = Some(12 << 20);
            options.dram_bytes = 32 << 20;
            options.durability = "every:1s".parse().expect("a policy");
        })
    };
    let server = start(EvictionPolicy::AllKeysLru);
    let mut client = server.client();
    let written = write_mixed(&mut client, "a", 30 << 20, None);
    client.call("del a:1");
    let left = keys(&mut client);
    drop((client, server));
    let server = start(EvictionPolicy::AllKeysLru);
    let mut client = server.client();
    // Upkeep of the old server may have given up more after it was asked.
    let found = keys(&mut client);
    assert!(found <= left && found * 10 > left * 9, "{left} keys, then {found}");
    assert_eq!(client.call("get a:1"), Reply::Null);
    let last = client.command(&[b"strlen", format!("a:{written}").as_bytes()]);
    assert_ne!(last, Reply::Integer(0), "the last key is there");
    write_mixed(&mut client, "b", 30 << 20, None);
    drop((client, server));
    // Without a policy the same store refuses writes again.
    let server = start(EvictionPolicy::NoEviction);
    let mut client = server.client();
    let refused = (0..10_000).step_by(PIPELINE).find_map(|first| {
        let batch: Vec<_> =
            (first..first + PIPELINE).map(|n| set(&format!("c:{n}"), 3_000, None)).collect();
        all(&mut client, &batch).into_iter().find(|reply| *reply != ok())
    });
    assert_eq!(refused, Some(Reply::Error(OOM.into())));
}

#[test]
fn several_cores_fill_a_cache_at_once_and_no_write_is_refused() {
    let server = Server::start(|options| {
        options.policy = EvictionPolicy::AllKeysLru;
        options.capacity_bytes = Some(24 << 20);
        options.dram_bytes = 48 << 20;
        options.cores = 2;
    });
    std::thread::scope(|scope| {
        for name in ["a", "b", "c", "d"] {
            let mut client = server.client();
            scope.spawn(move || write_mixed(&mut client, name, 40 << 20, None));
        }
        let mut client = server.client();
        scope.spawn(move || {
            // These take all stripes.
            (0..200).for_each(|_| assert!(matches!(client.call("dbsize"), Reply::Integer(_))));
        });
    });
}

/// A cache by a list of names in the order of their last use.
struct Exact {
    keys_max: usize,
    last_use: HashMap<usize, u64>,
    by_use: BTreeMap<u64, usize>,
    now: u64,
}

impl Exact {
    fn new(keys_max: usize) -> Exact {
        Exact { keys_max, last_use: HashMap::new(), by_use: BTreeMap::new(), now: 0 }
    }

    /// Uses a key.
    fn touch(&mut self, key: usize) {
        self.now += 1;
        let before = self.last_use.insert(key, self.now);
        if let Some(before) = before {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.now, key);
        if self.last_use.len() > self.keys_max {
            let (_, oldest) = self.by_use.pop_first().expect("there are some");
            self.last_use.remove(&oldest);
        }
    }
}

/// Draws of keys: number `k` with a probability like `1 / k^0.9`.
struct Zipf {
    cumulated: Vec<f64>,
    rng: Pcg64Mcg,
}

impl Zipf {
    fn new(keys: usize, seed: u64) -> Zipf {
        let mut sum = 0.0;
        let cumulated = (1..=keys).map(|rank| {
            sum += (rank as f64).powf(-0.9);
            sum
        });
        Zipf { cumulated: cumulated.collect(), rng: Pcg64Mcg::seed_from_u64(seed) }
    }

    fn next(&mut self) -> usize {
        let all = self.cumulated[self.cumulated.len() - 1];
        let drawn = self.rng.random_range(0.0..all);
        self.cumulated.partition_point(|sum| *sum < drawn)
    }
}

/// Reads keys of a Zipf stream through a cache: what is not found is set. Returns the hit rate of
/// the second half in percent, and the keys that the cache then held on average.
fn hit_rate(
    policy: EvictionPolicy,
    value_bytes: usize,
    (keys_all, reads): (usize, usize),
) -> (f64, usize) {
    let server = start(policy, 12 << 20);
    let mut client = server.client();
    let mut zipf = Zipf::new(keys_all, 7);
    let (mut hits, mut counted, mut held, mut times) = (0, 0, 0, 0);
    let name = |number: &usize| format!("key:{number}");
    for batch in 0..reads / PIPELINE {
        let numbers: Vec<usize> = (0..PIPELINE).map(|_| zipf.next()).collect();
        let gets: Vec<_> = numbers.iter().map(|number| get(&name(number))).collect();
        let replies = all(&mut client, &gets);
        let missed = numbers.iter().zip(&replies).filter(|(_, reply)| **reply == Reply::Null);
        let sets: Vec<_> =
            missed.map(|(number, _)| set(&name(number), value_bytes, None)).collect();
        assert!(all(&mut client, &sets).into_iter().all(|reply| reply == ok()));
        if batch * 2 * PIPELINE > reads {
            hits += PIPELINE - sets.len();
            counted += PIPELINE;
            if batch.is_multiple_of(100) {
                held += keys(&mut client) as usize;
                times += 1;
            }
        }
    }
    (100.0 * hits as f64 / counted as f64, held / times)
}

/// The hit rate of the same reads with an exact cache of this many keys.
fn exact_hit_rate(keys_max: usize, (keys_all, reads): (usize, usize)) -> f64 {
    let mut zipf = Zipf::new(keys_all, 7);
    let mut exact = Exact::new(keys_max);
    let (mut hits, mut counted) = (0, 0);
    for batch in 0..reads / PIPELINE {
        let numbers: Vec<usize> = (0..PIPELINE).map(|_| zipf.next()).collect();
        let there = numbers.iter().filter(|number| exact.last_use.contains_key(*number)).count();
        numbers.into_iter().for_each(|number| exact.touch(number));
        if batch * 2 * PIPELINE > reads {
            hits += there;
            counted += PIPELINE;
        }
    }
    100.0 * hits as f64 / counted as f64
}

#[test]
#[ignore = "slow"]
fn the_hit_rate_is_that_of_an_exact_cache_with_as_many_keys() {
    for (value_bytes, keys_all) in [(100, 300_000), (600, 60_000), (3_000, 12_000)] {
        let stream = (keys_all, 400_000);
        let (lru, held) = hit_rate(EvictionPolicy::AllKeysLru, value_bytes, stream);
        let exact = exact_hit_rate(held, stream);
        let (lfu, held_lfu) = hit_rate(EvictionPolicy::AllKeysLfu, value_bytes, stream);
        let (random, _) = hit_rate(EvictionPolicy::AllKeysRandom, value_bytes, stream);
        println!(
            "values of {value_bytes} bytes: {held} of {keys_all} keys, lru {lru:.2}%, exact \
             {exact:.2}%, lfu {lfu:.2}% with {held_lfu} keys, random {random:.2}%"
        );
        assert!(lru > exact - 3.0, "{lru}% after {exact}%");
        assert!(lfu > exact - 3.0, "{lfu}% of the most frequent, {exact}% of the last used");
        assert!(lru > random && lfu > random, "uses tell no more than chance");
    }
}
