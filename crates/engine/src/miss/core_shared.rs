//! [`CoreShared`]: the state that the backsides of all cores share.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;
use ebbtide_core::{FrameId, Placement, Span, Time, WriteHealth};
use parking_lot::Mutex;

use crate::cache::Cache;
use crate::cache::nodes::Nodes;
use crate::host::clock::Clock;
use crate::host::extent::Extent;
use crate::persist::Persist;
use crate::sync::counters::Counters;
use crate::sync::departures::Departures;
use crate::sync::epoch::Epochs;
use crate::sync::mailbox::Mailboxes;

/// The DRAM cache with the free frames, the free slots on flash, and the means to wake waiters.
/// What a core needs at every switch comes first, in one cache line.
#[repr(C, align(64))]
pub(crate) struct CoreShared {
    pub(crate) cache: Arc<Cache>,
    pub(crate) mailboxes: Mailboxes,
    pub(crate) clock: Clock,
    pub(crate) counters: Counters,
    pub(crate) epochs: Epochs,
    /// When the backside of each core was last driven, in nanoseconds since the start.
    pub(crate) driven: Box<[CachePadded<AtomicU64>]>,
    pub(crate) placement: Mutex<Placement>,
    /// True if a page is written where it was read, because other programs read the file.
    pub(crate) in_place: bool,
    /// Where slot 0 lies on the device, in bytes.
    pub(crate) base_offset: u64,
    /// Where the frames are, and the cores.
    pub(crate) nodes: Nodes,
    /// Free frames that belong to no core, by node.
    pub(crate) spare: Box<[Mutex<Vec<FrameId>>]>,
    pub(crate) write_gate: WriteGate,
    /// How writes of pages go.
    pub(crate) write_health: PageWrites,
    /// Pages that transactions watch.
    pub(crate) departures: Departures,
    /// The slot of the last page, and how many of its bytes must be on the device. The bytes behind
    /// them are zeros.
    pub(crate) last_page: (u32, usize),
    /// The part of a file that the pages are in, if it is a file.
    pub(crate) extent: Option<Extent>,
    /// The log and the map, if the pages survive a crash.
    pub(crate) persist: Option<Arc<Persist>>,
}

impl CoreShared {
    /// Time since the engine was made.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns how long no core has driven the backside of `core`.
    pub(crate) fn left_alone(&self, core: usize, now: Time) -> Span {
        now.since(Time::from_ns(self.driven[core].load(Ordering::Relaxed)))
    }

    /// True if the whole file is still there. Checked after reads, because a part that was cut off
    /// and has grown again reads as zeros.
    pub(crate) fn is_whole(&self) -> bool {
        self.extent.as_ref().is_none_or(Extent::is_whole)
    }

    /// Takes at most `count` spare frames for `core`, near ones first.
    pub(crate) fn take_spare(&self, core: usize, count: usize, into: &mut Vec<FrameId>) {
        let wanted = into.len() + count;
        let near = self.nodes.of_core(core);
        for node in (near..near + self.spare.len()).map(|node| node % self.spare.len()) {
            let mut spare = self.spare[node].lock();
            let left = (into.len() + spare.len()).saturating_sub(wanted);
            into.extend(spare.drain(left..));
            if into.len() == wanted {
                return;
            }
        }
    }

    /// Takes frames that their cores do not need, each for its node.
    pub(crate) fn put_spare(&self, frames: impl Iterator<Item = FrameId> + Clone) {
        for (node, spare) in self.spare.iter().enumerate() {
            spare.lock().extend(frames.clone().filter(|&frame| self.nodes.of_frame(frame) == node));
        }
    }

    /// Returns all of `frames` frames as spare ones, by node.
    pub(crate) fn all_spare(nodes: &Nodes, frames: usize) -> Box<[Mutex<Vec<FrameId>>]> {
        let of = |node| {
            let all = (0..frames as u32).rev().map(FrameId);
            Mutex::new(all.filter(|&frame| nodes.of_frame(frame) == node).collect())
        };
        (0..nodes.count()).map(of).collect()
    }
}

/// How writes of pages go, for all cores.
#[derive(Default)]
pub(crate) struct PageWrites {
    health: Mutex<WriteHealth>,
    /// Whether a write has failed since one has succeeded. Mostly none has, and no core looks
    /// further.
    trouble: AtomicBool,
}

impl PageWrites {
    /// Notes a failed write. Returns true if the device is given up.
    pub(crate) fn failed(&self, now: Time) -> bool {
        let mut health = self.health.lock();
        health.failed(now);
        self.trouble.store(true, Ordering::Release);
        health.is_given_up(now)
    }

    /// Notes a successful write. Returns true if the last one before it had failed.
    pub(crate) fn succeeded(&self) -> bool {
        if !self.fail() {
            return false;
        }
        let mut health = self.health.lock();
        health.succeeded();
        self.trouble.swap(false, Ordering::AcqRel)
    }

    /// Whether the last write has failed.
    pub(crate) fn fail(&self) -> bool {
        self.trouble.load(Ordering::Acquire)
    }

    /// Whether the device is failing and not to be tried now.
    pub(crate) fn pauses(&self, now: Time) -> bool {
        self.fail() && self.health.lock().pauses(now)
    }

    /// How many of `wanted` pages may be written now.
    pub(crate) fn permits(&self, wanted: usize, now: Time) -> usize {
        match self.fail() {
            false => wanted,
            true => self.health.lock().permits(wanted, now),
        }
    }
}

/// Time after a failed preparation before the next one.
const RETRY_AFTER: Span = Span::from_us(100_000);

/// Prepares the device for its first write: the store's header must say dirty before any page
/// changes.
pub(crate) struct WriteGate {
    prepare: Prepare,
    open: AtomicBool,
    failed_at: Mutex<Option<Time>>,
}

/// The work before the first write.
pub(crate) type Prepare = Box<dyn Fn() -> io::Result<()> + Send + Sync>;

impl WriteGate {
    pub(crate) fn new(prepare: Prepare) -> WriteGate {
        WriteGate { prepare, open: AtomicBool::new(false), failed_at: Mutex::new(None) }
    }

    /// Whether the device may be written. Prepares it if no call has done so, and tries again some
    /// time after a failure.
    pub(crate) fn may_write(&self, now: Time) -> bool {
        if self.open.load(Ordering::Acquire) {
            return true;
        }
        let mut failed_at = self.failed_at.lock();
        if self.open.load(Ordering::Acquire) {
            return true;
        }
        if failed_at.is_some_and(|at| now.since(at) < RETRY_AFTER) {
            return false;
        }
        let prepared = (self.prepare)().is_ok();
        *failed_at = (!prepared).then_some(now);
        self.open.store(prepared, Ordering::Release);
        prepared
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    fn at_ms(ms: u64) -> Time {
        Time::ZERO + Span::from_us(ms * 1_000)
    }

    #[test]
    fn a_preparation_that_failed_is_tried_again_later_and_one_that_succeeded_is_not() {
        let tried = Arc::new(AtomicU32::new(0));
        let tries = tried.clone();
        let fails_twice = move || match tries.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(io::ErrorKind::Other.into()),
            _ => Ok(()),
        };
        let gate = WriteGate::new(Box::new(fails_twice));
        for (ms, may, tries) in [
            (0, false, 1),
            (99, false, 1),
            (100, false, 2),
            (199, false, 2),
            (200, true, 3),
            (201, true, 3),
            (900, true, 3),
        ] {
            assert_eq!(gate.may_write(at_ms(ms)), may, "after {ms} ms");
            assert_eq!(tried.load(Ordering::Relaxed), tries, "after {ms} ms");
        }
    }
}
