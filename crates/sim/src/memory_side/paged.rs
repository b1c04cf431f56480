//! [`Paged`]: DRAM that caches pages, with the pages in flight to it.

use ebbtide_core::{FrameId, PageId, Time};
use rustc_hash::{FxHashMap, FxHashSet};

use super::counters::{CacheCounters, Counters, TrafficCounters};
use super::dram::Controllers;
use super::miss_table::{Begin, MissTable};
use super::residency::{Residency, Victim};
use super::{Event, Request, Waiter};
use crate::config::Config;

/// The parts of every cache of pages in host DRAM: frames, a miss table, waiters and counters. The
/// memory around it decides the cost of a miss and the arrival of a page.
pub(super) struct Paged {
    pub(super) controllers: Controllers,
    pub(super) residency: Residency,
    pub(super) counters: CacheCounters,
    misses: MissTable<Waiter>,
    arriving: FxHashMap<PageId, Arriving>,
    stalled: Vec<Waiter>,
    /// Absent pages that were written. They are dirty when they arrive again.
    pub(super) owed: FxHashSet<PageId>,
}

/// A page in flight.
struct Arriving {
    frame: FrameId,
    /// Whether the page is dirty when it arrives.
    dirty: bool,
    /// The only line that was fetched, if the frame already held the page.
    refill: Option<u8>,
}

/// The result of an access.
pub(super) enum Found {
    /// The page is resident.
    Hit(FrameId),
    /// The page is in flight, and another access waits for it.
    Merged,
    /// The page is in flight ahead of demand, and this access is its first waiter.
    Ahead,
    /// No frame or entry of the miss table is free. The waiter is notified when to repeat the
    /// access.
    Stalled,
    /// The page is absent. This frame is reserved for it. The frame held the victim.
    Absent(FrameId, Option<Victim>),
}

impl Paged {
    /// An empty cache with the frames of `residency` and up to `in_flight_max` misses in flight.
    pub(super) fn new(config: &Config, residency: Residency, in_flight_max: usize) -> Paged {
        Paged {
            controllers: Controllers::new(config),
            residency,
            counters: CacheCounters::default(),
            misses: MissTable::new(in_flight_max, usize::MAX),
            arriving: FxHashMap::default(),
            stalled: Vec::new(),
            owed: FxHashSet::default(),
        }
    }

    /// Looks `request` up and counts it. Afterwards a miss is in the miss table.
    pub(super) fn access(&mut self, request: Request) -> Found {
        let (Request { page, waiter, .. }, write) = (request, request.dirties());
        if let Some(frame) = self.residency.find(page) {
            self.hit(frame, write);
            return Found::Hit(frame);
        }
        if self.merge(page, waiter) {
            if write {
                self.arrives_dirty(page);
            }
            return Found::Merged;
        }
        if self.misses.is_full() {
            return self.stall(waiter);
        }
        if let Some(arriving) = self.arriving.get_mut(&page) {
            arriving.dirty |= write;
            self.misses.begin(page, waiter);
            self.counters.hits_under_miss += 1;
            return Found::Ahead;
        }
        let Some((frame, victim)) = self.reserve(page, write) else { return self.stall(waiter) };
        self.counters.misses += 1;
        self.begin(page, waiter);
        Found::Absent(frame, victim)
    }

    /// Counts a hit on the page in `frame`.
    pub(super) fn hit(&mut self, frame: FrameId, write: bool) {
        self.counters.hits += 1;
        self.residency.hit(frame, write);
    }

    /// Adds `waiter` for `page`, if a miss on it is in flight. Returns whether one is.
    pub(super) fn merge(&mut self, page: PageId, waiter: Waiter) -> bool {
        let merges = self.misses.contains(page);
        if merges {
            let begun = self.misses.begin(page, waiter);
            assert_eq!(begun, Begin::Merged, "an entry has room for any number of waiters");
            self.counters.hits_under_miss += 1;
        }
        merges
    }

    /// Enters a miss of `waiter` on `page` into the miss table.
    pub(super) fn begin(&mut self, page: PageId, waiter: Waiter) {
        let begun = self.misses.begin(page, waiter);
        assert_eq!(begun, Begin::Started, "the miss table has room");
        self.counters.in_flight_peak = self.counters.in_flight_peak.max(self.misses.len() as u64);
    }

    /// Reserves a frame for `page`, which arrives dirty or clean. Returns the frame and the page
    /// that it held. `None` if every frame already waits for a page.
    pub(super) fn reserve(
        &mut self,
        page: PageId,
        dirty: bool,
    ) -> Option<(FrameId, Option<Victim>)> {
        let (frame, victim) = self.residency.reserve(page)?;
        let dirty = dirty || self.owed.remove(&page);
        self.arriving.insert(page, Arriving { frame, dirty, refill: None });
        self.counters.evicted(victim);
        Some((frame, victim))
    }

    /// Fetches only `line` of `page`. `frame` holds the page without that line.
    pub(super) fn refill(&mut self, page: PageId, frame: FrameId, line: u8, dirty: bool) {
        self.arriving.insert(page, Arriving { frame, dirty, refill: Some(line) });
    }

    /// Whether `page` is resident or in flight to a frame.
    pub(super) fn is_known(&self, page: PageId) -> bool {
        self.residency.find(page).is_some() || self.arriving.contains_key(&page)
    }

    /// Marks `page`, which is in flight, as dirty on arrival, because a store waits for it.
    pub(super) fn arrives_dirty(&mut self, page: PageId) {
        self.arriving.get_mut(&page).expect("the page is in flight").dirty = true;
    }

    fn stall(&mut self, waiter: Waiter) -> Found {
        self.counters.stalls += 1;
        self.stalled.push(waiter);
        Found::Stalled
    }

    /// Puts `page`, which has arrived, into its frame. Returns the frame, and the refilled line if
    /// the frame still holds the page.
    pub(super) fn install(&mut self, page: PageId) -> (FrameId, Option<u8>) {
        let arriving = self.arriving.remove(&page).expect("the page is in flight");
        let Arriving { frame, dirty, refill } = arriving;
        if refill.is_none() {
            self.residency.install(frame, page, dirty);
        } else if self.residency.find(page) == Some(frame) {
            self.residency.hit(frame, dirty);
        } else {
            if dirty {
                self.owed.insert(page);
            }
            return (frame, None);
        }
        (frame, refill)
    }

    /// Wakes all waiters of `page` and all stalled waiters. Returns whether the page had any.
    pub(super) fn wake(&mut self, page: PageId, at: Time, events: &mut Vec<Event>) -> bool {
        let before = events.len();
        self.misses.complete(page, |waiter| events.push(Event::Arrived(waiter, at)));
        let awaited = events.len() > before;
        events.extend(self.stalled.drain(..).map(|waiter| Event::Unstalled(waiter, at)));
        awaited
    }

    /// Marks `page` as dirty, now or when it arrives.
    pub(super) fn dirtied(&mut self, page: PageId) {
        if self.residency.mark(page) {
            return;
        }
        match self.arriving.get_mut(&page) {
            Some(arriving) => arriving.dirty = true,
            None => _ = self.owed.insert(page),
        }
    }

    /// An access that takes no time.
    pub(super) fn warm(&mut self, request: Request) {
        self.residency.warm(request.page, request.dirties(), &mut self.counters);
    }

    /// The counters since the last call, including the given `moved`.
    pub(super) fn take_counters(&mut self, moved: TrafficCounters) -> Counters {
        let cache = std::mem::take(&mut self.counters);
        let traffic = TrafficCounters { dram_lines: self.controllers.take_lines(), ..moved };
        Counters { cache, traffic, ..Counters::default() }
    }
}
