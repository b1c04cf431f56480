//! A process that acknowledges over a pipe is killed, again and again: nothing it acknowledged is
//! missing, and every transaction is whole.
//!
//! `EBBTIDE_KILLS=500 cargo test -p ebbtide-engine --test killed` kills it that many times.
//! `.ci/killed-guest` kills an emulated machine under it instead, whose drive stays.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use ebbtide_core::durability::Policy;
use ebbtide_core::{Addr, Memory, PageId};
use ebbtide_engine::device::path;
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{Engine, Jobs, Options};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const PAGES: u64 = 1024;
const LANES: u64 = 16;
const STORE: &str = "EBBTIDE_KILLED_STORE";

fn start(path: &Path) -> Jobs {
    let (path, device_path) = path::resolve(path, None);
    let there = Store::open(&path, 0, Access::Exclusive);
    // A file that is there but is no whole store is not overwritten.
    let store = there.unwrap_or_else(|_| {
        let (pages, spare_pages, tag) = (PAGES, PAGES / 4, "killed".into());
        let new = NewStore { path, offset: 0, pages, spare_pages, tag, force: false };
        Store::create_persistent(&new, 512 << 10).unwrap()
    });
    let mut options =
        Options { durability: Some(Policy::Always), device_path, ..Options::new(4 << 20) };
    options.tuning.threads = Some(LANES as usize);
    options.tuning.batch_max = 8;
    let engine = Arc::new(Engine::open(&Arc::new(store), &options).unwrap());
    common::watch(&engine);
    engine.start().unwrap()
}

/// A lane's count lies on two pages, and on a third chosen by the count.
fn places(lane: u64, count: u64) -> [Addr; 3] {
    let scattered = 2 * LANES + (count * 31 + lane * 7) % (PAGES - 2 * LANES);
    [
        PageId(lane).start(),
        PageId(LANES + lane).start() + 8,
        PageId(scattered).start() + 64 + lane * 8,
    ]
}

/// Asserts that nothing `acknowledged` is missing and every transaction is whole. Returns the
/// transactions that are there.
fn check(jobs: &Jobs, acknowledged: &[u64]) -> Vec<u64> {
    assert!(jobs.engine().recovered().unwrap().poisoned.is_empty());
    let counts = jobs.submit(|memory| {
        (0..LANES)
            .map(|lane| {
                let first: u64 = memory.load(places(lane, 0)[0]);
                assert!(places(lane, first).into_iter().all(|at| memory.load::<u64>(at) == first));
                first
            })
            .collect::<Vec<_>>()
    });
    let counts = counts.wait().unwrap();
    for (count, acknowledged) in counts.iter().zip(acknowledged) {
        assert!(count >= acknowledged, "{count} of {acknowledged}");
    }
    counts
}

/// The body of a process of its own. It checks the counts acknowledged before, counts in every
/// lane, and reports the durable counts.
#[test]
fn child() {
    let Some(path) = std::env::var_os(STORE) else { return };
    let jobs = start(Path::new(&path));
    if let Ok(before) = std::env::var("EBBTIDE_ACKNOWLEDGED") {
        let before: Vec<u64> = before.split(',').map(|count| count.parse().unwrap()).collect();
        println!("of {before:?} there are {:?}", check(&jobs, &before));
    }
    println!("up");
    let count = |lane: u64| {
        jobs.submit(move |memory| {
            let ((), lsn) = memory
                .transaction(|memory| {
                    let next = memory.load::<u64>(places(lane, 0)[0]) + 1;
                    places(lane, next).into_iter().for_each(|at| memory.store(at, next));
                })
                .unwrap();
            memory.durable(lsn).unwrap();
            memory.load::<u64>(places(lane, 0)[0])
        })
    };
    let mut output = std::io::stdout();
    loop {
        let tickets: Vec<_> = (0..LANES).map(count).collect();
        for (lane, ticket) in tickets.into_iter().enumerate() {
            let counted = ticket.wait().unwrap();
            writeln!(output, "{lane} {counted}").unwrap();
        }
    }
}

#[test]
fn nothing_acknowledged_is_missing_after_a_kill() {
    let kills = std::env::var("EBBTIDE_KILLS").map_or(10, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("store");
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut acknowledged = vec![0; LANES as usize];
    for _ in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture"])
            .env(STORE, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = random.random_range(0..300);
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut counted = 0;
        for line in output.lines() {
            let line = line.unwrap();
            if let Some((lane, count)) = line.split_once(' ')
                && let (Ok(lane), Ok(count)) = (lane.parse::<usize>(), count.parse::<u64>())
            {
                acknowledged[lane] = acknowledged[lane].max(count);
                counted += 1;
            }
            // What is still in the pipe was acknowledged too.
            if counted == lines {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        acknowledged = check(&start(&path), &acknowledged);
    }
    assert!(acknowledged.iter().sum::<u64>() > 0);
}
