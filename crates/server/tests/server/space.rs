//! A full store takes new values of any size as soon as the old ones are removed.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::client::{Client, Reply, Server, bulk, encode, now_ms, ok};

/// Keys of a batch.
const BATCH: u64 = 500;

fn start(capacity_bytes: u64, data: Option<PathBuf>) -> Server {
    Server::start(|options| {
        options.capacity_bytes = Some(capacity_bytes);
        options.dram_bytes = 32 << 20;
        options.durability = "every:1s".parse().expect("a policy");
        if let Some(data) = data {
            options.data = data;
        }
    })
}

/// Sends the request that `command` returns for each number, and returns the replies.
fn batch(
    client: &mut Client,
    numbers: std::ops::Range<u64>,
    command: impl Fn(u64) -> Vec<Vec<u8>>,
) -> Vec<Reply> {
    let mut bytes = Vec::new();
    for number in numbers.clone() {
        let words = command(number);
        bytes.extend(encode(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    }
    client.send(&bytes);
    numbers.map(|_| client.reply().expect("a reply")).collect()
}

fn set(name: &str, number: u64, length: usize) -> Vec<Vec<u8>> {
    vec![b"SET".to_vec(), format!("{name}:{number}").into_bytes(), vec![b'v'; length]]
}

/// Sets keys until the store is full. Returns their number.
fn fill(client: &mut Client, name: &str, length: usize) -> u64 {
    let mut count = 0;
    loop {
        let next = count + BATCH.min(4_000_000 / length as u64);
        let replies = batch(client, count..next, |number| set(name, number, length));
        let set = replies.iter().take_while(|reply| **reply == ok()).count() as u64;
        count += set;
        if let Some(reply) = replies.get(set as usize) {
            assert!(matches!(reply, Reply::Error(error) if error.starts_with("OOM")), "{reply:?}");
            // Later keys of the batch may have found room in their leaves.
            return next;
        }
    }
}

fn remove(client: &mut Client, name: &str, count: u64) {
    let del = |number| vec![b"DEL".to_vec(), format!("{name}:{number}").into_bytes()];
    for from in (0..count).step_by(BATCH as usize) {
        batch(client, from..(from + BATCH).min(count), del);
    }
}

#[test]
#[ignore = "slow"]
fn a_full_store_takes_as_much_again_once_its_keys_are_deleted_or_flushed() {
    let server = start(100 << 20, None);
    let mut client = server.client();
    let first = fill(&mut client, "a", 1_000);
    assert!(first > 60_000, "{first} keys");
    // Keys of a full store can be overwritten, also by values of other sizes that fit.
    for length in [1_000, 900] {
        let replies = batch(&mut client, 0..200, |number| set("a", number, length));
        assert!(replies.iter().all(|reply| *reply == ok()), "{replies:?}");
    }
    remove(&mut client, "a", first);
    assert_eq!(client.call("dbsize"), Reply::Integer(0));
    let second = fill(&mut client, "b", 8_000);
    assert!(second * 8_000 > 75_000_000, "{second} values of 8,000 bytes");
    assert_eq!(client.call("flushall"), ok());
    // No wait is needed.
    let third = fill(&mut client, "c", 1_000);
    assert!(third * 100 > first * 98, "{third} keys after {first}");
    assert_eq!(client.call(&format!("set c:0 {}", "x".repeat(1_000))), ok());
    assert_eq!(client.call("get c:0"), bulk(&"x".repeat(1_000)));
}

#[test]
fn space_comes_back_after_a_restart() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let data = folder.path().join("store");
    let server = start(40 << 20, Some(data.clone()));
    let mut client = server.client();
    let first = fill(&mut client, "a", 2_500);
    remove(&mut client, "a", first / 2);
    assert_eq!(client.call("select 1"), ok());
    assert_eq!(client.call("flushdb"), ok());
    drop((client, server));
    let server = start(40 << 20, Some(data));
    let mut client = server.client();
    assert_eq!(client.call("flushall"), ok());
    let second = fill(&mut client, "b", 2_500);
    assert!(second * 100 > first * 98, "{second} keys after {first}");
}

/// Keys that expire are removed as quickly as commands run.
#[test]
fn upkeep_makes_no_pause_while_keys_are_due() {
    const KEYS: u64 = 8_000;
    let server = start(40 << 20, None);
    let mut client = server.client();
    for from in (0..KEYS).step_by(BATCH as usize) {
        batch(&mut client, from..from + BATCH, |number| {
            let mut words = set("k", number, 1_000);
            words.extend([b"PXAT".to_vec(), b"9999999999999".to_vec()]);
            words
        });
    }
    // All expire in the same moment, so that none is due later than the others.
    let at_ms = (now_ms() + 5_000).to_string();
    let expire = |number| {
        let name = format!("k:{number}").into_bytes();
        vec![b"PEXPIREAT".to_vec(), name, at_ms.clone().into_bytes()]
    };
    for from in (0..KEYS).step_by(BATCH as usize) {
        batch(&mut client, from..from + BATCH, expire);
    }
    // From the first key that is gone, the others follow.
    while client.call("dbsize") == Reply::Integer(KEYS as i64) {}
    let mut commands = 0;
    while client.call("dbsize") != Reply::Integer(0) {
        commands += 1;
        assert!(commands <= KEYS * 2, "some keys are there after {commands} commands");
    }
}

#[test]
fn keys_that_have_expired_are_gone_soon_and_make_room() {
    let server = start(40 << 20, None);
    let mut client = server.client();
    let mut sent = 0u64;
    let began = Instant::now();
    // More than the store holds at once.
    while sent < 80_000 {
        let replies = batch(&mut client, sent..sent + BATCH, |number| {
            let mut words = set("k", number, 1_000);
            words.extend([b"PX".to_vec(), b"300".to_vec()]);
            words
        });
        let refused = replies.iter().filter(|reply| **reply != ok()).count();
        assert_eq!(refused, 0, "after {sent} keys in {:?}", began.elapsed());
        sent += BATCH;
    }
    // No client reads these keys, so upkeep removes them.
    while client.call("dbsize") != Reply::Integer(0) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let Reply::Bulk(info) = client.call("info memory") else { panic!("text") };
    let info = String::from_utf8(info).expect("text");
    let free = info.lines().find_map(|line| line.strip_prefix("flash_bytes_free:"));
    let free: u64 = free.expect("it says so").parse().expect("a number");
    assert!(free >= 38 << 20, "{free} bytes of 40 MiB are free");
}
