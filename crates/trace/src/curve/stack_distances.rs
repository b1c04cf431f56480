//! [`StackDistances`]: exact LRU miss ratios at every size in one pass.

use ebbtide_core::PageId;

use super::lru_stack::LruStack;
use super::{Curve, pages_of};
use crate::Access;

/// Accesses whose pages are prefetched together, so that their misses overlap.
const AHEAD: usize = 32;

/// Counts the misses and write-backs of LRU caches of every size exactly (Mattson et al., IBM
/// Systems Journal, 1970). Takes about 40 bytes for each page touched.
pub struct StackDistances {
    stack: LruStack,
    accesses: u64,
    cold: u64,
    /// Reuses and rewrites by distance.
    distances: Vec<(u64, u64)>,
}

impl Default for StackDistances {
    fn default() -> StackDistances {
        StackDistances { stack: LruStack::new(), accesses: 0, cold: 0, distances: Vec::new() }
    }
}

impl StackDistances {
    /// Returns a counter without accesses.
    pub fn new() -> StackDistances {
        StackDistances::default()
    }

    /// Counts the pages of `accesses` in order.
    pub fn read(&mut self, accesses: &[Access]) {
        for next in accesses.chunks(AHEAD) {
            next.iter().for_each(|access| self.stack.prefetch(access.address.page()));
            pages_of(next, |page, write| self.touch(page, write));
        }
    }

    /// Counts an access to `page`.
    #[inline]
    pub fn touch(&mut self, page: PageId, write: bool) {
        self.accesses += 1;
        let reuse = self.stack.touch(page, write);
        let Some(distance) = reuse.distance else {
            self.cold += 1;
            self.distances.resize(self.stack.len() + 1, (0, 0));
            return;
        };
        self.distances[distance as usize].0 += 1;
        if let Some(most) = reuse.rewrite {
            self.distances[most as usize].1 += 1;
        }
    }

    /// Returns the number of distinct pages touched so far.
    pub fn pages(&self) -> u64 {
        self.stack.len() as u64
    }

    /// Returns the curve of the accesses counted so far.
    pub fn curve(&self) -> Curve {
        let mut distances = self.distances.clone();
        for most in self.stack.outstanding() {
            distances[most as usize].1 += 1;
        }
        let seen = distances.iter().enumerate().filter(|(_, counts)| **counts != (0, 0));
        let seen = seen.map(|(at, counts)| (at as u64, counts.0 as f64, counts.1 as f64));
        Curve::from_distances(self.accesses, self.stack.len() as f64, self.cold as f64, seen)
    }
}
