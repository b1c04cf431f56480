//! [`Observed`]: a memory that tells which pages a program touches.

use ebbtide_core::{Addr, Hint, Memory, PageId, Value};

/// What becomes of the computing between accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The inner memory does it.
    Done,
    /// It is left out: only the accesses matter.
    Skipped,
}

/// Passes everything on to an inner memory, and every access's page to `observer`.
///
/// `observer` is called with the page and whether the access may store (stores and
/// compare-exchanges), before the access itself. Waiting and waking are no accesses. Counting
/// misses of a simulated LRU this way tells how much a program should compute between misses.
#[derive(Debug)]
pub struct Observed<'a, M, F> {
    inner: &'a mut M,
    observer: F,
    work: Work,
}

impl<'a, M: Memory, F: FnMut(PageId, bool)> Observed<'a, M, F> {
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

    fn work(&mut self, instructions: u64) {
        if self.work == Work::Done {
            self.inner.work(instructions);
        }
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
