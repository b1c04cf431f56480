//! [`DramCache`]: AstriFlash's hardware-managed DRAM cache of flash pages (HPCA'23 §IV-B).

use std::collections::VecDeque;

use ebbtide_core::replacement::{Geometry, Replacement};
use ebbtide_core::{Begin, FrameId, LINE_BYTES, Lines, MissTable, PageId, Span, Time, Trigger};
use ebbtide_flash::{Flash, Kind};
use rustc_hash::FxHashMap;

use super::device::{Device, Transfer};
use super::dram::Controllers;
use super::partial_pages::PartialPages;
use super::residency::{Residency, Victim};
use super::{
    Answer, Capabilities, Counters, Event, MemorySide, Noted, Observe, Request, Stage, Waiter,
    WarmUp,
};
use crate::config::{Config, ConfigError, Fill, require};

/// The frontside controller of each memory controller probes the tags and answers hit or miss; its
/// backside controller takes misses from a bounded queue, looks them up in the miss status table,
/// gives up a page and asks flash. A frontside whose backside's queue is full stalls.
///
/// A page has an entry of the miss status table while it is on its way; the table is associative,
/// so one that needs an entry of a full set waits for a flash completion, and all misses of its
/// controller behind it. The victim is chosen while the page is in flight, and a dirty one moves
/// through the evict buffer to flash behind the read.
///
/// With [`Fill::Footprint`] only those lines of a page are fetched that are expected to be used. An
/// access to another one is a miss again, for that line alone; the page keeps its frame meanwhile
/// unless another takes it. Flash reads and writes whole pages all the same.
pub struct DramCache {
    controllers: Controllers,
    residency: Residency,
    /// What each frame holds of its page, where that is not all of it.
    partial: Option<PartialPages>,
    backsides: Vec<Backside>,
    misses: MissTable<Waiter>,
    arriving: FxHashMap<PageId, Arriving>,
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
    request: Request,
    at: Time,
}

/// What is on its way from flash.
#[derive(Clone, Copy)]
struct Arriving {
    frame: FrameId,
    lines: Lines,
    /// The page is in the frame, or was when these lines of it were found missing.
    completes: bool,
    /// It was stored to.
    write: bool,
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
        let partial =
            (dram_cache.fill == Fill::Footprint).then(|| PartialPages::new(residency.frames()));
        Ok(DramCache {
            partial,
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
        let Request { page, line, write, waiter, .. } = miss.request;
        let searched = start + self.backside_step;
        if self.find(page, line).is_some() {
            // It came while the miss was queued.
            self.told.push(Event::Arrived(waiter, searched));
            self.backsides[number].free = searched;
            return true;
        }
        if self.misses.contains(page) {
            let begun = self.misses.begin(page, waiter);
            assert_eq!(begun, Begin::Merged, "an entry has room for any number");
            self.arriving.get_mut(&page).expect("it is on its way").write |= write;
            self.counters.cache.hits_under_miss += 1;
            self.backsides[number].free = searched;
            return true;
        }
        let set = self.mshr_set(page);
        if self.mshr_used[set] == self.mshr_ways {
            return false;
        }
        let Some((arriving, victim)) = self.make_room(number, miss.request) else { return false };
        let begun = self.misses.begin(page, waiter);
        assert_eq!(begun, Begin::Started, "a set with room means a table with room");
        self.mshr_used[set] += 1;
        self.arriving.insert(page, arriving);
        self.counters.cache.in_flight_peak =
            self.counters.cache.in_flight_peak.max(self.misses.len() as u64);
        let asked = searched + self.backside_step;
        self.device.note(page, Stage::Taken, start);
        self.device.note(page, Stage::Asked, asked);
        self.device.read_lines(asked, page, arriving.lines.count());
        self.backsides[number].free = asked;
        if let Some((victim, lines)) = victim.filter(|(victim, _)| victim.dirty) {
            self.backsides[number].evicting += 1;
            self.outgoing.push_back(number);
            let copied = asked + self.controllers.lines(lines.count());
            self.device.write_lines(copied, victim.page, lines.count());
        }
        true
    }

    /// Where the missing line of `request` will go, with what comes along, and who must leave for it,
    /// of whose page these lines were there. `None` if there is no room now.
    fn make_room(
        &mut self,
        number: usize,
        request: Request,
    ) -> Option<(Arriving, Option<(Victim, Lines)>)> {
        let Request { page, line, site, write, .. } = request;
        let resident = if self.partial.is_some() { self.residency.find(page) } else { None };
        if let Some(frame) = resident {
            let lines = Lines::one(line);
            self.counters.footprints.underpredictions += 1;
            self.counters.footprints.refilled_bytes += LINE_BYTES as u64;
            return Some((Arriving { frame, lines, completes: true, write }, None));
        }
        let evict_full = self.backsides[number].evicting == self.evict_max;
        if evict_full && self.residency.is_full(page) {
            return None;
        }
        let (frame, victim) = self.residency.reserve(page)?;
        self.counters.cache.misses += 1;
        self.counters.cache.evicted(victim);
        let Some(partial) = &mut self.partial else {
            let arriving = Arriving { frame, lines: Lines::ALL, completes: false, write };
            return Some((arriving, victim.map(|victim| (victim, Lines::ALL))));
        };
        let victim = victim.map(|victim| (victim, partial.leave(frame)));
        let lines = partial.bring(frame, Trigger { site, line });
        self.counters.footprints.refilled_bytes += lines.count() * LINE_BYTES as u64;
        Some((Arriving { frame, lines, completes: false, write }, victim))
    }

    /// The frame that holds `line` of `page`.
    fn find(&mut self, page: PageId, line: u8) -> Option<FrameId> {
        let frame = self.residency.find(page)?;
        let there = self.partial.as_mut().is_none_or(|partial| partial.take_line(frame, line));
        there.then_some(frame)
    }

    fn install(&mut self, page: PageId, at: Time) {
        let Arriving { frame, lines, completes, write } =
            self.arriving.remove(&page).expect("it is on its way");
        if !completes {
            self.residency.install(frame, page, write);
        } else if self.residency.find(page) == Some(frame) {
            self.partial.iter_mut().for_each(|partial| partial.complete(frame, lines));
            self.residency.hit(frame, write);
        }
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
        let Request { page, line, write, waiter, .. } = request;
        let number = self.controllers.of(page);
        if !self.backsides[number].stalled.is_empty() {
            self.counters.cache.stalls += 1;
            self.backsides[number].stalled.push(waiter);
            return Answer::Stalled;
        }
        if let Some(frame) = self.find(page, line) {
            self.counters.cache.hits += 1;
            self.residency.hit(frame, write);
            return Answer::Hit(self.controllers.hit(now, number));
        }
        let reply = self.controllers.probe(now, number);
        if self.backsides[number].queue.len() == self.queue_max {
            self.counters.cache.stalls += 1;
            self.backsides[number].stalled.push(waiter);
            return Answer::Stalled;
        }
        self.backsides[number].queue.push_back(Miss { request, at: reply });
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
                for Transfer { page, kind, lines, at } in transfers.drain(..) {
                    match kind {
                        Kind::Read => {
                            let due = at + self.controllers.lines(lines);
                            // A few lines are written sooner than a page that came just before.
                            let place = self.installs.partition_point(|(other, _)| *other <= due);
                            self.installs.insert(place, (due, page));
                        }
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

    fn capabilities(&self) -> Capabilities {
        Capabilities { fetches_lines: true, ..Capabilities::default() }
    }
}

impl WarmUp for DramCache {
    fn warm(&mut self, request: Request) {
        let Request { page, line, site, write, .. } = request;
        if self.partial.is_none() {
            return self.residency.warm(page, write, &mut self.counters.cache);
        }
        if let Some(frame) = self.find(page, line) {
            self.counters.cache.hits += 1;
            return self.residency.hit(frame, write);
        }
        let Some(partial) = &mut self.partial else { return };
        if let Some(frame) = self.residency.find(page) {
            self.counters.footprints.underpredictions += 1;
            partial.complete(frame, Lines::one(line));
            return self.residency.hit(frame, write);
        }
        let (frame, victim) = self.residency.bring(page, write);
        if victim.is_some() {
            partial.leave(frame);
        }
        partial.bring(frame, Trigger { site, line });
        self.counters.cache.misses += 1;
        self.counters.cache.evicted(victim);
    }

    fn residency(&mut self) -> Option<&mut Residency> {
        self.partial.is_none().then_some(&mut self.residency)
    }
}

impl Observe for DramCache {
    fn expect(&self, page: PageId) {
        self.residency.expect(page);
    }

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
