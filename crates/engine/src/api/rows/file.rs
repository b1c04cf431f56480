//! [`RowFile`]: rows of one width in a file, gathered and scattered by many jobs at once.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ebbtide_core::PageId;

use super::error::RowError;
use super::flush::write_changed;
use super::log::{self, Identity, RowLog};
use super::part::{Asked, Rows, UnderWay, order_to_read, order_to_write};
use super::places::{Places, RowRun, range_of};
use super::stream::{Dense, Stream};
use super::writer::{Turn, Writer};
use crate::api::budget::Budget;
use crate::api::engine::Engine;
use crate::api::job_queue::Jobs;
use crate::api::options::Options;
use crate::core::flash_memory::FlashMemory;
use crate::core::worker::{check_not_in_a_job, in_a_job};
use crate::host::of_process::OfProcess;
use crate::sync::counters::Snapshot;

/// Rows that are sorted into the order of the file together. In a larger part, rows lie closer, and
/// the kernel joins reads of neighbouring pages. Sorting takes a hundredth of the time of reading.
const PART_ROWS: usize = 1 << 18;

/// Bytes of rows that are noted in the log together.
const NOTED_BYTES: usize = 16 << 20;

/// Stack of a job in bytes. Copying a row uses 3 KiB, and the rest of the budget is frames.
const STACK_BYTES: usize = 16 << 10;

/// Rows of one width in a file of any format, behind a DRAM cache.
///
/// Any thread may gather; a gather keeps as many reads in flight as the engine has user-level
/// threads. After a fork it belongs to the parent.
///
/// Rows that were opened to write change in DRAM first. A changed page is written where it was
/// read, when its frame is needed, and at the latest by a [`flush`](RowFile::flush). Changes run
/// one after the other, each with many jobs. A gather of rows that change at the same time may
/// return a part of the old row and a part of the new one.
pub struct RowFile {
    jobs: OfProcess<Jobs>,
    places: Arc<Places>,
    stream: Stream,
    /// Behind the jobs: the file is released when nothing is written any more.
    writer: Option<Writer>,
}

/// Shows what every core is doing and the fibers that wait for each page or word, as [`Engine`]
/// does.
impl fmt::Debug for RowFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowFile").field("jobs", &*self.jobs).finish_non_exhaustive()
    }
}

impl RowFile {
    /// Opens the rows of `runs`, each of `row_bytes` bytes, in the file at `path`. Jobs have stacks
    /// of 16 KiB; `options` do not change that.
    ///
    /// # Errors
    /// [`RowError`] when there are no rows, the file cannot be read there, or the options do not
    /// fit. Also when a crash has left a log of rows and no other process has the file open to
    /// write.
    pub fn open(
        path: &Path,
        runs: &[RowRun],
        row_bytes: usize,
        options: &Options,
    ) -> Result<RowFile, RowError> {
        let (runs, range) = range_of(runs, row_bytes)?;
        let options = Options { stack_bytes: STACK_BYTES, ..options.clone() };
        let (engine, start) = Engine::open_file(path, range.offset, range.bytes, &options)?;
        if log::has_records(path) && !Writer::exists(path) {
            return Err(RowError::Unapplied(path.to_path_buf()));
        }
        let jobs = OfProcess::new(Arc::new(engine).start()?);
        let places = Arc::new(Places::new(&runs, row_bytes, range, start));
        let stream = Stream::open(path, range.offset - start.0)?;
        Ok(RowFile { jobs, places, stream, writer: None })
    }

    /// As [`open`](RowFile::open), to change rows as well. One writer at a time has the file.
    ///
    /// After a crash the file has all rows that were changed before the last flush. Of a row that
    /// was changed since, each page is old or new, as far as the drive writes pages as a whole.
    ///
    /// With `atomic_rows`, each row as a whole is old or new. A change is then first written to a
    /// log, a file with the name of this one and `.rowlog`. A log that a crash has left is applied
    /// here, also without `atomic_rows`.
    ///
    /// # Errors
    /// As [`open`](RowFile::open), when the file has a writer, and when it cannot be written.
    pub fn open_to_write(
        path: &Path,
        runs: &[RowRun],
        row_bytes: usize,
        atomic_rows: bool,
        options: &Options,
    ) -> Result<RowFile, RowError> {
        let (runs, range) = range_of(runs, row_bytes)?;
        let options = Options { stack_bytes: STACK_BYTES, ..options.clone() };
        let writer = Writer::of(path)?;
        let (engine, start) =
            Engine::open_file_to_write(path, range.offset, range.bytes, &options)?;
        let jobs = OfProcess::new(Arc::new(engine).start()?);
        let places = Arc::new(Places::new(&runs, row_bytes, range, start));
        let identity = Identity { row_bytes: row_bytes as u64, count: places.count, range };
        let stream = Stream::open(path, range.offset - start.0)?;
        let file = RowFile { jobs, places, stream, writer: Some(writer) };
        file.recover(path, identity, atomic_rows)?;
        Ok(file)
    }

    /// Applies the log that a crash has left, and begins another one if rows are `atomic`.
    fn recover(&self, path: &Path, identity: Identity, atomic: bool) -> Result<(), RowError> {
        let writer = self.writer()?;
        let mut turn = writer.turn()?;
        let goes_on = &mut || true;
        if let Some(mut log) = RowLog::open_existing(path, identity)? {
            let asked = &mut Asked::new(goes_on);
            log.replay(|record| {
                self.check_call(&record.indices, &record.bytes, record.data.len())?;
                self.scatter_parts(&record.indices, record.bytes, &record.data, asked)
            })?;
            self.flush_in(writer, &mut turn, asked)?;
            // Without a log, an old one must not come back over newer rows.
            match atomic {
                true => turn.log = Some(log),
                false => log.remove().map_err(RowError::unwritten(log::path_of(path)))?,
            }
        }
        if atomic && turn.log.is_none() {
            turn.log = Some(RowLog::open(path, identity)?);
        }
        turn.log.as_mut().map_or(Ok(()), RowLog::empty).map_err(RowError::unwritten(path.into()))
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.places.count
    }

    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.places.row_bytes
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
        self.gather_columns_while(indices, 0..self.places.row_bytes, into, &mut goes_on)
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
        self.check_call(indices, &bytes, into.len())?;
        let asked = &mut Asked::new(&mut goes_on);
        let parts = indices.chunks(PART_ROWS);
        let mut before: Option<UnderWay<'_>> = None;
        for (indices, into) in parts.zip(into.chunks_mut(PART_ROWS.saturating_mul(bytes.len()))) {
            // It begins before the one before it ends, so that reads do not run dry in between.
            let part = self.begin_to_read(indices, bytes.clone(), into, asked)?;
            if let Some(before) = before.replace(part) {
                before.end(asked)?;
            }
        }
        before.map_or(Ok(()), |last| last.end(asked))
    }

    /// Copies `from` to the rows with these `indices`, in order. The last one counts if an index
    /// occurs twice. Waits until all are changed in DRAM. Needs up to 8 bytes of memory a row, 4
    /// MiB at most, in addition to the budget. Rows that are atomic need 16 MiB more.
    ///
    /// # Errors
    /// [`RowError`] for an index without a row, a buffer of another size, or rows that were opened
    /// to read; nothing is changed then. Also when a page cannot be read or the log cannot be
    /// written; some rows are changed then.
    ///
    /// # Panics
    /// Inside a job, whose core would wait with it.
    pub fn scatter(&self, indices: &[u64], from: &[u8]) -> Result<(), RowError> {
        self.scatter_columns_while(indices, 0..self.places.row_bytes, from, || true)
    }

    /// As [`scatter`](RowFile::scatter), of these `bytes` of every row alone. Calls `goes_on` every
    /// 20 ms.
    ///
    /// # Errors
    /// As [`scatter`](RowFile::scatter), for bytes that are no part of a row, and
    /// [`RowError::Stopped`] when `goes_on` returns false; some rows are changed then.
    ///
    /// # Panics
    /// As [`scatter`](RowFile::scatter).
    pub fn scatter_columns_while(
        &self,
        indices: &[u64],
        bytes: Range<usize>,
        from: &[u8],
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<(), RowError> {
        check_not_in_a_job("scattering rows");
        self.check_call(indices, &bytes, from.len())?;
        let writer = self.writer()?;
        let mut turn = writer.turn()?;
        let asked = &mut Asked::new(&mut goes_on);
        if turn.log.is_none() {
            return self.scatter_parts(indices, bytes, from, asked);
        }
        let width = bytes.len();
        let rows = (NOTED_BYTES / width).max(1);
        for (indices, from) in indices.chunks(rows).zip(from.chunks(rows.saturating_mul(width))) {
            if turn.is_log_full() {
                self.flush_in(writer, &mut turn, asked)?;
            }
            turn.note(writer.path(), indices, &bytes, from)?;
            let scattered = self.scatter_parts(indices, bytes.clone(), from, asked);
            // A row may be changed in part: the log has all of it.
            turn.ended |= matches!(scattered, Err(RowError::Read(_)));
            scattered?;
        }
        Ok(())
    }

    /// Changes rows part by part. A row of a later part may be one of an earlier part.
    fn scatter_parts(
        &self,
        indices: &[u64],
        bytes: Range<usize>,
        from: &[u8],
        asked: &mut Asked<'_>,
    ) -> Result<(), RowError> {
        let parts = indices.chunks(PART_ROWS);
        for (indices, from) in parts.zip(from.chunks(PART_ROWS.saturating_mul(bytes.len()))) {
            let rows = (Rows::From(indices, from), order_to_write(indices));
            self.begin(rows, bytes.clone(), asked)?.end(asked)?;
        }
        Ok(())
    }

    /// Writes all changed rows to the file, and returns when they survive a crash of the machine.
    /// Calls `goes_on` every 20 ms.
    ///
    /// # Errors
    /// [`RowError`] when the rows were opened to read, when they cannot be written, and when
    /// `goes_on` returns false. If the file could not be flushed, later changes fail too.
    ///
    /// # Panics
    /// Inside a job, whose core would wait with it.
    pub fn flush_while(&self, mut goes_on: impl FnMut() -> bool) -> Result<(), RowError> {
        check_not_in_a_job("flushing rows");
        self.check_process()?;
        let writer = self.writer()?;
        let mut turn = writer.turn()?;
        self.flush_in(writer, &mut turn, &mut Asked::new(&mut goes_on))
    }

    /// As [`flush_while`](RowFile::flush_while), to the end.
    ///
    /// # Errors
    /// As [`flush_while`](RowFile::flush_while).
    ///
    /// # Panics
    /// As [`flush_while`](RowFile::flush_while).
    pub fn flush(&self) -> Result<(), RowError> {
        self.flush_while(|| true)
    }

    fn flush_in(
        &self,
        writer: &Writer,
        turn: &mut Turn,
        asked: &mut Asked<'_>,
    ) -> Result<(), RowError> {
        if let Some(page) = write_changed(&self.jobs, self.threads(), asked)? {
            let reason = format!("page {} is refused by the device", page.0);
            return Err(RowError::Unwritten { path: writer.path().to_path_buf(), reason });
        }
        writer.sync(turn)
    }

    fn writer(&self) -> Result<&Writer, RowError> {
        self.writer.as_ref().ok_or(RowError::ReadOnly)
    }

    /// Begins to read rows. Reads dense rows at once, except those that may be newer in DRAM.
    fn begin_to_read<'b>(
        &self,
        indices: &'b [u64],
        bytes: Range<usize>,
        into: &'b mut [u8],
        asked: &mut Asked<'_>,
    ) -> Result<UnderWay<'b>, RowError> {
        let mut order = order_to_read(indices);
        let engine = self.jobs.engine();
        let dense = Dense { places: &self.places, indices, bytes: bytes.clone(), order: &order };
        if dense.is_worth_it(engine) {
            order = self.stream.read(engine, &dense, into, asked)?;
        }
        self.begin((Rows::Into(indices, into), order), bytes, asked)
    }

    fn begin<'b>(
        &self,
        rows: (Rows<'b>, Vec<u32>),
        bytes: Range<usize>,
        asked: &mut Asked<'_>,
    ) -> Result<UnderWay<'b>, RowError> {
        UnderWay::begin((&self.jobs, self.threads()), (&self.places, bytes), rows, asked)
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
            let (places, indices, next) = (self.places.clone(), indices.clone(), next.clone());
            let fetch = move |memory: &mut FlashMemory<'_>| {
                while let Some(index) = indices.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (first, last) = places.pages(*index);
                    for page in first.0..=last.0 {
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

    /// Returns the engine's counts since it was opened. A page of dense rows that was read past the
    /// cache counts as an access and a miss, and not as one of the cores' reads.
    pub fn counters(&self) -> Snapshot {
        let mut counted = self.jobs.engine().counters().snapshot();
        counted.accesses += self.stream.pages_read();
        counted.misses += self.stream.pages_read();
        counted
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

    /// Checks a call for the `bytes` of the rows `indices`, with a buffer of `given` bytes.
    fn check_call(
        &self,
        indices: &[u64],
        bytes: &Range<usize>,
        given: usize,
    ) -> Result<(), RowError> {
        self.check(indices)?;
        let row_bytes = self.places.row_bytes;
        if bytes.is_empty() || bytes.end > row_bytes {
            return Err(RowError::Columns { start: bytes.start, end: bytes.end, row_bytes });
        }
        let expected = indices.len().saturating_mul(bytes.len());
        if given != expected {
            return Err(RowError::Buffer { given, expected });
        }
        Ok(())
    }

    fn check(&self, indices: &[u64]) -> Result<(), RowError> {
        self.check_process()?;
        let last = self.places.count - 1;
        match indices.iter().find(|index| **index > last) {
            Some(index) => Err(RowError::Index { index: *index, last }),
            None => Ok(()),
        }
    }
}

/// Flushes rows that were opened to write. A program that wants to see an error calls
/// [`flush`](RowFile::flush) before.
impl Drop for RowFile {
    fn drop(&mut self) {
        if in_a_job() || self.check_process().is_err() || self.flush().is_err() {
            return;
        }
        let log = self.writer.as_ref().and_then(|writer| writer.turn().ok()?.log.take());
        if let Some(log) = log {
            // An empty log that stays behind changes nothing.
            let _ = log.remove();
        }
    }
}
