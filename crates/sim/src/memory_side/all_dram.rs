//! [`AllDram`]: all data is in DRAM.

use ebbtide_core::{Archive, PageId, Time};

use super::dram::Controllers;
use super::{Answer, Counters, Event, MemorySide, Observe, Request, Warm};
use crate::config::Config;

/// DRAM without tags and without misses.
pub struct AllDram {
    controllers: Controllers,
    hits: u64,
}

impl AllDram {
    /// As much DRAM as there is data.
    pub fn new(config: &Config) -> AllDram {
        AllDram { controllers: Controllers::new(config), hits: 0 }
    }
}

impl MemorySide for AllDram {
    fn access(&mut self, now: Time, request: Request) -> Answer {
        self.hits += 1;
        Answer::Hit(self.controllers.plain(now, request.page))
    }

    fn flat(&mut self, now: Time, page: PageId) -> Time {
        self.controllers.plain(now, page)
    }

    fn write_back(&mut self, now: Time, request: Request) {
        self.controllers.write(now, request.page);
    }

    fn next_event(&self) -> Option<Time> {
        None
    }

    fn advance(&mut self, _now: Time, _events: &mut Vec<Event>) {}
}

impl Warm for AllDram {
    fn warm(&mut self, _request: Request) {}

    fn warm_back(&mut self, _request: Request) {}

    /// A warm-up changes nothing here.
    fn state(&mut self, _archive: &mut Archive<'_>) {}
}

impl Observe for AllDram {
    fn take_counters(&mut self) -> Counters {
        let mut counters = Counters::default();
        counters.cache.hits = std::mem::take(&mut self.hits);
        counters.traffic.dram_lines = self.controllers.take_lines();
        counters
    }
}
