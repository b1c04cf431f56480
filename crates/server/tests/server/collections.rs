//! Random commands on hashes, sets, sorted sets, lists and streams give the replies of a stock
//! `redis-server`, in RESP2 and RESP3. Collections grow from packed elements to trees and shrink
//! again.
//!
//! With `EBBTIDE_FUZZ_SECONDS` each test runs for that time. `EBBTIDE_SEED` is the first seed.

pub(crate) mod groups;
pub(crate) mod streams;

use std::collections::BTreeSet;

use ebbtide_core::durability::Policy;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, Server, bulk, ok};
use super::redis::{Redis, with_seeds};

/// Commands of each test.
const COMMANDS: usize = 12_000;

/// The most commands of a transaction.
const TRANSACTION_MAX: usize = 12;

/// Commands on every kind of value. `K` is any key.
const ANY: &[&str] = &[
    "type K",
    "del K",
    "exists K",
    "rename K K",
    "copy K K replace",
    "expire K 100000",
    "persist K",
    "get K",
    "append K V",
    "strlen K",
    "getrange K 0 1",
    "mget K K",
    "setbit K 1 1",
    "bitcount K",
    "incr K",
    "getdel K",
    "multi",
    "exec",
    "watch K",
];

const HASHES: &[&str] = &[
    "hset K F V",
    "hset K F V F V F V",
    "hset K F V",
    "hmset K F V F V",
    "hsetnx K F V",
    "hget K F",
    "hmget K F F F",
    "hgetall K",
    "hkeys K",
    "hvals K",
    "hlen K",
    "hexists K F",
    "hstrlen K F",
    "hdel K F F",
    "hincrby K N I",
    "hincrbyfloat K N 0.5",
    "hincrby K F 1",
    "hrandfield K 1000",
    "hrandfield K 1000 withvalues",
    "hscan K 0 count 100000",
    "hscan K 0 match *1* count 100000",
];

const SETS: &[&str] = &[
    "sadd K F",
    "sadd K F F F F",
    "sadd K I",
    "srem K F F",
    "sismember K F",
    "smismember K F F",
    "smembers K",
    "scard K",
    "smove K K F",
    "sinter K K",
    "sunion K K",
    "sdiff K K",
    "sinterstore K K K",
    "sunionstore K K K",
    "sdiffstore K K K",
    "sintercard 2 K K",
    "sintercard 2 K K limit 2",
    "srandmember K 100000",
    "spop K 100000",
    "sscan K 0 count 100000",
];

const SORTED: &[&str] = &[
    "zadd K S F",
    "zadd K S F S F S F",
    "zadd K nx S F S F",
    "zadd K xx ch S F S F",
    "zadd K gt ch S F",
    "zadd K lt ch S F",
    "zadd K incr S F",
    "zadd K xx incr S F",
    "zincrby K S F",
    "zrem K F F",
    "zcard K",
    "zscore K F",
    "zmscore K F F",
    "zrank K F",
    "zrevrank K F",
    "zcount K S S",
    "zcount K (S +inf",
    "zrange K I I",
    "zrange K I I rev withscores",
    "zrange K S S byscore withscores limit 1 3",
    "zrange K S (S byscore rev limit 0 -1",
    "zrevrange K 0 -1 withscores",
    "zrangebyscore K -inf S withscores",
    "zrangebyscore K S S limit 2 2",
    "zrevrangebyscore K S (S withscores",
    "zpopmin K",
    "zpopmin K 3",
    "zpopmax K 2",
    "zmpop 2 K K min",
    "zmpop 2 K K max count 3",
    "zremrangebyrank K I I",
    "zremrangebyscore K S (S",
    "zrangestore K K 0 5",
    "zunion 2 K K withscores",
    "zunion 2 K K weights 2 0.5 aggregate max withscores",
    "zinter 2 K K withscores",
    "zdiff 2 K K withscores",
    "zunionstore K 2 K K aggregate min",
    "zinterstore K 2 K K weights 3 1",
    "zdiffstore K 2 K K",
    "zintercard 2 K K limit 3",
    "zrandmember K 100000 withscores",
    "zscan K 0 count 100000",
    "zadd K inf F",
    "zadd K -inf F",
];

/// All scores are equal, so ranges by member are defined.
const BY_MEMBER: &[&str] = &[
    "zadd K 0 F 0 F 0 F",
    "zadd K 0 F",
    "zrem K F",
    "zlexcount K [F +",
    "zlexcount K (F [F",
    "zrangebylex K - [F",
    "zrangebylex K (F + limit 1 2",
    "zrevrangebylex K + [F",
    "zrange K [F (F bylex",
    "zrange K + - bylex rev limit 0 4",
    "zremrangebylex K [F (F",
];

const LISTS: &[&str] = &[
    "lpush K V V",
    "rpush K V",
    "rpush K V V V V",
    "lpushx K V",
    "rpushx K V",
    "lpop K",
    "rpop K",
    "lpop K 3",
    "rpop K 2",
    "llen K",
    "lrange K I I",
    "lrange K 0 -1",
    "lindex K I",
    "lset K I V",
    "linsert K before V V",
    "linsert K after V V",
    "lrem K 0 V",
    "lrem K 1 V",
    "lrem K -2 V",
    "ltrim K I I",
    "lpos K V",
    "lpos K V rank -1 count 0",
    "lpos K V count 2 maxlen 5",
    "lmove K K left right",
    "lmove K K right left",
    "rpoplpush K K",
    "lmpop 2 K K left",
    "lmpop 2 K K right count 2",
];

/// `J` is an id that grows, `T` its time, and `D` any id. `XSETID` is not here: in Redis it is no
/// change of a watched key.
const STREAMS: &[&str] = &[
    "xadd K J F V",
    "xadd K J F V",
    "xadd K J F V F V",
    "xadd K T-* F V",
    "xadd K nomkstream J F V",
    "xadd K maxlen 10 J F V",
    "xadd K maxlen = 30 J F V",
    "xadd K minid D J F V",
    "xadd K minid J J F V",
    "xadd K D F V",
    "xlen K",
    "xrange K - +",
    "xrange K D D",
    "xrange K (D D count 5",
    "xrange K D (D count 0",
    "xrevrange K D D",
    "xrevrange K + (D count 3",
    "xdel K D",
    "xdel K D D D",
    "xtrim K maxlen 200",
    "xtrim K maxlen = 5",
    "xtrim K minid D",
    "xread streams K D",
    "xread count 2 streams K K D D",
    "xread count 3 streams K $",
];

/// Consumer groups of streams. `G` is a group, and `C` a consumer.
const GROUPS: &[&str] = &[
    "xadd K J F V",
    "xadd K J F V",
    "xadd K J F V",
    "xadd K maxlen 30 J F V",
    "xdel K D D",
    "xtrim K maxlen 20",
    "xgroup create K G D",
    "xgroup create K G 0 mkstream",
    "xgroup create K G $ mkstream entriesread 3",
    "xgroup setid K G D",
    "xgroup setid K G $",
    "xgroup setid K G D entriesread 2",
    "xgroup destroy K G",
    "xgroup createconsumer K G C",
    "xgroup delconsumer K G C",
    "xreadgroup group G C streams K >",
    "xreadgroup group G C streams K >",
    "xreadgroup group G C count 2 streams K >",
    "xreadgroup group G C count 1 streams K K > >",
    "xreadgroup group G C noack count 1 streams K >",
    "xreadgroup group G C streams K D",
    "xreadgroup group G C count 3 streams K K 0 >",
    "xack K G D",
    "xack K G D D D",
    "xack K G D D D D D D",
    "xpending K G",
    "xpending K G - + 10",
    "xpending K G D (D 5 C",
    "xpending K G idle 100000 - + 10",
    "xpending K G idle 100000 - + 2 C",
    "xclaim K G C 0 D D D D",
    "xclaim K G C 0 D D justid",
    "xclaim K G C 100000 D D force",
    "xclaim K G C 0 D D D retrycount 7 force",
    "xclaim K G C 0 D D D idle 200000",
    "xclaim K G C 0 D time 1000 lastid D",
    "xautoclaim K G C 0 -",
    "xautoclaim K G C 0 D count 3",
    "xautoclaim K G C 100000 (D justid",
    "xinfo groups K",
    "xinfo consumers K G",
    "xinfo stream K",
    "xinfo stream K full",
    "xinfo stream K full count 2",
];

/// Commands whose replies have no order.
const UNORDERED: &[&str] = &[
    "hgetall",
    "hkeys",
    "hvals",
    "hrandfield",
    "hscan",
    "smembers",
    "sinter",
    "sunion",
    "sdiff",
    "srandmember",
    "spop",
    "sscan",
    "zrandmember",
    "zscan",
];

/// Commands whose replies are pairs if they have this word, or always.
const PAIRS: &[(&str, &str)] = &[
    ("hgetall", ""),
    ("hscan", ""),
    ("zscan", ""),
    ("hrandfield", "withvalues"),
    ("zrandmember", "withscores"),
];

struct Maker {
    rng: Pcg64Mcg,
    keys: usize,
    names: usize,
    /// Ids that were made.
    ids: u64,
}

impl Maker {
    fn line(&mut self, of_kind: &[&str]) -> Vec<String> {
        let lines = if self.rng.random_bool(0.12) { ANY } else { of_kind };
        let line = lines[self.rng.random_range(0..lines.len())];
        line.split(' ').map(|word| self.word(word)).collect()
    }

    fn word(&mut self, word: &str) -> String {
        let prefix = word.chars().next().filter(|first| "([".contains(*first));
        let (prefix, word) = match prefix {
            Some(prefix) => (prefix.to_string(), &word[1..]),
            None => (String::new(), word),
        };
        let text = match word {
            "K" => format!("k{}", self.rng.random_range(0..self.keys)),
            "F" => {
                let number = self.rng.random_range(0..self.names);
                format!("f{number}{}", "x".repeat(number % 7 * 9))
            }
            "G" => format!("g{}", self.rng.random_range(0..3)),
            "C" => format!("c{}", self.rng.random_range(0..4)),
            "N" => format!("n{}", self.rng.random_range(0..3)),
            "I" => self.rng.random_range(-12..12).to_string(),
            "S" => (f64::from(self.rng.random_range(-20..20)) / 4.0).to_string(),
            "J" => {
                self.ids += 1;
                format!("{}-{}", self.ids / 3, self.ids % 3)
            }
            "T-*" => format!("{}-*", self.ids / 3),
            "D" => format!("{}-{}", self.rng.random_range(0..=self.ids / 3), self.ids % 3),
            "V" => match self.rng.random_range(0..30) {
                0 => "v".repeat(self.rng.random_range(0..6_000)),
                1..5 => "v".repeat(self.rng.random_range(0..90)),
                _ => format!("v{}", self.rng.random_range(0..12)),
            },
            other => other.to_string(),
        };
        prefix + &text
    }
}

/// The reply about pending entries without times, and without the pages of a stream.
fn without_times(reply: Reply) -> Reply {
    const NAMES: [&[u8]; 4] = [b"idle", b"seen-time", b"radix-tree-keys", b"radix-tree-nodes"];
    let Reply::Array(parts) = reply else { return reply };
    let mut parts: Vec<Reply> = parts.into_iter().map(without_times).collect();
    match &mut parts[..] {
        [Reply::Bulk(_), Reply::Bulk(_), time @ Reply::Integer(_), Reply::Integer(_)]
        | [Reply::Bulk(_), time @ Reply::Integer(_), Reply::Integer(_)] => {
            *time = Reply::Integer(0)
        }
        parts => {
            for at in 1..parts.len() {
                let is_named =
                    matches!(&parts[at - 1], Reply::Bulk(name) if NAMES.contains(&&name[..]));
                if is_named {
                    parts[at] = Reply::Integer(0);
                }
            }
        }
    }
    Reply::Array(parts)
}

/// The reply without the order of its elements, if it has none.
fn in_order(words: &[String], reply: Reply) -> Reply {
    if matches!(words[0].as_str(), "xpending" | "xinfo") {
        return without_times(reply);
    }
    if !UNORDERED.contains(&words[0].as_str()) {
        return reply;
    }
    let Reply::Array(mut parts) = reply else { return reply };
    if words[0].ends_with("scan") {
        let Some(elements) = parts.pop() else { return Reply::Array(parts) };
        let as_if = if words[0] == "sscan" { "smembers" } else { "hgetall" };
        parts.push(in_order(&[as_if.to_string()], elements));
        return Reply::Array(parts);
    }
    let in_pairs = |(name, with): &(&str, &str)| {
        *name == words[0] && (with.is_empty() || words.iter().any(|word| word == with))
    };
    let shown = |reply: &[Reply]| format!("{reply:?}");
    let flat = parts.iter().all(|part| !matches!(part, Reply::Array(_)));
    if flat && PAIRS.iter().any(in_pairs) {
        let mut pairs: Vec<Vec<Reply>> = parts.chunks(2).map(<[Reply]>::to_vec).collect();
        pairs.sort_by_key(|pair| shown(pair));
        return Reply::Array(pairs.concat());
    }
    parts.sort_by_key(|part| shown(std::slice::from_ref(part)));
    Reply::Array(parts)
}

fn text(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8_lossy(&bytes[..bytes.len().min(20)]).into_owned(),
        Reply::Array(parts) => {
            format!("[{}]", parts.iter().map(text).collect::<Vec<_>>().join(" "))
        }
        other => format!("{other:?}"),
    }
}

fn compare(of_kind: &[&str], (keys, names): (usize, usize), protocol: &str, seed: u64) {
    let Some(mut redis) = Redis::start() else {
        eprintln!("there is no redis-server (Debian: redis-server): nothing to compare with");
        return;
    };
    let server = Server::start(|options| {
        // Every other one with a log.
        if seed % 2 == 1 {
            options.durability = "every:1s".parse().expect("a policy");
            options.capacity_bytes = Some(128 << 20);
        }
    });
    let mut ours = server.client();
    for client in [&mut redis.client, &mut ours] {
        client.command(&[b"hello", protocol.as_bytes()]);
    }
    let mut maker = Maker { rng: Pcg64Mcg::seed_from_u64(seed), keys, names, ids: 0 };
    let (mut differ, mut transaction) = (Vec::new(), Vec::new());
    for step in 0..COMMANDS {
        // The replies of a transaction are in DRAM together, so it must not have many.
        let ends = transaction.len() >= TRANSACTION_MAX;
        let words = if ends { vec!["exec".to_string()] } else { maker.line(of_kind) };
        let bytes: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let (expected, found) = (redis.client.command(&bytes), ours.command(&bytes));
        let (expected, found) = match (words[0].as_str(), expected, found) {
            ("exec", Reply::Array(expected), Reply::Array(found)) => {
                let each = |replies: Vec<Reply>| {
                    let each = transaction.iter().zip(replies);
                    Reply::Array(
                        each.map(|(words, reply): (&Vec<String>, _)| in_order(words, reply))
                            .collect(),
                    )
                };
                (each(expected), each(found))
            }
            (_, expected, found) => (in_order(&words, expected), in_order(&words, found)),
        };
        match (words[0].as_str(), &found) {
            ("exec", _) => transaction.clear(),
            (_, Reply::Status(status)) if status == "QUEUED" => transaction.push(words.clone()),
            _ => {}
        }
        if expected != found {
            let (line, expected, found) = (words.join(" "), text(&expected), text(&found));
            differ.push(format!(
                "step {step}: {line:.200}\n  Redis: {expected:.1500}\n  here: {found:.1500}"
            ));
        }
        if differ.len() == 8 {
            break;
        }
    }
    assert!(differ.is_empty(), "seed {seed}:\n{}", differ.join("\n"));
}

/// Few names keep collections packed. Many make them trees, and `del` makes them start again.
const SIZES: [(usize, usize); 2] = [(5, 12), (3, 400)];

fn compare_in_both_protocols(of_kind: &[&str]) {
    compare_sizes(of_kind, &SIZES);
}

/// Compares with each size in both protocols.
fn compare_sizes(of_kind: &[&str], sizes: &[(usize, usize)]) {
    with_seeds(|first| {
        let pairs = sizes.iter().flat_map(|size| [(size, "2"), (size, "3")]);
        for (seed, (size, protocol)) in (first * 16..).zip(pairs) {
            compare(of_kind, *size, protocol, seed);
        }
    });
}

#[test]
fn commands_on_hashes_give_the_replies_of_redis() {
    compare_in_both_protocols(HASHES);
}

#[test]
fn commands_on_sets_give_the_replies_of_redis() {
    compare_in_both_protocols(SETS);
}

#[test]
fn commands_on_sorted_sets_give_the_replies_of_redis() {
    compare_in_both_protocols(SORTED);
}

#[test]
fn ranges_of_members_are_those_of_redis() {
    compare_in_both_protocols(BY_MEMBER);
}

#[test]
fn commands_on_lists_give_the_replies_of_redis() {
    compare_in_both_protocols(LISTS);
}

#[test]
fn commands_on_streams_give_the_replies_of_redis() {
    compare_in_both_protocols(STREAMS);
}

#[test]
fn commands_on_consumer_groups_give_the_replies_of_redis() {
    compare_in_both_protocols(GROUPS);
}

#[test]
fn commands_on_all_kinds_of_values_give_the_replies_of_redis() {
    let mixed = [HASHES, SETS, SORTED, LISTS, STREAMS, GROUPS].concat();
    compare_sizes(&mixed, &[(8, 20)]);
}

/// Elements of a large collection of each kind.
const ELEMENTS: usize = 20_000;

fn fill(client: &mut Client, elements: usize) {
    for first in (0..elements).step_by(100) {
        let names: Vec<String> =
            (first..first + 100).map(|n| format!("member:{n:08}:{}", "x".repeat(n % 50))).collect();
        let scored = |name: &String| [name.len().to_string(), name.clone()];
        let scored: Vec<String> = names.iter().flat_map(scored).collect();
        for (command, words) in
            [("hset", &scored), ("sadd", &names), ("zadd", &scored), ("rpush", &names)]
        {
            let command_words = [command.to_string(), format!("{command}:key")];
            let words: Vec<&[u8]> =
                command_words.iter().chain(words).map(|word| word.as_bytes()).collect();
            client.request(&words);
        }
        (0..4).for_each(|_| assert!(matches!(client.reply(), Some(Reply::Integer(_)))));
    }
}

#[test]
fn large_collections_are_read_changed_and_removed_within_the_budget() {
    let server = Server::start(|options| {
        options.durability = Policy::Every(ebbtide_core::Span::from_us(100_000));
    });
    let mut client = server.client();
    fill(&mut client, ELEMENTS);
    let count = Reply::Integer(ELEMENTS as i64);
    for line in ["scard sadd:key", "zcard zadd:key", "llen rpush:key"] {
        assert_eq!(client.call(line), count, "{line}");
    }
    let Reply::Array(members) = client.call("smembers sadd:key") else { panic!("members") };
    assert_eq!(members.len(), ELEMENTS);
    assert_eq!(members.iter().map(|m| format!("{m:?}")).collect::<BTreeSet<_>>().len(), ELEMENTS);
    let Reply::Array(values) = client.call("lrange rpush:key 0 -1") else { panic!("values") };
    assert_eq!(values.len(), ELEMENTS);
    assert_eq!(client.call("lindex rpush:key 7777"), values[7_777]);
    let Reply::Array(range) = client.call("zrange zadd:key 0 -1") else { panic!("members") };
    assert_eq!(range.len(), ELEMENTS);
    let Reply::Bulk(last) = &range[ELEMENTS - 1] else { panic!("a member") };
    let last = String::from_utf8_lossy(last).into_owned();
    assert_eq!(client.call(&format!("zrank zadd:key {last}")), Reply::Integer(ELEMENTS as i64 - 1));
    assert_eq!(client.call("copy rpush:key copied"), Reply::Integer(1));
    assert_eq!(client.call("lrange copied 0 -1"), Reply::Array(values));
    assert_eq!(client.call("ltrim copied 1 -2"), ok());
    assert_eq!(client.call("llen copied"), Reply::Integer(ELEMENTS as i64 - 2));
    assert_eq!(client.call("zremrangebyrank zadd:key 10 -1"), Reply::Integer(ELEMENTS as i64 - 10));
    assert_eq!(client.call("zcard zadd:key"), Reply::Integer(10));
    assert_eq!(client.call("object encoding zadd:key"), bulk("listpack"));
    assert_eq!(client.call("sunionstore union sadd:key rpush:key"), wrong_kind());
    assert_eq!(client.call("sunionstore union sadd:key nothing"), count);
    assert_eq!(client.call("del union sadd:key hset:key rpush:key"), Reply::Integer(4));
    assert_eq!(client.call("flushall"), ok());
    // Upkeep gives the pages back, so the store takes as much again.
    fill(&mut client, ELEMENTS);
}

#[test]
fn lists_in_pages_that_other_lists_had_are_what_was_stored() {
    let server = Server::start(|options| {
        options.durability = "every:1s".parse().expect("a policy");
        options.capacity_bytes = Some(128 << 20);
    });
    let mut client = server.client();
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    for round in 0..300 {
        let key = format!("k{}", round % 60).into_bytes();
        client.command(&[b"del", &key]);
        let mut element = || {
            let mut element = vec![0; rng.random_range(0..100)];
            rng.fill_bytes(&mut element);
            element
        };
        let elements: Vec<Vec<u8>> = (0..1 + round * 7 % 400).map(|_| element()).collect();
        let mut push: Vec<&[u8]> = vec![b"rpush", &key];
        push.extend(elements.iter().map(Vec::as_slice));
        assert_eq!(client.command(&push), Reply::Integer(elements.len() as i64));
        let expected = Reply::Array(elements.into_iter().map(Reply::Bulk).collect());
        assert!(client.command(&[b"lrange", &key, b"0", b"-1"]) == expected, "round {round}");
    }
}

fn wrong_kind() -> Reply {
    Reply::Error("WRONGTYPE Operation against a key holding the wrong kind of value".into())
}

#[test]
fn a_scan_returns_only_keys_of_the_wanted_kind() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    client.call("set string 1");
    client.call("hset hash f v");
    client.call("sadd set m");
    client.call("zadd zset 1 m");
    client.call("rpush list v");
    for kind in ["string", "hash", "set", "zset", "list"] {
        assert_eq!(client.call(&format!("type {kind}")), Reply::Status(kind.into()));
        let Reply::Array(parts) = client.call(&format!("scan 0 type {kind} count 1000")) else {
            panic!("two parts")
        };
        assert_eq!(parts[1], Reply::Array(vec![bulk(kind)]));
    }
    let refused = Reply::Error("ERR The specified keys must contain string values".into());
    assert_eq!(client.call("lcs string hash"), refused);
}

#[test]
fn a_transaction_changes_collections_as_one_step_and_watches_them() {
    let server = Server::start(|_| ());
    let (mut one, mut other) = (server.client(), server.client());
    one.call("hset h f 1");
    one.call("watch h z");
    other.call("hset h f 2");
    one.call("multi");
    one.call("rpush l v");
    assert_eq!(one.call("exec"), Reply::Null);
    one.call("watch h z");
    one.call("multi");
    one.call("rpush l v");
    one.call("zadd z 1 m");
    one.call("hincrby h f 5");
    one.call("lrange l 0 -1");
    let expected = vec![
        Reply::Integer(1),
        Reply::Integer(1),
        Reply::Integer(7),
        Reply::Array(vec![bulk("v")]),
    ];
    assert_eq!(one.call("exec"), Reply::Array(expected));
    one.call("watch h");
    other.call("hdel h nothing");
    one.call("multi");
    one.call("hlen h");
    assert_eq!(one.call("exec"), Reply::Array(vec![Reply::Integer(1)]), "nothing has changed");
}

#[test]
fn long_elements_are_put_moved_copied_and_removed_as_in_redis() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|options| options.durability = Policy::Always);
    let mut ours = server.client();
    let words = |line: &str| -> Vec<Vec<u8>> {
        let long = |word: &str| match word.strip_prefix('@') {
            Some(bytes) => vec![b'x'; bytes.parse().expect("a number")],
            None => word.as_bytes().to_vec(),
        };
        line.split(' ').map(long).collect()
    };
    for line in [
        "hset h f @40000 g @200000 s 1",
        "hget h g",
        "hstrlen h f",
        "hset h f @33000",
        "hsetnx h @40000 1",
        "hget h @40000",
        "hincrby h s 1",
        "hdel h g @40000",
        "hgetall h",
        "rpush l a @50000 b",
        "lpush l @32704 @32705",
        "lrange l 0 -1",
        "linsert l before a @60000",
        "lset l 0 @70000",
        "lmove l m left right",
        "rpoplpush m l",
        "lpos l @50000",
        "lrem l 0 @32704",
        "copy l copied",
        "lrange copied 0 -1",
        "ltrim l 1 2",
        "lpop l 5",
        "rename copied l",
        "llen l",
        "sadd s @40000 b @100000",
        "sadd s @40000",
        "smove s t @100000",
        "sismember t @100000",
        "sunionstore u s t",
        "scard u",
        "srem u @40000 @100000",
        "smembers u",
        "zadd z 1 @990 4 @991 2 @20000 3 @32696 1 b 5 @1000",
        "zrange z 0 -1 withscores",
        "zincrby z 5 @991",
        "zrank z @20000",
        "zrevrank z @991",
        "zscore z @32696",
        "zrangebyscore z (1 5 limit 1 5",
        "zcount z 2 3",
        "zunionstore y 2 z z",
        "zrangestore x y 1 -1",
        "zrange x 0 -1 rev",
        "copy z w",
        "zadd w 8 @20000",
        "zrem z @20000 @990",
        "zpopmax z 2",
        "zpopmin w 3",
        "zrange w 0 -1 withscores",
        "del h l s t w x y z",
        "dbsize",
    ] {
        let words = words(line);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let (expected, found) = (redis.client.command(&words), ours.command(&words));
        let of = |reply| in_order(&[line.split(' ').next().unwrap_or_default().into()], reply);
        let (expected, found) = (of(expected), of(found));
        assert!(
            expected == found,
            "{line}\n  Redis: {}\n  here: {}",
            text(&expected),
            text(&found)
        );
    }
    let value = "x".repeat(40_000);
    ours.call("multi");
    ours.call(&format!("rpush l {value}"));
    let Reply::Array(replies) = ours.call("exec") else { panic!("a reply") };
    assert!(matches!(&replies[0], Reply::Error(error) if error.contains("32704")), "{replies:?}");
    assert_eq!(ours.call("flushall"), ok());
    // A store of 64 MiB takes this only if upkeep frees the pages of long elements.
    for round in 0..100 {
        let value = vec![b'y'; 900_000];
        assert_eq!(ours.command(&[b"hset", b"h", b"f", &value]), Reply::Integer(1), "{round}");
        assert_eq!(ours.call("del h"), Reply::Integer(1));
    }
}

#[test]
fn collections_that_redis_dumps_are_restored_here_and_the_other_way() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| ());
    let mut ours = server.client();
    let many = |from: usize, to: usize, of: fn(usize) -> String| {
        (from..to).map(of).collect::<Vec<String>>().join(" ")
    };
    let long = "x".repeat(70_000);
    let lines = [
        "hset k a 1 b text c -70000".to_string(),
        format!("hset k {}", many(0, 300, |n| format!("f{n} {}", n * n))),
        "sadd k 1 -2 300".into(),
        "sadd k 1 70000 -9999999999".into(),
        "sadd k one two 3".into(),
        "zadd k 1 a 2.5 b -inf c 17 9".into(),
        format!("zadd k {}", many(0, 300, |n| format!("{}.25 m{n}", n % 9))),
        "rpush k a 5 -1 4000 -4000 70000 -9000000 99999999999 text".into(),
        format!("rpush k {}", many(0, 3_000, |n| format!("value:{n}"))),
        format!("rpush k {long} a"),
        format!("rpush k {} {}", "y".repeat(100), "z".repeat(5_000)),
    ];
    let read = |client: &mut Client| {
        let Reply::Status(kind) = client.call("type k") else { panic!("a kind") };
        let line = match kind.as_str() {
            "hash" => "hgetall k",
            "set" => "smembers k",
            "zset" => "zrange k 0 -1 withscores",
            _ => "lrange k 0 -1",
        };
        let words: Vec<String> = line.split(' ').map(String::from).collect();
        (kind, in_order(&words, client.call(line)))
    };
    for line in lines {
        for (one, other) in [(true, false), (false, true)] {
            let clients = |from_redis: bool| if from_redis { 0 } else { 1 };
            let mut both = [&mut redis.client, &mut ours];
            both.iter_mut().for_each(|client| drop(client.call("del k")));
            both[clients(one)].call(&line);
            let expected = read(both[clients(one)]);
            let Reply::Bulk(dump) = both[clients(one)].call("dump k") else { panic!("{line:.60}") };
            let restored = both[clients(other)].command(&[b"restore", b"k", b"100000", &dump]);
            assert_eq!(restored, ok(), "from Redis: {one}, {line:.60}");
            assert!(read(both[clients(other)]) == expected, "from Redis: {one}, {line:.60}");
            let Reply::Integer(ttl) = both[clients(other)].call("pttl k") else { panic!("a time") };
            assert!((1..=100_000).contains(&ttl));
        }
    }
}
