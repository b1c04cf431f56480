//! A core's requests for pages: the ones under way, and the ones to try again.

use std::sync::Arc;
use std::{fmt, io};

use ebbtide_core::durability::Lsn;
use ebbtide_core::{FrameId, PAGE_BYTES, PageId, Time};
use smallvec::SmallVec;

use super::core_shared::CoreShared;
use super::ring::Ring;
use crate::device::{Completion, Direction, PageList, Request};

/// How often a request is tried before its error counts.
pub(super) const ATTEMPTS_MAX: u32 = 8;

/// The frames of a request. Most runs are short.
pub(super) type FrameRun = SmallVec<[FrameId; 4]>;

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
    pub(super) frames: FrameRun,
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
    #[inline]
    pub(super) fn new(
        direction: Direction,
        page: PageId,
        slot: u32,
        frames: FrameRun,
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

impl CoreShared {
    /// The error of a request that did not move all of its pages. `None` if it moved all that there
    /// is: the file may go on behind what belongs to the last page.
    #[cold]
    fn error_of(&self, operation: &Operation, result: io::Result<usize>) -> Option<String> {
        match result {
            Ok(bytes) if operation.slot == self.last_page.0 && bytes >= self.last_page.1 => {
                self.cache.clear_end(operation.frames[0], bytes);
                None
            }
            Ok(bytes) => {
                let expected_bytes = operation.frames.len() * PAGE_BYTES;
                Some(format!("moved {bytes} of {expected_bytes} bytes"))
            }
            Err(error) => Some(error.to_string()),
        }
    }
}

/// The requests of one core.
pub(super) struct Requests {
    shared: Arc<CoreShared>,
    /// By token.
    operations: Vec<Operation>,
    idle_tokens: Vec<u64>,
    completions: Vec<Completion>,
    /// Reads that are not submitted yet.
    held_reads: Vec<u64>,
}

impl Requests {
    /// For at most `depth` requests at once. The lists have their places from the start, so that
    /// memory does not grow with the load.
    pub(super) fn new(depth: usize, shared: Arc<CoreShared>) -> Requests {
        let none = SmallVec::new();
        let idle = Operation::new(Direction::Read, PageId(0), 0, none, Time::ZERO);
        Requests {
            shared,
            operations: vec![idle; depth],
            idle_tokens: (0..depth as u64).rev().collect(),
            completions: Vec::new(),
            held_reads: Vec::with_capacity(depth),
        }
    }

    /// The state that all cores share.
    pub(super) fn shared(&self) -> Arc<CoreShared> {
        self.shared.clone()
    }

    /// Hands a new operation to the ring.
    #[inline(always)]
    pub(super) fn start(&mut self, ring: &mut Ring, operation: Operation) {
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
        self.push(ring, token, since);
    }

    #[inline(always)]
    fn push(&mut self, ring: &mut Ring, token: u64, now: Time) {
        let operation = &self.operations[token as usize];
        let offset = self.shared.base_offset + u64::from(operation.slot) * PAGE_BYTES as u64;
        let memory = |frame: &FrameId| self.shared.cache.frame_memory(*frame);
        let pages = match &operation.frames[..] {
            [frame] => PageList::from_buf([memory(frame)]),
            frames => frames.iter().map(memory).collect(),
        };
        // SAFETY: frames live as long as the cache, which outlives the queue. The states of
        // their pages keep others from them until the operation has ended.
        ring.push(unsafe { Request::new(operation.direction, offset, pages, token) }, now);
        if operation.direction == Direction::Read {
            self.held_reads.push(token);
        }
    }

    /// The completions of the ring. The list comes back by [`recycle`](Requests::recycle).
    pub(super) fn reap(&mut self, ring: &mut Ring) -> Vec<Completion> {
        let mut completions = std::mem::take(&mut self.completions);
        ring.reap(&mut completions);
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
    #[inline]
    pub(super) fn end(
        &mut self,
        ring: &mut Ring,
        (core, completion): (usize, Completion),
        (now, waiting): (Time, bool),
    ) -> Option<(Operation, Option<String>)> {
        let operation = &mut self.operations[completion.token as usize];
        let expected_bytes = operation.frames.len() * PAGE_BYTES;
        let error = match completion.result {
            Ok(bytes) if bytes == expected_bytes => None,
            result => self.shared.error_of(operation, result),
        };
        if error.is_some() && operation.attempts < ATTEMPTS_MAX {
            operation.attempts += 1;
            self.shared.counters.core(core).retries.add(1);
            self.push(ring, completion.token, now);
            return None;
        }
        if operation.direction == Direction::Read {
            ring.read_took(now.since(operation.submitted), waiting);
        }
        let frames = std::mem::take(&mut operation.frames);
        let ended = Operation { frames, ..*operation };
        self.idle_tokens.push(completion.token);
        Some((ended, error))
    }

    /// Notes that the ring has submitted all that was handed to it. Returns how long the reads
    /// among that have waited since their misses, in nanoseconds, added up.
    pub(super) fn submitted(&mut self, now: Time) -> u64 {
        let mut held_ns = 0;
        for token in self.held_reads.drain(..) {
            let operation = &mut self.operations[token as usize];
            operation.submitted = now;
            held_ns += now.since(operation.since).as_ns();
        }
        held_ns
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let idle = |token: usize| self.idle_tokens.contains(&(token as u64));
        let under_way = self.operations.iter().enumerate().filter(|(token, _)| !idle(*token));
        let slots = under_way.map(|(_, operation)| (operation.direction, operation.slot));
        f.debug_struct("Requests")
            .field("slots", &slots.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
