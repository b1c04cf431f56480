//! [`Tuning`]: how an engine treats misses.

use ebbtide_core::prefetch::PrefetcherKind;
use ebbtide_core::replacement::{Admission, PolicyKind};
use ebbtide_core::schedule::Discipline;
use serde::{Deserialize, Serialize};

/// How an engine treats misses. No choice here changes what a program computes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// Which job runs next.
    pub scheduler: Discipline,
    /// Which page is evicted.
    pub replacement: PolicyKind,
    /// Parts of the replacement policy, each for a share of the pages and behind a lock of its own, rounded
    /// up to a power of two. `None` takes one for eight cores.
    pub policy_parts: Option<usize>,
    /// Which pages the replacement policy is given.
    pub admission: Admission,
    /// What is fetched ahead of demand; each core has a prefetcher of its own.
    pub prefetch: PrefetcherKind,
    /// Whether pages are fetched that a program hints at ([`Hint::WillNeed`](ebbtide_core::Hint)).
    pub hints: bool,
    /// User-level threads a core: the most jobs that can be under way on it at once. `None` takes as
    /// many as the DRAM budget suits.
    pub threads: Option<usize>,
    /// The most requests handed to the kernel together.
    pub batch_max: usize,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            scheduler: Discipline::Priority,
            replacement: PolicyKind::MiniSim,
            policy_parts: None,
            admission: Admission::Always,
            prefetch: PrefetcherKind::None,
            hints: true,
            threads: None,
            batch_max: 64,
        }
    }
}
