//! A server that is killed keeps every acknowledged change of its hashes, sets, sorted sets and
//! lists, whole.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::{ebbtide, folder};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tempfile::TempDir;

/// Rounds of a server that is killed.
const ROUNDS: u64 = 5;

/// Names of fields and members. With all of them, a collection lies in trees.
const NAMES: u32 = 250;

/// The elements that the collections must have.
#[derive(Clone, Default, PartialEq, Debug)]
struct Model {
    hash: BTreeMap<String, String>,
    set: BTreeSet<String>,
    scores: BTreeMap<String, i64>,
    list: Vec<String>,
}

impl Model {
    /// Returns the next command, and applies it.
    fn step(&mut self, rng: &mut Pcg64Mcg, number: u64) -> String {
        let name = format!("name:{:06}", rng.random_range(0..NAMES));
        // Collections grow for a while and then shrink, so that they change their form.
        let grows = rng.random_bool(if (number / 600).is_multiple_of(2) { 0.8 } else { 0.2 });
        match (rng.random_range(0..4), grows) {
            (0, true) => {
                self.hash.insert(name.clone(), number.to_string());
                format!("HSET hash {name} {number}")
            }
            (0, false) => {
                self.hash.remove(&name);
                format!("HDEL hash {name}")
            }
            (1, true) => {
                self.set.insert(name.clone());
                format!("SADD set {name}")
            }
            (1, false) => {
                self.set.remove(&name);
                format!("SREM set {name}")
            }
            (2, true) => {
                self.scores.insert(name.clone(), number as i64 % 100);
                format!("ZADD scores {} {name}", number % 100)
            }
            (2, false) => {
                self.scores.remove(&name);
                format!("ZREM scores {name}")
            }
            (_, true) => {
                self.list.push(name.clone());
                format!("RPUSH list {name}")
            }
            (_, false) => {
                if !self.list.is_empty() {
                    self.list.remove(0);
                }
                "LPOP list".into()
            }
        }
    }
}

struct Server {
    process: Child,
    socket: TcpStream,
    replies: BufReader<TcpStream>,
    folder: TempDir,
}

impl Server {
    fn start(folder: TempDir) -> Server {
        let usual = ["serve", "--data", "store", "--dram", "16MiB", "--port", "0"];
        let mut process = ebbtide(folder.path(), &usual)
            .args(["--capacity", "64MiB", "--durability", "always"])
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        output.read_line(&mut line).expect("a line");
        let address = line.strip_prefix("ready on ").and_then(|rest| rest.split_once(": "));
        let socket = TcpStream::connect(address.expect("it says where it answers").0);
        let socket = socket.expect("a connection");
        let replies = BufReader::new(socket.try_clone().expect("a descriptor"));
        Server { process, socket, replies, folder }
    }

    fn ask(&mut self, request: &str) -> Vec<String> {
        self.socket.write_all(format!("{request}\r\n").as_bytes()).expect("sent");
        self.reply()
    }

    /// Returns the strings of a reply.
    fn reply(&mut self) -> Vec<String> {
        let mut line = String::new();
        self.replies.read_line(&mut line).expect("a reply");
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "*" => {
                let count = rest.parse::<i64>().expect("a number");
                (0..count).flat_map(|_| self.reply()).collect()
            }
            "$" if rest != "-1" => {
                let mut bytes = vec![0; rest.parse::<usize>().expect("a number") + 2];
                self.replies.read_exact(&mut bytes).expect("a reply");
                bytes.truncate(bytes.len() - 2);
                vec![String::from_utf8(bytes).expect("text")]
            }
            "-" => panic!("{line}"),
            _ => vec![rest.to_string()],
        }
    }

    fn found(&mut self) -> Model {
        let pairs = |flat: Vec<String>| -> Vec<(String, String)> {
            flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
        };
        let scores = pairs(self.ask("ZRANGE scores 0 -1 WITHSCORES"));
        let score = |(name, score): (String, String)| (name, score.parse().expect("a number"));
        Model {
            hash: pairs(self.ask("HGETALL hash")).into_iter().collect(),
            set: self.ask("SMEMBERS set").into_iter().collect(),
            scores: scores.into_iter().map(score).collect(),
            list: self.ask("LRANGE list 0 -1"),
        }
    }

    fn kill(mut self) -> TempDir {
        self.process.kill().expect("it runs");
        self.process.wait().expect("it ends");
        self.folder
    }
}

#[test]
fn a_killed_server_has_every_acknowledged_change_of_its_collections() {
    let mut rng = Pcg64Mcg::seed_from_u64(9);
    let (mut data, mut before, mut after) = (folder(), Model::default(), Model::default());
    let mut number = 0;
    for round in 0..=ROUNDS {
        let mut server = Server::start(data);
        let found = server.found();
        assert!(found == after || found == before, "round {round}, after {number} commands");
        after = found;
        let until = Instant::now() + Duration::from_millis(1_000 + 130 * round);
        while Instant::now() < until {
            let request = after.step(&mut rng, number);
            number += 1;
            server.ask(&request);
        }
        // The last request is under way when the server is killed.
        before = after.clone();
        let request = after.step(&mut rng, number);
        server.socket.write_all(format!("{request}\r\n").as_bytes()).expect("sent");
        data = server.kill();
    }
    assert!(number > 100, "hardly anything was written");
}
