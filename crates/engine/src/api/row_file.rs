//! [`RowFile`]: rows of one width in a file that is only read, gathered by many jobs at once.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ebbtide_core::{Addr, PAGE_BYTES, PageId};
use thiserror::Error;

use crate::api::budget::Budget;
use crate::api::engine::Engine;
use crate::api::engine_error::EngineError;
use crate::api::job_queue::Jobs;
use crate::api::options::Options;
use crate::api::ticket::Ticket;
use crate::core::flash_memory::FlashMemory;
use crate::core::job_error::JobError;
use crate::core::worker::check_not_in_a_job;
use crate::host::of_process::OfProcess;
use crate::sync::counters::Snapshot;

/// Consecutive rows in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowRun {
    /// Where the first begins, in bytes from the start of the file.
    pub offset: u64,
    /// How many there are.
    pub rows: u64,
}

/// Rows of one width in a file of any format, behind a DRAM cache. The file is never written.
///
/// Any thread may gather; a gather keeps as many reads in flight as the engine has user-level
/// threads. After a fork it belongs to the parent.
pub struct RowFile {
    jobs: OfProcess<Jobs>,
    rows: Arc<Rows>,
}

/// Shows what every core is doing and the fibers that wait for each page or word, as [`Engine`]
/// does.
impl fmt::Debug for RowFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowFile").field("jobs", &*self.jobs).finish_non_exhaustive()
    }
}

/// The place of each row.
struct Rows {
    /// The number of the first row of every run, and its address. In ascending order of numbers.
    runs: Box<[(u64, Addr)]>,
    count: u64,
    row_bytes: usize,
}

impl Rows {
    fn address(&self, row: u64) -> Addr {
        let run = self.runs.partition_point(|(first, _)| *first <= row) - 1;
        let (first, at) = self.runs[run];
        at + (row - first) * self.row_bytes as u64
    }
}

/// Why rows cannot be gathered.
#[derive(Debug, Error)]
pub enum RowError {
    /// The file cannot be opened, or the options do not fit.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The file has no rows, or rows without bytes.
    #[error("expected rows of at least a byte, and at least one of them")]
    Empty,
    /// The rows do not fit a file.
    #[error("rows beyond 2^63 bytes: expected offsets within a file")]
    Beyond,
    /// An index without a row.
    #[error("index {index} is out of bounds: expected 0 to {last}")]
    Index {
        /// The index.
        index: u64,
        /// The last there is.
        last: u64,
    },
    /// A buffer of another size.
    #[error("a buffer of {given} bytes: expected {expected}, a row an index")]
    Buffer {
        /// Its size.
        given: usize,
        /// The size of the rows.
        expected: usize,
    },
    /// A row cannot be read.
    #[error("a row cannot be read: {0}")]
    Read(#[from] JobError),
    /// The caller gave the gather up.
    #[error("cancelled")]
    Stopped,
    /// Bytes that are no part of a row.
    #[error("bytes {start} to {end} of a row: expected a part of its {row_bytes}")]
    Columns {
        /// The first.
        start: usize,
        /// The end.
        end: usize,
        /// Bytes of a row.
        row_bytes: usize,
    },
    /// The process was forked.
    #[error("opened by process {0}, before a fork: expected to be opened again after it")]
    Forked(u32),
}

/// Rows that are sorted into the order of the file together. In a larger part, rows lie closer, and
/// the kernel joins reads of neighbouring pages. Sorting takes a hundredth of the time of reading.
const PART_ROWS: usize = 1 << 18;

/// Stack of a job in bytes. Reading a row uses 3 KiB, and the rest of the budget is frames.
const STACK_BYTES: usize = 16 << 10;

/// Time between two checks whether a gather should go on.
const LOOK: Duration = Duration::from_millis(20);

/// Rows of a gather that are under way. They live until every job of them has ended.
struct Part {
    rows: Arc<Rows>,
    indices: *const u64,
    into: *mut u8,
    /// The bytes of each row that are read.
    bytes: Range<usize>,
    /// The places of the rows among `indices`, in the order of the file.
    order: Box<[u32]>,
    /// The end in `order` of each group of rows whose bytes begin in one page.
    groups: Box<[u32]>,
    next: AtomicUsize,
}

// SAFETY: every row of `into` is written by the one job that takes its place from `next`, and
// `indices` are only read.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

impl Part {
    fn new(rows: &Arc<Rows>, indices: &[u64], bytes: Range<usize>, into: &mut [u8]) -> Part {
        let mut order: Box<[u32]> = (0..indices.len() as u32).collect();
        order.sort_unstable_by_key(|place| indices[*place as usize]);
        let page = |place: &u32| {
            let at = rows.address(indices[*place as usize]) + bytes.start as u64;
            at.page()
        };
        // Where the same row is asked for often, a group is no larger than of different ones.
        let rows_max = (PAGE_BYTES / rows.row_bytes).max(1);
        let groups = order.chunk_by(|one, next| page(one) == page(next));
        let mut end = 0;
        let ends = groups.flat_map(|group| group.chunks(rows_max)).map(|group| {
            end += group.len() as u32;
            end
        });
        let groups = ends.collect();
        Part {
            rows: rows.clone(),
            indices: indices.as_ptr(),
            into: into.as_mut_ptr(),
            bytes,
            order,
            groups,
            next: AtomicUsize::new(0),
        }
    }

    /// Reads rows until all are taken.
    fn run(&self, memory: &mut FlashMemory<'_>) {
        // A page at a time: it is read once, and neighbours are asked for by several jobs at once.
        loop {
            let group = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(end) = self.groups.get(group) else { return };
            let start = group.checked_sub(1).map_or(0, |before| self.groups[before]);
            for place in &self.order[start as usize..*end as usize] {
                self.read(memory, *place as usize);
            }
        }
    }

    /// Reads the row at `place` of a group that this job has taken.
    fn read(&self, memory: &mut FlashMemory<'_>, place: usize) {
        let bytes = self.bytes.len();
        // SAFETY: `UnderWay` keeps both buffers alive until all jobs have ended. They have room for
        // every place in `order`, and no other job has taken this one.
        let (index, into) = unsafe {
            let into = self.into.add(place * bytes);
            (*self.indices.add(place), std::slice::from_raw_parts_mut(into, bytes))
        };
        memory.read_bytes(self.rows.address(index) + self.bytes.start as u64, into);
    }

    /// Lets jobs take no more rows.
    fn stop(&self) {
        self.next.store(self.groups.len(), Ordering::Relaxed);
    }
}

/// The jobs of a part. Dropped, it stops them and waits for their end.
struct UnderWay<'b> {
    part: Arc<Part>,
    tickets: Vec<Ticket<()>>,
    buffers: PhantomData<(&'b [u64], &'b mut [u8])>,
}

impl UnderWay<'_> {
    /// Waits for all rows.
    fn end(mut self, asked: &mut Asked<'_>) -> Result<(), RowError> {
        let mut result = Ok(());
        while let Some(ticket) = self.tickets.pop() {
            match ticket.wait_for(asked.until_next()) {
                Ok(ended) => result = result.and(ended),
                Err(ticket) => self.tickets.push(ticket),
            }
            asked.whether_to_go_on()?;
        }
        Ok(result?)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.part.stop();
        for ticket in self.tickets.drain(..) {
            // The result of these rows is not needed.
            let _ = ticket.wait();
        }
    }
}

/// Asks the caller of a gather now and then whether to go on.
struct Asked<'a> {
    goes_on: &'a mut dyn FnMut() -> bool,
    next: Instant,
}

impl Asked<'_> {
    fn until_next(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    fn whether_to_go_on(&mut self) -> Result<(), RowError> {
        if !self.until_next().is_zero() {
            return Ok(());
        }
        let goes_on = (self.goes_on)();
        self.next = Instant::now() + LOOK;
        if goes_on { Ok(()) } else { Err(RowError::Stopped) }
    }
}

impl RowFile {
    /// Opens the rows of `runs`, each of `row_bytes` bytes, in the file at `path`. Jobs have stacks
    /// of 16 KiB; `options` do not change that.
    ///
    /// # Errors
    /// [`RowError`] when there are no rows, the file cannot be read there, or the options do not
    /// fit.
    pub fn open(
        path: &Path,
        runs: &[RowRun],
        row_bytes: usize,
        options: &Options,
    ) -> Result<RowFile, RowError> {
        let runs: Vec<RowRun> = runs.iter().copied().filter(|run| run.rows > 0).collect();
        if row_bytes == 0 || runs.is_empty() {
            return Err(RowError::Empty);
        }
        let end = |run: &RowRun| {
            let bytes = run.rows.checked_mul(row_bytes as u64)?;
            run.offset.checked_add(bytes).filter(|end| *end < 1 << 63)
        };
        let ends: Option<Vec<u64>> = runs.iter().map(end).collect();
        let last = ends.and_then(|ends| ends.into_iter().max()).ok_or(RowError::Beyond)?;
        let first = runs.iter().map(|run| run.offset).min().unwrap_or(0);
        let options = Options { stack_bytes: STACK_BYTES, ..options.clone() };
        let (engine, start) = Engine::open_file(path, first, last - first, &options)?;
        let mut count = 0;
        let placed = runs.iter().map(|run| {
            let number = count;
            count += run.rows;
            (number, start + (run.offset - first))
        });
        let runs = placed.collect();
        let jobs = OfProcess::new(Arc::new(engine).start()?);
        let rows = Arc::new(Rows { runs, count, row_bytes });
        Ok(RowFile { jobs, rows })
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.rows.count
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.rows.row_bytes
    }

    /// Copies the rows with these `indices` into `into`, in order. Waits for all of them. Needs up
    /// to 8 bytes of memory a row, 4 MiB at most, in addition to the budget.
    ///
    /// # Errors
    /// [`RowError`] for an index without a row or a buffer of another size; nothing is read then.
    /// Also when a row cannot be read; the buffer then holds some rows.
    ///
    /// # Panics
    /// Inside a job, whose core would wait with it.
    pub fn gather(&self, indices: &[u64], into: &mut [u8]) -> Result<(), RowError> {
        self.gather_while(indices, into, || true)
    }

    /// As [`gather`](RowFile::gather), and calls `goes_on` every 20 ms.
    ///
    /// # Errors
    /// As [`gather`](RowFile::gather), and [`RowError::Stopped`] when `goes_on` returns false; the
    /// buffer then holds some rows.
    ///
    /// # Panics
    /// As [`gather`](RowFile::gather).
    pub fn gather_while(
        &self,
        indices: &[u64],
        into: &mut [u8],
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<(), RowError> {
        self.gather_columns_while(indices, 0..self.rows.row_bytes, into, &mut goes_on)
    }

    /// As [`gather_while`](RowFile::gather_while), of these `bytes` of every row alone. A page that
    /// many rows share is read once.
    ///
    /// # Errors
    /// As [`gather_while`](RowFile::gather_while), and for bytes that are no part of a row.
    ///
    /// # Panics
    /// As [`gather`](RowFile::gather).
    pub fn gather_columns_while(
        &self,
        indices: &[u64],
        bytes: Range<usize>,
        into: &mut [u8],
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<(), RowError> {
        check_not_in_a_job("gathering rows");
        self.check(indices)?;
        let row_bytes = self.rows.row_bytes;
        if bytes.is_empty() || bytes.end > row_bytes {
            return Err(RowError::Columns { start: bytes.start, end: bytes.end, row_bytes });
        }
        let expected = indices.len().saturating_mul(bytes.len());
        if into.len() != expected {
            return Err(RowError::Buffer { given: into.len(), expected });
        }
        let asked = &mut Asked { goes_on: &mut goes_on, next: Instant::now() + LOOK };
        let parts = indices.chunks(PART_ROWS);
        let mut before: Option<UnderWay<'_>> = None;
        for (indices, into) in parts.zip(into.chunks_mut(PART_ROWS.saturating_mul(bytes.len()))) {
            // It begins before the one before it ends, so that reads do not run dry in between.
            let part = self.begin(indices, bytes.clone(), into, asked)?;
            if let Some(before) = before.replace(part) {
                before.end(asked)?;
            }
        }
        before.map_or(Ok(()), |last| last.end(asked))
    }

    fn begin<'b>(
        &self,
        indices: &'b [u64],
        bytes: Range<usize>,
        into: &'b mut [u8],
        asked: &mut Asked<'_>,
    ) -> Result<UnderWay<'b>, RowError> {
        let part = Arc::new(Part::new(&self.rows, indices, bytes, into));
        let jobs = part.groups.len().min(self.threads());
        let mut begun = UnderWay { part, tickets: Vec::with_capacity(jobs), buffers: PhantomData };
        while begun.tickets.len() < jobs {
            let part = begun.part.clone();
            let job = move |memory: &mut FlashMemory<'_>| part.run(memory);
            if let Ok(ticket) = self.jobs.submit_within(asked.until_next(), job) {
                begun.tickets.push(ticket);
            }
            asked.whether_to_go_on()?;
        }
        Ok(begun)
    }

    /// Begins to fetch the rows with these `indices` into DRAM and returns at once. Gathers go on
    /// at the same time. If the engine is busy, some or all rows are not fetched.
    ///
    /// # Errors
    /// [`RowError`] for an index without a row.
    pub fn prefetch(&self, indices: &[u64]) -> Result<(), RowError> {
        self.check(indices)?;
        // Half of the threads are left to gathers.
        let jobs = indices.len().min((self.threads() / 2).max(1));
        let (indices, next) = (Arc::<[u64]>::from(indices), Arc::new(AtomicUsize::new(0)));
        for _ in 0..jobs {
            let (rows, indices, next) = (self.rows.clone(), indices.clone(), next.clone());
            let fetch = move |memory: &mut FlashMemory<'_>| {
                while let Some(index) = indices.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let first = rows.address(*index);
                    let last = first + (rows.row_bytes as u64 - 1);
                    for page in first.page().0..=last.page().0 {
                        memory.page(PageId(page));
                    }
                }
            };
            match self.jobs.try_submit(fetch) {
                // What cannot be read is told by the gather that needs it.
                Ok(ticket) => drop(ticket),
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    /// Returns the engine's counts since it was opened.
    pub fn counters(&self) -> Snapshot {
        self.jobs.engine().counters().snapshot()
    }

    /// How the DRAM budget is divided.
    pub fn budget(&self) -> Budget {
        self.jobs.engine().budget()
    }

    /// Limits of this machine that the user should know of, a sentence each.
    pub fn notices(&self) -> &[String] {
        self.jobs.engine().notices()
    }

    fn threads(&self) -> usize {
        let options = self.jobs.engine().options();
        options.cores * options.threads_per_core()
    }

    /// Refuses a forked child, as everything that reads rows does.
    ///
    /// # Errors
    /// [`RowError::Forked`] in another process than the one that has opened the file.
    pub fn check_process(&self) -> Result<(), RowError> {
        self.jobs.check().map_err(RowError::Forked)
    }

    fn check(&self, indices: &[u64]) -> Result<(), RowError> {
        self.check_process()?;
        let last = self.rows.count - 1;
        match indices.iter().find(|index| **index > last) {
            Some(index) => Err(RowError::Index { index: *index, last }),
            None => Ok(()),
        }
    }
}
