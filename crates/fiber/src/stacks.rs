//! Stacks for fibers. They are mapped together, each above a guard that faults, and all are touched
//! ahead of need.

use std::hint::black_box;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use corosensei::stack::StackPointer;

use crate::region::{self, GUARD_BYTES, Region, State};
use crate::{overflow, panics};

/// Stacks of one size, all mapped and touched when the pool is made.
pub struct StackPool {
    region: Arc<Region>,
    free: Vec<Stack>,
}

impl StackPool {
    /// Makes a pool of `count` stacks of `bytes` bytes each (rounded up to whole pages), resident
    /// from the start. Only the calling thread may run fibers on them.
    ///
    /// The first pool of a process turns on the report of stack overflows. It also wraps the
    /// current panic hook, so that a panic of a fiber runs the hook on the thread's own stack.
    ///
    /// # Errors
    /// When the memory cannot be mapped, or `bytes` is beyond
    /// [`STACK_BYTES_MAX`](crate::STACK_BYTES_MAX).
    pub fn new(count: usize, bytes: usize) -> io::Result<StackPool> {
        overflow::watch_this_thread()?;
        panics::use_the_threads_stack();
        let region = Arc::new(Region::new(count, bytes)?);
        region.register();
        let stack = |index| Stack::new(region.clone(), index);
        let free = (0..count).map(stack).collect();
        Ok(StackPool { region, free })
    }

    /// Takes a stack from the pool; `None` when all are in use.
    pub fn take(&mut self) -> Option<Stack> {
        self.free.pop()
    }

    /// Returns a stack to the pool.
    pub fn put(&mut self, stack: Stack) {
        self.free.push(stack);
    }

    /// Returns the most bytes of any stack that have ever been in use. It reads all stacks, so call
    /// it between runs.
    pub fn used_bytes_max(&self) -> usize {
        (0..self.region.count).map(|index| self.region.used_bytes(index)).max().unwrap_or(0)
    }
}

/// A stack to run a fiber on.
pub struct Stack {
    region: Arc<Region>,
    index: usize,
    /// The ends of the stack: `base` at its top, `limit` below its guard. Every switch reads them.
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

    /// Returns a label that outlives the stack's use by a fiber.
    pub fn label(&self) -> Label {
        Label { region: self.region.clone(), index: self.index }
    }
}

/// Names the job on a stack, for the report of an overflow.
pub struct Label {
    region: Arc<Region>,
    index: usize,
}

impl Label {
    /// Notes that job `number` runs on the stack from now on.
    #[inline]
    pub fn set_job(&self, number: u64) {
        self.state().job.store(number, Ordering::Relaxed);
    }

    /// Attaches `data` to the stack, or detaches what is there with null. Code that runs on the
    /// stack finds it by [`attached`].
    pub fn attach(&self, data: *const ()) {
        self.state().attached.store(data.cast_mut(), Ordering::Release);
    }

    pub(crate) fn state(&self) -> &State {
        &self.region.states[self.index]
    }
}

/// Returns what is [attached](Label::attach) to the stack that the caller runs on. `None` on a
/// thread's own stack, or if nothing is attached. Safe in a signal handler.
pub fn attached() -> Option<NonNull<()>> {
    let here = black_box(0u8);
    let find = |_: &Region, state: &State, _| state.attached.load(Ordering::Acquire);
    // SAFETY: this thread runs on the stack at this address.
    let found = unsafe { region::lookup((&raw const here) as usize, find) };
    NonNull::new(found?)
}

// SAFETY: base and limit delimit a mapping that lives as long as `region` does, is aligned to
// pages, and is this stack's alone.
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
