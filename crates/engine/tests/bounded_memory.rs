//! The DRAM budget is hard. The resident memory of a process grows by at most the budget and a
//! small constant when an engine is made. That holds for every load, and memory does not grow while
//! the load goes on. The kernel counts the resident memory.
//!
//! Each measurement is a process of its own: this same test binary, selected by its environment.

mod common;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use ebbtide_core::durability::{Lsn, Policy};
use ebbtide_core::{Addr, Memory, PAGE_BYTES, PageId, Time, Watch};
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{
    Engine, FlashMemory, JobError, Offer, Options, RowFile, RowRun, Service, Ticket, Timing,
};

/// 512 MiB of data: 10.7 times the budget.
const PAGES: u64 = 131_072;

/// Bytes that may be resident beyond the budget: kernel threads' own stacks, the allocator's slack,
/// rings.
const CONSTANT_BYTES: u64 = 4 << 20;

/// The most growth of resident bytes from the first tenth of the run to the last.
const GROWTH_BYTES_MAX: u64 = 256 << 10;

/// The work of a measured process.
#[derive(Clone, Copy)]
struct Setup {
    cores: usize,
    threads_per_core: usize,
    batch_max: usize,
    stack_bytes: usize,
    budget_bytes: usize,
    /// Calls a job makes within each other, with up to 2 KiB of stack each, before it goes to
    /// memory.
    depth: u32,
    jobs_per_core: u32,
    /// Whether they are submitted by another thread, which keeps all tickets.
    submitted: bool,
}

const USUAL: Setup = Setup {
    cores: 1,
    threads_per_core: 64,
    batch_max: 32,
    stack_bytes: 64 << 10,
    budget_bytes: 48 << 20,
    depth: 20,
    jobs_per_core: 6_000,
    submitted: false,
};

impl Setup {
    fn to_text(self) -> String {
        let numbers = [
            self.cores,
            self.threads_per_core,
            self.batch_max,
            self.stack_bytes,
            self.budget_bytes,
            self.depth as usize,
            self.jobs_per_core as usize,
            usize::from(self.submitted),
        ];
        numbers.map(|number| number.to_string()).join(" ")
    }

    fn from_text(text: &str) -> Setup {
        let numbers: Vec<usize> = text.split(' ').map(|number| number.parse().unwrap()).collect();
        let [cores, threads_per_core, batch_max, stack_bytes, budget_bytes, depth, jobs, submitted] =
            numbers[..]
        else {
            panic!("eight numbers, not {text}")
        };
        let (depth, jobs_per_core, submitted) = (depth as u32, jobs as u32, submitted == 1);
        Setup {
            cores,
            threads_per_core,
            batch_max,
            stack_bytes,
            budget_bytes,
            depth,
            jobs_per_core,
            submitted,
        }
    }
}

/// Returns the bytes resident now, and the most there ever were, as the kernel counts them.
/// Allocates nothing.
///
/// The current figure is counted page by page (`smaps_rollup`). The sums in `status` lag behind,
/// because the kernel collects changes on each CPU first; that made 400 KiB here. The peak lags as
/// well, but only `status` has it.
fn resident() -> (u64, u64) {
    let bytes = |file: &str, name: &str| {
        let mut text = [0u8; 4096];
        let mut file = std::fs::File::open(file).unwrap();
        let length = file.read(&mut text).unwrap();
        let text = std::str::from_utf8(&text[..length]).unwrap();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
    };
    (bytes("/proc/self/smaps_rollup", "Rss:"), bytes("/proc/self/status", "VmHWM:"))
}

/// Random reads and writes from deep stacks. Notes the resident bytes in each tenth of the run.
struct Load {
    setup: Setup,
    random: Cell<u64>,
    started: Cell<u32>,
    ended: Cell<u32>,
    tenths: RefCell<[u64; 10]>,
}

impl Load {
    fn new(setup: Setup, core: usize) -> Load {
        Load {
            setup,
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
        if self.started.get() == self.setup.jobs_per_core {
            return Offer::End;
        }
        self.started.set(self.started.get() + 1);
        let next = self.random.get().wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        self.random.set(next);
        Offer::Job(next | 1)
    }

    fn run(&self, job: &mut u64, memory: &mut FlashMemory<'_>) {
        *job = descend(memory, self.setup.depth, *job);
    }

    fn done(&self, _job: u64, result: Result<(), JobError>, _timing: Timing) {
        result.unwrap();
        let ended = self.ended.get();
        self.ended.set(ended + 1);
        let jobs = self.setup.jobs_per_core;
        if ended.is_multiple_of(jobs / 100) {
            let tenth = &mut self.tenths.borrow_mut()[(ended * 10 / jobs) as usize];
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

/// Not a test on its own: the body of each measuring process.
#[test]
fn the_measured_process() {
    let Ok(setup) = std::env::var("EBBTIDE_MEASURED_SETUP") else { return };
    let setup = Setup::from_text(&setup);
    let path = std::env::var("EBBTIDE_MEASURED_STORE").unwrap();
    let store = Arc::new(Store::open(Path::new(&path), 0, Access::Exclusive).unwrap());
    let mut options = Options::new(setup.budget_bytes);
    options.cores = setup.cores;
    options.tuning.threads = Some(setup.threads_per_core);
    options.tuning.batch_max = setup.batch_max;
    options.stack_bytes = setup.stack_bytes;

    let (before, peak_before) = resident();
    let engine = Arc::new(Engine::open(&store, &options).unwrap());
    common::watch(&engine);
    let tenths = if setup.submitted {
        submit_all(&engine, setup);
        vec![[resident().0; 10]]
    } else {
        engine.run(|core| Load::new(setup, core), |load| load.tenths.into_inner()).unwrap()
    };
    let (_, peak) = resident();

    let counted = engine.counters().snapshot();
    let (budget, budget_bytes) = (engine.budget(), setup.budget_bytes);
    assert_eq!(counted.jobs, u64::from(setup.jobs_per_core) * options.cores as u64);
    assert!(peak > peak_before, "the peak is not the engine's");
    // The kernel's own peak lags behind.
    let used = tenths.iter().flatten().fold(peak, |most, &sample| most.max(sample)) - before;
    println!(
        "{} cores, {} threads, batches of {}, by {}: {used} bytes of {budget_bytes}, frames {} bytes, \
         first tenth {:?}, last {:?}",
        options.cores,
        options.threads_per_core(),
        options.tuning.batch_max,
        engine.device_name(),
        budget.frames_bytes,
        tenths.iter().map(|core| core[0]).max().unwrap() - before,
        tenths.iter().map(|core| core[9]).max().unwrap() - before,
    );
    assert!(used <= budget_bytes as u64 + CONSTANT_BYTES, "{used} bytes of {budget_bytes}");

    // The rest after stacks and page states goes to frames, and they are used.
    let fixed = budget.states_bytes + budget.policy_bytes + budget.cores_bytes;
    assert!(budget.frames_bytes + fixed > budget_bytes - 2 * PAGE_BYTES);
    if setup.threads_per_core == USUAL.threads_per_core {
        assert!(budget.frames_bytes >= budget_bytes / 2);
    }
    let left = counted.evictions_clean + counted.evictions_dirty - counted.revived;
    let holding = counted.flash_reads - left;
    // Large batches need up to an eighth of all frames free, ahead of need.
    let free = if setup.batch_max == USUAL.batch_max { 20 } else { 6 };
    let frames = budget.frames as u64;
    assert!(holding >= frames - frames / free, "{holding} of {frames} frames");

    for core in tenths {
        let (first, last) = (core[0], core[9]);
        // Lists grow to what many threads need once, within the budget.
        let threads = setup.cores * setup.threads_per_core;
        let more_threads = threads.saturating_sub(2 * USUAL.threads_per_core) as u64;
        let growth_max = GROWTH_BYTES_MAX + 256 * more_threads;
        assert!(last <= first + growth_max, "resident: {core:?}");
    }
}

/// Submits the jobs of all cores from one thread, as fast as the queue takes them.
fn submit_all(engine: &Arc<Engine>, setup: Setup) {
    let jobs = engine.start().unwrap();
    let queue_max = setup.cores * setup.threads_per_core;
    let mut tickets = VecDeque::with_capacity(queue_max);
    let mut random = 1u64;
    for _ in 0..setup.jobs_per_core as usize * setup.cores {
        random = random.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
        if tickets.len() == queue_max {
            let ticket: Ticket<u64> = tickets.pop_front().unwrap();
            ticket.wait().unwrap();
        }
        let (depth, seed) = (setup.depth, random | 1);
        tickets.push_back(jobs.submit(move |memory| descend(memory, depth, seed)));
    }
    assert!(tickets.into_iter().all(|ticket| ticket.wait().is_ok()));
    jobs.stop().unwrap();
}

fn measure(path: &Path, setup: Setup) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    run(child
        .args(["--exact", "the_measured_process", "--nocapture"])
        .env("EBBTIDE_MEASURED_SETUP", setup.to_text())
        .env("EBBTIDE_MEASURED_STORE", path));
}

/// Runs a process that measures itself. Returns its output.
fn run(child: &mut Command) -> String {
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}{complaint}", output.status);
    print!("{said}");
    said.into_owned()
}

/// Not a test on its own: the body of a process that gets a file of rows.
#[test]
fn the_gathering_process() {
    let Some(path) = std::env::var_os("EBBTIDE_ROWS") else { return };
    let (row_bytes, rows) = (512, PAGES * PAGE_BYTES as u64 / 512);
    // A call takes 4 bytes a row while it lasts, and where the allocator puts them is chance: few a
    // call.
    let (mut indices, mut into) = (vec![0; 5_000], vec![1; 5_000 * row_bytes]);
    let (before, _) = resident();
    let options = Options::new(USUAL.budget_bytes);
    let run = RowRun { offset: 0, rows };
    let file = RowFile::open(Path::new(&path), &[run], row_bytes, &options).unwrap();
    let (mut random, mut tenths) = (1u64, [0; 10]);
    for tenth in &mut tenths {
        for _ in 0..10 {
            for index in &mut indices {
                random = random.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1);
                *index = (random >> 20) % rows;
            }
            file.prefetch(&indices[..1_000]).unwrap();
            file.gather(&indices, &mut into).unwrap();
        }
        *tenth = resident().0;
    }
    let (most, budget) = (resident().1 - before, USUAL.budget_bytes as u64);
    println!(
        "rows gathered with {budget} bytes, of which {} are frames: {most} bytes",
        file.budget().frames_bytes
    );
    assert!(most <= budget + CONSTANT_BYTES, "{most} bytes of {budget}");
    assert!(most >= budget / 10 * 9, "the frames are not used: {most} bytes of {budget}");
    let (first, last) = (tenths[0], tenths[9]);
    assert!(last <= first + GROWTH_BYTES_MAX, "resident: {tenths:?}");
}

#[test]
fn the_budget_is_kept_by_gathers_of_rows() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("rows");
    let bytes = PAGES * PAGE_BYTES as u64;
    std::fs::File::create(&path).unwrap().set_len(bytes).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap());
    run(child.args(["--exact", "the_gathering_process", "--nocapture"]).env("EBBTIDE_ROWS", &path));
}

fn measure_on_a_new_store(setup: Setup) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("store");
    drop(create(&path));
    measure(&path, setup);
}

/// Not a test on its own. The first process gets a number of transactions and a budget, and leaves
/// them behind in the log. The next process recovers them with the usual budget.
#[test]
fn the_recovering_process() {
    let Some(path) = std::env::var_os("EBBTIDE_RECOVERED_STORE") else { return };
    let number = |name| Some(std::env::var(name).ok()?.parse::<usize>().unwrap());
    let count = number("EBBTIDE_TRANSACTIONS").unwrap() as u64;
    let store = Arc::new(Store::open(Path::new(&path), 0, Access::Exclusive).unwrap());
    let (budget, budget_bytes) = (number("EBBTIDE_BUDGET"), USUAL.budget_bytes as u64);
    let budget_before = budget.unwrap_or(USUAL.budget_bytes);
    let options = Options { durability: Some(Policy::Always), ..Options::new(budget_before) };
    let (before, _) = resident();
    let engine = Arc::new(Engine::open(&store, &options).unwrap());
    common::watch(&engine);
    let jobs = engine.start().unwrap();
    if budget.is_none() {
        let (recovered, open) = (engine.recovered().unwrap(), resident().1 - before);
        // Every frame gets a page.
        let read = jobs.submit(move |memory| {
            (0..count).filter(|&page| memory.load::<u64>(PageId(page).start()) == page).count()
        });
        let (read, most) = (read.wait().unwrap() as u64, resident().1 - before);
        let (transactions, pages) = (recovered.transactions, recovered.pages);
        println!("{transactions} transactions and {pages} pages, then {most} bytes");
        println!("opened: {open}");
        assert!(transactions >= count / 2, "a checkpoint left too little to recover");
        assert_eq!(read, count);
        assert!(most <= budget_bytes + CONSTANT_BYTES, "{most} bytes of {budget_bytes}");
        return;
    }
    let store_to = |page: u64| {
        jobs.submit(move |memory| {
            let at = PageId(page).start();
            memory.transaction(|memory| memory.store(at, page)).unwrap().1
        })
    };
    let mut last = Lsn::ZERO;
    for first in (0..count).step_by(128) {
        let tickets: Vec<_> = (first..first + 128).map(store_to).collect();
        last = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).fold(last, Lsn::max);
    }
    // Once: every flush ends a block of the log, and more of them on a slow disk would begin a
    // checkpoint.
    jobs.submit(move |memory| memory.durable(last)).wait().unwrap().unwrap();
    // Without a checkpoint.
    std::process::exit(0);
}

/// Recovers a store with the usual budget that as many transactions, of a page each, were made in
/// with another one.
fn recover(transactions: u64, budget_bytes: usize) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("store");
    let (spare_pages, tag) = (PAGES / 2, "recovered".into());
    let new = NewStore { path, offset: 0, pages: PAGES, spare_pages, tag, force: false };
    drop(Store::create_persistent(&new, 64 << 20).unwrap());
    let process = |transactions: u64, budget: Option<usize>| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "the_recovering_process", "--nocapture"]);
        child.env("EBBTIDE_RECOVERED_STORE", &new.path);
        child.env("EBBTIDE_TRANSACTIONS", transactions.to_string());
        child.envs(budget.map(|bytes| ("EBBTIDE_BUDGET", bytes.to_string())));
        run(&mut child)
    };
    let opened = |said: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix("opened: "));
        line.expect("it says so").parse::<u64>().unwrap()
    };
    let empty = opened(&process(0, None));
    process(transactions, Some(budget_bytes));
    let recovered = opened(&process(transactions, None));
    assert!(
        recovered <= empty + CONSTANT_BYTES,
        "{recovered} bytes, and {empty} of an empty store"
    );
}

#[test]
fn the_budget_is_kept_by_a_recovery_with_far_less_dram_than_before() {
    recover(25_600, 10 * USUAL.budget_bytes);
}

#[test]
#[ignore = "slow"]
fn the_budget_is_kept_by_a_recovery_from_a_log_of_many_more_pages() {
    recover(96_000, USUAL.budget_bytes);
}

#[test]
fn the_budget_is_kept_on_one_core_and_on_two() {
    for cores in [1, 2] {
        measure_on_a_new_store(Setup { cores, ..USUAL });
    }
}

#[test]
fn the_budget_is_kept_with_thousands_of_threads() {
    measure_on_a_new_store(Setup {
        threads_per_core: 8_000,
        stack_bytes: 16 << 10,
        budget_bytes: 384 << 20,
        depth: 0,
        jobs_per_core: 80_000,
        ..USUAL
    });
}

#[test]
fn the_budget_is_kept_with_the_largest_batches() {
    let large = Setup { batch_max: 4096, budget_bytes: 96 << 20, ..USUAL };
    measure_on_a_new_store(large);
    measure_on_a_new_store(Setup { cores: 2, ..large });
}

#[test]
fn the_budget_is_kept_with_a_full_queue_and_as_many_tickets_kept() {
    let submitted = Setup { submitted: true, depth: 0, jobs_per_core: 12_000, ..USUAL };
    measure_on_a_new_store(submitted);
    measure_on_a_new_store(Setup {
        threads_per_core: 8_000,
        stack_bytes: 16 << 10,
        budget_bytes: 384 << 20,
        ..submitted
    });
}
