//! [`DramCache`]: AstriFlash's hardware-managed DRAM cache of flash pages (HPCA'23 §IV-B).

use std::collections::VecDeque;
use std::mem::take;

use ebbtide_core::replacement::{Geometry, Replacement};
use ebbtide_core::{Archive, FrameId, Lines, PageId, Span, Time, Trigger};
use ebbtide_flash::Flash;

use super::device::Device;
use super::fetch::{Ended, Fetch};
use super::paged::Paged;
use super::partial_pages::PartialPages;
use super::residency::{Residency, Victim};
use super::{
    Answer, Capabilities, Counters, Event, MemorySide, NOBODY, Noted, Observe, Request, Stage,
    Waiter, Warm,
};
use crate::config::{Config, ConfigError, Fill, require};

/// A DRAM cache with a frontside and a backside controller at each memory controller.
///
/// The frontside probes the tags and answers hit or miss. The backside takes misses from a bounded
/// queue, looks them up in the miss status table, evicts a page and reads from flash. A frontside
/// stalls while the queue of its backside is full.
///
/// A page in flight has an entry in the miss status table, which is set-associative. If a miss
/// needs an entry of a full set, it waits for a flash completion. All misses behind it wait, too.
/// The victim is chosen while the page is in flight. A dirty victim moves through the evict buffer
/// to flash, behind the read.
///
/// With [`Fill::Footprint`] the cache fetches only the expected lines of a page. An access to
/// another line is a miss for that line alone. The page keeps its frame during that miss, unless
/// another page takes it. Flash still reads and writes whole pages.
pub struct DramCache {
    pages: Paged,
    /// The lines that each frame holds, if frames hold parts of pages.
    partial: Option<PartialPages>,
    backsides: Vec<Backside>,
    /// Pages in flight by set of the miss status table.
    mshr_used: Vec<u32>,
    mshr_ways: u32,
    backside_step: Span,
    queue_max: usize,
    evict_max: usize,
    fetch: Fetch,
    /// Pages on their way to flash, with the backside whose evict buffer holds each.
    outgoing: VecDeque<(PageId, usize)>,
    /// Events between calls of `advance`.
    told: Vec<Event>,
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

impl DramCache {
    /// The DRAM cache that `config` describes.
    ///
    /// # Errors
    /// [`ConfigError`] when it cannot be built as described.
    pub fn new(config: &Config) -> Result<DramCache, ConfigError> {
        DramCache::over(config, Residency::new(config)?)
    }

    /// The DRAM cache under another replacement policy. The cache reports hits to the policy as
    /// touches.
    ///
    /// # Errors
    /// [`ConfigError`] when it cannot be built as described.
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
        let partial =
            (dram_cache.fill == Fill::Footprint).then(|| PartialPages::new(residency.frames()));
        let pages = Paged::new(config, residency, entries);
        Ok(DramCache {
            partial,
            backsides: (0..pages.controllers.count()).map(|_| Backside::default()).collect(),
            pages,
            mshr_used: vec![0; entries / ways],
            mshr_ways: ways as u32,
            backside_step: config.cores.cycles(dram_cache.backside_cycles),
            queue_max: dram_cache.backside_queue,
            evict_max: dram_cache.evict_buffer,
            fetch: Fetch::new(Device::new(config)?, Span::ZERO),
            outgoing: VecDeque::new(),
            told: Vec::new(),
        })
    }

    fn mshr_set(&self, page: PageId) -> usize {
        page.index() % self.mshr_used.len()
    }

    /// Handles misses of backside controller `number` until its queue is empty or it must wait.
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

    /// Handles `miss` if there is room for it. Returns whether there was room.
    fn take(&mut self, number: usize, start: Time, miss: Miss) -> bool {
        let (Request { page, line, waiter, .. }, write) = (miss.request, miss.request.dirties());
        let searched = start + self.backside_step;
        let is_there = if waiter.slot == NOBODY && write {
            self.absorbs(page, line)
        } else {
            self.find(page, line).is_some()
        };
        if is_there {
            // It arrived while the miss was in the queue.
            self.told.push(Event::Arrived(waiter, searched));
            self.backsides[number].free = searched;
            return true;
        }
        if self.pages.merge(page, waiter) {
            if write {
                self.pages.arrives_dirty(page);
            }
            self.backsides[number].free = searched;
            return true;
        }
        let set = self.mshr_set(page);
        if self.mshr_used[set] == self.mshr_ways {
            return false;
        }
        let Some((lines, victim)) = self.make_room(number, miss.request) else { return false };
        self.pages.begin(page, waiter);
        self.mshr_used[set] += 1;
        let asked = searched + self.backside_step;
        let device = &mut self.fetch.device;
        device.note(page, Stage::Taken, start);
        device.note(page, Stage::Asked, asked);
        device.read_lines(asked, page, lines.count());
        self.backsides[number].free = asked;
        if let Some((victim, _)) = &victim {
            device.note(victim.page, Stage::Left, asked);
        }
        if let Some((victim, lines)) = victim.filter(|(victim, _)| victim.dirty) {
            self.backsides[number].evicting += 1;
            self.outgoing.push_back((victim.page, number));
            let controllers = &mut self.pages.controllers;
            self.fetch.write_lines(asked, victim.page, lines.count(), controllers);
        }
        true
    }

    /// Makes room for the missing page or line of `request`. Returns the lines to fetch, and the
    /// evicted page with its present lines. `None` if there is no room now.
    fn make_room(
        &mut self,
        number: usize,
        request: Request,
    ) -> Option<(Lines, Option<(Victim, Lines)>)> {
        let (Request { page, line, site, .. }, write) = (request, request.dirties());
        if let Some(partial) = &mut self.partial
            && let Some(frame) = self.pages.residency.find(page)
        {
            partial.refill();
            self.pages.refill(page, frame, line, write);
            return Some((Lines::one(line), None));
        }
        let evict_full = self.backsides[number].evicting == self.evict_max;
        if evict_full && self.pages.residency.is_full(page) {
            return None;
        }
        let (frame, victim) = self.pages.reserve(page, write)?;
        self.pages.counters.misses += 1;
        let Some(partial) = &mut self.partial else {
            return Some((Lines::ALL, victim.map(|victim| (victim, Lines::ALL))));
        };
        let victim = victim.map(|victim| (victim, partial.leave(frame)));
        Some((partial.fetch(frame, Trigger { site, line }), victim))
    }

    /// The frame that holds `line` of `page`.
    fn find(&mut self, page: PageId, line: u8) -> Option<FrameId> {
        let frame = self.pages.residency.find(page)?;
        let there = self.partial.as_mut().is_none_or(|partial| partial.take_line(frame, line));
        there.then_some(frame)
    }

    /// Writes a dirty `line` of `page` that left the chip. Returns whether the page is resident.
    fn absorbs(&mut self, page: PageId, line: u8) -> bool {
        let Some(frame) = self.pages.residency.find(page) else { return false };
        self.pages.residency.mark_dirty(frame);
        if let Some(partial) = &mut self.partial {
            partial.complete(frame, line);
        }
        true
    }

    fn install(&mut self, page: PageId, at: Time) {
        if let (frame, Some(line)) = self.pages.install(page)
            && let Some(partial) = &mut self.partial
        {
            partial.complete(frame, line);
        }
        self.pages.wake(page, at, &mut self.told);
        let set = self.mshr_set(page);
        self.mshr_used[set] -= 1;
        // Any backside may wait for this entry of the table.
        for number in 0..self.backsides.len() {
            if !self.backsides[number].queue.is_empty() {
                self.drain(number, at);
            }
        }
    }
}

impl MemorySide for DramCache {
    fn access(&mut self, now: Time, request: Request) -> Answer {
        let (Request { page, line, waiter, .. }, write) = (request, request.dirties());
        let number = self.pages.controllers.of(page);
        if !self.backsides[number].stalled.is_empty() {
            self.pages.counters.stalls += 1;
            self.backsides[number].stalled.push(waiter);
            return Answer::Stalled;
        }
        if let Some(frame) = self.find(page, line) {
            self.pages.hit(frame, write);
            return Answer::Hit(self.pages.controllers.hit(now, number));
        }
        let reply = self.pages.controllers.probe(now, number);
        if self.backsides[number].queue.len() >= self.queue_max {
            self.pages.counters.stalls += 1;
            self.backsides[number].stalled.push(waiter);
            return Answer::Stalled;
        }
        self.backsides[number].queue.push_back(Miss { request, at: reply });
        self.drain(number, reply);
        Answer::Miss(reply)
    }

    fn flat(&mut self, now: Time, page: PageId) -> Time {
        self.pages.controllers.plain(now, page)
    }

    /// Keeps lines in the chip's buffers while the queue of the backside has no room for them.
    fn write_back(&mut self, now: Time, request: Request) {
        let number = self.pages.controllers.of(request.page);
        if self.absorbs(request.page, request.line) {
            return self.pages.controllers.write_tagged(now, number);
        }
        let reply = self.pages.controllers.probe(now, number);
        self.pages.counters.write_back_misses += 1;
        self.backsides[number].queue.push_back(Miss { request, at: reply });
        self.drain(number, reply);
    }

    fn next_event(&self) -> Option<Time> {
        if !self.told.is_empty() {
            return Some(Time::ZERO);
        }
        self.fetch.next_event(&self.pages.controllers)
    }

    fn advance(&mut self, now: Time, events: &mut Vec<Event>) {
        events.append(&mut self.told);
        while let Some((at, ended)) = self.fetch.step(now, &mut self.pages.controllers) {
            match ended {
                Ended::Install(page) => self.install(page, at),
                Ended::WriteBack(page) => {
                    let place = self.outgoing.iter().position(|(leaving, _)| *leaving == page);
                    let leaving = place.and_then(|place| self.outgoing.remove(place));
                    let (_, number) = leaving.expect("a page leaves once");
                    self.backsides[number].evicting -= 1;
                    self.drain(number, at);
                }
            }
            events.append(&mut self.told);
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { fetches_lines: true, ..Capabilities::default() }
    }
}

impl Warm for DramCache {
    fn warm(&mut self, request: Request) {
        let (Request { page, line, site, .. }, write) = (request, request.dirties());
        if self.partial.is_none() {
            return self.pages.warm(request);
        }
        if let Some(frame) = self.find(page, line) {
            return self.pages.hit(frame, write);
        }
        let Some(partial) = &mut self.partial else { return };
        if let Some(frame) = self.pages.residency.find(page) {
            partial.counters.underpredictions += 1;
            partial.complete(frame, line);
            return self.pages.residency.hit(frame, write);
        }
        let (frame, victim) = self.pages.residency.bring(page, write);
        if victim.is_some() {
            partial.leave(frame);
        }
        partial.bring(frame, Trigger { site, line });
        self.pages.counters.misses += 1;
        self.pages.counters.evicted(victim);
    }

    fn warm_back(&mut self, request: Request) {
        if !self.absorbs(request.page, request.line) {
            self.pages.counters.write_back_misses += 1;
            self.warm(request);
        }
    }

    fn state(&mut self, archive: &mut Archive<'_>) {
        self.pages.residency.state(archive);
        if let Some(partial) = &mut self.partial {
            partial.state(archive);
        }
    }
}

impl Observe for DramCache {
    fn expect(&self, page: PageId) {
        self.pages.residency.expect(page);
    }

    fn take_counters(&mut self) -> Counters {
        let footprints = self.partial.as_mut().map(|partial| take(&mut partial.counters));
        let counters = self.pages.take_counters(self.fetch.device.take_traffic());
        Counters { footprints: footprints.unwrap_or_default(), ..counters }
    }

    fn keep_notes(&mut self, keep: bool) -> Vec<Noted> {
        self.fetch.device.keep_notes(keep)
    }

    fn flash(&self) -> Option<&Flash> {
        Some(self.fetch.device.flash())
    }
}
