//! [`FiberContext`]: the fiber that the caller runs on, found by its stack. For code without a
//! memory at hand: a signal handler.

use std::cell::Cell;

use ebbtide_fiber::{Label, Suspend, attached};

use super::{FlashMemory, Local, Signal};
use crate::core::engine_state::EngineState;
use crate::sync::mailbox::Waiter;

/// A fiber of a core, and how to suspend it.
pub(crate) struct FiberContext<'a> {
    local: &'a Local,
    suspend: &'a Suspend<'a, (), Signal>,
    fiber: u32,
    /// While it is above zero, a miss on a mapped page blocks the core.
    no_switch: Cell<u32>,
}

/// Detaches a context from its stack when dropped.
pub(crate) struct Attached<'a>(&'a Label);

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        self.0.attach(std::ptr::null());
    }
}

impl<'a> FiberContext<'a> {
    pub(crate) fn new(
        local: &'a Local,
        suspend: &'a Suspend<'a, (), Signal>,
        fiber: u32,
    ) -> FiberContext<'a> {
        FiberContext { local, suspend, fiber, no_switch: Cell::new(0) }
    }

    /// Makes the context known to the code that runs on the stack of `label`, until the result is
    /// dropped.
    pub(crate) fn attach<'b>(&'b self, label: &'b Label) -> Attached<'b> {
        label.attach(std::ptr::from_ref(self).cast());
        Attached(label)
    }

    /// Runs `body` with the fiber that calls this. Returns `None` on a thread's own stack. Safe in
    /// a signal handler.
    pub(crate) fn with_current<R>(body: impl FnOnce(&FiberContext<'_>) -> R) -> Option<R> {
        let context = attached()?.cast::<FiberContext<'_>>();
        // SAFETY: only `attach` attaches data to the stacks of a core. The context lives on the
        // stack that this runs on, and is detached before it ends.
        Some(body(unsafe { context.as_ref() }))
    }

    /// Another handle of the fiber's memory, without a transaction. With `blocks`, a miss blocks
    /// the core in place of a switch.
    pub(crate) fn memory(&self, blocks: bool) -> FlashMemory<'_> {
        let memory = FlashMemory::new(self.local, self.suspend, self.fiber);
        FlashMemory { blocks, ..memory }
    }

    /// True if the fiber is inside a memory call, where it must not miss again.
    pub(crate) fn is_in_call(&self) -> bool {
        self.local.shared.pool.epochs.is_inside(self.local.core)
    }

    /// Names the fiber to whoever wakes it.
    pub(crate) fn waiter(&self) -> Waiter {
        Waiter { core: self.local.core as u32, fiber: self.fiber }
    }

    /// True if the fiber belongs to the engine of `shared`.
    pub(crate) fn is_of(&self, shared: *const EngineState) -> bool {
        std::ptr::eq(&raw const *self.local.shared, shared)
    }

    /// Counts the guards that forbid a switch.
    pub(crate) fn no_switch(&self) -> &Cell<u32> {
        &self.no_switch
    }
}
