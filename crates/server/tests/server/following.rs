//! The server follows a stock `redis-server`: it copies its keys, makes its changes, resumes after
//! a cut, and takes over.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ebbtide_core::Span;
use ebbtide_core::durability::Policy;
use ebbtide_server::TlsFiles;
use ebbtide_server::following::Master;
use ebbtide_server::log::Log;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, Server, ok};
use super::migrate::read;
use super::redis::Redis;
use super::tls;

/// A relay in front of a server, which can cut and delay its connections.
struct Relay {
    address: SocketAddr,
    open: Arc<Mutex<Vec<TcpStream>>>,
    /// True while nothing is passed on.
    delays: Arc<AtomicBool>,
}

impl Relay {
    fn to(target: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (open, delays) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let relay = Relay { address, open: open.clone(), delays: delays.clone() };
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(target) else { continue };
                let copies = [&near, &far].map(|socket| socket.try_clone().expect("a descriptor"));
                open.lock().expect("no panic").extend(copies);
                let pairs = [
                    (near.try_clone().expect("a descriptor"), far.try_clone().expect("one")),
                    (far, near),
                ];
                for (mut from, mut to) in pairs {
                    let delays = delays.clone();
                    std::thread::spawn(move || {
                        let mut buffer = [0; 10_000];
                        while let Ok(count @ 1..) = from.read(&mut buffer) {
                            while delays.load(Ordering::SeqCst) {
                                std::thread::yield_now();
                            }
                            if to.write_all(&buffer[..count]).is_err() {
                                break;
                            }
                        }
                        let _ = to.shutdown(std::net::Shutdown::Both);
                    });
                }
            }
        });
        relay
    }

    fn cut(&self) {
        for socket in self.open.lock().expect("no panic").drain(..) {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn master(address: SocketAddr) -> Option<Master> {
    Some(Master { host: address.ip().to_string(), port: address.port() })
}

fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !is() {
        assert!(Instant::now() < until, "{what}");
        std::thread::yield_now();
    }
}

/// A field of a section of `INFO`.
fn field(client: &mut Client, name: &str) -> String {
    let Reply::Bulk(text) = client.call("info everything") else { panic!("text") };
    let text = String::from_utf8(text).expect("text");
    let start = format!("{name}:");
    text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default().to_string()
}

/// Waits until the server has made all changes of the master.
fn wait_until_same(ours: &mut Client, theirs: &mut Client) {
    wait_for("the same offset", || {
        let offset = field(theirs, "master_repl_offset");
        field(ours, "master_link_status") == "up" && field(ours, "slave_repl_offset") == offset
    });
}

/// A random change.
fn change(rng: &mut Pcg64Mcg) -> String {
    const LINES: &[&str] = &[
        "set sN V",
        "set sN V px 60000",
        "setex sN 100 V",
        "append sN V",
        "incr nN",
        "incrbyfloat fN 0.5",
        "setrange sN 3 V",
        "setbit bN 70 1",
        "getset sN V",
        "getdel sN",
        "del sN",
        "expire sN 1000",
        "persist sN",
        "mset sN V tN V",
        "rename tN sN",
        "hset hN V V W W",
        "hdel hN V",
        "hincrby iN V 3",
        "hincrbyfloat jN V 1.5",
        "sadd eN V W",
        "srem eN V",
        "spop eN",
        "sunionstore uN eN e1",
        "smove eN e1 V",
        "zadd zN 1 V 2 W",
        "zincrby zN 1.5 V",
        "zrem zN V",
        "zpopmin zN",
        "zunionstore yN 2 zN z1",
        "rpush lN V W",
        "lpush lN V",
        "lpop lN",
        "rpop lN 2",
        "ltrim lN 0 5",
        "lset lN 0 V",
        "linsert lN before V W",
        "lmove lN l1 left right",
        "pfadd pN V",
        "geoadd gN 13 38 V",
        "copy sN cN",
        "unlink cN",
        "select 0",
        "select 3",
        "setnx sN V",
        "getex sN px 50000",
        "bitop not bN sN",
        "eval redis.call('set',KEYS[1],'V');redis.call('incr','n1') 1 sN",
        "blpop lN 1",
    ];
    let line = LINES[rng.random_range(0..LINES.len())];
    let mut words = Vec::new();
    for word in line.split(' ') {
        let word = word.replace('N', &rng.random_range(0..6).to_string());
        words.push(match word.as_str() {
            "V" => format!("v{}", rng.random_range(0..9)),
            "W" => format!("w{}", rng.random_range(0..9)),
            _ => word,
        });
    }
    words.join(" ")
}

/// Makes random changes, some in transactions, and a large one now and then.
fn write(client: &mut Client, rng: &mut Pcg64Mcg, count: usize) {
    for at in 0..count {
        if at % 50 == 7 {
            client.call("multi");
            (0..3).for_each(|_| drop(client.call(&change(rng))));
            client.call("exec");
        }
        if at % 200 == 11 {
            let long = "long".repeat(rng.random_range(1..60_000));
            client.call(&format!("set long{} {long}", at % 3));
        }
        client.call(&change(rng));
    }
}

fn assert_same(ours: &mut Client, theirs: &mut Client) {
    for database in [0, 3] {
        for client in [&mut *ours, &mut *theirs] {
            assert_eq!(client.call(&format!("select {database}")), ok());
        }
        let [one, other] = [&mut *ours, &mut *theirs].map(|client| {
            let Reply::Array(keys) = client.call("keys *") else { panic!("keys") };
            let mut keys: Vec<String> = keys
                .into_iter()
                .map(|key| match key {
                    Reply::Bulk(key) => String::from_utf8(key).expect("text"),
                    _ => panic!("a key"),
                })
                .collect();
            keys.sort();
            keys
        });
        assert_eq!(one, other, "database {database}");
        for key in one {
            assert_eq!(read(ours, &key), read(theirs, &key), "{key}");
            let times = [&mut *ours, &mut *theirs].map(|c| c.call(&format!("pexpiretime {key}")));
            assert_eq!(times[0], times[1], "{key}");
        }
    }
}

/// Starts a Redis that speaks TLS too. Returns the address for that.
fn start_with_tls(files: &TlsFiles) -> Option<(Redis, SocketAddr)> {
    let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port().to_string();
    let [certificate, key] = [&files.certificate, &files.key].map(|path| path.to_str());
    let (certificate, key) = (certificate?, key?);
    let options = ["--tls-port", &port, "--tls-auth-clients", "no", "--tls-cert-file", certificate];
    let options = [&options[..], &["--tls-key-file", key, "--tls-ca-cert-file", certificate]];
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let redis = Redis::start_with(folder, &options.concat())?;
    Some((redis, ([127, 0, 0, 1], port.parse().ok()?).into()))
}

#[test]
#[ignore = "slow"]
fn a_redis_under_writes_is_followed_through_cuts_until_the_server_takes_over() {
    let (_certificate, files) = tls::files();
    for (diskless, secure) in [("yes", false), ("no", false), ("yes", true)] {
        let Some((mut redis, port)) = start_with_tls(&files) else { return };
        let theirs = &mut redis.client;
        assert_eq!(theirs.call(&format!("config set repl-diskless-sync {diskless}")), ok());
        assert_eq!(theirs.call("config set repl-diskless-sync-delay 0"), ok());
        assert_eq!(theirs.call("config set requirepass secret"), ok());
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        write(theirs, &mut rng, 500);
        let plain = theirs.other_end().peer_addr().expect("an address");
        let relay = Relay::to(if secure { port } else { plain });
        let server = Server::start(|options| {
            options.master = master(relay.address);
            options.master_password = Some("secret".into());
            options.master_tls = secure.then(|| tls::trusting(&files));
        });
        let mut ours = server.client();
        wait_until_same(&mut ours, theirs);
        let copies = field(theirs, "sync_full");
        for _ in 0..5 {
            write(theirs, &mut rng, 300);
            relay.cut();
            write(theirs, &mut rng, 300);
        }
        wait_until_same(&mut ours, theirs);
        assert_eq!(field(theirs, "sync_full"), copies);
        assert_ne!(field(theirs, "sync_partial_ok"), "0");
        assert_eq!(field(&mut ours, "role"), "slave");
        let readonly = "READONLY You can't write against a read only replica.";
        assert_eq!(ours.call("set mine 1"), Reply::Error(readonly.into()));
        let Reply::Error(text) = ours.call("eval return(redis.call('set',KEYS[1],'x')) 1 k") else {
            panic!("a replica was changed");
        };
        assert!(text.contains("READONLY"), "{text}");
        assert!(matches!(ours.call("get s1"), Reply::Bulk(_) | Reply::Null));
        assert_eq!(theirs.call("wait 1 60000"), Reply::Integer(1));
        assert_eq!(field(&mut ours, "master_changes_refused"), "0");
        assert_eq!(ours.call("replicaof no one"), ok());
        assert_eq!(field(&mut ours, "role"), "master");
        assert_same(&mut ours, theirs);
        assert_eq!(ours.call("set mine 1"), ok());
    }
}

#[test]
fn a_master_whose_certificate_is_not_trusted_is_not_followed() {
    let [(_certificate, files), (_other, others)] = [tls::files(), tls::files()];
    let Some((mut redis, address)) = start_with_tls(&files) else { return };
    redis.client.call("set theirs 1");
    let (log, told) = channel();
    let server = Server::start(|options| {
        options.master = master(address);
        options.master_tls = Some(tls::trusting(&others));
        options.log = Log::to(move |event| drop(log.send(event.text)));
    });
    let reason = told.iter().find(|text| text.contains("is down")).expect("it is told");
    assert!(reason.contains("invalid peer certificate"), "{reason}");
    let mut ours = server.client();
    assert_eq!(field(&mut ours, "master_link_status"), "down");
    assert_eq!(ours.call("get theirs"), Reply::Null);
}

/// The master made these changes before the keys had expired.
#[test]
fn changes_that_come_after_the_expiry_of_their_keys_are_those_of_the_master() {
    let Some(mut redis) = Redis::start() else { return };
    let theirs = &mut redis.client;
    theirs.call("config set repl-diskless-sync-delay 0");
    let relay = Relay::to(theirs.other_end().peer_addr().expect("an address"));
    let server = Server::start(|options| options.master = master(relay.address));
    let mut ours = server.client();
    wait_until_same(&mut ours, theirs);
    relay.delays.store(true, Ordering::SeqCst);
    theirs.call("multi");
    for (make, change) in [
        ("set stays 1", "persist stays"),
        ("set longer 1", "pexpire longer 1000000"),
        ("set moved 1", "copy moved copied"),
        ("set number 1", "incr number"),
        ("rpush list a", "rpush list b"),
        ("sadd members a", "sunionstore union members"),
        ("set gone 1", "get gone"),
    ] {
        theirs.call(make);
        let key = make.split(' ').nth(1).expect("a key");
        theirs.call(&format!("pexpire {key} 20"));
        theirs.call(change);
    }
    theirs.call("persist number");
    theirs.call("persist list");
    assert!(matches!(theirs.call("exec"), Reply::Array(_)));
    wait_for("their expiry", || theirs.call("dbsize") == Reply::Integer(5));
    relay.delays.store(false, Ordering::SeqCst);
    wait_until_same(&mut ours, theirs);
    assert_same(&mut ours, theirs);
    assert_eq!(field(&mut ours, "master_changes_refused"), "0");
}

#[test]
#[ignore = "slow"]
fn a_server_that_follows_can_be_stopped_and_killed_and_copies_again() {
    let Some(mut redis) = Redis::start() else { return };
    let address = redis.client.other_end().peer_addr().expect("an address");
    redis.client.call("config set repl-diskless-sync-delay 0");
    let mut rng = Pcg64Mcg::seed_from_u64(8);
    write(&mut redis.client, &mut rng, 300);
    for _ in 0..3 {
        let server = Server::start(|options| {
            options.master = master(address);
            options.durability = Policy::Every(Span::from_us(100_000));
        });
        write(&mut redis.client, &mut rng, 200);
        server.end().expect("it ends in the midst");
    }
    let server = Server::start(|_| ());
    let mut ours = server.client();
    ours.call("set old 1");
    assert_eq!(ours.call(&format!("replicaof 127.0.0.1 {}", address.port())), ok());
    write(&mut redis.client, &mut rng, 200);
    wait_until_same(&mut ours, &mut redis.client);
    let Reply::Array(role) = ours.call("role") else { panic!("a role") };
    assert_eq!(role[3], Reply::Bulk(b"connected".to_vec()));
    // The connection of the follower is closed: the keys are copied again.
    let Reply::Bulk(list) = ours.call("client list") else { panic!("a list") };
    let list = String::from_utf8(list).expect("text");
    let follower = list.lines().rfind(|line| line.contains("addr=:0")).expect("it is there");
    let id =
        follower.split(' ').next().and_then(|word| word.strip_prefix("id=")).expect("a number");
    let copies = field(&mut redis.client, "sync_full");
    assert_eq!(ours.call(&format!("client kill id {id}")), Reply::Integer(1));
    write(&mut redis.client, &mut rng, 200);
    wait_for("another copy", || field(&mut redis.client, "sync_full") != copies);
    wait_until_same(&mut ours, &mut redis.client);
    assert_eq!(ours.call("replicaof no one"), ok());
    assert_same(&mut ours, &mut redis.client);
}

#[test]
fn a_master_that_is_none_is_tried_again_and_bad_masters_are_refused() {
    let server = Server::start(|_| ());
    let mut client = server.client();
    for line in ["replicaof localhost 0", "replicaof localhost 70000", "slaveof localhost x"] {
        assert_eq!(client.call(line), Reply::Error("ERR Invalid master port".into()));
    }
    client.call("set key 1");
    // A server that is no Redis.
    let other = Server::start(|_| ());
    assert_eq!(client.call(&format!("replicaof 127.0.0.1 {}", other.address.port())), ok());
    assert_eq!(field(&mut client, "master_link_status"), "down");
    assert_eq!(client.call("replicaof no one"), ok());
    assert_eq!(client.call("get key"), Reply::Bulk(b"1".to_vec()));
    assert_eq!(client.call("set key 2"), ok());
}
