//! Streams: ids, trimming, waiting readers, and what commands on any key do with them.

use std::time::Duration;

use ebbtide_core::durability::Policy;

use crate::blocking::{send, wait_for_blocked};
use crate::client::{Client, Reply, Server, bulk, now_ms, ok};
use crate::redis::Redis;

/// Lines that are errors in Redis 7.0, as those in `arguments.rs`.
pub(crate) const BAD: &[&str] = &[
    "xadd k * f v",
    "xadd s * f",
    "xadd s * f v g",
    "xadd s 0-0 f v",
    "xadd s x f v",
    "xadd s + f v",
    "xadd s 5-x f v",
    "xadd s -* f v",
    "xadd s maxlen x * f v",
    "xadd s maxlen -1 * f v",
    "xadd s maxlen ~ -1 * f v",
    "xadd s minid x * f v",
    "xadd s maxlen 5 minid 5 * f v",
    "xadd s maxlen 5 limit 5 * f v",
    "xadd s maxlen ~ 5 limit -5 * f v",
    "xadd s limit 5 * f v",
    "xadd s limit 0 * f v",
    "xdel s",
    "xdel k 5",
    "xinfo",
    "xinfo bogus k",
    "xinfo stream nothing",
    "xinfo stream k",
    "xinfo stream",
    "xlen k",
    "xlen",
    "xrange k - +",
    "xrange s - + count",
    "xrange s - + count x",
    "xrange s - + bogus 5",
    "xrange s x +",
    "xrange s (+ +",
    "xrange s - (0-0",
    "xrange s (18446744073709551615-18446744073709551615 +",
    "xread streams s",
    "xread streams s t 0",
    "xread streams s x",
    "xread streams s >",
    "xread streams k 0",
    "xread block x streams s 0",
    "xread block -1 streams s 0",
    "xread count x streams s 0",
    "xread bogus 1 streams s 0",
    "xread group g c streams s 0",
    "xread noack streams s 0",
    "xread block 5 count",
    "xrevrange s - x",
    "xrevrange s + - count",
    "xsetid nothing 5",
    "xsetid k 5",
    "xsetid s x",
    "xsetid s 5 entriesadded",
    "xsetid s 5 entriesadded -1",
    "xsetid s 5 maxdeletedid 6",
    "xsetid s 5 bogus 6",
    "xtrim s maxlen x",
    "xtrim s limit 0",
    "xtrim s limit 5",
    "xtrim s bogus 5",
    "xtrim s maxlen 5 limit 5",
    "xtrim k maxlen 5",
];

fn array(parts: &[Reply]) -> Reply {
    Reply::Array(parts.to_vec())
}

fn entry(id: &str, fields: &[&str]) -> Reply {
    array(&[bulk(id), Reply::Array(fields.iter().map(|text| bulk(text)).collect())])
}

fn text(reply: &Reply) -> String {
    let Reply::Bulk(bytes) = reply else { panic!("{reply:?}") };
    String::from_utf8_lossy(bytes).into_owned()
}

/// The milliseconds of an id.
fn ms_of(id: &Reply) -> u64 {
    let id = text(id);
    id.split('-').next().and_then(|ms| ms.parse().ok()).unwrap_or_else(|| panic!("{id}"))
}

#[test]
fn an_id_is_the_time_and_greater_than_the_last() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    let before = now_ms();
    let ids: Vec<Reply> = (0..50).map(|_| client.call("xadd s * f v")).collect();
    assert!(ids.iter().all(|id| (before - 1000..=now_ms() + 1000).contains(&ms_of(id))));
    let Reply::Array(entries) = client.call("xrange s - +") else { panic!("entries") };
    let expected: Vec<Reply> = ids.iter().map(|id| entry(&text(id), &["f", "v"])).collect();
    assert_eq!(entries, expected);
    // The last id is ahead of the clock.
    assert_eq!(client.call("xadd s 99999999999999-7 f v"), bulk("99999999999999-7"));
    assert_eq!(client.call("xadd s * f v"), bulk("99999999999999-8"));
    assert_eq!(client.call("xadd s 99999999999999-* f v"), bulk("99999999999999-9"));
    assert_eq!(client.call("xadd s 100000000000000-* f v"), bulk("100000000000000-0"));
}

#[test]
fn coarse_trims_and_descriptions_are_those_of_redis() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| ());
    let mut ours = server.client();
    let mut same = |line: &str| {
        let (expected, found) = (redis.client.call(line), ours.call(line));
        assert_eq!(found, expected, "{line}");
    };
    // Without removals, the nodes of Redis have 100 entries.
    for number in 1..=1_234 {
        same(&format!("xadd s {number} f v"));
    }
    for line in [
        "xtrim s maxlen ~ 1134",
        "xlen s",
        "xtrim s maxlen ~ 1000",
        "xtrim s maxlen ~ 500 limit 250",
        "xtrim s maxlen ~ 500 limit 99",
        "xtrim s minid ~ 555",
        "xadd s maxlen ~ 400 2000 f v",
        "xlen s",
        "xadd s minid ~ 1000 limit 0 2001 f v",
        "xrange s - + count 2",
        "xtrim s maxlen ~ 0",
        "xtrim s maxlen 3",
        "xrange s - +",
        "xsetid s 3000 entriesadded 5000 maxdeletedid 2500",
        "xdel s 2001",
        "xinfo stream s",
        "xadd t 5-1 f v g w",
        "xadd t 5-* f v g w",
        "xinfo stream t",
        "xinfo stream t full",
        "xinfo stream t full count 1",
        "xinfo stream t full count",
        "xinfo stream t bogus",
        "xdel t 5-1 5-2",
        "xrange t - +",
        "xadd t 5-2 f v",
        "xadd t 5-* f v",
        "xsetid t 4",
        "xsetid t 9 entriesadded 0",
    ] {
        same(line);
    }
}

#[test]
fn readers_that_wait_all_get_the_same_entries() {
    for cores in [1, 2] {
        let server = Server::start(|options| {
            options.cores = cores;
            options.dram_bytes = 24 << 20;
        });
        let mut other = server.client();
        other.call("xadd s 1-1 f old");
        let mut readers: Vec<Client> = (0..4).map(|_| server.client()).collect();
        let mut late = server.client();
        send(&mut late, "xread block 0 streams s 7-0");
        wait_for_blocked(&mut other, 1);
        for (index, reader) in readers.iter_mut().enumerate() {
            send(reader, "xread block 0 streams s t $ 0");
            wait_for_blocked(&mut other, index + 2);
        }
        assert_eq!(other.call("xadd s 2-1 f new"), bulk("2-1"));
        let of_key = |key: &str, id: &str, value: &str| {
            array(&[array(&[bulk(key), array(&[entry(id, &["f", value])])])])
        };
        for reader in &mut readers {
            assert_eq!(reader.reply(), Some(of_key("s", "2-1", "new")), "{cores} cores");
        }
        // One whose entries are still to come goes on waiting, and the others wait again.
        wait_for_blocked(&mut other, 1);
        for (index, reader) in readers.iter_mut().enumerate() {
            send(reader, "xread count 1 block 100000 streams s t $ 0");
            wait_for_blocked(&mut other, index + 2);
        }
        assert_eq!(other.call("xadd t 5-0 f t"), bulk("5-0"));
        for reader in &mut readers {
            assert_eq!(reader.reply(), Some(of_key("t", "5-0", "t")), "{cores} cores");
        }
        assert_eq!(other.call("xadd s 7-1 f late"), bulk("7-1"));
        assert_eq!(late.reply(), Some(of_key("s", "7-1", "late")));
        wait_for_blocked(&mut other, 0);
    }
}

#[test]
fn waiting_ends_in_time_and_never_begins_in_a_transaction() {
    let server = Server::start(|_| ());
    let (mut client, mut other) = (server.client(), server.client());
    assert_eq!(client.call("xread block 10 streams s $"), Reply::Null);
    assert_eq!(client.call("xread streams s 0"), Reply::Null);
    client.call("multi");
    client.call("xread block 0 streams s $");
    client.call("xadd s 1-1 f v");
    client.call("xread block 0 streams s 0");
    let Reply::Array(replies) = client.call("exec") else { panic!("replies") };
    let read = array(&[array(&[bulk("s"), array(&[entry("1-1", &["f", "v"])])])]);
    assert_eq!(replies, [Reply::Null, bulk("1-1"), read.clone()]);
    assert_eq!(client.call("xread block 0 streams s 0"), read);
    let script = b"return redis.call('xread', 'block', '0', 'streams', 's', '0')";
    let refused = client.command(&[b"eval", script, b"1", b"s"]);
    let Reply::Error(text) = refused else { panic!("{refused:?}") };
    assert!(text.contains("xread command is not allowed with BLOCK option from scripts"), "{text}");
    // A client that waits for a list does not stand before one that waits for a stream.
    send(&mut client, "blpop t 0");
    wait_for_blocked(&mut other, 1);
    let mut reader = server.client();
    send(&mut reader, "xread block 0 streams t $");
    wait_for_blocked(&mut other, 2);
    other.call("set t text");
    other.call("del t");
    other.call("xadd t 1-1 f v");
    let read = array(&[array(&[bulk("t"), array(&[entry("1-1", &["f", "v"])])])]);
    assert_eq!(reader.reply(), Some(read));
    other.call("del t");
    other.call("rpush t a");
    assert_eq!(client.reply(), Some(array(&[bulk("t"), bulk("a")])));
}

#[test]
fn commands_on_any_key_take_streams() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    for number in 1..=3 {
        client.call(&format!("xadd s {number}-0 f v{number}"));
    }
    client.call("xdel s 2-0");
    assert_eq!(client.call("type s"), Reply::Status("stream".into()));
    assert_eq!(client.call("object encoding s"), bulk("stream"));
    assert_eq!(client.call("copy s c"), Reply::Integer(1));
    assert_eq!(client.call("rename s r"), ok());
    assert_eq!(client.call("expire r 1000"), Reply::Integer(1));
    assert_eq!(client.call("ttl r"), Reply::Integer(1000));
    let described = client.call("xinfo stream r");
    assert_eq!(client.call("xinfo stream c"), described, "the copy has the state, too");
    let listed = array(&[bulk("0"), array(&[bulk("c")])]);
    assert_eq!(client.call("del r"), Reply::Integer(1));
    client.call("set text 1");
    assert_eq!(client.call("scan 0 type stream"), listed);
    // A stream without entries remains, and so does its last id.
    client.call("xtrim c maxlen 0");
    assert_eq!(client.call("copy c empty"), Reply::Integer(1));
    assert_eq!(client.call("exists c empty"), Reply::Integer(2));
    assert_eq!(client.call("xrange empty - +"), Reply::Array(vec![]));
    assert!(matches!(client.call("xadd empty 3-0 f v"), Reply::Error(_)));
    assert_eq!(client.call("pexpire c 1"), Reply::Integer(1));
    std::thread::sleep(Duration::from_millis(5));
    assert_eq!(client.call("xlen c"), Reply::Integer(0));
    assert_eq!(client.call("xadd c 1-0 f v"), bulk("1-0"), "it is a new one");
}

#[test]
fn long_entries_and_long_streams_are_read_trimmed_and_removed() {
    const ENTRIES: usize = 5_000;
    let server = Server::start(|options| {
        options.durability = Policy::Every(ebbtide_core::Span::from_us(100_000));
    });
    let mut client = server.client();
    let long = vec![b'v'; 200_000];
    let id = client.command(&[b"xadd", b"long", b"1-1", b"f", &long]);
    assert_eq!(id, bulk("1-1"));
    let fields: Vec<String> = (0..600).map(|number| format!("field:{number}")).collect();
    let words = ["xadd", "long", "1-2"].into_iter().chain(fields.iter().map(String::as_str));
    let words: Vec<&[u8]> = words.map(str::as_bytes).collect();
    assert_eq!(client.command(&words), bulk("1-2"));
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let first = array(&[bulk("1-1"), array(&[bulk("f"), Reply::Bulk(long)])]);
    let both = array(&[first, entry("1-2", &fields)]);
    assert_eq!(client.call("xrange long - +"), both);
    assert_eq!(client.call("copy long other"), Reply::Integer(1));
    assert_eq!(client.call("xrange other - +"), both);
    for number in 1..=ENTRIES {
        client.request(&[b"xadd", b"s", number.to_string().as_bytes(), b"f", b"some value"]);
    }
    (0..ENTRIES).for_each(|_| assert!(matches!(client.reply(), Some(Reply::Bulk(_)))));
    let Reply::Array(all) = client.call("xrange s - +") else { panic!("entries") };
    assert_eq!(all.len(), ENTRIES);
    let Reply::Array(mut back) = client.call("xrevrange s + -") else { panic!("entries") };
    back.reverse();
    assert!(all == back);
    assert_eq!(client.call("xtrim s maxlen 1000"), Reply::Integer(4_000));
    assert_eq!(client.call("xadd s maxlen 10 5001 f v"), bulk("5001-0"));
    assert_eq!(client.call("xlen s"), Reply::Integer(10));
    let Reply::Array(left) = client.call("xrange s - +") else { panic!("entries") };
    assert_eq!(left[..9], all[ENTRIES - 9..]);
    assert_eq!(client.call("del s long other"), Reply::Integer(3));
}

#[test]
fn a_stream_and_its_state_survive_a_restart() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let start = || {
        Server::start(|options| {
            options.data = folder.path().join("store");
            options.durability = Policy::Always;
        })
    };
    let server = start();
    let mut client = server.client();
    for number in 1..=300 {
        client.call(&format!("xadd s {number} f value:{number}"));
    }
    client.call("xadd empty 8-8 f v");
    client.call("xdel empty 8-8");
    client.call("xdel s 300");
    drop((client, server));
    let server = start();
    let mut client = server.client();
    assert_eq!(client.call("xlen s"), Reply::Integer(299));
    let last = array(&[entry("299-0", &["f", "value:299"])]);
    assert_eq!(client.call("xrevrange s + - count 1"), last);
    for key in ["s", "empty"] {
        assert!(matches!(client.call(&format!("xadd {key} 8-8 f v")), Reply::Error(_)));
    }
    assert_eq!(client.call("xadd s 300-* f v"), bulk("300-1"));
    assert_eq!(client.call("xlen empty"), Reply::Integer(0));
}
