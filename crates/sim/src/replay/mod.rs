//! Replays: a trace drives the memory side of a design, without the caches of cores.
//!
//! In [`replay`] accesses enter memory at their times. In [`replay_by_thread`] each thread of the
//! trace runs on a core.

mod threads;

pub use threads::replay_by_thread;

use std::collections::VecDeque;
use std::time::Instant;

use ebbtide_core::prefetch::Metrics;
use ebbtide_core::{PAGE_BYTES, PageId, Span, Time};
use ebbtide_trace::{Access, Op, Source, TraceError};
use serde::Serialize;
use thiserror::Error;

use crate::config::{Config, ConfigError};
use crate::designs;
use crate::machine::{DAYS_MAX, Distribution, LATEST, Latencies};
use crate::memory_side::{Answer, Counters, Event, MemorySide, Request, Waiter};
use crate::outcome::{FlashOutcome, Lifetime};

/// Why a replay failed.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The machine cannot be built.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The trace cannot be read to its end.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// An access is beyond the data.
    #[error("address {address:#x} lies beyond dataset.size = {size}; set it larger")]
    Beyond {
        /// The address.
        address: u64,
        /// The size of the data.
        size: String,
    },
    /// The trace takes longer than the clock can count.
    #[error(
        "the replay takes more than {DAYS_MAX} days of simulated time: expected a shorter trace"
    )]
    TooLong,
    /// The trace has no access.
    #[error("the trace holds no access")]
    Empty,
}

/// The results of a replay.
#[derive(Debug, Clone, Serialize)]
pub struct Replay {
    /// The design.
    pub design: String,
    /// All parameters.
    pub config: Config,
    /// Accesses replayed.
    pub accesses: u64,
    /// Time from the first access to the last completion.
    pub simulated_ns: u64,
    /// Delay of the last access from its time in the trace to its entry to memory. It grows with
    /// the trace if accesses come faster than they are served. 0 if threads ran on cores.
    pub behind_ns: u64,
    /// The cores that ran the threads of the trace. `None` if accesses entered memory at their
    /// times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<usize>,
    /// Time on the host.
    pub wall_s: f64,
    /// Accesses per second on the host.
    pub accesses_per_wall_s: f64,
    /// Counters of the memory side.
    #[serde(rename = "dram_cache")]
    pub memory: Counters,
    /// Metrics of prefetched pages, for memories that prefetch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<PrefetchOutcome>,
    /// The flash device.
    pub flash: FlashOutcome,
    /// Latency of accesses from their time in the trace until the line arrives, with stalls. On
    /// cores, from the time at which the core wants the line.
    pub latency_ns: Distribution,
    /// Latency of accesses from their entry to memory until the line arrives.
    pub device_latency_ns: Distribution,
    /// Lifetime of the flash at this rate of writes.
    pub lifetime_years: Option<Lifetime>,
}

/// Metrics of prefetched and announced pages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PrefetchOutcome {
    /// Prefetches issued.
    pub issued: u64,
    /// Prefetched pages that an access used.
    pub used: u64,
    /// Used pages that arrived only after the access.
    pub late: u64,
    /// Misses on pages that a prefetch had evicted.
    pub polluted: u64,
    /// `used` over `issued`.
    pub accuracy: f64,
    /// `late` over `used`.
    pub lateness: f64,
    /// `polluted` over all misses.
    pub pollution: f64,
    /// Hits on prefetched pages over all accesses (CXL-flash, ATC'23 §5.2).
    pub coverage: f64,
}

impl PrefetchOutcome {
    fn new(metrics: &Metrics, accesses: u64) -> PrefetchOutcome {
        PrefetchOutcome {
            issued: metrics.issued,
            used: metrics.used,
            late: metrics.late,
            polluted: metrics.polluted,
            accuracy: metrics.accuracy(),
            lateness: metrics.lateness(),
            pollution: metrics.pollution(),
            coverage: metrics.coverage(accesses),
        }
    }
}

/// Replays `trace` on the memory side of `config`'s design. The memory starts empty. An access
/// enters memory at its time in the trace, or later if memory does not accept it. A stalled access
/// delays all others.
///
/// # Errors
/// [`ReplayError`]. A trace that cannot be read to its end gives no result.
pub fn replay(config: &Config, trace: &mut dyn Source) -> Result<Replay, ReplayError> {
    let clock = Instant::now();
    let memory = designs::compose(config)?.memory_side;
    let pages = config.dataset.size.0 / PAGE_BYTES as u64;
    let mut door = Door::new(memory);
    let (mut batch, mut first, mut accesses) = (Vec::new(), None, 0u64);
    let mut batch_end = None;
    while trace.fill(&mut batch)? {
        batch_end = batch.last().map(|access| access.at);
        first = first.or_else(|| batch.first().map(|access| access.at));
        for access in &batch {
            check_is_within(access, pages, config)?;
            accesses += u64::from(access.op != Op::Hint);
        }
        for group in batch.chunks(EXPECTED_TOGETHER) {
            door.enter_all(group);
            check_is_in_time(door.now)?;
        }
    }
    let behind = batch_end.map_or(Span::ZERO, |due| door.now.since(due));
    let start = first.filter(|_| accesses > 0).ok_or(ReplayError::Empty)?;
    door.drain();
    Ok(Replay { behind_ns: behind.as_ns(), ..door.finish(config, accesses, start, clock) })
}

/// Checks that `access` lies within the first `pages` pages, the data of `config`, and in time.
fn check_is_within(access: &Access, pages: u64, config: &Config) -> Result<(), ReplayError> {
    check_is_in_time(access.at)?;
    if access.address.page().0 < pages {
        return Ok(());
    }
    let size = config.dataset.size.to_string();
    Err(ReplayError::Beyond { address: access.address.0, size })
}

/// Checks that `at` is before the latest time of a run.
fn check_is_in_time(at: Time) -> Result<(), ReplayError> {
    if at < LATEST { Ok(()) } else { Err(ReplayError::TooLong) }
}

/// Accesses that memory is told to expect together, so the host waits for its memory only once.
const EXPECTED_TOGETHER: usize = 16;

/// An access whose page is in flight.
#[derive(Clone, Copy)]
struct Waiting {
    due: Time,
    entered: Time,
    page: PageId,
}

/// The entry to memory for accesses in sequence.
struct Door {
    memory: Box<dyn MemorySide>,
    now: Time,
    last: Time,
    /// The accesses whose pages are in flight.
    waiting: Vec<Waiting>,
    /// Whether an arriving page brings the requested line. If not, the line is then read from DRAM.
    brings_lines: bool,
    free: Vec<u32>,
    events: Vec<Event>,
    unstalled: VecDeque<Time>,
    /// Buffer for the times at which lines of a group arrive.
    ready: Vec<Time>,
    latencies: Latencies,
}

impl Door {
    fn new(memory: Box<dyn MemorySide>) -> Door {
        Door {
            brings_lines: memory.capabilities().byte_addressable,
            memory,
            now: Time::ZERO,
            last: Time::ZERO,
            waiting: Vec::new(),
            free: Vec::new(),
            events: Vec::new(),
            unstalled: VecDeque::new(),
            ready: Vec::new(),
            latencies: Latencies::default(),
        }
    }

    /// Enters `group`, in one call of memory while accesses hit and nothing else is due.
    fn enter_all(&mut self, group: &[Access]) {
        self.memory.expect_all(group);
        let (mut rest, mut ready) = (group, std::mem::take(&mut self.ready));
        while !rest.is_empty() {
            ready.clear();
            let waiter = self.next_waiter(0);
            let answer = self.memory.enter_hits(self.now, rest, waiter, &mut ready);
            let (hits, others) = rest.split_at(ready.len());
            for (access, ready) in hits.iter().zip(&ready) {
                self.now = self.now.max(access.at);
                self.hit(access, *ready);
            }
            let Some((next, others)) = others.split_first() else { break };
            rest = others;
            self.now = self.now.max(next.at);
            if !answer.is_some_and(|answer| self.is_accepted(next, answer)) {
                self.enter(next, answer == Some(Answer::Stalled));
            }
        }
        self.ready = ready;
    }

    /// Enters `access`, which is due, as soon as memory accepts it. A `stalled` access first waits
    /// for room.
    fn enter(&mut self, access: &Access, mut stalled: bool) {
        if access.op == Op::Hint {
            self.advance(self.now);
            self.memory.hint(self.now, access.address.page());
            return;
        }
        loop {
            if stalled {
                self.wait_for_room();
            }
            self.advance(self.now);
            let request = Request::new(access.address, access.is_write(), self.next_waiter(0));
            let answer = self.memory.access(self.now, request);
            if self.is_accepted(access, answer) {
                return;
            }
            stalled = true;
        }
    }

    /// Waits until memory accepts a stalled access.
    fn wait_for_room(&mut self) {
        while self.unstalled.is_empty() {
            let due = self.memory.next_event().expect("a stalled memory has something to do");
            self.now = self.now.max(due);
            self.advance(self.now);
        }
        self.now = self.now.max(self.unstalled.pop_front().unwrap_or(self.now));
        self.unstalled.clear();
    }

    /// Notes the `answer` to `access`, which entered now. Returns whether memory accepted it.
    fn is_accepted(&mut self, access: &Access, answer: Answer) -> bool {
        match answer {
            Answer::Hit(ready) | Answer::Posted(ready) => self.hit(access, ready),
            Answer::Miss(_) | Answer::Brief(_) => {
                let slot = self.free.pop().expect("the access entered with a free slot");
                let page = access.address.page();
                self.waiting[slot as usize] = Waiting { due: access.at, entered: self.now, page };
            }
            Answer::Stalled => return false,
        }
        true
    }

    /// Records that the line of `access`, which entered now, arrives at `ready`.
    #[inline]
    fn hit(&mut self, access: &Access, ready: Time) {
        self.latencies.hit(ready.since(access.at), ready.since(self.now));
        self.last = self.last.max(ready);
    }

    /// The waiter of the next access of `core`. Its free slot is only taken by a miss.
    fn next_waiter(&mut self, core: u32) -> Waiter {
        if self.free.is_empty() {
            self.free.push(self.waiting.len() as u32);
            let free = Waiting { due: Time::ZERO, entered: Time::ZERO, page: PageId(0) };
            self.waiting.push(free);
        }
        Waiter { core, thread: self.free[self.free.len() - 1], slot: 0 }
    }

    fn advance(&mut self, now: Time) {
        self.advance_telling(now, |_| {});
    }

    /// Handles everything up to `now`. Calls `tell` with each event. The event of an arrival has
    /// the time of the line.
    fn advance_telling(&mut self, now: Time, mut tell: impl FnMut(Event)) {
        self.memory.advance(now, &mut self.events);
        for event in self.events.drain(..) {
            match event {
                Event::Arrived(waiter, at) => {
                    let Waiting { due, entered, page } = self.waiting[waiter.thread as usize];
                    let at = if self.brings_lines { at } else { self.memory.flat(at, page) };
                    self.latencies.hit(at.since(due), at.since(entered));
                    self.last = self.last.max(at);
                    self.free.push(waiter.thread);
                    tell(Event::Arrived(waiter, at));
                }
                Event::Unstalled(waiter, at) => {
                    self.unstalled.push_back(at);
                    tell(Event::Unstalled(waiter, at));
                }
                Event::Unmapped(_) | Event::Interrupted(_) => {}
            }
        }
    }

    /// Whether an access waits for its page.
    fn is_waiting(&self) -> bool {
        self.free.len() < self.waiting.len()
    }

    /// Waits for everything in flight.
    fn drain(&mut self) {
        while self.is_waiting() {
            let due = self.memory.next_event().expect("a waiting access has its page in flight");
            self.now = self.now.max(due);
            self.advance(self.now);
        }
    }

    /// The results of `accesses` accesses from `start` on. `clock` began with the replay.
    fn finish(mut self, config: &Config, accesses: u64, start: Time, clock: Instant) -> Replay {
        let simulated = self.last.since(start);
        let wall_s = clock.elapsed().as_secs_f64();
        let flash = self.memory.flash();
        let lifetime = flash.and_then(|flash| flash.lifetime(simulated)).map(Lifetime::new);
        Replay {
            design: config.design.clone(),
            config: config.clone(),
            accesses,
            simulated_ns: simulated.as_ns(),
            behind_ns: 0,
            cores: None,
            wall_s,
            accesses_per_wall_s: accesses as f64 / wall_s,
            flash: flash.map(FlashOutcome::since_start).unwrap_or_default(),
            memory: self.memory.take_counters(),
            prefetch: self
                .memory
                .prefetched()
                .map(|metrics| PrefetchOutcome::new(metrics, accesses)),
            latency_ns: self.latencies.access(),
            device_latency_ns: self.latencies.device(),
            lifetime_years: lifetime,
        }
    }
}
