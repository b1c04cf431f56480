//! The buffer pool: what the backsides of all cores work on together.

use std::io;
use std::sync::OnceLock;
use std::time::Instant;

use ebbtide_core::{FrameId, Placement, Time};
use parking_lot::Mutex;

use crate::cache::Cache;
use crate::counters::Counters;
use crate::epoch::Epochs;
use crate::mailbox::Mailboxes;

/// The DRAM cache with the free frames, the free slots on flash, and the means to wake waiters.
pub(crate) struct BufferPool {
    pub(crate) cache: Cache,
    pub(crate) epochs: Epochs,
    pub(crate) mailboxes: Mailboxes,
    pub(crate) counters: Counters,
    pub(crate) placement: Mutex<Placement>,
    /// Where slot 0 lies on the device, in bytes.
    pub(crate) base_offset: u64,
    /// Free frames that belong to no core.
    pub(crate) spare: Mutex<Vec<FrameId>>,
    pub(crate) write_gate: WriteGate,
    pub(crate) start: Instant,
}

impl BufferPool {
    /// Time since the engine was made.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        Time::from_ns(self.start.elapsed().as_nanos() as u64)
    }

    pub(crate) fn take_spare(&self, count: usize, into: &mut Vec<FrameId>) {
        let mut spare = self.spare.lock();
        let left = spare.len().saturating_sub(count);
        into.extend(spare.drain(left..));
    }

    pub(crate) fn put_spare(&self, frames: impl Iterator<Item = FrameId>) {
        self.spare.lock().extend(frames);
    }
}

/// Prepares the device for its first write: the store's header must say dirty before any page changes.
pub(crate) struct WriteGate {
    before_first_write: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
    opened: OnceLock<bool>,
}

impl WriteGate {
    pub(crate) fn new(
        before_first_write: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
    ) -> WriteGate {
        WriteGate { before_first_write, opened: OnceLock::new() }
    }

    /// Whether the device may be written. The first call prepares it.
    pub(crate) fn may_write(&self) -> bool {
        *self.opened.get_or_init(|| (self.before_first_write)().is_ok())
    }
}
