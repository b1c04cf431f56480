//! [`Paging`]: the operating system pages between DRAM and flash (OS-Swap, UnifiedMMap,
//! TraditionalStack).

use ebbtide_core::{Archive, PAGE_BYTES, PageId, Span, Time};
use ebbtide_flash::Flash;

use super::device::Device;
use super::fetch::{Ended, Fetch};
use super::free_frames::FreeFrames;
use super::paged::{Found, Paged};
use super::read_ahead::{ReadAhead, Wanted};
use super::residency::{Residency, Victim};
use super::{
    Answer, Capabilities, Counters, Event, MemorySide, Noted, Observe, Request, Stage, Warm,
};
use crate::config::{Config, ConfigError, require};

/// DRAM that the operating system manages.
///
/// A fault costs its core `os.fault_us + os.io_us`. Then the read starts, and the page is mapped
/// `os.install_ns` after flash has answered. Evicted pages are unmapped in batches. Each batch is a
/// broadcast that the faulting core waits for and that interrupts the others.
///
/// The kernel reclaims pages ahead of faults and keeps `os.free_pages` frames free. The frame of a
/// dirty page is free once the page has been written, so a fault that finds no free frame waits.
///
/// With `os.read_ahead` the data is a mapped file. One request reads the pages around the faulting
/// page, and they become the most recently used. A fault on a cached page costs
/// `os.minor_fault_ns`.
pub struct Paging {
    pages: Paged,
    fetch: Fetch,
    fault: Span,
    io: Span,
    shootdown: Span,
    batch: usize,
    unmapped: usize,
    free: FreeFrames,
    ahead: Option<ReadAhead>,
    minor: Span,
    /// Events between calls of `advance`.
    told: Vec<Event>,
    /// Pages that left since the last `take_left`.
    left: Vec<PageId>,
}

impl Paging {
    /// Paging with `config.dram_cache.size` of DRAM.
    ///
    /// # Errors
    /// [`ConfigError`] when it cannot be built as described.
    pub fn new(config: &Config) -> Result<Paging, ConfigError> {
        let (os, mshr) = (&config.os, config.dram_cache.mshr);
        require(mshr > 0, "dram_cache.mshr", 0, "at least 1")?;
        let shootdown_ps = os.shootdown_us * 1_000_000 * config.cores.count as u64;
        Ok(Paging {
            pages: Paged::new(config, Residency::new(config)?, mshr),
            fetch: Fetch::new(Device::new(config)?, Span::from_ns(os.install_ns)),
            fault: Span::from_us(os.fault_us),
            io: Span::from_us(os.io_us),
            shootdown: Span::from_ps(shootdown_ps / os.shootdown_cores as u64),
            batch: os.shootdown_batch,
            unmapped: 0,
            free: FreeFrames::new(os.free_pages),
            ahead: ReadAhead::new(os, config.dataset.size.0 / PAGE_BYTES as u64),
            minor: Span::from_ns(os.minor_fault_ns),
            told: Vec::new(),
            left: Vec::new(),
        })
    }
}

impl Paging {
    /// Frees a frame at `now` for a fault of `core`. Unmaps `victim`, its page. A dirty page is
    /// written by a request that takes `io`. Returns the time that unmapping costs the core.
    fn reclaim(&mut self, now: Time, core: u32, victim: Option<Victim>, io: Span) -> Span {
        let Some(victim) = victim else {
            self.free.give();
            return Span::ZERO;
        };
        let cost = self.unmap(now, core, victim);
        match victim.dirty {
            true => self.fetch.write(now + cost + io, victim.page, &mut self.pages.controllers),
            false => self.free.give(),
        }
        cost
    }

    /// Unmaps `victim` at `now` for a fault of `core`. Returns the time that it costs the core.
    fn unmap(&mut self, now: Time, core: u32, victim: Victim) -> Span {
        self.fetch.device.note(victim.page, Stage::Left, now);
        if let Some(ahead) = &mut self.ahead {
            ahead.forget(victim.page);
        }
        self.told.push(Event::Unmapped(victim.page));
        self.left.push(victim.page);
        self.unmapped += 1;
        if self.unmapped < self.batch {
            return Span::ZERO;
        }
        self.unmapped = 0;
        self.told.push(Event::Interrupted(Some(core)));
        self.shootdown
    }

    /// Reads the pages of `wanted` at `at`, in their order, with one request of `core`. `missed`,
    /// one of them, already has its frame. Returns when the core has sent the request.
    fn read(&mut self, mut at: Time, core: u32, wanted: Wanted, missed: Option<PageId>) -> Time {
        at += self.io;
        let mut pages = Vec::with_capacity((wanted.pages.end - wanted.pages.start) as usize);
        for page in wanted.pages.map(PageId) {
            if Some(page) == missed {
                pages.push(page);
                continue;
            }
            if self.pages.is_known(page) {
                continue;
            }
            let Some((_, victim)) = self.pages.reserve(page, false) else { continue };
            self.pages.counters.read_ahead += 1;
            at += self.reclaim(at, core, victim, Span::ZERO);
            if let Some(ahead) = &mut self.ahead {
                ahead.reads(page, page.0 == wanted.marked);
            }
            pages.push(page);
        }
        for page in pages {
            if self.free.take(at, page) {
                self.fetch.device.read(at, page);
            }
        }
        at
    }

    /// Handles a fault of `request` on a page that is cached or in flight. The kernel has found it
    /// at `at`. Returns when the core has sent the request for read-ahead.
    fn found(&mut self, at: Time, request: Request) -> Time {
        let Paging { ahead: Some(ahead), pages, .. } = self else { return at };
        let cached = |page| pages.residency.find(page).is_some();
        let known = |page| pages.is_known(page);
        match ahead.cached(request.page, request.write, cached, known) {
            Some(wanted) => self.read(at, request.waiter.core, wanted, None),
            None => at,
        }
    }

    fn faults(&self, page: PageId) -> bool {
        self.ahead.as_ref().is_some_and(|ahead| ahead.faults(page))
    }
}

impl MemorySide for Paging {
    fn access(&mut self, now: Time, request: Request) -> Answer {
        let (page, core) = (request.page, request.waiter.core);
        let victim = match self.pages.access(request) {
            Found::Hit(_) if self.faults(page) => {
                let mapped = self.found(now + self.minor, request);
                return Answer::Hit(self.flat(mapped, page));
            }
            Found::Hit(_) => return Answer::Hit(self.flat(now, page)),
            Found::Merged | Found::Ahead => {
                return Answer::Miss(self.found(now + self.fault, request));
            }
            Found::Stalled => return Answer::Stalled,
            Found::Absent(_, victim) => victim,
        };
        let found = now + self.fault;
        let asked = found + self.reclaim(found, core, victim, self.io);
        let alone = Wanted { pages: page.0..page.0 + 1, marked: u64::MAX };
        let wanted = self.ahead.as_mut().map_or(alone, |ahead| ahead.absent(page));
        Answer::Miss(self.read(asked, core, wanted, Some(page)))
    }

    fn flat(&mut self, now: Time, page: PageId) -> Time {
        self.pages.controllers.plain(now, page)
    }

    fn write_back(&mut self, now: Time, request: Request) {
        // Its page is dirty since the store.
        self.pages.controllers.write(now, request.page);
    }

    fn dirtied(&mut self, page: PageId) {
        self.pages.dirtied(page);
    }

    fn take_left(&mut self, left: &mut Vec<PageId>) {
        left.append(&mut self.left);
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { faults: true, ..Capabilities::default() }
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
                Ended::Install(page) => {
                    self.pages.install(page);
                    let awaited = self.pages.wake(page, at, events);
                    if let (true, Some(ahead)) = (awaited, &mut self.ahead) {
                        ahead.forget(page);
                    }
                }
                Ended::WriteBack(_) => {
                    if let Some((asked, page)) = self.free.give_to_waiting() {
                        self.fetch.device.read(at.max(asked), page);
                    }
                }
            }
        }
    }
}

impl Warm for Paging {
    fn warm(&mut self, request: Request) {
        let Request { page, write, .. } = request;
        let Paging { ahead: Some(ahead), pages, left, .. } = self else {
            let here = self.pages.residency.find(page).is_some();
            if here {
                return self.pages.warm(request);
            }
            self.pages.counters.misses += 1;
            let victim = self.pages.residency.bring(page, write).1;
            self.pages.counters.evicted(victim);
            self.left.extend(victim.map(|victim| victim.page));
            return;
        };
        let here = |page| pages.residency.find(page).is_some();
        let wanted = if here(page) {
            let faults = ahead.faults(page);
            let wanted = faults.then(|| ahead.cached(page, write, here, here)).flatten();
            pages.warm(request);
            wanted
        } else {
            pages.counters.misses += 1;
            Some(ahead.absent(page))
        };
        let Some(Wanted { pages: wanted, marked }) = wanted else { return };
        for next in wanted.map(PageId) {
            if pages.residency.find(next).is_some() {
                continue;
            }
            let victim = pages.residency.bring(next, write && next == page).1;
            pages.counters.evicted(victim);
            if let Some(victim) = victim {
                ahead.forget(victim.page);
                left.push(victim.page);
            }
            if next != page {
                pages.counters.read_ahead += 1;
                ahead.reads(next, next.0 == marked);
            }
        }
    }

    fn warm_back(&mut self, _request: Request) {}

    fn state(&mut self, archive: &mut Archive<'_>) {
        self.pages.residency.state(archive);
        // A kernel marks pages as dirty at other times than hardware does. Hardware memories have
        // no such part.
        archive.part(&mut self.pages.owed);
        if let Some(ahead) = &mut self.ahead {
            archive.part(ahead);
        }
    }
}

impl Observe for Paging {
    fn take_counters(&mut self) -> Counters {
        self.pages.take_counters(self.fetch.device.take_traffic())
    }

    fn keep_notes(&mut self, keep: bool) -> Vec<Noted> {
        self.fetch.device.keep_notes(keep)
    }

    fn flash(&self) -> Option<&Flash> {
        Some(self.fetch.device.flash())
    }
}
