//! Engines, jobs and tickets.

use std::ffi::{OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Once};

use ebbtide_core::durability::TransactionError;
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{Budget, Engine, Jobs, Options, Ticket};
use parking_lot::RwLock;

use crate::code::{EbbtideCode, Failure, given, guarded, string};
use crate::handles::{Handles, watch_forks};
use crate::memory::{self, EbbtideMemory};
use crate::options::{EbbtideNewStore, EbbtideOptions, engine_options, new_store};

/// An address space on flash behind a DRAM cache, with cores that run jobs. Any thread may use it.
pub struct EbbtideEngine {
    _opaque: [u8; 0],
}

/// The handle of a job's result.
pub struct EbbtideTicket {
    _opaque: [u8; 0],
}

/// The function of a job, or the body of a transaction. It runs on a small stack (`stack_bytes`).
/// During its calls with `memory`, other jobs may run on the same kernel thread. It must return: it
/// must not throw, jump out or be cancelled. In C++17 and later it is `noexcept`, so a function
/// that throws ends the process.
pub type EbbtideWork =
    Option<unsafe extern "C" fn(memory: *mut EbbtideMemory, argument: *mut c_void) -> i32>;

/// A running engine; `None` during and after its closing.
type Running = Arc<RwLock<Option<Jobs>>>;

/// The ticket of a job of C.
type Submitted = Ticket<Result<i32, TransactionError>>;

static ENGINES: Handles<Running> = Handles::new();
static TICKETS: Handles<Submitted> = Handles::new();

extern "C" fn in_child() {
    ENGINES.forked();
    TICKETS.forked();
    memory::leave();
}

pub(crate) fn path_of(path: &std::ffi::CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

/// Creates a store in a file, and starts an engine over it.
///
/// # Safety
/// `path` is a string, `store` and `options` point to structures of the sizes they say, and `out`
/// can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_create(
    path: *const c_char,
    store: *const EbbtideNewStore,
    options: *const EbbtideOptions,
    out: *mut *mut EbbtideEngine,
) -> EbbtideCode {
    guarded(|| {
        // SAFETY: as the caller promises.
        let (path, (new, pages)) = unsafe { (string("path", path)?, new_store(store)?) };
        // SAFETY: as above.
        let options = unsafe { engine_options(options)? };
        memory::check_outside()?;
        given("out", out)?;
        // Before anything is written.
        let budget = Budget::divide(&options, pages)?;
        let new_store = NewStore {
            path: path_of(path).to_path_buf(),
            offset: 0,
            pages,
            spare_pages: (pages / 2).max(if new.log_bytes > 0 { budget.frames as u64 } else { 0 }),
            tag: "c".to_string(),
            force: new.force != 0,
        };
        let store = match new.log_bytes {
            0 => Store::create_blank(&new_store)?,
            log_bytes => Store::create_persistent(&new_store, log_bytes)?,
        };
        // SAFETY: as the caller promises.
        unsafe { start(store, &options, out) }
    })
}

/// Opens the store in a file, recovers it after a crash, and starts an engine over it.
///
/// # Safety
/// `path` is a string, `options` points to a structure of the size it says, and `out` can be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_open(
    path: *const c_char,
    options: *const EbbtideOptions,
    out: *mut *mut EbbtideEngine,
) -> EbbtideCode {
    guarded(|| {
        // SAFETY: as the caller promises.
        let (path, options) = unsafe { (string("path", path)?, engine_options(options)?) };
        memory::check_outside()?;
        given("out", out)?;
        let store = Store::open(path_of(path), 0, Access::Exclusive)?;
        // SAFETY: as the caller promises.
        unsafe { start(store, &options, out) }
    })
}

/// Starts an engine over `store` and returns its handle.
///
/// # Safety
/// `out` can be written.
unsafe fn start(
    store: Store,
    options: &Options,
    out: *mut *mut EbbtideEngine,
) -> Result<(), Failure> {
    static WATCH: Once = Once::new();
    watch_forks(&WATCH, in_child);
    let store = Arc::new(store);
    let engine = Engine::open(&store, options).inspect_err(|_| store.discard_new())?;
    let running = Arc::new(RwLock::new(Some(Arc::new(engine).start()?)));
    let handle = ENGINES.open(running)?;
    // SAFETY: as the caller promises.
    unsafe { out.write(handle) };
    Ok(())
}

/// Runs `work` with the engine of a handle. The engine stays open during that.
pub(crate) fn with_jobs<R>(
    engine: *const EbbtideEngine,
    work: impl FnOnce(&Jobs) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let running = ENGINES.get("engine", engine)?;
    // A thread that closes the engine waits for the threads that use it. They must not wait for it.
    let jobs = running.read_recursive();
    match &*jobs {
        Some(jobs) => work(jobs),
        None => Err(Failure::new(EbbtideCode::EbbtideClosed, "engine is closed")),
    }
}

/// The argument of a job, which the caller lets another thread use.
pub(crate) struct Argument(pub(crate) *mut c_void);
// SAFETY: the caller of a submission promises that the job may use it.
unsafe impl Send for Argument {}

/// Writes the handle of a submitted job to `ticket`. Drops the job's result if that is null.
///
/// # Safety
/// `ticket` is null or can be written.
pub(crate) unsafe fn hand_out(
    submitted: Submitted,
    ticket: *mut *mut EbbtideTicket,
) -> Result<(), Failure> {
    if !ticket.is_null() {
        let handle = TICKETS.open(submitted)?;
        // SAFETY: as the caller promises.
        unsafe { ticket.write(handle) };
    }
    Ok(())
}

/// Submits a job. Blocks while too many jobs are queued. Any thread may submit, but not from inside
/// a job.
///
/// The ticket is for the job's result. The result is there once all transactions of the job may be
/// acknowledged under the engine's durability. If `ticket` is null, the result is dropped.
///
/// # Safety
/// `work` may be called with `argument`, by another thread, until it has returned; `ticket` is null
/// or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_submit(
    engine: *const EbbtideEngine,
    work: EbbtideWork,
    argument: *mut c_void,
    ticket: *mut *mut EbbtideTicket,
) -> EbbtideCode {
    guarded(|| {
        memory::check_outside()?;
        let work = work.ok_or_else(|| Failure::input("work is null"))?;
        let argument = Argument(argument);
        let submitted = with_jobs(engine, |jobs| {
            let engine = jobs.engine().clone();
            Ok(jobs.submit_commit(move |flash| {
                let argument = argument;
                let memory = EbbtideMemory::new(flash, &engine);
                let result = memory.run(|memory| {
                    // SAFETY: the caller promises that the job may be called with its argument.
                    unsafe { work(memory, argument.0) }
                });
                Ok((result, memory.committed()))
            }))
        })?;
        // SAFETY: as the caller promises.
        unsafe { hand_out(submitted, ticket) }
    })
}

/// Waits for a job and returns its result in `*result`, if `result` is not null. Afterwards the
/// ticket is closed, even if the call fails, unless the call is misplaced.
///
/// # Safety
/// `result` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_wait(ticket: *mut EbbtideTicket, result: *mut i32) -> EbbtideCode {
    guarded(|| {
        memory::check_outside()?;
        let ticket = TICKETS.close("ticket", ticket)?;
        let value = ticket.wait().map_err(Failure::failed)?.map_err(Failure::failed)?;
        if !result.is_null() {
            // SAFETY: as the caller promises.
            unsafe { result.write(value) };
        }
        Ok(())
    })
}

/// Closes a ticket without waiting. The job still runs.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_forget(ticket: *mut EbbtideTicket) -> EbbtideCode {
    guarded(|| TICKETS.close("ticket", ticket).map(drop))
}

/// Waits until all jobs have ended, makes all commits durable, and closes the engine. Tickets stay
/// open.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_close(engine: *mut EbbtideEngine) -> EbbtideCode {
    guarded(|| {
        memory::check_outside()?;
        let running = ENGINES.close("engine", engine)?;
        let jobs = running.write().take();
        match jobs {
            Some(jobs) => Ok(jobs.stop()?),
            None => Ok(()),
        }
    })
}

/// Counters of an engine since it was opened.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct EbbtideCounters {
    /// `sizeof(EbbtideCounters)`, set by the caller.
    pub size: usize,
    /// Accesses to memory.
    pub accesses: u64,
    /// Accesses that found their page in DRAM.
    pub hits: u64,
    /// Accesses that started a read from flash.
    pub misses: u64,
    /// Accesses that waited for a read that another access had started.
    pub hits_under_miss: u64,
    /// Pages read from flash.
    pub flash_reads: u64,
    /// Pages written to flash.
    pub flash_writes: u64,
    /// Reads that failed for good.
    pub read_errors: u64,
    /// Writes that failed for good.
    pub write_errors: u64,
    /// Jobs that ended.
    pub jobs: u64,
}

/// Copies an engine's counters into `*counters`, up to the size given there.
///
/// # Safety
/// `counters` is null or points to as many bytes as its size says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_counters(
    engine: *const EbbtideEngine,
    counters: *mut EbbtideCounters,
) -> EbbtideCode {
    guarded(|| {
        given("counters", counters)?;
        // SAFETY: as the caller promises, the size is there in every version.
        let size = unsafe { counters.cast::<usize>().read() };
        if size < size_of::<usize>() {
            let expected = size_of::<EbbtideCounters>();
            return Err(Failure::input(format!("counters.size is {size}: expected {expected}")));
        }
        let counted = with_jobs(engine, |jobs| Ok(jobs.engine().counters().snapshot()))?;
        let known = EbbtideCounters {
            size,
            accesses: counted.accesses,
            hits: counted.hits,
            misses: counted.misses,
            hits_under_miss: counted.hits_under_miss,
            flash_reads: counted.flash_reads,
            flash_writes: counted.flash_writes,
            read_errors: counted.read_errors,
            write_errors: counted.write_errors,
            jobs: counted.jobs + counted.jobs_failed,
        };
        let bytes = size.min(size_of::<EbbtideCounters>());
        // SAFETY: both have as many bytes.
        unsafe {
            counters.cast::<u8>().copy_from_nonoverlapping((&raw const known).cast(), bytes);
        }
        Ok(())
    })
}
