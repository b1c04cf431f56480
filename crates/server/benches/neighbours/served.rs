//! A server in a separate process, which is this program again.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ebbtide_core::Stop;
use ebbtide_server::{EvictionPolicy, ServeOptions, serve};

/// The first argument of the server's process.
const SERVE: &str = "serve";

/// The most connections at once.
const CLIENTS_MAX: usize = 12_000;

/// A server that is killed when dropped.
pub(crate) struct Served {
    process: Child,
    pub(crate) address: SocketAddr,
}

impl Served {
    /// Starts a server of the store `data`.
    #[allow(dead_code, reason = "one of the benches starts caches only")]
    pub(crate) fn start(data: &Path, capacity_bytes: u64, dram_bytes: u64) -> Served {
        Served::start_cache(data, (capacity_bytes, dram_bytes), EvictionPolicy::NoEviction)
    }

    /// Starts a server of the store `data`, with this capacity, DRAM and policy of eviction.
    pub(crate) fn start_cache(
        data: &Path,
        (capacity_bytes, dram_bytes): (u64, u64),
        policy: EvictionPolicy,
    ) -> Served {
        let program = std::env::current_exe().expect("a program");
        let mut process = Command::new(program)
            .arg(SERVE)
            .arg(data)
            .args([capacity_bytes.to_string(), dram_bytes.to_string(), policy.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a server");
        let mut address = String::new();
        BufReader::new(process.stdout.take().expect("a pipe"))
            .read_line(&mut address)
            .expect("it says where");
        let address = address.trim().parse().expect("an address");
        Served { process, address }
    }

    /// Stops or kills the server, and waits until it has ended.
    #[allow(dead_code, reason = "two of the benches do not restart it")]
    pub(crate) fn end(&mut self, kill: bool) {
        if kill {
            self.process.kill().expect("killed");
        } else {
            // The end of its input stops the server.
            drop(self.process.stdin.take());
        }
        self.process.wait().expect("it ends");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves until the input ends, if the arguments ask for that. Returns false otherwise.
pub(crate) fn serve_if_asked(arguments: &[String]) -> bool {
    let [serve_word, data, capacity, dram, policy] = arguments else { return false };
    if serve_word != SERVE {
        return false;
    }
    let stop: &'static Stop = Box::leak(Box::default());
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        stop.stop();
    });
    let options = ServeOptions {
        data: data.into(),
        capacity_bytes: Some(capacity.parse().expect("a number")),
        policy: policy.parse().expect("a policy"),
        dram_bytes: dram.parse().expect("a number"),
        clients_max: CLIENTS_MAX,
        port: 0,
        ..ServeOptions::default()
    };
    serve(&options, stop, |started| println!("{}", started.address)).expect("it serves");
    true
}
