//! [`Ahead`]: pages that a memory fetches before anybody asks.

use ebbtide_core::prefetch::{Demand, Metrics, Origin, Prefetching};
use ebbtide_core::replacement::Position;
use ebbtide_core::{FrameId, PageId};
use rustc_hash::FxHashSet;

/// How the page in a frame came there, and what became of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Demanded,
    /// Prefetched, and nobody has asked for it.
    Unused,
    /// Prefetched, and asked for while it was on its way, but not since.
    Late,
    /// Prefetched, and hit.
    Hit,
}

/// A prefetcher at work on a cache: what is on its way because of it, and what it brought.
pub(super) struct Ahead {
    prefetching: Prefetching,
    in_flight: FxHashSet<PageId>,
    in_flight_max: u64,
    marks: Vec<Mark>,
}

impl Ahead {
    /// `prefetching` for a cache of `frames` frames, with up to `in_flight_max` prefetches at once.
    pub(super) fn new(prefetching: Prefetching, frames: u64, in_flight_max: u64) -> Ahead {
        Ahead {
            prefetching,
            in_flight: FxHashSet::default(),
            in_flight_max,
            marks: vec![Mark::Demanded; frames as usize],
        }
    }

    /// Whether `page` is on its way because of a prefetch.
    pub(super) fn is_in_flight(&self, page: PageId) -> bool {
        !self.in_flight.is_empty() && self.in_flight.contains(&page)
    }

    /// A demand access hit the page in `frame`: what that is to a prefetcher, if it brought it.
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

    /// Asks the prefetcher what to fetch at a demand access, when flash has `room` for commands, the
    /// access's own included: pages that are not `known` to be cached or on their way.
    ///
    /// A prefetcher is not even asked when nothing of what it wants would find room.
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

    /// How many prefetches find room.
    pub(super) fn places(&self, room: u64) -> usize {
        let own = self.in_flight_max.saturating_sub(self.in_flight.len() as u64);
        own.min(room.saturating_sub(1)) as usize
    }

    /// Only counts a demand access.
    pub(super) fn count(&mut self, page: PageId, demand: Demand) {
        self.prefetching.count(page, demand);
    }

    /// A prefetch of `page` was issued.
    pub(super) fn issued(&mut self, page: PageId) {
        self.in_flight.insert(page);
        self.prefetching.issued();
    }

    /// `page` came: whether because of a prefetch.
    pub(super) fn arrived(&mut self, page: PageId) -> bool {
        let prefetched = !self.in_flight.is_empty() && self.in_flight.remove(&page);
        self.prefetching.arrived(page, prefetched);
        prefetched
    }

    /// A page that came lies in `frame`; `awaited` if somebody waited for it. Gives where it enters
    /// the cache's order if nobody has asked for it.
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

    /// `page` was given up in `frame`; `by_prefetch` if for a prefetched one.
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
