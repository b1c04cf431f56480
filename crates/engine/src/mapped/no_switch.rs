//! [`NoSwitch`]: a part of a job in which a miss blocks the core.

use std::marker::PhantomData;

use crate::core::flash_memory::FiberContext;

/// While it lives, a miss of this job on a mapped page blocks the core, and no other job runs on
/// it. Hold it around a lock that other code takes as well, such as the one of a foreign library.
#[must_use = "it holds only as long as it lives"]
#[derive(Debug)]
pub struct NoSwitch {
    /// It belongs to its job.
    on_one_thread: PhantomData<*const ()>,
}

/// Forbids switches in this job until the result is dropped. On other threads, which a miss blocks
/// in any case, it does nothing.
pub fn no_switch() -> NoSwitch {
    FiberContext::with_current(|context| context.no_switch().update(|count| count + 1));
    NoSwitch { on_one_thread: PhantomData }
}

impl NoSwitch {
    /// Leaves it on, for languages without guards.
    pub fn leave_on(self) {
        std::mem::forget(self);
    }

    /// The guard of an earlier [`leave_on`](NoSwitch::leave_on) of this job.
    pub fn left_on() -> NoSwitch {
        NoSwitch { on_one_thread: PhantomData }
    }
}

impl Drop for NoSwitch {
    fn drop(&mut self) {
        FiberContext::with_current(|context| {
            context.no_switch().update(|count| count.saturating_sub(1))
        });
    }
}
