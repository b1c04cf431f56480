//! [`MappedError`]: why a mapped store or region cannot be had.

use std::io;

use ebbtide_core::Bytes;
use thiserror::Error;

use crate::api::engine_error::EngineError;
use crate::store::StoreError;

/// Why a mapped store or region cannot be had.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum MappedError {
    #[error(
        "mapped regions need userfaultfd, which is refused here ({0}): expected Linux 5.11 or newer, and a \
         sandbox that permits the system call"
    )]
    Refused(io::Error),
    #[error(
        "mapped regions need userfaultfd with {0}, which this kernel lacks: expected Linux 5.11 or newer"
    )]
    Lacks(&'static str),
    #[error("a mapped region is only for the extend part: this store has a log")]
    Persistent,
    #[error("a region of {0} does not fit into the address space of this process")]
    AddressSpace(Bytes),
    #[error("a region of {wanted} does not fit: the store has {left} left")]
    TooLarge { wanted: Bytes, left: Bytes },
    #[error(
        "a DRAM budget of {given} is too small for a mapped store: page tables, stacks, pinned pages and \
         buffers need at least {needed}"
    )]
    BudgetTooSmall { given: Bytes, needed: Bytes },
    #[error("{pinned} pages are pinned already, and this store can pin at most {pinned_max}")]
    TooManyPins { pinned: usize, pinned_max: usize },
    #[error("this process has {0} mapped stores already, and can have no more")]
    TooManyStores(usize),
    #[error("{option}: {problem}")]
    Option { option: &'static str, problem: String },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("cannot {doing}: {source}")]
    Io { doing: &'static str, source: io::Error },
}
