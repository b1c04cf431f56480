//! [`ArraySwap`]: swaps two elements of a large array (AstriFlash, HPCA'23, §V-A).

use std::ops::Range;

use ebbtide_core::{Addr, FullMemory, LINE_BYTES, PAGE_BYTES, PageId};
use ebbtide_structures::latch;

use crate::keys::{Places, Ranks, job_rng, share};
use crate::kind::Kind;
use crate::shape::{Named, Shape};
use crate::{ALL_LINES, Accesses, Corrupt, PageBytes, Workload};
use ebbtide_structures::checksum::{Checksums, RECORD_OFFSET};
use ebbtide_structures::hash::mix;
use ebbtide_structures::image::fill_lines;

const PER_PAGE: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// An array of 64-byte elements; a job swaps two of them, chosen by key: 2 reads, 2 writes.
///
/// An element is one line, `{latch, identity, version, payload, checksum}`. A swap exchanges
/// identities and payloads and increments each place's version, so the array always holds the same
/// elements in some order. Both elements are touched before a latch is taken, so that a job waits
/// for misses without latches. Otherwise the hottest elements would be latched during flash reads.
#[derive(Debug, Clone)]
pub struct ArraySwap {
    pages: u64,
    ranks: Ranks,
    places: Places,
    checksums: Checksums,
    seed: u64,
    work: u64,
}

/// The contents of a place of the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Element {
    /// The place where the element was created. It moves with the element.
    pub identity: u64,
    /// The number of writes to this place. It stays with the place.
    pub version: u64,
    /// Words that follow from the identity, so that readers can check them.
    pub payload: [u64; 4],
}

impl Element {
    /// Returns the initial element of place `identity`.
    pub fn new(identity: u64) -> Element {
        let first = mix(identity);
        Element {
            identity,
            version: 0,
            payload: std::array::from_fn(|i| first.rotate_left(16 * i as u32)),
        }
    }

    /// This element with the version that follows `old`'s, for the place that held `old`.
    fn over(self, old: Element) -> Element {
        Element { version: old.version.wrapping_add(1), ..self }
    }
}

/// The result of a swap: the elements that it read. It wrote each to the other's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swap {
    /// The two places, which may be the same.
    pub places: [u64; 2],
    /// The previous element of each place.
    pub found: [Element; 2],
}

impl ArraySwap {
    /// Returns the number of elements.
    pub fn elements(&self) -> u64 {
        self.pages * PER_PAGE
    }

    /// Returns the address of a place.
    #[inline]
    pub fn address(&self, place: u64) -> Addr {
        Addr(place * LINE_BYTES as u64)
    }

    /// Returns the two places that job `job` swaps. They may be the same.
    #[inline]
    pub fn job(&self, job: u64) -> [u64; 2] {
        let mut rng = job_rng(self.seed, job);
        std::array::from_fn(|_| self.places.place(self.ranks.draw(&mut rng)))
    }

    /// Reads the element at `place`, also while other jobs swap.
    ///
    /// # Errors
    /// [`Corrupt`] when the place does not hold an element.
    pub fn get<M: FullMemory>(&self, memory: &mut M, place: u64) -> Result<Element, Corrupt> {
        self.checksums.read(memory, self.address(place))
    }

    /// Swaps the elements of two places in one atomic step.
    ///
    /// # Errors
    /// [`Corrupt`] when either place does not hold an element. Nothing is then stored.
    pub fn swap<M: FullMemory>(&self, memory: &mut M, places: [u64; 2]) -> Result<Swap, Corrupt> {
        let [a, b] = places.map(|place| self.address(place));
        latch::write_two(memory, a, b, |memory| self.exchange(memory, places))
    }

    /// Swaps the elements of two places. The caller must hold the latches of both.
    pub fn exchange<M: FullMemory>(
        &self,
        memory: &mut M,
        places: [u64; 2],
    ) -> Result<Swap, Corrupt> {
        let [a, b] = places.map(|place| self.address(place));
        let old_a: Element = self.checksums.read_latched(memory, a)?;
        let old_b: Element = self.checksums.read_latched(memory, b)?;
        self.checksums.write_latched(memory, a, old_b.over(old_a));
        self.checksums.write_latched(memory, b, old_a.over(old_b));
        Ok(Swap { places, found: [old_a, old_b] })
    }
}

impl Named for ArraySwap {
    const NAME: &'static str = "array-swap";
    const DESCRIPTION: &'static str = "swaps two 64-byte elements of an array";
    const MIX: &'static str = "1 swap: 2 reads, 2 writes";
    const SOURCE: &'static str = "AstriFlash (HPCA'23) section V-A; 64-byte elements are ours";
    /// One page.
    const MIN_BYTES: u64 = PAGE_BYTES as u64;

    fn with_shape(shape: &Shape) -> ArraySwap {
        let pages = shape.dataset_bytes / PAGE_BYTES as u64;
        ArraySwap {
            pages,
            ranks: Ranks::new(pages * PER_PAGE, shape.theta),
            places: Places::new(pages, PER_PAGE, shape.scatter, mix(shape.seed)),
            checksums: Checksums::new(Kind::ArraySwap as u64, pages, shape.seed),
            seed: shape.seed,
            work: shape.work_instructions,
        }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl Workload for ArraySwap {
    fn size_bytes(&self) -> u64 {
        self.pages * PAGE_BYTES as u64
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        assert!(page.0 < self.pages, "{page:?} of {}", self.pages);
        fill_lines(out, lines, |line| {
            let place = page.0 * PER_PAGE + line;
            self.checksums.line(self.address(place), Element::new(place))
        })
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        let places = self.job(job);
        for (part, place) in (0..).zip(places) {
            memory.work(share(self.work, part, 2));
            let _latch: u64 = memory.load(self.address(place));
        }
        self.swap(memory, places).map(|_| ())
    }

    fn accesses(&self, job: u64, accesses: &mut Accesses) -> bool {
        let [a, b] = self.job(job).map(|place| self.address(place));
        let sorted = [a.min(b), a.max(b)];
        let latches = if a == b { &sorted[..1] } else { &sorted };
        accesses.load_all([a, b]);
        accesses.latched(latches, |accesses| {
            accesses.load_all([a, b]);
            accesses.store(a + RECORD_OFFSET);
            accesses.store(b + RECORD_OFFSET);
        });
        true
    }

    fn writes(&self) -> bool {
        true
    }
}
