//! Commands over more keys than fit in DRAM, or than one transaction can change.

use std::sync::atomic::{AtomicBool, Ordering};

use super::client::{Client, Reply, Server, bulk, encode, ok};

/// Keys whose leaves exceed the DRAM budget of [`server`]. Two of these values fill a leaf.
const KEYS: usize = 12_000;
const VALUE_BYTES: usize = 1_850;

fn server() -> Server {
    Server::start(|options| {
        options.durability = "every:1s".parse().expect("a policy");
        options.capacity_bytes = Some(128 << 20);
    })
}

fn key(number: usize) -> String {
    format!("key:{number}")
}

fn value(number: usize) -> Vec<u8> {
    let mut value = format!("{number} ").into_bytes();
    value.resize(VALUE_BYTES, b'v');
    value
}

/// Sets all keys. Returns a request that runs `command` on all of them.
fn fill(client: &mut Client, command: &str) -> Vec<u8> {
    for batch in (0..KEYS).collect::<Vec<_>>().chunks(100) {
        let sets =
            batch.iter().map(|&number| encode(&[b"set", key(number).as_bytes(), &value(number)]));
        client.send(&sets.collect::<Vec<_>>().concat());
        batch.iter().for_each(|_| assert_eq!(client.reply(), Some(ok())));
    }
    of_all(command)
}

fn of_all(command: &str) -> Vec<u8> {
    let keys: Vec<String> = (0..KEYS).map(key).collect();
    let words = std::iter::once(command).chain(keys.iter().map(String::as_str));
    encode(&words.map(str::as_bytes).collect::<Vec<_>>())
}

#[test]
fn a_command_over_more_keys_than_dram_holds_reads_and_removes_them() {
    let server = server();
    let mut client = server.client();
    let exists = fill(&mut client, "exists");
    let all = Some(Reply::Integer(KEYS as i64));
    client.send(&exists);
    assert_eq!(client.reply(), all);
    client.send(&of_all("touch"));
    assert_eq!(client.reply(), all);
    client.send(&of_all("del"));
    assert_eq!(client.reply(), all);
    assert_eq!(client.call("dbsize"), Reply::Integer(0));
    client.send(&of_all("unlink"));
    assert_eq!(client.reply(), Some(Reply::Integer(0)));
}

#[test]
fn values_beyond_one_transaction_are_set_together() {
    let server = server();
    let mut client = server.client();
    for (count, bytes) in [(80, 1_000), (3_000, 20), (6, 40_000)] {
        let pairs: Vec<[Vec<u8>; 2]> = (0..count)
            .map(|number| [format!("{count}:{number}").into_bytes(), vec![b'v'; bytes]])
            .collect();
        let mut words: Vec<&[u8]> = vec![b"msetnx"];
        words.extend(pairs.iter().flatten().map(Vec::as_slice));
        assert_eq!(client.command(&words), Reply::Integer(1), "{count} of {bytes} bytes");
        assert_eq!(client.command(&words), Reply::Integer(0), "they are there");
        words[0] = b"mset";
        assert_eq!(client.command(&words), ok());
        let last = format!("get {count}:{}", count - 1);
        assert_eq!(client.call(&last), Reply::Bulk(vec![b'v'; bytes]));
    }
    assert_eq!(client.call("dbsize"), Reply::Integer(80 + 3_000 + 6));
}

#[test]
fn others_see_a_change_of_many_keys_as_one_step() {
    let server = server();
    let mset = |text: &str| {
        let keys: Vec<String> = (0..1_000).map(key).collect();
        let mut words: Vec<&[u8]> = vec![b"mset"];
        words.extend(keys.iter().flat_map(|key| [key.as_bytes(), text.as_bytes()]));
        encode(&words)
    };
    let mut client = server.client();
    client.send(&mset("0"));
    assert_eq!(client.reply(), Some(ok()));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..60 {
                client.send(&mset(&round.to_string()));
                assert_eq!(client.reply(), Some(ok()));
            }
            over.store(true, Ordering::SeqCst);
        });
        let mut reader = server.client();
        while !over.load(Ordering::SeqCst) {
            let Reply::Array(seen) = reader.call("mget key:0 key:500 key:999") else {
                panic!("three values")
            };
            assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
        }
    });
    assert_eq!(server.client().call("get key:7"), bulk("59"));
}

#[test]
fn replies_of_any_size_arrive_with_two_cores() {
    const COUNT: usize = 60_000;
    let server = Server::start(|options| {
        options.cores = 2;
        options.dram_bytes = 24 << 20;
        options.durability = "every:1s".parse().expect("a policy");
        options.capacity_bytes = Some(128 << 20);
    });
    let mut client = server.client();
    let value = [b'v'; 100];
    for batch in (0..COUNT).collect::<Vec<_>>().chunks(500) {
        let sets = batch.iter().map(|&number| encode(&[b"set", key(number).as_bytes(), &value]));
        client.send(&sets.collect::<Vec<_>>().concat());
        batch.iter().for_each(|_| assert_eq!(client.reply(), Some(ok())));
    }
    let mut names: Vec<Reply> = (0..COUNT).map(|number| bulk(&key(number))).collect();
    names.sort_by_key(|name| format!("{name:?}"));
    let sorted = |reply: Reply| {
        let Reply::Array(mut found) = reply else { panic!("names") };
        found.sort_by_key(|name| format!("{name:?}"));
        found
    };
    assert!(sorted(client.call("keys *")) == names, "KEYS");
    let Reply::Array(scanned) = client.call("scan 0 count 400000") else { panic!("two parts") };
    let [cursor, found] = scanned.try_into().expect("two parts");
    assert!(cursor == bulk("0") && sorted(found) == names, "SCAN");
    let keys: Vec<String> = (0..COUNT).map(key).collect();
    let words = ["ping", "mget"].into_iter().zip([&keys[..0], &keys]).map(|(command, keys)| {
        let words = std::iter::once(command).chain(keys.iter().map(String::as_str));
        encode(&words.map(str::as_bytes).collect::<Vec<_>>())
    });
    // Replies before and after a long one stay in order.
    let mut pipeline = words.collect::<Vec<_>>().concat();
    pipeline.extend(encode(&[b"get", b"key:7"]));
    client.send(&pipeline);
    assert_eq!(client.reply(), Some(Reply::Status("PONG".into())));
    let found = match client.reply() {
        Some(Reply::Array(found)) => found,
        other => panic!("{other:?}"),
    };
    let wrong = found.iter().position(|one| *one != Reply::Bulk(value.to_vec()));
    let first = wrong.map(|index| (index, &found[index]));
    assert_eq!((found.len(), first), (COUNT, None));
    assert_eq!(client.reply(), Some(Reply::Bulk(value.to_vec())));
}

#[test]
fn others_read_keys_that_a_long_command_reads_or_prepares_to_change() {
    let server = server();
    let mut client = server.client();
    let large = vec![7; 20 << 20];
    assert_eq!(client.command(&[b"set", b"large", &large]), ok());
    assert_eq!(client.call("set small 1"), ok());
    client.send(&encode(&[b"copy", b"large", b"small", b"replace"]));
    // The client sees the old value or the whole copy, and never waits forever.
    let mut other = server.client();
    loop {
        match other.call("strlen small") {
            Reply::Integer(1) => assert_eq!(other.call("get large"), Reply::Bulk(large.clone())),
            length => break assert_eq!(length, Reply::Integer(20 << 20)),
        }
    }
    assert_eq!(client.reply(), Some(Reply::Integer(1)));
    assert_eq!(other.call("set small 2"), ok());
}

#[test]
fn what_is_dumped_is_restored_at_any_size() {
    let server = server();
    let mut client = server.client();
    for bytes in [10, 30_000, 32_705, 5 << 20] {
        let value: Vec<u8> = (0..bytes).map(|byte| (byte % 251) as u8).collect();
        assert_eq!(client.command(&[b"set", b"from", &value]), ok());
        let Reply::Bulk(mut dump) = client.call("dump from") else { panic!("no dump of {bytes}") };
        assert_eq!(client.command(&[b"restore", b"to", b"0", &dump, b"replace"]), ok());
        assert!(client.call("get to") == Reply::Bulk(value), "{bytes} bytes");
        // Redis 7.4 writes version 12.
        let foot = dump.len() - 10;
        dump[foot..foot + 2].copy_from_slice(&12u16.to_le_bytes());
        let sum = checksum(&dump[..foot + 2]);
        dump[foot + 2..].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(client.command(&[b"restore", b"to", b"0", &dump, b"replace"]), ok());
        dump[bytes / 2] ^= 1;
        let restored = client.command(&[b"restore", b"to", b"0", &dump, b"replace"]);
        assert!(matches!(restored, Reply::Error(_)), "{restored:?} of damaged {bytes} bytes");
    }
}

/// The checksum of dumps: CRC-64 with the polynomial of Jones.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u64::from(*byte), |sum, _| match sum & 1 {
            0 => sum >> 1,
            _ => sum >> 1 ^ 0x95ac_9329_ac4b_c9b5,
        })
    })
}
