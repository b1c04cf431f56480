//! Runs a month of use in little time against a server process:
//! `cargo run --release -p ebbtide-server --example month [FOLDER]`. It prints a row for each
//! phase, and ends with an error if a value is wrong.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use ebbtide_core::Stop;
use ebbtide_server::{ServeOptions, serve};

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/server/client.rs"]
mod client;
#[path = "../tests/server/month.rs"]
mod month;

use month::{Host, Scale, run};

const CAPACITY_BYTES: u64 = 1 << 30;
const DRAM_BYTES: u64 = 64 << 20;

/// A server in a separate process.
struct There {
    folder: PathBuf,
    process: Child,
    address: SocketAddr,
}

impl There {
    fn start(folder: PathBuf) -> There {
        let program = std::env::current_exe().expect("a program");
        let data = folder.join("store");
        let mut process = Command::new(program)
            .arg("serve")
            .arg(&data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a server");
        let mut address = String::new();
        BufReader::new(process.stdout.take().expect("a pipe"))
            .read_line(&mut address)
            .expect("it says where");
        let address = address.trim().parse().expect("an address");
        There { folder, process, address }
    }
}

impl Host for There {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn restart(&mut self, kill: bool) {
        if kill {
            self.process.kill().expect("killed");
        } else {
            // The end of its input stops the server.
            drop(self.process.stdin.take());
        }
        self.process.wait().expect("it ends");
        *self = There::start(self.folder.clone());
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

impl Drop for There {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves until its input ends.
fn server(data: PathBuf) {
    let stop: &'static Stop = Box::leak(Box::default());
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        stop.stop();
    });
    let options = ServeOptions {
        data,
        capacity_bytes: Some(CAPACITY_BYTES),
        dram_bytes: DRAM_BYTES,
        port: 0,
        ..ServeOptions::default()
    };
    serve(&options, stop, |started| println!("{}", started.address)).expect("it serves");
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("serve"), Some(data)) => server(data.into()),
        (folder, _) => {
            let folder = tempfile::tempdir_in(folder.unwrap_or(".")).expect("a folder");
            println!("| phase | took | keys | flash per live byte | RSS | p99.9 of 64 GETs |");
            println!("|---|---|---|---|---|---|");
            let mut host = There::start(folder.path().to_path_buf());
            let scale = Scale {
                capacity_bytes: CAPACITY_BYTES,
                live_share: 0.6,
                connections: 500,
                rounds: 3,
                kills: true,
            };
            run(&mut host, scale, |row| println!("{row}"));
        }
    }
}
