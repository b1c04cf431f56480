//! [`Ahead`]: pages that a memory fetches ahead of demand.

use ebbtide_core::prefetch::{Demand, Metrics, Origin, Prefetching};
use ebbtide_core::replacement::Position;
use ebbtide_core::{FrameId, PageId};
use rustc_hash::FxHashSet;

/// Why the page in a frame was fetched, and whether it was used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Demanded,
    /// Prefetched and not accessed yet.
    Unused,
    /// Prefetched, and accessed while it was in flight but not since.
    Late,
    /// Prefetched and hit.
    Hit,
}

/// A prefetcher for a cache, its pages in flight, and the pages that it fetched.
pub(super) struct Ahead {
    prefetching: Prefetching,
    in_flight: FxHashSet<PageId>,
    in_flight_max: u64,
    marks: Vec<Mark>,
}

impl Ahead {
    /// `prefetching` for a cache of `frames` frames, with up to `in_flight_max` prefetches in
    /// flight.
    pub(super) fn new(prefetching: Prefetching, frames: u64, in_flight_max: u64) -> Ahead {
        Ahead {
            prefetching,
            in_flight: FxHashSet::default(),
            in_flight_max,
            marks: vec![Mark::Demanded; frames as usize],
        }
    }

    /// Whether a prefetch of `page` is in flight.
    pub(super) fn is_in_flight(&self, page: PageId) -> bool {
        !self.in_flight.is_empty() && self.in_flight.contains(&page)
    }

    /// Counts a demand hit on the page in `frame`. Returns what the prefetcher learns from it, if
    /// the page was prefetched.
    #[inline]
    pub(super) fn hit(&mut self, frame: FrameId) -> Option<Demand> {
        let mark = &mut self.marks[frame.index()];
        let demand = match mark {
            Mark::Demanded => return None,
            Mark::Unused => Demand::FirstHit { late: false },
            Mark::Late => Demand::FirstHit { late: true },
            Mark::Hit => Demand::Hit,
        };
        *mark = Mark::Hit;
        Some(demand)
    }

    /// The pages to prefetch at a demand access, except pages that are `known` to be cached or in
    /// flight. Flash has `room` for that many commands, with the access's own.
    ///
    /// The prefetcher is not asked if there is no room for any prefetch.
    pub(super) fn wanted(
        &mut self,
        page: PageId,
        demand: Demand,
        room: u64,
        known: impl Fn(PageId) -> bool,
    ) -> Vec<PageId> {
        let places = self.places(room);
        if places == 0 {
            self.prefetching.count(page, demand);
            return Vec::new();
        }
        let in_flight = &self.in_flight;
        let candidates = self.prefetching.demand(page, demand).iter().copied();
        let new = candidates.filter(|page| !in_flight.contains(page) && !known(*page));
        new.take(places).collect()
    }

    /// The number of prefetches that there is room for.
    pub(super) fn places(&self, room: u64) -> usize {
        let own = self.in_flight_max.saturating_sub(self.in_flight.len() as u64);
        own.min(room.saturating_sub(1)) as usize
    }

    /// Counts a demand access, without prefetching.
    pub(super) fn count(&mut self, page: PageId, demand: Demand) {
        self.prefetching.count(page, demand);
    }

    /// Records that a prefetch of `page` was issued.
    pub(super) fn issued(&mut self, page: PageId) {
        self.in_flight.insert(page);
        self.prefetching.issued();
    }

    /// Records that `page` arrived. Returns whether a prefetch fetched it.
    pub(super) fn arrived(&mut self, page: PageId) -> bool {
        let prefetched = !self.in_flight.is_empty() && self.in_flight.remove(&page);
        self.prefetching.arrived(page, prefetched);
        prefetched
    }

    /// Records that an arrived page is in `frame`. `awaited` is true if an access waited for it.
    /// Returns its position in the cache's order, if it was not accessed yet.
    pub(super) fn installed(
        &mut self,
        frame: FrameId,
        prefetched: bool,
        awaited: bool,
    ) -> Option<Position> {
        let mark = match (prefetched, awaited) {
            (false, _) => Mark::Demanded,
            (true, false) => Mark::Unused,
            (true, true) => Mark::Late,
        };
        self.marks[frame.index()] = mark;
        (mark == Mark::Unused).then(|| self.prefetching.position())
    }

    /// Records that `page` was evicted from `frame`. `by_prefetch` is true if a prefetched page
    /// evicted it.
    pub(super) fn evicted(&mut self, frame: FrameId, page: PageId, by_prefetch: bool) {
        let origin = match self.marks[frame.index()] {
            Mark::Demanded => Origin::Demand,
            Mark::Unused => Origin::Unused,
            Mark::Late | Mark::Hit => Origin::Used,
        };
        self.prefetching.evicted(page, origin, by_prefetch);
    }

    pub(super) fn metrics(&self) -> &Metrics {
        self.prefetching.metrics()
    }
}
