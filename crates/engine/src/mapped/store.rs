//! [`MappedStore`]: regions on flash, with the jobs that use them by plain pointers.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::{Bytes, PAGE_BYTES};
use parking_lot::Mutex;

use super::error::MappedError;
use super::region::Region;
use super::space::{GUEST_PAGES, MappedCounts, Space};
use super::tokens::Tokens;
use super::uffd::REMOVED_TOGETHER;
use crate::api::budget::Budget;
use crate::api::engine::Engine;
use crate::api::engine_error::EngineError;
use crate::api::job_queue::Jobs;
use crate::api::options::Options;
use crate::api::ticket::Ticket;
use crate::cache::FRAME_BYTES;
use crate::core::job_error::JobError;
use crate::mapped::page_table::PAGE_STATE_BYTES;
use crate::mapped::recent::PAGES_OF_INSTRUCTION;
use crate::store::{NewStore, Store};

const TAG: &str = "mapped";

/// The default stack of a job in bytes. A signal frame takes up to 11 KiB of it at each fault.
pub const STACK_BYTES: usize = 256 << 10;

/// The smallest stack of a job in bytes.
pub const STACK_BYTES_MIN: usize = 64 << 10;

/// Bytes of page tables for each page of a range that was touched.
const PAGE_TABLE_BYTES: usize = 8;

/// Bytes for all else: upper page tables, the records of a range, the signal's code.
const REST_BYTES: usize = 256 << 10;

/// Options to make a [`MappedStore`]. Only the path is required.
///
/// A size is a text such as `"20GiB"` or a number of bytes.
#[derive(Clone, Debug)]
#[must_use = "a store is made by `open`"]
pub struct MappedBuilder {
    path: PathBuf,
    size: String,
    dram: String,
    options: Options,
}

impl MappedBuilder {
    /// Sets the room for all regions. The default is 1 GiB.
    pub fn size(self, size: impl ToString) -> MappedBuilder {
        MappedBuilder { size: size.to_string(), ..self }
    }

    /// Sets the DRAM budget. The default is 64 MiB. It covers everything, page tables included.
    pub fn dram(self, budget: impl ToString) -> MappedBuilder {
        MappedBuilder { dram: budget.to_string(), ..self }
    }

    /// Sets the number of cores that run jobs, each an OS thread. The default is one.
    pub fn cores(mut self, cores: usize) -> MappedBuilder {
        self.options.cores = cores;
        self
    }

    /// Sets the most jobs under way on a core. By default the budget decides.
    pub fn threads(mut self, threads: usize) -> MappedBuilder {
        self.options.tuning.threads = Some(threads);
        self
    }

    /// Sets the stack of a job in bytes. The default is 256 KiB, the least is 64 KiB.
    pub fn stack_bytes(mut self, bytes: usize) -> MappedBuilder {
        self.options.stack_bytes = bytes;
        self
    }

    /// Makes the store in the file or block device, and starts its cores. A store of regions that
    /// was there is overwritten, because regions end with their process.
    ///
    /// # Errors
    /// When an option does not fit, the file holds something else, or the kernel refuses
    /// userfaultfd.
    pub fn open(self) -> Result<MappedStore, MappedError> {
        let bytes = parse("size", &self.size)?;
        let dram = parse("dram", &self.dram)?;
        let dram_bytes = usize::try_from(dram.0).unwrap_or(usize::MAX);
        MappedStore::create(&self.path, bytes.0, &Options { dram_bytes, ..self.options })
    }
}

fn parse(option: &'static str, text: &str) -> Result<Bytes, MappedError> {
    text.parse().map_err(|error| MappedError::Option { option, problem: format!("{error}") })
}

/// How a DRAM budget is divided between the engine and mapped pages.
#[derive(Debug, Clone)]
pub struct Shares {
    /// The engine's options. Its frames only carry pages to and from the device.
    pub options: Options,
    /// Pages that are mapped at once.
    pub tokens: usize,
}

impl Shares {
    /// Divides the budget of `options` for a range of `pages` pages.
    ///
    /// # Errors
    /// When the budget does not hold even the required parts.
    pub fn divide(options: &Options, pages: u64) -> Result<Shares, MappedError> {
        let mut engine = options.clone();
        if engine.stack_bytes < STACK_BYTES_MIN {
            let problem = format!("expected at least {}", Bytes(STACK_BYTES_MIN as u64));
            return Err(MappedError::Option { option: "the stack of a job", problem });
        }
        // They follow the whole budget.
        engine.tuning.threads = Some(options.threads_per_core());
        // A frame is given up as soon as its page is mapped or written.
        engine.tuning.replacement = PolicyKind::Fifo;
        engine.dram_bytes = 0;
        let least = match Budget::divide(&engine, pages) {
            Err(EngineError::BudgetTooSmall { needed_bytes, .. }) => needed_bytes,
            Err(error) => return Err(error.into()),
            Ok(_) => 0,
        };
        let fibers = options.cores * options.threads_per_core();
        let batches = 4 * options.tuning.batch_max * options.cores;
        let frames = (fibers + batches).min(options.dram_bytes / PAGE_BYTES / 8).max(64);
        engine.dram_bytes = least + frames * (FRAME_BYTES + size_of::<u64>());
        let tables = pages as usize * (PAGE_TABLE_BYTES + PAGE_STATE_BYTES);
        let fixed = engine.dram_bytes + tables + REST_BYTES;
        let tokens_min = fibers * (PAGES_OF_INSTRUCTION + 1) + GUEST_PAGES + 2 * REMOVED_TOGETHER;
        let each = PAGE_BYTES + Tokens::BYTES_EACH;
        let needed = fixed + tokens_min * each;
        if options.dram_bytes < needed {
            // More DRAM has more threads, which take some of it.
            let more = Options { dram_bytes: needed, ..options.clone() };
            let needed = match Shares::divide(&more, pages) {
                Err(MappedError::BudgetTooSmall { needed, .. }) => needed,
                Err(error) => return Err(error),
                Ok(_) => Bytes(needed as u64),
            };
            let given = Bytes(options.dram_bytes as u64);
            return Err(MappedError::BudgetTooSmall { given, needed });
        }
        let tokens = ((options.dram_bytes - fixed) / each).min(pages as usize + tokens_min);
        Ok(Shares { options: engine, tokens })
    }
}

/// A store for mapped regions: a file or block device, a DRAM budget, and cores that run jobs.
///
/// ```no_run
/// use ebbtide_engine::mapped::MappedStore;
///
/// let store = MappedStore::builder("regions.ebb").size("64GiB").dram("2GiB").open()?;
/// let region = store.mapped("16GiB")?;
/// let first = region.start().as_ptr() as usize;
/// // SAFETY: the region lives longer than the job, and only this job uses its first byte.
/// store.run(move || unsafe { *(first as *mut u8) += 1 })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MappedStore {
    /// The first field, so that all jobs end first.
    jobs: Arc<Jobs>,
    space: Arc<Space>,
    /// Bytes of the range that belong to regions.
    used: Mutex<usize>,
}

impl fmt::Debug for MappedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedStore")
            .field("addresses", &self.space.addresses())
            .field("counts", &self.counts())
            .field("jobs", &self.jobs)
            .finish_non_exhaustive()
    }
}

impl MappedStore {
    /// Options for a store in the file or block device at `path`.
    pub fn builder(path: impl AsRef<Path>) -> MappedBuilder {
        let options = Options { stack_bytes: STACK_BYTES, ..Options::new(0) };
        MappedBuilder {
            path: path.as_ref().to_path_buf(),
            size: Bytes(1 << 30).to_string(),
            dram: Bytes(64 << 20).to_string(),
            options,
        }
    }

    /// Makes a store of `bytes` bytes in the file or block device at `path`, and starts its cores.
    /// The budget of `options` is for everything.
    ///
    /// # Errors
    /// As [`MappedBuilder::open`].
    pub fn create(path: &Path, bytes: u64, options: &Options) -> Result<MappedStore, MappedError> {
        let pages = bytes.div_ceil(PAGE_BYTES as u64);
        let shares = Shares::divide(options, pages)?;
        let new = NewStore {
            path: path.to_path_buf(),
            offset: 0,
            pages,
            spare_pages: pages / 2,
            tag: TAG.to_string(),
            force: false,
        };
        let file = Arc::new(Store::create_blank(&new)?);
        let engine = Engine::open(&file, &shares.options).inspect_err(|_| file.discard_new())?;
        MappedStore::over(&Arc::new(engine), shares.tokens)
    }

    /// A store over all pages of `engine`, of which `tokens` may be mapped at once ([`Shares`]).
    ///
    /// # Errors
    /// When the kernel refuses userfaultfd, or the engine runs or keeps a log.
    pub fn over(engine: &Arc<Engine>, tokens: usize) -> Result<MappedStore, MappedError> {
        let space = Space::new(engine.clone(), 0, engine.pages(), tokens)?;
        let jobs = Arc::new(engine.start()?);
        space.serve_guests(&jobs);
        Ok(MappedStore { jobs, space, used: Mutex::new(0) })
    }

    /// Returns a new region of `size` bytes, such as `"16GiB"`, rounded up to whole pages. Its
    /// addresses are not used again before the store is closed.
    ///
    /// # Errors
    /// When the store has less left.
    pub fn mapped(&self, size: impl ToString) -> Result<Region, MappedError> {
        let wanted = parse("size", &size.to_string())?;
        let mut used = self.used.lock();
        let left = self.space.addresses().len() - *used;
        let bytes = wanted.0.max(1).checked_next_multiple_of(PAGE_BYTES as u64);
        match bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|&bytes| bytes <= left) {
            Some(bytes) => {
                let region = Region::new(self.space.clone(), *used, bytes);
                *used += bytes;
                Ok(region)
            }
            None => Err(MappedError::TooLarge { wanted, left: Bytes(left as u64) }),
        }
    }

    /// Submits a job. It may use addresses of regions; a miss lets other jobs run. Waits while too
    /// many jobs are queued.
    ///
    /// # Panics
    /// Inside a job, when it would have to wait.
    pub fn submit<T, F>(&self, job: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.jobs.submit(|_| job())
    }

    /// Runs a job and returns its result.
    ///
    /// # Errors
    /// When the job panics.
    ///
    /// # Panics
    /// Inside a job.
    pub fn run<T, F>(&self, job: F) -> Result<T, JobError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.submit(job).wait()
    }

    /// The engine below, for its counters and notices.
    pub fn engine(&self) -> &Arc<Engine> {
        self.jobs.engine()
    }

    /// What mapped pages have done since the start.
    pub fn counts(&self) -> MappedCounts {
        self.space.counts()
    }
}
