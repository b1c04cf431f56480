//! How long a core's misses take while another core is busy: idle, only hitting, only computing, or
//! holding the very page that is asked for. The promise is less than a millisecond beyond the device.
//!
//! `cargo run --release -p ebbtide-engine --example delay [FILE]` uses io_uring on FILE (only read,
//! at least 256 MiB), else a device of memory that answers at once.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ebbtide_core::{Memory, PageId, Time};
use ebbtide_engine::device::Device;
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::device::uring::Uring;
use ebbtide_engine::{Engine, FlashMemory, JobError, Offer, Options, Service, Timing};
use parking_lot::Mutex;

const PAGES: u64 = 65_536;

/// Pages missed, one after the other, while another core is busy.
const MISSES: u64 = 4_000;

/// Pages asked for while the busy core holds them.
const HELD_PAGES: u64 = 200;

type Work = Box<dyn FnOnce(&mut FlashMemory<'_>)>;

struct Jobs(RefCell<VecDeque<Work>>);

impl Service for Jobs {
    type Job = Option<Work>;

    fn next(&self, _now: Time) -> Offer<Option<Work>> {
        self.0.borrow_mut().pop_front().map_or(Offer::End, |work| Offer::Job(Some(work)))
    }

    fn run(&self, job: &mut Option<Work>, memory: &mut FlashMemory<'_>) {
        job.take().expect("a job runs once")(memory);
    }

    fn done(&self, _job: Option<Work>, result: Result<(), JobError>, _timing: Timing) {
        result.expect("no job fails");
    }
}

/// The activity of core 0 until it is stopped.
#[derive(Clone, Copy)]
enum Busy {
    Idle,
    Hits,
    Computes,
    /// It misses on the page that the other core wants, and computes.
    HoldsThePage,
}

fn busy(kind: Busy, page: u64, begun: Arc<AtomicBool>, done: Arc<AtomicBool>) -> Vec<Work> {
    let miss: Work = Box::new(move |memory| {
        memory.load::<u64>(PageId(page).start());
    });
    let go_on: Work = Box::new(move |memory| {
        begun.store(true, Ordering::SeqCst);
        while !done.load(Ordering::SeqCst) {
            match kind {
                Busy::Hits => drop(std::hint::black_box(memory.line(PageId(0).start()))),
                _ => memory.work(1_000),
            }
        }
    });
    let hit: Work = Box::new(|memory| {
        memory.load::<u64>(PageId(0).start());
    });
    match kind {
        Busy::Idle => {
            drop(go_on);
            vec![]
        }
        Busy::Hits => vec![hit, go_on],
        Busy::Computes => vec![go_on],
        Busy::HoldsThePage => vec![miss, go_on],
    }
}

/// Nanoseconds that each load of a word in `pages` takes on core 1.
fn delays(engine: &Engine, kind: Busy, pages: std::ops::Range<u64>) -> Vec<u64> {
    let (begun, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let taken = Arc::new(Mutex::new(Vec::new()));
    let make = |core| {
        let (begun, done) = (begun.clone(), done.clone());
        if core == 0 {
            return Jobs(RefCell::new(busy(kind, pages.start, begun, done).into()));
        }
        let (pages, taken) = (pages.clone(), taken.clone());
        let measure: Work = Box::new(move |memory| {
            while !matches!(kind, Busy::Idle) && !begun.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            for page in pages {
                let asked = Instant::now();
                memory.load::<u64>(PageId(page).start());
                taken.lock().push(asked.elapsed().as_nanos() as u64);
            }
            done.store(true, Ordering::SeqCst);
        });
        Jobs(RefCell::new(VecDeque::from([measure])))
    };
    engine.run(make, drop).expect("cores can be started");
    std::mem::take(&mut *taken.lock())
}

fn print(what: &str, mut ns: Vec<u64>) {
    ns.sort_unstable();
    let at = |share: f64| ns[((ns.len() - 1) as f64 * share) as usize] as f64 / 1e3;
    println!("{what:<34}{:>10.1}{:>10.1}{:>10.1}", at(0.5), at(0.99), at(1.0));
}

fn main() {
    let device: Arc<dyn Device> = match std::env::args().nth(1) {
        Some(path) => {
            let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(&path);
            let file = Arc::new(file.unwrap_or_else(|error| panic!("{path}: {error}")));
            Arc::new(Uring::new(file).expect("io_uring is permitted"))
        }
        None => Arc::new(Ram::new(PAGES as usize, Latency::Looks(0), |_, _| {})),
    };
    let mut options = Options::new(16 << 20);
    options.cores = 2;
    options.tuning.threads = Some(8);
    // A request that is held back stays held until another core asks for it.
    options.hold = Some(Duration::from_secs(3600));
    let engine = Engine::over_device(device, PAGES, &options).expect("the engine fits its budget");
    for notice in engine.notices() {
        println!("{notice}");
    }
    println!("{} on 2 cores, {} frames", engine.device_name(), engine.budget().frames);
    println!("{:<34}{:>10}{:>10}{:>10}", "a miss takes, in us", "median", "p99", "longest");
    let mut first = 1;
    for (what, kind) in [
        ("while the other core is idle", Busy::Idle),
        ("while the other core only hits", Busy::Hits),
        ("while the other core only computes", Busy::Computes),
    ] {
        print(what, delays(&engine, kind, first..first + MISSES));
        first += MISSES;
    }
    let held = first..first + HELD_PAGES;
    let all = held.flat_map(|page| delays(&engine, Busy::HoldsThePage, page..page + 1)).collect();
    print("while it has the page and computes", all);
    println!("helped {} times", engine.counters().snapshot().helped);
}
