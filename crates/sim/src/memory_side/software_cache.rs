//! [`SoftwareCache`]: a DRAM cache that software keeps, on a machine whose costs were measured.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::{Begin, FrameId, MissTable, PAGE_BYTES, PageId, Span, Time};
use ebbtide_flash::Flash;
use rustc_hash::FxHashMap;

use super::dram::Controllers;
use super::residency::Residency;
use super::{Answer, Counters, Event, MemorySide, Request, Waiter};
use crate::config::{Config, ConfigError, Size};

/// What a [`SoftwareCache`] is and costs.
#[derive(Debug, Clone, PartialEq)]
pub struct SoftwareCosts {
    /// Frames, fully associative.
    pub frames: u64,
    /// Who goes.
    pub policy: PolicyKind,
    /// Core time of a miss: software and kernel, submission and completion.
    pub miss: Span,
    /// Core time of a written page on its way out.
    pub write_back: Span,
    /// Mean time of a transfer by how many are in flight; ascending, at least one.
    pub transfers: Vec<(u32, Span)>,
    /// The most reads in flight.
    pub in_flight_max: usize,
}

impl SoftwareCosts {
    /// How long a transfer takes as one of `in_flight`. Beyond the deepest that was measured the
    /// device does no more a second, so that time grows in proportion.
    fn transfer(&self, in_flight: usize) -> Span {
        let depth = in_flight.max(1) as f64;
        let ps = |span: Span| span.as_ps() as f64;
        let above = self.transfers.iter().position(|(at, _)| f64::from(*at) >= depth);
        let taken = match above {
            Some(0) => ps(self.transfers[0].1),
            Some(above) => {
                let ((low, short), (high, long)) =
                    (self.transfers[above - 1], self.transfers[above]);
                let share = (depth - f64::from(low)) / f64::from(high - low);
                ps(short) + share * (ps(long) - ps(short))
            }
            None => {
                let (deepest, long) = self.transfers[self.transfers.len() - 1];
                ps(long) * depth / f64::from(deepest)
            }
        };
        Span::from_ps(taken as u64)
    }
}

/// DRAM that software keeps pages in: Ebbtide's engine, its blocking variant, or a paging kernel, by
/// what each was measured to cost.
pub struct SoftwareCache {
    controllers: Controllers,
    residency: Residency,
    misses: MissTable<Waiter>,
    costs: SoftwareCosts,
    frames: FxHashMap<PageId, (FrameId, bool)>,
    /// When what is in flight ends: the page of a read, nothing of a write.
    in_flight: BinaryHeap<Reverse<(Time, Option<PageId>)>>,
    stalled: Vec<Waiter>,
    counters: Counters,
}

impl SoftwareCache {
    /// An empty one; DRAM and data are those of `config`.
    ///
    /// # Errors
    /// [`ConfigError`] when there is no frame.
    ///
    /// # Panics
    /// When no transfer time is given.
    pub fn new(config: &Config, costs: SoftwareCosts) -> Result<SoftwareCache, ConfigError> {
        assert!(!costs.transfers.is_empty(), "transfers take a time");
        let mut own = config.clone();
        own.dram_cache.size = Size(costs.frames * PAGE_BYTES as u64);
        own.dram_cache.ways = 0;
        own.dram_cache.policy = costs.policy.name().to_string();
        Ok(SoftwareCache {
            controllers: Controllers::new(config),
            residency: Residency::new(&own)?,
            misses: MissTable::new(costs.in_flight_max, usize::MAX),
            costs,
            frames: FxHashMap::default(),
            in_flight: BinaryHeap::new(),
            stalled: Vec::new(),
            counters: Counters::default(),
        })
    }

    fn send(&mut self, now: Time, page: Option<PageId>) {
        let takes = self.costs.transfer(self.in_flight.len() + 1);
        self.in_flight.push(Reverse((now + takes, page)));
    }
}

impl MemorySide for SoftwareCache {
    fn access(&mut self, now: Time, request: Request) -> Answer {
        let Request { page, write, waiter, .. } = request;
        if let Some(frame) = self.residency.find(page) {
            self.counters.hits += 1;
            self.residency.hit(frame, write);
            let controller = self.controllers.of(page);
            return Answer::Hit(self.controllers.plain(now, controller));
        }
        if self.misses.contains(page) {
            self.misses.begin(page, waiter);
            self.counters.hits_under_miss += 1;
            return Answer::Miss(now);
        }
        let room = self.misses.len() < self.costs.in_flight_max;
        let Some((frame, victim)) = room.then(|| self.residency.reserve(page)).flatten() else {
            self.counters.stalls += 1;
            self.stalled.push(waiter);
            return Answer::Stalled;
        };
        let begun = self.misses.begin(page, waiter);
        debug_assert_eq!(begun, Begin::Started);
        self.frames.insert(page, (frame, write));
        self.counters.misses += 1;
        self.counters.in_flight_peak = self.counters.in_flight_peak.max(self.misses.len() as u64);
        self.counters.evicted(victim);
        let mut asked = now + self.costs.miss;
        if victim.is_some_and(|victim| victim.dirty) {
            asked += self.costs.write_back;
            self.send(asked, None);
        }
        self.send(asked, Some(page));
        Answer::Miss(asked)
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
        self.in_flight.peek().map(|Reverse((at, _))| *at)
    }

    fn advance(&mut self, now: Time, events: &mut Vec<Event>) {
        while let Some(&Reverse((at, page))) = self.in_flight.peek()
            && at <= now
        {
            self.in_flight.pop();
            let Some(page) = page else { continue };
            let (frame, write) = self.frames.remove(&page).expect("it was asked for");
            self.residency.install(frame, page, write);
            self.misses.complete(page, |waiter| events.push(Event::Arrived(waiter, at)));
            events.extend(self.stalled.drain(..).map(|waiter| Event::Unstalled(waiter, at)));
        }
    }

    fn warm(&mut self, page: PageId, write: bool) {
        self.residency.warm(page, write, &mut self.counters);
    }

    fn take_counters(&mut self) -> Counters {
        let dram_lines = self.controllers.take_lines();
        Counters { dram_lines, ..std::mem::take(&mut self.counters) }
    }

    fn flash(&self) -> Option<&Flash> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::resolve;

    fn costs() -> SoftwareCosts {
        SoftwareCosts {
            frames: 2,
            policy: PolicyKind::Fifo,
            miss: Span::from_us(3),
            write_back: Span::from_us(5),
            transfers: vec![(1, Span::from_us(60)), (3, Span::from_us(100))],
            in_flight_max: 8,
        }
    }

    fn cache() -> SoftwareCache {
        let config = resolve("astriflash", &[]).expect("it is shipped").scaled(1, 64);
        SoftwareCache::new(&config, costs()).expect("it has frames")
    }

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    fn request(page: u64, write: bool) -> Request {
        Request::new(PageId(page).start(), write, Waiter { core: 0, thread: page as u32 })
    }

    #[test]
    fn transfers_slow_down_as_more_are_in_flight() {
        let us = |in_flight| costs().transfer(in_flight).as_ns() as f64 / 1e3;
        assert_eq!([us(0), us(1), us(2), us(3), us(6)], [60.0, 60.0, 80.0, 100.0, 200.0]);
    }

    #[test]
    fn a_miss_costs_core_time_and_a_dirty_victim_more() {
        let (mut cache, mut events) = (cache(), Vec::new());
        assert_eq!(cache.access(at(0), request(1, true)), Answer::Miss(at(3)));
        assert_eq!(cache.access(at(0), request(1, false)), Answer::Miss(at(0)));
        assert_eq!(cache.next_event(), Some(at(63)));
        cache.advance(at(63), &mut events);
        assert_eq!(events.len(), 2, "both waiters are told: {events:?}");
        cache.access(at(100), request(2, false));
        cache.advance(at(200), &mut events);
        // Page 1 goes, which was written, then page 2, which was not.
        assert_eq!(cache.access(at(200), request(3, false)), Answer::Miss(at(208)));
        cache.advance(at(400), &mut events);
        assert_eq!(cache.access(at(400), request(4, false)), Answer::Miss(at(403)));
        let counters = cache.take_counters();
        assert_eq!((counters.misses, counters.hits_under_miss), (4, 1));
        assert_eq!((counters.evictions_dirty, counters.evictions_clean), (1, 1));
    }
}
