//! Programs and their images for the tests.

use ebbtide_core::{Addr, FullMemory, Hint, Memory, PAGE_BYTES, PageId, Value};
use ebbtide_testbed::{Plain, Sparse, words_of_page, words_of_pages};
use ebbtide_workloads::{Kind, Program, Scatter, Shape, Touched, Workload};

/// A program of `pages` pages at most, or as few as it needs, with the rest of the shape as usual.
pub fn program(name: &str, pages: u64, scatter: Scatter) -> Program {
    let least_bytes = name.parse::<Kind>().unwrap().min_bytes();
    let dataset_bytes = least_bytes.max(pages * PAGE_BYTES as u64);
    Program::new(name, &Shape { dataset_bytes, scatter, ..Shape::default() }).unwrap()
}

/// The page of a workload's image as words.
pub fn page(workload: &impl Workload, page: PageId) -> Vec<u64> {
    words_of_page(page, |page, out| workload.image(page, out))
}

/// A workload's whole image as words.
pub fn image(workload: &impl Workload) -> Vec<u64> {
    let pages = workload.size_bytes() / PAGE_BYTES as u64;
    words_of_pages(pages, |page, out| workload.image(page, out))
}

/// A workload's image in a memory of one job.
pub fn plain(workload: &impl Workload) -> Plain {
    Plain::new(image(workload))
}

/// A workload's image, made page by page when a job accesses it.
pub fn sparse(workload: &impl Workload) -> Sparse<'_> {
    Sparse::new(workload.size_bytes(), |page, out| workload.image(page, out))
}

/// A memory of one job that notes its accesses.
pub struct Noting<'a> {
    pub memory: &'a mut Plain,
    pub noted: Vec<Touched>,
}

impl Memory for Noting<'_> {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn load<T: Value>(&mut self, at: Addr) -> T {
        self.noted.push(Touched { at, write: false });
        self.memory.load(at)
    }

    fn store<T: Value>(&mut self, at: Addr, value: T) {
        self.noted.push(Touched { at, write: true });
        self.memory.store(at, value);
    }

    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.noted.push(Touched { at, write: true });
        self.memory.compare_exchange(at, current, new)
    }

    fn wait(&mut self, at: Addr, seen: u64) {
        self.memory.wait(at, seen);
    }

    fn wake(&mut self, at: Addr) {
        self.memory.wake(at);
    }

    fn hint(&mut self, hint: Hint) {
        self.memory.hint(hint);
    }
}

impl FullMemory for Noting<'_> {
    fn work(&mut self, instructions: u64) {
        self.memory.work(instructions);
    }
}
