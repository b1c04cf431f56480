//! A cache that is killed while it gives up keys: what was deleted or replaced does not come back.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ebbtide_core::Stop;
use ebbtide_core::durability::Policy;
use ebbtide_server::{EvictionPolicy, ServeOptions, serve};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::client::{Client, Reply, device_path, encode, ok};

/// Environment variable with the folder of the server's process.
const FOLDER: &str = "EBBTIDE_CACHE_OF_A_TEST";

/// Requests that are under way at once.
const PIPELINE: usize = 20;

/// The server that the other test runs as a separate process.
#[test]
fn serves_for_another_test() {
    serve_for_another_test(8 << 20, EvictionPolicy::AllKeysLru);
}

/// Serves in the folder that [`Process::start`] has named, if it has.
pub(crate) fn serve_for_another_test(capacity_bytes: u64, policy: EvictionPolicy) {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let options = ServeOptions {
        data: Path::new(&folder).join("store"),
        capacity_bytes: Some(capacity_bytes),
        durability: Policy::Always,
        policy,
        dram_bytes: 32 << 20,
        port: 0,
        device_path: device_path(),
        ..ServeOptions::default()
    };
    static STOP: Stop = Stop::new();
    let ended = serve(&options, &STOP, |started| println!("ready on {}", started.address));
    ended.expect("it ends well");
}

/// A server in a separate process, which is killed when dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Starts the test of this name, which serves in `folder`.
    pub(crate) fn start(folder: &Path, test: &str) -> Process {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args([test, "--exact", "--nocapture"])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let said = BufReader::new(child.stdout.take().expect("piped")).lines();
        let address = said.map_while(Result::ok).find_map(|line| {
            let (_, address) = line.split_once("ready on ")?;
            address.parse().ok()
        });
        Process { child, address: address.expect("it says where") }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the last acknowledged change made of a key: the byte and length of its value; `None` if it
/// was deleted.
type Acknowledged = HashMap<usize, Option<(u8, usize)>>;

fn name(key: usize) -> String {
    format!("key:{key}")
}

/// Returns a random change of a key, as a request and as its result.
fn change(rng: &mut Pcg64Mcg) -> (usize, Option<(u8, usize)>, Vec<u8>) {
    let key = rng.random_range(0..4_000);
    let name = name(key);
    if rng.random_range(0..5) == 0 {
        return (key, None, encode(&[b"del", name.as_bytes()]));
    }
    let length = match rng.random_range(0..10) {
        0..6 => rng.random_range(1..1_500),
        6..9 => rng.random_range(1_500..10_000),
        _ => rng.random_range(40_000..60_000),
    };
    let byte = rng.random();
    (key, Some((byte, length)), encode(&[b"set", name.as_bytes(), &vec![byte; length]]))
}

/// Asserts that each key is as it was acknowledged, or gone. Returns how many are there.
fn check(client: &mut Client, acknowledged: &Acknowledged) -> usize {
    let mut there = 0;
    for (key, last) in acknowledged {
        let found = client.command(&[b"get", name(*key).as_bytes()]);
        match (last, found) {
            (_, Reply::Null) => {}
            (Some((byte, length)), Reply::Bulk(value)) => {
                assert!(value == vec![*byte; *length], "{key} has a value of another time");
                there += 1;
            }
            (last, found) => panic!("{key} was {last:?} and is {found:?}"),
        }
    }
    there
}

#[test]
fn nothing_that_was_deleted_or_replaced_comes_back_after_a_kill() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut rng = Pcg64Mcg::seed_from_u64(11);
    let mut acknowledged = Acknowledged::new();
    for round in 0..4 {
        let server = Process::start(folder.path(), "eviction_crash::serves_for_another_test");
        let mut client = Client::connect(server.address);
        let there = check(&mut client, &acknowledged);
        assert!(there > 300 || round == 0, "round {round}: {there} keys are left");
        for _ in 0..100 {
            let changes: Vec<_> = (0..PIPELINE).map(|_| change(&mut rng)).collect();
            let requests = changes.iter().flat_map(|(.., request)| request.clone());
            client.send(&requests.collect::<Vec<u8>>());
            for (key, result, _) in changes {
                let reply = client.reply().expect("a reply");
                let done = reply == ok() || matches!(reply, Reply::Integer(0 | 1));
                assert!(done, "{reply:?}");
                acknowledged.insert(key, result);
            }
        }
        // Changes that are not acknowledged may have been made or not.
        for _ in 0..PIPELINE {
            let (key, _, request) = change(&mut rng);
            acknowledged.remove(&key);
            client.send(&request);
        }
    }
}
