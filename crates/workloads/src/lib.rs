//! Programs over [`Memory`](ebbtide_core::Memory).

#![forbid(unsafe_code)]

use ebbtide_core::{Memory, PAGE_BYTES, PageId};

/// A program: an initial image and an endless, numbered stream of jobs over it.
///
/// It does not know which memory it runs on. Job `n` of a stream is a pure function of the stream's
/// seed and `n`, so that every memory runs the same jobs.
pub trait Workload: Send + Sync {
    /// Size of the image in bytes: a whole number of pages.
    fn size_bytes(&self) -> u64;

    /// Writes the initial contents of `page`, a pure function of the page, into `out` (which may
    /// hold anything).
    fn image(&self, page: PageId, out: &mut [u8; PAGE_BYTES]);

    /// Runs job `job` to its end.
    fn run<M: Memory>(&self, job: u64, memory: &mut M) -> Result<(), Wrong>;

    /// Whether jobs store anything.
    fn writes(&self) -> bool;
}

/// A job read something that cannot be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Wrong(pub String);
