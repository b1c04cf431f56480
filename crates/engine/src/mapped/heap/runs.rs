//! Free chunks, in runs of neighbours.

use std::collections::BTreeMap;

/// The free chunks of a heap.
pub(super) struct FreeRuns {
    /// By the first chunk: how many are free from there on.
    runs: BTreeMap<u32, u32>,
}

impl FreeRuns {
    /// All of `count` chunks are free.
    pub(super) fn new(count: u32) -> FreeRuns {
        FreeRuns { runs: (count > 0).then_some((0, count)).into_iter().collect() }
    }

    /// Takes the first `count` free neighbours whose first number plus `phase` is a multiple of
    /// `align`.
    pub(super) fn take(&mut self, count: u32, align: u32, phase: u32) -> Option<u32> {
        let aligned = |first: u32| (first + phase).next_multiple_of(align) - phase;
        let fits = |(&first, &free): (&u32, &u32)| {
            let at = aligned(first);
            (at + count <= first + free).then_some((first, free, at))
        };
        let (first, free, at) = self.runs.iter().find_map(fits)?;
        self.runs.remove(&first);
        if at > first {
            self.runs.insert(first, at - first);
        }
        let (end, behind) = (first + free, at + count);
        if end > behind {
            self.runs.insert(behind, end - behind);
        }
        Some(at)
    }

    /// Takes the `count` chunks from `first` on if all of them are free.
    pub(super) fn take_at(&mut self, first: u32, count: u32) -> bool {
        let Some(&free) = self.runs.get(&first).filter(|free| **free >= count) else {
            return false;
        };
        self.runs.remove(&first);
        if free > count {
            self.runs.insert(first + count, free - count);
        }
        true
    }

    /// Returns `count` chunks from `first` on.
    pub(super) fn put(&mut self, first: u32, count: u32) {
        let (mut first, mut count) = (first, count);
        if let Some((&before, &free)) = self.runs.range(..first).next_back()
            && before + free == first
        {
            self.runs.remove(&before);
            (first, count) = (before, free + count);
        }
        if let Some(behind) = self.runs.remove(&(first + count)) {
            count += behind;
        }
        self.runs.insert(first, count);
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn runs_are_divided_aligned_and_joined_again() {
        let mut free = FreeRuns::new(16);
        assert_eq!(free.take(3, 1, 0), Some(0));
        assert_eq!(free.take(4, 4, 0), Some(4));
        assert_eq!(free.take(2, 4, 1), Some(11));
        assert_eq!(free.take(9, 1, 0), None);
        assert!(free.take_at(3, 1) && !free.take_at(3, 1));
        for (first, count) in [(4, 4), (0, 3), (11, 2), (3, 1)] {
            free.put(first, count);
        }
        assert_eq!(free.take(16, 1, 0), Some(0));
        assert_eq!(free.take(1, 1, 0), None);
    }
}
