//! Runs a month of use in little time against a server process:
//! `cargo bench -p ebbtide-server --bench month [FOLDER]`. It prints a row for each
//! phase, and ends with an error if a value is wrong.

use std::net::SocketAddr;
use std::path::PathBuf;

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/server/client.rs"]
mod client;
#[path = "../tests/server/month.rs"]
mod month;
#[path = "../tests/server/month_collections.rs"]
mod month_collections;
#[path = "neighbours/served.rs"]
mod served;

use month::{Host, Scale, run};
use served::Served;

const CAPACITY_BYTES: u64 = 1 << 30;
const DRAM_BYTES: u64 = 64 << 20;

/// A server in a separate process.
struct There {
    folder: PathBuf,
    served: Served,
}

impl There {
    fn start(folder: PathBuf) -> There {
        let served = Served::start(&folder.join("store"), CAPACITY_BYTES, DRAM_BYTES);
        There { folder, served }
    }
}

impl Host for There {
    fn address(&self) -> SocketAddr {
        self.served.address
    }

    fn restart(&mut self, kill: bool) {
        self.served.end(kill);
        *self = There::start(self.folder.clone());
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }
}

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if served::serve_if_asked(&arguments) {
        return;
    }
    let folder = arguments.first().map_or(".", String::as_str);
    let folder = tempfile::tempdir_in(folder).expect("a folder");
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
