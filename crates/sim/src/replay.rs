//! [`replay`]: a trace driven straight into a design's memory side, without cores or their caches.

use std::collections::VecDeque;
use std::time::Instant;

use ebbtide_core::prefetch::Metrics;
use ebbtide_core::{PAGE_BYTES, Time};
use ebbtide_trace::{Access, Op, Source, TraceError};
use serde::Serialize;
use thiserror::Error;

use crate::config::{Config, ConfigError};
use crate::designs;
use crate::experiment::{FlashOutcome, Lifetime};
use crate::machine::{Distribution, Latencies};
use crate::memory_side::{Answer, Counters, Event, MemorySide, Request, Waiter};

/// Why a trace gave no result.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The machine cannot be built.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The trace cannot be read to its end.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// An access lies beyond the data.
    #[error("address {address:#x} lies beyond dataset.size = {size}; set it larger")]
    Beyond {
        /// What was accessed.
        address: u64,
        /// What there is.
        size: String,
    },
    /// There is no access.
    #[error("the trace holds no access")]
    Empty,
}

/// What a replay gave.
#[derive(Debug, Clone, Serialize)]
pub struct Replay {
    /// The design.
    pub design: String,
    /// Every parameter.
    pub config: Config,
    /// Accesses replayed.
    pub accesses: u64,
    /// From the first access's time to the last completion.
    pub simulated_ns: u64,
    /// Host time.
    pub wall_s: f64,
    /// Accesses per second of host time.
    pub accesses_per_wall_s: f64,
    /// What the memory side counted.
    #[serde(rename = "dram_cache")]
    pub memory: Counters,
    /// What was fetched ahead of demand, by memories that do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<PrefetchOutcome>,
    /// The flash device.
    pub flash: FlashOutcome,
    /// From the time in the trace until the line is there, time at the door included.
    pub latency_ns: Distribution,
    /// From entry to memory until the line is there.
    pub device_latency_ns: Distribution,
    /// Years until the flash is worn out at this rate.
    pub lifetime_years: Option<Lifetime>,
}

/// What was fetched ahead of demand, hints included, and what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PrefetchOutcome {
    /// Pages asked for.
    pub issued: u64,
    /// Those of them that an access wanted.
    pub used: u64,
    /// Those of them that came too late for that.
    pub late: u64,
    /// Misses of pages that a prefetch had displaced.
    pub polluted: u64,
    /// `used` of `issued`.
    pub accuracy: f64,
    /// `late` of `used`.
    pub lateness: f64,
    /// `polluted` of all misses.
    pub pollution: f64,
    /// Hits on prefetched pages of all accesses (ATC'23 section 5.2).
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

/// Replays `trace` on the memory side of `config`'s design, which starts empty. An access enters at
/// its time in the trace, or when memory takes it; behind one that is not taken all others wait.
///
/// # Errors
/// [`ReplayError`]; nothing is reported for a trace that was not read to its end.
pub fn replay(config: &Config, trace: &mut dyn Source) -> Result<Replay, ReplayError> {
    let clock = Instant::now();
    let memory = designs::compose(config)?.memory_side;
    let mut door = Door::new(memory, config.dataset.size.0 / PAGE_BYTES as u64);
    let (mut batch, mut first, mut accesses) = (Vec::new(), None, 0u64);
    while trace.fill(&mut batch)? {
        for group in batch.chunks(EXPECTED_TOGETHER) {
            group.iter().for_each(|access| door.memory.expect(access.address.page()));
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

/// Accesses that memory is told of together before they come: enough to wait for host memory once.
const EXPECTED_TOGETHER: usize = 16;

/// Where accesses enter memory one after the other.
struct Door {
    memory: Box<dyn MemorySide>,
    pages: u64,
    now: Time,
    last: Time,
    /// Accesses whose pages are on their way: when each was due, and when it entered.
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

    /// Lets `access` in, as soon as memory takes it. `None` if it lies beyond the data.
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
            // Stalled: the door opens at an event of memory's own.
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
        let waiter = Waiter { core: 0, thread: slot };
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
                Event::Unmapped(_) => {}
            }
        }
    }

    /// Waits for everything that is on its way.
    fn drain(&mut self) {
        while self.free.len() < self.waiting.len() {
            let due = self.memory.next_event().expect("what is waited for is on its way");
            self.now = self.now.max(due);
            self.advance(self.now);
        }
    }
}
