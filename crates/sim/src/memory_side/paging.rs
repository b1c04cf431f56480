//! [`Paging`]: the operating system keeps a part of the data in DRAM, by page faults (OS-Swap,
//! UnifiedMMap, TraditionalStack).

use std::collections::VecDeque;

use ebbtide_core::{Begin, FrameId, MissTable, PageId, Span, Time};
use ebbtide_flash::{Flash, Kind};
use rustc_hash::FxHashMap;

use super::device::{Device, Transfer};
use super::dram::Controllers;
use super::residency::Residency;
use super::{Answer, Counters, Event, MemorySide, Noted, Observe, Request, Waiter, WarmUp};
use crate::config::{Config, ConfigError, require};

/// DRAM whose contents the operating system manages.
///
/// A fault costs its core `os.fault_us + os.io_us`; then the read is on its way, and when flash has
/// answered, the page is there `os.install_ns` later. Pages that go are
/// unmapped in batches, each a broadcast that the faulting core waits for.
pub struct Paging {
    controllers: Controllers,
    residency: Residency,
    misses: MissTable<Waiter>,
    frames: FxHashMap<PageId, (FrameId, bool)>,
    device: Device,
    fault: Span,
    io: Span,
    install: Span,
    /// Pages that flash has answered with, in the order in which they will be mapped.
    installs: VecDeque<(Time, PageId)>,
    shootdown: Span,
    batch: usize,
    unmapped: usize,
    in_flight_max: usize,
    stalled: Vec<Waiter>,
    unmaps: Vec<PageId>,
    transfers: Vec<Transfer>,
    counters: Counters,
}

impl Paging {
    /// Paging with `config.dram_cache.size` of DRAM.
    ///
    /// # Errors
    /// [`ConfigError`] for what cannot be built as described.
    pub fn new(config: &Config) -> Result<Paging, ConfigError> {
        let os = &config.os;
        require(config.dram_cache.mshr > 0, "dram_cache.mshr", 0, "at least 1")?;
        let shootdown_ps = os.shootdown_us * 1_000_000 * config.cores.count as u64;
        Ok(Paging {
            controllers: Controllers::new(config),
            residency: Residency::new(config)?,
            misses: MissTable::new(config.dram_cache.mshr, usize::MAX),
            frames: FxHashMap::default(),
            device: Device::new(config)?,
            fault: Span::from_us(os.fault_us),
            io: Span::from_us(os.io_us),
            install: Span::from_ns(os.install_ns),
            installs: VecDeque::new(),
            shootdown: Span::from_ps(shootdown_ps / os.shootdown_cores as u64),
            batch: os.shootdown_batch,
            unmapped: 0,
            in_flight_max: config.dram_cache.mshr,
            stalled: Vec::new(),
            unmaps: Vec::new(),
            transfers: Vec::new(),
            counters: Counters::default(),
        })
    }
}

impl Paging {
    /// `page` is in DRAM, mapped.
    fn map(&mut self, page: PageId, at: Time, events: &mut Vec<Event>) {
        let (frame, write) = self.frames.remove(&page).expect("it was asked for");
        self.residency.install(frame, page, write);
        self.misses.complete(page, |waiter| events.push(Event::Arrived(waiter, at)));
        events.extend(self.stalled.drain(..).map(|waiter| Event::Unstalled(waiter, at)));
    }
}

impl MemorySide for Paging {
    fn access(&mut self, now: Time, request: Request) -> Answer {
        let Request { page, write, waiter, .. } = request;
        if let Some(frame) = self.residency.find(page) {
            self.counters.cache.hits += 1;
            self.residency.hit(frame, write);
            let controller = self.controllers.of(page);
            return Answer::Hit(self.controllers.plain(now, controller));
        }
        if self.misses.contains(page) {
            self.misses.begin(page, waiter);
            self.counters.cache.hits_under_miss += 1;
            return Answer::Miss(now + self.fault);
        }
        let room = self.misses.len() < self.in_flight_max;
        let Some((frame, victim)) = room.then(|| self.residency.reserve(page)).flatten() else {
            // Every frame waits for a page, or too many are on their way: until one is there.
            self.counters.cache.stalls += 1;
            self.stalled.push(waiter);
            return Answer::Stalled;
        };
        let begun = self.misses.begin(page, waiter);
        debug_assert_eq!(begun, Begin::Started);
        self.frames.insert(page, (frame, write));
        self.counters.cache.misses += 1;
        self.counters.cache.in_flight_peak =
            self.counters.cache.in_flight_peak.max(self.misses.len() as u64);
        self.counters.cache.evicted(victim);
        let mut software = self.fault + self.io;
        if let Some(victim) = victim {
            self.unmaps.push(victim.page);
            self.unmapped += 1;
            if self.unmapped == self.batch {
                self.unmapped = 0;
                software = software + self.shootdown;
            }
            if victim.dirty {
                self.device.write(now + software, victim.page);
            }
        }
        self.device.read(now + software, page);
        Answer::Miss(now + software)
    }

    fn flat(&mut self, now: Time, page: PageId) -> Time {
        let controller = self.controllers.of(page);
        self.controllers.plain(now, controller)
    }

    fn dirtied(&mut self, page: PageId) {
        if let Some(frame) = self.residency.find(page) {
            self.residency.mark_dirty(frame);
        }
    }

    fn next_event(&self) -> Option<Time> {
        if !self.unmaps.is_empty() {
            return Some(Time::ZERO);
        }
        let install = self.installs.front().map(|(at, _)| *at);
        install.into_iter().chain(self.device.next_event()).min()
    }

    fn advance(&mut self, now: Time, events: &mut Vec<Event>) {
        events.extend(self.unmaps.drain(..).map(Event::Unmapped));
        loop {
            let install = self.installs.front().map(|(at, _)| *at);
            let device = self.device.next_event();
            let Some(at) = install.into_iter().chain(device).min().filter(|at| *at <= now) else {
                return;
            };
            if let Some((at, page)) = self.installs.pop_front_if(|(due, _)| *due <= at) {
                self.map(page, at, events);
                continue;
            }
            self.device.step(at, &mut self.transfers);
            let reads = self.transfers.drain(..).filter(|transfer| transfer.kind == Kind::Read);
            self.installs.extend(reads.map(|read| (read.at + self.install, read.page)));
        }
    }
}

impl WarmUp for Paging {
    fn warm(&mut self, request: Request) {
        self.residency.warm(request.page, request.write, &mut self.counters.cache);
    }

    fn residency(&mut self) -> Option<&mut Residency> {
        Some(&mut self.residency)
    }
}

impl Observe for Paging {
    fn take_counters(&mut self) -> Counters {
        let mut counters = std::mem::take(&mut self.counters);
        counters.traffic = self.device.take_traffic();
        counters.traffic.dram_lines = self.controllers.take_lines();
        counters
    }

    fn keep_notes(&mut self, keep: bool) -> Vec<Noted> {
        self.device.keep_notes(keep)
    }

    fn flash(&self) -> Option<&Flash> {
        Some(self.device.flash())
    }
}
