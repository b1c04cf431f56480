//! [`SteadyWrites`]: whether a memory writes as it will for as long as it runs.
//!
//! A new store has free places side by side, so a write carries many pages. Once every place has
//! been written, free places are scattered and a write carries few pages.

/// Two windows in a row are alike if their pages a write differ by at most this factor.
const ALIKE_FACTOR: f64 = 1.1;

/// Pages and writes of the windows of a warm-up.
#[derive(Debug, Clone)]
pub(super) struct SteadyWrites {
    /// Free places of a new store, in pages.
    spare_pages: u64,
    written_pages: u64,
    /// Pages a write of the last window and of the one before.
    last: Option<f64>,
    before: Option<f64>,
    /// True if the last window wrote, or there was none yet.
    writes: bool,
}

impl SteadyWrites {
    /// Returns the state for a store with `spare_pages` free places.
    pub(super) fn new(spare_pages: u64) -> SteadyWrites {
        SteadyWrites { spare_pages, written_pages: 0, last: None, before: None, writes: true }
    }

    /// Counts a window that wrote `pages` pages in `requests` requests.
    pub(super) fn push(&mut self, pages: u64, requests: u64) {
        self.written_pages += pages;
        self.writes = requests > 0;
        self.before = self.last.take();
        self.last = self.writes.then(|| pages as f64 / requests as f64);
    }

    /// Returns whether the pages a write are steady: every free place was written once, and the
    /// last two windows are alike. A memory that does not write is steady.
    pub(super) fn is_steady(&self) -> bool {
        if !self.writes {
            return true;
        }
        let alike = self
            .last
            .zip(self.before)
            .is_some_and(|(last, before)| last.max(before) <= ALIKE_FACTOR * last.min(before));
        alike && self.written_pages >= self.spare_pages
    }

    /// Pages a write in the last window, if it wrote.
    pub(super) fn pages_per_write(&self) -> Option<f64> {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady_after(spare_pages: u64, windows: &[(u64, u64)]) -> Vec<bool> {
        let mut writes = SteadyWrites::new(spare_pages);
        let push = |&(pages, requests): &(u64, u64)| {
            writes.push(pages, requests);
            writes.is_steady()
        };
        windows.iter().map(push).collect()
    }

    #[test]
    fn many_pages_a_write_are_not_steady_while_there_are_new_places() {
        let windows = [(500, 20), (500, 20), (400, 80), (210, 100), (205, 100)];
        assert_eq!(steady_after(1800, &windows), [false, false, false, false, true]);
        assert_eq!(steady_after(1000, &windows[..2]), [false, true]);
        assert_eq!(steady_after(1001, &windows[..2]), [false, false]);
    }

    #[test]
    fn a_memory_that_does_not_write_is_steady() {
        assert_eq!(steady_after(1 << 20, &[(0, 0)]), [true]);
        assert_eq!(steady_after(1, &[(9, 3), (0, 0), (9, 3)]), [false, true, false]);
    }
}
