//! `SORT` gives the replies of a stock `redis-server`.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Redis;
use crate::client::{Client, Reply, Server};

/// Random commands that sort, and changes of what they sort.
struct Maker {
    rng: Pcg64Mcg,
}

impl Maker {
    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.rng.random_range(0..words.len())]
    }

    fn value(&mut self) -> String {
        match self.rng.random_range(0..30) {
            0 => "x".into(),
            1 => "-inf".into(),
            2 => "1e9".into(),
            3 => "2.5".into(),
            _ => self.rng.random_range(-40..40).to_string(),
        }
    }

    fn change(&mut self) -> String {
        let (value, number) = (self.value(), self.rng.random_range(-40..40));
        match self.rng.random_range(0..9) {
            0 => format!("rpush list {number}"),
            1 => format!("rpush mixed {value}"),
            2 => format!("sadd set {number}"),
            3 => format!("zadd sorted {} {number}", self.rng.random_range(-9..9)),
            4 => format!("set w_{number} {}", self.rng.random_range(0..5)),
            5 => format!("set odd_{number}_s {value}"),
            6 => format!("hset h_{number} f {} g {value}", self.rng.random_range(0..5)),
            7 => format!("del w_{number}"),
            _ => self.one_of(&["lrange to 0 -1", "lpop mixed", "del set", "type to"]).into(),
        }
    }

    fn sort(&mut self) -> String {
        let name = self.one_of(&["sort", "sort", "sort", "sort_ro"]);
        let key = self.one_of(&["list", "list", "mixed", "set", "sorted", "w_1", "none"]);
        let mut words = vec![name.to_string(), key.to_string()];
        // Scores that are equal leave the order of elements open if these are compared as texts.
        let by = ["by w_*", "by h_*->f", "by odd_*_s", "by w_*->f", "by none_*", "by h_*->"];
        for (chance, options) in [
            (0.5, &by[..]),
            (0.2, &["by nosort"][..]),
            (0.5, &["asc", "desc"][..]),
            (0.3, &["limit 0 5", "limit 3 4", "limit -1 2", "limit 2 -1", "limit 90 9"][..]),
            (0.3, &["get #", "get w_*", "get h_*->g", "get # get h_*->f", "get x"][..]),
            (0.2, &["store to", "store list2 store to"][..]),
            (0.02, &["limit 1", "bogus"][..]),
        ] {
            if self.rng.random_bool(chance) {
                words.push(self.one_of(options).to_string());
            }
        }
        let keeps_order = words.iter().any(|word| word == "by nosort");
        let by_value = words.iter().any(|word| word.starts_with("by "));
        if !by_value && self.rng.random_bool(0.4) {
            words.push("alpha".into());
        }
        // Sets have no order of their own.
        if keeps_order && key == "set" {
            words.push("store to".into());
        }
        words.join(" ")
    }
}

fn compare(hello: &str) {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| ());
    let mut ours = server.client();
    let mut maker = Maker { rng: Pcg64Mcg::seed_from_u64(1) };
    redis.client.call(hello);
    ours.call(hello);
    for _ in 0..4_000 {
        let line = if maker.rng.random_bool(0.5) { maker.change() } else { maker.sort() };
        assert_eq!(redis.client.call(&line), ours.call(&line), "{line}");
    }
    for line in ["command getkeys sort a store b store c", "command getkeys sort_ro a by w_*"] {
        assert_eq!(redis.client.call(line), ours.call(line), "{line}");
    }
}

#[test]
fn sorted_elements_are_those_of_redis() {
    compare("hello 2");
}

#[test]
fn sorted_elements_in_resp3_are_those_of_redis() {
    compare("hello 3");
}

/// Runs lines within `MULTI` and `EXEC`.
fn exec(client: &mut Client, lines: &[&str]) -> Reply {
    client.call("multi");
    lines.iter().for_each(|line| drop(client.call(line)));
    client.call("exec")
}

#[test]
fn sort_in_transactions_and_scripts_reads_keys_that_are_not_declared() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| ());
    let mut ours = server.client();
    for client in [&mut redis.client, &mut ours] {
        client.call("sadd s 3 1 2 10");
        client.call("mset w_1 9 w_2 8 w_3 7 w_10 6");
    }
    for lines in [
        &[
            "sort s by w_* get w_*",
            "sort s by nosort store to",
            "sort s desc store to",
            "lrange to 0 -1",
        ],
        &["sort s by w_* store to", "lrange to 0 -1", "sort none store to", "exists to"],
    ] {
        assert_eq!(exec(&mut redis.client, lines), exec(&mut ours, lines), "{lines:?}");
    }
    for body in [
        "return redis.call('sort', KEYS[1], 'by', 'w_*', 'get', '#', 'get', 'w_*')",
        "return redis.call('sort', KEYS[1], 'by', 'nosort')",
        "return redis.call('sort_ro', KEYS[1], 'alpha', 'desc')",
    ] {
        let words: [&[u8]; 4] = [b"eval", body.as_bytes(), b"1", b"s"];
        assert_eq!(redis.client.command(&words), ours.command(&words), "{body}");
    }
}

#[test]
fn long_collections_are_sorted_in_steps_and_stored() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    let numbers: Vec<String> =
        (0..4_000).map(|number| (number * 7919 % 4_000).to_string()).collect();
    for part in numbers.chunks(200) {
        client.call(&format!("rpush long {}", part.join(" ")));
    }
    assert_eq!(client.call("sort long store sorted"), Reply::Integer(4_000));
    for index in [0, 1, 2_999, 3_999] {
        let expected = Reply::Bulk(index.to_string().into_bytes());
        assert_eq!(client.call(&format!("lindex sorted {index}")), expected);
    }
    let Reply::Array(all) = client.call("sort_ro long desc limit 0 3000") else {
        panic!("no array")
    };
    assert_eq!((all.len(), &all[0]), (3_000, &Reply::Bulk(b"3999".to_vec())));
}
