//! The short form of the month of use.

use std::net::SocketAddr;

use super::client::Server;
use super::month::{Host, Scale, run};

const CAPACITY_BYTES: u64 = 12 << 20;

/// A server in this process. It is stopped instead of killed.
struct Here(Option<Server>, tempfile::TempDir);

impl Here {
    fn start(&mut self) {
        let data = self.1.path().join("store");
        self.0 = Some(Server::start(|options| {
            options.data = data;
            options.capacity_bytes = Some(CAPACITY_BYTES);
            options.durability = "every:1s".parse().expect("a policy");
        }));
    }
}

impl Host for Here {
    fn address(&self) -> SocketAddr {
        self.0.as_ref().expect("it runs").address
    }

    fn restart(&mut self, _kill: bool) {
        self.0 = None;
        self.start();
    }

    fn path(&self, name: &str) -> String {
        self.1.path().join(name).display().to_string()
    }
}

#[test]
fn a_short_month_loses_nothing_and_leaves_the_server_writable() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut host = Here(None, folder);
    host.start();
    let scale = Scale {
        capacity_bytes: CAPACITY_BYTES,
        live_share: 0.6,
        connections: 40,
        rounds: 1,
        kills: false,
    };
    let rows = run(&mut host, scale, |row| println!("{row}"));
    assert_eq!(rows.len(), 14);
}
