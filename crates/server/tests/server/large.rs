//! Values that never lie in DRAM as a whole behave as other values do, in every state of a
//! connection.

use std::io::Write;

use ebbtide_core::durability::Policy;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, Server, bulk, ok};

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut bytes = vec![0; length];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn durable(options: &mut ebbtide_server::ServeOptions) {
    options.durability = "every:1s".parse().expect("a policy");
    options.capacity_bytes = Some(128 << 20);
}

/// Asserts that a reply is `expected`, without printing it.
fn check(found: Option<Reply>, expected: &[u8]) {
    match found {
        Some(Reply::Bulk(found)) if found == expected => {}
        Some(Reply::Bulk(found)) => {
            let at = found.iter().zip(expected).position(|(a, b)| a != b);
            panic!("{} bytes for {}, other from {at:?} on", found.len(), expected.len())
        }
        other => panic!("{other:?}"),
    }
}

fn get(client: &mut Client, key: &str, expected: &[u8]) {
    check(Some(client.call(&format!("get {key}"))), expected);
}

#[test]
fn a_value_larger_than_the_cache_is_set_and_got() {
    for policy in [Policy::None, "every:1s".parse().expect("a policy")] {
        let server = Server::start(|options| {
            options.capacity_bytes = Some(128 << 20);
            options.durability = policy;
        });
        let mut client = server.client();
        for length in [32_704, 32_705, 1 << 20, 20 << 20] {
            let value = bytes(length as u64, length);
            assert_eq!(client.command(&[b"set", b"k", &value]), ok(), "{length} bytes");
            assert_eq!(client.call("strlen k"), Reply::Integer(length as i64));
            get(&mut client, "k", &value);
        }
        // The pages of replaced values are freed.
        let value = bytes(9, 20 << 20);
        for _ in 0..6 {
            while client.command(&[b"set", b"k", &value]) != ok() {}
        }
        get(&mut client, "k", &value);
    }
}

#[test]
fn commands_on_parts_of_large_values_do_what_they_do_to_small_ones() {
    let server = Server::start(durable);
    let mut client = server.client();
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    let mut value = bytes(1, 300_000);
    client.command(&[b"set", b"k", &value]);
    for step in 0..120 {
        let length = value.len() as u64;
        let size = [1, 100, 20_000, 70_000][rng.random_range(0..4)];
        let offset = rng.random_range(0..length + if step % 5 == 0 { 90_000 } else { 1 });
        let text = offset.to_string();
        match rng.random_range(0..7) {
            0 | 1 => {
                let part = bytes(step, size);
                let end = offset as usize + size;
                value.resize(value.len().max(end), 0);
                value[offset as usize..end].copy_from_slice(&part);
                let written = client.command(&[b"setrange", b"k", text.as_bytes(), &part]);
                assert_eq!(written, Reply::Integer(value.len() as i64));
            }
            2 => {
                let part = bytes(step, size);
                value.extend_from_slice(&part);
                let written = client.command(&[b"append", b"k", &part]);
                assert_eq!(written, Reply::Integer(value.len() as i64));
            }
            3 => {
                value.resize(value.len().max(offset as usize + 1), 0);
                let old = value[offset as usize] >> 4 & 1;
                value[offset as usize] |= 16;
                let set = client.call(&format!("setbit k {} 1", offset * 8 + 3));
                assert_eq!(set, Reply::Integer(old.into()));
            }
            4 => {
                let end = (offset as usize + size).min(value.len());
                let part = value.get(offset as usize..end).unwrap_or_default().to_vec();
                let got =
                    client.call(&format!("getrange k {offset} {}", offset as usize + size - 1));
                check(Some(got), &part);
            }
            5 => {
                let end = (offset as usize + size).min(value.len());
                let part = value.get(offset as usize..end).unwrap_or_default();
                let ones: u32 = part.iter().map(|byte| byte.count_ones()).sum();
                let last = offset as usize + size - 1;
                let counted = client.call(&format!("bitcount k {offset} {last}"));
                assert_eq!(counted, Reply::Integer(ones.into()), "{offset} {last}");
            }
            _ => {
                value.resize(value.len().max(offset as usize + 2), 0);
                let at = offset as usize;
                let number = i64::from(i16::from_be_bytes([value[at], value[at + 1]]));
                value[at..at + 2].copy_from_slice(&7i16.to_be_bytes());
                let set = client.call(&format!("bitfield k set i16 {} 7", offset * 8));
                assert_eq!(set, Reply::Array(vec![Reply::Integer(number)]));
            }
        }
    }
    get(&mut client, "k", &value);
    assert_eq!(client.call("copy k l"), Reply::Integer(1));
    assert_eq!(client.call("bitop not m l"), Reply::Integer(value.len() as i64));
    let inverted: Vec<u8> = value.iter().map(|byte| !byte).collect();
    get(&mut client, "m", &inverted);
    assert_eq!(client.call("bitop xor n l m"), Reply::Integer(value.len() as i64));
    let ones = value.len() as i64 * 8;
    assert_eq!(client.call("bitcount n"), Reply::Integer(ones));
    assert_eq!(client.call("bitpos n 0"), Reply::Integer(ones));
    assert_eq!(client.call("rename l o"), ok());
    check(Some(client.call("getdel o")), &value);
    assert_eq!(client.call("exists o"), Reply::Integer(0));
    assert_eq!(
        client.call("incr m"),
        Reply::Error("ERR value is not an integer or out of range".into())
    );
    let Reply::Bulk(dump) = client.call("dump k") else { panic!("a dump") };
    assert_eq!(client.command(&[b"restore", b"p", b"0", &dump]), ok());
    get(&mut client, "p", &value);
}

#[test]
fn a_reader_gets_the_value_that_was_there_when_it_asked() {
    let server = Server::start(durable);
    let (mut reader, mut writer) = (server.client(), server.client());
    let value = bytes(2, 20 << 20);
    for change in ["del k", "set k small", "setrange k 10000000 x", "flushall", "append k x"] {
        writer.command(&[b"set", b"k", &value]);
        // The sockets cannot hold the reply, so it is still being sent.
        reader.send(b"*2\r\n$3\r\nget\r\n$1\r\nk\r\n*1\r\n$4\r\nping\r\n");
        writer.call("ping");
        while !matches!(writer.call("strlen k"), Reply::Integer(_)) {}
        assert!(!matches!(writer.call(change), Reply::Error(_)), "{change}");
        // If its pages were free, this value would take them.
        writer.command(&[b"set", b"other", &bytes(3, 10 << 20)]);
        check(reader.reply(), &value);
        assert_eq!(reader.reply(), Some(Reply::Status("PONG".into())));
        writer.call("del k other");
    }
}

#[test]
fn large_values_go_through_transactions_and_pipelines_in_order() {
    let server = Server::start(|options| {
        durable(options);
        // A copy is part of the transaction.
        options.dram_bytes = 64 << 20;
    });
    let mut client = server.client();
    let (one, two) = (bytes(4, 500_000), bytes(5, 700_000));
    client.request(&[b"mset", b"a", &one, b"b", &two]);
    client.request(&[b"mget", b"a", b"none", b"b"]);
    client.request(&[b"getset", b"a", &two]);
    client.request(&[b"ping"]);
    assert_eq!(client.reply(), Some(ok()));
    let expected = vec![Reply::Bulk(one.clone()), Reply::Null, Reply::Bulk(two.clone())];
    assert!(client.reply() == Some(Reply::Array(expected)));
    check(client.reply(), &one);
    assert_eq!(client.reply(), Some(Reply::Status("PONG".into())));
    client.call("multi");
    client.command(&[b"set", b"a", &one]);
    client.call("get a");
    client.call("append b x");
    client.call("copy a c");
    client.call("del b");
    let Reply::Array(replies) = client.call("exec") else { panic!("five") };
    let [set, got, length, copied, removed] = &replies[..] else { panic!("five") };
    assert_eq!((set, length), (&ok(), &Reply::Integer(two.len() as i64 + 1)));
    check(Some(got.clone()), &one);
    assert_eq!((copied, removed), (&Reply::Integer(1), &Reply::Integer(1)));
    client.request(&[b"get", b"c"]);
    check(client.reply(), &one);
    client.request(&[b"client", b"reply", b"skip"]);
    client.request(&[b"get", b"a"]);
    assert_eq!(client.call("ping"), Reply::Status("PONG".into()));
}

/// Without a log, other cores see a value from its first page on.
#[test]
fn no_core_frees_a_value_that_another_has_just_begun() {
    for policy in [Policy::None, "every:1s".parse().expect("a policy")] {
        let server = Server::start(|options| {
            options.capacity_bytes = Some(64 << 20);
            options.durability = policy;
            options.cores = 2;
        });
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let mut client = server.client();
                scope.spawn(move || {
                    let key = format!("k{writer}");
                    for round in 0..400 {
                        let value = bytes(writer << 32 | round, 33_000);
                        assert_eq!(client.command(&[b"set", key.as_bytes(), &value]), ok());
                        get(&mut client, &key, &value);
                    }
                });
            }
        });
    }
}

#[test]
fn overwriting_a_large_value_needs_room_for_the_old_and_the_new_one() {
    let server = Server::start(|options| options.capacity_bytes = Some(8 << 20));
    let mut client = server.client();
    let (old, new, short) = (bytes(1, 5 << 20), bytes(2, 5 << 20), bytes(3, 1 << 20));
    assert_eq!(client.command(&[b"set", b"k", &old]), ok());
    let error = "OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(client.command(&[b"set", b"k", &new]), Reply::Error(error.into()));
    get(&mut client, "k", &old);
    assert_eq!(client.command(&[b"set", b"k", &short]), ok(), "it fits beside the old value");
    assert_eq!(client.command(&[b"set", b"k", &new]), ok(), "the old value has given its space");
    get(&mut client, "k", &new);
}

#[test]
fn a_value_without_room_is_refused_and_the_connection_goes_on() {
    let server = Server::start(|options| options.capacity_bytes = Some(8 << 20));
    let mut client = server.client();
    client.call("set k old");
    let Reply::Error(error) = client.command(&[b"set", b"k", &bytes(6, 20 << 20)]) else {
        panic!("there is no room")
    };
    assert!(error.starts_with("OOM "), "{error}");
    assert_eq!(client.call("get k"), bulk("old"));
    // The part that was written is freed, even if its client has gone.
    let mut gone = server.client();
    gone.send(b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$9000000\r\n");
    let _ = gone.other_end().write_all(&bytes(7, 3 << 20));
    drop(gone);
    let value = bytes(8, 6 << 20);
    while client.command(&[b"set", b"k", &value]) != ok() {}
    get(&mut client, "k", &value);
    let mut long = server.client();
    long.send(b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$536870913\r\n");
    let expected = "ERR Protocol error: invalid bulk length";
    assert_eq!(long.reply(), Some(Reply::Error(expected.into())));
}
