//! [`DramCache`]: AstriFlash's hardware-managed DRAM cache of flash pages (HPCA'23 §IV-B).

use std::collections::VecDeque;

use ebbtide_core::replacement::{Geometry, Replacement};
use ebbtide_core::{Begin, FrameId, MissTable, PageId, Span, Time};
use ebbtide_flash::{Flash, Kind};
use rustc_hash::FxHashMap;

use super::dram::Controllers;
use super::residency::Residency;
use super::{Answer, Counters, Event, MemorySide, Noted, Request, Stage, Waiter};
use crate::config::{Config, ConfigError, require};
use crate::device::{Device, Transfer};

/// The frontside controller of each memory controller probes the tags and answers hit or miss; its
/// backside controller takes misses from a bounded queue, looks them up in the miss status table,
/// gives up a page and asks flash. A frontside whose backside's queue is full stalls.
///
/// A page has an entry of the miss status table while it is on its way; the table is associative,
/// so one that needs an entry of a full set waits for a flash completion, and all misses of its
/// controller behind it. The victim is chosen while the page is in flight, and a dirty one moves
/// through the evict buffer to flash behind the read.
pub struct DramCache {
    controllers: Controllers,
    residency: Residency,
    backsides: Vec<Backside>,
    misses: MissTable<Waiter>,
    /// Where each page on its way will go, and whether it was stored to.
    arriving: FxHashMap<PageId, (FrameId, bool)>,
    /// Pages on their way by set of the miss status table.
    mshr_used: Vec<u32>,
    mshr_ways: u32,
    backside_step: Span,
    queue_max: usize,
    evict_max: usize,
    device: Device,
    /// Whose evict buffer each page on its way out is in, in the order in which they go.
    outgoing: VecDeque<usize>,
    /// Pages that are being written into DRAM.
    installs: VecDeque<(Time, PageId)>,
    transfers: Vec<Transfer>,
    /// What was found out between calls of `advance`.
    told: Vec<Event>,
    counters: Counters,
}

#[derive(Default)]
struct Backside {
    free: Time,
    queue: VecDeque<Miss>,
    stalled: Vec<Waiter>,
    evicting: usize,
}

#[derive(Clone, Copy)]
struct Miss {
    page: PageId,
    write: bool,
    waiter: Waiter,
    at: Time,
}

impl DramCache {
    /// The DRAM cache that `config` describes.
    ///
    /// # Errors
    /// [`ConfigError`] for what cannot be built as described.
    pub fn new(config: &Config) -> Result<DramCache, ConfigError> {
        DramCache::over(config, Residency::new(config)?)
    }

    /// The same under a replacement policy of one's own, which is told of hits as touches.
    ///
    /// # Errors
    /// [`ConfigError`] for what cannot be built as described.
    pub fn with_policy(
        config: &Config,
        policy: impl FnOnce(Geometry) -> Box<dyn Replacement>,
    ) -> Result<DramCache, ConfigError> {
        DramCache::over(config, Residency::with_policy(config, policy)?)
    }

    fn over(config: &Config, residency: Residency) -> Result<DramCache, ConfigError> {
        let dram_cache = &config.dram_cache;
        let (entries, ways) = (dram_cache.mshr, dram_cache.mshr_ways);
        let whole = entries > 0 && entries.is_multiple_of(ways);
        require(whole, "dram_cache.mshr", entries, format!("a multiple of mshr_ways, {ways}"))?;
        let controllers = Controllers::new(config);
        Ok(DramCache {
            backsides: (0..controllers.count()).map(|_| Backside::default()).collect(),
            controllers,
            residency,
            misses: MissTable::new(entries, usize::MAX),
            arriving: FxHashMap::default(),
            mshr_used: vec![0; entries / ways],
            mshr_ways: ways as u32,
            backside_step: config.cores.cycles(dram_cache.backside_cycles),
            queue_max: dram_cache.backside_queue,
            evict_max: dram_cache.evict_buffer,
            device: Device::new(config)?,
            outgoing: VecDeque::new(),
            installs: VecDeque::new(),
            transfers: Vec::new(),
            told: Vec::new(),
            counters: Counters::default(),
        })
    }

    fn mshr_set(&self, page: PageId) -> usize {
        page.index() % self.mshr_used.len()
    }

    /// Lets backside controller `number` take misses for as long as it can.
    fn drain(&mut self, number: usize, now: Time) {
        while let Some(&miss) = self.backsides[number].queue.front() {
            let start = now.max(miss.at).max(self.backsides[number].free);
            if !self.take(number, start, miss) {
                break;
            }
            self.backsides[number].queue.pop_front();
        }
        let backside = &mut self.backsides[number];
        if backside.queue.len() < self.queue_max {
            let told = &mut self.told;
            backside.stalled.drain(..).for_each(|w| told.push(Event::Unstalled(w, now)));
        }
    }

    /// Handles `miss`, unless what it needs is not free.
    fn take(&mut self, number: usize, start: Time, miss: Miss) -> bool {
        let Miss { page, write, waiter, .. } = miss;
        let searched = start + self.backside_step;
        if self.residency.find(page).is_some() {
            // It came while the miss was queued.
            self.told.push(Event::Arrived(waiter, searched));
            self.backsides[number].free = searched;
            return true;
        }
        if self.misses.contains(page) {
            let begun = self.misses.begin(page, waiter);
            assert_eq!(begun, Begin::Merged, "an entry has room for any number");
            self.arriving.get_mut(&page).expect("it is on its way").1 |= write;
            self.counters.hits_under_miss += 1;
            self.backsides[number].free = searched;
            return true;
        }
        let set = self.mshr_set(page);
        let evict_full = self.backsides[number].evicting == self.evict_max;
        if self.mshr_used[set] == self.mshr_ways || (evict_full && self.residency.is_full(page)) {
            return false;
        }
        let Some((frame, victim)) = self.residency.reserve(page) else { return false };
        let begun = self.misses.begin(page, waiter);
        assert_eq!(begun, Begin::Started, "a set with room means a table with room");
        self.mshr_used[set] += 1;
        self.arriving.insert(page, (frame, write));
        self.counters.misses += 1;
        self.counters.in_flight_peak = self.counters.in_flight_peak.max(self.misses.len() as u64);
        self.counters.evicted(victim);
        let asked = searched + self.backside_step;
        self.device.note(page, Stage::Taken, start);
        self.device.note(page, Stage::Asked, asked);
        self.device.read(asked, page);
        self.backsides[number].free = asked;
        if let Some(victim) = victim.filter(|victim| victim.dirty) {
            self.backsides[number].evicting += 1;
            self.outgoing.push_back(number);
            self.device.write(asked + self.controllers.fill, victim.page);
        }
        true
    }

    fn install(&mut self, page: PageId, at: Time) {
        let (frame, write) = self.arriving.remove(&page).expect("it is on its way");
        self.residency.install(frame, page, write);
        let told = &mut self.told;
        self.misses.complete(page, |waiter| told.push(Event::Arrived(waiter, at)));
        let set = self.mshr_set(page);
        self.mshr_used[set] -= 1;
        // Any backside may have waited for this entry of the table.
        for number in 0..self.backsides.len() {
            if !self.backsides[number].queue.is_empty() {
                self.drain(number, at);
            }
        }
    }
}

impl MemorySide for DramCache {
    fn access(&mut self, now: Time, request: Request) -> Answer {
        let Request { page, write, waiter, .. } = request;
        let number = self.controllers.of(page);
        if !self.backsides[number].stalled.is_empty() {
            self.counters.stalls += 1;
            self.backsides[number].stalled.push(waiter);
            return Answer::Stalled;
        }
        if let Some(frame) = self.residency.find(page) {
            self.counters.hits += 1;
            self.residency.hit(frame, write);
            return Answer::Hit(self.controllers.hit(now, number));
        }
        let reply = self.controllers.probe(now, number);
        if self.backsides[number].queue.len() == self.queue_max {
            self.counters.stalls += 1;
            self.backsides[number].stalled.push(waiter);
            return Answer::Stalled;
        }
        self.backsides[number].queue.push_back(Miss { page, write, waiter, at: reply });
        self.drain(number, reply);
        Answer::Miss(reply)
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
        if !self.told.is_empty() {
            return Some(Time::ZERO);
        }
        let install = self.installs.front().map(|(at, _)| *at);
        install.into_iter().chain(self.device.next_event()).min()
    }

    fn advance(&mut self, now: Time, events: &mut Vec<Event>) {
        loop {
            events.append(&mut self.told);
            let install = self.installs.front().map(|(at, _)| *at);
            let mut device = self.device.next_event();
            let Some(at) = install.into_iter().chain(device).min().filter(|at| *at <= now) else {
                break;
            };
            while let Some((at, page)) = self.installs.pop_front_if(|(due, _)| *due <= at) {
                self.install(page, at);
                device = self.device.next_event();
            }
            if device.is_some_and(|due| due <= at) {
                let mut transfers = std::mem::take(&mut self.transfers);
                self.device.step(at, &mut transfers);
                for Transfer { page, kind, at } in transfers.drain(..) {
                    match kind {
                        Kind::Read => self.installs.push_back((at + self.controllers.fill, page)),
                        Kind::Write => {
                            let number = self.outgoing.pop_front().expect("a page goes out once");
                            self.backsides[number].evicting -= 1;
                            self.drain(number, at);
                        }
                    }
                }
                self.transfers = transfers;
            }
        }
    }

    fn warm(&mut self, page: PageId, write: bool) {
        self.residency.warm(page, write, &mut self.counters);
    }

    fn residency(&self) -> Option<Residency> {
        Some(self.residency.clone())
    }

    fn begin_with(&mut self, residency: &Residency) -> bool {
        self.residency.begin_with(residency)
    }

    fn take_counters(&mut self) -> Counters {
        let mut counters = std::mem::take(&mut self.counters);
        counters.dram_lines = self.controllers.take_lines();
        self.device.count(&mut counters);
        counters
    }

    fn keep_notes(&mut self, keep: bool) {
        self.device.keep_notes(keep);
    }

    fn take_notes(&mut self) -> Vec<Noted> {
        self.device.take_notes()
    }

    fn flash(&self) -> Option<&Flash> {
        Some(self.device.flash())
    }
}
