//! A small FlatFlash with a clock, for tests access by access.

use ebbtide_core::{LINE_BYTES, PageId, Span, Time};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::{compose, resolve};
use ebbtide_sim::memory_side::{Answer, Event, MemorySide, Request, Waiter};

/// Time of a line in the SSD-Cache.
pub const MMIO_READ: Span = Span::from_ns(4_800);
pub const POSTED_WRITE: Span = Span::from_ns(600);
pub const FLASH: Span = Span::from_us(20);
pub const MOVE: Span = Span::from_ns(12_100);
pub const MAP: Span = Span::from_ns(1_400);

/// A small machine: four frames of host DRAM, an SSD-Cache of 16 in sets of four.
pub fn config(overrides: &[(&str, &str)]) -> Config {
    let small = [
        ("dataset.size", "1MiB"),
        ("dram_cache.size", "64KiB"),
        ("dram_cache.ways", "4"),
        ("promotion.size", "16KiB"),
        ("dram.controllers", "1"),
    ];
    resolve("flatflash", &[&small, overrides].concat()).unwrap()
}

/// An access to a line of `page`.
pub fn request(page: u64, line: u64, write: bool) -> Request {
    let at = PageId(page).start() + line * LINE_BYTES as u64;
    Request::new(at, write, Waiter { core: 3, thread: 0, slot: 0 })
}

/// A memory at a point in time, with its events.
pub struct Driven {
    pub memory: Box<dyn MemorySide>,
    pub now: Time,
    pub events: Vec<Event>,
}

impl Driven {
    pub fn new(overrides: &[(&str, &str)]) -> Driven {
        let memory = compose(&config(overrides)).unwrap().memory_side;
        Driven { memory, now: Time::from_ns(1_000_000), events: Vec::new() }
    }

    pub fn access(&mut self, page: u64, line: u64, write: bool) -> Answer {
        let answer = self.memory.access(self.now, request(page, line, write));
        // The events that an access starts are due at once.
        self.pass(Span::ZERO);
        answer
    }

    pub fn read(&mut self, page: u64, line: u64) -> Answer {
        self.access(page, line, false)
    }

    pub fn write(&mut self, page: u64, line: u64) -> Answer {
        self.access(page, line, true)
    }

    pub fn pass(&mut self, span: Span) {
        self.now += span;
        self.memory.advance(self.now, &mut self.events);
    }

    /// Reads line 0 of `page` from the SSD-Cache, until the seventh access promotes the page.
    pub fn promote(&mut self, page: u64) {
        self.memory.warm(request(page, 0, false));
        (0..6).for_each(|_| assert!(self.waits_for_ssd(page, 0)));
    }

    /// Whether a read of this line waits for the SSD.
    pub fn waits_for_ssd(&mut self, page: u64, line: u64) -> bool {
        match self.read(page, line) {
            Answer::Hit(ready) => ready - self.now >= MMIO_READ,
            answer => panic!("page {page} is not at hand: {answer:?}"),
        }
    }

    pub fn unmapped(&self, page: u64) -> bool {
        self.events.contains(&Event::Unmapped(PageId(page)))
    }
}
