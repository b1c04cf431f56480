//! The DRAM budget is hard: what a process has resident, as the kernel counts it, exceeds what it had
//! before the engine was made by the budget and a small constant at most, whatever the load, and does
//! not grow while the load goes on.
//!
//! Each measurement is a process of its own: this very file's binary, asked by its environment.

use std::cell::{Cell, RefCell};
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use ebbtide_core::{Addr, Memory, PAGE_BYTES, Time, Watch};
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{Engine, FlashMemory, JobError, Offer, Options, Service, Timing};

/// 512 MiB of data: 10.7 times the budget.
const PAGES: u64 = 131_072;

const BUDGET_BYTES: usize = 48 << 20;

/// What may be resident beyond the budget: kernel threads' own stacks, the allocator's slack, rings.
const CONSTANT_BYTES: u64 = 4 << 20;

/// How much more may be resident in the last tenth of the run than in the first.
const GROWTH_BYTES_MAX: u64 = 256 << 10;

const JOBS_PER_CORE: u32 = 6_000;

/// Calls a job makes within each other, with up to 2 KiB of stack each, before it goes to memory.
const DEPTH: u32 = 20;

/// Bytes resident now, and the most there ever were, by the kernel's count. Allocates nothing.
fn resident() -> (u64, u64) {
    let mut text = [0u8; 4096];
    let mut file = std::fs::File::open("/proc/self/status").unwrap();
    let length = file.read(&mut text).unwrap();
    let text = std::str::from_utf8(&text[..length]).unwrap();
    let bytes = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    (bytes("VmRSS:"), bytes("VmHWM:"))
}

/// Random reads and writes from deep stacks; notes what is resident in each tenth of the run.
struct Load {
    random: Cell<u64>,
    started: Cell<u32>,
    ended: Cell<u32>,
    tenths: RefCell<[u64; 10]>,
}

impl Load {
    fn new(core: usize) -> Load {
        Load {
            random: Cell::new(0x9e37_79b9_7f4a_7c15 ^ core as u64),
            started: Cell::new(0),
            ended: Cell::new(0),
            tenths: RefCell::default(),
        }
    }
}

/// Eight accesses to random words, half of them stores, below `depth` more calls.
#[inline(never)]
fn descend(memory: &mut FlashMemory<'_>, depth: u32, random: u64) -> u64 {
    let frame = std::hint::black_box([random; 128]);
    if depth > 0 {
        return descend(memory, depth - 1, random) ^ frame[depth as usize];
    }
    let mut random = random;
    for access in 0..8 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let at = Addr(random % (PAGES * PAGE_BYTES as u64 / 8) * 8);
        if access % 2 == 0 {
            memory.store::<u64>(at, random);
        } else {
            std::hint::black_box(memory.load::<u64>(at));
        }
    }
    frame[0]
}

impl Service for Load {
    type Job = u64;

    fn next(&self, _now: Time) -> Offer<u64> {
        if self.started.get() == JOBS_PER_CORE {
            return Offer::End;
        }
        self.started.set(self.started.get() + 1);
        let next = self.random.get().wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        self.random.set(next);
        Offer::Job(next | 1)
    }

    fn run(&self, job: &mut u64, memory: &mut FlashMemory<'_>) {
        *job = descend(memory, DEPTH, *job);
    }

    fn done(&self, _job: u64, result: Result<(), JobError>, _timing: Timing) {
        result.unwrap();
        let ended = self.ended.get();
        self.ended.set(ended + 1);
        if ended.is_multiple_of(JOBS_PER_CORE / 100) {
            let tenth = &mut self.tenths.borrow_mut()[(ended * 10 / JOBS_PER_CORE) as usize];
            *tenth = (*tenth).max(resident().0);
        }
    }
}

fn create(path: &Path) -> Store {
    let new = NewStore {
        path: path.to_path_buf(),
        offset: 0,
        pages: PAGES,
        spare_pages: PAGES / 2,
        tag: "zeros".into(),
        force: false,
    };
    Store::create(&new, &|_, page| page.fill(0), Watch::unattended()).unwrap()
}

/// Not a test by itself: what each measuring process does.
#[test]
fn the_measured_process() {
    let Ok(cores) = std::env::var("EBBTIDE_MEASURED_CORES") else { return };
    let path = std::env::var("EBBTIDE_MEASURED_STORE").unwrap();
    let store = Arc::new(Store::open(Path::new(&path), 0, Access::Exclusive).unwrap());
    let mut options = Options::new(BUDGET_BYTES);
    options.cores = cores.parse().unwrap();
    options.tuning.threads = Some(64);

    let (before, peak_before) = resident();
    let engine = Engine::open(&store, &options).unwrap();
    let tenths = engine.run(Load::new, |load| load.tenths.into_inner()).unwrap();
    let (_, peak) = resident();

    let counted = engine.counters().snapshot();
    let budget = engine.budget();
    assert_eq!(counted.jobs, u64::from(JOBS_PER_CORE) * options.cores as u64);
    assert!(peak > peak_before, "the peak is not the engine's");
    // The kernel's own peak lags behind by what its counters collect on each CPU.
    let used = tenths.iter().flatten().fold(peak, |most, &sample| most.max(sample)) - before;
    println!(
        "{} cores by {}: {used} bytes of {BUDGET_BYTES}, frames {} bytes, first tenth {:?}, last {:?}",
        options.cores,
        engine.device_name(),
        budget.frames_bytes,
        tenths.iter().map(|core| core[0]).max().unwrap() - before,
        tenths.iter().map(|core| core[9]).max().unwrap() - before,
    );
    assert!(used <= BUDGET_BYTES as u64 + CONSTANT_BYTES, "{used} bytes of {BUDGET_BYTES}");

    // What is left after stacks and page states goes to frames, and they are used.
    let fixed = budget.states_bytes + budget.policy_bytes + budget.cores_bytes;
    assert!(budget.frames_bytes + fixed > BUDGET_BYTES - 2 * PAGE_BYTES);
    assert!(budget.frames_bytes >= BUDGET_BYTES / 2);
    let left = counted.evictions_clean + counted.evictions_dirty - counted.revived;
    let holding = counted.flash_reads - left;
    assert!(holding >= budget.frames as u64 * 19 / 20, "{holding} of {} frames", budget.frames);

    for core in tenths {
        let (first, last) = (core[0], core[9]);
        assert!(last <= first + GROWTH_BYTES_MAX, "resident: {core:?}");
    }
}

#[test]
fn the_budget_is_kept_on_one_core_and_on_two() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("store");
    drop(create(&path));
    for cores in ["1", "2"] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_measured_process", "--nocapture"])
            .env("EBBTIDE_MEASURED_CORES", cores)
            .env("EBBTIDE_MEASURED_STORE", &path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{}: {said}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        print!("{said}");
    }
}
