//! [`SoftwareCache`]: a DRAM cache managed by software, with costs measured on a machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ebbtide_core::prefetch::{Demand, Metrics, PrefetcherKind, Prefetching, Preset};
use ebbtide_core::replacement::{Admission, PolicyKind};
use ebbtide_core::{Bytes, FrameId, PAGE_BYTES, PageId, Span, Time};

use super::ahead::Ahead;
use super::counters::{Counters, TrafficCounters};
use super::paged::{Found, Paged};
use super::residency::{Residency, Victim};
use super::{Answer, Capabilities, Event, MemorySide, Observe, Request, Warm};
use crate::config::{Config, ConfigError};

/// Parameters and costs of a [`SoftwareCache`].
#[derive(Debug, Clone, PartialEq)]
pub struct SoftwareCosts {
    /// Number of frames. The cache is fully associative.
    pub frames: u64,
    /// The replacement policy.
    pub policy: PolicyKind,
    /// The admission of pages to the policy.
    pub admission: Admission,
    /// The prefetcher, as its own paper defines it.
    pub prefetcher: PrefetcherKind,
    /// Whether announced pages are fetched.
    pub hints: bool,
    /// The most pages in flight ahead of demand.
    pub ahead_max: u64,
    /// Core time of a miss: software and kernel, submission and completion. A page fetched ahead of
    /// demand costs as much (assumption).
    pub miss: Span,
    /// Core time of writing back a page.
    pub write_back: Span,
    /// Pages of one write, at least 1. A write takes as long as a read (assumption).
    pub pages_per_write: f64,
    /// Mean time of a transfer by the number in flight, ascending. At least one entry.
    pub transfers: Vec<(u32, Span)>,
    /// The most reads in flight.
    pub in_flight_max: usize,
}

impl SoftwareCosts {
    /// Time of a transfer while `in_flight` transfers are in flight. Beyond the deepest measured
    /// point the device's throughput is constant, so the time grows in proportion.
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

/// DRAM whose pages are managed by software: Ebbtide's engine, its blocking variant, or a paging
/// kernel, each by its measured costs.
pub struct SoftwareCache {
    pages: Paged,
    costs: SoftwareCosts,
    ahead: Ahead,
    /// When each transfer in flight ends, with the page if it is a read.
    in_flight: BinaryHeap<Reverse<(Time, Option<PageId>)>>,
    /// Dirty pages that were evicted and wait for a write.
    unsent: f64,
    /// Pages that left since the last `take_left`.
    left: Vec<PageId>,
}

impl SoftwareCache {
    /// An empty cache, with the DRAM timing and data of `config`.
    ///
    /// # Errors
    /// [`ConfigError`] when there is no frame.
    ///
    /// # Panics
    /// When `costs.transfers` is empty.
    pub fn new(config: &Config, costs: SoftwareCosts) -> Result<SoftwareCache, ConfigError> {
        assert!(!costs.transfers.is_empty(), "a transfer time is given");
        let mut own = config.clone();
        own.dram_cache.size = Bytes(costs.frames * PAGE_BYTES as u64);
        own.dram_cache.ways = 0;
        let pages = config.dataset.size.0.div_ceil(PAGE_BYTES as u64);
        let prefetcher = costs.prefetcher.build(Preset::Original, pages);
        let residency = Residency::admitting(&own, costs.policy, costs.admission)?;
        Ok(SoftwareCache {
            ahead: Ahead::new(
                Prefetching::new(prefetcher, pages),
                residency.frames(),
                costs.ahead_max,
            ),
            pages: Paged::new(config, residency, costs.in_flight_max),
            costs,
            in_flight: BinaryHeap::new(),
            unsent: 0.0,
            left: Vec::new(),
        })
    }

    fn send(&mut self, now: Time, page: Option<PageId>) {
        let takes = self.costs.transfer(self.in_flight.len() + 1);
        self.in_flight.push(Reverse((now + takes, page)));
    }

    /// Reads `page` into `frame`, which held `victim`. Returns when the core has done its part.
    fn fetch(
        &mut self,
        now: Time,
        page: PageId,
        frame: FrameId,
        victim: Option<Victim>,
        ahead: bool,
    ) -> Time {
        let mut asked = now + self.costs.miss;
        if let Some(victim) = victim {
            self.ahead.evicted(frame, victim.page, ahead);
            self.left.push(victim.page);
            if victim.dirty {
                asked += self.costs.write_back;
                self.unsent += 1.0;
                if self.unsent >= self.costs.pages_per_write {
                    self.unsent -= self.costs.pages_per_write;
                    self.send(asked, None);
                }
            }
        }
        self.send(asked, Some(page));
        asked
    }

    /// Fetches `page` ahead of demand, if there is a frame. Returns until when that keeps the core
    /// busy.
    fn fetch_ahead(&mut self, now: Time, page: PageId) -> Time {
        let Some((frame, victim)) = self.pages.reserve(page, false) else { return now };
        let asked = self.fetch(now, page, frame, victim, true);
        self.ahead.issued(page);
        asked
    }

    /// Prefetches after an access to `page` whose outcome was `demand`. Returns until when that
    /// keeps the core busy.
    fn look_ahead(&mut self, now: Time, page: PageId, demand: Demand) -> Time {
        let pages = &self.pages;
        let known = |page| pages.is_known(page);
        let wanted = self.ahead.wanted(page, demand, u64::MAX, known);
        wanted.into_iter().fold(now, |now, page| self.fetch_ahead(now, page))
    }
}

impl MemorySide for SoftwareCache {
    fn access(&mut self, now: Time, request: Request) -> Answer {
        let page = request.page;
        match self.pages.access(request) {
            Found::Hit(frame) => {
                // Software notices the first use of a prefetched page, and no later hit.
                let first = self.ahead.hit(frame).filter(|demand| demand.is_first_use());
                let after = first.map(|demand| self.look_ahead(now, page, demand));
                let ready = self.pages.controllers.plain(after.unwrap_or(now), page);
                after.map_or(Answer::Hit(ready), |_| Answer::Posted(ready))
            }
            Found::Merged => Answer::Miss(now),
            Found::Ahead => Answer::Miss(self.look_ahead(now, page, Demand::Late)),
            Found::Stalled => Answer::Stalled,
            Found::Absent(frame, victim) => {
                let asked = self.fetch(now, page, frame, victim, false);
                Answer::Miss(self.look_ahead(asked, page, Demand::Miss))
            }
        }
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

    fn next_event(&self) -> Option<Time> {
        self.in_flight.peek().map(|Reverse((at, _))| *at)
    }

    fn advance(&mut self, now: Time, events: &mut Vec<Event>) {
        while let Some(&Reverse((at, page))) = self.in_flight.peek()
            && at <= now
        {
            self.in_flight.pop();
            let Some(page) = page else { continue };
            let (frame, _) = self.pages.install(page);
            let prefetched = self.ahead.arrived(page);
            let awaited = self.pages.wake(page, at, events);
            self.ahead.installed(frame, prefetched, awaited);
        }
    }

    fn capabilities(&self) -> Capabilities {
        // A miss is a branch of the program: nothing after it continues.
        Capabilities { faults: true, ..Capabilities::default() }
    }

    fn hint(&mut self, now: Time, page: PageId) -> Time {
        if self.costs.hints && !self.pages.is_known(page) && self.ahead.places(u64::MAX) > 0 {
            self.fetch_ahead(now, page)
        } else {
            now
        }
    }
}

impl Warm for SoftwareCache {
    fn warm(&mut self, request: Request) {
        self.pages.warm(request);
    }

    fn warm_back(&mut self, _request: Request) {}
}

impl Observe for SoftwareCache {
    fn prefetched(&self) -> Option<&Metrics> {
        Some(self.ahead.metrics())
    }

    fn take_counters(&mut self) -> Counters {
        self.pages.take_counters(TrafficCounters::default())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Waiter;
    use super::*;
    use crate::designs::resolve;

    fn costs() -> SoftwareCosts {
        SoftwareCosts {
            frames: 2,
            policy: PolicyKind::Fifo,
            admission: Admission::Always,
            prefetcher: PrefetcherKind::None,
            hints: true,
            ahead_max: 4,
            miss: Span::from_us(3),
            write_back: Span::from_us(5),
            pages_per_write: 1.0,
            transfers: vec![(1, Span::from_us(60)), (3, Span::from_us(100))],
            in_flight_max: 8,
        }
    }

    fn cache() -> SoftwareCache {
        cache_of(costs())
    }

    fn cache_of(costs: SoftwareCosts) -> SoftwareCache {
        let config = resolve("astriflash", &[]).expect("it is shipped").scaled(1, 64);
        SoftwareCache::new(&config, costs).expect("it has frames")
    }

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    fn request(page: u64, write: bool) -> Request {
        Request::new(PageId(page).start(), write, Waiter { core: 0, thread: page as u32, slot: 0 })
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
        // Page 1, which was written, is evicted, then page 2, which was not.
        assert_eq!(cache.access(at(200), request(3, false)), Answer::Miss(at(208)));
        cache.advance(at(400), &mut events);
        assert_eq!(cache.access(at(400), request(4, false)), Answer::Miss(at(403)));
        let counters = cache.take_counters();
        assert_eq!((counters.cache.misses, counters.cache.hits_under_miss), (4, 1));
        assert_eq!((counters.cache.evictions_dirty, counters.cache.evictions_clean), (1, 1));
    }

    #[test]
    fn a_write_carries_several_pages() {
        let costs = SoftwareCosts { pages_per_write: 1.5, ..costs() };
        let (mut cache, mut events) = (cache_of(costs), Vec::new());
        let mut writes_under_way = Vec::new();
        for page in 0..5 {
            cache.access(at(1_000 * page), request(page, true));
            let writes = cache.in_flight.iter().filter(|Reverse((_, page))| page.is_none()).count();
            writes_under_way.push(writes);
            cache.advance(at(1_000 * page + 900), &mut events);
        }
        // The first two found free frames. Of the others, the second and the third completed a
        // write.
        assert_eq!(writes_under_way, [0, 0, 0, 1, 1]);
        assert_eq!(cache.take_counters().cache.evictions_dirty, 3);
    }

    #[test]
    fn a_hinted_page_costs_its_core_what_a_miss_does_and_is_then_a_hit() {
        let (mut cache, mut events) = (cache(), Vec::new());
        assert_eq!(cache.hint(at(0), PageId(1)), at(3));
        assert_eq!(cache.hint(at(3), PageId(1)), at(3), "it is on its way");
        // An access before its arrival waits for it, and starts no read.
        assert_eq!(cache.access(at(10), request(1, false)), Answer::Miss(at(10)));
        cache.advance(at(63), &mut events);
        assert_eq!(events.len(), 1);
        assert!(matches!(cache.access(at(70), request(1, false)), Answer::Hit(_)));
        let counters = cache.take_counters();
        assert_eq!(
            (counters.cache.misses, counters.cache.hits_under_miss, counters.cache.hits),
            (0, 1, 1)
        );
        let deaf = SoftwareCosts { hints: false, ..costs() };
        assert_eq!(cache_of(deaf).hint(at(0), PageId(1)), at(0));
    }

    #[test]
    fn a_prefetcher_runs_ahead_of_misses_and_first_uses() {
        let prefetcher = PrefetcherKind::NextNLine;
        let mut cache = cache_of(SoftwareCosts { frames: 64, prefetcher, ..costs() });
        let mut events = Vec::new();
        let Answer::Miss(asked) = cache.access(at(0), request(0, false)) else {
            panic!("nothing is there yet")
        };
        let issued = |cache: &SoftwareCache| cache.ahead.metrics().issued;
        let first = issued(&cache);
        assert!(first > 0 && asked == at(3 * (1 + first)), "{first} pages, {asked:?}");
        let ahead: Vec<u64> = (1..64).filter(|page| cache.pages.is_known(PageId(*page))).collect();
        cache.advance(at(1_000), &mut events);
        let used = cache.access(at(1_000), request(ahead[0], false));
        assert!(matches!(used, Answer::Posted(until) if until > at(1_003)), "{used:?}");
        assert!(issued(&cache) > first, "its first use fetches more");
        assert!(matches!(cache.access(at(2_000), request(ahead[0], false)), Answer::Hit(_)));
        assert_eq!(cache.take_counters().cache.misses, 1);
    }
}
