//! Fibers: stackful user-level threads, switched in a few nanoseconds.
//!
//! A [`Fiber`] runs a body on a stack of its own. The body suspends itself anywhere in its call
//! tree and goes on when it is resumed. Stacks are mapped once, each above a guard of
//! [`GUARD_BYTES`], touched ahead of need, and reused through a [`StackPool`]. An overflow ends the
//! process with a line that names the job. The caller decides the order of fibers.
//!
//! A fiber stays on the thread that made it. Its body must not hold a lock guard, a `RefCell`
//! borrow or a thread-local reference across a suspension, and must not suspend while it unwinds.

mod chained_handler;
mod overflow;
mod panics;
mod region;
mod stacks;

use corosensei::{Coroutine, CoroutineResult, Yielder};

pub use chained_handler::{ChainedHandler, Handler};
pub use panics::on_the_threads_stack;
pub use region::{GUARD_BYTES, STACK_BYTES_MAX, STACK_BYTES_MIN};
pub use stacks::{Label, Stack, StackPool, attached};

/// The handle that lets a body suspend its own fiber.
pub struct Suspend<'a, In, Out>(&'a Yielder<In, Out>);

impl<In, Out> Suspend<'_, In, Out> {
    /// Suspends the fiber: the call that resumed it returns `out`. Returns the input of the next
    /// resumption.
    #[inline]
    pub fn suspend(&self, out: Out) -> In {
        self.0.suspend(out)
    }
}

/// A body that runs on its own stack. It takes an `In` at every resumption and returns an `Out` at
/// every suspension.
pub struct Fiber<In, Out> {
    coroutine: Coroutine<In, Out, (), Stack>,
}

impl<In: 'static, Out: 'static> Fiber<In, Out> {
    /// A fiber that runs `body` on `stack` when it is first resumed. The body gets the input of
    /// that resumption.
    pub fn new<F>(stack: Stack, body: F) -> Fiber<In, Out>
    where
        F: FnOnce(&Suspend<'_, In, Out>, In) + 'static,
    {
        let label = stack.label();
        let coroutine =
            Coroutine::with_stack(stack, move |yielder: &Yielder<In, Out>, input: In| {
                let _entered = panics::enter(label.state(), yielder);
                body(&Suspend(yielder), input);
            });
        Fiber { coroutine }
    }

    /// Runs the body until it suspends (`Some` of its output) or returns (`None`). A panic in the
    /// body is passed on to the caller.
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

    /// Returns true if the body has returned.
    pub fn is_done(&self) -> bool {
        self.coroutine.done()
    }

    /// Returns the stack of a fiber whose body has returned.
    ///
    /// # Panics
    /// If the body has not returned.
    pub fn into_stack(self) -> Stack {
        self.coroutine.into_stack()
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
    fn a_body_finds_what_is_attached_to_its_own_stack_and_a_thread_finds_nothing() {
        let mut pool = StackPool::new(2, 16 * 1024).unwrap();
        let data = [7u32, 8];
        let fiber = |number: usize, stack: Stack| {
            let label = stack.label();
            label.attach((&raw const data[number]).cast());
            Fiber::<(), usize>::new(stack, move |suspend, ()| {
                loop {
                    suspend.suspend(attached().map_or(0, |data| data.as_ptr() as usize));
                    label.attach(std::ptr::null());
                }
            })
        };
        let mut fibers = [0, 1].map(|number| fiber(number, pool.take().unwrap()));
        for (number, fiber) in fibers.iter_mut().enumerate() {
            assert_eq!(fiber.resume(()), Some((&raw const data[number]) as usize));
            assert_eq!(fiber.resume(()), Some(0));
        }
        assert_eq!(attached(), None);
    }

    #[test]
    fn work_of_a_fiber_that_another_one_resumes_runs_on_the_threads_stack() {
        const STACK_BYTES: usize = 16 * 1024;
        fn here() -> usize {
            let byte = std::hint::black_box(0u8);
            std::hint::black_box(&raw const byte) as usize
        }
        let place = Rc::new(Cell::new(0));
        let seen = place.clone();
        let mut outer: Fiber<(), ()> = Fiber::new(stack(), move |_, ()| {
            let mut inner: Fiber<(), ()> = Fiber::new(stack(), move |_, ()| {
                on_the_threads_stack(&mut || seen.set(here()));
            });
            let own = here();
            inner.resume(());
            assert!(place.get().abs_diff(own) > STACK_BYTES, "it runs on the outer fiber's stack");
        });
        assert_eq!(outer.resume(()), None);
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
