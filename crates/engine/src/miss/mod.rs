//! The backside: the life of a miss after the frontside did not find the page.
//!
//! Every core has one. It reads pages in, keeps free frames ahead of need, writes dirty victims
//! back behind the reads, and wakes waiters. Its core drives it ([`Backside::advance`]) between
//! jobs. When that core is busy for long, another core that waits for one of its pages drives it.

pub(crate) mod buffer_pool;
mod claims;
mod completions;
mod eviction;
mod frames;
mod pace;
mod prefetch;
mod requests;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
mod write_back;

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::atomic::Ordering;

use ebbtide_core::prefetch::{Demand, Prefetching};
use ebbtide_core::{FrameId, PageId, Span, Time};
use smallvec::smallvec;

use crate::cache::{BLANK, Installed, POISONED, PageState, Shard};
use crate::device::{Direction, Queue};
use crate::miss::buffer_pool::BufferPool;
use crate::net::{NetEvent, NetRequest};
use crate::sync::counters::CoreCounters;
use crate::sync::mailbox::{Outcome, Waiter};
use eviction::Evictions;
use prefetch::Prefetch;
use requests::{Operation, Requests};
use write_back::WriteBack;

/// A busy core gives the policy this many arrived frames at once, for one lock.
const SETTLE_AT: usize = 32;

/// Which core drives a backside, and how eagerly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Drive {
    /// Its own core, between jobs. `runnable` more jobs can run, so requests may wait for others to
    /// join them.
    Busy { runnable: usize },
    /// Its own core, with nothing to run before a page arrives.
    Idle,
    /// Another core, which waits for one of its pages.
    Help,
}

/// The result of looking for a page on which one of the core's jobs has missed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// The page was on flash only: this core brings it.
    Absent,
    /// The page is on its way: the job waits with others for `mover`, the core that brings it in or out.
    UnderWay { mover: usize },
    /// The page is in DRAM.
    Here,
}

/// Bounds of a backside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most requests under way.
    pub(crate) depth: usize,
    /// The most requests submitted together.
    pub(crate) batch_max: usize,
    /// The longest a request waits for others to join it, unless the pace of misses and reads decides.
    pub(crate) hold: Option<Span>,
    /// Free frames kept ahead of need.
    pub(crate) reserve: usize,
    /// The most pages under way ahead of demand.
    pub(crate) prefetches_max: usize,
}

impl Limits {
    /// The most pages that are on their way out only to be written.
    fn cleaned_max(&self) -> usize {
        2 * self.batch_max
    }
}

/// A core's misses.
pub(crate) struct Backside {
    core: usize,
    limits: Limits,
    /// The core that drives it now.
    driven_by: usize,
    requests: Requests,
    free: Vec<FrameId>,
    /// Free frames of other nodes, on their way there.
    far: Vec<FrameId>,
    evictions: Evictions,
    write_back: WriteBack,
    prefetch: Prefetch,
    /// Misses that wait for a free frame, oldest first.
    starved: VecDeque<(PageId, u32, Time)>,
    /// Published frames that their first waiter has used, or that have none, not yet known to the
    /// policy.
    installed: Vec<FrameId>,
    read_ns: Vec<u64>,
    /// Frames given up only to be written, which keep their pages.
    cleaning: HashSet<FrameId>,
    /// Wake-ups for fibers of this core, which needs no mailbox for them.
    own_wakes: Vec<(u32, Outcome)>,
}

impl Backside {
    pub(crate) fn new(
        core: usize,
        limits: Limits,
        queue: Box<dyn Queue>,
        prefetcher: Option<Prefetching>,
    ) -> Backside {
        Backside {
            core,
            limits,
            driven_by: core,
            requests: Requests::new(queue, limits.depth),
            free: Vec::with_capacity(4 * limits.reserve),
            far: Vec::new(),
            evictions: Evictions::default(),
            write_back: WriteBack::default(),
            prefetch: Prefetch::new(prefetcher, limits.prefetches_max),
            starved: VecDeque::new(),
            installed: Vec::new(),
            read_ns: Vec::new(),
            cleaning: HashSet::new(),
            own_wakes: Vec::new(),
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.starved.is_empty()
            && self.evictions.is_empty()
            && self.write_back.is_empty()
            && self.requests.is_empty()
    }

    /// Whether a page waits for a frame.
    pub(crate) fn is_starved(&self) -> bool {
        !self.starved.is_empty()
    }

    /// True if some work here goes on without a completion of this core's own device queue.
    pub(crate) fn waits_without_device(&self) -> bool {
        !self.starved.is_empty() || !self.evictions.is_empty()
    }

    /// Handles a miss of `waiter`, a job of this core, on `page`. Brings the page, or adds the job
    /// to the page's waiters.
    pub(crate) fn miss(
        &mut self,
        pool: &BufferPool,
        page: PageId,
        waiter: Waiter,
        now: Time,
    ) -> Found {
        loop {
            let shard = pool.cache.shard(page);
            match pool.cache.state(page) {
                PageState::Absent(slot) => {
                    self.counters(pool).misses.add(1);
                    self.fetch(pool, page, slot, (waiter, shard), now);
                    self.look_ahead(pool, page, Demand::Miss, now);
                    return Found::Absent;
                }
                PageState::Coming(frame) => {
                    pool.cache.await_coming(page, frame, &shard);
                    let (mover, _) = pool.cache.wait(page, waiter, &shard);
                    drop(shard);
                    self.look_ahead(pool, page, Demand::Late, now);
                    return Found::UnderWay { mover };
                }
                PageState::Starved(_) | PageState::Busy(_) => {
                    let (mover, frame) = pool.cache.wait(page, waiter, &shard);
                    drop(shard);
                    if let Some(frame) = frame.filter(|_| mover == self.core) {
                        self.revive(pool, page, frame);
                    }
                    return Found::UnderWay { mover };
                }
                PageState::Ahead(_) => {
                    drop(shard);
                    if self.use_ahead(pool, page, now) {
                        self.own_wakes.push((waiter.fiber, Outcome::Here { first_use: true }));
                        return Found::Here;
                    }
                    // It has changed by now.
                }
                PageState::Resident(frame) => {
                    drop(shard);
                    pool.cache.remember(page, frame);
                    self.own_wakes.push((waiter.fiber, Outcome::Here { first_use: false }));
                    return Found::Here;
                }
            }
        }
    }

    /// Notes the first use of `page` by a job of this core. Returns true if the page was fetched
    /// ahead and is still there.
    pub(crate) fn use_ahead(&mut self, pool: &BufferPool, page: PageId, now: Time) -> bool {
        let shard = pool.cache.shard(page);
        let PageState::Ahead(frame) = pool.cache.state(page) else { return false };
        let used = pool.cache.use_ahead(page, frame, &shard);
        drop(shard);
        if used {
            self.look_ahead(pool, page, Demand::FirstHit { late: false }, now);
        }
        used
    }

    /// Starts to read the absent `page` from `slot` for `waiter`, a job of this core. Its shard is locked.
    fn fetch(
        &mut self,
        pool: &BufferPool,
        page: PageId,
        slot: u32,
        (waiter, shard): (Waiter, Shard<'_>),
        now: Time,
    ) {
        if slot == POISONED && pool.persist.is_some() {
            drop(shard);
            self.wake(pool, waiter, Outcome::Failed("its copy on flash is damaged".into()));
            return;
        }
        self.requests.missed(now);
        match self.take_free(pool, false) {
            Some(frame) => {
                pool.cache.begin_fetch(page, (slot, frame), self.core, &shard);
                pool.cache.wait(page, waiter, &shard);
                drop(shard);
                self.fill(pool, page, slot, frame, now);
            }
            None => {
                pool.cache.begin_starved(page, slot, waiter, &shard);
                drop(shard);
                self.counters(pool).starved.add(1);
                self.starved.push_back((page, slot, now));
            }
        }
    }

    /// A free frame, if there is one, which is about to be filled by a page that was `prefetched` or not.
    fn take_free(&mut self, pool: &BufferPool, prefetched: bool) -> Option<FrameId> {
        let frame = self.free.pop()?;
        self.prefetch.replaced(&pool.cache, frame, prefetched);
        Some(frame)
    }

    /// Handles a job of this core that waits for `page`, which is on its way into `frame` or out of
    /// it. A page that only waits to be written comes back at once.
    fn revive(&mut self, pool: &BufferPool, page: PageId, frame: FrameId) {
        // The write for a checkpoint must happen.
        if !self.cleaning.contains(&frame) && self.write_back.take_waiting(frame) {
            self.counters(pool).revived.add(1);
            self.counters(pool).revived_unwritten.add(1);
            let slot = pool.cache.slot_of(frame);
            self.publish(pool, page, frame, Installed { slot, dirty: true, ahead: false });
        }
    }

    /// Fetches the pages that the prefetcher expects after a job asked for `page`, with the result
    /// `demand`.
    fn look_ahead(&mut self, pool: &BufferPool, page: PageId, demand: Demand, now: Time) {
        let candidates = self.prefetch.demand(pool.counters.core(self.core), page, demand);
        for candidate in candidates {
            self.fetch_ahead(pool, candidate, now);
        }
    }

    /// Starts to read `page` before a job needs it, if it is on flash only. False if no frame can be spared.
    pub(crate) fn fetch_ahead(&mut self, pool: &BufferPool, page: PageId, now: Time) -> bool {
        // Misses come first: most of the reserve is theirs.
        let spare = self.free.len() > self.limits.reserve / 4 && self.starved.is_empty();
        if !spare || !self.prefetch.has_room() {
            return false;
        }
        let shard = pool.cache.shard(page);
        let PageState::Absent(slot) = pool.cache.state(page) else { return true };
        if slot == BLANK || slot == POISONED {
            return true;
        }
        let frame = self.take_free(pool, true).expect("one can be spared");
        pool.cache.begin_ahead(page, (slot, frame), self.core, &shard);
        drop(shard);
        self.prefetch.issued(pool.counters.core(self.core));
        self.start_read(pool, page, slot, frame, true, now);
        true
    }

    /// True if it fetches pages ahead without hints.
    pub(crate) fn prefetches(&self) -> bool {
        self.prefetch.is_by_itself()
    }

    /// Whether the kernel holds completions back for the core that submitted them.
    pub(crate) fn has_held_back(&mut self) -> bool {
        self.requests.has_held_back()
    }

    /// Whether this core's ring takes sockets.
    pub(crate) fn has_network(&self) -> bool {
        self.requests.has_network()
    }

    /// Takes the requests of this core's service to its sockets.
    pub(crate) fn request_network(&mut self, requests: &mut Vec<NetRequest>, now: Time) {
        self.requests.request_network(requests, now);
    }

    /// Hands over the events of this core's sockets.
    pub(crate) fn take_network_events(&mut self, into: &mut Vec<NetEvent>) {
        self.requests.take_network_events(into);
    }

    /// Hands over the wake-ups for fibers of this core.
    pub(crate) fn take_own_wakes(&mut self, wakes: &mut Vec<(u32, Outcome)>) {
        wakes.append(&mut self.own_wakes);
    }

    /// Takes over frames that their first waiters have used, or are using in a memory call. From now on they
    /// may be evicted, by the core that drives this backside.
    pub(crate) fn settle(&mut self, frames: &mut Vec<FrameId>) {
        self.installed.append(frames);
    }

    /// Does all that can be done now, on behalf of core `by`, which is outside any memory call.
    pub(crate) fn advance(&mut self, pool: &BufferPool, by: usize, now: Time, drive: Drive) {
        self.driven_by = by;
        pool.driven[self.core].store(now.as_ns(), Ordering::Relaxed);
        self.requests.set_busy(matches!(drive, Drive::Busy { .. }));
        if drive == Drive::Idle {
            self.requests.idle(now);
        }
        self.reap(pool, now, drive == Drive::Idle);
        self.end_grace_periods(pool, by, now);
        self.clean(pool, by, now);
        if drive == Drive::Help && self.starved.is_empty() {
            // Only its own core gets frames ahead of need: it may have ended.
            self.share_out(pool);
        } else {
            self.refill(pool, by, now);
        }
        while let Some(&(page, slot, since)) = self.starved.front() {
            let Some(frame) = self.take_free(pool, false) else { break };
            self.starved.pop_front();
            let shard = pool.cache.shard(page);
            pool.cache.begin_fetch(page, (slot, frame), self.core, &shard);
            drop(shard);
            self.fill(pool, page, slot, frame, since);
        }
        self.hand_over_far(pool);
        self.fail_starved(pool);
        if !matches!(drive, Drive::Busy { .. }) || self.installed.len() >= SETTLE_AT {
            pool.cache.settle(&mut self.installed);
        }
        self.submit_when_due(pool, now, drive);
        if by != self.core && self.requests.has_network_events() {
            // Its own core may sleep on completions that were taken here.
            pool.mailboxes.rouse(self.core);
        }
    }

    fn counters<'a>(&self, pool: &'a BufferPool) -> &'a CoreCounters {
        pool.counters.core(self.core)
    }

    /// Starts to read a page that was asked for into `frame`. A blank page needs no read.
    fn fill(&mut self, pool: &BufferPool, page: PageId, slot: u32, frame: FrameId, since: Time) {
        if slot != BLANK {
            self.start_read(pool, page, slot, frame, false, since);
            return;
        }
        pool.cache.clear_end(frame, 0);
        let installed = Installed { slot: None, dirty: false, ahead: false };
        self.publish(pool, page, frame, installed);
    }

    fn start_read(
        &mut self,
        pool: &BufferPool,
        page: PageId,
        slot: u32,
        frame: FrameId,
        prefetched: bool,
        since: Time,
    ) {
        let read = Operation::new(Direction::Read, page, slot, smallvec![frame], since);
        self.requests.start(pool, Operation { prefetched, ..read });
    }

    fn submit_when_due(&mut self, pool: &BufferPool, now: Time, drive: Drive) {
        let hurried =
            matches!(drive, Drive::Busy { .. }) || self.free.len() < self.limits.reserve / 4;
        let writes = self.write_back.ready(&self.limits, hurried);
        if !self.requests.is_due(&self.limits, writes, drive, now) {
            return;
        }
        let mut frames = self.write_back.take(&pool.cache, writes);
        // A failing device is tried with few pages at a time. The others go on living in DRAM.
        let permitted = pool.write_health.permits(frames.len(), now);
        for frame in frames.drain(permitted..) {
            self.keep(pool, frame, pool.cache.slot_of(frame));
        }
        if !frames.is_empty() && pool.write_gate.may_write(now) {
            self.write_back.start(pool, &mut self.requests, frames, now);
        } else if !frames.is_empty() {
            self.write_back.note_failure();
            for frame in frames {
                self.write_failed(pool, frame, pool.cache.slot_of(frame));
            }
        }
        self.counters(pool).submissions.add(1);
        self.requests.submit(now);
    }
}

impl fmt::Debug for Backside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backside")
            .field("requests", &self.requests)
            .field("free_frames", &self.free.len())
            .field("frames_in_grace_period", &self.evictions.frame_count())
            .field("frames_written_back", &self.write_back.frame_count())
            .field("misses_without_frame", &self.starved)
            .finish_non_exhaustive()
    }
}
