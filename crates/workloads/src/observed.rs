//! [`Observed`]: a memory that reports the pages that a program accesses.

use ebbtide_core::{Addr, FullMemory, Hint, Memory, PageId, Value};

/// Treatment of a program's computing between accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The inner memory executes it.
    Done,
    /// It is skipped.
    Skipped,
}

/// Passes all calls on to an inner memory, and reports the page of every access to `observer`.
///
/// Before each access, `observer` is called with its page and whether it may store, as stores and
/// compare-exchanges do. Waits and wakes are not accesses.
#[derive(Debug)]
pub struct Observed<'a, M, F> {
    inner: &'a mut M,
    observer: F,
    work: Work,
}

impl<'a, M: FullMemory, F: FnMut(PageId, bool)> Observed<'a, M, F> {
    /// Observes `inner`.
    pub fn new(inner: &'a mut M, work: Work, observer: F) -> Observed<'a, M, F> {
        Observed { inner, observer, work }
    }
}

impl<M: Memory, F: FnMut(PageId, bool)> Memory for Observed<'_, M, F> {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn load<T: Value>(&mut self, at: Addr) -> T {
        (self.observer)(at.page(), false);
        self.inner.load(at)
    }

    fn store<T: Value>(&mut self, at: Addr, value: T) {
        (self.observer)(at.page(), true);
        self.inner.store(at, value);
    }

    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        (self.observer)(at.page(), true);
        self.inner.compare_exchange(at, current, new)
    }

    fn wait(&mut self, at: Addr, seen: u64) {
        self.inner.wait(at, seen);
    }

    fn wake(&mut self, at: Addr) {
        self.inner.wake(at);
    }

    fn hint(&mut self, hint: Hint) {
        self.inner.hint(hint);
    }
}

impl<M: FullMemory, F: FnMut(PageId, bool)> FullMemory for Observed<'_, M, F> {
    fn work(&mut self, instructions: u64) {
        if self.work == Work::Done {
            self.inner.work(instructions);
        }
    }
}
