//! [`Paging`]: the operating system pages between DRAM and flash (OS-Swap, UnifiedMMap,
//! TraditionalStack).

use ebbtide_core::{PageId, Span, Time};
use ebbtide_flash::Flash;

use super::device::Device;
use super::fetch::{Ended, Fetch};
use super::paged::{Found, Paged};
use super::residency::Residency;
use super::{Answer, Capabilities, Counters, Event, MemorySide, Noted, Observe, Request, Warm};
use crate::config::{Config, ConfigError, require};

/// DRAM that the operating system manages.
///
/// A fault costs its core `os.fault_us + os.io_us`. Then the read starts, and the page is mapped
/// `os.install_ns` after flash has answered. Evicted pages are unmapped in batches. Each batch is a
/// broadcast that the faulting core waits for and that interrupts the others.
pub struct Paging {
    pages: Paged,
    fetch: Fetch,
    fault: Span,
    io: Span,
    install: Span,
    shootdown: Span,
    batch: usize,
    unmapped: usize,
    /// Events between calls of `advance`.
    told: Vec<Event>,
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
            fetch: Fetch::new(Device::new(config)?),
            fault: Span::from_us(os.fault_us),
            io: Span::from_us(os.io_us),
            install: Span::from_ns(os.install_ns),
            shootdown: Span::from_ps(shootdown_ps / os.shootdown_cores as u64),
            batch: os.shootdown_batch,
            unmapped: 0,
            told: Vec::new(),
        })
    }
}

impl MemorySide for Paging {
    fn access(&mut self, now: Time, request: Request) -> Answer {
        let (page, core) = (request.page, request.waiter.core);
        let victim = match self.pages.access(request) {
            Found::Hit(_) => return Answer::Hit(self.flat(now, page)),
            Found::Merged | Found::Ahead => return Answer::Miss(now + self.fault),
            Found::Stalled => return Answer::Stalled,
            Found::Absent(_, victim) => victim,
        };
        let mut software = self.fault + self.io;
        if let Some(victim) = victim {
            self.told.push(Event::Unmapped(victim.page));
            self.unmapped += 1;
            if self.unmapped == self.batch {
                self.unmapped = 0;
                software = software + self.shootdown;
                self.told.push(Event::Interrupted(Some(core)));
            }
            if victim.dirty {
                self.fetch.device.write(now + software, victim.page);
            }
        }
        self.fetch.device.read(now + software, page);
        Answer::Miss(now + software)
    }

    fn flat(&mut self, now: Time, page: PageId) -> Time {
        self.pages.controllers.plain(now, page)
    }

    fn dirtied(&mut self, page: PageId) {
        self.pages.dirtied(page);
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { faults: true, ..Capabilities::default() }
    }

    fn next_event(&self) -> Option<Time> {
        if self.told.is_empty() { self.fetch.next_event() } else { Some(Time::ZERO) }
    }

    fn advance(&mut self, now: Time, events: &mut Vec<Event>) {
        events.append(&mut self.told);
        while let Some((at, ended)) = self.fetch.step(now, |_| self.install) {
            if let Ended::Install(page) = ended {
                self.pages.install(page);
                self.pages.wake(page, at, events);
            }
        }
    }
}

impl Warm for Paging {
    fn warm(&mut self, request: Request) {
        self.pages.warm(request);
    }

    fn residency(&mut self) -> Option<&mut Residency> {
        Some(&mut self.pages.residency)
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
