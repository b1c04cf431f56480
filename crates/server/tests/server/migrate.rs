//! `MIGRATE` moves keys of every kind to another server of this kind, and to a stock
//! `redis-server`.

use ebbtide_core::Span;
use ebbtide_core::durability::Policy;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, Server, bulk, ok};
use super::redis::Redis;

fn server() -> Server {
    Server::start(|options| {
        options.durability = Policy::Every(Span::from_us(100_000));
        options.capacity_bytes = Some(128 << 20);
        options.dram_bytes = 32 << 20;
    })
}

fn error(text: &str) -> Reply {
    Reply::Error(text.into())
}

/// A value that Redis cannot compress.
fn bytes(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Pcg64Mcg::seed_from_u64(length as u64).fill_bytes(&mut bytes);
    bytes
}

/// Reads everything of a key, in an order that does not depend on the server.
pub(crate) fn read(client: &mut Client, key: &str) -> String {
    let Reply::Status(kind) = client.call(&format!("type {key}")) else { panic!("a kind") };
    let reply = match kind.as_str() {
        "hash" => client.call(&format!("hgetall {key}")),
        "set" => client.call(&format!("smembers {key}")),
        "zset" => client.call(&format!("zrange {key} 0 -1 withscores")),
        "list" => client.call(&format!("lrange {key} 0 -1")),
        "stream" => {
            let parts = ["xrange KEY - +", "xpending KEY g", "xinfo groups KEY"];
            Reply::Array(parts.map(|line| client.call(&line.replace("KEY", key))).to_vec())
        }
        _ => client.call(&format!("get {key}")),
    };
    let Reply::Array(parts) = reply else { return format!("{kind} {reply:?}") };
    let width = if kind == "hash" { 2 } else { 1 };
    let mut parts: Vec<String> = parts.chunks(width).map(|part| format!("{part:?}")).collect();
    if ["hash", "set"].contains(&kind.as_str()) {
        parts.sort();
    }
    format!("{kind} {parts:?}")
}

/// Makes keys of all kinds. Returns their names.
fn fill(client: &mut Client) -> Vec<&'static str> {
    for (key, length) in [("short", 10), ("pages", 9_000), ("long", 300_000), ("longer", 3_000_000)]
    {
        assert_eq!(client.command(&[b"set", key.as_bytes(), &bytes(length)]), ok());
    }
    client.call("set number -4000 px 100000");
    client.call("hset hash a 1 b text");
    client.call("sadd set 1 2 three");
    client.call("zadd zset 1 a 2.5 b -inf c");
    client.call("rpush list a b 70000");
    let many = |client: &mut Client, start: &str, element: fn(usize) -> String| {
        let elements: Vec<String> = (0..1_000).map(element).collect();
        client.call(&format!("{start} {}", elements.join(" ")));
    };
    for number in 1..=250 {
        client.call(&format!("xadd stream {number} f v{number}"));
    }
    client.call("xgroup create stream g 0");
    client.call("xreadgroup group g c count 120 streams stream >");
    many(client, "hset hashes", |number| format!("field{number} {number}"));
    many(client, "sadd sets", |number| format!("member{number}"));
    many(client, "zadd zsets", |number| format!("{number} member{number}"));
    many(client, "rpush lists", |number| format!("value{number}"));
    vec![
        "short", "pages", "long", "longer", "number", "hash", "set", "zset", "list", "stream",
        "hashes", "sets", "zsets", "lists",
    ]
}

/// Moves all keys one by one, and then back in one command.
fn round_trip(ours: &mut Client, our_port: u16, theirs: &mut Client, their_port: u16, back: bool) {
    let names = fill(ours);
    let before: Vec<String> = names.iter().map(|name| read(ours, name)).collect();
    for name in &names {
        let line = format!("migrate 127.0.0.1 {their_port} {name} 0 10000");
        assert_eq!(ours.call(&line), ok(), "{name}");
    }
    assert_eq!(ours.call("dbsize"), Reply::Integer(0));
    for (name, before) in names.iter().zip(&before) {
        assert!(read(theirs, name) == *before, "{name}");
    }
    let Reply::Integer(left) = theirs.call("pttl number") else { panic!("a time") };
    assert!((50_000..=100_000).contains(&left), "{left}");
    if back {
        let all = names.join(" ");
        let line = format!("migrate localhost {our_port}  0 10000 keys none {all}");
        assert_eq!(theirs.call(&line), ok());
        assert_eq!(theirs.call("dbsize"), Reply::Integer(0));
        for (name, before) in names.iter().zip(&before) {
            assert!(read(ours, name) == *before, "{name}");
        }
    }
}

#[test]
fn keys_of_all_kinds_move_to_another_server_and_back() {
    let (one, other) = (server(), server());
    let ports = (one.address.port(), other.address.port());
    round_trip(&mut one.client(), ports.0, &mut other.client(), ports.1, true);
}

#[test]
fn keys_of_all_kinds_move_to_redis_and_back() {
    let Some(mut redis) = Redis::start() else { return };
    let ours = server();
    let port = redis.client.other_end().peer_addr().expect("an address").port();
    round_trip(&mut ours.client(), ours.address.port(), &mut redis.client, port, true);
}

#[test]
fn options_and_errors_of_migrate_are_those_of_redis() {
    let one = server();
    let other = Server::start(|options| options.password = Some("secret".into()));
    let (mut ours, mut theirs) = (one.client(), other.client());
    assert_eq!(theirs.call("auth secret"), ok());
    let port = other.address.port();
    let to = |rest: &str| format!("migrate 127.0.0.1 {port} {rest}");
    ours.call("set k ours");
    assert_eq!(ours.call(&to("none 0 1000")), Reply::Status("NOKEY".into()));
    let refused = "ERR Target instance replied with error: NOAUTH Authentication required.";
    assert_eq!(ours.call(&to("k 0 1000")), error(refused));
    let Reply::Error(text) = ours.call(&to("k 0 1000 auth wrong")) else { panic!("refused") };
    assert!(text.starts_with("ERR Target instance replied with error: WRONGPASS"), "{text}");
    assert_eq!(ours.call(&to("k 3 1000 copy auth secret")), ok());
    assert_eq!(ours.call("get k"), bulk("ours"), "it is a copy");
    theirs.call("select 3");
    assert_eq!(theirs.call("get k"), bulk("ours"));
    theirs.call("set k theirs");
    let taken =
        error("ERR Target instance replied with error: BUSYKEY Target key name already exists.");
    assert_eq!(ours.call(&to("k 3 1000 auth secret")), taken);
    assert_eq!(ours.call("get k"), bulk("ours"), "it was not moved");
    assert_eq!(ours.call(&to("k 3 1000 replace auth2 default secret")), ok());
    assert_eq!(ours.call("get k"), Reply::Null);
    assert_eq!(theirs.call("get k"), bulk("ours"));
    // A key that cannot move stays, and the others move.
    ours.call("mset k 1 m 2");
    assert_eq!(ours.call(&to(" 3 1000 auth secret keys k m")), taken);
    assert_eq!(ours.call("mget k m"), Reply::Array(vec![bulk("1"), Reply::Null]));
    assert_eq!(theirs.call("mget k m"), Reply::Array(vec![bulk("ours"), bulk("2")]));
    // Nobody listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let nowhere = format!("migrate 127.0.0.1 {port} k 0 500");
    assert_eq!(ours.call(&nowhere), error("IOERR error or timeout connecting to the client"));
    // One that listens and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let unheard = format!("migrate 127.0.0.1 {port} k 0 300");
    assert_eq!(ours.call(&unheard), error("IOERR error or timeout reading from target instance"));
    assert_eq!(ours.call("get k"), bulk("1"));
    for (line, text) in [
        ("migrate 127.0.0.1 1 k 0 100 sometimes", "ERR syntax error"),
        ("migrate 127.0.0.1 1 k 0 100 auth", "ERR syntax error"),
        ("migrate 127.0.0.1 1 k x 100", "ERR value is not an integer or out of range"),
        (
            "migrate 127.0.0.1 1 k 0 100 keys a b",
            "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
        ),
    ] {
        assert_eq!(ours.call(line), error(text), "{line}");
    }
    assert_eq!(ours.call("command getkeys migrate h 1 k 0 1"), Reply::Array(vec![bulk("k")]));
    let several = ours.call("command getkeys migrate h 1  0 1 auth keys keys a b");
    assert_eq!(several, Reply::Array(vec![bulk("a"), bulk("b")]));
}

#[test]
#[ignore = "slow"]
fn other_commands_run_while_keys_move() {
    let one = server();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let (mut mover, mut other) = (one.client(), one.client());
    other.call("mset k 1 m 2");
    mover.send(&super::client::encode(&[
        b"migrate",
        b"127.0.0.1",
        port.to_string().as_bytes(),
        b"k",
        b"0",
        b"20000",
    ]));
    let (stream, _) = silent.accept().expect("it connects");
    assert_eq!(other.call("mget k m"), Reply::Array(vec![bulk("1"), bulk("2")]));
    assert_eq!(other.call("set m 3"), ok());
    drop(stream);
    let gone = mover.reply().expect("a reply");
    assert!(matches!(gone, Reply::Error(text) if text.starts_with("IOERR")));
    assert_eq!(other.call("set k 4"), ok());
}
