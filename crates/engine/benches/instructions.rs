//! Counts the instructions of a hit, of a miss and of a fiber switch, and the cache lines that a
//! miss touches, with Valgrind. Unlike times, counts are the same on every machine with the same
//! compiler.
//!
//! `cargo bench -p ebbtide-engine --bench instructions`. It needs `valgrind`. Each loop
//! runs twice, the second time with twice as many steps. The difference leaves out work that
//! happens once. A miss includes the device in memory, which copies the page, and two switches.
//!
//! For lines, the jobs read other memory after each miss, until Valgrind's model of a cache holds
//! nothing else. So every line that is touched before the next such work counts once. A line counts
//! as written if its first access is a store.
//!
//! `--profile profiling` keeps the names of functions. `valgrind --tool=callgrind` with the options
//! in `CACHE` on `instructions "clean lines" 20000` then counts lines by function and source line.

use std::cell::RefCell;
use std::error::Error;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::{Addr, FullMemory, LINE_BYTES, Memory, PAGE_BYTES, Time};
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::{Engine, FlashMemory, JobError, Offer, Options, Service, Timing};
use ebbtide_fiber::{Fiber, StackPool};

/// Pages of the chain, all resident.
const PAGES: u64 = 100;

/// Pages of the address space: more frames than the chain needs, as some are kept free.
const SPACE: u64 = 400;

const STEPS: u64 = 100_000;

/// Pages that miss: far more than frames.
const SPARSE: u64 = 16_000;

/// Jobs that miss at the same time. Each has its own pages, more than there are frames.
const MISSING_JOBS: u64 = 8;

const LOOPS: [&str; 6] = [
    "8-byte load",
    "64-byte load",
    "load and store",
    "clean miss",
    "dirty miss",
    "into a fiber and back",
];

/// Loops whose cache lines are counted.
const LINES: [&str; 2] = ["clean lines", "dirty lines"];

/// Steps of these, which take longer.
const LINES_STEPS: u64 = 10_000;

/// The cache that is modelled has 256 KiB. What a core does at a time fits.
const CACHE: [&str; 2] = ["--cache-sim=yes", "--D1=262144,16,64"];

/// Bytes that the jobs read to evict everything else: twice the cache.
const WORK_BYTES: usize = 2 * 262_144;

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let done = match &arguments[..] {
        [] => print_counts(),
        [what, steps] => run(what, steps),
        _ => Err("it takes no arguments".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print_counts() -> Result<(), Box<dyn Error>> {
    for what in LOOPS {
        let instructions = |steps| Ok::<_, Box<dyn Error>>(counted(what, steps)?[0]);
        let (once, twice) = (instructions(STEPS)?, instructions(2 * STEPS)?);
        println!("{what:<22} {:.1} instructions", (twice - once) as f64 / STEPS as f64);
    }
    for what in LINES {
        let (once, twice) = (counted(what, LINES_STEPS)?, counted(what, 2 * LINES_STEPS)?);
        let [read, written] =
            [4, 5].map(|event| (twice[event] - once[event]) as f64 / LINES_STEPS as f64);
        let read = read - (WORK_BYTES / LINE_BYTES) as f64;
        println!("{what:<22} {read:.1} read first, {written:.1} written first");
    }
    Ok(())
}

/// Returns the events that Valgrind counts in a process that runs `steps` steps of the loop `what`:
/// instructions, loads, stores, and misses of the cache by each of these.
fn counted(what: &str, steps: u64) -> Result<Vec<u64>, Box<dyn Error>> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(if LINES.contains(&what) { &CACHE[..] } else { &[] })
        .arg(std::env::current_exe()?)
        .args([what, &steps.to_string()])
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}; expected it to be installed"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let counts = said.lines().find_map(|line| line.split_once("Collected : "));
    match counts {
        Some((_, counts)) if output.status.success() => {
            Ok(counts.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
        }
        _ => Err(format!("valgrind: {said}").into()),
    }
}

fn run(what: &str, steps: &str) -> Result<(), Box<dyn Error>> {
    let steps = steps.parse()?;
    if what == "into a fiber and back" {
        let mut stacks = StackPool::new(1, 16 << 10)?;
        let stack = stacks.take().expect("there is one");
        let mut fiber: Fiber<(), ()> = Fiber::new(stack, |suspend, ()| {
            loop {
                suspend.suspend(());
            }
        });
        for _ in 0..steps {
            fiber.resume(());
        }
        return Ok(());
    }
    if what.ends_with("miss") || LINES.contains(&what) {
        return run_misses(what.starts_with("dirty"), LINES.contains(&what), steps);
    }
    run_hits(what, steps)
}

/// Follows a chain through resident pages.
fn run_hits(what: &str, steps: u64) -> Result<(), Box<dyn Error>> {
    let line = |page: u64| page * (PAGE_BYTES + LINE_BYTES) as u64 % (PAGES * PAGE_BYTES as u64);
    let image = |_: usize, page: &mut [u8; PAGE_BYTES]| page.fill(0);
    let device = Ram::new(SPACE as usize, Latency::Looks(0), image);
    let engine = Engine::over_device(Arc::new(device), SPACE, &Options::new(8 << 20))?;
    let what = what.to_string();
    let chain = move |memory: &mut FlashMemory<'_>| {
        for page in 0..PAGES {
            memory.store(Addr(line(page)), line((page + 1) % PAGES));
        }
        let mut at = 0;
        match what.as_str() {
            "8-byte load" => (0..steps).for_each(|_| at = memory.load(Addr(at))),
            "64-byte load" => (0..steps).for_each(|_| {
                let line: [u64; LINE_BYTES / 8] = memory.line(Addr(at));
                std::hint::black_box(&line);
                at = line[0];
            }),
            _ => (0..steps).for_each(|_| {
                let next = memory.load(Addr(at));
                memory.store(Addr(at + 8), next);
                at = next;
            }),
        }
        std::hint::black_box(at);
    };
    engine.run(move |_| Jobs::of(vec![chain.clone()]), drop)?;
    let misses = engine.counters().snapshot().misses;
    if misses > PAGES {
        return Err(format!("{misses} misses: the chain is not resident").into());
    }
    Ok(())
}

/// Jobs load, and store if `dirty`, from pages that are not there. All their reads enter the device
/// together, because the core submits when no job can run. If `cold`, they work after each load.
fn run_misses(dirty: bool, cold: bool, steps: u64) -> Result<(), Box<dyn Error>> {
    let device = Ram::new(3 * SPARSE as usize / 2, Latency::Looks(0), |_, page| page.fill(0));
    let mut options = Options { hold: Some(Duration::from_secs(3600)), ..Options::new(8 << 20) };
    // Every step misses, as the pages come in turns.
    options.tuning.replacement = PolicyKind::Fifo;
    let engine = Engine::over_device(Arc::new(device), SPARSE, &options)?;
    let each = SPARSE / MISSING_JOBS;
    let other = vec![1; WORK_BYTES];
    let other: &'static [u8] = other.leak();
    let job = |number: u64| {
        move |memory: &mut FlashMemory<'_>| {
            for step in 0..steps / MISSING_JOBS {
                let page = Addr((number * each + step % each) * PAGE_BYTES as u64);
                let found: u64 = memory.load(page);
                if cold {
                    evict_all(other);
                }
                if dirty {
                    memory.store(page, found + 1);
                }
            }
        }
    };
    engine.run(move |_| Jobs::of((0..MISSING_JOBS).map(job).collect()), drop)?;
    let counts = engine.counters().snapshot();
    let expected = steps - steps % MISSING_JOBS;
    if counts.misses < expected * 99 / 100 || (counts.evictions_dirty > 0) != dirty {
        return Err(format!("not the misses that are wanted: {counts:#?}").into());
    }
    Ok(())
}

/// Reads one byte of each line.
#[inline(never)]
fn evict_all(other: &[u8]) {
    for line in other.chunks(LINE_BYTES) {
        std::hint::black_box(line[0]);
    }
}

/// Offers jobs, one after the other.
struct Jobs<F> {
    left: RefCell<Vec<F>>,
}

impl<F> Jobs<F> {
    fn of(jobs: Vec<F>) -> Jobs<F> {
        Jobs { left: RefCell::new(jobs) }
    }
}

impl<F: FnOnce(&mut FlashMemory<'_>) + 'static> Service for Jobs<F> {
    type Job = Option<F>;

    fn next(&self, _now: Time) -> Offer<Option<F>> {
        self.left.borrow_mut().pop().map_or(Offer::End, |job| Offer::Job(Some(job)))
    }

    fn run(&self, job: &mut Option<F>, memory: &mut FlashMemory<'_>) {
        if let Some(job) = job.take() {
            job(memory);
        }
    }

    fn done(&self, _job: Option<F>, result: Result<(), JobError>, _timing: Timing) {
        result.expect("the memory does not fail");
    }
}
