//! Pages fetched ahead of demand, by hints and by the core's prefetcher.

use ebbtide_core::PageId;
use ebbtide_core::prefetch::{Demand, Prefetching};
use smallvec::SmallVec;

use crate::cache::Held;
use crate::sync::counters::CoreCounters;

/// The pages that one core fetches ahead of demand.
pub(super) struct Prefetch {
    /// `None` if only hints are followed.
    prefetcher: Option<Prefetching>,
    under_way: usize,
    under_way_max: usize,
}

impl Prefetch {
    pub(super) fn new(prefetcher: Option<Prefetching>, under_way_max: usize) -> Prefetch {
        Prefetch { prefetcher, under_way: 0, under_way_max }
    }

    /// Whether it follows more than hints.
    pub(super) fn is_by_itself(&self) -> bool {
        self.prefetcher.is_some()
    }

    /// Whether one more page may be under way.
    pub(super) fn has_room(&self) -> bool {
        self.under_way < self.under_way_max
    }

    /// Notes that a job asked for `page`, with the result `demand`. Returns the pages to fetch.
    pub(super) fn demand(
        &mut self,
        counters: &CoreCounters,
        page: PageId,
        demand: Demand,
    ) -> SmallVec<[PageId; 16]> {
        counters.ahead_used.add(u64::from(demand.is_first_use()));
        counters.ahead_late.add(u64::from(demand == Demand::Late));
        let Some(prefetcher) = &mut self.prefetcher else { return SmallVec::new() };
        let polluted = prefetcher.metrics().polluted;
        let candidates = prefetcher.demand(page, demand).into();
        counters.polluted.add(prefetcher.metrics().polluted - polluted);
        candidates
    }

    /// A page starts to move in ahead of demand.
    pub(super) fn issued(&mut self, counters: &CoreCounters) {
        if let Some(prefetcher) = &mut self.prefetcher {
            prefetcher.issued();
        }
        counters.fetched_ahead.add(1);
        self.under_way += 1;
    }

    /// Notes that a frame is about to be filled, by a `prefetched` page or another. The frame held
    /// the page `left` before.
    #[inline]
    pub(super) fn replaced(&mut self, left: Held, prefetched: bool) {
        if let Some(prefetcher) = &mut self.prefetcher
            && let Some((left, origin)) = left.page()
        {
            prefetcher.evicted(left, origin, prefetched);
        }
    }

    /// A request has ended.
    pub(super) fn ended(&mut self, prefetched: bool) {
        self.under_way -= usize::from(prefetched);
    }

    /// `page` is in DRAM.
    pub(super) fn arrived(&mut self, page: PageId, prefetched: bool) {
        if let Some(prefetcher) = &mut self.prefetcher {
            prefetcher.arrived(page, prefetched);
        }
    }
}
