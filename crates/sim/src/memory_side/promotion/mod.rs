//! [`Promotion`]: host DRAM over a byte-addressable device. Hot pages move to that DRAM (FlatFlash,
//! ASPLOS'19).

mod upkeep;

use std::collections::VecDeque;
use std::ops::Range;

use ebbtide_core::prefetch::Metrics;
use ebbtide_core::promotion::{Adaptive, LookAside, Place};
use ebbtide_core::{Archive, LINE_BYTES, PAGE_BYTES, PageId, Span, Time};
use ebbtide_flash::Flash;
use rustc_hash::FxHashMap;

use self::upkeep::Upkeep;
use super::device_cache::Towards;
use super::dram::{Controllers, Moved};
use super::residency::Residency;
use super::{
    Answer, Capabilities, Counters, DeviceCache, Event, Happened, MemorySide, NOBODY, Noted,
    Observe, Request, Seen, Stage, Waiter, Warm, earlier,
};
use crate::config::{Config, ConfigError, WriteBack, needed};

/// One memory made of host DRAM and a byte-addressable SSD.
///
/// A page is in DRAM or in the SSD, and the core accesses its lines there. Reads of the SSD wait
/// for the line; writes are posted. The SSD counts its accesses to each page in the device's cache,
/// and [`Adaptive`] decides which access promotes the page.
///
/// The page then moves to DRAM while accesses go on, which [`LookAside`] keeps correct. When all
/// its lines are in DRAM it is mapped there, and its frame in the device's cache is free. A
/// promotion is dropped if pages in flight occupy the whole look-aside buffer or all frames.
///
/// A prefetcher's request has no waiter. It is not passed on to the SSD if the page's move brings
/// the line sooner (an assumption).
///
/// Pages of the persist region are not counted, so they stay where a store is durable. A store
/// there waits for the read that verifies it. It survives a power cut, because the device's cache
/// has a battery.
///
/// Page tables point into the SSD. An access through a stale entry takes one more lookup in the
/// device's DRAM.
pub struct Promotion {
    device: DeviceCache,
    adaptive: Adaptive,
    look_aside: LookAside,
    host: Residency,
    controllers: Controllers,
    /// Pages in flight to DRAM.
    moving: FxHashMap<PageId, Moving>,
    /// Pages in flight to DRAM, in the order of their arrival.
    arrivals: VecDeque<(Time, PageId)>,
    persist: Range<PageId>,
    battery_backed: bool,
    upkeep: Upkeep,
    /// The latest time of a call.
    now: Time,
    write_back: WriteBack,
    move_time: Span,
    map_time: Span,
    posts_stores: bool,
    /// A read of a line that the device's cache holds.
    read: Span,
    posted_write: Span,
    verified_write: Span,
    /// Time to find a page that moved in flash.
    redirect: Span,
    told: Vec<Event>,
    device_events: Vec<Event>,
    counters: Counters,
    /// Pages that left host DRAM, if notes are kept.
    notes: Option<Vec<Noted>>,
}

/// A page in flight to DRAM.
struct Moving {
    since: Time,
    /// Lines that the SSD has sent.
    sent: usize,
    dirty: bool,
}

/// The core number in requests of posted writes. They have no waiter, and their thread number is
/// the core.
const POSTED: u32 = u32::MAX;

const LINES: usize = PAGE_BYTES / LINE_BYTES;

impl Promotion {
    /// The memory that `config` describes, over `device`.
    ///
    /// # Errors
    /// [`ConfigError`] when it cannot be built as described.
    pub fn new(config: &Config, mut device: DeviceCache) -> Result<Promotion, ConfigError> {
        let promotion = needed(&config.promotion, "promotion")?;
        let device_config = needed(&config.device, "device")?;
        device.watch();
        let slots = (config.dram_cache.size.0 / PAGE_BYTES as u64) as usize;
        let read = Span::from_ns(2 * config.link.latency_ns + device_config.dram_ns);
        let posted_write = Span::from_ns(promotion.posted_write_ns);
        let volatile_bytes = config.dataset.size.0 - promotion.persist.0;
        let pages = |bytes: u64| PageId(bytes.div_ceil(PAGE_BYTES as u64));
        Ok(Promotion {
            device,
            adaptive: Adaptive::new(slots, promotion.parameters(), promotion.reset),
            look_aside: LookAside::new(promotion.look_aside),
            host: Residency::fully_associative(config, promotion.size, promotion.policy),
            controllers: Controllers::new(config),
            moving: FxHashMap::default(),
            arrivals: VecDeque::new(),
            persist: pages(volatile_bytes)..pages(config.dataset.size.0),
            battery_backed: promotion.battery_backed,
            upkeep: Upkeep::new(config, promotion),
            now: Time::ZERO,
            write_back: promotion.write_back,
            move_time: Span::from_ns(promotion.move_ns),
            map_time: Span::from_ns(promotion.map_ns),
            posts_stores: promotion.posts_stores,
            read,
            posted_write,
            verified_write: posted_write + read,
            redirect: Span::from_ns(device_config.dram_ns),
            told: Vec::new(),
            device_events: Vec::new(),
            counters: Counters::default(),
            notes: None,
        })
    }

    /// Pages whose latest contents a power cut now would lose. These are dirty pages in host DRAM,
    /// and in the device's cache if it has no battery. Dirty lines in the chip's caches are not
    /// included.
    pub fn lost_in_power_cut(&self) -> Vec<PageId> {
        let moving = self.moving.iter().filter(|(_, moving)| moving.dirty).map(|(page, _)| *page);
        let mut lost: Vec<PageId> = self.host.dirty().chain(moving).collect();
        if !self.battery_backed {
            lost.extend(self.device.dirty());
        }
        lost.sort_unstable();
        lost.dedup();
        lost
    }

    fn is_persist(&self, page: PageId) -> bool {
        self.persist.contains(&page)
    }

    fn in_dram(&mut self, now: Time, page: PageId) -> Answer {
        self.counters.cache.hits += 1;
        Answer::Hit(self.controllers.plain(now, page))
    }

    /// An access to a page in flight, if its line is in DRAM.
    fn in_flight(&mut self, now: Time, request: Request) -> Option<Answer> {
        let Request { page, write, keeps, .. } = request;
        let line = usize::from(request.line);
        self.send(now, page);
        let place = if write {
            self.moving.get_mut(&page).expect("the page is in flight").dirty = true;
            self.look_aside.store(page, line).map(Place::Dram)
        } else {
            self.look_aside.load(page, line)
        };
        match place {
            Some(Place::Dram(_)) if write && keeps => {
                self.in_dram(now, page);
                Some(Answer::Posted(now))
            }
            Some(Place::Dram(_)) => Some(self.in_dram(now, page)),
            Some(Place::Ssd) | None => None,
        }
    }

    /// When `line` of `page`, which is in flight, arrives.
    fn moves_by(&self, page: PageId, line: u8) -> Time {
        let moved = (u64::from(line) + 1) * self.move_time.as_ps() / LINES as u64;
        self.moving[&page].since + Span::from_ps(moved)
    }

    /// Moves the lines of `page`, which is in flight, that arrive by `now`.
    fn send(&mut self, now: Time, page: PageId) {
        let moving = self.moving.get_mut(&page).expect("the page is in flight");
        let since = now.since(moving.since).as_ps().min(self.move_time.as_ps());
        let due = (since * LINES as u64 / self.move_time.as_ps()) as usize;
        for line in moving.sent..due {
            // The model keeps no contents here, so a dropped line is like a written one.
            self.look_aside.inbound(page, line);
        }
        moving.sent = moving.sent.max(due);
    }

    /// Handles the events in the device, and promotes pages.
    fn observe(&mut self, now: Time) {
        self.upkeep.observe(&mut self.device, &mut self.told, &mut self.counters);
        for Seen { frame, page, what } in self.device.take_seen() {
            match what {
                Happened::Evicted => self.adaptive.evict(frame),
                Happened::Served { .. } if self.is_persist(page) => {}
                Happened::Served { .. } => {
                    if self.adaptive.access(frame) && !self.look_aside.contains(page) {
                        self.promote(now, page);
                    }
                }
            }
        }
    }

    fn promote(&mut self, now: Time, page: PageId) {
        let room = !self.look_aside.is_full();
        let Some((frame, victim)) = room.then(|| self.host.reserve(page)).flatten() else {
            self.counters.promotion.promotions_dropped += 1;
            return;
        };
        if let Some(victim) = victim {
            self.told.push(Event::Unmapped(victim.page));
            self.demote(now, victim.page, victim.dirty);
        }
        self.counters.promotion.promotions += 1;
        self.look_aside.begin(page, frame);
        self.moving.insert(page, Moving { since: now, sent: 0, dirty: false });
        let carried = self.device.carry(now, Towards::Host);
        self.arrivals.push_back((carried.max(now + self.move_time) + self.map_time, page));
    }

    fn demote(&mut self, now: Time, page: PageId, dirty: bool) {
        self.counters.promotion.demotions += 1;
        // With a log in the device, the page leaves later, when it is merged.
        if let (Some(notes), false) = (&mut self.notes, self.device.logs()) {
            notes.push(Noted { page, stage: Stage::Left, at: now });
        }
        if dirty || self.write_back == WriteBack::All {
            self.counters.promotion.demotions_written += 1;
            self.upkeep.demoted(page);
            let moved = Moved { page, lines: LINES as u64, into: false, since: now };
            self.controllers.carry(moved);
        }
    }

    /// Handles the end of a page's move over the bus of host DRAM.
    fn moved(&mut self, at: Time, moved: Moved) {
        if moved.into {
            return self.arrive(at, moved.page);
        }
        let carried = self.device.carry(at, Towards::Device);
        self.device.write_page(carried, moved.page);
    }

    /// Maps `page` in DRAM, where all its lines are now.
    fn arrive(&mut self, at: Time, page: PageId) {
        self.send(at, page);
        let moving = self.moving.remove(&page).expect("the page is in flight");
        let frame = self.look_aside.finish(page);
        let (slot, newer) = self.device.forget(page);
        if let Some(slot) = slot {
            self.adaptive.evict(slot);
        }
        let dirty = moving.dirty || newer;
        self.host.install(frame, page, dirty);
        self.told.push(Event::Unmapped(page));
        self.told.push(Event::Interrupted(None));
    }

    fn pass_on(&mut self, events: &mut Vec<Event>) {
        for event in self.device_events.drain(..) {
            match event {
                Event::Arrived(Waiter { core: POSTED, .. }, _) => {}
                Event::Unstalled(Waiter { core: POSTED, thread: core, .. }, at) => {
                    events.push(Event::Unstalled(Waiter { core, thread: 0, slot: 0 }, at));
                }
                event => events.push(event),
            }
        }
    }
}

impl MemorySide for Promotion {
    fn access(&mut self, now: Time, request: Request) -> Answer {
        self.now = self.now.max(now);
        let Request { page, waiter, .. } = request;
        let posts = request.write && (self.posts_stores || self.is_persist(page));
        if let Some(frame) = self.host.find(page) {
            self.host.hit(frame, request.dirties());
            return self.in_dram(now, page);
        }
        if self.look_aside.contains(page) {
            let write = posts || request.dirties();
            if let Some(answer) = self.in_flight(now, Request { write, ..request }) {
                return answer;
            }
            if waiter.slot == NOBODY && self.moves_by(page, request.line) <= now + self.read {
                return Answer::Stalled;
            }
        }
        let mut asked = now;
        if self.upkeep.is_stale(page) {
            self.counters.relocation.redirected += 1;
            asked += self.redirect;
        }
        if !posts {
            if request.dirties() {
                self.upkeep.written(self.now, page);
            }
            let answer = self.device.access(asked, request);
            self.observe(now);
            return answer;
        }
        self.upkeep.written(self.now, page);
        let posted = Waiter { core: POSTED, thread: waiter.core, slot: 0 };
        let answer = self.device.access(asked, Request { waiter: posted, keeps: false, ..request });
        self.observe(now);
        match answer {
            Answer::Stalled => Answer::Stalled,
            _ if self.is_persist(page) => {
                self.counters.durability.durable_writes += 1;
                Answer::Posted(now + self.verified_write)
            }
            _ => Answer::Posted(now + self.posted_write),
        }
    }

    fn flat(&mut self, now: Time, page: PageId) -> Time {
        self.controllers.plain(now, page)
    }

    fn write_back(&mut self, now: Time, request: Request) {
        self.now = self.now.max(now);
        let page = request.page;
        if self.host.mark(page) {
            self.controllers.write(now, page);
        } else if self.look_aside.contains(page) {
            self.in_flight(now, request);
        } else {
            self.upkeep.written(self.now, page);
            self.device.write_back(now, request);
            self.observe(now);
        }
    }

    fn next_event(&self) -> Option<Time> {
        if !self.told.is_empty() {
            return Some(Time::ZERO);
        }
        let arrival = self.arrivals.front().map(|(at, _)| *at);
        let (moved, upkeep) = (self.controllers.next_move(), self.upkeep.next_event());
        earlier(earlier(arrival, moved), earlier(upkeep, self.device.next_event()))
    }

    fn advance(&mut self, now: Time, events: &mut Vec<Event>) {
        self.now = self.now.max(now);
        loop {
            events.append(&mut self.told);
            let Some(at) = self.next_event().filter(|at| *at <= now) else { return };
            if let Some((at, page)) = self.arrivals.pop_front_if(|(due, _)| *due <= at) {
                // Its lines arrived one by one, so the last line is written at its arrival.
                let since = Time::from_ps(at.as_ps().saturating_sub(self.controllers.fill.as_ps()));
                self.controllers.carry(Moved { page, lines: LINES as u64, into: true, since });
            } else if let Some((at, moved)) = self.controllers.pop_moved(at) {
                self.moved(at, moved);
            } else if self.upkeep.next_event().is_some_and(|due| due <= at) {
                self.upkeep.clean(at, &mut self.device, &mut self.counters);
            } else {
                self.device.advance(at, &mut self.device_events);
                self.observe(at);
                self.pass_on(events);
            }
        }
    }

    fn hint(&mut self, now: Time, page: PageId) -> Time {
        if self.host.find(page).is_some() || self.look_aside.contains(page) {
            return now;
        }
        self.device.hint(now, page)
    }

    fn capabilities(&self) -> Capabilities {
        let durable = self.persist.clone();
        Capabilities { byte_addressable: true, durable, ..Capabilities::default() }
    }
}

impl Warm for Promotion {
    fn warm(&mut self, request: Request) {
        let page = request.page;
        if let Some(frame) = self.host.find(page) {
            return self.host.hit(frame, request.dirties());
        }
        let keeps = request.keeps && !self.posts_stores;
        self.device.warm(Request { keeps, ..request });
        for Seen { frame, page, what } in self.device.take_seen() {
            match what {
                Happened::Evicted => self.adaptive.evict(frame),
                Happened::Served { .. } if self.is_persist(page) => {}
                Happened::Served { .. } => {
                    if self.adaptive.access(frame) {
                        self.adaptive.evict(frame);
                        self.counters.promotion.promotions += 1;
                        let dirty = self.device.forget(page).1;
                        let evicted = self.host.bring(page, dirty).1;
                        self.counters.promotion.demotions += u64::from(evicted.is_some());
                        if let Some(victim) = evicted
                            && (victim.dirty || self.write_back == WriteBack::All)
                        {
                            self.device.warm_write_page(victim.page);
                        }
                    }
                }
            }
        }
    }

    fn warm_back(&mut self, request: Request) {
        if !self.host.mark(request.page) {
            self.warm(request);
        }
    }

    fn state(&mut self, archive: &mut Archive<'_>) {
        self.device.state(archive);
        archive.part(&mut self.adaptive);
        self.host.state(archive);
        self.upkeep.state(archive);
    }
}

impl Observe for Promotion {
    fn prefetched(&self) -> Option<&Metrics> {
        self.device.prefetched()
    }

    fn take_counters(&mut self) -> Counters {
        let own = std::mem::take(&mut self.counters);
        let mut counters = self.device.take_counters();
        counters.cache.hits += own.cache.hits;
        let (promoted, demoted) = (own.promotion.promotions, own.promotion.demotions_written);
        counters.traffic.pages_in(promoted, promoted * LINES as u64);
        counters.traffic.pages_out(demoted, demoted * LINES as u64);
        counters.traffic.dram_lines += self.controllers.take_lines();
        let Counters { promotion, durability, relocation, .. } = own;
        Counters { promotion, durability, relocation, ..counters }
    }

    /// Notes only [`Stage::Left`].
    fn keep_notes(&mut self, keep: bool) -> Vec<Noted> {
        let mut notes = self.device.keep_notes(keep);
        let own = std::mem::replace(&mut self.notes, keep.then(Vec::new));
        notes.extend(own.unwrap_or_default());
        notes
    }

    fn flash(&self) -> Option<&Flash> {
        self.device.flash()
    }
}
