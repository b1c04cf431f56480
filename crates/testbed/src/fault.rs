//! [`Faulty`]: a memory whose accesses fail when a test decides so.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ebbtide_core::{Addr, FullMemory, Memory, MemoryFault, PageId, Value};

/// Passes every access on to an inner memory, or ends the job with a [`MemoryFault`].
#[derive(Debug)]
pub struct Faulty<'a, M, F> {
    inner: &'a mut M,
    fails: F,
}

impl<'a, M: Memory, F: FnMut(PageId, bool) -> bool> Faulty<'a, M, F> {
    /// Wraps `inner`. Before each access, `fails(page, stores)` returns true to make it fail.
    /// `stores` is true for stores and compare-exchanges.
    pub fn new(inner: &'a mut M, fails: F) -> Faulty<'a, M, F> {
        Faulty { inner, fails }
    }

    fn access(&mut self, at: Addr, stores: bool) {
        if (self.fails)(at.page(), stores) {
            let (page, reason) = (at.page(), "injected".into());
            MemoryFault { page, reason, writes_fail: false }.unwind();
        }
    }
}

impl<M: Memory, F: FnMut(PageId, bool) -> bool> Memory for Faulty<'_, M, F> {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn load<T: Value>(&mut self, at: Addr) -> T {
        self.access(at, false);
        self.inner.load(at)
    }
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        self.access(at, true);
        self.inner.store(at, value);
    }
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.access(at, true);
        self.inner.compare_exchange(at, current, new)
    }
    fn wait(&mut self, at: Addr, seen: u64) {
        self.inner.wait(at, seen);
    }
    fn wake(&mut self, at: Addr) {
        self.inner.wake(at);
    }
}

impl<M: FullMemory, F: FnMut(PageId, bool) -> bool> FullMemory for Faulty<'_, M, F> {
    fn work(&mut self, _instructions: u64) {}
}

/// Runs `job`.
///
/// # Errors
/// The [`MemoryFault`] that the job ended with.
///
/// # Panics
/// When `job` panics for another reason.
pub fn catch_fault<R>(job: impl FnOnce() -> R) -> Result<R, MemoryFault> {
    catch_unwind(AssertUnwindSafe(job)).map_err(|payload| {
        MemoryFault::from_unwind(payload).unwrap_or_else(|_| panic!("a panic and not a fault"))
    })
}

/// Runs `job` on `memory` and makes access number `faulty`, from 1, fail. Returns the job's result
/// and how many accesses it made. A job that made fewer than `faulty` met no fault.
///
/// # Panics
/// When `job` panics for another reason than the fault.
pub fn run_with_fault<M: FullMemory, R>(
    memory: &mut M,
    faulty: u64,
    job: impl FnOnce(&mut Faulty<'_, M, &mut dyn FnMut(PageId, bool) -> bool>) -> R,
) -> (Result<R, MemoryFault>, u64) {
    let mut accesses = 0;
    let mut fails = |_, _| {
        accesses += 1;
        accesses == faulty
    };
    let result = catch_fault(|| job(&mut Faulty::new(memory, &mut fails)));
    (result, accesses)
}
