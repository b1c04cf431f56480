//! [`Stream`]: dense rows, such as a slice or a column, which are read in large blocks.
//!
//! A block goes past the cache, so that a scan does not displace hot pages, and one request reads
//! many pages. Only pages that were on flash before the read count. The others may be newer in DRAM
//! than in the block: their rows are left to the jobs.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};

use ebbtide_core::{Addr, PAGE_BYTES, PageId};

use super::error::RowError;
use super::part::Asked;
use super::places::Places;
use crate::api::engine::Engine;
use crate::api::engine_error::EngineError;
use crate::cache::PageState;
use crate::store::{self, Buffer};

/// Pages of a block.
const BLOCK_PAGES: u64 = 256;

/// Pages behind a block that are read with it, for a row that begins in the block.
const MORE_PAGES: u64 = 16;

/// Blocks on their way at once.
const READERS: usize = 4;

/// With fewer pages, the jobs are as fast.
const PAGES_MIN: u64 = 2 * BLOCK_PAGES;

/// Reads dense rows of a file.
pub(super) struct Stream {
    file: File,
    path: PathBuf,
    /// Where the address space begins in the file.
    base_offset: u64,
    /// Pages that were read.
    pages_read: AtomicU64,
}

/// Rows of a call, in the order of the file.
pub(super) struct Dense<'a> {
    pub(super) places: &'a Places,
    pub(super) indices: &'a [u64],
    /// The bytes of each row that are read.
    pub(super) bytes: Range<usize>,
    /// The places of the rows among the indices.
    pub(super) order: &'a [u32],
}

impl Dense<'_> {
    /// Where the bytes of a row begin.
    fn start(&self, place: u32) -> Addr {
        self.places.address(self.indices[place as usize]) + self.bytes.start as u64
    }

    /// The first page of a row's bytes.
    fn first(&self, place: u32) -> u64 {
        self.start(place).page().0
    }

    /// The last page of a row's bytes.
    fn last(&self, place: u32) -> u64 {
        (self.start(place) + (self.bytes.len() as u64 - 1)).page().0
    }

    /// Whether the rows touch most of the pages that they span, and most of these are on flash.
    pub(super) fn is_worth_it(&self, engine: &Engine) -> bool {
        let (Some(&first), Some(&last)) = (self.order.first(), self.order.last()) else {
            return false;
        };
        if !self.places.in_order {
            return false;
        }
        let span = self.first(first)..self.last(last) + 1;
        let pages = span.end - span.start;
        let each_max = self.bytes.len() / PAGE_BYTES + 2;
        if pages < PAGES_MIN || 2 * (self.order.len() * each_max) as u64 <= pages {
            return false;
        }
        // Rows lie one after the other, so this counts no page twice.
        let touched = |before: &mut Option<u64>, place: &u32| {
            let (from, to) = (self.first(*place), self.last(*place));
            let new = to + 1 - before.map_or(from, |before| from.max(before + 1)).min(to + 1);
            *before = Some(to);
            Some(new)
        };
        let touched = || self.order.iter().scan(None, touched).sum::<u64>();
        let cache = &engine.state().pool.cache;
        let absent = |page: &u64| matches!(cache.state(PageId(*page)), PageState::Absent(_));
        let on_flash = || span.clone().filter(absent).count() as u64;
        2 * touched() >= pages && 2 * on_flash() >= pages
    }
}

/// The buffer of a call, whose rows the readers share among them.
struct Target(*mut u8);

// SAFETY: a reader writes the rows of the block that it has taken, and no other reader takes it.
unsafe impl Sync for Target {}

impl Stream {
    /// Opens the file at `path`, in which the address space begins at `base_offset`.
    pub(super) fn open(path: &Path, base_offset: u64) -> Result<Stream, RowError> {
        let file = store::open_to_read(path, 0, 0).map_err(EngineError::from)?;
        Ok(Stream { file, path: path.to_path_buf(), base_offset, pages_read: AtomicU64::new(0) })
    }

    /// Pages that were read so far.
    pub(super) fn pages_read(&self) -> u64 {
        self.pages_read.load(Ordering::Relaxed)
    }

    /// Copies dense rows into `into`, a row for each index. Returns the places of the rows that it
    /// leaves to the jobs, in order.
    pub(super) fn read(
        &self,
        engine: &Engine,
        dense: &Dense<'_>,
        into: &mut [u8],
        asked: &mut Asked<'_>,
    ) -> Result<Vec<u32>, RowError> {
        assert_eq!(into.len(), dense.indices.len() * dense.bytes.len(), "a row for each index");
        let block = |place: &u32| dense.first(*place) / BLOCK_PAGES;
        let blocks = dense.order.chunk_by(|one, next| block(one) == block(next));
        let blocks: Vec<&[u32]> = blocks.collect();
        let buffers = (0..READERS.min(blocks.len()))
            .map(|_| store::buffer((BLOCK_PAGES + MORE_PAGES) as usize * PAGE_BYTES, &self.path));
        let buffers = buffers.collect::<Result<Vec<_>, _>>().map_err(EngineError::from)?;
        let (next, stops) = (AtomicUsize::new(0), AtomicBool::new(false));
        let target = Target(into.as_mut_ptr());
        let read_blocks = |mut buffer: Buffer| {
            let mut left = Vec::new();
            while let Some(block) = blocks.get(next.fetch_add(1, Ordering::Relaxed))
                && !stops.load(Ordering::Relaxed)
            {
                left.extend(self.read_block(engine, (dense, block), &mut buffer, &target));
            }
            left
        };
        let (ends, ended) = mpsc::channel();
        let mut left = Vec::new();
        std::thread::scope(|scope| {
            let readers = buffers.into_iter().map(|buffer| {
                let ends = ends.clone();
                let read_blocks = &read_blocks;
                // The receiver outlives the readers.
                scope.spawn(move || ends.send(read_blocks(buffer)).unwrap_or_default())
            });
            readers.for_each(drop);
            drop(ends);
            let mut result = Ok(());
            loop {
                match ended.recv_timeout(asked.until_next()) {
                    Ok(rows) => left.extend(rows),
                    // All readers have ended.
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => {}
                }
                if result.is_ok() {
                    result = asked.whether_to_go_on();
                    stops.store(result.is_err(), Ordering::Relaxed);
                }
            }
            result
        })?;
        if !engine.state().pool.is_whole() {
            // The jobs say what is missing.
            return Ok(dense.order.to_vec());
        }
        left.sort_unstable_by_key(|place| dense.indices[*place as usize]);
        Ok(left)
    }

    /// Reads the pages of `rows`, which begin in one block, and copies the rows. Returns the places
    /// of those that it leaves.
    fn read_block(
        &self,
        engine: &Engine,
        (dense, rows): (&Dense<'_>, &[u32]),
        buffer: &mut Buffer,
        target: &Target,
    ) -> Vec<u32> {
        let first = dense.first(rows[0]);
        let end = (dense.last(rows[rows.len() - 1]) + 1).min(first + BLOCK_PAGES + MORE_PAGES);
        let cache = &engine.state().pool.cache;
        // Before the read: a page that was changed before has been written by then.
        let absent: Vec<bool> = (first..end)
            .map(|page| matches!(cache.state(PageId(page)), PageState::Absent(_)))
            .collect();
        let bytes = &mut buffer.as_mut_slice()[..(end - first) as usize * PAGE_BYTES];
        let found = self.read_at(bytes, self.base_offset + first * PAGE_BYTES as u64);
        self.pages_read.fetch_add(found.div_ceil(PAGE_BYTES) as u64, Ordering::Relaxed);
        let width = dense.bytes.len();
        let mut left = Vec::new();
        for &place in rows {
            let at = (dense.start(place).0 - first * PAGE_BYTES as u64) as usize;
            let pages = dense.first(place) - first..dense.last(place) + 1 - first;
            let counts = absent.get(pages.start as usize..pages.end as usize);
            let is_there =
                at + width <= found && counts.is_some_and(|pages| !pages.contains(&false));
            if !is_there {
                left.push(place);
                continue;
            }
            // SAFETY: the buffer of the call has `width` bytes for each place, as `read` has
            // checked, and stays until the scope of the readers ends. Only this reader has taken
            // this place.
            unsafe {
                let to = target.0.add(place as usize * width);
                to.copy_from_nonoverlapping(bytes[at..at + width].as_ptr(), width);
            }
        }
        left
    }

    /// Reads as much as there is. Returns how many bytes that is, up to an error or the end of the
    /// file. What is not read is left to the jobs, which report an error.
    fn read_at(&self, into: &mut [u8], offset: u64) -> usize {
        let mut done = 0;
        while done < into.len() && done.is_multiple_of(PAGE_BYTES) {
            match self.file.read_at(&mut into[done..], offset + done as u64) {
                Ok(0) | Err(_) => break,
                Ok(read) => done += read,
            }
        }
        done
    }
}
