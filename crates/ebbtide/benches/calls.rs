//! What a call costs a thread that waits for it, with 1 to 32 such threads. `get` and `insert` find
//! their page in DRAM, and handing the call over is nearly all of their cost. Most calls of `miss`
//! wait for a page from flash, and each of `always` for its record on flash.
//!
//! `cargo bench -p ebbtide --bench calls -- FOLDER [SECONDS [CALL]]`, one second for each row by
//! default.

use std::error::Error as StdError;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ebbtide::{Error, Map, Store};

const KEYS: u64 = 1 << 14;
const VALUE_BYTES: usize = 100;

/// For `miss`: 8 times as much as DRAM holds.
const COLD_KEYS: u64 = 1 << 15;
const COLD_VALUE_BYTES: usize = 3_900;
const COLD_DRAM: &str = "16MiB";
const CORES: [usize; 2] = [1, 2];
const THREADS: [u64; 4] = [1, 2, 8, 32];

fn main() -> Result<(), Box<dyn StdError>> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let [folder, rest @ ..] = &arguments[..] else { return Ok(()) };
    let seconds = rest.first().map_or(Ok(1.0), |word| word.parse())?;
    let chosen = rest.get(1);
    let folder = tempfile::tempdir_in(folder)?;
    println!("cores  threads  call    calls/s   mean us   p50 us   p99 us   CPU us a call");
    for cores in CORES {
        let open = |name: &str, dram: &str, durability: &str| -> Result<(Store, Map), Error> {
            let path = folder.path().join(format!("{name}{cores}.ebb"));
            let options = Store::builder(path).size("256MiB").dram(dram).cores(cores);
            let store = options.durability(durability).open()?;
            let map = store.map("map")?;
            Ok((store, map))
        };
        let (warm, warm_map) = open("warm", "64MiB", "every:1s")?;
        let (cold, cold_map) = open("cold", COLD_DRAM, "every:1s")?;
        let (safe, safe_map) = open("safe", "64MiB", "always")?;
        warm_map.load((0..KEYS).map(|key| (key.to_le_bytes(), [1; VALUE_BYTES])))?;
        cold_map.load((0..COLD_KEYS).map(|key| (key.to_le_bytes(), [1; COLD_VALUE_BYTES])))?;
        for threads in THREADS {
            let get = |map: &Map, key: u64| map.get((key % KEYS).to_le_bytes()).map(drop);
            let insert = |map: &Map, key: u64| {
                map.insert((key % KEYS).to_le_bytes(), [2; VALUE_BYTES]).map(drop)
            };
            let miss = |map: &Map, key: u64| map.get((key % COLD_KEYS).to_le_bytes()).map(drop);
            let kinds: [(&str, &Map, &Call); 4] = [
                ("get", &warm_map, &get),
                ("insert", &warm_map, &insert),
                ("miss", &cold_map, &miss),
                ("always", &safe_map, &insert),
            ];
            let is_chosen = |name| chosen.is_none_or(|chosen| chosen == name);
            for (name, map, call) in kinds.into_iter().filter(|(name, ..)| is_chosen(*name)) {
                let row = measure(map, threads, Duration::from_secs_f64(seconds), call)?;
                println!("{cores:>5}  {threads:>7}  {name:<6} {row}");
            }
        }
        [warm, cold, safe].iter().try_for_each(Store::stop)?;
    }
    Ok(())
}

type Call = dyn Fn(&Map, u64) -> Result<(), Error> + Sync;

/// The figures of `threads` threads that call for this long.
fn measure(
    map: &Map,
    threads: u64,
    time: Duration,
    call: &Call,
) -> Result<String, Box<dyn StdError>> {
    let (cpu, since) = (cpu_time()?, Instant::now());
    let calls = |thread: u64| -> Result<Vec<Duration>, Error> {
        let (mut took, mut key) = (Vec::new(), thread);
        let mut before = Instant::now();
        while before.duration_since(since) < time {
            // The draw of Knuth's MMIX.
            key = key.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            call(map, key >> 33)?;
            let after = Instant::now();
            took.push(after - before);
            before = after;
        }
        Ok(took)
    };
    let mut took = thread::scope(|scope| {
        let callers: Vec<_> = (0..threads).map(|n| scope.spawn(move || calls(n))).collect();
        let join = |caller: thread::ScopedJoinHandle<'_, _>| {
            caller.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        callers.into_iter().map(join).collect::<Result<Vec<_>, Error>>()
    })?
    .concat();
    let (all, cpu) = (since.elapsed().as_secs_f64(), cpu_time()?.saturating_sub(cpu));
    took.sort_unstable();
    let count = took.len();
    let us = |duration: Duration| duration.as_secs_f64() * 1e6;
    Ok(format!(
        "{:>8.0} {:>9.1} {:>8.1} {:>8.1} {:>15.1}",
        count as f64 / all,
        us(took.iter().sum::<Duration>()) / count as f64,
        us(took[count / 2]),
        us(took[count * 99 / 100]),
        us(cpu) / count as f64,
    ))
}

/// CPU time of this process: of its threads, also the ended ones.
fn cpu_time() -> Result<Duration, Box<dyn StdError>> {
    let path = Path::new("/proc/self/stat");
    let stat = fs::read_to_string(path)?;
    let (_, fields) = stat.rsplit_once(") ").ok_or("/proc/self/stat: expected a name")?;
    // User and system time, in hundredths of a second.
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
    Ok(Duration::from_millis(10 * ticks.sum::<Result<u64, _>>()?))
}
