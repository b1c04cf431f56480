//! Stacks for fibers: mapped together, each above a guard that faults, all touched ahead of need.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use corosensei::stack::StackPointer;

use crate::region::{GUARD_BYTES, Region, State};
use crate::{overflow, panics};

/// Stacks of one size, all mapped and touched when the pool is made.
pub struct StackPool {
    region: Arc<Region>,
    free: Vec<Stack>,
}

impl StackPool {
    /// A pool of `count` stacks of `bytes` bytes each (rounded up to whole pages), resident from the
    /// start. The calling thread is the one that may run fibers on them.
    ///
    /// The first pool of a process makes it report stack overflows, and runs the panic hook that is
    /// set at that time on the thread's own stack when a fiber panics.
    ///
    /// # Errors
    /// When the memory cannot be mapped, or `bytes` is beyond [`STACK_BYTES_MAX`](crate::STACK_BYTES_MAX).
    pub fn new(count: usize, bytes: usize) -> io::Result<StackPool> {
        overflow::watch_this_thread()?;
        panics::use_the_threads_stack();
        let region = Arc::new(Region::new(count, bytes)?);
        region.register();
        let stack = |index| Stack::new(region.clone(), index);
        let free = (0..count).map(stack).collect();
        Ok(StackPool { region, free })
    }

    /// A stack from the pool; `None` when all are in use.
    pub fn take(&mut self) -> Option<Stack> {
        self.free.pop()
    }

    /// Gives a stack back.
    pub fn put(&mut self, stack: Stack) {
        self.free.push(stack);
    }

    /// The most bytes of any stack that have ever been in use. Reads all stacks, so call it between
    /// runs.
    pub fn used_bytes_max(&self) -> usize {
        (0..self.region.count).map(|index| self.region.used_bytes(index)).max().unwrap_or(0)
    }
}

/// A stack to run a fiber on.
pub struct Stack {
    region: Arc<Region>,
    index: usize,
    /// Where the stack begins, at its top, and where it ends, below its guard. Every switch asks.
    base: StackPointer,
    limit: StackPointer,
}

impl Stack {
    fn new(region: Arc<Region>, index: usize) -> Stack {
        let pointer = |at: usize| NonZeroUsize::new(at).expect("a mapping is not at address zero");
        let usable = region.usable(index);
        let (base, limit) = (pointer(usable + region.usable_bytes), pointer(usable - GUARD_BYTES));
        Stack { region, index, base, limit }
    }

    /// A handle that outlives the stack's use by a fiber.
    pub fn label(&self) -> Label {
        Label { region: self.region.clone(), index: self.index }
    }
}

/// Names what runs on a stack, for the report of an overflow.
pub struct Label {
    region: Arc<Region>,
    index: usize,
}

impl Label {
    /// From now on, job `number` runs on the stack.
    #[inline]
    pub fn set_job(&self, number: u64) {
        self.state().job.store(number, Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> &State {
        &self.region.states[self.index]
    }
}

// SAFETY: base and limit delimit a mapping that lives as long as `region` does, is aligned to pages,
// and is this stack's alone.
unsafe impl corosensei::stack::Stack for Stack {
    #[inline]
    fn base(&self) -> StackPointer {
        self.base
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        self.limit
    }
}
