//! The expiry of fields of hashes. No `redis-server` of version 7.0 has it. The replies are those
//! of the documentation of Redis 7.4 and 8.0.

use std::time::Duration;

use ebbtide_core::Span;
use ebbtide_core::durability::Policy;

use super::client::{Client, Reply, Server, bulk, encode, now_ms, ok};

/// Numbers of fields besides those under test: the hash is packed, or in trees.
const OTHERS: [usize; 2] = [3, 3_000];

fn numbers(numbers: &[i64]) -> Reply {
    Reply::Array(numbers.iter().map(|number| Reply::Integer(*number)).collect())
}

fn values(values: &[Option<&str>]) -> Reply {
    Reply::Array(values.iter().map(|value| value.map_or(Reply::Null, bulk)).collect())
}

/// Starts a server with a hash `h` that has `others` fields.
fn server(others: usize) -> (Server, Client) {
    let server = Server::start(|options| {
        options.durability = Policy::Every(Span::from_us(100_000));
    });
    let mut client = server.client();
    for number in 0..others {
        client.send(&encode(&[b"hset", b"h", format!("other{number}").as_bytes(), b"value"]));
    }
    for _ in 0..others {
        assert_eq!(client.reply(), Some(Reply::Integer(1)));
    }
    (server, client)
}

/// Milliseconds or seconds that are left, which passing time makes smaller.
fn about(reply: Reply, most: i64) {
    let Reply::Array(parts) = reply else { panic!("{reply:?}") };
    let [Reply::Integer(left)] = parts[..] else { panic!("{parts:?}") };
    assert!((most * 9 / 10..=most).contains(&left), "{left} of {most}");
}

#[test]
fn the_expiry_of_fields_is_set_told_and_removed() {
    for others in OTHERS {
        let (_server, mut client) = server(others);
        client.call("hset h a 1 b 2 c 3");
        assert_eq!(client.call("hexpire h 1000 fields 2 a none"), numbers(&[1, -2]));
        about(client.call("httl h fields 1 a"), 1_000);
        about(client.call("hpttl h fields 1 a"), 1_000_000);
        assert_eq!(client.call("httl h fields 3 b none other1"), numbers(&[-1, -2, -1]));
        // Conditions.
        assert_eq!(client.call("hexpire h 2000 nx fields 2 a b"), numbers(&[0, 1]));
        assert_eq!(client.call("hexpire h 500 gt fields 2 a c"), numbers(&[0, 0]));
        assert_eq!(client.call("hexpire h 500 lt fields 2 a c"), numbers(&[1, 1]));
        assert_eq!(client.call("hexpire h 700 xx fields 2 a other1"), numbers(&[1, 0]));
        about(client.call("httl h fields 1 a"), 700);
        let at = now_ms() as i64 / 1000 + 5_000;
        assert_eq!(client.call(&format!("hexpireat h {at} fields 1 b")), numbers(&[1]));
        assert_eq!(client.call("hexpiretime h fields 1 b"), numbers(&[at]));
        assert_eq!(client.call("hpexpiretime h fields 1 b"), numbers(&[at * 1000]));
        assert_eq!(client.call("hpersist h fields 3 b other1 none"), numbers(&[1, -1, -2]));
        assert_eq!(client.call("httl h fields 1 b"), numbers(&[-1]));
        // HINCRBY keeps the expiry, HSET removes it.
        assert_eq!(client.call("hincrby h a 5"), Reply::Integer(6));
        assert_eq!(client.call("hincrbyfloat h a 0.5"), bulk("6.5"));
        about(client.call("httl h fields 1 a"), 700);
        client.call("hset h a 1");
        assert_eq!(client.call("httl h fields 1 a"), numbers(&[-1]));
        // A time that has passed removes the field.
        assert_eq!(client.call("hexpire h 0 fields 1 a"), numbers(&[2]));
        assert_eq!(client.call("hpexpireat h 1 fields 1 b"), numbers(&[2]));
        assert_eq!(client.call("hlen h"), Reply::Integer(others as i64 + 1));
        assert_eq!(client.call("httl none fields 2 a b"), numbers(&[-2, -2]));
        assert_eq!(client.call("hexpire none 10 fields 1 a"), numbers(&[-2]));
        assert_eq!(client.call("exists none"), Reply::Integer(0));
    }
}

#[test]
fn a_field_that_has_expired_is_gone_for_every_command() {
    for others in OTHERS {
        let (_server, mut client) = server(others);
        client.call("hset h a 1 b 2 c 3");
        assert_eq!(client.call("hpexpire h 30 fields 2 a b"), numbers(&[1, 1]));
        std::thread::sleep(Duration::from_millis(40));
        let others = others as i64;
        assert_eq!(client.call("hget h a"), Reply::Null);
        assert_eq!(client.call("hmget h a c b"), values(&[None, Some("3"), None]));
        assert_eq!(client.call("hexists h b"), Reply::Integer(0));
        assert_eq!(client.call("hstrlen h b"), Reply::Integer(0));
        assert_eq!(client.call("hlen h"), Reply::Integer(others + 1));
        for (line, parts) in [("hkeys h", 1), ("hvals h", 1), ("hgetall h", 2)] {
            let Reply::Array(all) = client.call(line) else { panic!("{line}") };
            assert_eq!(all.len() as i64, (others + 1) * parts, "{line}");
        }
        let Reply::Array(all) = client.call("hrandfield h 100000") else { panic!("fields") };
        assert_eq!(all.len() as i64, others + 1);
        let Reply::Array(some) = client.call("hrandfield h 3") else { panic!("fields") };
        assert!(some.len() == 3 && !some.contains(&bulk("a")) && !some.contains(&bulk("b")));
        let Reply::Array(scanned) = client.call("hscan h 0 count 100000") else { panic!("a scan") };
        let Reply::Array(fields) = &scanned[1] else { panic!("fields") };
        assert_eq!(fields.len() as i64, (others + 1) * 2);
        assert_eq!(client.call("hpersist h fields 1 a"), numbers(&[-2]));
        assert_eq!(client.call("hdel h a"), Reply::Integer(0));
        assert_eq!(client.call("hsetnx h b new"), Reply::Integer(1));
        assert_eq!(client.call("hincrby h a 4"), Reply::Integer(4));
        assert_eq!(client.call("hlen h"), Reply::Integer(others + 3));
        assert_eq!(client.call("httl h fields 2 a b"), numbers(&[-1, -1]));
    }
}

/// Waits for upkeep.
fn wait_until(mut done: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(120);
    while !done() {
        assert!(std::time::Instant::now() < end, "it never happens");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the number of the key in the lines of `INFO`.
fn information(client: &mut Client, name: &str) -> u64 {
    let Reply::Bulk(text) = client.call("info stats") else { panic!("a text") };
    let text = String::from_utf8(text).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("a line").parse().expect("a number")
}

#[test]
fn upkeep_removes_fields_that_have_expired_and_hashes_that_are_empty() {
    let (_server, mut client) = server(0);
    // No command touches these hashes after this.
    for (name, fields) in [("small", 3), ("tree", 500), ("part", 400)] {
        for number in 0..fields {
            let line = format!("hsetex {name} px 1000 fields 1 field{number} value{number}");
            client.send(&encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
        }
        for _ in 0..fields {
            assert_eq!(client.reply(), Some(Reply::Integer(1)));
        }
    }
    client.call("hset part stays 1");
    wait_until(|| client.call("dbsize") == Reply::Integer(1));
    wait_until(|| client.call("object encoding part") == bulk("listpack"));
    assert_eq!(client.call("keys *"), Reply::Array(vec![bulk("part")]));
    assert_eq!(client.call("hgetall part"), Reply::Array(vec![bulk("stays"), bulk("1")]));
    let before = information(&mut client, "expired_subkeys");
    client.call("hset few a 1 b 2");
    client.call("hpexpire few 1 fields 1 a");
    wait_until(|| information(&mut client, "expired_subkeys") > before);
    assert_eq!(client.call("dbsize"), Reply::Integer(2));
}

#[test]
fn a_hash_of_expired_fields_is_gone_before_upkeep_comes() {
    let (_server, mut client) = server(0);
    for fields in [3, 2_000] {
        for number in 0..fields {
            client.send(&encode(&[b"hset", b"h", format!("f{number}").as_bytes(), b"value"]));
            client.reply();
        }
        // Within a transaction no upkeep comes between the commands.
        client.call("multi");
        let names = (0..fields).map(|number| format!(" f{number}")).collect::<String>();
        client.call(&format!("hpexpireat h {} fields {fields}{names}", now_ms() + 100));
        client.call("exec");
        std::thread::sleep(Duration::from_millis(110));
        client.call("multi");
        for line in ["exists h", "type h", "del h", "scan 0"] {
            client.call(line);
        }
        let Reply::Array(replies) = client.call("exec") else { panic!("replies") };
        assert_eq!(replies[..2], [Reply::Integer(0), Reply::Status("none".into())]);
        assert_eq!(replies[2], Reply::Integer(0));
    }
}

#[test]
fn a_hash_without_fields_is_gone() {
    let (_server, mut client) = server(0);
    client.call("hset h a 1 b 2");
    client.call("hpexpire h 20 fields 2 a b");
    std::thread::sleep(Duration::from_millis(30));
    assert_eq!(client.call("exists h"), Reply::Integer(0));
    assert_eq!(client.call("type h"), Reply::Status("none".into()));
    assert_eq!(client.call("set h text nx"), ok(), "another kind may take its place");
    client.call("del h");
    client.call("hset h a 1");
    assert_eq!(client.call("hexpire h 0 fields 1 a"), numbers(&[2]));
    assert_eq!(client.call("dbsize"), Reply::Integer(0));
}

#[test]
fn fields_are_set_and_read_together_with_their_expiry() {
    for others in OTHERS {
        let (_server, mut client) = server(others);
        assert_eq!(client.call("hsetex h ex 100 fields 2 a 1 b 2"), Reply::Integer(1));
        about(client.call("httl h fields 1 b"), 100);
        assert_eq!(client.call("hsetex h fnx fields 2 a 5 c 6"), Reply::Integer(0));
        assert_eq!(client.call("hsetex h fxx fields 2 a 5 c 6"), Reply::Integer(0));
        assert_eq!(client.call("hsetex h fxx keepttl fields 1 a 5"), Reply::Integer(1));
        about(client.call("httl h fields 1 a"), 100);
        assert_eq!(client.call("hsetex h fields 1 a 7"), Reply::Integer(1));
        assert_eq!(client.call("httl h fields 1 a"), numbers(&[-1]));
        assert_eq!(client.call("hgetex h px 50000 fields 2 a none"), values(&[Some("7"), None]));
        about(client.call("hpttl h fields 1 a"), 50_000);
        assert_eq!(client.call("hgetex h persist fields 1 a"), values(&[Some("7")]));
        assert_eq!(client.call("httl h fields 1 a"), numbers(&[-1]));
        assert_eq!(client.call("hgetex h fields 1 b"), values(&[Some("2")]));
        about(client.call("httl h fields 1 b"), 100);
        let got = client.call("hgetdel h fields 3 a b none");
        assert_eq!(got, values(&[Some("7"), Some("2"), None]));
        assert_eq!(client.call("hlen h"), Reply::Integer(others as i64));
        assert_eq!(client.call("hsetex h exat 1 fields 1 other1 x"), Reply::Integer(1));
        assert_eq!(client.call("hexists h other1"), Reply::Integer(0));
        assert_eq!(client.call("hgetex none ex 10 fields 1 a"), values(&[None]));
        assert_eq!(client.call("hgetdel none fields 1 a"), values(&[None]));
        assert_eq!(client.call("exists none"), Reply::Integer(0));
    }
}

#[test]
fn copies_dumps_and_restarts_keep_the_expiry_of_fields() {
    for others in OTHERS {
        let (_server, mut client) = server(others);
        let long = vec![b'v'; 50_000];
        client.command(&[b"hset", b"h", b"long", &long, b"a", b"1"]);
        client.call("hexpire h 90000000 fields 1 a");
        client.call("hexpire h 1000 fields 1 long");
        client.call("hset h gone 1");
        client.call("hpexpire h 1 fields 1 gone");
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(client.call("copy h copied"), Reply::Integer(1));
        let Reply::Bulk(dump) = client.call("dump h") else { panic!("a dump") };
        assert_eq!(client.command(&[b"restore", b"restored", b"0", &dump]), ok());
        client.call("rename copied renamed");
        let keeps = |client: &mut Client, key: &str| {
            assert_eq!(client.call(&format!("hlen {key}")), Reply::Integer(others as i64 + 2));
            about(client.call(&format!("httl {key} fields 1 a")), 90_000_000);
            about(client.call(&format!("httl {key} fields 1 long")), 1_000);
            assert_eq!(client.call(&format!("httl {key} fields 1 other0")), numbers(&[-1]));
            assert_eq!(client.call(&format!("hstrlen {key} long")), Reply::Integer(50_000));
        };
        for key in ["h", "renamed", "restored"] {
            keeps(&mut client, key);
        }
        client.call("del h restored");
        keeps(&mut client, "renamed");
    }
}

#[test]
fn bad_arguments_are_refused_as_in_redis() {
    let (_server, mut client) = server(3);
    client.call("set text x");
    let fields = "ERR Mandatory argument FIELDS is missing or not at the right position";
    let count = "ERR The `numfields` parameter must match the number of arguments";
    for (line, error) in [
        ("hexpire h -1 fields 1 a", "ERR invalid expire time, must be >= 0"),
        ("hexpire h x fields 1 a", "ERR value is not an integer or out of range"),
        (
            "hexpire h 9223372036854775807 fields 1 a",
            "ERR invalid expire time in 'hexpire' command",
        ),
        ("hexpire h 10 field 1 a", fields),
        ("hexpire h 10 nx 1 a b", fields),
        ("hexpire h 10 fields 2 a", count),
        ("hexpire h 10 fields 0 a", "ERR Parameter `numFields` should be greater than 0"),
        ("httl h fields 0 a", "ERR Number of fields must be a positive integer"),
        ("httl h a 1 b", fields),
        ("hpersist h fields 2 a", count),
        ("hgetdel h fields 2 a", count),
        ("hsetex h ex 0 fields 1 a 1", "ERR invalid expire time in 'hsetex' command"),
        ("hsetex h fields 1 a b c", count),
        ("hsetex h fnx fxx fields 1 a b", "ERR syntax error"),
        (
            "hexpire text 10 fields 1 a",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
        (
            "httl text fields 1 a",
            "WRONGTYPE Operation against a key holding the wrong kind of value",
        ),
    ] {
        assert_eq!(client.call(line), Reply::Error(error.into()), "{line}");
    }
}
