//! Response times of `GET` at a fixed rate during commands that take long.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::client::{Client, Reply, encode, ok};
use super::served::Served;
use super::{Failure, Plan, spread};

/// `GET`s a second.
const RATE: f64 = 1_500.0;

/// The 99th percentile that must not be exceeded.
const BOUND: Duration = Duration::from_millis(10);

/// Number of small keys.
const KEYS: usize = 100_000;

/// Bytes of a small value.
const SMALL_BYTES: usize = 100;

/// A long command, and what undoes it.
struct Long {
    name: &'static str,
    request: Vec<u8>,
    undo: &'static str,
}

fn name(number: usize) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

fn words(line: &str) -> Vec<u8> {
    encode(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

fn long_commands() -> Vec<Long> {
    let names: Vec<Vec<u8>> = (0..KEYS).map(name).collect();
    let mut mget: Vec<&[u8]> = vec![b"mget"];
    mget.extend(names.iter().map(Vec::as_slice));
    let value = vec![b'v'; 100 << 20];
    let long = |name, request, undo| Long { name, request, undo };
    vec![
        long("PING", words("ping"), "ping"),
        long("COPY of 200 MB", words("copy large copy replace"), "del copy"),
        long("BITOP of 200 MB", words("bitop not result large"), "del result"),
        long("SETRANGE at 400 MB", words("setrange range 400000000 x"), "del range"),
        long("SET of 100 MB", encode(&[b"set", b"value", &value]), "del value"),
        long("MGET of 100,000 keys", encode(&mget), "ping"),
    ]
}

/// Gets random keys at [`RATE`] until `stop` is set. Returns the times from the intended start of
/// each command to its reply.
fn get(address: SocketAddr, stop: &AtomicBool) -> Vec<Duration> {
    let mut client = Client::connect(address);
    let (began, mut times) = (Instant::now(), Vec::new());
    while !stop.load(Ordering::Relaxed) {
        let due = began + Duration::from_secs_f64(times.len() as f64 / RATE);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let number = times.len().wrapping_mul(7_919) % KEYS;
        let reply = client.command(&[b"get", &name(number)]);
        assert!(matches!(reply, Reply::Bulk(value) if value.len() == SMALL_BYTES), "a value");
        times.push(due.elapsed());
    }
    times
}

/// Repeats a command for this time during `GET`s. Returns the times of the `GET`s, and how many
/// commands there were.
fn run(served: &Served, client: &mut Client, long: &Long, time: Duration) -> (Vec<Duration>, u64) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let getter = scope.spawn(|| get(served.address, &stop));
        let (began, mut count) = (Instant::now(), 0);
        while count == 0 || began.elapsed() < time {
            let mut sender = client.other_end();
            let sent = scope.spawn(move || std::io::Write::write_all(&mut sender, &long.request));
            let reply = client.reply();
            sent.join().expect("no panic").expect("sent");
            assert!(!matches!(reply, None | Some(Reply::Error(_))), "{}: {reply:?}", long.name);
            client.call(long.undo);
            count += 1;
        }
        stop.store(true, Ordering::Relaxed);
        (getter.join().expect("no panic"), count)
    })
}

/// Measures `GET`s during each long command, in turns.
pub(crate) fn measure(folder: &Path, Plan { time, turns }: Plan) -> Result<(), Failure> {
    let served = Served::start(&folder.join("beside"), 2 << 30, 256 << 20);
    let mut client = Client::connect(served.address);
    for from in (0..KEYS).step_by(100) {
        let sets =
            (from..from + 100).map(|number| encode(&[b"set", &name(number), &[b'v'; SMALL_BYTES]]));
        client.send(&sets.flatten().collect::<Vec<_>>());
        (0..100).for_each(|_| assert_eq!(client.reply(), Some(ok())));
    }
    assert_eq!(client.command(&[b"set", b"large", &vec![b'v'; 200_000_000]]), ok());
    let long = long_commands();
    let mut percentiles = vec![Vec::new(); long.len()];
    let mut counts = vec![(0, 0, Duration::ZERO); long.len()];
    for _ in 0..turns {
        for (at, long) in long.iter().enumerate() {
            let (mut times, commands) = run(&served, &mut client, long, time);
            times.sort_unstable();
            percentiles[at].push(times[times.len() * 99 / 100].as_secs_f64() * 1e3);
            let (gets, all, most) = counts[at];
            let longest = times.last().copied().unwrap_or_default().max(most);
            counts[at] = (gets + times.len(), all + commands, longest);
        }
    }
    println!("| GET at {RATE}/s during | GETs | commands | p99, ms | range | longest, ms | |");
    println!("|---|---|---|---|---|---|---|");
    for ((long, percentiles), (gets, commands, most)) in long.iter().zip(percentiles).zip(counts) {
        let (median, least, greatest) = spread(&mut percentiles.clone());
        let missed = if median > BOUND.as_secs_f64() * 1e3 { "more than 10" } else { "" };
        let most = most.as_secs_f64() * 1e3;
        println!(
            "| {} | {gets} | {commands} | {median:.2} | {least:.2} to {greatest:.2} | {most:.0} | \
             {missed} |",
            long.name
        );
    }
    Ok(())
}
