//! Servers that are nodes of a cluster answer as the nodes of a stock Redis Cluster do.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ebbtide_core::durability::Policy;
use ebbtide_server::cluster;
use ebbtide_server::log::Log;
use ebbtide_server::{ClusterFile, ServeOptions};
use ebbtide_structures::keyspace::{SLOTS, slot};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, Server, bulk, ok};
use super::redis::Redis;

/// Time until a Redis that starts counts the cluster as up, and more.
const UP_WITHIN: Duration = Duration::from_secs(60);

/// Returns ports that are free.
fn ports(count: usize) -> Vec<u16> {
    let listen = |_| TcpListener::bind("127.0.0.1:0").expect("a port");
    let listeners: Vec<TcpListener> = (0..count).map(listen).collect();
    listeners.iter().map(|one| one.local_addr().expect("an address").port()).collect()
}

/// Writes the file of a cluster: the port and the slots of each node. Their names are numbers.
fn write_file(folder: &Path, nodes: &[(u16, &str)]) -> PathBuf {
    let mut text = String::new();
    for (index, (port, slots)) in nodes.iter().enumerate() {
        let _ = write!(
            text,
            "[[node]]\nname = \"{index}\"\nhost = \"127.0.0.1\"\nport = {port}\nslots = [{slots}]\n\n"
        );
    }
    let path = folder.join("slots.toml");
    std::fs::write(&path, text).expect("a file");
    path
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// Starts the node of an index.
fn start(path: &Path, index: usize, port: u16, change: impl FnOnce(&mut ServeOptions)) -> Server {
    Server::start(|options| {
        options.port = port;
        options.cluster = Some(ClusterFile { path: path.into(), node: index.to_string() });
        change(options);
    })
}

/// Starts a node that has all slots.
fn start_alone(change: impl FnOnce(&mut ServeOptions)) -> Server {
    let port = ports(1)[0];
    start(&write_file(folder().path(), &[(port, "\"0-16383\"")]), 0, port, change)
}

/// Starts three nodes, each with a third of the slots.
fn start_three() -> Vec<Server> {
    let (folder, ports) = (folder(), ports(3));
    let slots = ["\"0-5460\"", "\"5461-10922\"", "\"10923-16383\""];
    let nodes: Vec<(u16, &str)> = ports.iter().copied().zip(slots).collect();
    let path = write_file(folder.path(), &nodes);
    (0..3).map(|index| start(&path, index, ports[index], |_| {})).collect()
}

/// Returns keys of different slots that `has` holds for.
fn keys_of(count: usize, has: impl Fn(u16) -> bool) -> Vec<String> {
    (0..)
        .map(|number: u32| number.to_string())
        .filter(|key| has(slot(key.as_bytes())))
        .take(count)
        .collect()
}

/// The slots of a cluster of two nodes.
#[derive(Clone, Copy, PartialEq)]
enum Slots {
    /// Each has a node.
    All,
    /// No node has the slots above 16000.
    Some,
}

/// A stock server, and ours as its twin: node 0 of two, whose other node does not run.
struct Twins {
    redis: Redis,
    ours: Client,
    /// Replaces names of keys in a line: two keys of this node, two of the other and one with a
    /// slot above 16000.
    words: [(&'static str, String); 5],
    _server: Server,
    /// Ports of both.
    ports: [u16; 2],
}

impl Twins {
    fn start(slots: Slots) -> Option<Twins> {
        let last = if slots == Slots::All { 16_383 } else { 16_000 };
        let of_other = format!("8192-{last}");
        let ports = ports(3);
        let (own, other, bus) = (ports[0], ports[1], ports[2]);
        let here = folder();
        let quoted = format!("\"{of_other}\"");
        let path = write_file(here.path(), &[(own, "\"0-8191\""), (other, &quoted)]);
        let cluster = cluster::read(&path, "0").expect("it is right");
        let ids: Vec<String> = cluster.nodes().iter().map(cluster::Node::id).collect();
        let of_redis = folder();
        std::fs::write(
            of_redis.path().join("nodes.conf"),
            format!(
                "{} 127.0.0.1:1@2 myself,master - 0 0 1 connected 0-8191\n\
                 {} 127.0.0.1:{other}@{other} master - 0 0 2 connected {of_other}\n\
                 vars currentEpoch 2 lastVoteEpoch 0\n",
                ids[0], ids[1]
            ),
        )
        .expect("a file");
        let bus = bus.to_string();
        let options = [
            ["--cluster-enabled", "yes"],
            ["--cluster-port", &bus],
            // It must not notice that the other node is not there.
            ["--cluster-node-timeout", "100000000"],
        ];
        let mut redis = Redis::start_with(of_redis, options.as_flattened())?;
        let server = start(&path, 0, own, |_| {});
        let (here, there) =
            (keys_of(2, |slot| slot < 8192), keys_of(2, |slot| (8192..=16_000).contains(&slot)));
        let nowhere = keys_of(1, |slot| slot > 16_000);
        let words = ["HERE", "NEAR", "THERE", "FAR", "NOWHERE"];
        let keys = [&here[..], &there[..], &nowhere[..]].concat();
        let words = std::array::from_fn(|index| (words[index], keys[index].clone()));
        let until = Instant::now() + UP_WITHIN;
        // It counts itself as down for some time after its start.
        let get = format!("get {}", here[0]);
        let mut is_ready = || {
            let Reply::Bulk(info) = redis.client.call("cluster info") else { panic!("text") };
            let knows_both = String::from_utf8_lossy(&info).contains("cluster_size:2");
            knows_both && (slots == Slots::Some || redis.client.call(&get) == Reply::Null)
        };
        while !is_ready() {
            assert!(Instant::now() < until, "the cluster of Redis is down");
            std::thread::sleep(Duration::from_millis(10));
        }
        let ports = [own, redis.port()];
        Some(Twins { redis, ours: server.client(), words, _server: server, ports })
    }

    fn line(&self, line: &str) -> Vec<String> {
        let word = |word: &str| {
            let known = self.words.iter().find(|(name, _)| *name == word);
            known.map_or(word.to_string(), |(_, key)| key.clone())
        };
        line.split(' ').map(word).collect()
    }

    /// Sends a command to both, and returns both replies: of Redis, and ours.
    fn both(&mut self, words: &[String]) -> [Reply; 2] {
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        [self.redis.client.command(&words), self.ours.command(&words)]
    }

    fn compare(&mut self, words: &[String]) {
        let [expected, found] = self.both(words);
        assert_eq!(found, expected, "{words:?}");
    }
}

/// Lines of commands; the keys in capital letters are of different nodes.
const LINES: &[&str] = &[
    "get HERE",
    "get THERE",
    "get NOWHERE",
    "mget HERE NEAR",
    "mget HERE HERE",
    "mget HERE THERE",
    "mget THERE HERE",
    "mget NOWHERE THERE",
    "mget HERE NOWHERE",
    "mset HERE 1 THERE 2",
    "msetnx THERE 1 HERE 2",
    "del HERE THERE",
    "get HERE HERE",
    "sort HERE by x*",
    "sort HERE by nosort",
    "sort HERE get #",
    "sort HERE get x",
    "sort HERE store THERE",
    "sort_ro HERE by x*",
    "sort THERE by x*",
    "publish THERE m",
    "spublish THERE m",
    "spublish HERE m",
    "ssubscribe THERE",
    "ssubscribe HERE NEAR",
    "sunsubscribe THERE",
    "sunsubscribe",
    "ssubscribe HERE",
    "get HERE",
    "ping",
    "pubsub shardchannels",
    "sunsubscribe HERE",
    "get HERE",
    "pubsub shardnumsub HERE THERE",
    "multi",
    "spublish HERE m",
    "ssubscribe HERE",
    "exec",
    "multi",
    "ssubscribe THERE",
    "exec",
    "command getkeys spublish HERE m",
    "command getkeys ssubscribe HERE",
    "watch THERE",
    "watch HERE NEAR",
    "watch HERE",
    "unwatch",
    "exec",
    "multi",
    "get THERE",
    "get HERE",
    "exec",
    "multi",
    "get HERE",
    "get NEAR",
    "exec",
    "exec",
    "multi",
    "watch THERE",
    "exec",
    "multi",
    "set HERE 1",
    "eval return{} 0",
    "ping",
    "exec",
    "multi",
    "exec",
    "multi",
    "get",
    "exec",
    "multi",
    "get HERE",
    "discard",
    "get HERE",
    "select 3",
    "select 0",
    "select 99",
    "select x",
    "move HERE 1",
    "move THERE 1",
    "copy HERE HERE db 1",
    "copy HERE HERE db 99",
    "copy HERE HERE",
    "copy HERE NEAR",
    "swapdb 0 1",
    "replicaof 127.0.0.1 1",
    "slaveof no one",
    "migrate 127.0.0.1 1 THERE 0 10",
    "object encoding THERE",
    "object freq NOWHERE",
    "xread streams THERE 0",
    "xread streams HERE THERE 0 0",
    "xread block 0 streams THERE 0",
    "xreadgroup group g c streams THERE >",
    "blpop THERE 0",
    "blpop HERE THERE 0",
    "blmove HERE THERE left left 0",
    "blmpop 0 2 HERE THERE left",
    "bzmpop 0 1 THERE min",
    "rename HERE THERE",
    "rename THERE FAR",
    "rename HERE NEAR",
    "memory usage THERE",
    "xgroup create THERE g 0",
    "xinfo stream THERE",
    "bitop and HERE THERE",
    "lmpop 2 HERE THERE left",
    "lmpop 99 HERE THERE left",
    "zunionstore HERE 2 THERE FAR",
    "zinter 2 HERE THERE",
    "pfcount HERE THERE",
    "pfmerge THERE HERE",
    "georadius HERE 0 0 1 m store THERE",
    "geosearchstore THERE HERE bybox 1 1 m fromlonlat 0 0",
    "lcs HERE THERE",
    "smove HERE THERE x",
    "touch HERE THERE",
    "unlink THERE FAR",
    "dump NOWHERE",
    "restore THERE 0 x",
    "bitfield THERE get u8 0",
    "getex THERE bogus",
    "setex THERE",
    "asking",
    "get THERE",
    "readonly",
    "get THERE",
    "readwrite",
    "keys *",
    "scan 0",
    "dbsize",
    "randomkey",
    "flushall",
    "dbsize",
    "cluster keyslot THERE",
    "cluster countkeysinslot 0",
    "cluster countkeysinslot 16384",
    "cluster countkeysinslot -1",
    "cluster countkeysinslot x",
    "cluster getkeysinslot 0 10",
    "cluster getkeysinslot 16384 10",
    "cluster getkeysinslot 0 -1",
    "cluster getkeysinslot x 1",
    "cluster getkeysinslot 0 x",
    "cluster links",
    "cluster myid",
    "cluster replicas x",
    "cluster slaves x",
    "cluster count-failure-reports x",
    "cluster bogus",
    "cluster slots x",
    "cluster",
    "readonly x",
    "config get cluster-enabled",
    "eval return{} 0",
    "eval return{} 1 HERE",
    "eval return{} 1 THERE",
    "eval return{} 2 HERE THERE",
    "eval return{} 2 HERE NEAR",
    "eval return{} 99 HERE",
    "eval return{} x HERE",
    "evalsha 0123456789012345678901234567890123456789 1 THERE",
    "evalsha 0123456789012345678901234567890123456789 1 HERE",
];

#[test]
fn commands_get_the_replies_of_a_redis_that_has_the_same_slots() {
    for slots in [Slots::All, Slots::Some] {
        let Some(mut twins) = Twins::start(slots) else {
            eprintln!("there is no redis-server (Debian: redis-server): nothing to compare with");
            return;
        };
        for line in LINES {
            let words = twins.line(line);
            twins.compare(&words);
        }
    }
}

#[test]
fn scripts_get_the_replies_of_a_redis_that_has_the_same_slots() {
    compare_scripts(Slots::All);
    compare_scripts(Slots::Some);
}

fn compare_scripts(slots: Slots) {
    let Some(mut twins) = Twins::start(slots) else { return };
    for (script, keys) in [
        ("return redis.call('get','THERE')", ""),
        ("return redis.pcall('get','THERE')", ""),
        ("return redis.call('set','HERE','1')", ""),
        ("return redis.call('mget','HERE','NEAR')", ""),
        ("return redis.call('mget','HERE','THERE')", ""),
        ("return redis.call('get','NOWHERE')", ""),
        ("redis.call('get','HERE') return redis.call('get','NEAR')", ""),
        ("#!lua\nredis.call('get','HERE') return redis.call('get','NEAR')", ""),
        ("#!lua\nreturn redis.call('get','NEAR')", "HERE"),
        ("#!lua flags=allow-cross-slot-keys\nreturn redis.call('get','NEAR')", "HERE"),
        ("#!lua flags=no-cluster\nreturn 1", ""),
        ("#!lua flags=no-cluster\nreturn 1", "HERE"),
        ("return redis.call('mget',KEYS[1],'NEAR')", "HERE"),
        ("return redis.call('get','NEAR')", "HERE"),
        ("return redis.call('cluster','keyslot','x')", ""),
        ("return redis.call('cluster','countkeysinslot','1')", ""),
        ("return redis.call('cluster','reset')", ""),
        ("return redis.call('spublish','HERE','m')", ""),
        ("return redis.call('spublish','THERE','m')", ""),
        ("return redis.call('select','1')", ""),
        ("return redis.call('readonly')", ""),
        ("return redis.call('memory','usage','THERE')", ""),
        ("return redis.call('sort','HERE','by','x*')", ""),
    ] {
        let script = twins.words.iter().fold(script.to_string(), |script, (name, key)| {
            script.replace(&format!("'{name}'"), &format!("'{key}'"))
        });
        let mut words = vec!["eval".to_string(), script, usize::from(!keys.is_empty()).to_string()];
        words.extend(keys.split_whitespace().flat_map(|key| twins.line(key)));
        twins.compare(&words);
    }
}

#[test]
fn slots_of_random_keys_are_those_of_redis() {
    let Some(mut twins) = Twins::start(Slots::All) else { return };
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    for _ in 0..1_000 {
        let letters = ['{', '}', 'a', 'b', '\r', 'é'];
        let length = rng.random_range(0..9);
        let key: String =
            (0..length).map(|_| letters[rng.random_range(0..letters.len())]).collect();
        twins.compare(&["cluster".into(), "keyslot".into(), key]);
    }
}

/// Replaces the port of a server.
fn with_port(reply: &Reply, port: u16) -> Reply {
    match reply {
        Reply::Integer(number) if *number == i64::from(port) => Reply::Integer(0),
        Reply::Array(parts) => {
            Reply::Array(parts.iter().map(|part| with_port(part, port)).collect())
        }
        other => other.clone(),
    }
}

/// Sorts the pairs of maps within a reply, and arrays of arrays.
fn sorted(reply: &Reply) -> Reply {
    let Reply::Array(parts) = reply else { return reply.clone() };
    let mut parts: Vec<Reply> = parts.iter().map(sorted).collect();
    if parts.first() == Some(&bulk("id")) {
        let mut pairs: Vec<&[Reply]> = parts.chunks(2).collect();
        pairs.sort_by_key(|pair| format!("{:?}", pair[0]));
        return Reply::Array(pairs.concat());
    }
    if parts.iter().all(|part| matches!(part, Reply::Array(_))) {
        parts.sort_by_key(|part| format!("{part:?}"));
    }
    Reply::Array(parts)
}

#[test]
fn clients_find_the_nodes_as_in_redis() {
    compare_nodes(Slots::All);
    compare_nodes(Slots::Some);
}

fn compare_nodes(slots: Slots) {
    let Some(mut twins) = Twins::start(slots) else { return };
    let ports = [twins.ports[1], twins.ports[0]];
    for line in ["cluster slots", "cluster shards"] {
        for hello in ["hello 3", "hello 2"] {
            let words = twins.line(hello);
            twins.both(&words);
            let words = twins.line(line);
            let replies = twins.both(&words);
            let [expected, found] = [0, 1].map(|one| sorted(&with_port(&replies[one], ports[one])));
            assert_eq!(found, expected, "{line} after {hello}");
        }
    }
    let text = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("{other:?}"),
    };
    // In Redis, the bus and its messages add fields.
    let words = twins.line("cluster info");
    let replies = twins.both(&words);
    let [expected, found] = replies.map(|reply| text(&reply));
    for line in expected.lines().filter(|line| !line.contains("messages")) {
        assert!(found.contains(line), "{line}: {found}");
    }
    let words = twins.line("cluster nodes");
    let replies = twins.both(&words);
    // Without the bus: its port, and the times of pings.
    let line = |line: &str, port: u16| {
        let words: Vec<&str> = line.split(' ').collect();
        let address = words[1].split('@').next().expect("an address");
        let address = address.replace(&format!(":{port}"), ":");
        (
            words[0].to_string(),
            address,
            words[2..4].join(" "),
            words[6].to_string(),
            words[8..].join(" "),
        )
    };
    let [expected, found] = [0, 1].map(|one| {
        let text = text(&replies[one]);
        let mut lines: Vec<_> = text.trim_end().lines().map(|l| line(l, ports[one])).collect();
        lines.sort();
        lines
    });
    assert_eq!(found, expected);
}

#[test]
fn a_command_that_would_change_the_cluster_is_refused() {
    let server = start_alone(|_| {});
    let mut client = server.client();
    for line in [
        "addslots 1",
        "addslotsrange 1 2",
        "bumpepoch",
        "delslots 1",
        "delslotsrange 1 2",
        "failover",
        "flushslots",
        "forget x",
        "meet 127.0.0.1 1",
        "replicate x",
        "reset",
        "saveconfig",
        "set-config-epoch 1",
        "setslot 1 stable",
    ] {
        let name = line.split(' ').next().expect("a word").to_uppercase();
        let text = format!(
            "ERR CLUSTER {name} is refused: the file of --cluster-slots has the nodes and their slots"
        );
        assert_eq!(client.call(&format!("cluster {line}")), Reply::Error(text));
    }
    let Reply::Array(help) = client.call("cluster help") else { panic!("no lines") };
    assert!(help.contains(&Reply::Status("COUNTKEYSINSLOT <slot>".into())));
}

#[test]
fn a_node_says_that_it_is_one() {
    let server = start_alone(|_| {});
    let mut client = server.client();
    let Reply::Array(hello) = client.call("hello") else { panic!("no map") };
    assert!(hello.windows(2).any(|pair| pair == [bulk("mode"), bulk("cluster")]));
    let Reply::Bulk(info) = client.call("info") else { panic!("no text") };
    let info = String::from_utf8(info).expect("text");
    assert!(info.contains("redis_mode:cluster\r\n") && info.contains("cluster_enabled:1\r\n"));
}

#[test]
fn a_server_without_the_option_is_no_node() {
    let server = Server::start(|_| {});
    let mut client = server.client();
    let disabled = Reply::Error("ERR This instance has cluster support disabled".into());
    for line in
        ["cluster info", "cluster help", "cluster keyslot a", "readonly", "readwrite", "asking"]
    {
        assert_eq!(client.call(line), disabled, "{line}");
    }
    assert_eq!(client.call("mset a 1 b 2"), ok());
    assert_eq!(client.call("select 1"), ok());
    let Reply::Bulk(info) = client.call("info cluster") else { panic!("no text") };
    assert_eq!(info, b"# Cluster\r\ncluster_enabled:0\r\n");
}

/// Returns the keys of a slot.
fn keys_in(client: &mut Client, slot: u16, most: usize) -> Vec<String> {
    let Reply::Array(keys) = client.call(&format!("cluster getkeysinslot {slot} {most}")) else {
        panic!("no keys");
    };
    let key = |key: &Reply| match key {
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("{other:?}"),
    };
    let mut keys: Vec<String> = keys.iter().map(key).collect();
    keys.sort();
    keys
}

#[test]
fn the_keys_of_a_slot_are_counted_and_named() {
    const OF_A_TAG: usize = 3_000;
    let server = start_alone(|options| options.capacity_bytes = Some(128 << 20));
    let mut client = server.client();
    let mut expected = vec![0; usize::from(SLOTS)];
    let tagged = |tag: &str| (0..OF_A_TAG).map(|n| format!("{{{tag}}}{n:04}")).collect::<Vec<_>>();
    let keys =
        [tagged("x"), tagged("y"), (0..3_000).map(|n| format!("plain{n}")).collect()].concat();
    for key in &keys {
        client.request(&[b"set", key.as_bytes(), b"value"]);
        expected[usize::from(slot(key.as_bytes()))] += 1;
    }
    for key in &keys {
        assert_eq!(client.reply(), Some(ok()), "{key}");
    }
    for slot in 0..SLOTS {
        let slot = slot.to_string();
        client.request(&[b"cluster", b"countkeysinslot", slot.as_bytes()]);
    }
    for (slot, expected) in expected.iter().enumerate() {
        assert_eq!(client.reply(), Some(Reply::Integer(*expected)), "slot {slot}");
    }
    let of_x = slot(b"x");
    assert_eq!(keys_in(&mut client, of_x, OF_A_TAG * 2), tagged("x"));
    let some = keys_in(&mut client, of_x, 100);
    assert!(some.len() == 100 && some.iter().all(|key| tagged("x").contains(key)));
    assert_eq!(keys_in(&mut client, of_x, 0), Vec::<String>::new());
    assert_eq!(client.call("pexpire {x}0000 -1"), Reply::Integer(1));
    let count = format!("cluster countkeysinslot {of_x}");
    assert_eq!(client.call(&count), Reply::Integer(OF_A_TAG as i64 - 1));
    assert_eq!(client.call("multi"), ok());
    assert_eq!(client.call(&count), Reply::Status("QUEUED".into()));
    let counted = Reply::Array(vec![Reply::Integer(OF_A_TAG as i64 - 1)]);
    assert_eq!(client.call("exec"), counted);
    let script = format!("eval return(redis.call('cluster','countkeysinslot','{of_x}')) 0");
    assert_eq!(client.call(&script), Reply::Integer(OF_A_TAG as i64 - 1));
}

/// Follows redirections, as clients of Redis Cluster do.
fn routed(nodes: &mut [Client], first: usize, ports: &[u16], line: &str) -> (usize, Reply) {
    match nodes[first].call(line) {
        Reply::Error(text) if text.starts_with("MOVED ") => {
            let port: u16 = text.rsplit(':').next().expect("a port").parse().expect("a number");
            let there = ports.iter().position(|of| *of == port).expect("a node");
            assert_ne!(there, first, "{text}");
            (there, nodes[there].call(line))
        }
        reply => (first, reply),
    }
}

#[test]
fn three_nodes_hold_a_third_of_the_keys_each() {
    let servers = start_three();
    let ports: Vec<u16> = servers.iter().map(|server| server.address.port()).collect();
    let mut nodes: Vec<Client> = servers.iter().map(Server::client).collect();
    let mut held = [0; 3];
    for number in 0..300 {
        let (node, reply) =
            routed(&mut nodes, number % 3, &ports, &format!("set k{number} {number}"));
        assert_eq!(reply, ok());
        held[node] += 1;
    }
    for number in 0..300 {
        let (_, reply) = routed(&mut nodes, (number + 1) % 3, &ports, &format!("get k{number}"));
        assert_eq!(reply, bulk(&number.to_string()));
    }
    for (node, held) in nodes.iter_mut().zip(held) {
        assert_eq!(node.call("dbsize"), Reply::Integer(held));
        assert!(held > 60, "{held}");
    }
}

#[test]
fn redis_cli_follows_keys_and_finds_the_cluster_whole() {
    let servers = start_three();
    let port = servers[0].address.port().to_string();
    let cli = |words: &[&str]| {
        let output = Command::new("redis-cli").args(["-p", &port]).args(words).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    if cli(&["ping"]).is_none() {
        eprintln!("there is no redis-cli (Debian: redis-tools)");
        return;
    }
    for number in 0..20 {
        let (key, value) = (format!("k{number}"), number.to_string());
        assert_eq!(cli(&["-c", "set", &key, &value]).as_deref(), Some("OK\n"));
        assert_eq!(cli(&["-c", "get", &key]), Some(value + "\n"));
    }
    let address = format!("127.0.0.1:{port}");
    let checked = cli(&["--cluster", "check", &address]).expect("it runs");
    assert!(checked.contains("[OK] All nodes agree about slots configuration."), "{checked}");
    assert!(checked.contains("[OK] All 16384 slots covered."), "{checked}");
    assert!(checked.contains("[OK] 20 keys in 3 masters."), "{checked}");
}

/// Subscribes one client to channels of a slot and others, publishes with another, and returns all
/// replies and messages.
fn shard_messages(reader: &mut Client, writer: &mut Client) -> Vec<Reply> {
    assert!(matches!(reader.call("hello 3"), Reply::Array(_)));
    let mut seen = Vec::new();
    for line in ["subscribe news", "psubscribe n*", "ssubscribe news", "ssubscribe {news}2"] {
        seen.push(reader.call(line));
    }
    for line in
        ["spublish news one", "publish news two", "spublish {news}3 no", "spublish {news}2 x"]
    {
        seen.push(writer.call(line));
    }
    seen.push(writer.call("eval return(redis.call('spublish','news','lua')) 0"));
    for line in ["multi", "spublish news queued", "exec", "pubsub channels", "pubsub numsub news"] {
        seen.push(writer.call(line));
    }
    for line in ["pubsub shardnumsub news nothing", "pubsub shardchannels *2", "pubsub numpat"] {
        seen.push(writer.call(line));
    }
    // One message is of the channel, and one of the pattern.
    seen.extend((0..6).map(|_| reader.reply().expect("a message")));
    seen.push(reader.call("sunsubscribe news"));
    seen.push(writer.call("spublish news gone"));
    seen.push(reader.call("unsubscribe"));
    seen.push(reader.call("reset"));
    seen.push(writer.call("spublish {news}2 gone"));
    seen.push(writer.call("pubsub shardchannels"));
    seen
}

#[test]
fn channels_of_a_slot_are_apart_from_others_as_in_redis() {
    let server = Server::start(|options| options.cores = 2);
    let found = shard_messages(&mut server.client(), &mut server.client());
    let Some(redis) = Redis::start() else { return };
    assert_eq!(found, shard_messages(&mut redis.another(), &mut redis.another()));
}

#[test]
fn a_user_needs_the_right_to_channels_of_a_slot() {
    let server = Server::start(|_| {});
    let mut admin = server.client();
    assert_eq!(admin.call("acl setuser reader on nopass +@all resetchannels &news*"), ok());
    let mut client = server.client();
    assert_eq!(client.call("auth reader x"), ok());
    assert_eq!(client.call("spublish news1 m"), Reply::Integer(0));
    let denied =
        "NOPERM this user has no permissions to access one of the channels used as arguments";
    for line in ["spublish other m", "ssubscribe news1 other"] {
        assert_eq!(client.call(line), Reply::Error(denied.into()), "{line}");
    }
    assert!(matches!(client.call("ssubscribe news1"), Reply::Array(_)));
    assert_eq!(admin.call("acl setuser reader resetchannels"), ok());
    assert!(client.is_closed(), "it has lost its channel");
}

#[test]
fn keys_that_a_node_does_not_serve_are_told_at_its_start() {
    let (here, ports) = (folder(), ports(1));
    let data = here.path().join("store");
    let lines = Arc::new(Mutex::new(Vec::new()));
    let change = |options: &mut ServeOptions| {
        let lines = lines.clone();
        options.data = data.clone();
        options.durability = Policy::Always;
        options.log = Log::to(move |event| lines.lock().expect("no panic").push(event.text));
    };
    let server = Server::start(change);
    let mut client = server.client();
    for line in ["set a 1", "select 3", "set a 1", "set b 1", "select 15", "set a 1"] {
        assert_eq!(client.call(line), ok());
    }
    server.end().expect("it ends well");
    let path = write_file(here.path(), &[(ports[0], "\"0-16383\"")]);
    start(&path, 0, ports[0], change).end().expect("it ends well");
    let told = lines.lock().expect("no panic").clone();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("3 keys are in databases 1 to 15"), "{told:?}");
}
