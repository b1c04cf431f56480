//! [`Accesses`]: the accesses of jobs, computed without memory.

use ebbtide_core::Addr;

/// An access of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touched {
    /// The address.
    pub at: Addr,
    /// True for a store or a compare-exchange.
    pub write: bool,
}

/// The accesses of a job that runs alone, in order. A [`Workload`](crate::Workload) adds them.
#[derive(Debug, Clone, Default)]
pub struct Accesses(Vec<Touched>);

impl Accesses {
    /// Removes all accesses.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the accesses.
    pub fn all(&self) -> &[Touched] {
        &self.0
    }

    #[inline]
    pub(crate) fn load(&mut self, at: Addr) {
        self.0.push(Touched { at, write: false });
    }

    #[inline]
    pub(crate) fn load_all<const N: usize>(&mut self, all: [Addr; N]) {
        all.into_iter().for_each(|at| self.load(at));
    }

    #[inline]
    pub(crate) fn store(&mut self, at: Addr) {
        self.0.push(Touched { at, write: true });
    }

    /// A load and a compare-exchange, which take or release the latch at `at`, or change its word.
    #[inline]
    pub(crate) fn exchange(&mut self, at: Addr) {
        self.load(at);
        self.store(at);
    }

    /// Adds the accesses of `body` with `latches` held, as [`latch::write_all`] does.
    ///
    /// [`latch::write_all`]: ebbtide_structures::latch::write_all
    #[inline]
    pub(crate) fn latched(&mut self, latches: &[Addr], body: impl FnOnce(&mut Accesses)) {
        latches.iter().for_each(|at| self.exchange(*at));
        body(self);
        latches.iter().rev().for_each(|at| self.exchange(*at));
    }
}
