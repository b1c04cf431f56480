//! [`Manager`]: HAMS's address manager, a state machine without time: which page is in which frame
//! of the NVDIMM, who waits for what, and which NVMe commands follow from a miss.

use std::collections::VecDeque;

use ebbtide_core::FrameId;
use rustc_hash::FxHashMap;

use super::queue::{Command, Copy, Kind, Mode, Queue};
use crate::memory_side::counters::CacheCounters;

/// A page of the MoS address space: the unit that moves between flash and the NVDIMM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MosPage(pub u64);

/// What an access found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// Its page.
    Hit,
    /// Its page is on its way already: the waiter is told when it is there.
    Merged,
    /// It was a miss, whose commands are in the queue: the waiter is told when the page is there.
    Started,
    /// Its frame waits for another page, or there is no room for its commands: it is in the wait
    /// queue, will start by itself, and the waiter is told when the page is there.
    Queued,
    /// It must be repeated later: the wait queue is full.
    Full,
}

/// How large the parts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Frames of the NVDIMM.
    pub frames: usize,
    /// Commands in the submission queue: two at least, for a fill and an eviction.
    pub queue: usize,
    /// Pages in the PRP pool.
    pub pool: usize,
    /// Accesses in the wait queue.
    pub wait_queue: usize,
}

/// A frame and its tag, which lies in the ECC bits of its lines.
#[derive(Debug, Clone, Copy, Default)]
struct Frame {
    /// The page it holds, or waits for.
    page: u64,
    valid: bool,
    dirty: bool,
    /// Its page is on its way.
    busy: bool,
}

/// An access in the wait queue.
#[derive(Debug, Clone)]
struct Waiting<W> {
    page: MosPage,
    write: bool,
    waiter: W,
}

/// The inclusive, direct-mapped cache of the MoS address space. `W` is who waits.
///
/// A miss gives its frame the new page's tag and marks it busy. A dirty victim is copied
/// into the PRP pool, so that the fill and the eviction can be under way together; nothing may land
/// in a frame before its copy is made. An access to another page of a busy frame waits until the
/// frame is there, so nothing is evicted or filled twice. Each call is one transition of the state
/// in the NVDIMM: a power cut falls between two of them.
#[derive(Debug, Clone)]
pub struct Manager<W> {
    frames: Vec<Frame>,
    queue: Queue,
    /// Free slots of the PRP pool.
    pool: Vec<u32>,
    pool_slots: u32,
    /// Who waits for the page of which busy frame.
    waiters: FxHashMap<FrameId, Vec<W>>,
    wait_queue: VecDeque<Waiting<W>>,
    wait_queue_max: usize,
    counters: CacheCounters,
}

impl<W> Manager<W> {
    /// An empty cache.
    ///
    /// # Panics
    /// When a part has no room for one miss.
    pub fn new(mode: Mode, sizes: Sizes) -> Manager<W> {
        let Sizes { frames, queue, pool, wait_queue } = sizes;
        assert!(frames > 0 && queue >= 2 && pool > 0 && wait_queue > 0, "{sizes:?}");
        Manager {
            frames: vec![Frame::default(); frames],
            queue: Queue::new(mode, queue),
            pool: (0..pool as u32).rev().collect(),
            pool_slots: pool as u32,
            waiters: FxHashMap::default(),
            wait_queue: VecDeque::new(),
            wait_queue_max: wait_queue,
            counters: CacheCounters::default(),
        }
    }

    /// `waiter` wants a line of `page`.
    pub fn access(&mut self, page: MosPage, write: bool, waiter: W) -> Found {
        let number = self.frame_of(page);
        let frame = &mut self.frames[number.index()];
        if frame.page == page.0 && (frame.valid || frame.busy) {
            frame.dirty |= write;
            if !frame.busy {
                self.counters.hits += 1;
                return Found::Hit;
            }
            self.counters.hits_under_miss += 1;
            self.waiters.entry(number).or_default().push(waiter);
            return Found::Merged;
        }
        if self.can_start(number) {
            self.start(number, Waiting { page, write, waiter });
            return Found::Started;
        }
        if self.wait_queue.len() == self.wait_queue_max {
            return Found::Full;
        }
        self.wait_queue.push_back(Waiting { page, write, waiter });
        Found::Queued
    }

    /// A line of `page` that the chip holds was written.
    pub fn dirtied(&mut self, page: MosPage) {
        let number = self.frame_of(page);
        let frame = &mut self.frames[number.index()];
        if frame.page == page.0 && (frame.valid || frame.busy) {
            frame.dirty = true;
        }
    }

    /// The next page to copy into the PRP pool.
    pub fn take_copy(&mut self) -> Option<Copy> {
        self.queue.take_copy()
    }

    /// The copy for eviction `id` is made.
    pub fn copied(&mut self, id: u64) {
        self.queue.copied(id);
    }

    /// The next command for the device.
    pub fn issue(&mut self) -> Option<Command> {
        self.queue.issue()
    }

    /// Command `id` is finished. Tells whose pages are there now, and starts what waited for it.
    pub fn complete(&mut self, id: u64, arrived: impl FnMut(W)) {
        match self.queue.complete(id).kind {
            Kind::Evict { slot } => self.pool.push(slot),
            Kind::Fill { frame } => {
                let filled = &mut self.frames[frame.index()];
                (filled.valid, filled.busy) = (true, false);
                self.waiters.remove(&frame).into_iter().flatten().for_each(arrived);
            }
        }
        // What waits tries again, in its order. None hits: its page cannot have come but for an access
        // that was queued before it.
        for Waiting { page, write, waiter } in std::mem::take(&mut self.wait_queue) {
            let found = self.access(page, write, waiter);
            debug_assert!(found != Found::Hit && found != Found::Full, "{page:?} {found:?}");
        }
    }

    fn can_start(&self, number: FrameId) -> bool {
        let frame = &self.frames[number.index()];
        let copy = frame.valid && frame.dirty;
        !frame.busy && self.queue.room() >= 2 && (!copy || !self.pool.is_empty())
    }

    fn start(&mut self, number: FrameId, miss: Waiting<W>) {
        let frame = &mut self.frames[number.index()];
        let old = *frame;
        *frame = Frame { page: miss.page.0, valid: false, dirty: miss.write, busy: true };
        self.counters.filled(old);
        if old.valid && old.dirty {
            let slot = self.pool.pop().expect("there was room for a copy");
            self.queue.evict(MosPage(old.page), number, slot);
        }
        self.queue.fill(miss.page, number);
        self.waiters.entry(number).or_default().push(miss.waiter);
    }

    /// An access in no time, when nothing is under way.
    pub fn warm(&mut self, page: MosPage, write: bool) {
        let number = self.frame_of(page);
        let frame = &mut self.frames[number.index()];
        assert!(!frame.busy, "{page:?} is on its way in a warm-up");
        if frame.valid && frame.page == page.0 {
            frame.dirty |= write;
            self.counters.hits += 1;
            return;
        }
        let old = *frame;
        *frame = Frame { page: page.0, valid: true, dirty: write, busy: false };
        self.counters.filled(old);
    }

    /// Power is back after a cut. In persist mode every unfinished command will be issued once more,
    /// and the NVDIMM is as it was; in extend mode everything is empty. Nobody waits any more.
    pub fn power_up(&mut self) {
        self.waiters.clear();
        self.wait_queue.clear();
        self.pool = (0..self.pool_slots).rev().collect();
        for command in self.queue.power_up() {
            if let Kind::Evict { slot } = command.kind {
                self.pool.retain(|free| *free != slot);
            }
        }
        if self.queue.mode() == Mode::Extend {
            self.frames.fill(Frame::default());
        }
    }

    /// Whether `page` is in its frame, and whether it was written since it came.
    pub fn resident(&self, page: MosPage) -> Option<bool> {
        let frame = &self.frames[self.frame_of(page).index()];
        (frame.valid && frame.page == page.0).then_some(frame.dirty)
    }

    /// The only frame that `page` can be in.
    pub fn frame_of(&self, page: MosPage) -> FrameId {
        FrameId((page.0 % self.frames.len() as u64) as u32)
    }

    /// Whether the wait queue has room.
    pub fn has_room(&self) -> bool {
        self.wait_queue.len() < self.wait_queue_max
    }

    /// Pages on their way in.
    pub fn in_flight(&self) -> usize {
        self.waiters.len()
    }

    /// The counters since the last call.
    pub fn take_counters(&mut self) -> CacheCounters {
        std::mem::take(&mut self.counters)
    }
}

impl CacheCounters {
    /// Counts a miss that fills a frame which held `old`.
    fn filled(&mut self, old: Frame) {
        self.misses += 1;
        match old {
            Frame { valid: true, dirty: true, .. } => self.evictions_dirty += 1,
            Frame { valid: true, dirty: false, .. } => self.evictions_clean += 1,
            Frame { valid: false, .. } => {}
        }
    }
}
