//! Places have the scores, positions and distances of a stock `redis-server`.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::Redis;
use crate::client::{Client, Reply, Server, bulk};

/// Random commands on places of a part of the Earth.
struct Maker {
    rng: Pcg64Mcg,
}

impl Maker {
    fn below(&mut self, most: usize) -> usize {
        self.rng.random_range(0..most)
    }

    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn member(&mut self) -> String {
        format!("m{}", self.below(300))
    }

    fn place(&mut self) -> String {
        let (longitude, latitude) = match self.below(10) {
            0 => (self.rng.random_range(-181.0..181.0), self.rng.random_range(-86.0..86.0)),
            _ => (self.rng.random_range(-30.0..40.0), self.rng.random_range(-20.0..70.0)),
        };
        format!("{longitude:.6} {latitude:.6}")
    }

    fn search(&mut self) -> String {
        let from = match self.below(2) {
            0 => format!("fromlonlat {}", self.place()),
            _ => format!("frommember {}", self.member()),
        };
        let sizes = [self.below(1_500), self.below(1_500)];
        let unit = self.one_of(&["km", "mi", "KM"]);
        let area = match self.below(2) {
            0 => format!("byradius {} {unit}", sizes[0]),
            _ => format!("bybox {} {} {unit}", sizes[0], sizes[1]),
        };
        let count = self.one_of(&["", " count 5", " count 1", " count 0", " count x"]);
        // With a count the nearest come first.
        let orders = if count.is_empty() { &["asc", "desc"][..] } else { &["", "asc", "desc"] };
        format!("{from} {area} {}{count}", self.one_of(orders))
    }

    /// A command of the older form.
    fn radius(&mut self, key: &str) -> String {
        let (name, from) = match self.below(4) {
            0 => ("georadius", self.place()),
            1 => ("georadius_ro", self.place()),
            2 => ("georadiusbymember", self.member()),
            _ => ("georadiusbymember_ro", self.member()),
        };
        let size = format!("{} {}", self.below(1_500), self.one_of(&["km", "mi", "yd"]));
        let count = self.one_of(&["", " count 5", " count 1", " count 0", " any"]);
        let with = [
            "",
            " withdist",
            " withcoord withhash",
            " store to",
            " storedist to",
            " store other storedist to",
            " withdist store to",
            " byradius 1 km",
        ];
        format!(
            "{name} {key} {from} {size} {}{count}{}",
            self.one_of(&["asc", "desc"]),
            self.one_of(&with)
        )
    }

    fn command(&mut self) -> String {
        let key = self.one_of(&["a", "a", "a", "b", "none"]);
        match self.below(16) {
            0..4 => {
                let options = self.one_of(&["", "", "nx ", "xx ", "ch ", "xx ch ", "nx xx "]);
                let places: Vec<String> = (0..1 + self.below(6))
                    .map(|_| format!("{} {}", self.place(), self.member()))
                    .collect();
                format!("geoadd {key} {options}{}", places.join(" "))
            }
            4 => format!("geopos {key} {} {} none", self.member(), self.member()),
            5 => format!("geohash {key} {} none {}", self.member(), self.member()),
            6 => {
                let unit = self.one_of(&["", " m", " km", " ft", " MI", " yd"]);
                format!("geodist {key} {} {}{unit}", self.member(), self.member())
            }
            7..10 => {
                let with = self.one_of(&["", " withdist", " withcoord withhash withdist"]);
                format!("geosearch {key} {}{with}", self.search())
            }
            12.. => self.radius(key),
            10 => {
                let with = self.one_of(&["", " storedist", " withdist"]);
                format!("geosearchstore to {key} {}{with}", self.search())
            }
            _ => self.one_of(&["zrange to 0 -1 withscores", "zrange a 0 -1 withscores"]).into(),
        }
    }
}

#[test]
fn random_commands_give_the_replies_of_redis() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| {});
    let mut ours = server.client();
    let mut maker = Maker { rng: Pcg64Mcg::seed_from_u64(1) };
    for _ in 0..3_000 {
        let line = maker.command();
        assert_eq!(redis.client.call(&line), ours.call(&line), "{line}");
    }
}

#[test]
fn wrong_arguments_give_the_errors_of_redis() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| {});
    let mut ours = server.client();
    for line in [
        "geoadd a 13 38 p 15 37 q",
        "set text x",
        "geoadd a 1 2",
        "geoadd a 1 2 m 3",
        "geoadd a ch ch ch",
        "geoadd a x 2 m",
        "geoadd a 200 100 m",
        "geoadd text 1 2 m",
        "geodist a p q km x",
        "geodist text p q",
        "geodist a p",
        "geopos none p",
        "geopos a",
        "geohash text p",
        "geosearch a fromlonlat 15 37 byradius 200 km any asc",
        "geosearch a fromlonlat 15 37 byradius 200 yd asc",
        "georadius a 15 37 200 km any",
        "georadius a 15 37 -1 km",
        "georadius a 15 37 x km",
        "georadius a 200 37 1 km",
        "georadius text 15 37 1 km",
        "georadius a 15 37 1 km store",
        "georadius a 15 37 1 km frommember p",
        "georadius a 15 37 200 km store to",
        "georadius a 15 37 1 m store to",
        "exists to",
        "georadius_ro a 15 37 1 km store to",
        "georadiusbymember a none 1 km",
        "georadiusbymember none p x yd",
        "georadiusbymember none p x yd store to",
        "georadiusbymember_ro a p 1 km storedist to",
        "command getkeys georadius a 15 37 200 km storedist more",
        "command getkeys georadiusbymember a p 200 km asc",
        "geosearch a fromlonlat 15 37 byradius -1 km asc",
        "geosearch a fromlonlat 15 37 byradius x km asc",
        "geosearch a fromlonlat 15 37 bybox x 1 km asc",
        "geosearch a fromlonlat 15 37 bybox 1 x km asc",
        "geosearch a fromlonlat 15 37 bybox 1 -1 km asc",
        "geosearch a fromlonlat 15 37 byradius 1 km bybox 1 1 km",
        "geosearch a fromlonlat 15 37 frommember p byradius 1 km",
        "geosearch a frommember none byradius 1 km asc",
        "geosearch none frommember none byradius 1 km asc",
        "geosearch none frommember none byradius 1 km bogus",
        "geosearch a fromlonlat 15 37 asc withdist withhash",
        "geosearch a byradius 1 km asc withdist withhash",
        "geosearch a fromlonlat 15 37 byradius 1 km storedist",
        "geosearch text fromlonlat 15 37 byradius 1 km",
        "geosearch a fromlonlat 15 37 byradius 1 km count",
        "geosearchstore to a fromlonlat 15 37 byradius 100 km withcoord",
        "geosearchstore to a fromlonlat 15 37 byradius 100 km any",
        "geosearchstore to text fromlonlat 15 37 byradius 100 km",
        "geosearchstore text a fromlonlat 15 37 byradius 200 km",
        "geosearchstore text a fromlonlat 0 0 byradius 1 km",
        "geosearchstore text none fromlonlat 0 0 byradius 1 km",
        "zadd odd 1 small 1e300 large -5 negative",
        "geopos odd small",
        "hello 3",
        "geopos a p",
        "geodist a p q",
        "geosearch a frommember p byradius 500 km asc withcoord withdist",
    ] {
        let (expected, found) = (redis.client.call(line), ours.call(line));
        assert!(expected == found || line.starts_with("hello"), "{line}\n{expected:?}\n{found:?}");
    }
}

/// Members that a search in any order returns.
fn members(client: &mut Client, line: &str) -> Vec<String> {
    let Reply::Array(found) = client.call(line) else { panic!("no members: {line}") };
    let text = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("{other:?}"),
    };
    found.iter().map(text).collect()
}

#[test]
fn a_search_finds_what_is_near_across_the_antimeridian_and_at_the_poles() {
    let server = Server::start(|_| {});
    let mut client = server.client();
    client
        .call("geoadd a 179.9 0 east -179.9 0 west 0 0 far 10 85 north -170 85 beyond 180 0 edge");
    let near = |from: &str, area: &str| format!("geosearch a fromlonlat {from} {area} asc");
    let found = members(&mut client, &near("179.99 0", "byradius 100 km"));
    assert_eq!(found, ["edge", "east", "west"]);
    let found = members(&mut client, &near("-179.99 0", "bybox 100 100 km"));
    assert_eq!(found, ["edge", "west", "east"]);
    let found = members(&mut client, &near("10 85", "byradius 1200 km"));
    assert_eq!(found, ["north", "beyond"]);
    let found = members(&mut client, &near("10 85", "bybox 2300 1500 km"));
    assert_eq!(found, ["north", "beyond"]);
    let found = members(&mut client, &near("0 0", "byradius 30000 km"));
    assert_eq!(found.len(), 6);
}

#[test]
fn a_search_agrees_with_the_distances_of_all_members() {
    let server = Server::start(|_| {});
    let mut client = server.client();
    let mut maker = Maker { rng: Pcg64Mcg::seed_from_u64(2) };
    for member in 0..500 {
        let longitude = maker.rng.random_range(-180.0..180.0);
        let latitude = maker.rng.random_range(-85.0..85.0);
        client.call(&format!("geoadd a {longitude:.6} {latitude:.6} m{member}"));
    }
    for _ in 0..20 {
        let (from, radius) = (maker.below(500), maker.below(9_000));
        let search = format!("geosearch a frommember m{from} byradius {radius} km");
        let mut found = members(&mut client, &search);
        found.sort();
        let mut expected: Vec<String> = (0..500).map(|at| format!("m{at}")).collect();
        expected.retain(|member| {
            let line = format!("geodist a m{from} {member} km");
            let Reply::Bulk(distance) = client.call(&line) else { panic!("{line}") };
            let distance = String::from_utf8_lossy(&distance).parse::<f64>().expect("a number");
            distance <= radius as f64
        });
        expected.sort();
        assert_eq!(found, expected, "{search}");
        let any = members(&mut client, &format!("{search} count 3 any"));
        assert_eq!(any.len(), expected.len().min(3));
        assert!(any.iter().all(|member| expected.contains(member)));
    }
    assert_eq!(client.call("object encoding a"), bulk("skiplist"));
}
