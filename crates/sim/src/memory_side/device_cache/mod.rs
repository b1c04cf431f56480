//! [`DeviceCache`]: a flash device that answers single lines from a cache in its own DRAM
//! (CXL-flash, ATC'23).

mod backend;
mod bus;
mod dram;
mod link;
mod log;
mod patience;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ebbtide_core::prefetch::{Demand, Metrics, NextNLine, Prefetcher, PrefetcherKind, Prefetching};
use ebbtide_core::{Archive, FrameId, LINE_BYTES, Lines, PAGE_BYTES, PageId, Span, Time};
use ebbtide_flash::{Done, Flash};
use rustc_hash::FxHashMap;

use self::backend::Backend;
use self::dram::DramServer;
use self::link::Link;
pub(super) use self::link::Towards;
use self::log::Log;
use self::patience::Patience;
use super::ahead::Ahead;
use super::device::flash;
use super::dram::Controllers;
use super::miss_table::{Begin, MissTable};
use super::residency::Residency;
use super::{
    Answer, Capabilities, Counters, Event, MemorySide, NOBODY, Noted, Observe, Request, Stage,
    Waiter, Warm, earlier,
};
use crate::config::{Config, ConfigError, needed, require};

/// The device of the CXL-flash study (ATC'23). A set-associative cache of pages lies in front of
/// flash. Miss status registers merge requests for a page in flight. A prefetcher fetches pages
/// ahead.
///
/// The device accepts a request unless its registers, its DRAM queue or its flash commands are
/// full. Any other request waits in the host. The study's queue of 32 requests in front of the
/// device has no effect, as a longer queue would delay the same requests. So it is left out.
///
/// A page from flash takes its frame, and evicts another page, when the DRAM queue has room. Until
/// then the device accepts no request.
///
/// Without a cache (`dram_cache.size = 0`) every request is a flash command. Without registers
/// (`dram_cache.mshr = 0`) a miss reads its page even if the page is already in flight.
///
/// With a log, written lines go there, and pages of the cache are clean (SkyByte, HPCA'25).
pub struct DeviceCache {
    cache: Option<Cache>,
    log: Option<Log>,
    misses: Misses,
    dram: DramServer,
    backend: Backend,
    link: Link,
    /// Time to find where a line that is read lies.
    index: Span,
    /// When the device tells cores to run other threads, if it does.
    patience: Option<Patience>,
    prefetches_first: bool,
    takes_hints: bool,
    fold_addresses: bool,
    /// The host's DRAM, for lines that are not in the device.
    host_dram: Controllers,
    /// Waiters whose requests were not accepted.
    stalled: Vec<Waiter>,
    /// Lines written back that were not accepted. The host's buffers hold them.
    owed: VecDeque<Request>,
    /// Pages that flash has read and that wait for room in the DRAM queue. The lowest page goes
    /// first. Without registers, the first to arrive does, as in the study's simulator.
    came: BinaryHeap<Reverse<(u64, PageId)>>,
    /// Pages that had to wait.
    waited: u64,
    done: Vec<Done>,
    /// Events in frames, if they are watched.
    seen: Option<Vec<Seen>>,
    /// Pages that left their frames, if notes are kept.
    notes: Option<Vec<Noted>>,
    /// Buffer for the waiters of a page that arrived.
    waiting: Vec<Waiting>,
    counters: Counters,
}

/// An event in a frame of a [`DeviceCache`], with its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The frame. Its set is `frame / ways`.
    pub frame: FrameId,
    /// The page.
    pub page: PageId,
    /// The event.
    pub what: Happened,
}

/// An event in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// A request was served, at once or when the page arrived.
    Served {
        /// Whether it was a write.
        write: bool,
    },
    /// The page was evicted.
    Evicted,
}

struct Cache {
    residency: Residency,
    ahead: Ahead,
}

/// A waiter for a page.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    waiter: Waiter,
    /// Whether it stores.
    write: bool,
    /// Whether it runs another thread, and repeats its access later. Then no line is sent to it.
    leaves: bool,
}

/// Requests that wait for flash.
enum Misses {
    /// Without a cache: each waits for its own command. The tag of the command is the index here.
    Single { waiting: Vec<Waiting>, free: Vec<u64> },
    /// Without registers: each waits for its own read, by page, in order.
    Repeated(FxHashMap<PageId, VecDeque<Waiting>>),
    /// With miss status registers.
    Merged(MissTable<Waiting>),
}

/// The tag of a command without a waiter.
const FLUSH: u64 = u64::MAX;

impl DeviceCache {
    /// The device that `config` describes.
    ///
    /// # Errors
    /// [`ConfigError`] when it cannot be built as described.
    pub fn new(config: &Config) -> Result<DeviceCache, ConfigError> {
        let is_cached = config.dram_cache.size.0 > 0;
        let cache = || Cache::new(config, configured_prefetcher(config)?);
        DeviceCache::over(config, is_cached.then(cache).transpose()?)
    }

    /// The device with `prefetcher` instead of the prefetcher of `config.prefetch`.
    ///
    /// # Errors
    /// [`ConfigError`] when it cannot be built as described.
    pub fn with_prefetcher(
        config: &Config,
        prefetcher: Box<dyn Prefetcher>,
    ) -> Result<DeviceCache, ConfigError> {
        require_merging(config, "one of its own")?;
        DeviceCache::over(config, Some(Cache::new(config, prefetcher)?))
    }

    fn over(config: &Config, cache: Option<Cache>) -> Result<DeviceCache, ConfigError> {
        let (dram_cache, device) = (&config.dram_cache, needed(&config.device, "device")?);
        let misses = match (&cache, dram_cache.mshr) {
            (None, _) => Misses::Single { waiting: Vec::new(), free: Vec::new() },
            (Some(_), 0) => Misses::Repeated(FxHashMap::default()),
            (Some(_), rows) => Misses::Merged(MissTable::new(rows, device.mshr_requests)),
        };
        let caches = cache.is_some();
        Ok(DeviceCache {
            cache,
            log: Log::new(config)?,
            misses,
            dram: DramServer::new(device),
            backend: Backend::new(flash(config)?, device.flash_commands),
            link: Link::new(config),
            index: Span::from_ns(device.index_ns),
            patience: if caches { Patience::new(config, device) } else { None },
            prefetches_first: device.prefetches_first,
            takes_hints: needed(&config.prefetch, "prefetch")?.hints,
            fold_addresses: device.fold_addresses,
            host_dram: Controllers::new(config),
            stalled: Vec::new(),
            owed: VecDeque::new(),
            came: BinaryHeap::new(),
            waited: 0,
            done: Vec::new(),
            seen: None,
            notes: None,
            waiting: Vec::new(),
            counters: Counters::default(),
        })
    }

    /// Records events in frames from now on.
    pub fn watch(&mut self) {
        self.seen.get_or_insert_default();
        self.backend.watch_moves();
    }

    /// Events in frames since the last call, in order. Empty unless frames are
    /// [watched](DeviceCache::watch).
    pub fn take_seen(&mut self) -> Vec<Seen> {
        self.seen.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Removes `page` from the cache and its lines from the log. Returns its frame, if it had one,
    /// and whether flash lacks any of its lines.
    pub(super) fn forget(&mut self, page: PageId) -> (Option<FrameId>, bool) {
        let logged = self.log.as_mut().is_some_and(|log| log.forget(page));
        let cached = self.cache.as_mut().and_then(|cache| cache.residency.remove(page));
        (cached.map(|(frame, _)| frame), logged || cached.is_some_and(|(_, dirty)| dirty))
    }

    /// Whether written lines go to a log.
    pub(super) fn logs(&self) -> bool {
        self.log.is_some()
    }

    /// Pages that moved in flash since the last call. Empty unless they are
    /// [watched](DeviceCache::watch).
    pub(super) fn take_moved(&mut self) -> Vec<PageId> {
        self.backend.take_moved()
    }

    /// Marks `page` as clean, because its contents are written to flash. Returns whether it was
    /// dirty.
    pub(super) fn clean(&mut self, page: PageId) -> bool {
        let cache = self.cache.as_mut();
        cache.is_some_and(|cache| cache.residency.clean(page))
    }

    /// Pages of which flash lacks lines.
    pub(super) fn dirty(&self) -> impl Iterator<Item = PageId> {
        let logged = self.log.iter().flat_map(Log::pages);
        self.cache.iter().flat_map(|cache| cache.residency.dirty()).chain(logged)
    }

    /// Reads `page` from flash without the cache.
    pub(super) fn read_page(&mut self, now: Time, page: PageId) {
        self.backend.read(now, page, FLUSH);
    }

    /// Writes `page`, which the host has sent or the cache keeps: to the log if there is one, and
    /// to flash otherwise.
    pub(super) fn write_page(&mut self, now: Time, page: PageId) {
        match self.log {
            Some(_) => self.append_page(now, page),
            None => self.backend.write(now, page, FLUSH),
        }
    }

    /// The time from which the device accepts requests. `None` if flash, compaction or an arrived
    /// page must make room first.
    #[inline]
    fn open_from(&self) -> Option<Time> {
        let full = matches!(&self.misses, Misses::Merged(table) if table.is_full());
        let logs = self.log.as_ref().is_none_or(Log::has_room);
        let open = !full && logs && self.backend.room() > 0 && self.came.is_empty();
        open.then(|| self.dram.open_from())
    }

    /// Whether a request must wait for earlier requests or for room.
    fn is_closed(&self, now: Time) -> bool {
        let waits = !self.stalled.is_empty() || !self.owed.is_empty();
        waits || self.open_from().is_none_or(|from| from > now)
    }

    /// When the DRAM has room for an arrived page, or else for a waiting request.
    #[inline]
    fn room_from(&self) -> Option<Time> {
        match (self.came.is_empty(), self.stalled.is_empty() && self.owed.is_empty()) {
            (false, _) => Some(self.dram.open_from()),
            (true, false) => self.open_from(),
            (true, true) => None,
        }
    }

    /// Uses room in the DRAM for an arrived page, or for stalled requests.
    fn room(&mut self, now: Time, events: &mut Vec<Event>) {
        if let Some(Reverse((_, page))) = self.came.pop() {
            return self.arrived(now, page, events);
        }
        match self.owed.pop_front() {
            Some(request) => _ = self.enter(now, request),
            None => events.extend(self.stalled.drain(..).map(|w| Event::Unstalled(w, now))),
        }
    }

    /// Stalls `waiter` until the device accepts requests.
    fn put_off(&mut self, waiter: Waiter) -> Answer {
        self.counters.cache.stalls += 1;
        self.stalled.push(waiter);
        Answer::Stalled
    }

    /// Enters `request`, which the device accepts.
    fn enter(&mut self, now: Time, request: Request) -> Answer {
        if self.log.as_ref().is_some_and(|log| log.takes(&request)) {
            return self.append(now, request);
        }
        let found = now + self.index;
        let Request { page, line, .. } = request;
        match self.cache.as_ref().and_then(|cache| cache.residency.find(page)) {
            Some(frame) => self.hit(found, frame, request),
            None if self.log.as_ref().is_some_and(|log| log.holds(page, line)) => {
                self.counters.cache.hits += 1;
                self.counters.log.log_reads += 1;
                Answer::Hit(self.serve(found, page, u64::from(line), false))
            }
            None => self.miss(found, request),
        }
    }

    fn hit(&mut self, now: Time, frame: FrameId, request: Request) -> Answer {
        let (page, write) = (request.page, request.dirties());
        self.counters.cache.hits += 1;
        let ready = self.serve(now, page, u64::from(request.line), write);
        let cache = self.cache.as_mut().expect("a hit is in the cache");
        cache.residency.hit(frame, write);
        if let Some(demand) = cache.ahead.hit(frame) {
            let wanted = self.wanted(page, demand);
            self.prefetch(now, &wanted);
        }
        self.tell(frame, page, Happened::Served { write });
        Answer::Hit(ready)
    }

    fn miss(&mut self, now: Time, request: Request) -> Answer {
        let (Request { page, waiter, .. }, write) = (request, request.dirties());
        self.counters.cache.write_back_misses += u64::from(write && waiter.slot == NOBODY);
        let expected = |page| self.backend.expected_read(now, page);
        let (answer, leaves) = match &mut self.patience {
            Some(patience) => patience.answer(now, request, expected),
            None => (Answer::Miss(now), false),
        };
        let waiting = Waiting { waiter, write, leaves };
        match &mut self.misses {
            Misses::Merged(table) => match table.begin(page, waiting) {
                Begin::Merged => {
                    self.counters.cache.hits_under_miss += 1;
                    return answer;
                }
                begun => {
                    assert_eq!(
                        begun,
                        Begin::Started,
                        "the device accepts no request while they are full"
                    )
                }
            },
            Misses::Repeated(reads) => {
                let reads = reads.entry(page).or_default();
                self.counters.cache.repeated_reads += u64::from(!reads.is_empty());
                reads.push_back(waiting);
            }
            Misses::Single { .. } => {}
        }
        self.begin(now, request);
        answer
    }

    /// Starts the first request for a page that is not in the cache.
    fn begin(&mut self, now: Time, request: Request) {
        let (Request { page, waiter, .. }, write) = (request, request.dirties());
        let Some(cache) = &mut self.cache else {
            self.counters.cache.misses += 1;
            let tag = self.misses.place(Waiting { waiter, write, leaves: false });
            if write {
                return self.backend.write(now, page, tag);
            }
            return self.backend.read(now, page, tag);
        };
        if cache.ahead.is_in_flight(page) {
            return cache.ahead.count(page, Demand::Late);
        }
        self.counters.cache.misses += 1;
        let wanted = self.wanted(page, Demand::Miss);
        if self.prefetches_first {
            self.prefetch(now, &wanted);
            self.backend.read(now, page, page.0);
        } else {
            self.backend.read(now, page, page.0);
            self.prefetch(now, &wanted);
        }
        let in_flight = self.backend.flash().outstanding();
        self.counters.cache.in_flight_peak = self.counters.cache.in_flight_peak.max(in_flight);
    }

    /// Serves the host `line` of `page` from the device's DRAM. Returns when the line arrives.
    fn serve(&mut self, now: Time, page: PageId, line: u64, write: bool) -> Time {
        self.counters.traffic.device_dram_bytes += LINE_BYTES as u64;
        let served = self.dram.serve(now, page, line);
        self.cross(now, served, write)
    }

    /// Carries a line that the device serves at `ready` over the link. Returns when it arrives.
    fn cross(&mut self, now: Time, ready: Time, write: bool) -> Time {
        self.counters.traffic.link_bytes += LINE_BYTES as u64;
        self.link.line(now, ready, if write { Towards::Device } else { Towards::Host })
    }

    /// Carries a page over the link from `now` on. Returns when it has arrived.
    pub(super) fn carry(&mut self, now: Time, towards: Towards) -> Time {
        self.link.page(now, towards)
    }

    /// The pages to prefetch at a demand access.
    fn wanted(&mut self, page: PageId, demand: Demand) -> Vec<PageId> {
        let Some(Cache { residency, ahead }) = &mut self.cache else { return Vec::new() };
        let misses = &self.misses;
        let known = |page| residency.find(page).is_some() || misses.contains(page);
        ahead.wanted(page, demand, self.backend.room(), known)
    }

    fn prefetch(&mut self, now: Time, pages: &[PageId]) {
        for &page in pages {
            let Some(cache) = &mut self.cache else { return };
            cache.ahead.issued(page);
            self.backend.read(now, page, page.0);
        }
    }

    /// Handles the end of a flash command.
    fn ended(&mut self, done: Done, events: &mut Vec<Event>) {
        if done.tag == FLUSH {
            return;
        }
        if log::is_merge(done.tag) {
            return self.merge_ended(done);
        }
        if let Misses::Single { waiting, free } = &mut self.misses {
            free.push(done.tag);
            let Waiting { waiter, write, .. } = waiting[done.tag as usize];
            let arrives = self.cross(done.at, done.at, write);
            return events.push(Event::Arrived(waiter, arrives));
        }
        let page = PageId(done.tag);
        if self.came.is_empty() && self.dram.open_from() <= done.at {
            self.arrived(done.at, page, events);
        } else {
            self.waited += 1;
            let turn = if let Misses::Repeated(_) = self.misses { self.waited } else { 0 };
            self.came.push(Reverse((turn, page)));
        }
    }

    /// Moves `page`, which flash has read, into the DRAM.
    fn arrived(&mut self, now: Time, page: PageId, events: &mut Vec<Event>) {
        let mut waiting = std::mem::take(&mut self.waiting);
        if let Some(patience) = &mut self.patience {
            patience.arrived(page);
        }
        match &mut self.misses {
            Misses::Single { .. } => unreachable!("without a cache no page enters the DRAM"),
            Misses::Repeated(reads) => {
                let all = reads.get_mut(&page).expect("every read has a waiter");
                waiting.extend(all.pop_front());
                if all.is_empty() {
                    reads.remove(&page);
                }
            }
            Misses::Merged(table) => {
                table.complete(page, |waiter| waiting.push(waiter));
            }
        }
        self.deliver(now, page, &waiting, events);
        waiting.clear();
        self.waiting = waiting;
    }

    /// Delivers the arrived `page` to all of `waiting`. The DRAM serves each of them, or the page
    /// once if none waits.
    fn deliver(&mut self, now: Time, page: PageId, waiting: &[Waiting], events: &mut Vec<Event>) {
        let writes = waiting.first().is_some_and(|first| first.write);
        let (frame, moves) = self.install(now, page, writes, !waiting.is_empty());
        if waiting.is_empty() {
            self.dram.serve(now, page, 0);
        }
        for (number, &Waiting { waiter, write, leaves }) in waiting.iter().enumerate() {
            if leaves {
                match &mut self.patience {
                    Some(patience) if moves > now => patience.returns(moves, waiter),
                    _ => events.push(Event::Arrived(waiter, now)),
                }
                continue;
            }
            if number > 0 {
                let cache = self.cache.as_mut().expect("pages arrive in a cache");
                cache.residency.hit(frame, write);
            }
            // Its line is among those of the arriving page.
            let arrives = self.serve(now, page, number as u64, write).max(moves);
            events.push(Event::Arrived(waiter, arrives));
            self.tell(frame, page, Happened::Served { write });
        }
    }

    /// Puts `page` into the cache, unless an earlier read did. Returns its frame, and when the DRAM
    /// begins to receive the page.
    fn install(&mut self, now: Time, page: PageId, dirty: bool, awaited: bool) -> (FrameId, Time) {
        let Cache { residency, ahead } = self.cache.as_mut().expect("pages arrive in a cache");
        let prefetched = ahead.arrived(page);
        if let Some(frame) = residency.find(page) {
            residency.hit(frame, dirty);
            return (frame, now);
        }
        let (frame, victim) = residency.reserve(page).expect("no frame is reserved for long");
        if let Some(victim) = victim {
            ahead.evicted(frame, victim.page, prefetched);
        }
        match ahead.installed(frame, prefetched, awaited) {
            Some(position) => residency.install_ahead(frame, page, position),
            None => residency.install(frame, page, dirty),
        }
        self.counters.traffic.device_dram_bytes += PAGE_BYTES as u64;
        self.counters.cache.evicted(victim);
        let moves = self.dram.move_page(now);
        // Lines of the log replace those from flash.
        let newer = self.log.as_ref().map_or(Lines::NONE, |log| log.lines(page)).count();
        self.counters.traffic.device_dram_bytes += newer * LINE_BYTES as u64;
        self.dram.move_lines(now, newer);
        if let Some(victim) = victim {
            self.tell(frame, victim.page, Happened::Evicted);
            if let (Some(notes), None) = (&mut self.notes, &self.log) {
                notes.push(Noted { page: victim.page, stage: Stage::Left, at: now });
            }
            if victim.dirty {
                self.counters.traffic.device_dram_bytes += PAGE_BYTES as u64;
                self.dram.move_page(now);
                self.backend.write(now, victim.page, FLUSH);
            }
        }
        (frame, moves)
    }

    /// The device's page for `page`.
    #[inline]
    fn mapped(&self, page: PageId) -> PageId {
        if self.fold_addresses { folded(page) } else { page }
    }

    #[inline]
    fn tell(&mut self, frame: FrameId, page: PageId, what: Happened) {
        if let Some(seen) = &mut self.seen {
            seen.push(Seen { frame, page, what });
        }
    }
}

impl Cache {
    fn new(config: &Config, prefetcher: Box<dyn Prefetcher>) -> Result<Cache, ConfigError> {
        let residency = Residency::new(config)?;
        let prefetch = needed(&config.prefetch, "prefetch")?;
        let prefetching = Prefetching::new(prefetcher, pages(config));
        let ahead = Ahead::new(prefetching, residency.frames(), prefetch.in_flight);
        Ok(Cache { residency, ahead })
    }
}

/// The prefetcher that `config` names.
fn configured_prefetcher(config: &Config) -> Result<Box<dyn Prefetcher>, ConfigError> {
    let prefetch = needed(&config.prefetch, "prefetch")?;
    let preset = prefetch.preset;
    if prefetch.policy != PrefetcherKind::None {
        require_merging(config, prefetch.policy.name())?;
    }
    Ok(match prefetch.policy {
        PrefetcherKind::NextNLine => {
            Box::new(NextNLine { degree: prefetch.degree, offset: prefetch.offset, preset })
        }
        kind => kind.build(preset, pages(config)),
    })
}

/// Checks that there are miss status registers. Prefetching needs them, because they know the pages
/// in flight.
fn require_merging(config: &Config, policy: &str) -> Result<(), ConfigError> {
    let expected = "none, where dram_cache.mshr = 0: prefetching needs miss status registers";
    require(config.dram_cache.mshr > 0, "prefetch.policy", policy, expected)
}

fn pages(config: &Config) -> u64 {
    config.dataset.size.0.div_ceil(PAGE_BYTES as u64)
}

impl Misses {
    /// Whether a demand read of `page` is in flight.
    fn contains(&self, page: PageId) -> bool {
        match self {
            Misses::Single { .. } => false,
            Misses::Repeated(reads) => reads.contains_key(&page),
            Misses::Merged(table) => table.contains(page),
        }
    }

    /// A slot for a waiter with its own command.
    fn place(&mut self, waiting: Waiting) -> u64 {
        let Misses::Single { waiting: all, free } = self else { return FLUSH };
        let place = free.pop().unwrap_or(all.len() as u64);
        if place == all.len() as u64 {
            all.push(waiting);
        } else {
            all[place as usize] = waiting;
        }
        place
    }
}

/// The page of an address whose bits 32 and up are combined with bits 31 and up.
fn folded(page: PageId) -> PageId {
    const LOW: u32 = u32::BITS - PAGE_BYTES.ilog2();
    PageId(page.0 & ((1 << LOW) - 1) | page.0 >> LOW << (LOW - 1))
}

impl MemorySide for DeviceCache {
    fn access(&mut self, now: Time, mut request: Request) -> Answer {
        request.page = self.mapped(request.page);
        if self.is_closed(now) {
            return self.put_off(request.waiter);
        }
        self.enter(now, request)
    }

    fn write_back(&mut self, now: Time, mut request: Request) {
        request.page = self.mapped(request.page);
        if self.is_closed(now) {
            return self.owed.push_back(request);
        }
        self.enter(now, request);
    }

    fn flat(&mut self, now: Time, page: PageId) -> Time {
        self.host_dram.plain(now, page)
    }

    fn next_event(&self) -> Option<Time> {
        let returns = self.patience.as_ref().and_then(Patience::next_event);
        earlier(earlier(self.backend.next_event(), self.room_from()), returns)
    }

    fn advance(&mut self, now: Time, events: &mut Vec<Event>) {
        loop {
            let flash = self.backend.next_event().filter(|at| *at <= now);
            let room = self.room_from().filter(|from| *from <= now);
            let until = earlier(flash, room).unwrap_or(now);
            if let Some(patience) = &mut self.patience
                && let Some(event) = patience.pop_due(until)
            {
                events.push(event);
                continue;
            }
            match (flash, room) {
                (flash, Some(from)) if flash.is_none_or(|at| from < at) => {
                    self.room(from.max(self.backend.now()), events);
                }
                (Some(at), _) => {
                    let mut done = std::mem::take(&mut self.done);
                    self.backend.step(at, &mut done);
                    done.drain(..).for_each(|done| self.ended(done, events));
                    self.done = done;
                }
                (None, _) => return,
            }
        }
    }

    fn hint(&mut self, now: Time, page: PageId) -> Time {
        let page = self.mapped(page);
        let Some(Cache { residency, ahead }) = &self.cache else { return now };
        let takes = self.takes_hints && matches!(self.misses, Misses::Merged(_));
        let known = residency.find(page).is_some()
            || self.misses.contains(page)
            || ahead.is_in_flight(page);
        if takes && !known && ahead.places(self.backend.room()) > 0 {
            self.prefetch(now, &[page]);
        }
        now
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { byte_addressable: true, ..Capabilities::default() }
    }
}

impl Warm for DeviceCache {
    fn warm(&mut self, request: Request) {
        let (page, write) = (request.page, request.dirties());
        if let Some(log) = &self.log {
            if log.takes(&request) {
                return self.warm_append(request);
            }
            let is_cached = self.cache.as_ref().is_some_and(|c| c.residency.find(page).is_some());
            if !is_cached && log.holds(page, request.line) {
                self.counters.cache.hits += 1;
                self.counters.log.log_reads += 1;
                return;
            }
        }
        let Some(cache) = &mut self.cache else { return };
        let frame = if let Some(frame) = cache.residency.find(page) {
            self.counters.cache.hits += 1;
            cache.residency.hit(frame, write);
            frame
        } else {
            self.counters.cache.misses += 1;
            let (frame, victim) = cache.residency.bring(page, write);
            self.counters.cache.evicted(victim);
            if let Some(victim) = victim {
                self.tell(frame, victim.page, Happened::Evicted);
            }
            frame
        };
        self.tell(frame, page, Happened::Served { write });
    }

    fn warm_back(&mut self, request: Request) {
        self.warm(request);
    }

    fn state(&mut self, archive: &mut Archive<'_>) {
        if let Some(cache) = &mut self.cache {
            cache.residency.state(archive);
        }
        if let Some(log) = &mut self.log {
            log.state(archive);
        }
    }
}

impl Observe for DeviceCache {
    fn prefetched(&self) -> Option<&Metrics> {
        self.cache.as_ref().map(|cache| cache.ahead.metrics())
    }

    fn take_counters(&mut self) -> Counters {
        let mut counters = std::mem::take(&mut self.counters);
        counters.traffic.dram_lines = self.host_dram.take_lines();
        counters
    }

    /// Notes only [`Stage::Left`]. With a log, the lines of a page leave it when it is merged.
    fn keep_notes(&mut self, keep: bool) -> Vec<Noted> {
        std::mem::replace(&mut self.notes, keep.then(Vec::new)).unwrap_or_default()
    }

    fn flash(&self) -> Option<&Flash> {
        Some(self.backend.flash())
    }
}
