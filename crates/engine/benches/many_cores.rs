//! Cost of a miss with more engine cores than CPUs: CPU time of the whole process for each miss,
//! and how often a core drove the misses of another. Rounds with 2, 8 and 16 engine cores take
//! turns. The replacement policy is in one part, and in as many parts as that number of cores gets.
//!
//! `cargo bench -p ebbtide-engine --bench many_cores [FILE]` makes FILE of 1 GiB, and
//! reads and writes it by io_uring. Without FILE it uses a file in the folder for temporary files
//! and removes it.

use std::cell::Cell;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ebbtide_core::{FullMemory, Memory, PAGE_BYTES, PageId, Time};
use ebbtide_engine::device::uring::Uring;
use ebbtide_engine::{Engine, FlashMemory, JobError, Offer, Options, Service, Timing};

/// 1 GiB. About a thirtieth of it fits into DRAM.
const PAGES: u64 = 1 << 18;
const DRAM_BYTES: usize = 48 << 20;

/// Jobs of a round, on all cores together, and accesses of each.
const JOBS: u64 = 60_000;
const ACCESSES: u64 = 8;

/// One of this many accesses is a store.
const STORES: u64 = 4;

/// Instructions between two accesses.
const WORK: u64 = 500;

const ROUNDS: usize = 5;
/// Engine cores, and parts of the replacement policy if they do not follow from the cores.
const SETUPS: [(usize, Option<usize>); 4] = [(2, None), (8, None), (16, Some(1)), (16, None)];

/// Takes jobs from all that are left.
struct Jobs {
    left: Arc<AtomicU64>,
    taken: Cell<u64>,
}

impl Service for Jobs {
    type Job = u64;

    fn next(&self, _now: Time) -> Offer<u64> {
        let left =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        left.map_or(Offer::End, |number| {
            self.taken.set(self.taken.get() + 1);
            Offer::Job(number)
        })
    }

    fn run(&self, job: &mut u64, memory: &mut FlashMemory<'_>) {
        for access in 0..ACCESSES {
            let random = scramble(*job * ACCESSES + access);
            // The fourth power of an even distribution: a tenth of the pages gets half of the
            // accesses.
            let even = (random >> 11) as f64 / (1u64 << 53) as f64;
            let page = (PAGES as f64 * even.powi(4)) as u64;
            let at = PageId(page).start();
            if random.is_multiple_of(STORES) {
                memory.store(at, random);
            } else {
                memory.load::<u64>(at);
            }
            memory.work(WORK);
        }
    }

    fn done(&self, _job: u64, result: Result<(), JobError>, _timing: Timing) {
        result.expect("no job fails");
    }
}

/// A number that looks random (the finish of SplitMix64; Steele et al., OOPSLA 2014).
fn scramble(number: u64) -> u64 {
    let mut x = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// The measurements of a round.
struct Round {
    cpu_us_a_miss: f64,
    helps_a_hundred: f64,
    jobs_a_second: f64,
}

fn round(
    device: &Arc<Uring>,
    (cores, parts): (usize, Option<usize>),
) -> Result<Round, Box<dyn Error>> {
    let mut options = Options::new(DRAM_BYTES);
    options.cores = cores;
    options.tuning.policy_parts = parts;
    let engine = Engine::over_device(device.clone(), PAGES, &options)?;
    let jobs = |count| {
        let left = Arc::new(AtomicU64::new(count));
        move |_| Jobs { left: left.clone(), taken: Cell::new(0) }
    };
    // A full cache first.
    engine.run(jobs(JOBS / 2), drop)?;
    let (before, cpu, clock) = (engine.counters().snapshot(), cpu_time(), Instant::now());
    engine.run(jobs(JOBS), drop)?;
    let (after, cpu, took) = (engine.counters().snapshot(), cpu_time() - cpu, clock.elapsed());
    let misses = (after.misses - before.misses) as f64;
    Ok(Round {
        cpu_us_a_miss: cpu.as_secs_f64() * 1e6 / misses,
        helps_a_hundred: 100.0 * (after.helped - before.helped) as f64 / misses,
        jobs_a_second: JOBS as f64 / took.as_secs_f64(),
    })
}

/// CPU time of this process.
fn cpu_time() -> Duration {
    // SAFETY: an all-zero `rusage` is valid, and the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let of = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    of(usage.ru_utime) + of(usage.ru_stime)
}

fn make(path: &Path) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let pages = vec![7; 256 * PAGE_BYTES];
    for _ in 0..PAGES / 256 {
        file.write_all(&pages)?;
    }
    file.sync_all()
}

fn main() -> Result<(), Box<dyn Error>> {
    let temporary = std::env::temp_dir().join(format!("many-cores-{}", std::process::id()));
    let given = std::env::args().skip(1).find(|word| word != "--bench");
    let path = given.as_ref().map_or(temporary.as_path(), Path::new);
    make(path)?;
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path);
    if given.is_none() {
        fs::remove_file(path)?;
    }
    let device = Arc::new(Uring::new(Arc::new(file?))?);
    let cpus = std::thread::available_parallelism()?;
    println!("{cpus} CPUs, {ROUNDS} rounds in turns: median (least to most)");
    let mut rounds: [Vec<Round>; SETUPS.len()] = Default::default();
    for _ in 0..ROUNDS {
        for (rounds, setup) in rounds.iter_mut().zip(SETUPS) {
            rounds.push(round(&device, setup)?);
        }
    }
    println!(
        "{:<26}{:>24}{:>26}{:>28}",
        "engine cores", "CPU us a miss", "helps a 100 misses", "jobs/s"
    );
    let names = SETUPS.map(|(cores, parts)| match parts {
        Some(1) => format!("{cores}, policy in one part"),
        _ => cores.to_string(),
    });
    for (rounds, name) in rounds.iter().zip(&names) {
        let spread = |of: fn(&Round) -> f64, digits: usize| {
            let mut values: Vec<f64> = rounds.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            let [low, mid, high] = [0, ROUNDS / 2, ROUNDS - 1].map(|at| values[at]);
            format!("{mid:.digits$} ({low:.digits$} to {high:.digits$})")
        };
        println!(
            "{name:<26}{:>24}{:>26}{:>28}",
            spread(|round| round.cpu_us_a_miss, 2),
            spread(|round| round.helps_a_hundred, 2),
            spread(|round| round.jobs_a_second, 0)
        );
    }
    let median = |at: usize| {
        let mut values: Vec<f64> = rounds[at].iter().map(|round| round.cpu_us_a_miss).collect();
        values.sort_by(f64::total_cmp);
        values[ROUNDS / 2]
    };
    for (at, name) in names.iter().enumerate().skip(1) {
        println!("{name}: {:.2} times the CPU of a miss with 2", median(at) / median(0));
    }
    Ok(())
}
