//! Random pipelines and transactions give the replies of a stock `redis-server`. Values are longer
//! than a page. Several databases are used and cleared while maintenance runs.
//!
//! `EBBTIDE_FUZZ_SECONDS=1800 cargo test -p ebbtide-server --test server differential` runs for
//! half an hour. `EBBTIDE_SEED` repeats a failed run.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use ebbtide_core::Span;
use ebbtide_core::durability::Policy;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, Server, encode, ok};
use super::redis::Redis;

/// The least number of commands of a test. With `EBBTIDE_FUZZ_SECONDS` it runs for that time.
const COMMANDS: usize = 3_000;

/// Longest wait for a reply.
const REPLY_WITHIN: Duration = Duration::from_secs(60);

/// Values of a key: up to two pages, so that transactions may change them, or longer.
#[derive(Clone, Copy)]
enum Kind {
    Short,
    Long,
}

type Command = Vec<Vec<u8>>;

/// Generator of random requests.
struct Maker {
    rng: Pcg64Mcg,
}

impl Maker {
    fn below(&mut self, most: usize) -> usize {
        self.rng.random_range(0..most)
    }

    fn key(&mut self, kind: Kind) -> Vec<u8> {
        match kind {
            Kind::Short => format!("short{}", self.below(8)).into_bytes(),
            Kind::Long => format!("long{}", self.below(4)).into_bytes(),
        }
    }

    fn value(&mut self, kind: Kind) -> Vec<u8> {
        let length = match (kind, self.below(4)) {
            (_, 0) => self.below(50),
            (Kind::Short, 1) => 4_090 + self.below(20),
            (Kind::Short, _) => self.below(6_000),
            (Kind::Long, 1) => 32_700 + self.below(10),
            (Kind::Long, _) => self.below(100_000),
        };
        let byte = b'a' + self.below(26) as u8;
        vec![byte; length]
    }

    /// Returns a command on keys of one kind.
    fn command(&mut self, kind: Kind) -> Command {
        let number = |number: usize| number.to_string().into_bytes();
        let word = |word: &str| word.as_bytes().to_vec();
        let (key, other) = (self.key(kind), self.key(kind));
        let at = self.below(5_000);
        match self.below(26) {
            0..5 => vec![word("set"), key, self.value(kind)],
            5 => vec![word("mset"), key, self.value(kind), other, self.value(kind)],
            6 => vec![word("msetnx"), key, self.value(kind), other, self.value(kind)],
            7 => vec![word("getset"), key, self.value(kind)],
            8 => vec![word("append"), key, vec![b'+'; at / 50]],
            9 => vec![word("setrange"), key, number(at), vec![b'-'; at / 50]],
            10 => vec![word("getdel"), key],
            11 => vec![word("del"), key, other],
            12 => vec![word("rename"), key, other],
            13 => vec![word("copy"), key, other, word("replace")],
            14 => vec![word("move"), key, number(self.below(4))],
            15 => vec![word("expire"), key, word(["-1", "100000"][at % 2])],
            16 => {
                vec![word("bitop"), word(["and", "or", "xor"][at % 3]), key, other, self.key(kind)]
            }
            17 => vec![word("setbit"), key, number(at * 8), number(at % 2)],
            18 => vec![word("bitcount"), key],
            19 => vec![word("getrange"), key, number(at), number(at * 2)],
            20 => vec![word("strlen"), key],
            21 => vec![word("exists"), key, other],
            22 => vec![word("dbsize")],
            23 => vec![word("mget"), key, other],
            24 => vec![word("getex"), key, word("persist")],
            _ => vec![word("get"), key],
        }
    }

    /// Returns requests to send at once.
    fn pipeline(&mut self) -> Vec<Command> {
        let word = |word: &str| vec![word.as_bytes().to_vec()];
        let select = |database: usize| vec![b"select".to_vec(), database.to_string().into_bytes()];
        let mut requests = Vec::new();
        for _ in 0..1 + self.below(6) {
            match self.below(12) {
                0 => requests.push(select(self.below(4))),
                1 => requests.push(word(["flushall", "flushdb"][self.below(2)])),
                2 => requests.push(vec![b"swapdb".to_vec(), b"0".to_vec(), b"2".to_vec()]),
                3..7 => {
                    requests.push(word("multi"));
                    for _ in 0..1 + self.below(6) {
                        if self.below(5) == 0 {
                            requests.push(select(self.below(4)));
                        }
                        requests.push(self.command(Kind::Short));
                    }
                    requests.push(word(if self.below(8) == 0 { "discard" } else { "exec" }));
                }
                7..9 => requests.push(self.command(Kind::Long)),
                _ => requests.push(self.command(Kind::Short)),
            }
        }
        requests
    }
}

/// Sends all requests at once. Returns the replies up to the first that is missing.
fn replies(client: &mut Client, requests: &[Command]) -> Vec<Reply> {
    let mut bytes = Vec::new();
    for request in requests {
        let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        bytes.extend(encode(&words));
    }
    let mut sender = client.other_end();
    std::thread::scope(|scope| {
        // A thread sends while replies are read. Otherwise both sides could block.
        scope.spawn(move || {
            let _ = std::io::Write::write_all(&mut sender, &bytes);
        });
        requests.iter().map_while(|_| client.reply()).collect()
    })
}

fn shown(request: &Command) -> String {
    request.iter().fold(String::new(), |mut text, word| {
        let word_text = String::from_utf8_lossy(&word[..word.len().min(20)]);
        let _ = write!(text, "{word_text}({}) ", word.len());
        text
    })
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn compare(durability: Policy, cores: usize) {
    let Some(mut redis) = Redis::start() else {
        eprintln!("there is no redis-server (Debian: redis-server): nothing to compare with");
        return;
    };
    let server = Server::start(|options| {
        options.durability = durability;
        options.cores = cores;
        options.dram_bytes = 24 << 20;
    });
    let mut ours = server.client();
    ours.other_end().set_read_timeout(Some(REPLY_WITHIN)).expect("a socket");
    let seed = setting("EBBTIDE_SEED").unwrap_or(1);
    let until = setting("EBBTIDE_FUZZ_SECONDS").map(|s| Instant::now() + Duration::from_secs(s));
    let mut maker = Maker { rng: Pcg64Mcg::seed_from_u64(seed) };
    let (mut commands, mut pipelines) = (0, 0);
    while commands < COMMANDS || until.is_some_and(|until| Instant::now() < until) {
        let requests = maker.pipeline();
        let expected = replies(&mut redis.client, &requests);
        let found = replies(&mut ours, &requests);
        assert_eq!(expected.len(), requests.len(), "Redis answers");
        for (at, expected) in expected.iter().enumerate() {
            let found = found.get(at);
            assert!(
                Some(expected) == found,
                "seed {seed}, pipeline {pipelines}, request {at} of\n  {}\n  Redis: {expected:.200?}\n  here: {found:.200?}",
                requests.iter().map(shown).collect::<Vec<_>>().join("\n  ")
            );
        }
        (commands, pipelines) = (commands + requests.len(), pipelines + 1);
    }
    println!("seed {seed}: {commands} commands in {pipelines} pipelines");
    assert_eq!(ours.call("flushall"), ok());
}

#[test]
fn pipelines_over_nothing_durable_give_the_replies_of_redis() {
    compare(Policy::None, 2);
}

#[test]
fn pipelines_over_a_log_give_the_replies_of_redis() {
    compare(Policy::Every(Span::from_us(100_000)), 1);
}
