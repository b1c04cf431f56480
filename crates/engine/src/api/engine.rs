//! The engine: an address space on flash, a DRAM cache under a hard budget, and cores that run
//! jobs.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use ebbtide_core::durability::{Policy, Recovered};
use ebbtide_core::prefetch::{PrefetcherKind, Prefetching, Preset};
use ebbtide_core::{Addr, PAGE_BYTES, Placement, Span, Time, Watch};
use parking_lot::Mutex;

use crate::api::budget::{Budget, division, queue_depth, reserve};
use crate::api::engine_error::EngineError;
use crate::api::options::{Options, check, check_mappings};
use crate::cache::nodes::Nodes;
use crate::cache::{Cache, SLOTS_MAX};
use crate::core::engine_state::EngineState;
use crate::core::job::Service;
use crate::core::log_writer::LogWriter;
use crate::core::worker::{Setup, Worker};
use crate::device::Device;
use crate::device::path::{self, Opened};
use crate::host::affinity;
use crate::host::clock::Clock;
use crate::host::extent::Extent;
use crate::host::of_process::OfProcess;
use crate::miss::core_shared::{CoreShared, PageWrites, Prepare, WriteGate};
use crate::miss::{Backside, Limits};
use crate::persist::{FileDisk, LogDisk, Persist, Progress};
use crate::store::{self, Claim, Store};
use crate::sync::counters::Counters;
use crate::sync::departures::Departures;
use crate::sync::epoch::Epochs;
use crate::sync::job_table::{JobTable, LongJob};
use crate::sync::mailbox::Mailboxes;
use crate::sync::wait_queues::WaitQueues;

/// The device that `options` ask for, over the open file at `path`.
fn open_device(file: Arc<File>, path: &Path, options: &Options) -> Result<Opened, EngineError> {
    path::open(file, options.device_path)
        .map_err(|reason| EngineError::Path { path: path.to_path_buf(), reason })
}

/// Explains why the kernel refused a ring. `limit_bytes` is how much memory this process may lock.
fn refused_ring(source: io::Error, limit_bytes: Option<u64>) -> EngineError {
    match (source.raw_os_error(), limit_bytes) {
        (Some(libc::ENOMEM), Some(limit_bytes)) => EngineError::LockedMemory { limit_bytes },
        _ => EngineError::Io { doing: "open the device", source },
    }
}

/// The bytes of memory that this process may lock, if they are limited.
fn locked_bytes_max() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one structure of this type.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// The places on a device where the pages of an address space may lie.
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
    /// True if a page is written where it was read.
    in_place: bool,
}

impl Places {
    /// The state that the backsides of `cores` cores share over `cache`.
    fn shared(
        self,
        cache: Arc<Cache>,
        (epochs, mailboxes, nodes): (Epochs, Mailboxes, Nodes),
        cores: usize,
        before_first_write: Prepare,
    ) -> CoreShared {
        let placed = if self.blank { 0 } else { self.pages };
        CoreShared {
            epochs,
            mailboxes,
            counters: Counters::new(cores),
            driven: (0..cores).map(|_| CachePadded::default()).collect(),
            placement: Mutex::new(Placement::new(self.slots.min(SLOTS_MAX), placed)),
            in_place: self.in_place,
            base_offset: self.base_offset,
            spare: CoreShared::all_spare(&nodes, cache.frame_count()),
            cache,
            nodes,
            write_gate: WriteGate::new(before_first_write),
            write_health: PageWrites::default(),
            departures: Departures::default(),
            last_page: (self.pages as u32 - 1, self.last_page_bytes),
            extent: self.extent,
            persist: self.persist.map(Arc::new),
            clock: Clock::start(),
        }
    }
}

/// The disk of the log of `store`, which `device` may write in a way of its own.
fn log_disk(store: &Store, device: &dyn Device) -> Result<LogDisk, EngineError> {
    let writes = device.log_writes();
    let writes = writes.map_err(|source| EngineError::Io { doing: "open the log", source })?;
    let disk = FileDisk::new(store.file(), store.persist_offset(), store.path())?;
    Ok(Box::new(disk.written_by(writes)))
}

/// Returns `options` with the DRAM that the rings of `device` leave. The store `persists` or not.
fn beside_rings(
    device: &dyn Device,
    persists: bool,
    options: &Options,
) -> Result<Options, EngineError> {
    let mut options = options.clone();
    check(&options)?;
    if let Some(policy) = options.durability.filter(|&policy| policy != Policy::None)
        && !persists
    {
        return Err(EngineError::NotDurable(policy));
    }
    let polled_bytes = options.cores * device.polled_ring_bytes(queue_depth(&options));
    if polled_bytes > 0 {
        // The threads stay as many as the whole budget gives.
        options.tuning.threads = Some(options.threads_per_core());
        options.dram_bytes = options.dram_bytes.saturating_sub(polled_bytes);
    }
    Ok(options)
}

/// Maps the DRAM cache of `budget`, and notes where the pages are.
fn map_cache(
    places: &Places,
    budget: &Budget,
    options: &Options,
) -> Result<Arc<Cache>, EngineError> {
    let (pages, frames) = (places.pages, budget.frames);
    let division = division(options, frames, pages);
    let policy = (division, options.tuning.admission, options.tuning.replacement);
    let fibers = (options.cores, options.threads_per_core());
    let cache = Cache::new(pages, frames, policy, fibers, places.blank)
        .map_err(|source| EngineError::Io { doing: "map the DRAM cache", source })?;
    Ok(match &places.persist {
        Some(persist) => persist.place_pages(cache),
        None => Arc::new(cache),
    })
}

/// The bounds of a backside with its share of `frames` frames.
fn limits(options: &Options, frames: usize) -> Limits {
    Limits {
        depth: queue_depth(options),
        batch_max: options.tuning.batch_max,
        hold: options.hold.map(|hold| Span::from_ns(hold.as_nanos() as u64)),
        reserve: reserve(options, frames),
        prefetches_max: options.ahead_max(),
    }
}

/// Returns the limits of this machine that cost time, a sentence each.
fn notices(registered: io::Result<()>, placed: io::Result<()>, barrier_works: bool) -> Vec<String> {
    let mut notices = Vec::new();
    if let Err(error) = registered {
        notices.push(format!(
            "the DRAM cache is not registered with io_uring ({error}): each read costs about \
             0.4 us of CPU more; raise the limit on locked memory (ulimit -l) beyond --dram"
        ));
    }
    if let Err(error) = placed {
        notices.push(format!(
            "the DRAM cache is not divided over the NUMA nodes of its cores (mbind: {error}): pages may \
             lie far from the core that uses them"
        ));
    }
    if !barrier_works {
        notices.push(
            "membarrier is refused here: a job that computes for long without touching memory \
             may delay the misses of other cores"
                .into(),
        );
    }
    notices
}

/// An address space on flash behind a DRAM cache.
pub struct Engine {
    /// The first field, so that it ends first: committed transactions become durable.
    log_writer: OfProcess<Option<LogWriter>>,
    shared: OfProcess<Arc<EngineState>>,
    /// The store that it was opened over, if any.
    store: Option<Arc<Store>>,
    options: Options,
    budget: Budget,
    device_name: &'static str,
    notices: Vec<String>,
    /// Whether its cores run: there is one of each.
    running: AtomicBool,
}

/// Ends writing when the thread of a core dies, because its jobs and its pages on their way stop
/// too.
struct EndsWriting<'a> {
    state: &'a EngineState,
    core: usize,
}

impl Drop for EndsWriting<'_> {
    fn drop(&mut self) {
        if let Some(persist) = self.state.pool.persist.as_ref().filter(|_| std::thread::panicking())
        {
            persist.end_writing(&format!("the thread of core {} has died", self.core));
        }
    }
}

/// Marks an engine as stopped when it is dropped.
struct RunningMark<'a>(&'a AtomicBool);

impl Drop for RunningMark<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Shows what every core is doing and the fibers that wait for each page or word. Works at any time
/// from any thread.
impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("device", &self.device_name)
            .field("running", &self.running)
            .field("budget", &self.budget)
            .field("state", &**self.shared)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens an engine over `store`. It uses io_uring, or Linux AIO with a notice where io_uring is
    /// refused, or threads where both are.
    ///
    /// The engine has the store for itself as long as it lives. It may write a page to any slot, so
    /// only a newly created store can be used after an engine has written to it.
    ///
    /// # Errors
    /// When the options do not fit, the store has an engine or was written to, or memory or the
    /// device cannot be had.
    pub fn open(store: &Arc<Store>, options: &Options) -> Result<Engine, EngineError> {
        Engine::open_watched(store, options, Watch::unattended())
    }

    /// As [`Engine::open`]. Reports the progress of the recovery of a persistent store to `watch`,
    /// which may stop it. The store is then unchanged.
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

    /// As [`Engine::over`], with a wrapped disk for the log and recovery of a persistent store.
    /// `around` makes the wrapper, which records or fails, for tests.
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
        let frames = Budget::of_store(&options, &header, 0)?.frames;
        let fibers = options.cores * options.threads_per_core();
        let dram_bytes = options.dram_bytes;
        if let Some(geometry) = geometry {
            // The threads stay as many as the whole budget gives.
            options.tuning.threads = Some(options.threads_per_core());
            let taken = Persist::dram_bytes(&geometry, fibers, dram_bytes);
            options.dram_bytes = options.dram_bytes.saturating_sub(taken);
        }
        let (mut persist, mut log) = (None, None);
        if let Some(geometry) = geometry {
            let mut disk = around(log_disk(store, &*device)?);
            let (policy, sizes) =
                (options.durability.unwrap_or_default(), (dram_bytes, frames, fibers));
            persist = Some(Persist::open(geometry, &mut disk, policy, sizes, watch)?);
            log = Some(disk);
        }
        let places = Places {
            pages: header.pages,
            slots: header.places(),
            base_offset: store.pages_offset(),
            blank: header.blank,
            last_page_bytes: PAGE_BYTES,
            // Every page that survives crashes has a checksum, which tells of what was cut off as
            // well.
            extent: if persists { None } else { Some(store.extent()?) },
            persist,
            in_place: false,
        };
        let mut engine = Engine::build(device, places, before_first_write, claim, &options)?;
        engine.store = Some(store.clone());
        if let (Some(persist), Some(disk)) = (engine.persist().cloned(), log) {
            engine.notices.extend(persist.notice());
            let started = LogWriter::start(persist, &engine.shared, disk);
            let doing = "start the thread of the log";
            *engine.log_writer = Some(started.map_err(|source| EngineError::Io { doing, source })?);
        }
        Ok(engine)
    }

    /// Opens an engine over `bytes` bytes of a file of any kind, from byte `offset` on. The bytes
    /// may be an array that another program wrote. The file is opened for reading and never
    /// written. Stores of jobs stay in DRAM while there is room. If a changed page would have to
    /// leave, the jobs that need its frame fail.
    ///
    /// Also returns the address of the first byte: pages of the address space are pages of the
    /// file. Addresses that are not multiples of 8 can be read with
    /// [`FlashMemory::read_bytes`](crate::FlashMemory::read_bytes).
    ///
    /// # Errors
    /// When the file cannot be read there, or as [`Engine::open`].
    pub fn open_file(
        path: &Path,
        offset: u64,
        bytes: u64,
        options: &Options,
    ) -> Result<(Engine, Addr), EngineError> {
        let file = store::open_to_read(path, offset, bytes)?;
        let read_only = || Err(io::ErrorKind::PermissionDenied.into());
        Engine::over_bytes((file, path), (offset, bytes), (false, Box::new(read_only)), options)
    }

    /// As [`open_file`](Engine::open_file), and changed pages are written to the file, each where
    /// it was read. A page that ends behind the end of the file makes the file longer.
    pub(crate) fn open_file_to_write(
        path: &Path,
        offset: u64,
        bytes: u64,
        options: &Options,
    ) -> Result<(Engine, Addr), EngineError> {
        let file = store::open_to_change(path, offset, bytes)?;
        Engine::over_bytes((file, path), (offset, bytes), (true, Box::new(|| Ok(()))), options)
    }

    /// The engine over the bytes `offset` to `offset + bytes` of `file`.
    fn over_bytes(
        (file, path): (File, &Path),
        (offset, bytes): (u64, u64),
        (in_place, before_first_write): (bool, Prepare),
        options: &Options,
    ) -> Result<(Engine, Addr), EngineError> {
        let file = Arc::new(file);
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
        let slots = pages;
        let places =
            Places { pages, slots, base_offset, blank, last_page_bytes, extent, persist, in_place };
        let mut engine = Engine::build(device, places, before_first_write, None, options)?;
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
            in_place: false,
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
        let options = beside_rings(&*device, places.persist.is_some(), options)?;
        let (cores, pages) = (options.cores, places.pages);
        let budget = Budget::divide(&options, pages)?;
        check_mappings(&options)?;
        let cache = map_cache(&places, &budget, &options)?;
        let limits = limits(&options, budget.frames);
        let mut queues = (0..cores)
            .map(|_| device.queue(limits.depth))
            .collect::<io::Result<Vec<_>>>()
            .map_err(|source| refused_ring(source, locked_bytes_max()))?;
        let nodes = Nodes::here(cores, &options.cpus, budget.frames);
        let placed = nodes.place(cache.memory());
        // From here on the memory cannot be moved.
        let registered = queues.iter_mut().try_for_each(|queue| queue.register(cache.memory()));
        let mailboxes = Mailboxes::new(queues.iter().map(|queue| queue.sleeper()).collect());
        let epochs = Epochs::new(cores);
        let notices = notices(registered, placed, epochs.barrier_works());
        let met = (epochs, mailboxes, nodes);
        let pool = Arc::new(places.shared(cache, met, cores, before_first_write));
        let backside = |(core, queue)| {
            let prefetching = (options.tuning.prefetch != PrefetcherKind::None).then(|| {
                Prefetching::new(options.tuning.prefetch.build(Preset::Original, pages), pages)
            });
            Mutex::new(Backside::new(core, limits, queue, prefetching, pool.clone()))
        };
        let shared = EngineState {
            backsides: queues.into_iter().enumerate().map(backside).collect(),
            pool: pool.clone(),
            wait_queues: WaitQueues::new(),
            prospects: (0..cores).map(|_| CachePadded::default()).collect(),
            jobs: JobTable::new(cores, options.threads_per_core()),
            hints: options.tuning.hints,
            _claim: claim,
        };
        Ok(Engine {
            log_writer: OfProcess::new(None),
            store: None,
            shared: OfProcess::new(Arc::new(shared)),
            options,
            budget,
            device_name: device.name(),
            notices,
            running: AtomicBool::new(false),
        })
    }

    /// Runs a service on every core until each returns [`Offer::End`](crate::Offer). Returns the
    /// results of `finish`. The cache keeps its pages between runs.
    ///
    /// # Errors
    /// When it runs already, or a core's thread or stacks cannot be had.
    pub fn run<S: Service, R: Send>(
        &self,
        make: impl Fn(usize) -> S + Sync,
        finish: impl Fn(S) -> R + Sync,
    ) -> Result<Vec<R>, EngineError> {
        let results: Vec<_> = (0..self.options.cores).map(|_| Mutex::new(None)).collect();
        self.run_cores(&|setup| {
            let worker = Worker::new(self.shared.clone(), setup, make(setup.core))
                .map_err(|source| EngineError::Io { doing: "map the stacks of a core", source })?;
            *results[setup.core].lock() = Some(finish(worker.run()));
            Ok(())
        })?;
        Ok(results.into_iter().filter_map(Mutex::into_inner).collect())
    }

    /// Calls `run_core` for every core, each on a thread of its own. It is apart from
    /// [`run`](Engine::run), which the compiler builds anew for each service.
    fn run_cores(
        &self,
        run_core: &(dyn Fn(&Setup) -> Result<(), EngineError> + Sync),
    ) -> Result<(), EngineError> {
        if self.running.swap(true, Ordering::Acquire) {
            return Err(EngineError::Running);
        }
        let _running = RunningMark(&self.running);
        let io = |doing| move |source| EngineError::Io { doing, source };
        let run_core = &|core: usize| {
            if let Some(&cpu) = self.options.cpus.get(core) {
                affinity::pin(cpu).map_err(io("pin a core"))?;
            }
            let _dies = EndsWriting { state: &self.shared, core };
            run_core(&Setup {
                core,
                threads: self.options.threads_per_core(),
                stack_bytes: self.options.stack_bytes,
                discipline: self.options.tuning.scheduler,
            })
        };
        std::thread::scope(|scope| {
            let cores: Vec<_> = (0..self.options.cores)
                .map(|core| {
                    std::thread::Builder::new()
                        .name(format!("ebbtide-core-{core}"))
                        .spawn_scoped(scope, move || run_core(core))
                })
                .collect::<io::Result<_>>()
                .map_err(io("start a core's thread"))?;
            cores.into_iter().try_for_each(|core: ScopedJoinHandle<'_, _>| {
                core.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
            })
        })
    }

    /// Wakes `core` if it sleeps, to ask its service again.
    pub fn rouse(&self, core: usize) {
        self.shared.pool.mailboxes.rouse(core);
    }

    /// Wakes all cores that sleep.
    pub(crate) fn rouse_all(&self) {
        (0..self.shared.backsides.len()).for_each(|core| self.rouse(core));
    }

    /// The engine's clock: time since it was made.
    pub fn now(&self) -> Time {
        self.shared.pool.now()
    }

    /// Live counters, readable from any thread.
    pub fn counters(&self) -> &Counters {
        &self.shared.pool.counters
    }

    /// Returns the jobs that have been under way for at least `longer_than`, with their activity.
    /// Works from any thread.
    pub fn long_jobs(&self, longer_than: Duration) -> Vec<LongJob> {
        self.shared.long_jobs(Span::from_ns(longer_than.as_nanos() as u64))
    }

    /// Returns the progress of the log of a persistent store, or `None` without a log. It shows the
    /// transactions that may be acknowledged and those that survive a crash. All cores are
    /// [roused](Engine::rouse) each time more of the log survives.
    pub fn progress(&self) -> Option<Progress> {
        self.shared.pool.persist.as_ref().map(|persist| persist.progress())
    }

    /// Asks for a flush of all that is committed, without waiting for it.
    pub fn flush_soon(&self) {
        if let Some(persist) = &self.shared.pool.persist {
            persist.ask_flush();
        }
    }

    pub(crate) fn state(&self) -> &Arc<EngineState> {
        &self.shared
    }

    /// Pages of its address space.
    pub(crate) fn pages(&self) -> u64 {
        self.shared.pool.cache.hit_path().pages()
    }

    pub(crate) fn store(&self) -> Option<&Arc<Store>> {
        self.store.as_ref()
    }

    pub(crate) fn persist(&self) -> Option<&Arc<Persist>> {
        self.shared.pool.persist.as_ref()
    }

    /// Returns the findings of recovery when a persistent store was opened.
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
        self.shared.backsides[0].lock().ring().sockets().is_some()
    }

    /// Limits of this machine that the user should know of, a sentence each.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use ebbtide_core::{FrameId, PageId};

    use super::*;
    use crate::cache::{Effect, Event};
    use crate::device::ram::{Latency, Ram};
    use crate::store::NewStore;
    use crate::sync::mailbox::Waiter;

    fn engine() -> Engine {
        let ram = Ram::new(64, Latency::Looks(0), |_, _| {});
        Engine::over_device(Arc::new(ram), 64, &Options::new(4 << 20)).expect("it fits")
    }

    #[test]
    fn an_engine_says_that_membarrier_is_refused_only_where_it_is() {
        let engine = engine();
        let said = engine.notices().iter().any(|notice| notice.contains("membarrier"));
        assert_eq!(said, !engine.shared.pool.epochs.barrier_works());
    }

    #[test]
    fn all_threads_of_all_cores_may_wait_for_one_page() {
        let mut options = Options { cores: 2, ..Options::new(8 << 20) };
        options.tuning.threads = Some(8);
        let ram = Ram::new(64, Latency::Looks(0), |_, _| {});
        let engine = Engine::over_device(Arc::new(ram), 64, &options).expect("it fits");
        let (cache, page, frame) = (&engine.shared.pool.cache, PageId(0), FrameId(0));
        let mut locked = cache.lock(page);
        assert!(locked.apply(Event::Claimed { core: 1, frame }).has(Effect::Take));
        let fibers = (0..2).flat_map(|core| (0..8).map(move |fiber| Waiter { core, fiber }));
        for waiter in fibers.clone() {
            let asked = locked.apply(Event::Asked { waiter, frame: None });
            assert_eq!((asked.mover, asked.frame), (1, frame));
        }
        assert_eq!(cache.waited_for(), [(page, fibers.clone().collect())]);
        let mut woken = Vec::new();
        cache.wake(locked.apply(Event::Revealed).waiting, |waiter| woken.push(waiter));
        assert_eq!(woken, fibers.collect::<Vec<_>>());
    }

    #[test]
    fn a_ring_that_the_limit_on_locked_memory_refuses_is_told_from_other_failures() {
        let text =
            |code, limit| refused_ring(io::Error::from_raw_os_error(code), limit).to_string();
        let limited = text(libc::ENOMEM, Some(65_536));
        assert!(limited.contains("locked memory is limited to 65536 bytes"), "{limited}");
        for (code, limit) in [(libc::ENOMEM, None), (libc::EPERM, Some(65_536))] {
            assert!(text(code, limit).starts_with("cannot open the device"));
        }
    }

    #[test]
    fn an_engine_asks_its_log_for_a_flush() {
        let folder = tempfile::tempdir_in(".").expect("a folder");
        let (path, tag) = (folder.path().join("store"), String::new());
        let new = NewStore { path, offset: 0, pages: 64, spare_pages: 64, tag, force: false };
        let store = Arc::new(Store::create_persistent(&new, 1 << 20).expect("a store"));
        let mut engine = Engine::open(&store, &Options::new(4 << 20)).expect("it fits");
        // Nobody answers.
        *engine.log_writer = None;
        let asked = || engine.persist().expect("it persists").lock().flush_asked;
        assert!(!asked());
        engine.flush_soon();
        assert!(asked());
    }

    #[test]
    fn an_engine_says_its_device_its_budget_and_what_its_cores_do() {
        let engine = engine();
        let said = format!("{engine:?}");
        for part in [engine.device_name(), "running: false", "frames_bytes", "Backside"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
