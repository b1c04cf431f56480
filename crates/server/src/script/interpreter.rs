//! [`Interpreter`]: a Lua state on a fiber of its own, as the job that resumes it sees it.

use std::{fmt, io};

use ebbtide_fiber::{Fiber, StackPool};

use super::machine;
use super::messages::{Asked, Instruction, Request, Surroundings};

/// Stack bytes of an interpreter. Lua permits 200 calls of C functions within each other.
pub(super) const STACK_BYTES: usize = 256 << 10;

/// A Lua state on a fiber of its own.
pub(crate) struct Interpreter {
    fiber: Fiber<Instruction, Asked>,
    held_bytes: usize,
}

impl Interpreter {
    /// Makes an interpreter whose Lua state takes at most `heap_bytes`.
    ///
    /// # Errors
    /// Returns an error if there is no memory.
    pub(crate) fn new(heap_bytes: usize, around: Surroundings) -> io::Result<Interpreter> {
        let mut stacks = StackPool::new(1, STACK_BYTES)?;
        let stack = stacks.take().expect("it was just made");
        let fiber = Fiber::new(stack, move |suspend, _| {
            machine::serve(suspend, heap_bytes, around);
        });
        let mut interpreter = Interpreter { fiber, held_bytes: STACK_BYTES };
        interpreter.resume(Instruction::Continue);
        if interpreter.is_over() {
            return Err(io::Error::other("Lua has no memory"));
        }
        Ok(interpreter)
    }

    /// Runs the interpreter until its next request. `Idle` if it has ended.
    pub(crate) fn resume(&mut self, instruction: Instruction) -> Request {
        if self.is_over() {
            return Request::Idle;
        }
        match self.fiber.resume(instruction) {
            Some((request, heap_bytes)) => {
                self.held_bytes = STACK_BYTES + heap_bytes;
                request
            }
            None => Request::Idle,
        }
    }

    /// Ends the script under way.
    pub(crate) fn abort(&mut self) {
        while !matches!(self.resume(Instruction::Abort), Request::Idle | Request::Done(_)) {}
    }

    /// True if it has ended, and can run no script.
    pub(crate) fn is_over(&self) -> bool {
        self.fiber.is_done()
    }

    /// Bytes of DRAM that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        // No script is under way: `abort` comes first.
        self.resume(Instruction::End);
    }
}

impl fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interpreter").field("held_bytes", &self.held_bytes).finish_non_exhaustive()
    }
}
