//! The engine: an address space on flash, a DRAM cache under a hard budget, and cores that run jobs.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use ebbtide_core::durability::{Policy, Recovered};
use ebbtide_core::prefetch::{PrefetcherKind, Prefetching, Preset};
use ebbtide_core::replacement::{Geometry, PolicyKind};
use ebbtide_core::{Addr, FrameId, PAGE_BYTES, PageId, Placement, Span, Time, Watch};
use ebbtide_fiber::{STACK_BYTES_MAX, STACK_BYTES_MIN};
use parking_lot::Mutex;
use thiserror::Error;

use crate::affinity;
use crate::backside::{Backside, Limits};
use crate::buffer_pool::{BufferPool, Prepare, WriteGate};
use crate::cache::{CORES_MAX, Cache, FRAME_BYTES, FRAMES_MAX, PAGE_STATE_BYTES, SLOTS_MAX};
use crate::counters::Counters;
use crate::device::Device;
use crate::device::path::{self, DevicePath, Opened};
use crate::device::uring::Uring;
use crate::engine_state::EngineState;
use crate::epoch::Epochs;
use crate::extent::Extent;
use crate::job::Service;
use crate::log_writer::LogWriter;
use crate::mailbox::Mailboxes;
use crate::persist::{FileDisk, LogDisk, Persist, Progress};
use crate::store::{self, Claim, Store, StoreError};
use crate::tuning::Tuning;
use crate::wait_queues::WaitQueues;
use crate::worker::{Setup, Worker};

/// What a core takes whatever its threads and batches: its kernel thread, histogram and lists.
const CORE_BYTES: usize = 144 << 10;

/// What a user-level thread takes beside its stack: its fiber, job and places in queues.
const THREAD_BYTES: usize = 512;

/// What a job that waits in the queue of [`Jobs`](crate::Jobs) takes, with its ticket and a result. A
/// closure that carries more than a few words takes that in addition.
const QUEUED_JOB_BYTES: usize = 256;

/// What a request under way takes: its operation, the description of its memory, and its completion.
const REQUEST_BYTES: usize = 200;

/// A budget beyond this is as good as this: no machine has more.
const DRAM_BYTES_MAX: usize = 1 << 52;

/// The fewest frames a core can work with.
const FRAMES_PER_CORE_MIN: usize = 4;

/// How an engine is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// The DRAM budget in bytes. Frames, page states, the policy's memory, stacks and buffers all
    /// come out of it.
    pub dram_bytes: usize,
    /// Cores to run jobs on, each a pinned kernel thread.
    pub cores: usize,
    /// The CPUs to pin them to, one a core. If empty, the kernel decides.
    pub cpus: Vec<usize>,
    /// Stack of a job in bytes: 64 KiB unless told otherwise, three times what the deepest of the shipped
    /// programs uses. [`Counters::stack_used_bytes`] says what jobs have used.
    pub stack_bytes: usize,
    /// How misses are treated.
    pub tuning: Tuning,
    /// How long a request of a busy core waits for others to join it, at most. `None` lets it wait as
    /// long as the core's ready jobs hide what the device takes for a read.
    pub hold: Option<Duration>,
    /// When a transaction on a persistent store is acknowledged.
    pub durability: Policy,
    /// The way to the drive. `None` takes the one that suits what the store lies on.
    pub device_path: Option<DevicePath>,
}

/// The most user-level threads that a core is given unless asked for more: they cover a read of
/// 500 µs when a core misses every 4.
const THREADS_MAX: usize = 256;

/// The fewest user-level threads that a core is given unless asked for less: fewer hide little of a
/// read.
const THREADS_MIN: usize = 8;

/// Frames that a job needs for the pages it works on. With fewer, jobs evict each other's pages, and
/// throughput falls as more jobs are under way.
const FRAMES_PER_THREAD: usize = 64;

impl Options {
    /// The defaults, with a budget of `dram_bytes`.
    pub fn new(dram_bytes: usize) -> Options {
        Options {
            dram_bytes,
            cores: 1,
            cpus: Vec::new(),
            stack_bytes: 64 << 10,
            tuning: Tuning::default(),
            hold: None,
            durability: Policy::default(),
            device_path: None,
        }
    }

    /// User-level threads a core.
    pub fn threads_per_core(&self) -> usize {
        self.tuning.threads.unwrap_or_else(|| self.threads_that_fit())
    }

    /// How many threads a core should have under this budget: few enough that they take an eighth of it
    /// at most, and every job under way finds frames for its pages.
    fn threads_that_fit(&self) -> usize {
        let share = self.dram_bytes / self.cores.max(1);
        let by_memory = share / 8 / self.thread_bytes();
        let by_frames = share / PAGE_BYTES / FRAMES_PER_THREAD;
        by_memory.min(by_frames).clamp(THREADS_MIN, THREADS_MAX)
    }

    /// What a thread takes: its stack, and what is kept of its job.
    fn thread_bytes(&self) -> usize {
        self.stack_bytes.saturating_add(STACK_KERNEL_BYTES + THREAD_BYTES + QUEUED_JOB_BYTES)
    }

    /// The most pages that a core fetches ahead of demand at once.
    pub fn ahead_max(&self) -> usize {
        2 * self.tuning.batch_max
    }
}

/// Why an engine cannot be started.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum EngineError {
    #[error(
        "a DRAM budget of {given_bytes} bytes is too small: page states, stacks and buffers for \
         {pages} pages and {cores} cores need at least {needed_bytes}"
    )]
    BudgetTooSmall { given_bytes: usize, needed_bytes: usize, pages: u64, cores: usize },
    #[error(
        "the replacement policy '{0}' must see every hit in order, which only a simulator can offer"
    )]
    NeedsEveryHit(&'static str),
    #[error(
        "the replacement policy '{0}' looks at every frame for a victim, which only a cache of small \
         sets can afford"
    )]
    SearchesSet(&'static str),
    #[error("{what} must be {expected}")]
    BadOption { what: &'static str, expected: &'static str },
    #[error(
        "{stacks} threads on all cores need more mappings than this kernel allows a process \
         (vm.max_map_count): expected at most {stacks_max}"
    )]
    TooManyStacks { stacks: usize, stacks_max: usize },
    #[error("an address space has 1 to {SLOTS_MAX} pages, not {0}")]
    BadPages(u64),
    #[error("the engine is running already")]
    Running,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{}: {reason}", path.display())]
    Path { path: PathBuf, reason: String },
    #[error("cannot {doing}: {source}")]
    Io { doing: &'static str, source: io::Error },
}

/// How much of a budget goes where, in bytes and frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Frames of the DRAM cache.
    pub frames: usize,
    /// Bytes for frames, their marks and the table of resident pages.
    pub frames_bytes: usize,
    /// Bytes for the state of every page and slot.
    pub states_bytes: usize,
    /// Bytes for the replacement policy.
    pub policy_bytes: usize,
    /// Bytes for stacks, rings, the miss table, queued jobs, buffers and prefetchers.
    pub cores_bytes: usize,
}

impl Budget {
    /// Divides the budget of `options` for an address space of `pages` pages.
    ///
    /// # Errors
    /// When it does not even hold what has to be there.
    pub fn divide(options: &Options, pages: u64) -> Result<Budget, EngineError> {
        check(options)?;
        if !(1..=SLOTS_MAX).contains(&pages) {
            return Err(EngineError::BadPages(pages));
        }
        // A store has at most half as many spare slots as pages.
        let states_bytes =
            pages as usize * PAGE_STATE_BYTES + Placement::memory_bytes(pages * 3 / 2);
        let prefetching = match options.tuning.prefetch {
            PrefetcherKind::None => 0,
            kind => Prefetching::memory_bytes(pages) + kind.memory_bytes(Preset::Original, pages),
        };
        let depth = queue_depth(options);
        let requests = Uring::ring_bytes(depth) + depth * REQUEST_BYTES;
        let threads = options.threads_per_core() * options.thread_bytes();
        let core = CORE_BYTES + threads + requests + prefetching;
        let waiters = options.cores * options.threads_per_core();
        let cores_bytes = options.cores * core + Cache::miss_table_bytes(waiters);
        let policy_bytes = |frames| {
            let geometry = Geometry::fully_associative(frames);
            options.tuning.admission.memory_bytes(options.tuning.replacement, geometry, pages)
        };
        let needed = |frames: usize| {
            states_bytes + cores_bytes + policy_bytes(frames) + Cache::frames_bytes(frames)
        };
        let frames_min = options.cores * FRAMES_PER_CORE_MIN;
        if needed(frames_min) > options.dram_bytes {
            return Err(EngineError::BudgetTooSmall {
                given_bytes: options.dram_bytes,
                needed_bytes: needed(frames_min),
                pages,
                cores: options.cores,
            });
        }
        // The most frames that fit, by bisection: only the policy knows how its memory grows.
        let (mut fits, mut too_many) =
            (frames_min, options.dram_bytes.min(DRAM_BYTES_MAX) / FRAME_BYTES + 1);
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            if needed(middle) <= options.dram_bytes { fits = middle } else { too_many = middle }
        }
        // More frames than pages would never be used.
        let frames = fits.min(pages as usize).clamp(frames_min, FRAMES_MAX - 1);
        Ok(Budget {
            frames,
            frames_bytes: Cache::frames_bytes(frames),
            states_bytes,
            policy_bytes: policy_bytes(frames),
            cores_bytes,
        })
    }
}

/// The most requests of a core at once: misses, pages fetched ahead, and runs of pages on their way out.
fn queue_depth(options: &Options) -> usize {
    options.threads_per_core() + 4 * options.tuning.batch_max
}

/// What the kernel keeps for a mapped stack: page tables and the mapping's own record.
const STACK_KERNEL_BYTES: usize = 1 << 10;

/// The device that `options` ask for, over the open file at `path`.
fn open_device(file: Arc<File>, path: &Path, options: &Options) -> Result<Opened, EngineError> {
    path::open(file, options.device_path)
        .map_err(|reason| EngineError::Path { path: path.to_path_buf(), reason })
}

/// Where the pages of an address space may lie on a device.
struct Places {
    pages: u64,
    slots: u64,
    base_offset: u64,
    /// Whether no page has been written yet, and all are zeros.
    blank: bool,
    /// The bytes that belong to the last page.
    last_page_bytes: usize,
    extent: Option<Extent>,
    persist: Option<Persist>,
}

/// An address space on flash behind a DRAM cache.
pub struct Engine {
    /// The first field, so that it ends first: what is committed becomes durable.
    log_writer: Option<LogWriter>,
    shared: Arc<EngineState>,
    /// The store that it was opened over, if any.
    store: Option<Arc<Store>>,
    options: Options,
    budget: Budget,
    device_name: &'static str,
    notices: Vec<String>,
    /// Whether its cores run: there is one of each.
    running: AtomicBool,
}

/// Marks an engine as stopped when it is dropped.
struct RunningMark<'a>(&'a AtomicBool);

impl Drop for RunningMark<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Says what every core is doing and who waits for which page or word, at any time from any thread.
impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("device", &self.device_name)
            .field("running", &self.running)
            .field("budget", &self.budget)
            .field("state", &self.shared)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// The engine over `store`, by io_uring, or by threads with a notice where that is refused.
    ///
    /// The engine has the store for itself as long as it lives. A page it writes back may go to any
    /// slot, so a store that an engine has written to cannot be used again until it is created anew.
    ///
    /// # Errors
    /// When the options do not fit, the store has an engine or was written to, or memory or the device
    /// cannot be had.
    pub fn open(store: &Arc<Store>, options: &Options) -> Result<Engine, EngineError> {
        Engine::open_watched(store, options, Watch::unattended())
    }

    /// As [`Engine::open`]; `watch` is told how far the recovery of a persistent store is, and may stop
    /// it: the store is then as it was.
    ///
    /// # Errors
    /// As [`Engine::open`], and when it was stopped.
    pub fn open_watched(
        store: &Arc<Store>,
        options: &Options,
        watch: Watch<'_>,
    ) -> Result<Engine, EngineError> {
        let (device, notice) = open_device(store.file(), store.path(), options)?;
        let mut engine = Engine::over_watched(store, device, &|disk| disk, options, watch)?;
        engine.notices.extend(notice);
        Ok(engine)
    }

    /// The engine over `store` by a device of the caller's choice.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn over(
        store: &Arc<Store>,
        device: Arc<dyn Device>,
        options: &Options,
    ) -> Result<Engine, EngineError> {
        Engine::over_disks(store, device, &|disk| disk, options)
    }

    /// As [`Engine::over`]; of a persistent store, the log and recovery go by what `around` makes of
    /// the disk that they would go by: something that records or fails, for tests.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn over_disks(
        store: &Arc<Store>,
        device: Arc<dyn Device>,
        around: &dyn Fn(LogDisk) -> LogDisk,
        options: &Options,
    ) -> Result<Engine, EngineError> {
        Engine::over_watched(store, device, around, options, Watch::unattended())
    }

    fn over_watched(
        store: &Arc<Store>,
        device: Arc<dyn Device>,
        around: &dyn Fn(LogDisk) -> LogDisk,
        options: &Options,
        watch: Watch<'_>,
    ) -> Result<Engine, EngineError> {
        let claim = store.claim()?;
        let header = store.header();
        let marks = store.clone();
        let geometry = header.persist();
        let persists = geometry.is_some();
        // A persistent store is never marked: its log says what is true of it.
        let before_first_write: Prepare = Box::new(move || match persists {
            true => Ok(()),
            false => marks.mark_dirty().map_err(io::Error::other),
        });
        let mut options = options.clone();
        let fibers = options.cores.saturating_mul(options.threads_per_core());
        let dram_bytes = options.dram_bytes;
        if let Some(geometry) = geometry {
            check(&options)?;
            // The threads stay as many as the whole budget gives.
            options.tuning.threads = Some(options.threads_per_core());
            let taken = Persist::dram_bytes(&geometry, fibers, dram_bytes);
            options.dram_bytes = options.dram_bytes.saturating_sub(taken);
        }
        let frames = Budget::divide(&options, header.pages)?.frames;
        let (mut persist, mut log) = (None, None);
        if let Some(geometry) = geometry {
            let disk = FileDisk::new(store.file(), store.persist_offset(), store.path())?;
            let mut disk = around(Box::new(disk));
            let (policy, sizes) = (options.durability, (dram_bytes, frames, fibers));
            persist = Some(Persist::open(geometry, &mut disk, policy, sizes, watch)?);
            log = Some(disk);
        }
        let places = Places {
            pages: header.pages,
            slots: header.places(),
            base_offset: store.pages_offset(),
            blank: header.blank,
            last_page_bytes: PAGE_BYTES,
            // Every page that survives crashes has a checksum, which tells of what was cut off as well.
            extent: if persists { None } else { Some(store.extent()?) },
            persist,
        };
        let mut engine = Engine::build(device, places, before_first_write, claim, &options)?;
        engine.store = Some(store.clone());
        if let (Some(persist), Some(disk)) = (engine.persist().cloned(), log) {
            let started = LogWriter::start(persist, &engine.shared, disk);
            let doing = "start the thread of the log";
            engine.log_writer = Some(started.map_err(|source| EngineError::Io { doing, source })?);
        }
        Ok(engine)
    }

    /// The engine over the `bytes` bytes of a file of any kind that begin `offset` bytes into it, such
    /// as an array that another program wrote. The file is opened for reading and never written: what
    /// jobs store stays in DRAM as long as there is room, and a page that would have to leave with a
    /// change fails the jobs that need its frame.
    ///
    /// Gives the address of the first byte as well: pages of the address space are pages of the file.
    /// [`FlashMemory::read_bytes`](crate::FlashMemory::read_bytes) takes addresses that are no multiple
    /// of 8.
    ///
    /// # Errors
    /// When the file cannot be read there, or as [`Engine::open`].
    pub fn open_file(
        path: &Path,
        offset: u64,
        bytes: u64,
        options: &Options,
    ) -> Result<(Engine, Addr), EngineError> {
        let file = Arc::new(store::open_to_read(path, offset, bytes)?);
        let start = Addr(offset % PAGE_BYTES as u64);
        let base_offset = offset - start.0;
        let end = start.0 + bytes;
        let pages = end.div_ceil(PAGE_BYTES as u64);
        let last_page_bytes = (end - (pages.max(1) - 1) * PAGE_BYTES as u64) as usize;
        let extent = Extent::of(file.clone(), offset, offset + bytes, true)
            .map_err(|source| EngineError::Io { doing: "look at the file", source })?;
        let (device, notice) = open_device(file, path, options)?;
        let blank = false;
        let extent = Some(extent);
        let persist = None;
        let places =
            Places { pages, slots: pages, base_offset, blank, last_page_bytes, extent, persist };
        let read_only = || Err(io::ErrorKind::PermissionDenied.into());
        let mut engine = Engine::build(device, places, Box::new(read_only), None, options)?;
        engine.notices.extend(notice);
        Ok((engine, start))
    }

    /// The engine over a bare device that holds `pages` pages from its start.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn over_device(
        device: Arc<dyn Device>,
        pages: u64,
        options: &Options,
    ) -> Result<Engine, EngineError> {
        Engine::over_roomy_device(device, pages, 0, options)
    }

    /// As [`Engine::over_device`], with `spare_pages` more places on the device, which keep runs of
    /// written pages long.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn over_roomy_device(
        device: Arc<dyn Device>,
        pages: u64,
        spare_pages: u64,
        options: &Options,
    ) -> Result<Engine, EngineError> {
        let places = Places {
            pages,
            slots: pages + spare_pages,
            base_offset: 0,
            blank: false,
            last_page_bytes: PAGE_BYTES,
            extent: None,
            persist: None,
        };
        Engine::build(device, places, Box::new(|| Ok(())), None, options)
    }

    fn build(
        device: Arc<dyn Device>,
        places: Places,
        before_first_write: Prepare,
        claim: Option<Claim>,
        options: &Options,
    ) -> Result<Engine, EngineError> {
        let Places { pages, slots, base_offset, blank, last_page_bytes, extent, persist } = places;
        let mut options = options.clone();
        check(&options)?;
        let polled_bytes = options.cores * device.polled_ring_bytes(queue_depth(&options));
        if polled_bytes > 0 {
            // The threads stay as many as the whole budget gives.
            options.tuning.threads = Some(options.threads_per_core());
            options.dram_bytes = options.dram_bytes.saturating_sub(polled_bytes);
        }
        let budget = Budget::divide(&options, pages)?;
        check_mappings(&options)?;
        let cores = options.cores;
        let waiters = cores * options.threads_per_core();
        let io = |doing| move |source| EngineError::Io { doing, source };
        let policy = (options.tuning.admission, options.tuning.replacement);
        let mut cache = Cache::new(pages, budget.frames, policy, waiters, blank)
            .map_err(io("map the DRAM cache"))?;
        if let Some(persist) = &persist {
            (0..pages).map(PageId).for_each(|page| cache.place(page, persist.slot_of(page)));
        }
        // Small caches keep a small reserve: most frames should hold pages.
        let reserve = (budget.frames / (8 * cores)).clamp(1, 2 * options.tuning.batch_max);
        let depth = queue_depth(&options);
        let limits = Limits {
            depth,
            batch_max: options.tuning.batch_max,
            hold: options.hold.map(|hold| Span::from_ns(hold.as_nanos() as u64)),
            reserve,
            prefetches_max: options.ahead_max(),
        };
        let mut queues = (0..cores)
            .map(|_| device.queue(depth))
            .collect::<io::Result<Vec<_>>>()
            .map_err(io("open the device"))?;
        let registered = queues.iter_mut().try_for_each(|queue| queue.register(cache.memory()));
        let mailboxes = Mailboxes::new(queues.iter().map(|queue| queue.sleeper()).collect());
        let backside = |(core, queue)| {
            let prefetching = (options.tuning.prefetch != PrefetcherKind::None).then(|| {
                Prefetching::new(options.tuning.prefetch.build(Preset::Original, pages), pages)
            });
            Mutex::new(Backside::new(core, limits, queue, prefetching))
        };
        let epochs = Epochs::new(cores);
        let mut notices = Vec::new();
        if let Err(error) = registered {
            notices.push(format!(
                "the DRAM cache is not registered with io_uring ({error}): each read costs about \
                 0.4 us of CPU more; raise the limit on locked memory (ulimit -l) beyond --dram"
            ));
        }
        if !epochs.barrier_works() {
            notices.push(
                "membarrier is refused here: a job that computes for long without touching memory \
                 may delay the misses of other cores"
                    .into(),
            );
        }
        let pool = BufferPool {
            cache,
            epochs,
            mailboxes,
            counters: Counters::new(cores),
            driven: (0..cores).map(|_| CachePadded::default()).collect(),
            placement: Mutex::new(Placement::new(
                slots.min(SLOTS_MAX),
                if blank { 0 } else { pages },
            )),
            base_offset,
            spare: Mutex::new((0..budget.frames as u32).rev().map(FrameId).collect()),
            write_gate: WriteGate::new(before_first_write),
            last_page: (pages as u32 - 1, last_page_bytes),
            extent,
            persist: persist.map(Arc::new),
            start: Instant::now(),
        };
        let shared = EngineState {
            backsides: queues.into_iter().enumerate().map(backside).collect(),
            pool,
            wait_queues: WaitQueues::new(),
            prospects: (0..cores).map(|_| CachePadded::default()).collect(),
            hints: options.tuning.hints,
            _claim: claim,
        };
        Ok(Engine {
            log_writer: None,
            store: None,
            shared: Arc::new(shared),
            options,
            budget,
            device_name: device.name(),
            notices,
            running: AtomicBool::new(false),
        })
    }

    /// Runs a service on every core until each gives [`Offer::End`](crate::Offer), and returns what
    /// `finish` makes of each. The cache keeps its pages between runs.
    ///
    /// # Errors
    /// When it runs already, or a core's thread or stacks cannot be had.
    pub fn run<S: Service, R: Send>(
        &self,
        make: impl Fn(usize) -> S + Sync,
        finish: impl Fn(S) -> R + Sync,
    ) -> Result<Vec<R>, EngineError> {
        if self.running.swap(true, Ordering::Acquire) {
            return Err(EngineError::Running);
        }
        let _running = RunningMark(&self.running);
        let io = |doing| move |source| EngineError::Io { doing, source };
        let run_core = |core: usize| -> Result<R, EngineError> {
            if let Some(&cpu) = self.options.cpus.get(core) {
                affinity::pin(cpu).map_err(io("pin a core"))?;
            }
            let setup = Setup {
                core,
                threads: self.options.threads_per_core(),
                stack_bytes: self.options.stack_bytes,
                discipline: self.options.tuning.scheduler,
            };
            let worker = Worker::new(self.shared.clone(), &setup, make(core))
                .map_err(io("map the stacks of a core"))?;
            Ok(finish(worker.run()))
        };
        std::thread::scope(|scope| {
            let cores: Vec<_> = (0..self.options.cores)
                .map(|core| {
                    let run_core = &run_core;
                    std::thread::Builder::new()
                        .name(format!("ebbtide-core-{core}"))
                        .spawn_scoped(scope, move || run_core(core))
                })
                .collect::<io::Result<Vec<_>>>()
                .map_err(io("start a core's thread"))?;
            cores
                .into_iter()
                .map(|core| {
                    core.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
                })
                .collect()
        })
    }

    /// Wakes `core` if it sleeps, to ask its service again.
    pub fn rouse(&self, core: usize) {
        self.shared.pool.mailboxes.rouse(core);
    }

    /// The engine's clock: time since it was made.
    pub fn now(&self) -> Time {
        self.shared.pool.now()
    }

    /// Live counters, readable from any thread.
    pub fn counters(&self) -> &Counters {
        &self.shared.pool.counters
    }

    /// How far the log of a persistent store is: what may be acknowledged, what survives a crash.
    /// `None` for a store without a log. Every time that more of it survives, all cores are
    /// [roused](Engine::rouse).
    pub fn progress(&self) -> Option<Progress> {
        self.shared.pool.persist.as_ref().map(|persist| persist.progress())
    }

    /// Asks for a flush of all that is committed, without waiting for it.
    pub fn flush_soon(&self) {
        if let Some(persist) = &self.shared.pool.persist {
            persist.ask_flush();
        }
    }

    pub(crate) fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }

    pub(crate) fn persist(&self) -> Option<&Arc<Persist>> {
        self.shared.pool.persist.as_ref()
    }

    /// What recovery found when a persistent store was opened.
    pub fn recovered(&self) -> Option<&Recovered> {
        self.shared.pool.persist.as_ref().map(|persist| &persist.recovered)
    }

    /// How the budget is divided.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The options it runs with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// How it reaches flash.
    pub fn device_name(&self) -> &'static str {
        self.device_name
    }

    /// Whether its cores' rings take sockets.
    pub fn has_network(&self) -> bool {
        self.shared.backsides[0].lock().has_network()
    }

    /// Limits of this machine that the user should know of, a sentence each.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }
}

/// The longest time that requests may wait for others.
const HOLD_MAX: Duration = Duration::from_secs(24 * 3600);

fn check(options: &Options) -> Result<(), EngineError> {
    let bad = |what, expected| Err(EngineError::BadOption { what, expected });
    if options.cores == 0 || options.cores > CORES_MAX {
        return bad("the number of cores", "1 to 1024");
    }
    if options.threads_per_core() == 0 || options.threads_per_core() > 1 << 16 {
        return bad("the number of threads per core", "1 to 65536");
    }
    if !(STACK_BYTES_MIN..=STACK_BYTES_MAX).contains(&options.stack_bytes) {
        return bad("the stack of a job", "8 KiB to 1 GiB");
    }
    if options.tuning.batch_max == 0 || options.tuning.batch_max > 4096 {
        return bad("the submission batch", "1 to 4096 requests");
    }
    if options.hold.is_some_and(|hold| hold > HOLD_MAX) {
        return bad("the time a request waits for others", "at most a day");
    }
    if !options.cpus.is_empty() && options.cpus.len() != options.cores {
        return bad("the list of CPUs", "empty, or one for every core");
    }
    check_replacement(options.tuning.replacement)
}

/// Whether the kernel lets this process map all the stacks.
fn check_mappings(options: &Options) -> Result<(), EngineError> {
    let Ok(text) = std::fs::read_to_string("/proc/sys/vm/max_map_count") else { return Ok(()) };
    let Ok(mappings_max) = text.trim().parse::<usize>() else { return Ok(()) };
    let stacks = options.cores * options.threads_per_core();
    // A stack and its guard are two mappings; the rest of a process needs some as well.
    let stacks_max = mappings_max.saturating_sub(1024) / 2;
    if stacks > stacks_max {
        return Err(EngineError::TooManyStacks { stacks, stacks_max });
    }
    Ok(())
}

/// Whether an engine can run `policy`.
///
/// # Errors
/// When its hit path cannot tell the policy what that must know, or its one set is too large for it.
pub fn check_replacement(policy: PolicyKind) -> Result<(), EngineError> {
    if policy.needs_every_hit() {
        return Err(EngineError::NeedsEveryHit(policy.name()));
    }
    if policy.searches_set() {
        return Err(EngineError::SearchesSet(policy.name()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_budget_gets_few_threads_and_a_great_one_no_more_than_hide_a_read() {
        let threads = |mib: usize| Options::new(mib << 20).threads_per_core();
        assert_eq!([1, 4, 8, 64, 1024].map(threads), [8, 8, 15, 124, 256]);
        let shared = Options { cores: 4, ..Options::new(64 << 20) };
        assert_eq!(shared.threads_that_fit(), threads(16));
    }

    #[test]
    fn jobs_on_small_stacks_are_no_more_than_find_frames_for_their_pages() {
        let threads = |mib: usize| {
            Options { stack_bytes: 16 << 10, ..Options::new(mib << 20) }.threads_per_core()
        };
        assert_eq!([1, 4, 8, 61].map(threads), [8, 16, 32, 244]);
    }

    /// A budget of each kind: cores, threads, batches and a prefetcher.
    fn drawn_up() -> Vec<Options> {
        let usual = Options::new(64 << 20);
        let mut options = Options { cores: 3, stack_bytes: 16 << 10, ..Options::new(96 << 20) };
        (options.tuning.threads, options.tuning.batch_max) = (Some(100), 40);
        options.tuning.prefetch = PrefetcherKind::Leap;
        vec![usual, options]
    }

    fn sum_of(budget: &Budget) -> usize {
        budget.frames_bytes + budget.states_bytes + budget.policy_bytes + budget.cores_bytes
    }

    #[test]
    fn a_budget_has_room_for_each_part_of_each_core() {
        const PAGES: u64 = 1 << 20;
        for options in drawn_up() {
            let budget = Budget::divide(&options, PAGES).expect("it fits");
            let states = 4 * PAGES as usize + Placement::memory_bytes(PAGES + PAGES / 2);
            assert_eq!(budget.states_bytes, states);
            let Options { cores, stack_bytes, .. } = options;
            let threads = options.threads_per_core();
            let depth = threads + 4 * options.tuning.batch_max;
            let ahead = match options.tuning.prefetch {
                PrefetcherKind::None => 0,
                kind => {
                    Prefetching::memory_bytes(PAGES) + kind.memory_bytes(Preset::Original, PAGES)
                }
            };
            let each = [
                CORE_BYTES,
                threads * (stack_bytes + STACK_KERNEL_BYTES + THREAD_BYTES + QUEUED_JOB_BYTES),
                Uring::ring_bytes(depth),
                depth * REQUEST_BYTES,
                ahead,
            ];
            let shared = Cache::miss_table_bytes(cores * threads);
            assert_eq!(budget.cores_bytes, cores * each.iter().sum::<usize>() + shared);
        }
    }

    #[test]
    fn a_budget_is_used_up_to_its_last_frame() {
        const PAGES: u64 = 1 << 20;
        for mut options in drawn_up() {
            // Else their number would follow the budget.
            options.tuning.threads = Some(options.threads_per_core());
            let budget = Budget::divide(&options, PAGES).expect("it fits");
            assert!(budget.frames > 4 * options.cores && budget.frames < PAGES as usize);
            options.dram_bytes = sum_of(&budget);
            assert_eq!(Budget::divide(&options, PAGES).expect("it fits"), budget);
            options.dram_bytes -= 1;
            let less = Budget::divide(&options, PAGES).expect("it fits");
            assert_eq!(less.frames, budget.frames - 1);

            options.dram_bytes = 0;
            let error = Budget::divide(&options, PAGES).expect_err("it does not fit");
            let EngineError::BudgetTooSmall { needed_bytes, .. } = error else { panic!("{error}") };
            options.dram_bytes = needed_bytes;
            let least = Budget::divide(&options, PAGES).expect("it fits");
            assert_eq!((least.frames, sum_of(&least)), (4 * options.cores, needed_bytes));
            options.dram_bytes -= 1;
            Budget::divide(&options, PAGES).expect_err("it does not fit");
        }
    }
}
