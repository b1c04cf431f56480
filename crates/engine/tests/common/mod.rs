//! Lanes of jobs that check every word they read against a plain array; in the modules, jobs as
//! closures and the devices that tests need.

#![allow(dead_code, reason = "every test file uses a part of it")]

pub mod file;
pub mod jobs;
pub mod recorder;
pub mod step_recorder;
pub mod swarm;

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use ebbtide_core::{Addr, Memory, PAGE_BYTES, Time};
use ebbtide_engine::device::Device;
use ebbtide_engine::{
    Budget, Engine, EngineError, FlashMemory, JobError, Jobs, Offer, Options, RowFile, Service,
    Snapshot, Timing,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub const WORDS_PER_PAGE: u64 = (PAGE_BYTES / 8) as u64;

/// The initial contents of a word.
pub fn initial(word: u64) -> u64 {
    word.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// The image of a page of such words.
pub fn image(page: usize, out: &mut [u8; PAGE_BYTES]) {
    for (index, bytes) in out.chunks_exact_mut(8).enumerate() {
        let word = page as u64 * WORDS_PER_PAGE + index as u64;
        bytes.copy_from_slice(&initial(word).to_le_bytes());
    }
}

/// One lane owns one word in every `lanes` words: all lanes share all pages, and no word.
pub struct Lane {
    number: u64,
    random: Pcg64Mcg,
    /// The expected value of each of its words.
    model: Vec<u64>,
    jobs_left: u32,
    pub failed: u32,
}

/// A core's lanes.
pub struct Lanes {
    lanes: u64,
    steps_per_job: u32,
    write_share: f64,
    idle: RefCell<Vec<Lane>>,
    under_way: RefCell<usize>,
}

pub struct Plan {
    pub pages: u64,
    pub cores: u64,
    pub lanes_per_core: u64,
    pub jobs_per_lane: u32,
    pub steps_per_job: u32,
    pub write_share: f64,
    pub seed: u64,
}

impl Lanes {
    pub fn new(plan: &Plan, core: usize) -> Lanes {
        let lanes = plan.cores * plan.lanes_per_core;
        let words = plan.pages * WORDS_PER_PAGE / lanes;
        let lane = |index: u64| {
            let number = core as u64 * plan.lanes_per_core + index;
            Lane {
                number,
                random: Pcg64Mcg::seed_from_u64(plan.seed ^ number << 32),
                model: (0..words).map(|word| initial(word * lanes + number)).collect(),
                jobs_left: plan.jobs_per_lane,
                failed: 0,
            }
        };
        Lanes {
            lanes,
            steps_per_job: plan.steps_per_job,
            write_share: plan.write_share,
            idle: RefCell::new((0..plan.lanes_per_core).map(lane).collect()),
            under_way: RefCell::new(0),
        }
    }

    pub fn finished(self) -> Vec<Lane> {
        self.idle.into_inner()
    }
}

impl Service for Lanes {
    type Job = Lane;

    fn next(&self, _now: Time) -> Offer<Lane> {
        let mut idle = self.idle.borrow_mut();
        match idle.iter().position(|lane| lane.jobs_left > 0) {
            Some(index) => {
                *self.under_way.borrow_mut() += 1;
                let mut lane = idle.swap_remove(index);
                lane.jobs_left -= 1;
                Offer::Job(lane)
            }
            None if *self.under_way.borrow() == 0 => Offer::End,
            None => Offer::Empty,
        }
    }

    fn run(&self, lane: &mut Lane, memory: &mut FlashMemory<'_>) {
        for _ in 0..self.steps_per_job {
            let index = lane.random.random_range(0..lane.model.len());
            let at = Addr((index as u64 * self.lanes + lane.number) * 8);
            if lane.random.random_bool(self.write_share) {
                let value = lane.random.random();
                memory.store::<u64>(at, value);
                lane.model[index] = value;
            } else {
                assert_eq!(memory.load::<u64>(at), lane.model[index], "the word at {at:?}");
            }
        }
    }

    fn done(&self, mut lane: Lane, result: Result<(), JobError>, _timing: Timing) {
        *self.under_way.borrow_mut() -= 1;
        match result {
            Ok(()) => {}
            Err(JobError::Fault(_)) => lane.failed += 1,
            Err(message) => panic!("a job saw something wrong: {message}"),
        }
        self.idle.borrow_mut().push(lane);
    }
}

/// Runs all lanes to their end. Returns how many jobs failed by a device error.
pub fn run(device: Arc<dyn Device>, plan: &Plan, options: &Options) -> (Engine, u32) {
    let engine = Engine::over_device(device, plan.pages, options).unwrap();
    let lanes =
        watched(&engine, || engine.run(|core| Lanes::new(plan, core), Lanes::finished).unwrap());
    let failed = lanes.iter().flatten().map(|lane| lane.failed).sum();
    (engine, failed)
}

/// Options under which the cache has exactly `frames` frames, with small stacks.
pub fn small_cache(frames: usize, cores: usize, threads: usize, pages: u64) -> Options {
    let mut options = Options::new(0);
    options.cores = cores;
    options.tuning.threads = Some(threads);
    options.stack_bytes = 128 << 10;
    options.tuning.batch_max = 8;
    of_frames(frames, options, pages)
}

/// `options` with the budget under which the cache has exactly `frames` frames.
pub fn of_frames(frames: usize, mut options: Options, pages: u64) -> Options {
    options.dram_bytes = 0;
    options.dram_bytes = match Budget::divide(&options, pages) {
        Err(EngineError::BudgetTooSmall { needed_bytes, .. }) => needed_bytes,
        other => panic!("nothing fits into no budget, but {other:?}"),
    };
    while Budget::divide(&options, pages).unwrap().frames < frames {
        options.dram_bytes += 512;
    }
    assert_eq!(Budget::divide(&options, pages).unwrap().frames, frames);
    options
}

/// A test that makes no progress for this long hangs, under any load and with a slow disk. A
/// passing test never waits for it.
pub const HANGS_AFTER: Duration = Duration::from_secs(300);

/// Time between two checks for progress.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Something that runs jobs.
pub trait Watched: fmt::Debug + Sync {
    fn counted(&self) -> Snapshot;

    /// Counters that grow while jobs end or pages move.
    fn progress(&self) -> [u64; 4] {
        let Snapshot { jobs, jobs_failed, flash_reads, flash_writes, .. } = self.counted();
        [jobs, jobs_failed, flash_reads, flash_writes]
    }
}

impl Watched for Engine {
    fn counted(&self) -> Snapshot {
        self.counters().snapshot()
    }
}

impl Watched for Arc<Engine> {
    fn counted(&self) -> Snapshot {
        self.counters().snapshot()
    }
}

impl Watched for Jobs {
    fn counted(&self) -> Snapshot {
        self.engine().counters().snapshot()
    }
}

impl Watched for RowFile {
    fn counted(&self) -> Snapshot {
        self.counters()
    }
}

/// Waits until `is_over`, which waits at most its argument, returns true. If `progress` stays the
/// same for [`HANGS_AFTER`], prints the text of `says` and ends the process.
fn watch_until(
    is_over: &dyn Fn(Duration) -> bool,
    progress: &dyn Fn() -> Option<[u64; 4]>,
    says: &dyn Fn() -> String,
) {
    let (mut since, mut before) = (Instant::now(), None);
    while !is_over(LOOK_EVERY) {
        let Some(now) = progress() else { return };
        if before != Some(now) {
            (since, before) = (Instant::now(), Some(now));
        }
        if since.elapsed() >= HANGS_AFTER {
            eprintln!("it hangs: {}", says());
            std::process::exit(101);
        }
    }
}

/// Runs `body`, which works on `engine` or its owner. If it makes no progress, prints the fibers
/// that wait and ends the process.
pub fn watched<R>(engine: &impl Watched, body: impl FnOnce() -> R) -> R {
    let (mut body, mut result) = (Some(body), None);
    watch_during(engine, &mut || result = body.take().map(|body| body()));
    result.expect("it has run")
}

/// Apart from [`watched`], which the compiler builds anew for each body.
fn watch_during(engine: &dyn Watched, body: &mut dyn FnMut()) {
    let (tell, told) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let is_over = |at_most| told.recv_timeout(at_most) != Err(RecvTimeoutError::Timeout);
            watch_until(&is_over, &|| Some(engine.progress()), &|| format!("{engine:#?}"));
        });
        // Dropped also when `body` panics.
        let _tell = tell;
        body();
    });
}

/// Watches an engine whose jobs other threads submit, until the engine is dropped. If it makes no
/// progress, prints the fibers that wait and ends the process.
pub fn watch(engine: &Arc<Engine>) {
    let engine = Arc::downgrade(engine);
    std::thread::spawn(move || {
        let is_over = |at_most| {
            std::thread::sleep(at_most);
            false
        };
        let progress = || engine.upgrade().map(|engine| Watched::progress(&*engine));
        watch_until(&is_over, &progress, &|| format!("{:#?}", engine.upgrade()));
    });
}
