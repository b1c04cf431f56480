//! [`MosCache`]: HAMS's memory-over-storage (ISCA'21), an NVDIMM that caches flash in hardware.
//!
//! [`Manager`] and its queue are state machines without time. `nvdimm` and `nvme` model the time of
//! their decisions.

mod manager;
mod nvdimm;
mod nvme;
mod queue;

use std::collections::VecDeque;

use ebbtide_core::{Archive, PAGE_BYTES, PageId, Span, Time};
use ebbtide_flash::Flash;

pub use manager::{Found, Manager, Sizes};
pub use queue::{Command, Copy, Kind, MosPage};

use super::{
    Answer, Counters, Event, MemorySide, Noted, Observe, Request, Stage, Waiter, Warm, earlier,
};
use crate::config::{Config, ConfigError, Mode, require};
use nvdimm::Nvdimm;
use nvme::{Burst, Nvme, Over};

/// HAMS's memory side: the NVDIMM is an inclusive, direct-mapped cache of MoS pages in front of
/// flash. Hardware turns a miss into NVMe commands, and the MMU retries the access when its page is
/// present.
///
/// Three keys of `[dram_cache]` are sizes: `mshr` of the submission queue, `evict_buffer` of the
/// PRP pool in MoS pages, and `backside_queue` of the wait queue.
pub struct MosCache {
    manager: Manager<Waiter>,
    nvdimm: Nvdimm<Burst>,
    nvme: Nvme,
    pages_per_frame: u64,
    /// Whether an access continues when its 4 KiB have arrived, before the rest of their page.
    wanted_first: bool,
    /// Time to build a command.
    command: Span,
    stalled: Vec<Waiter>,
    /// Lines written back for which the wait queue has no room. The chip's buffers hold them.
    owed: VecDeque<Request>,
    /// The latest time of a command.
    now: Time,
    finished: Vec<(u64, Time)>,
    stalls: u64,
    in_flight_peak: u64,
}

impl MosCache {
    /// The cache that `config` describes.
    ///
    /// # Errors
    /// [`ConfigError`] when it cannot be built as described.
    pub fn new(config: &Config) -> Result<MosCache, ConfigError> {
        let dram_cache = &config.dram_cache;
        let mos = config.mos()?;
        let whole = dram_cache.size.0.is_multiple_of(mos.page.0) && dram_cache.size.0 > 0;
        let expected = format!("a multiple of mos.page, {}", mos.page);
        require(whole, "dram_cache.size", dram_cache.size, expected)?;
        require(
            dram_cache.ways == 1,
            "dram_cache.ways",
            dram_cache.ways,
            "1: HAMS is direct-mapped",
        )?;
        let two = "at least 2: a fill and an eviction";
        require(dram_cache.mshr >= 2, "dram_cache.mshr", dram_cache.mshr, two)?;
        let sizes = Sizes {
            frames: (dram_cache.size.0 / mos.page.0) as usize,
            queue: dram_cache.mshr,
            pool: dram_cache.evict_buffer,
            wait_queue: dram_cache.backside_queue,
        };
        Ok(MosCache {
            manager: Manager::new(mos.mode, sizes),
            nvdimm: Nvdimm::new(config, Span::from_ns(mos.lock_ns)),
            nvme: Nvme::new(config, mos)?,
            pages_per_frame: mos.page.0 / PAGE_BYTES as u64,
            // After a power cut an unfinished fill is repeated. It would overwrite stores to the
            // sectors that had arrived.
            wanted_first: mos.wanted_first && mos.mode == Mode::Extend,
            command: config.cores.cycles(dram_cache.backside_cycles),
            stalled: Vec::new(),
            owed: VecDeque::new(),
            now: Time::ZERO,
            finished: Vec::new(),
            stalls: 0,
            in_flight_peak: 0,
        })
    }

    fn mos_page(&self, page: PageId) -> MosPage {
        MosPage(page.0 / self.pages_per_frame)
    }

    /// The sector of `page` in its MoS page, if an access does not wait for the other sectors.
    fn sector(&self, page: PageId) -> u64 {
        if self.wanted_first { page.0 % self.pages_per_frame } else { 0 }
    }

    /// Takes a dirty line that left the chip. Returns whether there was room for it.
    fn takes_back(&mut self, request: Request) -> bool {
        let (page, sector) = (self.mos_page(request.page), self.sector(request.page));
        self.manager.write_back(page, sector, request.waiter) != Found::Full
    }

    /// Passes the manager's commands to the NVMe controller.
    fn pump(&mut self, now: Time) {
        self.now = self.now.max(now);
        let at = now + self.command;
        while let Some(copy) = self.manager.take_copy() {
            self.nvme.copy(now, copy, &mut self.nvdimm);
        }
        while let Some(command) = self.manager.issue() {
            self.nvme.submit(at, command);
        }
        self.in_flight_peak = self.in_flight_peak.max(self.manager.in_flight() as u64);
    }

    fn finish(&mut self, id: u64, at: Time, events: &mut Vec<Event>) {
        let arrived = |waiter| events.push(Event::Arrived(waiter, at));
        self.manager.complete(id, arrived);
        while let Some(request) = self.owed.pop_front() {
            if !self.takes_back(request) {
                self.owed.push_front(request);
                break;
            }
        }
        if self.manager.has_room() {
            events.extend(self.stalled.drain(..).map(|waiter| Event::Unstalled(waiter, at)));
        }
        self.pump(at);
    }
}

impl MemorySide for MosCache {
    fn access(&mut self, now: Time, request: Request) -> Answer {
        let (Request { page, waiter, .. }, write) = (request, request.dirties());
        let sector = self.sector(page);
        match self.manager.access_sector(self.mos_page(page), sector, write, waiter) {
            Found::Hit => Answer::Hit(self.nvdimm.line(now, page)),
            Found::Full => {
                self.stalls += 1;
                self.stalled.push(waiter);
                Answer::Stalled
            }
            Found::Merged | Found::Started | Found::Queued => {
                let reply = self.nvdimm.line(now, page);
                self.pump(reply);
                Answer::Miss(reply)
            }
        }
    }

    fn flat(&mut self, now: Time, page: PageId) -> Time {
        self.nvdimm.line(now, page)
    }

    fn write_back(&mut self, now: Time, request: Request) {
        let taken = self.nvdimm.line(now, request.page);
        if !self.owed.is_empty() || !self.takes_back(request) {
            self.owed.push_back(request);
        }
        self.pump(taken);
    }

    fn next_event(&self) -> Option<Time> {
        earlier(self.nvdimm.next_event(), self.nvme.next_event())
    }

    fn advance(&mut self, now: Time, events: &mut Vec<Event>) {
        while let Some(at) = self.next_event().filter(|at| *at <= now) {
            if self.nvdimm.next_event() == Some(at) {
                let Some((at, burst)) = self.nvdimm.step() else { break };
                match self.nvme.burst_over(burst, at) {
                    Some(Over::Copied { id }) => {
                        self.manager.copied(id);
                        self.pump(at);
                    }
                    Some(Over::Landed { id, sector }) if self.wanted_first => {
                        let arrived = |waiter| events.push(Event::Arrived(waiter, at));
                        self.manager.landed(id, sector, arrived);
                    }
                    _ => {}
                }
            } else {
                let mut finished = std::mem::take(&mut self.finished);
                self.nvme.step(at, &mut self.nvdimm, &mut finished);
                for (id, at) in finished.drain(..) {
                    self.finish(id, at, events);
                }
                self.finished = finished;
            }
        }
    }
}

impl Warm for MosCache {
    fn warm(&mut self, request: Request) {
        self.manager.warm(self.mos_page(request.page), request.dirties());
    }

    fn warm_back(&mut self, request: Request) {
        self.manager.warm_back(self.mos_page(request.page));
    }

    fn state(&mut self, archive: &mut Archive<'_>) {
        self.manager.warm_state(archive);
    }
}

impl Observe for MosCache {
    fn take_counters(&mut self) -> Counters {
        let mut cache = self.manager.take_counters();
        cache.stalls = std::mem::take(&mut self.stalls);
        cache.in_flight_peak = std::mem::take(&mut self.in_flight_peak);
        let mut traffic = std::mem::take(&mut self.nvme.traffic);
        traffic.dram_lines = self.nvdimm.take_lines();
        Counters { cache, traffic, ..Counters::default() }
    }

    /// Notes only [`Stage::Left`], for the first 4 KiB of each page that left.
    fn keep_notes(&mut self, keep: bool) -> Vec<Noted> {
        let note = |page: MosPage| Noted {
            page: PageId(page.0 * self.pages_per_frame),
            stage: Stage::Left,
            at: self.now,
        };
        self.manager.watch(keep).into_iter().map(note).collect()
    }

    fn flash(&self) -> Option<&Flash> {
        Some(self.nvme.flash())
    }
}
