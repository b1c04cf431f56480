//! Fibers: stackful user-level threads, switched in a few nanoseconds.
//!
//! A [`Fiber`] runs a body on a stack of its own; the body suspends itself anywhere in its call
//! tree and goes on when it is resumed. Stacks are mapped once, guarded by an unmapped page below
//! (running off the end is a fault, never silent corruption), touched ahead of need, and reused
//! through a [`StackPool`]. Who runs when is not decided here.
//!
//! A fiber stays on the thread that made it. Its body must not hold a lock guard, a `RefCell` borrow
//! or a thread-local reference across a suspension, and must not suspend while it unwinds.

use std::io;

use corosensei::stack::{DefaultStack, Stack as _};
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// A stack to run a fiber on.
pub struct Stack(DefaultStack);

/// The smallest stack a fiber can have, in bytes: a page for the body, and room to unwind.
pub const STACK_BYTES_MIN: usize = 8 * 1024;

/// Stacks of one size, all mapped and touched when the pool is made.
pub struct StackPool {
    stacks: Vec<Stack>,
}

impl StackPool {
    /// A pool of `count` stacks of `bytes` bytes each (rounded up to whole pages), resident from the
    /// start.
    ///
    /// # Errors
    /// When the memory cannot be mapped.
    pub fn new(count: usize, bytes: usize) -> io::Result<StackPool> {
        let stacks = (0..count).map(|_| Stack::new(bytes)).collect::<io::Result<Vec<_>>>()?;
        Ok(StackPool { stacks })
    }

    /// A stack from the pool; `None` when all are in use.
    pub fn take(&mut self) -> Option<Stack> {
        self.stacks.pop()
    }

    /// Gives a stack back.
    pub fn put(&mut self, stack: Stack) {
        self.stacks.push(stack);
    }
}

impl Stack {
    fn new(bytes: usize) -> io::Result<Stack> {
        let stack = DefaultStack::new(bytes.max(STACK_BYTES_MIN))?;
        let usable_bytes = stack.base().get() - stack.limit().get() - GUARD_BYTES;
        let lowest = (stack.base().get() - usable_bytes) as *mut u8;
        for offset in (0..usable_bytes).step_by(GUARD_BYTES) {
            // SAFETY: `lowest..base` is this stack's own mapping above its guard page, and nothing
            // runs on it yet.
            unsafe { lowest.add(offset).write_volatile(0) };
        }
        Ok(Stack(stack))
    }
}

/// The unmapped page below every stack.
const GUARD_BYTES: usize = 4096;

/// The handle by which a body suspends its own fiber.
pub struct Suspend<'a, In, Out>(&'a Yielder<In, Out>);

impl<In, Out> Suspend<'_, In, Out> {
    /// Hands `out` to whoever resumed the fiber, and gives what the next resumption brings.
    #[inline]
    pub fn suspend(&self, out: Out) -> In {
        self.0.suspend(out)
    }
}

/// A body running on its own stack: takes `In` at every resumption, hands out `Out` at every
/// suspension.
pub struct Fiber<In, Out> {
    coroutine: Coroutine<In, Out, (), DefaultStack>,
}

impl<In: 'static, Out: 'static> Fiber<In, Out> {
    /// A fiber that will run `body` on `stack` when it is first resumed. The body gets what that
    /// first resumption brings.
    pub fn new<F>(stack: Stack, body: F) -> Fiber<In, Out>
    where
        F: FnOnce(&Suspend<'_, In, Out>, In) + 'static,
    {
        let coroutine =
            Coroutine::with_stack(stack.0, move |yielder: &Yielder<In, Out>, input: In| {
                body(&Suspend(yielder), input);
            });
        Fiber { coroutine }
    }

    /// Runs the body until it suspends (`Some` of what it hands out) or returns (`None`). A panic in
    /// the body comes out here.
    ///
    /// # Panics
    /// If the body has already returned.
    #[inline]
    pub fn resume(&mut self, input: In) -> Option<Out> {
        match self.coroutine.resume(input) {
            CoroutineResult::Yield(out) => Some(out),
            CoroutineResult::Return(()) => None,
        }
    }

    /// Whether the body has returned.
    pub fn is_done(&self) -> bool {
        self.coroutine.done()
    }

    /// The stack of a fiber whose body has returned.
    ///
    /// # Panics
    /// If the body has not returned.
    pub fn into_stack(self) -> Stack {
        Stack(self.coroutine.into_stack())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    fn stack() -> Stack {
        StackPool::new(1, 16 * 1024).unwrap().take().unwrap()
    }

    #[test]
    fn values_pass_both_ways_at_every_switch() {
        let mut fiber = Fiber::new(stack(), |suspend, first: u32| {
            let second = suspend.suspend(first + 1);
            suspend.suspend(second * 10);
        });
        assert_eq!(fiber.resume(1), Some(2));
        assert_eq!(fiber.resume(7), Some(70));
        assert!(!fiber.is_done());
        assert_eq!(fiber.resume(0), None);
        assert!(fiber.is_done());
    }

    #[test]
    fn a_body_suspends_from_deep_in_its_call_tree() {
        fn descend(suspend: &Suspend<'_, (), u32>, depth: u32) {
            if depth == 0 {
                return;
            }
            suspend.suspend(depth);
            descend(suspend, depth - 1);
        }
        let mut fiber = Fiber::new(stack(), |suspend, ()| descend(suspend, 20));
        for depth in (1..=20).rev() {
            assert_eq!(fiber.resume(()), Some(depth));
        }
        assert_eq!(fiber.resume(()), None);
    }

    #[test]
    fn a_panic_comes_out_of_resume_and_the_thread_lives() {
        let mut fiber: Fiber<(), ()> =
            Fiber::new(stack(), |_, ()| std::panic::resume_unwind(Box::new("boom")));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fiber.resume(())));
        assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "boom");
    }

    #[test]
    fn dropping_a_suspended_fiber_drops_what_its_stack_holds() {
        struct Drops(Rc<Cell<u32>>);
        impl Drop for Drops {
            fn drop(&mut self) {
                self.0.set(self.0.get() + 1);
            }
        }
        let drops = Rc::new(Cell::new(0));
        let held = Drops(drops.clone());
        let mut fiber = Fiber::new(stack(), move |suspend, ()| {
            let _held = held;
            suspend.suspend(());
        });
        assert_eq!(fiber.resume(()), Some(()));
        drop(fiber);
        assert_eq!(drops.get(), 1);
    }

    #[test]
    fn stacks_are_reused_through_the_pool() {
        let mut pool = StackPool::new(1, 16 * 1024).unwrap();
        for round in 0..1_000u32 {
            let mut fiber: Fiber<u32, u32> = Fiber::new(pool.take().unwrap(), |suspend, x| {
                suspend.suspend(x);
            });
            assert!(pool.take().is_none());
            assert_eq!(fiber.resume(round), Some(round));
            assert_eq!(fiber.resume(0), None);
            pool.put(fiber.into_stack());
        }
    }
}
