//! The examples work: a service that survives a kill, a bulk import, readers next to writers.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

/// The program of an example. `cargo test -p ebbtide` builds the examples before it runs tests.
fn example(name: &str) -> PathBuf {
    let own = env::current_exe().expect("this program");
    own.parent().and_then(Path::parent).expect("a folder").join("examples").join(name)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

fn run(name: &str, arguments: &[&str]) -> String {
    let folder = folder();
    let output = Command::new(example(name)).args(arguments).current_dir(folder.path()).output();
    let output = output.expect("the example is built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// A running service, and its address.
struct Service(Child, String);

impl Service {
    fn start(folder: &Path) -> Service {
        let mut command = Command::new(example("counters"));
        command.args(["counts.ebb", "127.0.0.1:0"]).current_dir(folder).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the example is built");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ").expect("its address").to_string();
        Service(child, address)
    }

    /// Counts `name` this many times on one connection. Returns the last count.
    fn count(&self, name: &str, times: usize) -> u64 {
        let client = TcpStream::connect(&self.1).expect("a connection");
        let mut replies = BufReader::new(client.try_clone().expect("the same connection")).lines();
        let mut last = 0;
        for _ in 0..times {
            writeln!(&client, "{name}").expect("a request");
            last = replies.next().expect("a reply").expect("a line").parse().expect("a count");
        }
        last
    }

    fn kill(mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ends");
    }
}

#[test]
fn a_service_keeps_every_count_that_it_has_answered() {
    let folder = folder();
    let service = Service::start(folder.path());
    thread::scope(|clients| {
        for client in 0..8 {
            let service = &service;
            clients.spawn(move || {
                let name = format!("client {client}");
                for round in 1..=20 {
                    service.count("all", 1);
                    assert_eq!(service.count(&name, 1), round);
                }
            });
        }
    });
    service.kill();
    let service = Service::start(folder.path());
    assert_eq!(service.count("all", 3), 163);
    assert_eq!(service.count("client 7", 1), 21);
    service.kill();
}

#[test]
fn records_are_imported_in_bulk() {
    let said = run("bulk_import", &["records.ebb", "30000"]);
    assert!(said.starts_with("30000 records in "), "{said}");
}

#[test]
fn writers_lose_nothing_next_to_readers() {
    let said = run("readers_and_writers", &["counts.ebb", "4000"]);
    assert!(said.starts_with("4000 pieces sold"), "{said}");
}
