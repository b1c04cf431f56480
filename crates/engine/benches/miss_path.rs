//! Cost of a miss in the engine itself. Jobs load or store at random pages, and a twentieth of the
//! pages is cached. The device moves nothing, and answers at the next look. The figure is CPU time
//! of the core's thread, less the time of the same jobs when every page is resident.
//!
//! *Warm*: jobs do nothing else. *Cold*: before each access a job walks over 64 KiB of its own,
//! which pushes the engine's data into a cache further away. *2 cores*: two run at once, with the
//! replacement policy first behind one lock and then in parts, each with its own lock. Run with
//! `cargo bench -p ebbtide-engine --bench miss_path`; `quick` runs fewer rounds.

mod nowhere;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use ebbtide_core::{Addr, LINE_BYTES, Memory, PAGE_BYTES, Time};
use ebbtide_engine::{Engine, FlashMemory, JobError, Offer, Options, Service, Timing, affinity};
use nowhere::Nowhere;

/// Pages of the address space: 1 GiB.
const PAGES: u64 = 1 << 18;

/// DRAM for the cache and all else.
const DRAM_BYTES: usize = 64 << 20;

/// Jobs of a round, and accesses of each.
const JOBS: u32 = 20_000;
const ACCESSES: u32 = 4;

/// Bytes that a cold job walks over before each access.
const WALK_BYTES: usize = 64 << 10;

/// The work of the jobs of a round.
#[derive(Clone, Copy)]
struct Work {
    /// Pages that they use.
    pages: u64,
    stores: bool,
    cold: bool,
}

/// A round of jobs of one core.
struct Round {
    work: Work,
    jobs_left: Cell<u32>,
    jobs_done: Cell<u32>,
    random: Cell<u64>,
    walked: RefCell<Vec<u8>>,
    started: Cell<Duration>,
    took: Cell<Duration>,
}

impl Round {
    fn new(work: Work, seed: u64) -> Round {
        Round {
            work,
            jobs_left: Cell::new(JOBS),
            jobs_done: Cell::new(0),
            random: Cell::new(seed * 2 + 1),
            walked: RefCell::new(vec![1; WALK_BYTES]),
            started: Cell::default(),
            took: Cell::default(),
        }
    }

    fn draw(&self) -> u64 {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        self.random.set(random);
        random
    }

    fn walk(&self) {
        self.walked.borrow_mut().iter_mut().step_by(LINE_BYTES).for_each(|byte| *byte ^= 1);
    }
}

impl Service for Round {
    type Job = ();

    fn next(&self, _now: Time) -> Offer<()> {
        match self.jobs_left.get() {
            0 => Offer::End,
            left => {
                if left == JOBS {
                    self.started.set(cpu_time());
                }
                self.jobs_left.set(left - 1);
                Offer::Job(())
            }
        }
    }

    fn run(&self, _job: &mut (), memory: &mut FlashMemory<'_>) {
        for _ in 0..ACCESSES {
            if self.work.cold {
                self.walk();
            }
            let draw = self.draw();
            let page = draw % self.work.pages;
            let line = draw >> 32 & 63;
            let at = Addr(page * PAGE_BYTES as u64 + line * LINE_BYTES as u64);
            if self.work.stores {
                memory.store(at, draw);
            } else {
                std::hint::black_box(memory.load::<u64>(at));
            }
        }
    }

    fn done(&self, _job: (), result: Result<(), JobError>, _timing: Timing) {
        result.expect("a device without contents does not fail");
        self.jobs_done.set(self.jobs_done.get() + 1);
        if self.jobs_done.get() == JOBS {
            self.took.set(cpu_time() - self.started.get());
        }
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills in the structure it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs a round on each core. Returns nanoseconds and misses for each job.
fn round(engine: &Engine, work: Work, seed: u64) -> (f64, f64) {
    let misses = || engine.counters().snapshot().misses;
    let before = misses();
    let round = |core| Round::new(work, seed << 8 | core as u64);
    let took = engine.run(round, |round| round.took.get()).expect("every core runs");
    let jobs = f64::from(JOBS) * took.len() as f64;
    let missed = (misses() - before) as f64 / jobs;
    (took.iter().sum::<Duration>().as_nanos() as f64 / jobs, missed)
}

/// An engine on `cores` cores, with its replacement policy in `parts` parts.
fn engine(cores: usize, parts: usize) -> Engine {
    let cpus = affinity::allowed().expect("the kernel says where we may run");
    let mut options = Options::new(DRAM_BYTES);
    options.cores = cores;
    options.cpus = cpus[..cores.min(cpus.len())].to_vec();
    options.tuning.policy_parts = Some(parts);
    Engine::over_device(Arc::new(Nowhere), PAGES, &options).expect("the engine fits its budget")
}

/// Prints the cost of misses of one kind.
fn measure(name: &str, engine: &Engine, rounds: u64, stores: bool, cold: bool) {
    let few = Work { pages: 256, stores, cold };
    let all = Work { pages: PAGES, ..few };
    let mut ns = Vec::new();
    let mut missed = 0.0;
    for seed in 0..=rounds {
        let (without, _) = round(engine, few, seed);
        let (with, misses) = round(engine, all, seed);
        // The first round warms up.
        if seed > 0 {
            ns.push((with - without) / misses);
            missed = misses;
        }
    }
    ns.sort_by(f64::total_cmp);
    let at = |share: f64| ns[((ns.len() - 1) as f64 * share).round() as usize];
    println!("{name:<26}{missed:>12.2}  {:.0} ({:.0}-{:.0})", at(0.5), at(0.1), at(0.9));
}

fn main() {
    let rounds = if std::env::args().any(|argument| argument == "quick") { 5 } else { 25 };
    println!("{:<26}{:>12}  median (10th-90th percentile), CPU ns a miss", "", "misses a job");
    let alone = engine(1, 1);
    measure("loads, warm", &alone, rounds, false, false);
    measure("stores, warm", &alone, rounds, true, false);
    measure("loads, cold", &alone, rounds, false, true);
    measure("stores, cold", &alone, rounds, true, true);
    if affinity::allowed().is_ok_and(|cpus| cpus.len() > 1) {
        measure("loads, 2 cores, 1 part", &engine(2, 1), rounds, false, false);
        measure("loads, 2 cores, 4 parts", &engine(2, 4), rounds, false, false);
    }
}
