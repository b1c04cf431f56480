//! The backside: the life of a miss after the frontside has found nothing.
//!
//! Every core has one. It reads pages in, keeps free frames ahead of need, writes dirty victims back
//! behind the reads, and tells whoever waits. Its core drives it ([`Backside::advance`]) between
//! jobs; when that core is busy for long, any other core that waits for one of its pages does.

use std::collections::VecDeque;
use std::sync::Arc;

use ebbtide_core::prefetch::{Demand, Prefetching};
use ebbtide_core::{FrameId, PAGE_BYTES, PageId, Span, Time};
use smallvec::{SmallVec, smallvec};

use crate::cache::{Installed, PageState};
use crate::counters::CoreCounters;
use crate::device::{Completion, Direction, Queue, Request};
use crate::epoch::Moment;
use crate::hub::{Outcome, Waiter};
use crate::shared::Shared;

/// How often a request is tried before its error counts.
const ATTEMPTS_MAX: u32 = 8;

/// After so long, a grace period is no longer left to the other cores' next memory call.
const GRACE_PATIENCE: Span = Span::from_us(100);

/// From so many writes that failed for good in a row on, misses that find no free frame are given
/// up instead of waiting for one.
const FAILED_WRITES_IN_A_ROW_MAX: u32 = 16;

/// A busy core puts this many installed frames under the policy at once, for one lock.
const SETTLE_AT: usize = 32;

/// Who drives a backside, and how eagerly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Drive {
    /// Its own core, between jobs: requests may wait for more to join them.
    Busy,
    /// Its own core, with nothing to run before a page arrives.
    Idle,
    /// Another core, which waits for one of its pages.
    Help,
}

/// Bounds of a backside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The most requests handed over together.
    pub(crate) batch_max: usize,
    /// The longest a request waits for others to join it.
    pub(crate) hold: Span,
    /// Free frames kept ahead of need.
    pub(crate) reserve: usize,
    /// The most pages on their way ahead of demand.
    pub(crate) ahead_max: usize,
}

/// A page on its way in, or a run of pages on their way out.
#[derive(Clone)]
struct Operation {
    direction: Direction,
    /// The first slot.
    slot: u32,
    /// The page that is read.
    page: PageId,
    /// Whether it was fetched ahead of demand.
    ahead: bool,
    frames: SmallVec<[FrameId; 1]>,
    since: Time,
    attempts: u32,
}

/// Frames given up together, waiting for their grace period.
struct Parting {
    frames: Vec<FrameId>,
    moment: Moment,
    since: Time,
}

/// A core's misses.
pub(crate) struct Backside {
    core: usize,
    limits: Limits,
    queue: Box<dyn Queue>,
    operations: Vec<Operation>,
    idle_tokens: Vec<u64>,
    free: Vec<FrameId>,
    partings: VecDeque<Parting>,
    /// Dirty frames past their grace period, waiting to be written behind the reads.
    dirty: VecDeque<FrameId>,
    writes_under_way: usize,
    /// Pages that wait for a free frame, oldest first.
    starved: VecDeque<(PageId, u32, Time)>,
    /// Published, used by their first waiter (or wanted by nobody), not yet under the policy.
    installed: Vec<FrameId>,
    completions: Vec<Completion>,
    read_ns: Vec<u64>,
    /// Wake-ups for fibers of this very core, which needs no letter box to hear of them.
    own_wakes: Vec<(u32, Outcome)>,
    driven_by: usize,
    held_since: Option<Time>,
    entered_at: Time,
    failed_writes_in_a_row: u32,
    /// What is fetched ahead of demand, where anything is.
    prefetching: Option<Prefetching>,
    ahead_under_way: usize,
}

impl Backside {
    pub(crate) fn new(
        core: usize,
        limits: Limits,
        queue: Box<dyn Queue>,
        prefetching: Option<Prefetching>,
    ) -> Backside {
        Backside {
            core,
            limits,
            queue,
            operations: Vec::new(),
            idle_tokens: Vec::new(),
            free: Vec::with_capacity(4 * limits.reserve),
            partings: VecDeque::new(),
            dirty: VecDeque::new(),
            writes_under_way: 0,
            starved: VecDeque::new(),
            installed: Vec::new(),
            completions: Vec::new(),
            read_ns: Vec::new(),
            own_wakes: Vec::new(),
            driven_by: core,
            held_since: None,
            entered_at: Time::ZERO,
            failed_writes_in_a_row: 0,
            prefetching,
            ahead_under_way: 0,
        }
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.starved.is_empty()
            && self.partings.is_empty()
            && self.dirty.is_empty()
            && self.queue.in_flight() + self.queue.unsubmitted() == 0
    }

    /// Whether a page waits for a frame.
    pub(crate) fn is_starved(&self) -> bool {
        !self.starved.is_empty()
    }

    /// Whether something here goes on without a completion of this core's own device queue.
    pub(crate) fn waits_without_device(&self) -> bool {
        !self.starved.is_empty() || !self.partings.is_empty()
    }

    /// Starts to read `page` from `slot`. The caller has just made it busy; its waiters are in the
    /// miss table.
    pub(crate) fn fetch(&mut self, shared: &Shared, page: PageId, slot: u32, now: Time) {
        match self.free.pop() {
            Some(frame) => self.start_read(shared, page, slot, frame, false, now),
            None => {
                self.counters(shared).starved.add(1);
                self.starved.push_back((page, slot, now));
            }
        }
    }

    /// A job of this core asked for `page`, and found what `demand` says: fetches what the prefetcher
    /// makes of it.
    pub(crate) fn look_ahead(&mut self, shared: &Shared, page: PageId, demand: Demand, now: Time) {
        let counters = shared.counters.core(self.core);
        counters.ahead_used.add(u64::from(demand.is_first_use()));
        counters.ahead_late.add(u64::from(demand == Demand::Late));
        let Some(prefetching) = &mut self.prefetching else { return };
        let polluted = prefetching.metrics().polluted;
        let candidates: SmallVec<[PageId; 16]> = prefetching.demand(page, demand).into();
        counters.polluted.add(prefetching.metrics().polluted - polluted);
        for candidate in candidates {
            self.fetch_ahead(shared, candidate, now);
        }
    }

    /// Starts to read `page` before anybody needs it, if it is on flash only and a frame can be
    /// spared.
    pub(crate) fn fetch_ahead(&mut self, shared: &Shared, page: PageId, now: Time) {
        // Misses come first: most of the reserve is theirs.
        let spare = self.free.len() > self.limits.reserve / 4 && self.starved.is_empty();
        if !spare || self.ahead_under_way >= self.limits.ahead_max {
            return;
        }
        let shard = shared.cache.shard(page);
        let PageState::Absent(slot) = shared.cache.state(page) else { return };
        shared.cache.begin_ahead(page, &shard);
        drop(shard);
        if let Some(prefetching) = &mut self.prefetching {
            prefetching.issued();
        }
        self.counters(shared).fetched_ahead.add(1);
        self.ahead_under_way += 1;
        let frame = self.free.pop().expect("one can be spared");
        self.start_read(shared, page, slot, frame, true, now);
    }

    /// Hands over the wake-ups for fibers of this core.
    pub(crate) fn take_own_wakes(&mut self, wakes: &mut Vec<(u32, Outcome)>) {
        wakes.append(&mut self.own_wakes);
    }

    fn wake(&mut self, shared: &Shared, waiter: Waiter, outcome: Outcome) {
        if waiter.core as usize == self.core && self.driven_by == self.core {
            self.own_wakes.push((waiter.fiber, outcome));
        } else {
            shared.hub.wake(waiter, outcome);
        }
    }

    /// Takes over a frame whose first waiter is using it in a memory call: from now on it may be given
    /// up, by whoever drives this backside.
    pub(crate) fn settle(&mut self, frame: FrameId) {
        self.installed.push(frame);
    }

    /// Does all that can be done now, on behalf of core `by`, which is outside any memory call.
    pub(crate) fn advance(&mut self, shared: &Shared, by: usize, now: Time, drive: Drive) {
        self.driven_by = by;
        self.reap(shared, now);
        self.part(shared, by, now);
        if drive == Drive::Help && self.starved.is_empty() {
            // Getting frames ahead of need is the core's own business: it may have ended.
            self.share_out(shared);
        } else {
            self.refill(shared, by, now);
        }
        while let Some(&(page, slot, since)) = self.starved.front() {
            let Some(frame) = self.free.pop() else { break };
            self.starved.pop_front();
            self.start_read(shared, page, slot, frame, false, since);
        }
        self.give_up_starved(shared);
        if drive != Drive::Busy || self.installed.len() >= SETTLE_AT {
            shared.cache.settle(&mut self.installed);
        }
        self.submit_when_due(shared, now, drive);
    }

    fn counters<'a>(&self, shared: &'a Shared) -> &'a CoreCounters {
        shared.counters.core(self.core)
    }

    fn start_read(
        &mut self,
        shared: &Shared,
        page: PageId,
        slot: u32,
        frame: FrameId,
        ahead: bool,
        since: Time,
    ) {
        if let Some(prefetching) = &mut self.prefetching
            && let Some((left, origin)) = shared.cache.left_by(frame)
        {
            prefetching.evicted(left, origin, ahead);
        }
        let frames = smallvec![frame];
        let direction = Direction::Read;
        self.start(shared, Operation { direction, slot, page, ahead, frames, since, attempts: 1 });
    }

    fn start(&mut self, shared: &Shared, operation: Operation) {
        let since = operation.since;
        let token = match self.idle_tokens.pop() {
            Some(token) => {
                self.operations[token as usize] = operation;
                token
            }
            None => {
                self.operations.push(operation);
                self.operations.len() as u64 - 1
            }
        };
        self.request(shared, token, since);
    }

    fn request(&mut self, shared: &Shared, token: u64, now: Time) {
        let operation = &self.operations[token as usize];
        self.queue.push(Request {
            direction: operation.direction,
            offset: shared.base_offset + u64::from(operation.slot) * PAGE_BYTES as u64,
            pages: operation.frames.iter().map(|f| shared.cache.frame_memory(*f)).collect(),
            token,
        });
        self.held_since.get_or_insert(now);
    }

    fn reap(&mut self, shared: &Shared, now: Time) {
        let mut completions = std::mem::take(&mut self.completions);
        self.queue.reap(&mut completions);
        for completion in completions.drain(..) {
            self.complete(shared, now, completion);
        }
        self.completions = completions;
        if !self.read_ns.is_empty() {
            shared.counters.flash_reads_took(self.core, self.read_ns.drain(..));
        }
    }

    fn complete(&mut self, shared: &Shared, now: Time, completion: Completion) {
        let counters = shared.counters.core(self.core);
        let operation = &mut self.operations[completion.token as usize];
        let expected_bytes = operation.frames.len() * PAGE_BYTES;
        let error = match completion.result {
            Ok(bytes) if bytes == expected_bytes => None,
            Ok(bytes) => Some(format!("moved {bytes} of {expected_bytes} bytes")),
            Err(error) => Some(error.to_string()),
        };
        if error.is_some() && operation.attempts < ATTEMPTS_MAX {
            operation.attempts += 1;
            counters.retries.add(1);
            self.request(shared, completion.token, now);
            return;
        }
        let (direction, page, slot) = (operation.direction, operation.page, operation.slot);
        let ahead = operation.ahead;
        let (frames, since) = (std::mem::take(&mut operation.frames), operation.since);
        self.idle_tokens.push(completion.token);
        self.ahead_under_way -= usize::from(ahead);
        match (direction, error) {
            (Direction::Read, None) => {
                counters.flash_reads.add(1);
                self.read_ns.push(now.since(since).as_ns());
                if let Some(prefetching) = &mut self.prefetching {
                    prefetching.arrived(page, ahead);
                }
                let installed = Installed { slot: Some(slot), dirty: false, ahead };
                self.publish(shared, page, frames[0], installed);
            }
            (Direction::Read, Some(error)) => {
                counters.read_errors.add(1);
                self.fail(shared, page, slot, &format!("cannot be read: {error}"));
                self.free.push(frames[0]);
            }
            (Direction::Write, None) => {
                counters.flash_writes.add(frames.len() as u64);
                counters.write_requests.add(1);
                self.writes_under_way -= frames.len();
                self.failed_writes_in_a_row = 0;
                for (&frame, slot) in frames.iter().zip(slot..) {
                    self.release(shared, frame, slot);
                }
            }
            (Direction::Write, Some(_)) => {
                self.writes_under_way -= frames.len();
                for (&frame, slot) in frames.iter().zip(slot..) {
                    shared.placement.lock().release(slot);
                    self.write_failed(shared, frame, None);
                }
            }
        }
    }

    /// A page could not be written. Nothing is lost: it goes on living in DRAM.
    fn write_failed(&mut self, shared: &Shared, frame: FrameId, slot: Option<u32>) {
        self.counters(shared).write_errors.add(1);
        self.failed_writes_in_a_row += 1;
        let installed = Installed { slot, dirty: true, ahead: false };
        self.publish(shared, shared.cache.page_in(frame), frame, installed);
    }

    /// Makes a busy page resident in `frame` and wakes whoever waits for it.
    fn publish(&mut self, shared: &Shared, page: PageId, frame: FrameId, installed: Installed) {
        let mut shard = shared.cache.shard(page);
        shared.cache.publish(page, frame, installed, &shard);
        // The frame stays until the first waiter has used it: it makes progress for certain.
        let mut outcome = Outcome::Installed(frame);
        let awaited = shard.complete(page, |waiter| {
            self.wake(shared, waiter, std::mem::replace(&mut outcome, Outcome::Retry));
        });
        if !awaited {
            self.installed.push(frame);
        }
    }

    /// The page in `frame`, unpublished and unchanged against its copy in `slot`, is given up for
    /// good, unless somebody has asked for it meanwhile.
    fn release(&mut self, shared: &Shared, frame: FrameId, slot: u32) {
        let page = shared.cache.page_in(frame);
        let shard = shared.cache.shard(page);
        if shard.contains(page) {
            drop(shard);
            self.counters(shared).revived.add(1);
            let installed = Installed { slot: Some(slot), dirty: false, ahead: false };
            self.publish(shared, page, frame, installed);
        } else {
            shared.cache.set_absent(page, slot, &shard);
            self.free.push(frame);
        }
    }

    /// Ends everyone who waits for `page`, which cannot be had from its `slot`.
    fn fail(&mut self, shared: &Shared, page: PageId, slot: u32, reason: &str) {
        let mut shard = shared.cache.shard(page);
        shared.cache.set_absent(page, slot, &shard);
        let reason: Arc<str> = reason.into();
        shard.complete(page, |waiter| {
            self.wake(shared, waiter, Outcome::Failed(reason.clone()));
        });
    }

    /// Frames whose grace period is over become free, or are queued to be written.
    fn part(&mut self, shared: &Shared, by: usize, now: Time) {
        while let Some(parting) = self.partings.front_mut() {
            if !shared.epochs.is_over(parting.moment, by) {
                if now.since(parting.since) < GRACE_PATIENCE {
                    return;
                }
                shared.epochs.run_barrier(&mut parting.moment);
                if !shared.epochs.is_over(parting.moment, by) {
                    return;
                }
            }
            let parting = self.partings.pop_front().expect("it was just looked at");
            for frame in parting.frames {
                if let Some(slot) = self.evict(shared, frame) {
                    self.release(shared, frame, slot);
                }
            }
        }
    }

    /// Counts an eviction. Gives the slot of an unchanged page; queues a changed one to be written.
    fn evict(&mut self, shared: &Shared, frame: FrameId) -> Option<u32> {
        let counters = self.counters(shared);
        if shared.cache.is_dirty(frame) {
            counters.evictions_dirty.add(1);
            self.dirty.push_back(frame);
            return None;
        }
        counters.evictions_clean.add(1);
        Some(shared.cache.slot_of(frame).expect("a clean page has a copy on flash"))
    }

    /// Keeps free frames ahead of need, many at a time.
    fn refill(&mut self, shared: &Shared, by: usize, now: Time) {
        let wanted = self.limits.reserve + self.starved.len();
        if self.free.len() >= wanted.div_ceil(2) + self.starved.len() / 2 {
            self.share_out(shared);
            return;
        }
        shared.take_spare(wanted - self.free.len(), &mut self.free);
        let parting: usize = self.partings.iter().map(|parting| parting.frames.len()).sum();
        let coming = self.free.len() + parting + self.dirty.len() + self.writes_under_way;
        // While writes fail, only need is worth another one: else a core would never come to rest.
        if coming >= wanted || (self.starved.is_empty() && self.writes_fail()) {
            return;
        }
        shared.cache.settle(&mut self.installed);
        let mut frames = Vec::with_capacity(wanted - coming);
        shared.cache.give_up(wanted - coming, &mut frames);
        if shared.epochs.alone() {
            for frame in frames {
                if let Some(slot) = self.evict(shared, frame) {
                    shared.cache.set_absent_alone(shared.cache.page_in(frame), slot);
                    self.free.push(frame);
                }
            }
        } else if !frames.is_empty() {
            let moment = shared.epochs.begin_grace();
            self.partings.push_back(Parting { frames, moment, since: now });
            self.part(shared, by, now);
        }
    }

    /// Hands frames beyond the reserve to whoever has none.
    fn share_out(&mut self, shared: &Shared) {
        let surplus = self.free.len().saturating_sub(self.limits.reserve);
        if surplus > self.limits.reserve {
            shared.put_spare(self.free.drain(..surplus));
        }
    }

    fn writes_fail(&self) -> bool {
        self.failed_writes_in_a_row >= FAILED_WRITES_IN_A_ROW_MAX
    }

    /// When nothing can be written, no frame will ever come free: say so to those who wait for one.
    fn give_up_starved(&mut self, shared: &Shared) {
        // Frames that are parting may hold unchanged pages, which need no write.
        if !self.writes_fail() || !self.free.is_empty() || !self.partings.is_empty() {
            return;
        }
        for (page, slot, _) in std::mem::take(&mut self.starved) {
            self.fail(
                shared,
                page,
                slot,
                "no frame can be freed for it: writes to the device fail",
            );
        }
    }

    fn submit_when_due(&mut self, shared: &Shared, now: Time, drive: Drive) {
        let writes = self.dirty.len().min(2 * self.limits.batch_max - self.writes_under_way);
        let unsubmitted = self.queue.unsubmitted() + writes;
        let held_back = self.queue.has_held_back();
        let waited = now.since(self.held_since.unwrap_or(now)).max(if held_back {
            now.since(self.entered_at)
        } else {
            Span::ZERO
        });
        // A miss that leaves its core with nothing to run goes at once. A busy core loses nothing by
        // letting a request wait for company, and saves most of what a submission costs.
        let full = unsubmitted >= self.limits.batch_max;
        let due = drive != Drive::Busy || full || waited >= self.limits.hold;
        if !due || (unsubmitted == 0 && !held_back) {
            return;
        }
        self.write_back(shared, writes, now);
        self.counters(shared).submissions.add(1);
        self.queue.submit();
        self.held_since = (self.queue.unsubmitted() > 0).then_some(now);
        self.entered_at = now;
    }

    /// Starts to write the oldest `count` dirty frames, in runs of neighbouring slots.
    fn write_back(&mut self, shared: &Shared, count: usize, now: Time) {
        let mut frames: SmallVec<[FrameId; 64]> = self.dirty.drain(..count).collect();
        if frames.is_empty() {
            return;
        }
        if !shared.may_write() {
            for frame in frames {
                self.write_failed(shared, frame, shared.cache.slot_of(frame));
            }
            return;
        }
        self.writes_under_way += frames.len();
        let mut placement = shared.placement.lock();
        // Nobody needs the old copies: the pages are busy, and newer in DRAM.
        frames.iter().filter_map(|frame| shared.cache.slot_of(*frame)).for_each(|slot| {
            placement.release(slot);
        });
        while !frames.is_empty() {
            let run = placement.take(frames.len() as u32);
            let run = run.expect("there are as many slots as pages, and these pages have none");
            let (direction, slot) = (Direction::Write, run.first);
            let page = shared.cache.page_in(frames[0]);
            let run = frames.drain(..run.count as usize).collect();
            self.start(
                shared,
                Operation {
                    direction,
                    slot,
                    page,
                    ahead: false,
                    frames: run,
                    since: now,
                    attempts: 1,
                },
            );
        }
    }
}
