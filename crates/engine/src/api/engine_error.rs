//! Why an engine cannot be started.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use ebbtide_core::counted;
use ebbtide_core::durability::Policy;
use thiserror::Error;

use crate::cache::SLOTS_MAX;
use crate::store::StoreError;

/// Why an engine cannot be started.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum EngineError {
    #[error(
        "a DRAM budget of {given_bytes} bytes is too small: page states, stacks and buffers for \
         {} and {} need at least {needed_bytes} ({} MiB)",
        counted(pages, "page"),
        counted(cores, "core"),
        needed_bytes.div_ceil(1 << 20)
    )]
    BudgetTooSmall { given_bytes: usize, needed_bytes: usize, pages: u64, cores: usize },
    #[error(
        "the replacement policy '{0}' must see every hit in order, which only a simulator can offer"
    )]
    NeedsEveryHit(&'static str),
    #[error(
        "the replacement policy '{0}' looks at every frame for a victim, which only a cache of small \
         sets can afford"
    )]
    SearchesSet(&'static str),
    #[error(
        "CPU {cpu} is not among those that this process may run on: expected one of {allowed:?}"
    )]
    NoCpu { cpu: usize, allowed: Vec<usize> },
    #[error(
        "the kernel refuses an io_uring ring the memory that it needs: locked memory is limited to \
         {limit_bytes} bytes; expected a higher limit (ulimit -l, LimitMEMLOCK=, --ulimit memlock=-1)"
    )]
    LockedMemory { limit_bytes: u64 },
    #[error("the durability '{0}' expects a store with a log: one without keeps nothing")]
    NotDurable(Policy),
    #[error("{what} must be {expected}")]
    BadOption { what: &'static str, expected: &'static str },
    #[error(
        "{stacks} threads on all cores need more mappings than this kernel allows a process \
         (vm.max_map_count): expected at most {stacks_max}"
    )]
    TooManyStacks { stacks: usize, stacks_max: usize },
    #[error("an address space has 1 to {SLOTS_MAX} pages, not {0}")]
    BadPages(u64),
    #[error("the engine is running already")]
    Running,
    #[error("started by process {0}, before a fork: expected to be stopped by that process")]
    Forked(u32),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{}: {reason}", path.display())]
    Path { path: PathBuf, reason: String },
    #[error("the cores do not stop, no job has ended for {patience:?}: {jobs}")]
    Stuck { patience: Duration, jobs: String },
    #[error("cannot {doing}: {source}")]
    Io { doing: &'static str, source: io::Error },
}
