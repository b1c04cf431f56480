//! [`replay`]: a trace that drives the memory side of a design, without cores and their caches.

use std::collections::VecDeque;
use std::time::Instant;

use ebbtide_core::prefetch::Metrics;
use ebbtide_core::{PAGE_BYTES, Time};
use ebbtide_trace::{Access, Op, Source, TraceError};
use serde::Serialize;
use thiserror::Error;

use crate::config::{Config, ConfigError};
use crate::designs;
use crate::machine::{Distribution, Latencies};
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
    /// Time on the host.
    pub wall_s: f64,
    /// Accesses per second on the host.
    pub accesses_per_wall_s: f64,
    /// What the memory side counted.
    #[serde(rename = "dram_cache")]
    pub memory: Counters,
    /// Pages fetched ahead of demand, for memories that do that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<PrefetchOutcome>,
    /// The flash device.
    pub flash: FlashOutcome,
    /// Latency of accesses from their time in the trace until the line arrives, with stalls.
    pub latency_ns: Distribution,
    /// Latency of accesses from their entry to memory until the line arrives.
    pub device_latency_ns: Distribution,
    /// Lifetime of the flash at this rate of writes.
    pub lifetime_years: Option<Lifetime>,
}

/// Pages fetched ahead of demand, with announced ones, and what came of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PrefetchOutcome {
    /// Prefetches issued.
    pub issued: u64,
    /// Prefetched pages that an access used.
    pub used: u64,
    /// Used pages that arrived after the access.
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

/// Replays `trace` on the memory side of `config`'s design, which starts empty. An access enters
/// memory at its time in the trace, or later if memory does not accept it. A stalled access delays
/// all others.
///
/// # Errors
/// [`ReplayError`]. A trace that cannot be read to its end gives no result.
pub fn replay(config: &Config, trace: &mut dyn Source) -> Result<Replay, ReplayError> {
    let clock = Instant::now();
    let memory = designs::compose(config)?.memory_side;
    let mut door = Door::new(memory, config.dataset.size.0 / PAGE_BYTES as u64);
    let (mut batch, mut first, mut accesses) = (Vec::new(), None, 0u64);
    while trace.fill(&mut batch)? {
        for group in batch.chunks(EXPECTED_TOGETHER) {
            let mut last = None;
            for page in group.iter().map(|access| access.address.page()) {
                if last.replace(page) != Some(page) {
                    door.memory.expect(page);
                }
            }
            for access in group {
                first.get_or_insert(access.at);
                accesses += u64::from(access.op != Op::Hint);
                let beyond = || ReplayError::Beyond {
                    address: access.address.0,
                    size: config.dataset.size.to_string(),
                };
                door.enter(access).ok_or_else(beyond)?;
            }
        }
    }
    let start = first.filter(|_| accesses > 0).ok_or(ReplayError::Empty)?;
    door.drain();
    let simulated = door.last.since(start);
    let wall_s = clock.elapsed().as_secs_f64();
    let flash = door.memory.flash();
    let lifetime = flash.and_then(|flash| flash.lifetime(simulated)).map(Lifetime::new);
    Ok(Replay {
        design: config.design.clone(),
        config: config.clone(),
        accesses,
        simulated_ns: simulated.as_ns(),
        wall_s,
        accesses_per_wall_s: accesses as f64 / wall_s,
        flash: flash.map(|flash| FlashOutcome::since_start(flash.counters())).unwrap_or_default(),
        memory: door.memory.take_counters(),
        prefetch: door.memory.prefetched().map(|metrics| PrefetchOutcome::new(metrics, accesses)),
        latency_ns: door.latencies.access(),
        device_latency_ns: door.latencies.device(),
        lifetime_years: lifetime,
    })
}

/// Accesses that memory is told to expect together, so that the host waits for its memory only
/// once.
const EXPECTED_TOGETHER: usize = 16;

/// The entry to memory, where accesses come one after another.
struct Door {
    memory: Box<dyn MemorySide>,
    pages: u64,
    now: Time,
    last: Time,
    /// For each access whose page is in flight, when it was due and when it entered.
    waiting: Vec<(Time, Time)>,
    free: Vec<u32>,
    events: Vec<Event>,
    unstalled: VecDeque<Time>,
    latencies: Latencies,
}

impl Door {
    fn new(memory: Box<dyn MemorySide>, pages: u64) -> Door {
        Door {
            memory,
            pages,
            now: Time::ZERO,
            last: Time::ZERO,
            waiting: Vec::new(),
            free: Vec::new(),
            events: Vec::new(),
            unstalled: VecDeque::new(),
            latencies: Latencies::default(),
        }
    }

    /// Enters `access` as soon as memory accepts it. `None` if it is beyond the data.
    fn enter(&mut self, access: &Access) -> Option<()> {
        let page = access.address.page();
        if page.0 >= self.pages {
            return None;
        }
        self.now = self.now.max(access.at);
        if access.op == Op::Hint {
            self.advance(self.now);
            self.memory.hint(self.now, page);
            return Some(());
        }
        loop {
            self.advance(self.now);
            if self.offer(access) {
                return Some(());
            }
            // Stalled until an event of memory.
            while self.unstalled.is_empty() {
                let due = self.memory.next_event().expect("a stalled memory has something to do");
                self.now = self.now.max(due);
                self.advance(self.now);
            }
            self.now = self.now.max(self.unstalled.pop_front().unwrap_or(self.now));
            self.unstalled.clear();
        }
    }

    fn offer(&mut self, access: &Access) -> bool {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.waiting.push((Time::ZERO, Time::ZERO));
            self.waiting.len() as u32 - 1
        });
        let waiter = Waiter { core: 0, thread: slot, slot: 0 };
        match self.memory.access(self.now, Request::new(access.address, access.is_write(), waiter))
        {
            Answer::Hit(ready) | Answer::Posted(ready) => {
                self.latencies.hit(ready.since(access.at), ready.since(self.now));
                self.last = self.last.max(ready);
                self.free.push(slot);
                true
            }
            Answer::Miss(_) => {
                self.waiting[slot as usize] = (access.at, self.now);
                true
            }
            Answer::Stalled => {
                self.free.push(slot);
                false
            }
        }
    }

    fn advance(&mut self, now: Time) {
        self.memory.advance(now, &mut self.events);
        for event in self.events.drain(..) {
            match event {
                Event::Arrived(waiter, at) => {
                    let (due, entered) = self.waiting[waiter.thread as usize];
                    self.latencies.hit(at.since(due), at.since(entered));
                    self.last = self.last.max(at);
                    self.free.push(waiter.thread);
                }
                Event::Unstalled(_, at) => self.unstalled.push_back(at),
                Event::Unmapped(_) | Event::Interrupted(_) => {}
            }
        }
    }

    /// Waits for everything in flight.
    fn drain(&mut self) {
        while self.free.len() < self.waiting.len() {
            let due = self.memory.next_event().expect("a waiting access has its page in flight");
            self.now = self.now.max(due);
            self.advance(self.now);
        }
    }
}
