//! Prefetching: which pages to fetch before a demand access. One prefetcher per file.
//!
//! A [`Prefetcher`] decides. A [`Prefetching`] is one at work: whoever has the cache tells it what
//! each demand access found, what it issued, what arrived and what it gave up; it consults the
//! prefetcher where prefetchers are consulted, on a demand miss and on a hit to a prefetched page,
//! and keeps the [`Metrics`] by which they are judged.
//!
//! A prefetcher knows page numbers only. Its candidates may be cached or on their way already:
//! dropping those, and those for which there is no room, is the business of whoever has the cache.

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

/// What a demand access found. Accesses to pages that no prefetch brought are told only when they
/// miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// Nothing: the page was neither cached nor on its way.
    Miss,
    /// The page on its way for a prefetch, which came too late. Told of the first that waits for
    /// it.
    Late,
    /// A prefetched page, for the first time since it arrived; `late` if somebody had waited for
    /// it.
    FirstHit {
        /// Whether it was used before, as [`Demand::Late`].
        late: bool,
    },
    /// A prefetched page that had a first hit before.
    Hit,
}

impl Demand {
    /// Whether this is the first use of a prefetched page.
    pub fn is_first_use(self) -> bool {
        matches!(self, Demand::Late | Demand::FirstHit { late: false })
    }

    /// Whether a prefetcher with a tag on every prefetched page takes this for a step of the
    /// program: a miss, or the first use of a prefetched page. In the study of CXL-flash only a hit
    /// takes the tag off, and a late prefetch is no step.
    fn is_step(self, preset: Preset) -> bool {
        match preset {
            Preset::Original => self == Demand::Miss || self.is_first_use(),
            Preset::Atc23 => matches!(self, Demand::Miss | Demand::FirstHit { .. }),
        }
    }
}

/// How an evicted page had entered the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Somebody missed it.
    Demand,
    /// A prefetch brought it, and it was used.
    Used,
    /// A prefetch brought it, and no demand access used it.
    Unused,
}

/// Decides what to prefetch.
pub trait Prefetcher: Send {
    /// A demand access to `page` found what `demand` says, which `metrics` count already. Adds to
    /// `candidates` the pages to fetch now, the most wanted first; any number may be beyond the
    /// address space.
    fn demand(
        &mut self,
        page: PageId,
        demand: Demand,
        metrics: &Metrics,
        candidates: &mut Vec<PageId>,
    );

    /// `page` has arrived, for a prefetch or for a miss.
    fn arrived(&mut self, _page: PageId, _prefetched: bool) {}

    /// Another page was given up, which `metrics` count already.
    fn evicted(&mut self, _metrics: &Metrics) {}

    /// The position at which prefetched pages enter the cache, if its policy keeps an order.
    fn position(&self) -> Position {
        Position::MostRecent
    }
}

choice! {
    /// The prefetchers there are.
    pub enum PrefetcherKind as "prefetcher" {
        /// Fetches nothing ahead of demand.
        None = "none",
        /// A fixed run of pages some way ahead.
        NextNLine = "next-n-line",
        /// A run whose length and distance follow from how well it does (HPCA 2007).
        FeedbackDirected = "feedback-directed",
        /// By the offset that would have been in time most often (HPCA 2016).
        BestOffset = "best-offset",
        /// By the majority among the last steps from miss to miss (ATC 2020).
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

    /// The prefetcher as `preset` has it, over an address space of `pages` pages. All memory is
    /// allocated here.
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
    /// Whether each page was displaced by a prefetched one since it was last in the cache.
    displaced: Box<[u64]>,
    candidates: Vec<PageId>,
}

/// Room for the candidates of one access: more than any prefetcher gives.
const CANDIDATES: usize = 64;

impl Prefetching {
    /// `prefetcher`, over an address space of `pages` pages.
    pub fn new(prefetcher: Box<dyn Prefetcher>, pages: u64) -> Prefetching {
        Prefetching {
            prefetcher,
            pages,
            metrics: Metrics::default(),
            displaced: vec![0; pages.div_ceil(64) as usize].into(),
            candidates: Vec::with_capacity(CANDIDATES),
        }
    }

    /// Memory that this takes beside the prefetcher's own, in bytes.
    pub fn memory_bytes(pages: u64) -> usize {
        size_of::<Prefetching>() + pages.div_ceil(8) as usize + CANDIDATES * size_of::<PageId>()
    }

    /// A demand access to `page`: counts it and asks the prefetcher. Gives the pages to fetch now,
    /// the most wanted first, all of them in the address space; [`issued`](Prefetching::issued)
    /// must be called for each that is fetched.
    pub fn demand(&mut self, page: PageId, demand: Demand) -> &[PageId] {
        self.count(page, demand);
        self.candidates.clear();
        self.prefetcher.demand(page, demand, &self.metrics, &mut self.candidates);
        self.candidates.retain(|candidate| candidate.0 < self.pages);
        &self.candidates
    }

    /// Only counts a demand access, for one with no room to prefetch that lets the prefetcher miss
    /// what it cannot use anyway.
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

    /// A prefetch was issued.
    pub fn issued(&mut self) {
        self.metrics.issued += 1;
    }

    /// `page` has arrived, for a prefetch or for a miss.
    pub fn arrived(&mut self, page: PageId, prefetched: bool) {
        if prefetched {
            take_bit(&mut self.displaced, page);
        }
        self.prefetcher.arrived(page, prefetched);
    }

    /// `page` was given up; `by_prefetch` if to make room for a prefetched one.
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

    /// What came of it so far.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

/// Clears a page's bit; whether it was set.
fn take_bit(bits: &mut [u64], page: PageId) -> bool {
    let (word, bit) = (&mut bits[page.index() / 64], 1 << (page.index() % 64));
    let was = *word & bit != 0;
    *word &= !bit;
    was
}

/// The page `offset` pages from `page`, unless it has no number.
fn ahead(page: PageId, offset: i64) -> Option<PageId> {
    page.0.checked_add_signed(offset).map(PageId)
}
