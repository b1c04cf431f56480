//! Prefetching: which pages to fetch before a demand access. One prefetcher per file.
//!
//! A [`Prefetcher`] decides. A [`Prefetching`] runs one for a cache. The cache reports what each
//! demand access found, and every page issued, arrived or evicted. The prefetcher is consulted on a
//! demand miss and on a hit to a prefetched page. The [`Metrics`] of prefetching are kept here too.
//!
//! A prefetcher knows page numbers only. Its candidates may be cached or on their way already. The
//! cache drops those, and those that it has no room for.

mod best_offset;
mod feedback_directed;
mod leap;
mod metrics;
mod next_n_line;
mod none;

use crate::addr::PageId;
use crate::choice;
use crate::replacement::Position;

pub use metrics::Metrics;
pub use next_n_line::NextNLine;

/// The result of a demand access. An access to a page that no prefetch brought is reported only
/// when it misses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// Nothing: the page was neither cached nor on its way.
    Miss,
    /// The page is on its way for a prefetch, which came too late. Reported for the first job that
    /// waits for it.
    Late,
    /// The first hit to a prefetched page since it arrived; `late` if a job had waited for it.
    FirstHit {
        /// True if [`Demand::Late`] was reported for it.
        late: bool,
    },
    /// A later hit to a prefetched page.
    Hit,
}

impl Demand {
    /// Returns true if this is the first use of a prefetched page.
    pub fn is_first_use(self) -> bool {
        matches!(self, Demand::Late | Demand::FirstHit { late: false })
    }

    /// True if a prefetcher that tags every prefetched page counts this as a step of the program.
    /// Steps are a miss and the first use of a prefetched page. In the study of CXL-flash only a
    /// hit removes the tag, and a late prefetch is no step.
    fn is_step(self, preset: Preset) -> bool {
        match preset {
            Preset::Original => self == Demand::Miss || self.is_first_use(),
            Preset::Atc23 => matches!(self, Demand::Miss | Demand::FirstHit { .. }),
        }
    }
}

/// How an evicted page had come into the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A demand access missed it.
    Demand,
    /// A prefetch brought it, and it was used.
    Used,
    /// A prefetch brought it, and no demand access used it.
    Unused,
}

/// A prefetch policy.
pub trait Prefetcher: Send {
    /// Handles a demand access to `page` with the result `demand`. `metrics` count it already. Adds
    /// the pages to fetch now to `candidates`, the most wanted first. They may be beyond the
    /// address space.
    fn demand(
        &mut self,
        page: PageId,
        demand: Demand,
        metrics: &Metrics,
        candidates: &mut Vec<PageId>,
    );

    /// Notes that `page` has arrived, for a prefetch or for a miss.
    fn arrived(&mut self, _page: PageId, _prefetched: bool) {}

    /// Notes that a page was evicted. `metrics` count it already.
    fn evicted(&mut self, _metrics: &Metrics) {}

    /// The position at which prefetched pages enter the cache, if its policy keeps an order.
    fn position(&self) -> Position {
        Position::MostRecent
    }
}

choice! {
    /// The available prefetchers.
    pub enum PrefetcherKind as "prefetcher" {
        /// Fetches nothing ahead of demand.
        None = "none",
        /// A fixed run of pages some way ahead.
        NextNLine = "next-n-line",
        /// A run whose length and distance follow its success (HPCA 2007).
        FeedbackDirected = "feedback-directed",
        /// Follows the offset that would have been in time most often (HPCA 2016).
        BestOffset = "best-offset",
        /// Follows the majority among the last steps from miss to miss (ATC 2020).
        Leap = "leap",
    }
}

impl PrefetcherKind {
    /// An upper bound on the memory that the prefetcher uses, in bytes.
    pub fn memory_bytes(self, preset: Preset, pages: u64) -> usize {
        match self {
            PrefetcherKind::None => 0,
            PrefetcherKind::NextNLine => size_of::<NextNLine>(),
            PrefetcherKind::FeedbackDirected => {
                feedback_directed::FeedbackDirected::memory_bytes(preset, pages)
            }
            PrefetcherKind::BestOffset => best_offset::BestOffset::memory_bytes(),
            PrefetcherKind::Leap => leap::Leap::memory_bytes(),
        }
    }

    /// Makes the prefetcher in the variant `preset`, over an address space of `pages` pages. All
    /// memory is allocated here.
    pub fn build(self, preset: Preset, pages: u64) -> Box<dyn Prefetcher> {
        match self {
            PrefetcherKind::None => Box::new(none::NoPrefetch),
            PrefetcherKind::NextNLine => Box::new(NextNLine::new(preset)),
            PrefetcherKind::FeedbackDirected => {
                Box::new(feedback_directed::FeedbackDirected::new(preset, pages))
            }
            PrefetcherKind::BestOffset => Box::new(best_offset::BestOffset::new(preset)),
            PrefetcherKind::Leap => Box::new(leap::Leap::new(preset)),
        }
    }
}

choice! {
    /// The variant of a prefetcher, where there are two.
    pub enum Preset as "prefetcher preset" {
        /// As in the paper that introduced it.
        Original = "original",
        /// As in the simulator of the CXL-flash study (ATC'23).
        Atc23 = "atc23",
    }
}

/// A prefetcher in use, with its metrics.
pub struct Prefetching {
    prefetcher: Box<dyn Prefetcher>,
    pages: u64,
    metrics: Metrics,
    /// For each page, true if a prefetched page has displaced it since it was last in the cache.
    displaced: Box<[u64]>,
    candidates: Vec<PageId>,
}

/// Capacity for the candidates of one access. No prefetcher returns more.
const CANDIDATES: usize = 64;

impl Prefetching {
    /// Runs `prefetcher` over an address space of `pages` pages.
    pub fn new(prefetcher: Box<dyn Prefetcher>, pages: u64) -> Prefetching {
        Prefetching {
            prefetcher,
            pages,
            metrics: Metrics::default(),
            displaced: vec![0; pages.div_ceil(64) as usize].into(),
            candidates: Vec::with_capacity(CANDIDATES),
        }
    }

    /// Returns the memory that this takes, without the prefetcher's own, in bytes.
    pub fn memory_bytes(pages: u64) -> usize {
        size_of::<Prefetching>() + pages.div_ceil(8) as usize + CANDIDATES * size_of::<PageId>()
    }

    /// Counts a demand access to `page` and asks the prefetcher. Returns the pages to fetch now,
    /// the most wanted first, all in the address space. Call [`issued`](Prefetching::issued) for
    /// each that is fetched.
    pub fn demand(&mut self, page: PageId, demand: Demand) -> &[PageId] {
        self.count(page, demand);
        self.candidates.clear();
        self.prefetcher.demand(page, demand, &self.metrics, &mut self.candidates);
        self.candidates.retain(|candidate| candidate.0 < self.pages);
        &self.candidates
    }

    /// Counts a demand access without asking the prefetcher. For accesses when there is no room to
    /// prefetch.
    pub fn count(&mut self, page: PageId, demand: Demand) {
        let metrics = &mut self.metrics;
        match demand {
            Demand::Miss => {
                metrics.misses += 1;
                metrics.polluted += u64::from(take_bit(&mut self.displaced, page));
            }
            Demand::Late => metrics.late += 1,
            Demand::FirstHit { .. } | Demand::Hit => metrics.hits += 1,
        }
        metrics.used += u64::from(demand.is_first_use());
    }

    /// Notes that a prefetch was issued.
    pub fn issued(&mut self) {
        self.metrics.issued += 1;
    }

    /// Notes that `page` has arrived, for a prefetch or for a miss.
    pub fn arrived(&mut self, page: PageId, prefetched: bool) {
        if prefetched {
            take_bit(&mut self.displaced, page);
        }
        self.prefetcher.arrived(page, prefetched);
    }

    /// Notes that `page` was evicted. `by_prefetch` is true if a prefetched page took its frame.
    pub fn evicted(&mut self, page: PageId, origin: Origin, by_prefetch: bool) {
        match origin {
            Origin::Unused => self.metrics.evicted_unused += 1,
            Origin::Demand | Origin::Used => self.metrics.evicted_useful += 1,
        }
        if by_prefetch && origin == Origin::Demand {
            self.displaced[page.index() / 64] |= 1 << (page.index() % 64);
        }
        self.prefetcher.evicted(&self.metrics);
    }

    /// The position at which prefetched pages enter the cache, if its policy keeps an order.
    pub fn position(&self) -> Position {
        self.prefetcher.position()
    }

    /// Returns the metrics so far.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

/// Clears a page's bit. Returns true if it was set.
fn take_bit(bits: &mut [u64], page: PageId) -> bool {
    let (word, bit) = (&mut bits[page.index() / 64], 1 << (page.index() % 64));
    let was = *word & bit != 0;
    *word &= !bit;
    was
}

/// Returns the page `offset` pages from `page`. `None` if there is no such number.
fn ahead(page: PageId, offset: i64) -> Option<PageId> {
    page.0.checked_add_signed(offset).map(PageId)
}
