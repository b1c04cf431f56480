//! Frees the values that no key has: large strings, and trees of elements in steps.

use ebbtide_core::FullMemory;

use super::detached::{self, Left};
use super::entry::LargeId;
use super::{Keyspace, collection};

impl Keyspace {
    /// True if there are large values or collections without a key. They are written, or were
    /// removed.
    pub fn has_detached<M: FullMemory>(&self, memory: &mut M) -> bool {
        detached::any(self, memory)
    }

    /// Frees the pages of one large value that no key has any more and no job reads or writes, or
    /// some pages of a tree. Returns true if there was one.
    pub fn reclaim_large<M: FullMemory>(
        &self,
        memory: &mut M,
        is_held: impl Fn(LargeId) -> bool,
    ) -> bool {
        detached::reclaim(self, memory, is_held, |memory, number| {
            if !collection::is_tree(&self.pages, memory, number) {
                Left::Chain
            } else if collection::reduce(self, memory, number) {
                Left::More
            } else {
                Left::Page
            }
        })
    }
}
