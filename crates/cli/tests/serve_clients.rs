//! Many clients, and misbehaving ones, never make `ebbtide serve` exceed its budget. The memory of
//! the process and of the kernel for its sockets counts.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};

use rustix::process::{Resource, getrlimit, setrlimit};

use common::{ebbtide, folder, wait_for};

const DRAM_BYTES: u64 = 24 << 20;

/// Memory that a server may take beyond its budget.
const BEYOND_BYTES: u64 = 32 << 20;

struct Server {
    process: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start(more: &[&str]) -> Server {
        let folder = folder();
        let dram = format!("{DRAM_BYTES}B");
        let arguments = ["serve", "--port", "0", "--capacity", "256MiB", "--dram", &dram];
        let arguments = [&arguments, more].concat();
        let mut process = ebbtide(folder.path(), &arguments).spawn().expect("it starts");
        let mut line = String::new();
        let output = process.stdout.as_mut().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let address = line.strip_prefix("ready on ").and_then(|rest| rest.split_once(": "));
        let address = address.expect("it says where it answers").0.to_string();
        Server { process, address, _folder: folder }
    }

    fn client(&self) -> TcpStream {
        TcpStream::connect(&self.address).expect("a connection")
    }

    /// Its resident memory, without pages of the program and its libraries, which others share.
    fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
        let kib: u64 = line.trim_end_matches("kB").trim().parse().expect("a number");
        kib << 10
    }
}

impl Server {
    /// Returns the kernel's memory of the server's sockets, packets with their overhead. `None`
    /// without `ss` (Debian: iproute2).
    fn socket_bytes(&self) -> Option<u64> {
        let port = self.address.rsplit_once(':').expect("a port").1;
        let output =
            Command::new("ss").args(["-tmnH", "sport", "=", &format!(":{port}")]).output().ok()?;
        let text = String::from_utf8(output.stdout).expect("text");
        let fields = text.split("skmem:(").skip(1).filter_map(|rest| rest.split(')').next());
        // Received, to be sent, and set aside for either.
        let held = |field: &str| {
            let number = field.trim_start_matches(['r', 'w', 'f']);
            let is_one = field.starts_with(['r', 'w', 'f']) && !field.starts_with("rb");
            is_one.then(|| number.parse::<u64>().expect("bytes"))
        };
        Some(fields.flat_map(|fields| fields.split(',').filter_map(held)).sum())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut text = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        text.extend(format!("${}\r\n", word.len()).as_bytes());
        text.extend(*word);
        text.extend(b"\r\n");
    }
    text
}

/// Sends as much of `bytes` as the server takes without being read.
fn push(client: &mut TcpStream, bytes: &[u8]) {
    client.set_nonblocking(true).expect("a socket");
    let mut sent = 0;
    while sent < bytes.len() {
        match client.write(&bytes[sent..]) {
            Ok(count) => sent += count,
            // It is full, or the server has had enough of it.
            Err(_) => break,
        }
    }
}

#[test]
fn a_thousand_clients_of_every_bad_kind_stay_within_the_budget() {
    let server = Server::start(&[]);
    let value = vec![b'v'; 50_000];
    let mut good = server.client();
    let set = request(&[b"set", b"large", &value]);
    good.write_all(&set).expect("sent");
    let mut reply = [0; 5];
    good.read_exact(&mut reply).expect("a reply");
    assert_eq!(&reply, b"+OK\r\n");
    let asks = request(&[b"get", b"large"]).repeat(200);
    let half = &request(&[b"set", b"half", &value])[..40_000];
    let oversize = request(&[b"set", b"k", b"v"]).repeat(40_000);
    let mut clients = Vec::new();
    for number in 0..1_000 {
        let mut client = server.client();
        match number % 5 {
            // Idle.
            0 => {}
            // Asks for 10 MB and reads nothing.
            1 => push(&mut client, &asks),
            // Half of a request.
            2 => push(&mut client, half),
            // Announces more than anybody has.
            3 => push(&mut client, b"*3\r\n$3\r\nset\r\n$1\r\na\r\n$4294967296\r\n"),
            // A pipeline whose replies are not read.
            _ => push(&mut client, &oversize),
        }
        clients.push(client);
    }
    // It answers others all the while.
    for _ in 0..100 {
        good.write_all(b"PING\r\n").expect("sent");
        let mut reply = [0; 7];
        good.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"+PONG\r\n");
    }
    let (resident, sockets) = (server.resident_bytes(), server.socket_bytes());
    let most = DRAM_BYTES + BEYOND_BYTES;
    println!("{resident} bytes resident, {sockets:?} of sockets, {most} allowed");
    let all = resident + sockets.unwrap_or(0);
    assert!(all <= most, "{resident} bytes resident and {sockets:?} of sockets, of {most}");
    // Announcing 4 GiB is an error, and the end of the connection.
    let mut announced = clients.swap_remove(3);
    announced.set_nonblocking(false).expect("a socket");
    let mut error = String::new();
    announced.read_to_string(&mut error).expect("an error and the end");
    assert_eq!(error, "-ERR Protocol error: invalid bulk length\r\n");
    drop(clients);
    wait_for("the clients to be forgotten", || {
        good.write_all(b"INFO clients\r\n").expect("sent");
        let mut text = [0; 4096];
        let count = good.read(&mut text).expect("a reply");
        String::from_utf8_lossy(&text[..count]).contains("connected_clients:1\r\n").then_some(())
    });
}

#[test]
fn ten_thousand_clients_are_served_and_one_more_is_refused() {
    const CLIENTS: usize = 10_000;
    // The sockets of this side, and of those that it starts.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("up to the maximum");
    let descriptors = limit.maximum.map_or(usize::MAX, |most| most as usize);
    let count = CLIENTS.min(descriptors.saturating_sub(200));
    let server = Server::start(&["--maxclients", &count.to_string()]);
    let mut clients: Vec<TcpStream> = (0..count).map(|_| server.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        let half = b"*3\r\n$3\r\nset\r\n$1\r\nk\r\n$9\r\nhalf";
        client.write_all(if number % 2 == 0 { b"PING\r\n" } else { half }).expect("sent");
    }
    for client in clients.iter_mut().step_by(2) {
        let mut reply = [0; 7];
        client.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"+PONG\r\n");
    }
    let mut refused = String::new();
    server.client().read_to_string(&mut refused).expect("an error and the end");
    assert_eq!(refused, "-ERR max number of clients reached\r\n");
    let (resident, most) = (server.resident_bytes(), DRAM_BYTES + BEYOND_BYTES);
    println!("{count} clients, {resident} bytes resident, {most} allowed");
    assert!(resident <= most, "{resident} bytes resident, at most {most} are allowed");
    for client in clients.iter_mut().skip(1).step_by(2) {
        client.write_all(b"whole\r\n").expect("sent");
        let mut reply = [0; 5];
        client.read_exact(&mut reply).expect("a reply");
        assert_eq!(&reply, b"+OK\r\n");
    }
}
