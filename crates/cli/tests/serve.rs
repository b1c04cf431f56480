//! `ebbtide serve` and `ebbtide load` together, as users run them.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use common::{complaint, ebbtide, folder};

/// A server that is killed when it is dropped.
struct Server {
    process: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        // Not the temporary directory: it may be in DRAM.
        let folder = tempfile::tempdir_in(".").expect("a folder");
        let mut process = Command::new(env!("CARGO_BIN_EXE_ebbtide"))
            .args(["serve", "--port", "0", "--capacity", "64MiB", "--dram", "16MiB", "--data"])
            .arg(folder.path().join("store"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        output.read_line(&mut line).expect("a line");
        let address = line.strip_prefix("ready on ").and_then(|rest| rest.split_once(": "));
        let address = address.expect("it says where it answers").0.to_string();
        Server { process, address, _folder: folder }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_load_finds_every_value_right_and_every_acknowledged_write_there() {
    let here = folder();
    let load = ["--keys", "20000", "--writes", "0.5", "--deletes", "0.2", "--value", "16..3000"];
    let times =
        ["--warm-up", "0.1", "--seconds", "0.5", "--clients", "20", "--check-all", "--json"];
    for more in [&[][..], &["--pipeline", "16"], &["--rate", "2000"]] {
        // A load knows only what it has written itself.
        let server = Server::start();
        let mut arguments = vec!["load", "--server", server.address.as_str()];
        arguments.extend(load.iter().chain(&times).chain(more));
        let output = ebbtide(here.path(), &arguments).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&report["wrong"], &report["errors"]), (&0.into(), &0.into()));
        assert_eq!(report["keys_checked"], 20_000);
        assert!(report["commands"].as_u64().expect("a count") > 0, "{report}");
    }
}

#[test]
fn a_server_that_is_not_there_is_one_line() {
    let here = folder();
    let error = complaint(&mut ebbtide(here.path(), &["load", "--server", "127.0.0.1:1"]), 1);
    assert!(error.contains("cannot connect to 127.0.0.1:1"), "{error}");
}

#[test]
fn a_durability_that_cannot_be_kept_is_refused() {
    let here = folder();
    let arguments = ["serve", "--durability", "always", "--port", "0"];
    let error = complaint(&mut ebbtide(here.path(), &arguments), 2);
    assert!(error.contains("--durability always is not available yet"), "{error}");
}
