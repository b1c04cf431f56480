//! [`LineAccess`]: reads or writes lines in order or at random, and does nothing else.

use std::ops::Range;

use ebbtide_core::{Addr, FullMemory, Hint, LINE_BYTES, PAGE_BYTES, PageId};
use ebbtide_structures::latch;
use rand::RngExt;

use crate::keys::{job_rng, share};
use crate::kind::Kind;
use crate::shape::{Named, Shape};
use crate::{ALL_LINES, Accesses, Corrupt, PageBytes, Workload};
use ebbtide_structures::checksum::{Checksums, RECORD_OFFSET};
use ebbtide_structures::hash::mix;
use ebbtide_structures::image::fill_lines;

const LINES_PER_PAGE: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// Lines that a job touches.
const LINES: u64 = 64;

/// A job hints at a line this many accesses ahead.
const HINTED_AHEAD: usize = 8;

/// Reads or writes 64 bytes at a time: the mmap benchmark of HAMS (ISCA'21). Job `n` touches lines
/// `64·n` to `64·n + 63` of one endless stream.
///
/// In order, the stream has one line of each page from the first to the last, then the next line of
/// each, and so on. At random, it has uniformly random lines. Lines have no keys, so skew and
/// scatter have no effect. A line is checked when it is read and before it is written. A job hints
/// at a line eight accesses ahead.
#[derive(Debug, Clone)]
pub struct LineAccess<const RANDOM: bool, const WRITE: bool> {
    pages: u64,
    checksums: Checksums,
    seed: u64,
    work: u64,
}

/// Reads a line of every page in order.
pub type SeqRead = LineAccess<false, false>;
/// Writes a line of every page in order.
pub type SeqWrite = LineAccess<false, true>;
/// Reads lines at random.
pub type RandomRead = LineAccess<true, false>;
/// Writes lines at random.
pub type RandomWrite = LineAccess<true, true>;

/// The contents of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct AccessedLine {
    /// The number of writes to the line.
    pub writes: u64,
    /// Words that follow from the address and the number of writes, so that readers can check them.
    pub payload: [u64; 5],
}

impl AccessedLine {
    /// Returns the contents of the line at `at` after `writes` writes.
    pub fn new(at: Addr, writes: u64) -> AccessedLine {
        let first = mix(at.0 ^ writes);
        AccessedLine { writes, payload: std::array::from_fn(|i| first.rotate_left(13 * i as u32)) }
    }
}

impl<const RANDOM: bool, const WRITE: bool> LineAccess<RANDOM, WRITE> {
    const KIND: Kind = match (RANDOM, WRITE) {
        (false, false) => Kind::SeqRead,
        (false, true) => Kind::SeqWrite,
        (true, false) => Kind::RandomRead,
        (true, true) => Kind::RandomWrite,
    };

    /// Returns the addresses of the 64 lines that job `job` touches, in order.
    #[inline]
    pub fn job(&self, job: u64) -> impl Iterator<Item = Addr> + use<RANDOM, WRITE> {
        let (pages, mut rng) = (self.pages, job_rng(self.seed, job));
        (0..LINES).map(move |step| {
            let line = if RANDOM {
                rng.random_range(0..pages * LINES_PER_PAGE)
            } else {
                let position = job.wrapping_mul(LINES).wrapping_add(step);
                let (round, page) = (position / pages, position % pages);
                page * LINES_PER_PAGE + round % LINES_PER_PAGE
            };
            Addr(line * LINE_BYTES as u64)
        })
    }

    /// Reads the line at `at`, also while other jobs write it.
    ///
    /// # Errors
    /// [`Corrupt`] when it cannot be a line of this dataset.
    #[inline]
    pub fn read<M: FullMemory>(&self, memory: &mut M, at: Addr) -> Result<AccessedLine, Corrupt> {
        self.checksums.read(memory, at)
    }

    /// Writes the line at `at` and returns its previous contents.
    ///
    /// # Errors
    /// [`Corrupt`] when it cannot be a line of this dataset. Nothing is then stored.
    #[inline]
    pub fn write<M: FullMemory>(&self, memory: &mut M, at: Addr) -> Result<AccessedLine, Corrupt> {
        latch::write(memory, at, |memory| {
            let old: AccessedLine = self.checksums.read_latched(memory, at)?;
            let new = AccessedLine::new(at, old.writes.wrapping_add(1));
            self.checksums.write_latched(memory, at, new);
            Ok(old)
        })
    }
}

impl<const RANDOM: bool, const WRITE: bool> Named for LineAccess<RANDOM, WRITE> {
    const NAME: &'static str = match (RANDOM, WRITE) {
        (false, false) => "seq-read",
        (false, true) => "seq-write",
        (true, false) => "random-read",
        (true, true) => "random-write",
    };
    const DESCRIPTION: &'static str = match (RANDOM, WRITE) {
        (false, false) => "reads a line of every page in order",
        (false, true) => "writes a line of every page in order",
        (true, false) => "reads lines at random",
        (true, true) => "writes lines at random",
    };
    const MIX: &'static str = match (RANDOM, WRITE) {
        (false, false) => "64 lines of 64 pages in a row read",
        (false, true) => "64 lines of 64 pages in a row written",
        (true, false) => "64 lines read",
        (true, true) => "64 lines written",
    };
    const SOURCE: &'static str = "the mmap benchmark of HAMS (ISCA'21)";
    /// One page.
    const MIN_BYTES: u64 = PAGE_BYTES as u64;

    fn with_shape(shape: &Shape) -> Self {
        let pages = shape.dataset_bytes / PAGE_BYTES as u64;
        let checksums = Checksums::new(Self::KIND as u64, pages, shape.seed);
        LineAccess { pages, checksums, seed: shape.seed, work: shape.work_instructions }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl<const RANDOM: bool, const WRITE: bool> Workload for LineAccess<RANDOM, WRITE> {
    fn size_bytes(&self) -> u64 {
        self.pages * PAGE_BYTES as u64
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        assert!(page.0 < self.pages, "{page:?} of {}", self.pages);
        fill_lines(out, lines, |line| {
            let at = page.start() + line * LINE_BYTES as u64;
            self.checksums.line(at, AccessedLine::new(at, 0))
        })
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        let mut hinted = self.job(job).skip(HINTED_AHEAD);
        for (part, at) in (0..).zip(self.job(job)) {
            hinted.next().into_iter().for_each(|line| memory.hint(Hint::WillNeed(line)));
            memory.work(share(self.work, part, LINES));
            let _old = if WRITE { self.write(memory, at)? } else { self.read(memory, at)? };
        }
        Ok(())
    }

    fn accesses(&self, job: u64, accesses: &mut Accesses) -> bool {
        for at in self.job(job) {
            if WRITE {
                accesses.latched(&[at], |accesses| {
                    accesses.load(at);
                    accesses.store(at + RECORD_OFFSET);
                });
            } else {
                accesses.load(at);
            }
        }
        true
    }

    fn writes(&self) -> bool {
        WRITE
    }
}
