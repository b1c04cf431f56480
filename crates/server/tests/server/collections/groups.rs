//! Consumer groups: waiting readers, long names, many pending entries, and what survives.

use ebbtide_core::durability::Policy;

use crate::blocking::{send, wait_for_blocked};
use crate::client::{Client, Reply, Server, bulk, ok};
use crate::many::checksum;
use crate::redis::Redis;

/// Lines that are errors in Redis 7.0, as those in `arguments.rs`.
pub(crate) const BAD: &[&str] = &[
    "xgroup",
    "xgroup create",
    "xgroup create s g",
    "xgroup create nothing g $",
    "xgroup create k g $ mkstream",
    "xgroup create s g x",
    "xgroup create s g -",
    "xgroup create s g $ bogus",
    "xgroup create s g $ entriesread",
    "xgroup create s g $ entriesread x",
    "xgroup create s g $ entriesread -2",
    "xgroup bogus s g",
    "xgroup setid s nogroup $",
    "xgroup setid s nogroup",
    "xgroup destroy nothing g",
    "xgroup destroy k g",
    "xgroup destroy s g x",
    "xgroup createconsumer s nogroup c",
    "xgroup createconsumer s g",
    "xgroup delconsumer s nogroup c",
    "xgroup delconsumer nothing g c",
    "xreadgroup group nogroup c streams s >",
    "xreadgroup group g c streams s $",
    "xreadgroup group g c streams nothing >",
    "xreadgroup group g c streams k >",
    "xreadgroup group g c block x streams s >",
    "xreadgroup group g c block -1 streams s >",
    "xreadgroup group g c count x streams s >",
    "xreadgroup group g c streams s t >",
    "xreadgroup count 1 block 1 streams s >",
    "xreadgroup group g c bogus streams s >",
    "xreadgroup group g c count 5 noack",
    "xack k g 5",
    "xack s g",
    "xpending s",
    "xpending s nogroup",
    "xpending nothing g",
    "xpending k g",
    "xpending s g - +",
    "xpending s g - + x",
    "xpending s g x + 5",
    "xpending s g - x 5",
    "xpending s g idle x - + 5",
    "xpending s g idle 5 - +",
    "xclaim s g c 0",
    "xclaim s nogroup c 0 5",
    "xclaim nothing g c 0 5",
    "xclaim k g c 0 5",
    "xautoclaim s g c 0",
    "xautoclaim s nogroup c 0 -",
    "xautoclaim s g c x -",
    "xautoclaim s g c 0 x",
    "xautoclaim s g c 0 - count 0",
    "xautoclaim s g c 0 - count x",
    "xautoclaim s g c 0 - count 9223372036854775807",
    "xautoclaim s g c 0 - bogus",
    "xautoclaim k g c 0 -",
    "xinfo groups nothing",
    "xinfo groups k",
    "xinfo groups s x",
    "xinfo consumers s",
    "xinfo consumers s nogroup",
];

fn array(parts: &[Reply]) -> Reply {
    Reply::Array(parts.to_vec())
}

/// The reply to a reader that gets one entry with the field `f`.
fn one(key: &str, id: &str, value: &str) -> Reply {
    let entry = array(&[bulk(id), array(&[bulk("f"), bulk(value)])]);
    array(&[array(&[bulk(key), array(&[entry])])])
}

fn error(client: &mut Client) -> String {
    let reply = client.reply();
    let Some(Reply::Error(text)) = reply else { panic!("{reply:?}") };
    text
}

#[test]
fn readers_of_a_group_wait_in_order_and_each_group_gets_every_entry() {
    for cores in [1, 2] {
        let server = Server::start(|options| {
            options.cores = cores;
            options.dram_bytes = 24 << 20;
        });
        let mut other = server.client();
        for group in ["g", "h"] {
            assert_eq!(other.call(&format!("xgroup create s {group} $ mkstream")), ok());
        }
        let mut readers: Vec<Client> = (0..4).map(|_| server.client()).collect();
        for (index, reader) in readers.iter_mut().enumerate() {
            let group = ["g", "g", "h", "g"][index];
            send(reader, &format!("xreadgroup group {group} c{index} block 0 streams s >"));
            wait_for_blocked(&mut other, index + 1);
        }
        for number in 1..=3 {
            other.call(&format!("xadd s {number}-0 f v{number}"));
            wait_for_blocked(&mut other, if number == 1 { 2 } else { 3 - number });
        }
        for (index, number) in [(0, 1), (1, 2), (2, 1), (3, 3)] {
            let expected = one("s", &format!("{number}-0"), &format!("v{number}"));
            assert_eq!(readers[index].reply(), Some(expected), "reader {index}");
        }
        let owned = array(&[bulk("c0"), bulk("1")]);
        let Reply::Array(summary) = other.call("xpending s g") else { panic!("a summary") };
        assert_eq!(summary[0], Reply::Integer(3));
        assert!(matches!(&summary[3], Reply::Array(owners) if owners[0] == owned));
        // The group h has read one of three.
        send(&mut readers[0], "xreadgroup group h c9 block 0 noack count 1 streams s >");
        assert_eq!(readers[0].reply(), Some(one("s", "2-0", "v2")));
        let Reply::Array(summary) = other.call("xpending s h") else { panic!("a summary") };
        assert_eq!(summary[0], Reply::Integer(1), "what is read with NOACK is not pending");
    }
}

#[test]
fn waiting_ends_when_the_group_or_the_key_goes_away() {
    let server = Server::start(|options| options.cores = 2);
    let (mut other, mut third) = (server.client(), server.client());
    let mut readers = [server.client(), server.client()];
    let ends: [(&[&str], &str); 7] = [
        (&["del s"], "UNBLOCKED the stream key no longer exists"),
        (&["set s text"], "UNBLOCKED the stream key no longer exists"),
        (&["xgroup destroy s g"], "NOGROUP the consumer group this client was blocked on"),
        (&["flushall"], "UNBLOCKED the stream key no longer exists"),
        (&["swapdb 0 1"], "UNBLOCKED the stream key no longer exists"),
        (&["multi", "del s", "sadd s a", "exec"], "UNBLOCKED the stream key no longer exists"),
        (
            &["xadd t 1-1 f v", "rename t s"],
            "NOGROUP the consumer group this client was blocked on",
        ),
    ];
    for (lines, expected) in ends {
        other.call("flushall");
        other.call("xgroup create s g $ mkstream");
        for (index, reader) in readers.iter_mut().enumerate() {
            send(reader, "xreadgroup group g c block 0 streams s >");
            wait_for_blocked(&mut third, index + 1);
        }
        lines.iter().for_each(|line| drop(other.call(line)));
        for reader in &mut readers {
            let text = error(reader);
            assert!(text.starts_with(expected), "{lines:?}: {text}");
        }
        wait_for_blocked(&mut third, 0);
    }
    other.call("flushall");
    other.call("xgroup create s g $ mkstream");
    send(&mut readers[0], "xreadgroup group g c block 20 streams s >");
    assert_eq!(readers[0].reply(), Some(Reply::Null), "its time is over");
}

#[test]
fn many_pending_entries_and_long_names_are_delivered_claimed_and_removed() {
    const ENTRIES: usize = 5_000;
    let server = Server::start(|options| {
        options.durability = Policy::Every(ebbtide_core::Span::from_us(100_000));
    });
    let mut client = server.client();
    for number in 1..=ENTRIES {
        client.request(&[b"xadd", b"s", number.to_string().as_bytes(), b"f", b"v"]);
    }
    (0..ENTRIES).for_each(|_| assert!(matches!(client.reply(), Some(Reply::Bulk(_)))));
    let group = vec![b'g'; 9_000];
    let consumers = [vec![b'c'; 5_000], vec![b'd'; 5_001]];
    assert_eq!(client.command(&[b"xgroup", b"create", b"s", &group, b"0"]), ok());
    let too_long = vec![b'g'; 32_001];
    let refused = client.command(&[b"xgroup", b"create", b"s", &too_long, b"0"]);
    assert!(matches!(refused, Reply::Error(text) if text.contains("at most 32000 bytes")));
    let mut read = |of: &[u8], count: &[u8], id: &[u8]| {
        let words: [&[u8]; 9] =
            [b"xreadgroup", b"group", &group, of, b"count", count, b"streams", b"s", id];
        let Reply::Array(streams) = client.command(&words) else { panic!("streams") };
        let Reply::Array(stream) = &streams[0] else { panic!("a stream") };
        let Reply::Array(entries) = &stream[1] else { panic!("entries") };
        entries.len()
    };
    assert_eq!(read(&consumers[0], b"3000", b">"), 3_000);
    assert_eq!(read(&consumers[1], b"10000", b">"), 2_000);
    assert_eq!(read(&consumers[0], b"10000", b"0"), 3_000, "its history");
    assert_eq!(client.call("copy s c"), Reply::Integer(1));
    for key in [&b"s"[..], b"c"] {
        let pending = client.command(&[b"xpending", key, &group]);
        let Reply::Array(summary) = pending else { panic!("{pending:?}") };
        assert_eq!(summary[..2], [Reply::Integer(5_000), bulk("1-0")]);
        let counts = [(&consumers[0], "3000"), (&consumers[1], "2000")]
            .map(|(name, count)| array(&[Reply::Bulk(name.clone()), bulk(count)]));
        assert_eq!(summary[3], array(&counts));
    }
    let all = client.command(&[b"xpending", b"s", &group, b"-", b"+", b"100000"]);
    assert!(matches!(all, Reply::Array(all) if all.len() == 5_000));
    let words: [&[u8]; 8] =
        [b"xautoclaim", b"s", &group, &consumers[1], b"0", b"-", b"count", b"100000"];
    let Reply::Array(claimed) = client.command(&words) else { panic!("three parts") };
    assert_eq!((&claimed[0], &claimed[2]), (&bulk("0-0"), &array(&[])));
    assert!(matches!(&claimed[1], Reply::Array(all) if all.len() == 5_000));
    let mut acks: Vec<Vec<u8>> = vec![b"xack".to_vec(), b"s".to_vec(), group.clone()];
    acks.extend((1..=4_000).map(|number| format!("{number}-0").into_bytes()));
    let acks: Vec<&[u8]> = acks.iter().map(Vec::as_slice).collect();
    assert_eq!(client.command(&acks), Reply::Integer(4_000));
    assert_eq!(client.command(&acks), Reply::Integer(0));
    let delete: [&[u8]; 5] = [b"xgroup", b"delconsumer", b"s", &group, &consumers[1]];
    assert_eq!(client.command(&delete), Reply::Integer(1_000));
    assert_eq!(client.command(&[b"xgroup", b"destroy", b"c", &group]), Reply::Integer(1));
    assert_eq!(client.call("xinfo groups c"), array(&[]));
    assert_eq!(client.call("del s c"), Reply::Integer(2));
}

#[test]
fn groups_survive_a_restart_and_go_with_their_key() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let start = || {
        Server::start(|options| {
            options.data = folder.path().join("store");
            options.durability = Policy::Always;
        })
    };
    let server = start();
    let mut client = server.client();
    for number in 1..=200 {
        client.call(&format!("xadd s {number} f v"));
    }
    client.call("xgroup create s g 0");
    client.call("xreadgroup group g one count 100 streams s >");
    client.call("xreadgroup group g two count 50 noack streams s >");
    client.call("xack s g 7-0 9-0");
    client.call("xclaim s g two 0 8-0");
    client.call("rename s r");
    client.call("expire r 1000");
    let lines = ["xinfo groups r", "xpending r g", "xinfo stream r"];
    let before = lines.map(|line| client.call(line));
    drop((client, server));
    let server = start();
    let mut client = server.client();
    assert_eq!(lines.map(|line| client.call(line)), before);
    let Reply::Array(all) = client.call("xpending r g - + 1000") else { panic!("entries") };
    assert_eq!(all.len(), 98);
    let next = client.call("xreadgroup group g one count 1 streams r >");
    assert_eq!(next, one("r", "151-0", "v"));
    client.call("del r");
    client.call("xadd r 1 f v");
    assert_eq!(client.call("xinfo groups r"), array(&[]));
}

/// The reply about a stream without the numbers of its pages.
fn without_pages(reply: Reply) -> Reply {
    let Reply::Array(parts) = reply else { return reply };
    let mut parts: Vec<Reply> = parts.into_iter().map(without_pages).collect();
    for at in 1..parts.len() {
        if matches!(&parts[at - 1], Reply::Bulk(name) if name.starts_with(b"radix-tree-")) {
            parts[at] = Reply::Integer(0);
        }
    }
    Reply::Array(parts)
}

/// Makes streams with groups. Returns their keys.
fn fill(client: &mut Client) -> [&'static str; 3] {
    let long = "v".repeat(16_378);
    for number in 1..=350u64 {
        let id = format!("{}-{}", number * 7, number % 3);
        let fields = match number % 6 {
            0 => format!("a {} b {}", number, -70_000 * number as i64),
            1 | 2 => "a v".into(),
            3 => format!("a {}", "x".repeat(number as usize * 2)),
            4 => format!("field:{number} {} 5 {}", u64::MAX, i64::MIN),
            _ => format!("a 0{number}"),
        };
        client.call(&format!("xadd s {id} {fields}"));
    }
    client.call(&format!("xadd s 2600 a {long}"));
    client.call(&format!("xadd s 2601 {long} {long}{long}{long}{long}{long}"));
    client.call("xdel s 7-1 700-1 1400-2 2450-2");
    client.call("xgroup create s g 0");
    client.call("xreadgroup group g one count 120 streams s >");
    client.call("xreadgroup group g two count 150 streams s >");
    client.call("xack s g 14-2 21-0 28-1");
    client.call("xclaim s g two 0 35-2 42-0 retrycount 70000 time 5000");
    client.call("xdel s 49-1");
    client.call("xgroup create s other $ entriesread 7");
    client.call("xgroup createconsumer s other idle");
    client.call("xadd empty 8-8 f v");
    client.call("xgroup create empty g 5");
    client.call("xtrim empty maxlen 0");
    client.call("xadd short 9-9 f v");
    ["s", "empty", "short"]
}

#[test]
fn streams_with_groups_go_to_redis_and_come_back() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| ());
    let mut ours = server.client();
    for from_redis in [true, false] {
        let (from, to) = match from_redis {
            true => (&mut redis.client, &mut ours),
            false => (&mut ours, &mut redis.client),
        };
        drop((from.call("flushall"), to.call("flushall")));
        for key in fill(from) {
            let Reply::Bulk(dump) = from.call(&format!("dump {key}")) else { panic!("{key}") };
            let restored = to.command(&[b"restore", key.as_bytes(), b"0", &dump]);
            assert_eq!(restored, ok(), "from Redis: {from_redis}, {key}");
            for line in ["xinfo stream KEY full count 0", "xinfo groups KEY", "xpending KEY g"] {
                let line = line.replace("KEY", key);
                let expected = without_pages(from.call(&line));
                let found = without_pages(to.call(&line));
                assert!(found == expected, "from Redis: {from_redis}, {line}");
            }
            for line in ["xadd KEY 3000 f v", "xreadgroup group other c streams KEY >"] {
                let line = line.replace("KEY", key);
                assert_eq!(to.call(&line), from.call(&line), "from Redis: {from_redis}, {line}");
            }
        }
    }
}

#[test]
fn a_damaged_dump_of_a_stream_is_refused_or_restored() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    for number in 1..=20 {
        client.call(&format!("xadd s {number} f v{number}"));
    }
    client.call("xgroup create s g 0");
    client.call("xreadgroup group g c count 9 streams s >");
    let Reply::Bulk(dump) = client.call("dump s") else { panic!("a dump") };
    let body = dump.len() - 8;
    let mut refused = 0;
    for at in 1..body - 2 {
        for bit in [1u8, 0x80] {
            let mut damaged = dump.clone();
            damaged[at] ^= bit;
            let sum = checksum(&damaged[..body]);
            damaged[body..].copy_from_slice(&sum.to_le_bytes());
            let restored = client.command(&[b"restore", b"t", b"0", &damaged, b"replace"]);
            refused += usize::from(matches!(restored, Reply::Error(_)));
            client.call("xinfo stream t full count 0");
            client.call("xreadgroup group g c streams t >");
        }
    }
    assert!(refused > body / 2, "{refused} of {body} are refused");
    assert_eq!(client.command(&[b"restore", b"t", b"0", &dump, b"replace"]), ok());
}
