//! The backside: the life of a miss after the frontside did not find the page.
//!
//! Every core has one. It reads pages in, keeps free frames ahead of need, writes dirty victims
//! back behind the reads, and wakes waiters. Its core drives it ([`Backside::advance`]) between
//! jobs. When that core is busy for long, another core that waits for one of its pages drives it.

mod claims;
mod completions;
pub(crate) mod core_shared;
mod eviction;
mod frames;
mod pace;
mod prefetch;
mod requests;
pub(crate) mod ring;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
mod write_back;

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ebbtide_core::prefetch::{Demand, Prefetching};
use ebbtide_core::{FrameId, PageId, Span, Time};
use smallvec::smallvec;

use crate::cache::{BLANK, Change, Effect, Effects, Event};
use crate::device::{Direction, Queue};
use crate::sync::counters::CoreCounters;
use crate::sync::mailbox::{Outcome, Waiter};
use core_shared::CoreShared;
use eviction::Evictions;
use prefetch::Prefetch;
use requests::{Operation, Requests};
pub(crate) use ring::Rest;
use ring::Ring;
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
pub(crate) enum Lookup {
    /// The page was on flash only: this core brings it.
    Absent,
    /// The page is on its way: the job waits with others for `mover`, the core that brings it in or
    /// out.
    UnderWay { mover: usize },
    /// The page is in DRAM.
    Resident,
}

/// Bounds of a backside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most requests under way.
    pub(crate) depth: usize,
    /// The most requests submitted together.
    pub(crate) batch_max: usize,
    /// The longest a request waits for others to join it, unless the pace of misses and reads
    /// decides.
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
    /// Before `shared`: its requests move frames until they have ended.
    ring: Ring,
    requests: Requests,
    free: Vec<FrameId>,
    /// Free frames of other nodes, on their way there.
    far: Vec<FrameId>,
    evictions: Evictions,
    write_back: WriteBack,
    prefetch: Prefetch,
    /// Misses that wait for a free frame, oldest first.
    starved: VecDeque<(PageId, Time)>,
    /// Published frames that their first waiter has used, or that have none, not yet known to the
    /// policy.
    installed: Vec<FrameId>,
    read_ns: Vec<u64>,
    /// Frames given up only to be written, which keep their pages.
    cleaning: HashSet<FrameId>,
    /// Wake-ups for fibers of this core, which needs no mailbox for them.
    own_wakes: Vec<(u32, Outcome)>,
    shared: Arc<CoreShared>,
}

impl Backside {
    pub(crate) fn new(
        core: usize,
        limits: Limits,
        queue: Box<dyn Queue>,
        prefetcher: Option<Prefetching>,
        shared: Arc<CoreShared>,
    ) -> Backside {
        Backside {
            core,
            limits,
            driven_by: core,
            ring: Ring::new(queue),
            requests: Requests::new(limits.depth, shared.clone()),
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
            shared,
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.starved.is_empty()
            && self.evictions.is_empty()
            && self.write_back.is_empty()
            && self.ring.is_empty()
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
    #[inline]
    pub(crate) fn miss(&mut self, page: PageId, waiter: Waiter, now: Time) -> Lookup {
        let frame = self.free.last().copied();
        let change = self.shared.cache.apply(page, Event::Asked { waiter, frame });
        self.execute(page, &change, now);
        if change.has(Effect::Join) {
            return Lookup::UnderWay { mover: change.mover as usize };
        }
        if change.has(Effect::Use) {
            let first_use = change.has(Effect::NoteFirstUse);
            self.own_wakes.push((waiter.fiber, Outcome::Here { first_use }));
            return Lookup::Resident;
        }
        self.counters().misses.add(1);
        if change.has(Effect::Refuse) {
            let failed = Outcome::Failed("its copy on flash is damaged".into());
            self.own_wakes.push((waiter.fiber, failed));
        } else {
            self.ring.missed(now);
        }
        if self.prefetch.is_by_itself() {
            self.look_ahead(page, Demand::Miss, now);
        }
        Lookup::Absent
    }

    /// Notes the first use of `page` by a job of this core. Returns true if the page was fetched
    /// ahead and is still there.
    pub(crate) fn use_ahead(&mut self, page: PageId, now: Time) -> bool {
        let change = self.shared.cache.apply(page, Event::Used);
        self.execute(page, &change, now);
        change.has(Effect::NoteFirstUse)
    }

    /// Executes the effects of a transition of `page`, which was asked for at `since`. The caller
    /// answers the jobs that ask or fail.
    // Inlined, so that of the effects only those of the caller's event remain.
    #[inline(always)]
    fn execute(&mut self, page: PageId, change: &Change, since: Time) {
        /// Effects that a miss in its usual life does not have.
        const SELDOM: Effects = Effects::of(&[
            Effect::FillAhead,
            Effect::FindFrame,
            Effect::Take,
            Effect::NoteLate,
            Effect::NoteFirstUse,
            Effect::Rescue,
        ]);
        if change.has(Effect::Fill) {
            self.take(change, false);
            self.fill(page, change, since);
        }
        if change.effects.have_any(SELDOM) {
            self.execute_seldom(page, change, since);
        }
        if change.has(Effect::Install) {
            self.install(change);
        }
        if change.has(Effect::Write) {
            self.write_back.push(change.frame);
        }
        if change.has(Effect::Free) {
            self.add_free(change.frame);
        }
    }

    /// As [`execute`](Backside::execute), for the other effects.
    #[cold]
    fn execute_seldom(&mut self, page: PageId, change: &Change, since: Time) {
        if change.has(Effect::FillAhead) {
            self.take(change, true);
            self.prefetch.issued(self.shared.counters.core(self.core));
            self.start_read(page, change, true, since);
        }
        if change.has(Effect::FindFrame) {
            self.counters().starved.add(1);
            self.starved.push_back((page, since));
        }
        if change.has(Effect::Take) {
            self.take(change, false);
        }
        if change.has(Effect::NoteLate) {
            self.look_ahead(page, Demand::Late, since);
        }
        if change.has(Effect::NoteFirstUse) {
            self.look_ahead(page, Demand::FirstHit { late: false }, since);
        }
        if change.has(Effect::Rescue) && change.mover as usize == self.core {
            self.rescue(page, change);
        }
    }

    /// Takes the frame of a transition, which is about to be filled by a page that was `prefetched`
    /// or not. The frame is the next free one, unless its page has it already.
    #[inline]
    fn take(&mut self, change: &Change, prefetched: bool) {
        if self.free.last() == Some(&change.frame) {
            self.free.pop();
            self.prefetch.replaced(change.left, prefetched);
        }
    }

    /// Handles a job of this core that waits for a changed page, which this core evicts. If the
    /// page only waits to be written, it comes back at once.
    fn rescue(&mut self, page: PageId, change: &Change) {
        // The write for a checkpoint must happen.
        if !self.cleaning.contains(&change.frame) && self.write_back.take_waiting(change.frame) {
            self.counters().revived.add(1);
            self.counters().revived_unwritten.add(1);
            let slot = self.shared.cache.slot_of(change.frame);
            let change = self.shared.cache.apply(page, Event::Kept { slot });
            self.install(&change);
        }
    }

    /// Fetches the pages that the prefetcher expects after a job asked for `page`, with the result
    /// `demand`.
    fn look_ahead(&mut self, page: PageId, demand: Demand, now: Time) {
        let candidates = self.prefetch.demand(self.shared.counters.core(self.core), page, demand);
        for candidate in candidates {
            self.fetch_ahead(candidate, now);
        }
    }

    /// Starts to read `page` before a job needs it, if it is on flash only. False if no frame can
    /// be spared.
    pub(crate) fn fetch_ahead(&mut self, page: PageId, now: Time) -> bool {
        // Misses come first: the last quarter of the reserve is theirs.
        let spare = self.free.len() > self.limits.reserve / 4 && self.starved.is_empty();
        if !spare || !self.prefetch.has_room() {
            return false;
        }
        let Some(&frame) = self.free.last() else { return false };
        let change = self.shared.cache.apply(page, Event::Expected { core: self.core, frame });
        self.execute(page, &change, now);
        true
    }

    /// True if it fetches pages ahead without hints.
    pub(crate) fn prefetches(&self) -> bool {
        self.prefetch.is_by_itself()
    }

    /// The ring of this core.
    pub(crate) fn ring(&mut self) -> &mut Ring {
        &mut self.ring
    }

    /// Hands over the wake-ups for fibers of this core.
    pub(crate) fn take_own_wakes(&mut self, wakes: &mut Vec<(u32, Outcome)>) {
        wakes.append(&mut self.own_wakes);
    }

    /// Takes over frames that their first waiters have used, or are using in a memory call. From
    /// now on they may be evicted, by the core that drives this backside.
    pub(crate) fn settle(&mut self, frames: &mut Vec<FrameId>) {
        self.installed.append(frames);
    }

    /// True if a busy core may go on without driving its backside at `now`. It has `missed` jobs,
    /// the first one since `since`, which wait for others to join them. Nothing else here is
    /// urgent.
    pub(crate) fn may_rest(
        &mut self,
        (missed, since): (usize, Option<Time>),
        drive: Drive,
        now: Time,
    ) -> bool {
        self.starved.is_empty()
            && 2 * missed <= self.free.len()
            && self.ring.may_rest(&self.limits, (missed, since), drive, now)
    }

    /// Returns how long a busy core may rest before it looks here again.
    pub(crate) fn rest(&self) -> Rest {
        match self.starved.is_empty() {
            true => self.ring.rest(&self.limits, self.free.len()),
            false => Rest::default(),
        }
    }

    /// Does all that can be done now, on behalf of core `by`, which is outside any memory call.
    pub(crate) fn advance(&mut self, by: usize, now: Time, drive: Drive) {
        self.driven_by = by;
        self.shared.driven[self.core].store(now.as_ns(), Ordering::Relaxed);
        self.ring.driven(drive, now);
        self.reap(now, drive == Drive::Idle);
        self.end_grace_periods(by, now);
        self.clean(by, now);
        if drive == Drive::Help && self.starved.is_empty() {
            // Only its own core gets frames ahead of need: it may have ended.
            self.share_out();
        } else {
            self.refill(by, now);
        }
        while let Some(&frame) = self.free.last() {
            let Some((page, since)) = self.starved.pop_front() else { break };
            let change =
                self.shared.cache.apply(page, Event::FrameFound { core: self.core, frame });
            self.execute(page, &change, since);
        }
        self.hand_over_far();
        self.fail_starved();
        if !matches!(drive, Drive::Busy { .. }) || self.installed.len() >= SETTLE_AT {
            self.shared.cache.settle(&mut self.installed);
        }
        self.submit_when_due(now, drive);
        if by != self.core && self.ring.sockets().is_some_and(|sockets| sockets.has_events()) {
            // Its own core may sleep on completions that were taken here.
            self.shared.mailboxes.rouse(self.core);
        }
    }

    fn counters(&self) -> &CoreCounters {
        self.shared.counters.core(self.core)
    }

    /// Starts to read a page that was asked for into its frame. A blank page needs no read.
    #[inline]
    fn fill(&mut self, page: PageId, change: &Change, since: Time) {
        if change.slot != BLANK {
            self.start_read(page, change, false, since);
        } else {
            self.fill_blank(page, change);
        }
    }

    #[cold]
    fn fill_blank(&mut self, page: PageId, change: &Change) {
        self.shared.cache.clear_end(change.frame, 0);
        let arrived = self.shared.cache.apply(page, Event::Arrived);
        self.install(&arrived);
    }

    #[inline]
    fn start_read(
        &mut self,
        page: PageId,
        &Change { slot, frame, .. }: &Change,
        prefetched: bool,
        since: Time,
    ) {
        let read = Operation::new(Direction::Read, page, slot, smallvec![frame], since);
        self.requests.start(&mut self.ring, Operation { prefetched, ..read });
    }

    fn submit_when_due(&mut self, now: Time, drive: Drive) {
        let hurried =
            matches!(drive, Drive::Busy { .. }) || self.free.len() < self.limits.reserve / 4;
        let writes = self.write_back.ready(&self.limits, hurried);
        if !self.ring.is_due(&self.limits, writes, drive, now) {
            return;
        }
        self.write(writes, now);
        self.counters().submissions.add(1);
        self.ring.submit(now);
        let held_ns = self.requests.submitted(now);
        self.counters().held_ns.add(held_ns);
    }

    /// Hands the oldest `count` changed frames to the ring.
    fn write(&mut self, count: usize, now: Time) {
        if count == 0 {
            return;
        }
        let mut frames = self.write_back.take(&self.shared.cache, count);
        // A failing device is tried with few pages at a time. The others go on living in DRAM.
        let permitted = self.shared.write_health.permits(frames.len(), now);
        for frame in frames.drain(permitted..) {
            self.keep(frame, self.shared.cache.slot_of(frame));
        }
        if !frames.is_empty() && self.shared.write_gate.may_write(now) {
            let pages = (&mut self.requests, &mut self.ring);
            frames = self.write_back.start(pages, frames, now);
        }
        if !frames.is_empty() {
            self.write_back.note_failure();
            for frame in frames {
                self.write_failed(frame, self.shared.cache.slot_of(frame));
            }
        }
    }
}

impl fmt::Debug for Backside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backside")
            .field("ring", &self.ring)
            .field("requests", &self.requests)
            .field("free_frames", &self.free.len())
            .field("frames_in_grace_period", &self.evictions.frame_count())
            .field("frames_written_back", &self.write_back.frame_count())
            .field("misses_without_frame", &self.starved)
            .finish_non_exhaustive()
    }
}
