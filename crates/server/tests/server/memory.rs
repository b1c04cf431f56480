//! The memory of a server stays within its budget for each kind of client that makes it hold much.
//! The server is a separate process, so that its resident memory can be measured.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use ebbtide_core::Stop;
use ebbtide_core::durability::Policy;
use ebbtide_server::{ServeOptions, serve};

use super::client::{Client, Reply, device_path, encode, ok};

/// Environment variable with the folder of the server's process.
const FOLDER: &str = "EBBTIDE_SERVER_OF_A_TEST";

const DRAM_BYTES: u64 = 32 << 20;

/// Memory of a process outside of the budget, its program included.
const BESIDE_BYTES: u64 = 16 << 20;

/// The server that other tests run as a separate process.
#[test]
fn serves_for_another_test() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let options = ServeOptions {
        data: Path::new(&folder).join("store"),
        capacity_bytes: Some(24 << 20),
        durability: Policy::None,
        dram_bytes: DRAM_BYTES,
        port: 0,
        device_path: device_path(),
        ..ServeOptions::default()
    };
    static STOP: Stop = Stop::new();
    let ended = serve(&options, &STOP, |started| println!("ready on {}", started.address));
    ended.expect("it ends well");
}

/// A server in a separate process.
struct Process {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Process {
    fn start() -> Process {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["memory::serves_for_another_test", "--exact", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("piped")).lines();
        let address = said.map_while(Result::ok).find_map(|line| {
            let (_, address) = line.split_once("ready on ")?;
            address.parse().ok()
        });
        Process { child, address: address.expect("it says where"), _folder: folder }
    }

    fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Returns a connection whose writes fail if the server reads nothing for 20 ms.
    fn writer(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_write_timeout(Some(Duration::from_millis(20))).expect("a timeout");
        stream
    }

    /// Asserts that the server answers, and that its resident memory never exceeded the limit.
    fn assert_within_budget(&self) {
        assert_eq!(self.client().call("ping"), Reply::Status("PONG".into()));
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("it runs");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|rest| rest.trim().strip_suffix(" kB")).expect("a peak");
        let peak_bytes = peak.parse::<u64>().expect("a number") << 10;
        assert!(peak_bytes <= DRAM_BYTES + BESIDE_BYTES, "{} MiB resident", peak_bytes >> 20);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends requests until the server takes no more, or has closed the connection.
fn send_all(stream: &mut TcpStream, requests: impl IntoIterator<Item = Vec<u8>>) {
    let _ = requests.into_iter().try_for_each(|request| stream.write_all(&request));
}

#[test]
fn commands_that_wait_for_exec_stay_within_the_budget() {
    let server = Process::start();
    let echo = encode(&[b"echo", &[b'x'; 50_000]]);
    let mut queueing: Vec<TcpStream> = (0..30).map(|_| server.writer()).collect();
    for stream in &mut queueing {
        let commands = std::iter::repeat_n(echo.clone(), 60);
        send_all(stream, std::iter::once(encode(&[b"multi"])).chain(commands));
    }
    server.assert_within_budget();
}

#[test]
fn replies_of_transactions_stay_within_the_budget() {
    let server = Process::start();
    let mut client = server.client();
    for key in 0..50_u8 {
        assert_eq!(client.command(&[b"set", &[key], &[b'v'; 32_000]]), ok());
    }
    for _ in 0..3 {
        client.call("multi");
        for key in 0..200 {
            client.command(&[b"get", &[key % 50]]);
        }
        let keys: Vec<[u8; 1]> = (0..50).map(|key| [key]).collect();
        let names = keys.iter().map(|key| &key[..]);
        let all: Vec<&[u8]> = std::iter::once(&b"mget"[..]).chain(names).collect();
        client.command(&all);
        let Reply::Array(replies) = client.call("exec") else { panic!("it runs") };
        let value = Reply::Bulk(vec![b'v'; 32_000]);
        assert!(replies[..200].iter().all(|reply| *reply == value));
        assert_eq!(replies[200], Reply::Array(vec![value; 50]));
    }
    server.assert_within_budget();
}

#[test]
fn replies_of_pipelines_that_nobody_reads_stay_within_the_budget() {
    let server = Process::start();
    let mut client = server.client();
    let element = vec![b'e'; 1_000];
    let push = [vec![&b"rpush"[..], b"list"], vec![&element[..]; 60]].concat();
    assert_eq!(client.command(&push), Reply::Integer(60));
    let mut pipelines: Vec<TcpStream> = (0..30).map(|_| server.writer()).collect();
    for stream in &mut pipelines {
        // 60 MB of replies, more than the budget for each client.
        let question = encode(&[b"lrange", b"list", b"0", b"-1"]).repeat(100);
        send_all(stream, std::iter::repeat_n(question, 10));
    }
    server.assert_within_budget();
    assert_eq!(client.call("llen list"), Reply::Integer(60));
}

#[test]
fn names_of_channels_and_clients_stay_within_the_budget() {
    let server = Process::start();
    let mut connections: Vec<TcpStream> = (0..20).map(|_| server.writer()).collect();
    for stream in &mut connections {
        let channel = |number: u32| [&number.to_le_bytes()[..], &[b'c'; 50_000]].concat();
        send_all(stream, (0..80).map(|number| encode(&[b"subscribe", &channel(number)])));
    }
    server.assert_within_budget();
    let mut named: Vec<TcpStream> = (0..200).map(|_| server.writer()).collect();
    for stream in &mut named {
        let names = [4_000, 100_000].map(|bytes| vec![b'n'; bytes]);
        send_all(stream, names.map(|name| encode(&[b"client", b"setname", &name])));
    }
    server.assert_within_budget();
}

#[test]
fn messages_that_nobody_reads_stay_within_the_budget() {
    let server = Process::start();
    let mut subscribers: Vec<TcpStream> = (0..20).map(|_| server.writer()).collect();
    for stream in &mut subscribers {
        send_all(stream, [encode(&[b"subscribe", b"news"])]);
    }
    let mut publisher = server.client();
    let text = vec![b't'; 20_000];
    for _ in 0..300 {
        assert!(matches!(publisher.command(&[b"publish", b"news", &text]), Reply::Integer(_)));
    }
    server.assert_within_budget();
}

#[test]
fn requests_that_are_half_there_stay_within_the_budget() {
    let server = Process::start();
    let mut halves: Vec<TcpStream> = (0..200).map(|_| server.writer()).collect();
    for stream in &mut halves {
        let request = encode(&[b"echo", &[b'h'; 100_000]]);
        send_all(stream, [request[..90_000].to_vec()]);
    }
    server.assert_within_budget();
}

#[test]
fn keys_of_a_store_without_room_stay_within_the_budget() {
    let server = Process::start();
    let mut client = server.client();
    let name = |number: u32| format!("{number:01000}");
    let full = (0..).step_by(500).any(|first| {
        (first..first + 500).for_each(|key| client.request(&[b"set", name(key).as_bytes(), b""]));
        let replies: Vec<Reply> =
            (0..500).map(|_| client.reply().expect("it is answered")).collect();
        replies.iter().any(|reply| *reply != ok())
    });
    assert!(full);
    let Reply::Error(error) = client.call("keys *") else { panic!("it has no room for them") };
    assert!(error.contains("no room"), "{error}");
    assert_eq!(client.call("keys 7*"), Reply::Array(Vec::new()));
    assert!(matches!(client.call("scan 0 count 100"), Reply::Array(_)));
    server.assert_within_budget();
}

#[test]
fn lines_of_clients_that_monitor_and_do_not_read_stay_within_the_budget() {
    let server = Process::start();
    let mut monitors: Vec<TcpStream> = (0..20).map(|_| server.writer()).collect();
    for stream in &mut monitors {
        send_all(stream, [encode(&[b"monitor"])]);
    }
    let mut client = server.client();
    // A byte of these is four bytes of a line.
    let text = vec![0; 30_000];
    for _ in 0..10 {
        (0..30).for_each(|_| client.request(&[b"echo", &text]));
        (0..30).for_each(|_| assert_eq!(client.reply(), Some(Reply::Bulk(text.clone()))));
    }
    let script = "for i=1,200000 do redis.call('echo',i) end";
    assert_eq!(client.command(&[b"eval", script.as_bytes(), b"0"]), Reply::Null);
    server.assert_within_budget();
}

#[test]
fn messages_and_events_of_transactions_and_scripts_stay_within_the_budget() {
    let server = Process::start();
    let mut subscribers: Vec<TcpStream> = (0..20).map(|_| server.writer()).collect();
    for stream in &mut subscribers {
        send_all(stream, [encode(&[b"psubscribe", b"*"])]);
    }
    let mut client = server.client();
    assert_eq!(client.call("config set notify-keyspace-events KEA"), ok());
    let name = "x".repeat(900);
    for (body, refused) in [
        ("redis.call('publish', 'news', string.rep('x', 10000))", true),
        ("redis.call('publish', 'news', 'x')", true),
        ("redis.call('set', ARGV[1], i) redis.call('del', ARGV[1])", true),
        ("redis.call('get', ARGV[1])", false),
    ] {
        let script = format!("for i = 1, 100000 do {body} end");
        let reply = client.command(&[b"eval", script.as_bytes(), b"0", name.as_bytes()]);
        let is_refused =
            matches!(&reply, Reply::Error(text) if text.contains("messages and events"));
        assert_eq!(is_refused, refused, "{body}: {reply:?}");
    }
    server.assert_within_budget();
    client.call("multi");
    let text = vec![b'x'; 20_000];
    (0..60).for_each(|_| drop(client.command(&[b"publish", b"news", &text])));
    let Reply::Array(replies) = client.call("exec") else { panic!("it runs") };
    assert!(matches!(&replies[0], Reply::Integer(_)));
    assert!(matches!(&replies[59], Reply::Error(text) if text.contains("messages and events")));
    server.assert_within_budget();
}

#[test]
fn results_of_set_algebra_and_of_sort_stay_within_the_budget() {
    let server = Process::start();
    let mut client = server.client();
    const MEMBERS: usize = 100_000;
    for first in (0..MEMBERS).step_by(1_000) {
        let names: Vec<String> = (first..first + 1_000).map(|n| format!("{n:08}")).collect();
        for command in ["sadd a", "rpush l"] {
            let mut words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            words.extend(names.iter().map(String::as_bytes));
            assert!(matches!(client.command(&words), Reply::Integer(_)), "{command}");
        }
    }
    for line in ["sunion a", "sinter a a", "sdiff a none", "zunion 1 a", "zinter 1 a", "sort l"] {
        match client.call(line) {
            Reply::Array(found) => assert_eq!(found.len(), MEMBERS, "{line}"),
            Reply::Error(text) => assert!(text.starts_with("OOM"), "{line}: {text}"),
            other => panic!("{line}: {other:?}"),
        }
    }
    for line in ["sunionstore d a", "zunionstore d 1 a"] {
        let reply = client.call(line);
        let is_full = matches!(&reply, Reply::Error(text) if text.starts_with("OOM"));
        assert!(is_full || reply == Reply::Integer(MEMBERS as i64), "{line}: {reply:?}");
    }
    server.assert_within_budget();
}
