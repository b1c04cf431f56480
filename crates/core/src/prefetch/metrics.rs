//! Metrics of a prefetcher.

/// Counts of prefetches and of their use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Prefetches issued.
    pub issued: u64,
    /// Prefetched pages that a demand access asked for, on their way or in the cache. Each counts
    /// once.
    pub used: u64,
    /// Used prefetches that were still on their way.
    pub late: u64,
    /// All demand hits on prefetched pages.
    pub hits: u64,
    /// Demand accesses that found nothing, not even a prefetch under way.
    pub misses: u64,
    /// Misses of pages that a prefetched page had displaced.
    pub polluted: u64,
    /// Evicted pages that were prefetched and never used.
    pub evicted_unused: u64,
    /// All other evicted pages.
    pub evicted_useful: u64,
}

impl Metrics {
    /// Returns the counts since these were `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Metrics) -> Metrics {
        Metrics {
            issued: self.issued - earlier.issued,
            used: self.used - earlier.used,
            late: self.late - earlier.late,
            hits: self.hits - earlier.hits,
            misses: self.misses - earlier.misses,
            polluted: self.polluted - earlier.polluted,
            evicted_unused: self.evicted_unused - earlier.evicted_unused,
            evicted_useful: self.evicted_useful - earlier.evicted_useful,
        }
    }

    /// Returns the share of the prefetches issued so far that were used (HPCA'07 §3.1). 0 if none
    /// was issued.
    pub fn accuracy(&self) -> f64 {
        share(self.used, self.issued)
    }

    /// The share of used prefetches that came too late (HPCA'07 §3.1).
    pub fn lateness(&self) -> f64 {
        share(self.late, self.used)
    }

    /// The share of demand misses that prefetches caused (HPCA'07 §3.1).
    pub fn pollution(&self) -> f64 {
        share(self.polluted, self.misses)
    }

    /// The share of all `requests` that hit a prefetched page (ATC'23 §5.2).
    pub fn coverage(&self, requests: u64) -> f64 {
        share(self.hits, requests)
    }
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}
