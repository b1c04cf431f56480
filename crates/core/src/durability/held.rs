//! [`HeldLatches`]: the latches of a transaction under way.

use crate::addr::Addr;

/// The latches that a transaction has taken and keeps until its stores have taken effect, and those
/// that it has read under. `ebbtide_structures::latch` keeps it; a memory releases what it names.
#[derive(Clone, Debug, Default)]
pub struct HeldLatches {
    held: Vec<Addr>,
    /// Words of latches as they were when something was read under them.
    read: Vec<(Addr, u64)>,
    /// True if the transaction takes latches to read as well.
    reads_take: bool,
}

impl HeldLatches {
    /// Whether the transaction holds the latch at `at`.
    pub fn holds(&self, at: Addr) -> bool {
        self.held.contains(&at)
    }

    /// The transaction has taken the latch at `at`.
    pub fn take(&mut self, at: Addr) {
        debug_assert!(!self.holds(at));
        self.held.push(at);
    }

    /// Whether waiting for the latch at `at` may end in a circle: another is held that comes after it.
    pub fn may_not_wait_for(&self, at: Addr) -> bool {
        self.held.iter().any(|held| *held > at)
    }

    /// True if reading takes latches, too: other jobs have made the transaction begin again so often that
    /// it would otherwise never end.
    pub fn reads_take(&self) -> bool {
        self.reads_take
    }

    /// Says whether reading takes latches from now on.
    pub fn set_reads_take(&mut self, reads_take: bool) {
        self.reads_take = reads_take;
    }

    /// Something was read while the word of the latch at `at` was `seen`.
    pub fn note_read(&mut self, at: Addr, seen: u64) {
        if !self.read.contains(&(at, seen)) {
            self.read.push((at, seen));
        }
    }

    /// The latches that were read under, with their words then.
    pub fn read(&self) -> &[(Addr, u64)] {
        &self.read
    }

    /// The latches that are held, in the order in which they were taken.
    pub fn held(&self) -> &[Addr] {
        &self.held
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.held.clear();
        self.read.clear();
        self.reads_take = false;
    }
}

/// What ends a run of a transaction's body that must begin again: it unwinds with this payload, which
/// the memory that runs it catches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rerun {
    /// The latch that has to be free first.
    pub latch: Option<Addr>,
}

impl Rerun {
    /// Ends this run of the body, without a panic message.
    pub fn unwind(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }
}
