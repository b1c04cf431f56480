//! [`Kept`]: a transaction whose stores other jobs see one after the other when it commits.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ebbtide_core::durability::{HeldLatches, WriteSet};
use ebbtide_core::{Addr, FullMemory, LINE_BYTES, Memory, Value};

use crate::{Plain, index};

/// A transaction under way over a [`Plain`] memory. It keeps its stores aside and its latches held,
/// as the engine does. Exchanges take effect at once, so they are for latches alone.
#[derive(Debug)]
pub struct Kept<'a> {
    memory: &'a mut Plain,
    stores: WriteSet,
    latches: HeldLatches,
}

impl<'a> Kept<'a> {
    /// A transaction that has stored nothing yet.
    pub fn new(memory: &'a mut Plain) -> Kept<'a> {
        Kept { memory, stores: WriteSet::default(), latches: HeldLatches::default() }
    }

    /// Applies the stores in the order of their addresses, as a commit of the engine does. Runs
    /// `look`, which stands for a job on another core, after each word. Returns the latches held,
    /// which the caller releases.
    pub fn commit(self, mut look: impl FnMut(&mut Onlooker<'_>)) -> Vec<Addr> {
        for stored in self.stores.words() {
            let word = &mut self.memory.words[index(stored.at)];
            *word = stored.over(*word);
            look(&mut Onlooker(self.memory));
        }
        self.latches.held().to_vec()
    }
}

impl Memory for Kept<'_> {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }
    fn load<T: Value>(&mut self, at: Addr) -> T {
        let mut value: T = self.memory.load(at);
        self.stores.overlay(at, bytemuck::bytes_of_mut(&mut value));
        value
    }
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        debug_assert!(at.0 as usize % LINE_BYTES + size_of::<T>() <= LINE_BYTES);
        self.stores.store(at, bytemuck::bytes_of(&value));
    }
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.memory.compare_exchange(at, current, new)
    }
    fn wait(&mut self, at: Addr, seen: u64) {
        self.memory.wait(at, seen);
    }
    fn wake(&mut self, at: Addr) {
        self.memory.wake(at);
    }
}

impl FullMemory for Kept<'_> {
    fn load_latch(&mut self, at: Addr) -> u64 {
        self.memory.load(at)
    }
    fn latches(&mut self) -> Option<&mut HeldLatches> {
        Some(&mut self.latches)
    }
    fn work(&mut self, _instructions: u64) {}
}

/// The view of a job on another core during a commit.
#[derive(Debug)]
pub struct Onlooker<'a>(&'a mut Plain);

/// Ends a look that would have to wait.
struct Waits;

impl Onlooker<'_> {
    /// The result of `look`; `None` if it waits for a latch that the transaction holds.
    ///
    /// # Panics
    /// When `look` panics.
    pub fn unless_it_waits<T>(&mut self, look: impl FnOnce(&mut Self) -> T) -> Option<T> {
        match catch_unwind(AssertUnwindSafe(|| look(self))) {
            Ok(seen) => Some(seen),
            Err(payload) if payload.is::<Waits>() => None,
            Err(payload) => resume_unwind(payload),
        }
    }
}

impl Memory for Onlooker<'_> {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
    fn load<T: Value>(&mut self, at: Addr) -> T {
        self.0.load(at)
    }
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        self.0.store(at, value);
    }
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.0.compare_exchange(at, current, new)
    }
    fn wait(&mut self, _at: Addr, _seen: u64) {
        resume_unwind(Box::new(Waits));
    }
    fn wake(&mut self, at: Addr) {
        self.0.wake(at);
    }
}

impl FullMemory for Onlooker<'_> {
    fn work(&mut self, _instructions: u64) {}
}
