//! A core's requests to its device: the ones under way, the ones to try again, and the time of the
//! next submission.

use std::fmt;
use std::sync::Arc;

use ebbtide_core::durability::Lsn;
use ebbtide_core::{FrameId, PAGE_BYTES, PageId, Span, Time};
use smallvec::SmallVec;

use super::core_shared::CoreShared;
use super::pace::Pace;
use super::{Drive, Limits};
use crate::device::{Completion, Direction, Queue, Request};
use crate::net::{NetEvent, NetRequest};

/// How often a request is tried before its error counts.
pub(super) const ATTEMPTS_MAX: u32 = 8;

/// A page on its way in, or a run of pages on their way out.
#[derive(Clone)]
pub(super) struct Operation {
    pub(super) direction: Direction,
    /// The first slot.
    pub(super) slot: u32,
    /// The page that is read.
    pub(super) page: PageId,
    /// Whether it was fetched ahead of demand.
    pub(super) prefetched: bool,
    pub(super) frames: SmallVec<[FrameId; 1]>,
    pub(super) since: Time,
    /// When it was handed to the device.
    pub(super) submitted: Time,
    pub(super) attempts: u32,
    /// Whether it writes one page of a run that failed as a whole.
    pub(super) alone: bool,
    /// The part of the log that a write to the persist part covers.
    pub(super) covers: Lsn,
}

impl Operation {
    /// Moves `frames` to or from the slots from `slot` on, the first of them for `page`. The
    /// request was asked for by a job, was tried once, and is not part of the persist part.
    pub(super) fn new(
        direction: Direction,
        page: PageId,
        slot: u32,
        frames: SmallVec<[FrameId; 1]>,
        since: Time,
    ) -> Operation {
        Operation {
            direction,
            slot,
            page,
            prefetched: false,
            frames,
            since,
            submitted: since,
            attempts: 1,
            alone: false,
            covers: Lsn::ZERO,
        }
    }
}

/// The requests of one core.
pub(super) struct Requests {
    queue: Box<dyn Queue>,
    shared: Arc<CoreShared>,
    /// By token.
    operations: Vec<Operation>,
    idle_tokens: Vec<u64>,
    completions: Vec<Completion>,
    /// When the oldest request that is not submitted yet was made.
    held_since: Option<Time>,
    /// Reads that are not submitted yet.
    held_reads: Vec<u64>,
    submitted_at: Time,
    pace: Pace,
}

impl Requests {
    /// For at most `depth` requests at once. The lists have their places from the start, so that
    /// memory does not grow with the load.
    pub(super) fn new(queue: Box<dyn Queue>, depth: usize, shared: Arc<CoreShared>) -> Requests {
        let none = SmallVec::new();
        let idle = Operation::new(Direction::Read, PageId(0), 0, none, Time::ZERO);
        Requests {
            queue,
            shared,
            operations: vec![idle; depth],
            idle_tokens: (0..depth as u64).rev().collect(),
            completions: Vec::new(),
            held_since: None,
            held_reads: Vec::with_capacity(depth),
            submitted_at: Time::ZERO,
            pace: Pace::default(),
        }
    }

    /// The state that all cores share.
    pub(super) fn shared(&self) -> Arc<CoreShared> {
        self.shared.clone()
    }

    /// Whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.in_flight() + self.queue.unsubmitted() == 0
    }

    /// The most pages in an operation.
    pub(super) fn run_pages_max(&self) -> usize {
        self.queue.run_pages_max()
    }

    pub(super) fn start(&mut self, operation: Operation) {
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
        self.push(token, since);
    }

    fn push(&mut self, token: u64, now: Time) {
        let operation = &self.operations[token as usize];
        let offset = self.shared.base_offset + u64::from(operation.slot) * PAGE_BYTES as u64;
        let pages = operation.frames.iter().map(|f| self.shared.cache.frame_memory(*f)).collect();
        // SAFETY: frames live as long as the cache, which outlives the queue. The states of
        // their pages keep others from them until the operation has ended.
        self.queue.push(unsafe { Request::new(operation.direction, offset, pages, token) });
        if operation.direction == Direction::Read {
            self.held_reads.push(token);
        }
        self.held_since.get_or_insert(now);
    }

    /// A job of this core has missed.
    pub(super) fn missed(&mut self, now: Time) {
        self.pace.missed(now);
    }

    /// Whether its core drives it and has jobs to run.
    pub(super) fn set_busy(&mut self, busy: bool) {
        self.queue.set_busy(busy);
    }

    /// Notes that the core has nothing to run.
    pub(super) fn idle(&mut self, now: Time) {
        self.pace.idle(now);
    }

    /// Whether the queue also drives sockets.
    pub(super) fn has_network(&self) -> bool {
        self.queue.has_network()
    }

    /// Takes the requests of a service to its sockets. Like requests for pages, they wait for
    /// others to join.
    pub(super) fn request_network(&mut self, requests: &mut Vec<NetRequest>, now: Time) {
        self.queue.request_network(requests);
        self.held_since.get_or_insert(now);
    }

    /// True if sockets have events.
    pub(super) fn has_network_events(&self) -> bool {
        self.queue.has_network_events()
    }

    /// Appends the events of sockets.
    pub(super) fn take_network_events(&mut self, into: &mut Vec<NetEvent>) {
        self.queue.take_network_events(into);
    }

    /// The completions there are. The list comes back by [`recycle`](Requests::recycle).
    pub(super) fn reap(&mut self) -> Vec<Completion> {
        let mut completions = std::mem::take(&mut self.completions);
        self.queue.reap(&mut completions);
        completions
    }

    /// Keeps an empty list for the next [`reap`](Requests::reap).
    pub(super) fn recycle(&mut self, completions: Vec<Completion>) {
        debug_assert!(completions.is_empty());
        self.completions = completions;
    }

    /// Prefetches the data that the end of an operation will change into the core's caches.
    pub(super) fn prefetch(&self, completion: &Completion) {
        let operation = &self.operations[completion.token as usize];
        self.shared.cache.prefetch_arrival(operation.page, operation.frames[0]);
    }

    /// The operation that `completion` ends, with its error if it failed for good. `None` if it is
    /// tried again. A core that was `waiting` sees this at once.
    pub(super) fn end(
        &mut self,
        core: usize,
        completion: Completion,
        (now, waiting): (Time, bool),
    ) -> Option<(Operation, Option<String>)> {
        let operation = &mut self.operations[completion.token as usize];
        let expected_bytes = operation.frames.len() * PAGE_BYTES;
        let error = match completion.result {
            Ok(bytes) if bytes == expected_bytes => None,
            // The file may go on behind what belongs to the last page.
            Ok(bytes)
                if operation.slot == self.shared.last_page.0
                    && bytes >= self.shared.last_page.1 =>
            {
                self.shared.cache.clear_end(operation.frames[0], bytes);
                None
            }
            Ok(bytes) => Some(format!("moved {bytes} of {expected_bytes} bytes")),
            Err(error) => Some(error.to_string()),
        };
        if error.is_some() && operation.attempts < ATTEMPTS_MAX {
            operation.attempts += 1;
            self.shared.counters.core(core).retries.add(1);
            self.push(completion.token, now);
            return None;
        }
        if operation.direction == Direction::Read {
            self.pace.read_took(now.since(operation.submitted), waiting);
        }
        let frames = std::mem::take(&mut operation.frames);
        let ended = Operation { frames, ..*operation };
        self.idle_tokens.push(completion.token);
        Some((ended, error))
    }

    /// Whether the kernel holds completions back.
    pub(super) fn has_held_back(&mut self) -> bool {
        self.queue.has_held_back()
    }

    /// True if it is time to submit, when `more` requests would join. The completions that the
    /// kernel holds back come with a submission of this core, but not with another core's.
    pub(super) fn is_due(&mut self, limits: &Limits, more: usize, drive: Drive, now: Time) -> bool {
        let unsubmitted = self.queue.unsubmitted() + more;
        let held_back = drive != Drive::Help && self.queue.has_held_back();
        let waited = now.since(self.held_since.unwrap_or(now)).max(if held_back {
            now.since(self.submitted_at)
        } else {
            Span::ZERO
        });
        let may_wait = match (drive, limits.hold) {
            (Drive::Idle | Drive::Help, _) => false,
            (Drive::Busy { .. }, Some(hold)) => waited < hold,
            (Drive::Busy { runnable }, None) => {
                waited < self.pace.hold(runnable, self.queue.in_flight())
            }
        };
        let due = !may_wait || unsubmitted >= limits.batch_max;
        due && (unsubmitted > 0 || held_back)
    }

    pub(super) fn submit(&mut self, now: Time) {
        self.queue.submit();
        for token in self.held_reads.drain(..) {
            self.operations[token as usize].submitted = now;
        }
        self.held_since = (self.queue.unsubmitted() > 0).then_some(now);
        self.submitted_at = now;
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let idle = |token: usize| self.idle_tokens.contains(&(token as u64));
        let under_way = self.operations.iter().enumerate().filter(|(token, _)| !idle(*token));
        let slots = under_way.map(|(_, operation)| (operation.direction, operation.slot));
        f.debug_struct("Requests")
            .field("submitted", &self.queue.in_flight())
            .field("not_submitted", &self.queue.unsubmitted())
            .field("slots", &slots.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::super::tests::shared;
    use super::*;
    use crate::device::Device;
    use crate::device::ram::{Latency, Ram};

    const LIMITS: Limits =
        Limits { depth: 8, batch_max: 4, hold: None, reserve: 4, prefetches_max: 4 };

    fn us(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    fn busy(runnable: usize) -> Drive {
        Drive::Busy { runnable }
    }

    /// A request since 1,000 us, of a core that misses every 10 us, on a device that takes 100 us.
    fn requests() -> Requests {
        let ram = Arc::new(Ram::new(1, Latency::Looks(1), |_, _| {}));
        let queue = ram.queue(LIMITS.depth).expect("a queue");
        let mut requests = Requests::new(queue, LIMITS.depth, Arc::new(shared(1, 8)));
        for miss in 1..100 {
            requests.missed(us(10 * miss));
            requests.pace.read_took(Span::from_us(100), true);
        }
        requests.request_network(&mut Vec::new(), us(1000));
        requests
    }

    #[test]
    fn a_request_waits_for_others_while_the_jobs_of_a_busy_core_hide_a_read() {
        let mut requests = requests();
        let mut due = |more, jobs, at| requests.is_due(&LIMITS, more, jobs, us(at));
        assert!(!due(1, busy(10), 1000), "ten jobs take as long as a read");
        assert!(!due(1, busy(9), 1019), "nine do not, but one of them runs first");
        assert!(due(1, busy(9), 1020), "and no longer than a submission is worth");
        assert!(due(1, busy(0), 1000), "the job that runs now was the last");
        assert!(due(1, Drive::Idle, 1000), "nothing can run");
        assert!(!due(0, Drive::Idle, 1000), "there is nothing to submit");
    }

    #[test]
    fn a_request_waits_until_the_batch_is_full_or_four_reads_take_no_longer() {
        let mut requests = requests();
        let mut due = |more, at| requests.is_due(&LIMITS, more, busy(100), us(at));
        assert!(!due(3, 1000) && due(4, 1000));
        assert!(!due(1, 1399) && due(1, 1400));
    }

    #[test]
    fn a_request_waits_as_long_as_the_options_say() {
        let mut requests = requests();
        let limits = Limits { hold: Some(Span::from_us(50)), ..LIMITS };
        let mut due = |at| requests.is_due(&limits, 1, busy(0), us(at));
        assert!(!due(1049) && due(1050));
    }
}
