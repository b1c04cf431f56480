//! Database files of a stock `redis-server` are imported, and it loads those that are exported.

use std::fs;
use std::io::{self, BufReader, Cursor, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use ebbtide_server::rdb::{
    Exporting, Fault, ImportError, Imported, Importing, Link, Piece, Reader, export, import,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, Server, now_ms, ok};
use super::migrate::read;
use super::redis::Redis;

/// DRAM bytes of a value.
const BYTES_MAX: usize = 1 << 20;

fn server() -> Server {
    Server::start(|options| options.capacity_bytes = Some(128 << 20))
}

fn link(address: SocketAddr) -> Link {
    Link::new(Box::new(TcpStream::connect(address).expect("a connection")))
}

/// Keeps the refused keys.
#[derive(Default)]
struct Refused(Vec<String>);

impl Importing for Refused {
    fn goes_on(&mut self, _offset: u64) -> bool {
        true
    }

    fn refused(&mut self, key: &[u8], database: u64, reason: &str) {
        self.0.push(format!("{} {database} {reason}", key.escape_ascii()));
    }
}

impl Exporting for Refused {
    fn goes_on(&mut self, _done: u64, _all: u64) -> bool {
        true
    }

    fn refused(&mut self, key: &[u8], database: u64, reason: &str) {
        Importing::refused(self, key, database, reason);
    }
}

fn import_file(path: &Path, server: &Server, replace: bool) -> (Imported, Vec<String>) {
    let mut refused = Refused::default();
    let file = BufReader::new(fs::File::open(path).expect("it is there"));
    let mut link = link(server.address);
    let imported = import(file, &mut link, (replace, BYTES_MAX), &mut refused).expect("imported");
    (imported, refused.0)
}

/// Makes keys in every encoding that Redis 7.0 writes.
fn fill(client: &mut Client) {
    let mut many = |start: &str, count: usize, element: &dyn Fn(usize) -> String| {
        let elements: Vec<String> = (0..count).map(element).collect();
        for elements in elements.chunks(1000) {
            let reply = client.call(&format!("{start} {}", elements.join(" ")));
            assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
        }
    };
    let long = "z".repeat(300);
    many("set integer", 1, &|_| "-70000".into());
    many("set short", 1, &|_| "text".into());
    many("set packed", 1, &|_| "ab".repeat(5_000));
    many("hset hash-pack", 20, &|at| format!("f{at} {}", at * 1_000_003));
    many("hset hash-table", 2000, &|at| format!("f{at} v{at}"));
    many("hset hash-long", 2, &|at| format!("f{at} {long}"));
    many("sadd set-integers", 100, &|at| format!("{}", at * at));
    many("sadd set-wide", 100, &|at| format!("-{}", at as u64 * 100_000_000_000));
    many("sadd set-table", 1000, &|at| format!("member{at}"));
    many("zadd zset-pack", 20, &|at| format!("{}.5 member{at}", at));
    many("zadd zset-skiplist", 1000, &|at| format!("{at} member{at}"));
    many("zadd zset-infinite", 1, &|_| "-inf low inf high 0.1 mid".into());
    many("rpush list-pack", 20, &|at| format!("{at}"));
    many("rpush list-nodes", 5000, &|at| format!("value{at}"));
    for (key, size) in [("list-small", "2"), ("list-bytes", "-1")] {
        assert_eq!(client.call(&format!("config set list-max-listpack-size {size}")), ok());
        let elements: Vec<String> = (0..300).map(|at| format!("{} {at}", "e".repeat(at))).collect();
        client.call(&format!("rpush {key} {}", elements.join(" ")));
    }
    // A node of its own.
    client.call(&format!("rpush list-plain a {} b", "p".repeat(20_000)));
    client.call("select 3");
    client.call("set elsewhere 7 px 1000000");
    client.call("hset elsewhere-hash a b");
    client.call("pexpire elsewhere-hash 2000000");
    client.call("select 0");
}

/// Reads all keys of the databases with the times at which they expire.
fn everything(client: &mut Client) -> Vec<String> {
    let mut all = Vec::new();
    for database in [0, 3] {
        assert_eq!(client.call(&format!("select {database}")), ok());
        let Reply::Array(keys) = client.call("keys *") else { panic!("keys") };
        for key in keys {
            let Reply::Bulk(key) = key else { panic!("a key") };
            let key = String::from_utf8(key).expect("text");
            let expires = client.call(&format!("pexpiretime {key}"));
            all.push(format!("{database} {key} {expires:?} {}", read(client, &key)));
        }
    }
    client.call("select 0");
    all.sort();
    all
}

fn assert_same(found: &[String], expected: &[String]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!(found == expected, "{found:.200} and {expected:.200}");
    }
}

#[test]
fn files_of_redis_with_every_encoding_are_imported_and_exported_again() {
    let Some(mut redis) = Redis::start() else { return };
    fill(&mut redis.client);
    for settings in [
        "hash-max-listpack-entries 128 list-compress-depth 0 rdbcompression yes",
        "hash-max-listpack-entries 0 list-compress-depth 1 rdbcompression no",
    ] {
        assert_eq!(redis.client.call(&format!("config set {settings}")), ok());
        redis.client.call("hset again a 1 b 2");
        redis.client.call("del again");
        let expected = everything(&mut redis.client);
        let path = redis.save();
        let server = server();
        let (imported, refused) = import_file(&path, &server, false);
        assert_eq!((refused, imported.keys), (vec![], expected.len() as u64));
        let mut client = server.client();
        assert_same(&everything(&mut client), &expected);
        // Once more: they exist.
        let (imported, refused) = import_file(&path, &server, false);
        assert_eq!((imported.keys, imported.refused), (0, expected.len() as u64));
        assert!(refused.iter().all(|reason| reason.contains("exists")), "{refused:?}");
        assert_eq!(import_file(&path, &server, true).0.keys, expected.len() as u64);
        assert_same(&everything(&mut client), &expected);

        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let file = fs::File::create(folder.path().join("dump.rdb")).expect("created");
        let mut left_out = Refused::default();
        let exported = export(&mut link(server.address), file, &mut left_out).expect("exported");
        assert_eq!((left_out.0, exported.keys), (vec![], expected.len() as u64));
        assert!(!exported.needs_7_4);
        let mut other = Redis::start_in(folder).expect("it is installed");
        assert_same(&everything(&mut other.client), &expected);
    }
}

#[test]
fn collections_larger_than_a_request_of_the_server_come_and_go_in_pieces() {
    let Some(mut redis) = Redis::start() else { return };
    // With 16 MiB of DRAM, an argument has at most 1 MiB.
    let elements: Vec<String> = (0..500).map(|at| format!("{at:0>40}")).collect();
    for round in 0..200 {
        redis.client.call(&format!("rpush list {}", elements.join(" ")));
        let each = |form: &str| -> String {
            let with = |(at, text): (usize, &String)| {
                form.replace('N', &(round * 500 + at).to_string()).replace('T', text)
            };
            elements.iter().enumerate().map(with).collect::<Vec<_>>().join(" ")
        };
        if round < 60 {
            redis.client.call(&format!("hset hash {}", each("fN T")));
            redis.client.call(&format!("sadd set {}", each("mN-T")));
            redis.client.call(&format!("zadd zset {}", each("N.25 mN-T")));
        }
    }
    let long = "long".repeat(700_000);
    assert_eq!(redis.client.call("config set rdbcompression no"), ok());
    redis.client.call(&format!("set long {long}"));
    redis.client.call("pexpire long 1000000");
    redis.client.call("pexpire list 1000000");
    let expected = everything(&mut redis.client);
    let server = server();
    let (imported, refused) = import_file(&redis.save(), &server, false);
    assert_eq!((refused, imported.keys), (vec![], 5));
    assert_same(&everything(&mut server.client()), &expected);

    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let file = fs::File::create(folder.path().join("dump.rdb")).expect("created");
    let mut left_out = Refused::default();
    let exported = export(&mut link(server.address), file, &mut left_out).expect("exported");
    assert_eq!((left_out.0, exported.keys), (vec![], 5));
    let mut other = Redis::start_in(folder).expect("it is installed");
    assert_same(&everything(&mut other.client), &expected);
}

#[test]
fn a_collection_whose_file_is_cut_is_not_there_in_part() {
    let Some(mut redis) = Redis::start() else { return };
    let members: Vec<String> = (0..1_000).map(|at| format!("{at:0>40}")).collect();
    redis.client.call(&format!("sadd set {}", members.join(" ")));
    let bytes = fs::read(redis.save()).expect("it is there");
    let server = server();
    let mut link = link(server.address);
    // Many pieces.
    let options = (true, 4096);
    for end in (0..bytes.len()).step_by(5_000) {
        let done = import(&bytes[..end], &mut link, options, &mut Refused::default());
        assert!(matches!(done, Err(ImportError::File(_))), "{done:?}");
        assert_eq!(server.client().call("exists set"), Reply::Integer(0), "cut at {end}");
    }
    let done = import(&bytes[..], &mut link, options, &mut Refused::default());
    assert_eq!(done.expect("imported").keys, 1);
    assert_eq!(read(&mut server.client(), "set"), read(&mut redis.client, "set"));
}

#[test]
fn fields_that_expire_are_exported_and_imported() {
    let one = server();
    let mut client = one.client();
    client.call("hset hash a 1 b 2");
    client.call("hpexpire hash 1000000 fields 1 a");
    let mut file = Cursor::new(Vec::new());
    let exported = export(&mut link(one.address), &mut file, &mut Refused::default());
    assert!(exported.expect("exported").needs_7_4);
    let other = server();
    let file = Cursor::new(file.into_inner());
    let options = (false, BYTES_MAX);
    let imported = import(file, &mut link(other.address), options, &mut Refused::default());
    assert_eq!(imported.expect("its checksum is right").keys, 1);
    assert_eq!(read(&mut other.client(), "hash"), read(&mut client, "hash"));
    let Reply::Array(left) = other.client().call("hpttl hash fields 2 a b") else {
        panic!("times")
    };
    assert!(matches!(left[..], [Reply::Integer(900_000..), Reply::Integer(-1)]), "{left:?}");
}

/// A file whose second half comes late.
struct Late<'a> {
    bytes: &'a [u8],
    half: usize,
    until_ms: u64,
}

impl Read for Late<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.bytes.len() <= self.half {
            let time = Duration::from_millis(self.until_ms.saturating_sub(now_ms()));
            std::thread::sleep(time);
        }
        self.bytes.read(into)
    }
}

#[test]
fn a_key_that_expires_while_its_elements_come_is_gone() {
    let (one, other) = (server(), server());
    let mut client = one.client();
    for _ in 0..100 {
        client.call(&format!("rpush list{}", format!(" {}", "e".repeat(100)).repeat(100)));
    }
    let expires_at_ms = now_ms() + 2_000;
    client.call(&format!("pexpireat list {expires_at_ms}"));
    let mut file = Cursor::new(Vec::new());
    export(&mut link(one.address), &mut file, &mut Refused::default()).expect("exported");
    let bytes = file.into_inner();
    let late = Late { bytes: &bytes, half: bytes.len() / 2, until_ms: expires_at_ms + 50 };
    let options = (false, BYTES_MAX);
    let imported = import(late, &mut link(other.address), options, &mut Refused::default());
    assert_eq!(imported.expect("its checksum is right").keys, 1);
    assert!(now_ms() > expires_at_ms);
    assert_eq!(other.client().call("exists list"), Reply::Integer(0));
}

#[test]
fn what_cannot_be_imported_is_left_out_or_named() {
    let Some(mut redis) = Redis::start() else { return };
    let server = server();
    redis.client.call("set gone 1 px 1");
    redis.client.call("set stays 1");
    let long = "k".repeat(3000);
    redis.client.call(&format!("set {long} 1"));
    redis.client.call("xadd stream 1-1 a b");
    redis.client.call("xgroup create stream group 0");
    redis.client.call("xreadgroup group group consumer streams stream >");
    let library = b"#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    redis.client.command(&[b"function", b"load", library]);
    let path = redis.save();
    let bytes = fs::read(&path).expect("it is there");
    // SELECTDB 0 becomes SELECTDB 40 in another file.
    let (imported, refused) = import_file(&path, &server, false);
    assert!(refused.iter().any(|reason| reason.starts_with(&long)), "{refused:?}");
    assert_eq!(imported.functions, 1);
    assert_eq!(server.client().call("get stays"), Reply::Bulk(b"1".to_vec()));
    assert_eq!(server.client().call("exists gone"), Reply::Integer(0));
    let at = bytes.windows(3).position(|three| three == [0xfe, 0, 0xfb]).expect("a database");
    let mut other = bytes.clone();
    other[at + 1] = 40;
    let end = other.len() - 8;
    other[end..].fill(0);
    let mut named = Refused::default();
    let done = import(&other[..], &mut link(server.address), (true, BYTES_MAX), &mut named);
    assert_eq!(done.expect("imported").keys, 0);
    assert!(named.0.iter().any(|reason| reason.contains("stays 40 ERR DB index")), "{:?}", named.0);
}

/// Reads a file to its end, or to its first fault.
fn read_over(bytes: &[u8]) -> Result<u64, ebbtide_server::rdb::Corrupt> {
    let mut reader = Reader::open(bytes, 4096)?;
    let mut keys = 0;
    while reader.next()?.is_some() {
        keys += 1;
        while let Some(piece) = reader.piece(4096)? {
            if let Piece::Dump(dump) = piece {
                assert!(dump.len() <= 4096 + 20, "{}", dump.len());
            }
        }
    }
    Ok(keys)
}

#[test]
fn cut_and_damaged_files_have_one_fault_with_its_place() {
    let Some(mut redis) = Redis::start() else { return };
    fill(&mut redis.client);
    redis.client.call("xadd stream 1-1 a b");
    let bytes = fs::read(redis.save()).expect("it is there");
    let keys = read_over(&bytes).expect("it is right");
    let Reply::Integer(here) = redis.client.call("dbsize") else { panic!("a number") };
    assert_eq!(keys, here as u64 + 2);
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    for _ in 0..500 {
        let end = rng.random_range(0..bytes.len());
        let fault = read_over(&bytes[..end]).expect_err("it is cut");
        assert!(matches!(fault.fault, Fault::Cut), "{fault}");
        assert!(fault.offset <= end as u64);
    }
    for _ in 0..500 {
        let mut damaged = bytes.clone();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..damaged.len());
            damaged[at] = rng.random();
        }
        if damaged != bytes {
            let fault = read_over(&damaged).expect_err("its checksum is wrong");
            assert!(fault.to_string().starts_with("byte "), "{fault}");
            assert!(!fault.to_string().contains('\n'));
        }
    }
    let server = server();
    for damage in 0..20 {
        let mut damaged = bytes.clone();
        let at = rng.random_range(9..damaged.len() - 9);
        damaged[at] ^= 1 << (damage % 8);
        let mut link = link(server.address);
        let done = import(&damaged[..], &mut link, (true, BYTES_MAX), &mut Refused::default());
        assert!(matches!(done, Err(ImportError::File(_))), "{done:?}");
        assert_eq!(server.client().call("ping"), Reply::Status("PONG".into()));
    }
}
