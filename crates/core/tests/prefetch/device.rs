//! A cache over a slow device that drives a prefetcher, for the tests of this folder.

use std::collections::{BTreeMap, VecDeque};

use ebbtide_core::PageId;
use ebbtide_core::prefetch::{Demand, Metrics, Origin, Prefetcher, Prefetching};

/// A page on its way.
struct Coming {
    at: u64,
    prefetch: bool,
    late: bool,
}

/// A page in the cache.
struct Cached {
    prefetched: bool,
    late: bool,
    hit: bool,
}

/// A fully associative FIFO cache over a device that takes `latency` accesses to bring a page. A
/// page that arrives in the middle of an access is there for the next one.
pub(crate) struct Device {
    prefetching: Prefetching,
    frames: usize,
    latency: u64,
    now: u64,
    coming: BTreeMap<PageId, Coming>,
    order: VecDeque<PageId>,
    cached: BTreeMap<PageId, Cached>,
    /// Accesses that found their page neither cached nor on its way.
    pub(crate) misses: u64,
}

impl Device {
    pub(crate) fn new(
        prefetcher: Box<dyn Prefetcher>,
        pages: u64,
        frames: usize,
        latency: u64,
    ) -> Device {
        Device {
            prefetching: Prefetching::new(prefetcher, pages),
            frames,
            latency,
            now: 0,
            coming: BTreeMap::new(),
            order: VecDeque::new(),
            cached: BTreeMap::new(),
            misses: 0,
        }
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        self.prefetching.metrics()
    }

    /// Reads every page in turn.
    pub(crate) fn access_all(&mut self, pages: impl IntoIterator<Item = u64>) -> &mut Device {
        pages.into_iter().for_each(|page| self.access(PageId(page)));
        self
    }

    fn access(&mut self, page: PageId) {
        self.now += 1;
        self.arrive();
        let demand = if let Some(cached) = self.cached.get_mut(&page) {
            let first = !std::mem::replace(&mut cached.hit, true);
            cached.prefetched.then_some(match first {
                true => Demand::FirstHit { late: cached.late },
                false => Demand::Hit,
            })
        } else if let Some(coming) = self.coming.get_mut(&page) {
            let first = !std::mem::replace(&mut coming.late, true);
            (first && coming.prefetch).then_some(Demand::Late)
        } else {
            self.misses += 1;
            self.fetch(page, false);
            Some(Demand::Miss)
        };
        let Some(demand) = demand else { return };
        for candidate in self.prefetching.demand(page, demand).to_vec() {
            if !self.cached.contains_key(&candidate) && !self.coming.contains_key(&candidate) {
                self.prefetching.issued();
                self.fetch(candidate, true);
            }
        }
    }

    fn fetch(&mut self, page: PageId, prefetch: bool) {
        let coming = Coming { at: self.now + self.latency, prefetch, late: false };
        self.coming.insert(page, coming);
    }

    fn arrive(&mut self) {
        let due: Vec<PageId> =
            self.coming.iter().filter(|(_, c)| c.at <= self.now).map(|(p, _)| *p).collect();
        for page in due {
            let Coming { prefetch, late, .. } = self.coming.remove(&page).expect("it is due");
            if self.order.len() == self.frames {
                let old = self.order.pop_front().expect("a cache has a frame");
                let origin = match self.cached.remove(&old).expect("it is cached") {
                    Cached { prefetched: false, .. } => Origin::Demand,
                    Cached { hit: false, late: false, .. } => Origin::Unused,
                    _ => Origin::Used,
                };
                self.prefetching.evicted(old, origin, prefetch);
            }
            self.order.push_back(page);
            self.cached.insert(page, Cached { prefetched: prefetch, late, hit: false });
            self.prefetching.arrived(page, prefetch);
        }
    }
}
