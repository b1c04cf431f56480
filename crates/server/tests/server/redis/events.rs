//! Changes of keys are published as messages (`notify-keyspace-events`).

use std::time::Duration;

use ebbtide_server::events::Classes;

use super::Redis;
use crate::client::{Client, Reply, Server, bulk, ok};

/// Ends the messages of a command.
const END: &str = "__key:end";

/// Subscribes to the events of all keys.
fn listen(mut client: Client) -> Client {
    assert!(matches!(client.call("psubscribe __key*"), Reply::Array(_)));
    client
}

/// Returns the channel and the text of each message up to now.
fn heard(listener: &mut Client, sender: &mut Client) -> Vec<String> {
    assert_eq!(sender.call(&format!("publish {END} end")), Reply::Integer(1));
    let mut messages = Vec::new();
    loop {
        let Some(Reply::Array(parts)) = listener.reply() else { panic!("no message") };
        let [_, _, Reply::Bulk(channel), Reply::Bulk(text)] = &parts[..] else {
            panic!("{parts:?}");
        };
        let [channel, text] = [channel, text].map(|bytes| String::from_utf8_lossy(bytes));
        if channel == END {
            return messages;
        }
        messages.push(format!("{channel} {text}"));
    }
}

/// Commands of one connection, in order. Most cause events.
const LINES: &[&str] = &[
    "set a 1",
    "set a 2",
    "set a 3 ex 1000",
    "set a 4 keepttl",
    "set a 4 nx",
    "setnx n 1",
    "setex b 1000 x",
    "psetex b 100000 x",
    "getset a 5",
    "mset c 1 d 2",
    "msetnx e 1 f 2",
    "msetnx e 1 f 2",
    "append a x",
    "setrange a 1 yy",
    "setrange g 0 ",
    "setbit h 7 1",
    "bitfield h set u8 0 1",
    "bitfield h get u8 0",
    "bitop or i h a",
    "bitop or h none none2",
    "incr j",
    "decrby j 3",
    "incrbyfloat j 1.5",
    "getdel j",
    "getex a ex 100",
    "getex a persist",
    "getex a",
    "expire a 100",
    "expire none 100",
    "pexpireat a 99999999999999",
    "persist a",
    "persist a",
    "expire a -1",
    "get none",
    "mget b none none2",
    "exists none b",
    "strlen none",
    "getex none",
    "getdel none",
    "set miss 1 get",
    "copy none none2",
    "sunionstore none S0 T0",
    "zrangestore none Z0 0 -1",
    "rename b k",
    "renamenx k c",
    "rename k c",
    "copy c l",
    "copy c l replace",
    "copy c l",
    "move l 3",
    "del c none d",
    "unlink e f",
    "rpush L a b c",
    "lpush L z",
    "lpushx none x",
    "rpushx L y",
    "linsert L before a q",
    "lset L 0 w",
    "lrem L 0 q",
    "lrem L 0 none",
    "ltrim L 0 2",
    "lpop L",
    "rpop L 1",
    "lmove L M left right",
    "rpush L 1 2 3",
    "rpoplpush L M",
    "lmove L L left right",
    "lmpop 2 none L right",
    "blpop L 1",
    "brpop M 1",
    "blmove M L left left 1",
    "ltrim L 5 9",
    "sadd S a b c",
    "sadd S a",
    "srem S a",
    "srem S none",
    "smove S T b",
    "sunionstore U S T",
    "sinterstore U S T",
    "spop S",
    "hset H a 1 b 2",
    "hset H a 1",
    "hsetnx H a 1",
    "hsetnx H c 1",
    "hmset H d 1",
    "hincrby H a 1",
    "hincrbyfloat H a 1.5",
    "hdel H a",
    "hdel H b c d",
    "hget H a",
    "zadd Z 1 a 2 b 3 c 4 d 5 e",
    "zadd Z 1 a",
    "zadd Z xx ch 2 a",
    "zadd Z incr 1 a",
    "zincrby Z 1 a",
    "zrem Z b",
    "zrem Z none",
    "zpopmin Z",
    "zpopmax Z 1",
    "zmpop 1 Z min",
    "bzpopmax Z 1",
    "zadd Z 1 a 2 b 3 c",
    "zremrangebyrank Z 0 0",
    "zremrangebyscore Z 2 2",
    "zunionstore Y 1 Z",
    "zrangestore X Z 0 -1",
    "zremrangebylex Z - +",
    "zinterstore Y 2 Y Z",
    "eval redis.call('set',KEYS[1],'1');redis.call('lpush',KEYS[2],'1') 2 a NL",
    "geoadd G 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
    "geosearchstore R G fromlonlat 15 37 byradius 200 km",
    "geosearchstore R G fromlonlat 0 0 byradius 1 km",
    "geosearchstore R none fromlonlat 0 0 byradius 1 km",
    "pfadd P a b",
    "pfadd P a",
    "pfmerge Q P none",
    "pfcount P",
    "pfcount none P",
    "xadd T 1-1 f v",
    "xadd T 1-1 f v",
    "xadd T maxlen 1 1-2 f v",
    "xadd T maxlen 5 1-3 f v",
    "xadd none nomkstream 1-1 f v",
    "xdel T 1-2 1-1",
    "xdel T 7-7",
    "xsetid T 9-9",
    "xtrim T maxlen 0",
    "xtrim T maxlen 0",
    "xlen none",
    "xrange none - +",
    "xgroup create T g 0",
    "xgroup create S g 0 mkstream",
    "xgroup createconsumer S g c",
    "xgroup createconsumer S g c",
    "xgroup setid S g 0",
    "xadd S 1-1 f v",
    "xadd S 1-2 f v",
    "xreadgroup group g d streams S >",
    "xreadgroup group g d streams S 0",
    "xclaim S g e 0 1-1",
    "xautoclaim S g f 0 -",
    "xack S g 1-2",
    "xpending none g",
    "xack none g 1-1",
    "xgroup delconsumer S g f",
    "xgroup destroy S g",
    "xgroup destroy S g",
    "copy T U",
    "del T",
    "flushdb",
];

#[test]
fn the_events_of_commands_are_those_of_redis() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|options| options.cores = 2);
    let mut ours = server.client();
    let mut listeners = [listen(redis.another()), listen(server.client())];
    for client in [&mut redis.client, &mut ours] {
        assert_eq!(client.call("config set notify-keyspace-events AKEnm"), ok());
    }
    for line in LINES {
        let expected = redis.client.call(line);
        assert_eq!(expected, ours.call(line), "{line}");
        let mut expected = heard(&mut listeners[0], &mut redis.client);
        let mut found = heard(&mut listeners[1], &mut ours);
        // SMOVE and RENAME report two keys in another order.
        expected.sort();
        found.sort();
        assert_eq!(expected, found, "{line}");
    }
}

#[test]
fn the_classes_of_events_are_read_and_written_as_in_redis() {
    let Some(mut redis) = Redis::start() else { return };
    let server = Server::start(|_| {});
    let mut ours = server.client();
    for classes in ["AKE", "KEA", "Ex", "KEg$lshzxetdm", "Kgx", "K", "nm", "En$", "q", "AK!"] {
        let line = format!("config set notify-keyspace-events {classes}");
        assert_eq!(redis.client.call(&line), ours.call(&line), "{line}");
        let line = "config get notify-keyspace-events";
        assert_eq!(redis.client.call(line), ours.call(line), "{classes}");
    }
    // Redis 7.0 does not write the n here.
    assert_eq!(ours.call("config set notify-keyspace-events AKEn"), ok());
    let setting = Reply::Array(vec![bulk("notify-keyspace-events"), bulk("AnKE")]);
    assert_eq!(ours.call("config get notify-keyspace-events"), setting);
}

#[test]
fn only_events_of_the_wanted_classes_are_published_and_none_by_default() {
    let server = Server::start(|_| {});
    let (mut client, mut listener) = (server.client(), listen(server.client()));
    assert_eq!(client.call("set a 1"), ok());
    assert_eq!(heard(&mut listener, &mut client), [""; 0]);
    assert_eq!(client.call("config set notify-keyspace-events Kg"), ok());
    assert_eq!(client.call("set a 1"), ok());
    assert_eq!(client.call("del a"), Reply::Integer(1));
    assert_eq!(heard(&mut listener, &mut client), ["__keyspace@0__:a del"]);
    assert_eq!(client.call("config set notify-keyspace-events E$"), ok());
    assert_eq!(client.call("select 2"), ok());
    assert_eq!(client.call("set a 1"), ok());
    assert_eq!(client.call("del a"), Reply::Integer(1));
    assert_eq!(heard(&mut listener, &mut client), ["__keyevent@2__:set a"]);
}

#[test]
fn the_events_of_a_transaction_come_after_it_and_those_of_a_failed_one_never() {
    let server = Server::start(|options| options.cores = 2);
    let (mut client, mut listener) = (server.client(), listen(server.client()));
    assert_eq!(client.call("config set notify-keyspace-events E$l"), ok());
    for line in ["multi", "set a 1", "publish __key:own x", "rpush b 1"] {
        client.call(line);
    }
    assert_eq!(heard(&mut listener, &mut server.client()), [""; 0]);
    assert!(matches!(client.call("exec"), Reply::Array(_)));
    let mut messages = heard(&mut listener, &mut client);
    messages.sort();
    assert_eq!(messages, ["__key:own x", "__keyevent@0__:rpush b", "__keyevent@0__:set a"]);
    assert_eq!(client.call("watch a"), ok());
    assert_eq!(server.client().call("set a 2"), ok());
    for line in ["multi", "set a 3"] {
        client.call(line);
    }
    assert_eq!(client.call("exec"), Reply::Null);
    assert_eq!(heard(&mut listener, &mut client), ["__keyevent@0__:set a"]);
}

/// Waits for a message.
fn next(listener: &mut Client) -> [String; 2] {
    let Some(Reply::Array(parts)) = listener.reply() else { panic!("no message") };
    let [_, _, Reply::Bulk(channel), Reply::Bulk(text)] = &parts[..] else { panic!("{parts:?}") };
    [channel, text].map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

#[test]
fn a_key_that_expires_is_told_once_even_if_a_command_meets_it_first() {
    let server = Server::start(|options| options.cores = 2);
    let (mut client, mut listener) = (server.client(), listen(server.client()));
    listener.other_end().set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    assert_eq!(client.call("config set notify-keyspace-events Ex"), ok());
    for key in 0..500 {
        assert_eq!(client.call(&format!("set timed{key} {} px 20", "x".repeat(200))), ok());
    }
    std::thread::sleep(Duration::from_millis(25));
    for key in 0..500 {
        client.call(&format!("set timed{key} {}", "y".repeat(400)));
    }
    let mut told: Vec<String> = (0..500)
        .map(|_| next(&mut listener))
        .map(|[channel, key]| {
            assert_eq!(channel, "__keyevent@0__:expired");
            key
        })
        .collect();
    told.sort();
    told.dedup();
    assert_eq!(told.len(), 500);
    assert_eq!(heard(&mut listener, &mut client), [""; 0]);
    assert_eq!(client.call("get timed0"), bulk(&"y".repeat(400)));
}

#[test]
fn a_full_cache_tells_of_the_keys_that_it_gives_up() {
    let server = Server::start(|options| {
        options.capacity_bytes = Some(2 << 20);
        options.policy = "allkeys-random".parse().expect("a policy");
    });
    let (mut client, mut listener) = (server.client(), listen(server.client()));
    assert_eq!(client.call("config set notify-keyspace-events Ee"), ok());
    for key in 0..2_000 {
        assert_eq!(client.call(&format!("set key{key} {}", "x".repeat(1_500))), ok());
    }
    let Reply::Bulk(info) = client.call("info stats") else { panic!("no text") };
    let info = String::from_utf8_lossy(&info).into_owned();
    let evicted = info.lines().find_map(|line| line.strip_prefix("evicted_keys:"));
    let evicted: usize = evicted.and_then(|count| count.parse().ok()).expect("a number");
    // Upkeep may have given up more since.
    let messages = heard(&mut listener, &mut client);
    assert!(evicted > 0 && messages.len() >= evicted, "{evicted} of {}", messages.len());
    assert!(messages.iter().all(|message| message.starts_with("__keyevent@0__:evicted key")));
}

#[test]
fn events_are_published_from_the_start_if_an_option_says_so() {
    let server = Server::start(|options| {
        options.events = Classes::parse("K$").expect("letters");
    });
    let mut listener = listen(server.client());
    let mut client = server.client();
    assert_eq!(client.call("set a 1"), ok());
    assert_eq!(client.call("del a"), Reply::Integer(1));
    assert_eq!(heard(&mut listener, &mut client), ["__keyspace@0__:a set"]);
    let set = vec![bulk("notify-keyspace-events"), bulk("$K")];
    assert_eq!(client.call("config get notify-keyspace-events"), Reply::Array(set));
}
