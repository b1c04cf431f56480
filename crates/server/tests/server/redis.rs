//! Random commands give the replies of a stock `redis-server`, errors included.

mod events;
mod geo;
mod hyperloglog;
mod sorting;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, Server};

/// A stock server. `None` if it is not installed.
pub(crate) struct Redis {
    process: Child,
    pub(crate) client: Client,
    address: std::net::SocketAddr,
    folder: tempfile::TempDir,
}

impl Redis {
    pub(crate) fn start() -> Option<Redis> {
        Redis::start_in(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder"))
    }

    /// Starts it with the keys of `dump.rdb` in a folder, if there is such a file.
    pub(crate) fn start_in(folder: tempfile::TempDir) -> Option<Redis> {
        Redis::start_with(folder, &[])
    }

    /// As [`start_in`](Redis::start_in), with more options.
    pub(crate) fn start_with(folder: tempfile::TempDir, options: &[&str]) -> Option<Redis> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(folder.path())
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let address = ([127, 0, 0, 1], port).into();
        let until = Instant::now() + Duration::from_secs(60);
        // It accepts connections before it has loaded its keys.
        let answers = || {
            std::net::TcpStream::connect(address).is_ok()
                && Client::connect(address).call("ping") == Reply::Status("PONG".into())
        };
        while !answers() {
            assert!(Instant::now() < until, "redis-server does not answer");
            std::thread::yield_now();
        }
        Some(Redis { process, client: Client::connect(address), address, folder })
    }

    /// Writes its keys to a file, and returns its path.
    pub(crate) fn save(&mut self) -> std::path::PathBuf {
        assert_eq!(self.client.call("save"), Reply::Status("OK".into()));
        self.folder.path().join("dump.rdb")
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns another connection.
    pub(crate) fn another(&self) -> Client {
        Client::connect(self.address)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a random command: mostly valid, sometimes with wrong arguments.
fn command(rng: &mut Pcg64Mcg) -> Vec<String> {
    const LINES: &[&str] = &[
        "set K V",
        "set K V nx",
        "set K V xx",
        "set K V get",
        "set K V ex 1000",
        "set K V px P",
        "set K V keepttl",
        "set K V ex P",
        "set K V nx xx",
        "set K V exat 99999999999",
        "set K N",
        "set K V nx get",
        "set K V ex 10 keepttl",
        "set K V bogus",
        "set K V ex",
        "setnx K V",
        "setex K P V",
        "setex K 100 V",
        "psetex K 100000 V",
        "get K",
        "get K",
        "getset K V",
        "getdel K",
        "getex K",
        "getex K persist",
        "getex K ex 1000",
        "getex K ex P",
        "getex K bogus",
        "getex K ex 1000 ex 2000",
        "set K V ex 1000 ex 2000",
        "set K V nx nx get",
        "mget K K K",
        "mset K V K V",
        "mset K V K",
        "msetnx K V K V",
        "strlen K",
        "getrange K I I",
        "substr K I I",
        "setrange K S V",
        "setrange K I V",
        "append K V",
        "incr K",
        "decr K",
        "incrby K I",
        "decrby K I",
        "incrby K V",
        "incrbyfloat G F",
        "incrbyfloat G x",
        "del K",
        "del K K",
        "unlink K",
        "exists K K K",
        "type K",
        "rename K K",
        "renamenx K K",
        "copy K K",
        "copy K K replace",
        "copy K K db 3",
        "copy K K db 99",
        "move K 3",
        "move K 0",
        "touch K K",
        "expire K 1000",
        "expire K P",
        "pexpire K 1000000",
        "expire K 1000 nx",
        "expire K 2000 xx",
        "expire K T gt",
        "expire K T lt",
        "expire K 10 nx xx",
        "expire K 10 gt lt",
        "expire K 10 bogus",
        "expireat K 99999999999",
        "pexpireat K P",
        "expiretime K",
        "pexpiretime K",
        "ttl K",
        "persist K",
        "setbit K S B",
        "setbit K I I",
        "getbit K S",
        "getbit K I",
        "bitcount K",
        "bitcount K I I",
        "bitcount K I I bit",
        "bitcount K I",
        "bitpos K B",
        "bitpos K B I",
        "bitpos K B I I",
        "bitpos K B I I bit",
        "bitpos K I",
        "bitop and K K K",
        "bitop or K K K",
        "bitop xor K K",
        "bitop not K K",
        "bitop not K K K",
        "bitop bogus K K",
        "bitfield K get u8 S",
        "bitfield K set i5 S I",
        "bitfield K incrby u4 S I",
        "bitfield K overflow sat incrby i8 #S I",
        "bitfield K overflow fail incrby u2 S I get u2 S",
        "bitfield K overflow sat set u8 S I",
        "bitfield K overflow fail set i9 S I",
        "bitfield K overflow sat set u63 0 I",
        "bitfield K get u64 0",
        "bitfield K set u8 S V",
        "bitfield_ro K get u8 0",
        "bitfield_ro K set u8 0 1",
        "dbsize",
        "select 3",
        "select 0",
        "select 99",
        "select V",
        "echo V",
        "ping",
        "ping V",
        "ping V V",
        "object bogus K",
        "bogus K V",
        "get",
        "set K",
        "multi",
        "exec",
        "discard",
        "watch K",
        "unwatch",
        "swapdb 0 3",
        "swapdb 0 0",
        "flushdb",
        "scan x",
        "scan 0 count 0",
        "scan 0 bogus",
        "time x",
        "randomkey x",
        "client getname",
        "client setname V",
        "restore K 0 x",
        "restore K P x replace",
        "restore K 0 x replace idletime -1",
        "restore K 0 x replace freq 256",
        "restore K 0 x bogus",
        "lcs K K idx len",
        "lcs K K bogus",
        "lcs K",
        "client kill nobody",
        "client list id x",
        "client no-evict maybe",
        "command count x",
        "memory usage K samples -1",
        "memory usage nothing",
        "expire K 9223372036854775807",
        "set K V ex 9223372036854775807",
        "incrby K 9223372036854775807",
        "decrby K -9223372036854775808",
        "set K 9223372036854775807",
        "hello 9",
        "hello x",
        "auth x",
        "auth x y",
        "type K x",
        "keys",
        "object",
        "nothing x y",
    ];
    let line = LINES[rng.random_range(0..LINES.len())];
    let seldom = ["flushdb", "swapdb 0 3", "multi", "select 3"].contains(&line);
    if seldom && rng.random_bool(0.7) {
        return vec!["get".into(), "k1".into()];
    }
    line.split(' ').map(|word| argument(rng, word)).collect()
}

fn argument(rng: &mut Pcg64Mcg, word: &str) -> String {
    let choose =
        |rng: &mut Pcg64Mcg, from: &[&str]| from[rng.random_range(0..from.len())].to_string();
    match word {
        "K" => format!("k{}", rng.random_range(0..6)),
        "B" => rng.random_range(0..2).to_string(),
        "S" => rng.random_range(0..60).to_string(),
        "#S" => format!("#{}", rng.random_range(0..9)),
        "N" => (rng.next_u32() as i32).to_string(),
        "I" => match rng.random_range(0..8) {
            0 => choose(rng, &["x", "", "1.5", " 1", "99999999999999999999", "0"]),
            _ => rng.random_range(-30..30).to_string(),
        },
        // Keys expire at once or long after the test.
        "P" => match rng.random_range(0..8) {
            0 => choose(rng, &["x", "", "1.5", "99999999999999999999", "0", "-1", "-1000000"]),
            _ => (rng.random_range(1..30) * 1_000_000).to_string(),
        },
        // Compared times are far apart, because the servers' clocks differ a little.
        "T" => rng.random_range(500..900_000).to_string(),
        // Sums are exact here, and Redis adds in 80-bit floating point. These sums are the same in
        // both.
        "G" => format!("f{}", rng.random_range(0..3)),
        "F" => choose(rng, &["1.5", "-0.25", "3", "1e3", "x", "10.125", "-7.75", "0.5", "5.0e2"]),
        "V" => match rng.random_range(0..5) {
            0 => rng.random_range(-100..100).to_string(),
            1 => "v".repeat(rng.random_range(0..3000)),
            _ => choose(rng, &["a", "hello world", "12", "3.5", "", "\u{e9}\r\n", "0", "-1"]),
        },
        other => other.to_string(),
    }
}

/// Returns true if both replies agree. Times may differ by the delay between the two servers,
/// within transactions too.
fn agree(command: &str, redis: &Reply, here: &Reply) -> bool {
    match (command, redis, here) {
        ("ttl" | "expiretime" | "pexpiretime", Reply::Integer(redis), Reply::Integer(here)) => {
            is_about(*redis, *here)
        }
        ("exec", Reply::Array(redis), Reply::Array(here)) => {
            let same = |(redis, here): (&Reply, &Reply)| match (redis, here) {
                (Reply::Integer(redis), Reply::Integer(here)) if *redis >= TIME_LEFT_MIN_S => {
                    is_about(*redis, *here)
                }
                (redis, here) => redis == here,
            };
            redis.len() == here.len() && redis.iter().zip(here).all(same)
        }
        (_, redis, here) => redis == here,
    }
}

/// The least time, in seconds, that a command leaves a key that it does not end at once.
const TIME_LEFT_MIN_S: i64 = 90;

/// Returns true if two times are within five seconds. Large ones are in milliseconds.
fn is_about(one: i64, other: i64) -> bool {
    let tolerance = if one > 100_000_000_000 { 5_000 } else { 5 };
    one == other || one > 0 && other > 0 && one.abs_diff(other) <= tolerance
}

/// A client for each core of the server; they take turns. Transactions and watched keys stay with
/// one client. The selected database moves with the turn.
struct Ours {
    clients: Vec<Client>,
    turn: usize,
    database: String,
    in_transaction: bool,
    watches: bool,
}

impl Ours {
    fn of(server: &Server, cores: usize) -> Ours {
        let clients = (0..cores).map(|_| server.client()).collect();
        Ours { clients, turn: 0, database: "0".into(), in_transaction: false, watches: false }
    }

    fn command(&mut self, arguments: &[&[u8]]) -> Reply {
        if !self.in_transaction && !self.watches && self.clients.len() > 1 {
            self.turn = (self.turn + 1) % self.clients.len();
            let database = self.database.clone();
            self.clients[self.turn].command(&[b"select", database.as_bytes()]);
        }
        let reply = self.clients[self.turn].command(arguments);
        let done = matches!(reply, Reply::Status(_));
        match arguments[0] {
            b"multi" => self.in_transaction |= done,
            b"watch" => self.watches |= done,
            b"unwatch" => self.watches &= self.in_transaction,
            b"exec" | b"discard" if self.in_transaction => {
                (self.in_transaction, self.watches) = (false, false)
            }
            b"select" if done && !self.in_transaction => {
                self.database = String::from_utf8_lossy(arguments[1]).into_owned();
            }
            _ => {}
        }
        reply
    }
}

/// Calls `once` with a seed, and with others until `EBBTIDE_FUZZ_SECONDS` are over. `EBBTIDE_SEED`
/// is the first.
pub(crate) fn with_seeds(mut once: impl FnMut(u64)) {
    let setting = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let until = setting("EBBTIDE_FUZZ_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let mut seed = setting("EBBTIDE_SEED").unwrap_or(1);
    loop {
        once(seed);
        seed += 1;
        if until.is_none_or(|until| Instant::now() > until) {
            return;
        }
    }
}

#[test]
fn random_commands_give_the_replies_of_redis() {
    with_seeds(|seed| compare_random_commands(1, "2", seed));
}

#[test]
fn random_commands_of_resp3_give_the_replies_of_redis() {
    with_seeds(|seed| compare_random_commands(1, "3", seed));
}

#[test]
fn random_commands_on_two_cores_give_the_replies_of_redis() {
    with_seeds(|seed| compare_random_commands(2, "2", seed));
}

fn compare_random_commands(cores: usize, protocol: &str, seed: u64) {
    let Some(mut redis) = Redis::start() else {
        eprintln!("there is no redis-server (Debian: redis-server): nothing to compare with");
        return;
    };
    let server = Server::start(|options| {
        options.cores = cores;
        options.dram_bytes = 24 << 20;
    });
    let mut ours = Ours::of(&server, cores);
    let hello: &[&[u8]] = &[b"hello", protocol.as_bytes()];
    redis.client.command(hello);
    ours.clients.iter_mut().for_each(|client| _ = client.command(hello));
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut differ: Vec<String> = Vec::new();
    for step in 0..20_000 {
        let arguments = command(&mut rng);
        if cores > 1 && arguments[0] == "client" {
            // Each of our clients has its own name.
            continue;
        }
        let bytes: Vec<&[u8]> = arguments.iter().map(String::as_bytes).collect();
        let expected = redis.client.command(&bytes);
        let found = ours.command(&bytes);
        if !agree(&arguments[0], &expected, &found) {
            let line = arguments.join(" ");
            differ.push(format!(
                "step {step}: {line:.200}\n  Redis: {expected:.200?}\n  here: {found:.200?}"
            ));
        }
        if differ.len() == 10 {
            break;
        }
    }
    assert!(differ.is_empty(), "seed {seed}:\n{}", differ.join("\n"));
}

#[test]
fn what_redis_dumps_is_restored_here_and_the_other_way() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| ());
    let mut ours = server.client();
    let long: String = (0..3_000u32).map(|n| (n * n % 7).to_string()).collect();
    let values = ["", "7", "-129", "70000", "4294967296", "+5", "abc", &"ab".repeat(5_000), &long];
    for (number, value) in values.iter().enumerate() {
        let key = number.to_string();
        let key = key.as_bytes();
        {
            let (one, other) = (&mut redis.client, &mut ours);
            one.command(&[b"set", key, value.as_bytes()]);
            let Reply::Bulk(dump) = one.command(&[b"dump", key]) else { panic!("a dump") };
            let restored = other.command(&[b"restore", key, b"0", &dump]);
            assert_eq!(restored, Reply::Status("OK".into()), "Redis to here: {value:.40}");
            assert_eq!(other.command(&[b"get", key]), Reply::Bulk(value.as_bytes().to_vec()));
            let busy = other.command(&[b"restore", key, b"0", &dump]);
            assert!(matches!(busy, Reply::Error(error) if error.starts_with("BUSYKEY")));
            let Reply::Bulk(dump) = other.command(&[b"dump", key]) else { panic!("a dump") };
            let restored = one.command(&[b"restore", key, b"100000", &dump, b"replace"]);
            assert_eq!(restored, Reply::Status("OK".into()), "here to Redis: {value:.40}");
            assert_eq!(one.command(&[b"get", key]), Reply::Bulk(value.as_bytes().to_vec()));
        }
    }
}

#[test]
fn common_subsequences_are_those_of_redis() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| ());
    let mut ours = server.client();
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    for round in 0..300 {
        let text = |rng: &mut Pcg64Mcg| -> String {
            let length = rng.random_range(0..40);
            (0..length).map(|_| ['a', 'b', 'c'][rng.random_range(0..3)]).collect()
        };
        let (one, other) = (text(&mut rng), text(&mut rng));
        let least = rng.random_range(-1..4).to_string();
        let forms: [&[&[u8]]; 4] = [
            &[],
            &[b"len"],
            &[b"idx"],
            &[b"idx", b"withmatchlen", b"minmatchlen", least.as_bytes()],
        ];
        for client in [&mut redis.client, &mut ours] {
            client.command(&[b"mset", b"one", one.as_bytes(), b"other", other.as_bytes()]);
        }
        for form in forms {
            let arguments = [&[&b"lcs"[..], b"one", b"other"], form].concat();
            let (expected, found) = (redis.client.command(&arguments), ours.command(&arguments));
            assert_eq!(found, expected, "round {round}: '{one}' and '{other}', {form:?}");
        }
    }
}

#[test]
fn members_in_order_are_found_by_member_whatever_their_scores() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| {});
    let mut ours = server.client();
    let bounds = ["-", "+", "[a", "(a", "[c", "(c", "[bb", "[e", "(e", "[f"];
    for (few, members) in [(true, 5), (false, 5_000)] {
        for client in [&mut redis.client, &mut ours] {
            client.call("del z");
            for member in 0..members {
                let name = match few {
                    true => char::from(b'a' + member as u8).to_string(),
                    false => format!("c{member:05}"),
                };
                client.call(&format!("zadd z {} {name}", member / 2));
            }
        }
        for least in bounds {
            for greatest in bounds {
                for line in [
                    format!("zrangebylex z {least} {greatest} limit 0 9"),
                    format!("zlexcount z {least} {greatest}"),
                    format!("zrange z {greatest} {least} bylex rev limit 1 3"),
                    format!("zrangestore to z {least} {greatest} bylex limit 0 5"),
                ] {
                    assert_eq!(redis.client.call(&line), ours.call(&line), "{line}");
                }
            }
        }
    }
}

/// Numbers in odd forms, limits of ranges by rank, and places of odd scores.
const ODD: &[&str] = &[
    "zadd z 0x10 a",
    "zscore z a",
    "zincrby z 0x1p4 a",
    "zadd z 1e400 b",
    "zadd z -1e400 b",
    "zadd z 1e-400 b",
    "zadd z 4e-320 b",
    "zadd z 0e999 c",
    "zadd z Infinity d",
    "zadd z 0x b",
    "zadd z 0x1p2000 b",
    "zrangebyscore z 0x1 0x20",
    "zrange z 0 -1 limit 1 -1",
    "zrange z 0 -1 withscores limit -5 -1 rev",
    "zrange z 0 -1 limit 1 1",
    "zrangestore y z 0 1 limit 7 -1",
    "incrbyfloat f 0x10",
    "hincrbyfloat h f 0x10",
    "geoadd g 0x10 0x10 a",
    "blpop none 0x0.1",
    "zadd p -1 a -1e300 b 1e300 c -inf d inf e 1.5 f",
    "geopos p a b c d e f",
    "geohash p a b c d e f",
    "psubscribe * **",
    "publish  m",
    "publish c m",
    "ping",
    "reset",
    "acl setuser u on nopass ~** +@all",
    "acl dryrun u get ",
    "acl dryrun u get a",
    "flushall",
    "set  1",
    "keys *",
    "keys **",
    "scan 0 count 1000 match *",
];

/// Scores of -0. Redis drops the sign in a sorted set of few and short members.
const NEGATIVE_ZERO: &[&str] = &[
    "flushall",
    "zadd z -0 m 0 l",
    "zscore z m",
    "zmscore z l m",
    "zrange z 0 -1 withscores",
    "zincrby z -0 m",
    "zincrby z -0 new",
    "zadd z incr -0 other",
    "zadd z ch -0 l",
    "zadd z -1 d 2 e",
    "zincrby z 1 d",
    "zunion 1 z weights -1 withscores",
    "zunion 2 z z weights -1 1 withscores",
    "zinter 2 z z weights -1 -1 aggregate max withscores",
    "zunionstore y 1 z weights -1",
    "zrange y 0 -1 withscores",
    "zrangebyscore y -0 0 withscores",
    "zrangebyscore y (-0 1",
    "zcount y 0 -0",
    "zscan y 0",
    "zpopmin z",
];

#[test]
fn scores_of_negative_zero_are_those_of_redis() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| {});
    let mut client = server.client();
    for protocol in ["hello 2", "hello 3"] {
        for client in [&mut redis.client, &mut client] {
            client.call(protocol);
        }
        for line in NEGATIVE_ZERO {
            assert_eq!(client.call(line), redis.client.call(line), "{protocol}: {line}");
        }
    }
}

#[test]
fn odd_numbers_and_patterns_get_the_replies_of_redis() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| {});
    let mut client = server.client();
    for line in ODD {
        assert_eq!(client.call(line), redis.client.call(line), "{line}");
    }
}
