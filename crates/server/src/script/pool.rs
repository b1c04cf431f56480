//! [`Pool`]: the interpreters of a core.

use std::cell::{Cell, RefCell};

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::Keyspace;

use super::interpreter::{Interpreter, STACK_BYTES};
use super::messages::Surroundings;
use crate::failure::Failure;

/// Bytes of DRAM of an interpreter, unless the core has less for all of them.
const INTERPRETER_BYTES: usize = 4 << 20;

/// The most interpreters of a core. More scripts wait.
const INTERPRETERS_MAX: usize = 8;

/// The interpreters of a core, made when a script needs one.
#[derive(Debug)]
pub(crate) struct Pool {
    idle: RefCell<Vec<Interpreter>>,
    /// Number of interpreters, idle or not.
    count: Cell<usize>,
    count_max: usize,
    /// Bytes of each interpreter at most.
    bytes_each: usize,
    /// Bytes that the idle interpreters hold, and the most that each of the others may hold.
    held_bytes: Cell<usize>,
    /// Number of jobs that wait for an interpreter.
    waiting: Cell<usize>,
    /// The stripe on whose latch they wait.
    stripe: u64,
}

/// A job that waits, until this is dropped.
struct Waits<'a>(&'a Cell<usize>);

impl<'a> Waits<'a> {
    fn begin(waiting: &'a Cell<usize>) -> Waits<'a> {
        waiting.set(waiting.get() + 1);
        Waits(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Pool {
    /// Returns the pool of core `core`, whose interpreters take at most `bytes_max`.
    pub(crate) fn new(bytes_max: usize, core: usize) -> Pool {
        let count_max = (bytes_max / INTERPRETER_BYTES).clamp(1, INTERPRETERS_MAX);
        Pool {
            idle: RefCell::default(),
            count: Cell::new(0),
            count_max,
            bytes_each: bytes_max / count_max,
            held_bytes: Cell::new(0),
            waiting: Cell::new(0),
            stripe: core as u64,
        }
    }

    /// Bytes of DRAM of all interpreters.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes.get()
    }

    /// Takes an interpreter. Waits while all are in use.
    ///
    /// # Errors
    /// Returns an error if there is no memory for one.
    pub(crate) fn take<M: FullMemory>(
        &self,
        memory: &mut M,
        keyspace: &Keyspace,
        around: Surroundings,
    ) -> Result<Interpreter, Failure> {
        let _waits = Waits::begin(&self.waiting);
        loop {
            if let Some(taken) = self.try_take(around) {
                return taken;
            }
            let is_empty = || self.idle.borrow().is_empty() && self.count.get() >= self.count_max;
            keyspace.wait_for(memory, self.stripe, is_empty);
        }
    }

    fn try_take(&self, around: Surroundings) -> Option<Result<Interpreter, Failure>> {
        if let Some(idle) = self.idle.borrow_mut().pop() {
            self.count_bytes(idle.held_bytes(), self.bytes_each);
            return Some(Ok(idle));
        }
        if self.count.get() >= self.count_max {
            return None;
        }
        // The other half is for arguments and replies on their way.
        let made = Interpreter::new(self.bytes_each.saturating_sub(STACK_BYTES) / 2, around);
        Some(match made {
            Ok(made) => {
                self.count.set(self.count.get() + 1);
                self.count_bytes(0, self.bytes_each);
                Ok(made)
            }
            Err(error) => Err(format!("OOM no memory for a script: {error}").into()),
        })
    }

    /// Returns an interpreter, which runs no script, to the pool. Wakes the jobs that wait for one.
    pub(crate) fn put<M: FullMemory>(
        &self,
        memory: &mut M,
        keyspace: &Keyspace,
        interpreter: Interpreter,
    ) {
        let bytes = if interpreter.is_over() { 0 } else { interpreter.held_bytes() };
        self.count_bytes(self.bytes_each, bytes);
        if interpreter.is_over() {
            self.count.set(self.count.get() - 1);
        } else {
            self.idle.borrow_mut().push(interpreter);
        }
        if self.waiting.get() > 0 {
            // A job that has just seen no interpreter waits by now.
            keyspace.alone(memory, &[self.stripe], |_| ());
            keyspace.wake(memory, &[self.stripe]);
        }
    }

    /// Drops all idle interpreters.
    pub(crate) fn clear(&self) {
        let idle = std::mem::take(&mut *self.idle.borrow_mut());
        self.count.set(self.count.get() - idle.len());
        idle.iter().for_each(|idle| self.count_bytes(idle.held_bytes(), 0));
    }

    fn count_bytes(&self, before: usize, now: usize) {
        self.held_bytes.set(self.held_bytes.get() - before + now);
    }
}
