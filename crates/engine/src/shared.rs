//! What the cores of one engine share.

use std::io;
use std::sync::OnceLock;
use std::time::Instant;

use ebbtide_core::{FrameId, Placement, Time};
use parking_lot::Mutex;

use crate::backside::Backside;
use crate::cache::Cache;
use crate::counters::Counters;
use crate::epoch::Epochs;
use crate::hub::Hub;
use crate::latches::Latches;

/// The shared half of an engine.
pub(crate) struct Shared {
    /// First, so that they go first: the device may still be moving pages to and from the cache's
    /// frames, and a queue ends only when all its requests have.
    pub(crate) backsides: Box<[Mutex<Backside>]>,
    pub(crate) cache: Cache,
    pub(crate) epochs: Epochs,
    pub(crate) hub: Hub,
    pub(crate) latches: Latches,
    pub(crate) counters: Counters,
    pub(crate) placement: Mutex<Placement>,
    /// Where slot 0 lies on the device, in bytes.
    pub(crate) base_offset: u64,
    pub(crate) start: Instant,
    /// Whether programs' hints are heeded.
    pub(crate) hints: bool,
    /// Free frames of nobody.
    pub(crate) spare: Mutex<Vec<FrameId>>,
    /// What has to happen before the device is written for the first time, and whether it has.
    pub(crate) before_first_write: Box<dyn Fn() -> io::Result<()> + Send + Sync>,
    pub(crate) may_write: OnceLock<bool>,
}

impl Shared {
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

    /// Whether the device may be written; before the first write, its header learns of it.
    pub(crate) fn may_write(&self) -> bool {
        *self.may_write.get_or_init(|| (self.before_first_write)().is_ok())
    }
}
