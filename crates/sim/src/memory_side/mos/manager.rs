//! [`Manager`]: HAMS's address manager, a state machine without time. It holds the page of each
//! frame of the NVDIMM and the waiters, and turns misses into NVMe commands.

use std::collections::VecDeque;

use ebbtide_core::{Archive, FrameId};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::queue::{Command, Copy, Kind, MosPage, Queue};
use crate::config::Mode;
use crate::memory_side::counters::CacheCounters;

/// The outcome of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The page is present.
    Hit,
    /// The page is already in flight. The waiter is notified when it arrives.
    Merged,
    /// A miss, whose commands are in the queue. The waiter is notified when the page arrives.
    Started,
    /// A miss that waits in the wait queue, because its frame waits for another page or there is no
    /// room for its commands. The manager starts it later, and notifies the waiter when the page
    /// arrives.
    Queued,
    /// The wait queue is full. The access must be repeated later.
    Full,
}

/// Sizes of the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Frames of the NVDIMM.
    pub frames: usize,
    /// Commands in the submission queue, at least two: a fill and an eviction.
    pub queue: usize,
    /// Pages in the PRP pool.
    pub pool: usize,
    /// Accesses in the wait queue.
    pub wait_queue: usize,
}

/// A frame with its tag, which is stored in the ECC bits of its lines.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Frame {
    /// The page that the frame holds or waits for.
    page: u64,
    valid: bool,
    dirty: bool,
    /// Whether the page is in flight.
    busy: bool,
}

/// An access in the wait queue.
#[derive(Debug, Clone)]
struct Waiting<W> {
    page: MosPage,
    sector: u64,
    write: bool,
    waiter: W,
}

/// A frame whose page is in flight. A sector is 4 KiB of it.
#[derive(Debug, Clone)]
struct Filling<W> {
    /// Sectors that have arrived, if arrivals of single sectors are reported.
    landed: Vec<u64>,
    /// Waiters, each with its sector.
    waiters: Vec<(u64, W)>,
}

impl<W> Filling<W> {
    fn new() -> Filling<W> {
        Filling { landed: Vec::new(), waiters: Vec::new() }
    }
}

/// The inclusive, direct-mapped cache of the MoS address space. `W` identifies a waiter.
///
/// A miss writes the tag of the new page into its frame and marks the frame busy. A dirty victim is
/// copied into the PRP pool, so the fill and the eviction can be in flight together. A frame
/// receives no data before its copy is made.
///
/// An access to another page of a busy frame waits for the fill, so no page is evicted or filled
/// twice. Each call is one transition of the state in the NVDIMM. A power cut falls between two
/// calls.
#[derive(Debug, Clone)]
pub struct Manager<W> {
    frames: Vec<Frame>,
    queue: Queue,
    /// Free slots of the PRP pool.
    pool: Vec<u32>,
    pool_slots: u32,
    /// Busy frames.
    filling: FxHashMap<FrameId, Filling<W>>,
    wait_queue: VecDeque<Waiting<W>>,
    wait_queue_max: usize,
    counters: CacheCounters,
    /// Pages that left their frames, if they are watched.
    left: Option<Vec<MosPage>>,
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
            filling: FxHashMap::default(),
            wait_queue: VecDeque::new(),
            wait_queue_max: wait_queue,
            counters: CacheCounters::default(),
            left: None,
        }
    }

    /// Starts or stops watching which pages leave their frames. Returns the pages that left until
    /// now.
    pub(super) fn watch(&mut self, watch: bool) -> Vec<MosPage> {
        std::mem::replace(&mut self.left, watch.then(Vec::new)).unwrap_or_default()
    }

    /// An access of `waiter` to a line of `page`.
    pub fn access(&mut self, page: MosPage, write: bool, waiter: W) -> Found {
        self.access_sector(page, 0, write, waiter)
    }

    /// The same for a line of the given sector of `page`. The access need not wait for the other
    /// sectors if [`Manager::landed`] reports each sector.
    pub fn access_sector(&mut self, page: MosPage, sector: u64, write: bool, waiter: W) -> Found {
        let number = self.frame_of(page);
        let frame = &mut self.frames[number.index()];
        if frame.page == page.0 && (frame.valid || frame.busy) {
            frame.dirty |= write;
            if !frame.busy {
                self.counters.hits += 1;
                return Found::Hit;
            }
            // After a power cut a frame may be busy without a waiter.
            let filling = self.filling.entry(number).or_insert_with(Filling::new);
            if filling.landed.contains(&sector) {
                self.counters.hits += 1;
                return Found::Hit;
            }
            self.counters.hits_under_miss += 1;
            filling.waiters.push((sector, waiter));
            return Found::Merged;
        }
        if self.can_start(number) {
            self.start(number, Waiting { page, sector, write, waiter });
            return Found::Started;
        }
        if self.wait_queue.len() == self.wait_queue_max {
            return Found::Full;
        }
        self.wait_queue.push_back(Waiting { page, sector, write, waiter });
        Found::Queued
    }

    /// Takes a dirty line of the given sector of `page` that leaves the chip. Returns
    /// [`Found::Hit`] if the page is present or in flight. Otherwise the page is fetched, and
    /// `waiter` is notified as for an access.
    pub fn write_back(&mut self, page: MosPage, sector: u64, waiter: W) -> Found {
        let number = self.frame_of(page);
        let frame = &mut self.frames[number.index()];
        if frame.page == page.0 && (frame.valid || frame.busy) {
            frame.dirty = true;
            return Found::Hit;
        }
        let found = self.access_sector(page, sector, true, waiter);
        self.counters.write_back_misses += u64::from(found != Found::Full);
        found
    }

    /// The next page to copy into the PRP pool.
    pub fn take_copy(&mut self) -> Option<Copy> {
        self.queue.take_copy()
    }

    /// The copy for eviction `id` is complete.
    pub fn copied(&mut self, id: u64) {
        self.queue.copied(id);
    }

    /// The next command for the device.
    pub fn issue(&mut self) -> Option<Command> {
        self.queue.issue()
    }

    /// Records that a sector of fill `id` is in its frame. Calls `arrived` for each waiter of the
    /// sector.
    pub fn landed(&mut self, id: u64, sector: u64, mut arrived: impl FnMut(W)) {
        let Kind::Fill { frame } = self.queue.command(id).kind else { return };
        let filling = self.filling.entry(frame).or_insert_with(Filling::new);
        filling.landed.push(sector);
        let came = |waiting: &mut (u64, W)| waiting.0 == sector;
        filling.waiters.extract_if(.., came).for_each(|(_, waiter)| arrived(waiter));
    }

    /// Ends command `id`. Calls `arrived` for each waiter whose page is present now, and retries
    /// the accesses in the wait queue.
    pub fn complete(&mut self, id: u64, mut arrived: impl FnMut(W)) {
        match self.queue.complete(id).kind {
            Kind::Evict { slot } => self.pool.push(slot),
            Kind::Fill { frame } => {
                let filled = &mut self.frames[frame.index()];
                (filled.valid, filled.busy) = (true, false);
                let waiters = self.filling.remove(&frame).map(|filling| filling.waiters);
                waiters.into_iter().flatten().for_each(|(_, waiter)| arrived(waiter));
            }
        }
        // Queued accesses retry in order. Such an access never hits: only an earlier queued access
        // can have fetched its page.
        for Waiting { page, sector, write, waiter } in std::mem::take(&mut self.wait_queue) {
            let found = self.access_sector(page, sector, write, waiter);
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
        if let Some(left) = self.left.as_mut().filter(|_| old.valid) {
            left.push(MosPage(old.page));
        }
        if old.valid && old.dirty {
            let slot = self.pool.pop().expect("there was room for a copy");
            self.queue.evict(MosPage(old.page), number, slot);
        }
        self.queue.fill(miss.page, number, miss.sector);
        let filling = self.filling.entry(number).or_insert_with(Filling::new);
        filling.waiters.push((miss.sector, miss.waiter));
    }

    /// An untimed access while no command is in flight.
    pub fn warm(&mut self, page: MosPage, write: bool) {
        let number = self.frame_of(page);
        let frame = &mut self.frames[number.index()];
        assert!(!frame.busy, "{page:?} is in flight during a warm-up");
        if frame.valid && frame.page == page.0 {
            frame.dirty |= write;
            self.counters.hits += 1;
            return;
        }
        let old = *frame;
        *frame = Frame { page: page.0, valid: true, dirty: write, busy: false };
        self.counters.filled(old);
    }

    /// An untimed write-back of a dirty line of `page` from the chip.
    pub fn warm_back(&mut self, page: MosPage) {
        let number = self.frame_of(page);
        let frame = &mut self.frames[number.index()];
        if frame.valid && frame.page == page.0 {
            frame.dirty = true;
            return;
        }
        self.counters.write_back_misses += 1;
        self.warm(page, true);
    }

    /// Saves all state that [`warm`](Manager::warm) changes to `archive`, or restores it from
    /// there.
    pub(super) fn warm_state(&mut self, archive: &mut Archive<'_>) {
        archive.part(&mut self.frames);
    }

    /// Restores the state after a power cut. In persist mode the NVDIMM keeps its contents, and
    /// every unfinished command is issued again. In extend mode everything is empty. No waiter
    /// remains.
    pub fn power_up(&mut self) {
        self.filling.clear();
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

    /// Whether `page` is dirty, or `None` if it is absent.
    pub fn resident(&self, page: MosPage) -> Option<bool> {
        let frame = &self.frames[self.frame_of(page).index()];
        (frame.valid && frame.page == page.0).then_some(frame.dirty)
    }

    /// The frame of `page`.
    pub fn frame_of(&self, page: MosPage) -> FrameId {
        FrameId((page.0 % self.frames.len() as u64) as u32)
    }

    /// Whether the wait queue has room.
    pub(super) fn has_room(&self) -> bool {
        self.wait_queue.len() < self.wait_queue_max
    }

    /// Pages in flight to the NVDIMM.
    pub fn in_flight(&self) -> usize {
        self.filling.len()
    }

    /// The counters since the last call.
    pub fn take_counters(&mut self) -> CacheCounters {
        std::mem::take(&mut self.counters)
    }
}

impl CacheCounters {
    /// Counts a miss that fills a frame. The frame held `old`.
    fn filled(&mut self, old: Frame) {
        self.misses += 1;
        match old {
            Frame { valid: true, dirty: true, .. } => self.evictions_dirty += 1,
            Frame { valid: true, dirty: false, .. } => self.evictions_clean += 1,
            Frame { valid: false, .. } => {}
        }
    }
}
