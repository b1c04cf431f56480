//! [`Tuning`]: how an engine treats misses.

use std::ops::RangeInclusive;

use ebbtide_core::prefetch::PrefetcherKind;
use ebbtide_core::replacement::{Admission, PolicyKind};
use ebbtide_core::schedule::Discipline;
use serde::{Deserialize, Serialize};

use crate::cache::CORES_MAX;

/// The engine's handling of misses. No choice here changes the results of a program.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// Which job runs next.
    pub scheduler: Discipline,
    /// Which page is evicted.
    pub replacement: PolicyKind,
    /// Number of parts of the replacement policy, rounded up to a power of two. Each part has a
    /// share of the pages and its own lock. `None` takes one part for eight cores.
    pub policy_parts: Option<usize>,
    /// Which pages the replacement policy manages.
    pub admission: Admission,
    /// Which pages are fetched ahead of demand. Each core has its own prefetcher.
    pub prefetch: PrefetcherKind,
    /// Whether pages are fetched that a program hints at ([`Hint::WillNeed`](ebbtide_core::Hint)).
    pub hints: bool,
    /// User-level threads a core: the most jobs that can be under way on it at once. `None` takes
    /// as many as the DRAM budget suits.
    pub threads: Option<usize>,
    /// The most requests handed to the kernel together.
    pub batch_max: usize,
}

impl Tuning {
    /// The numbers of threads a core that an engine takes.
    pub const THREADS: RangeInclusive<usize> = 1..=1 << 16;
    /// The largest submissions that an engine takes, in requests.
    pub const BATCHES: RangeInclusive<usize> = 1..=4096;
    /// The numbers of parts of the replacement policy that an engine takes.
    pub const POLICY_PARTS: RangeInclusive<usize> = 1..=CORES_MAX;
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
