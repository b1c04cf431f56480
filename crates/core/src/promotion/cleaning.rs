//! [`Cleaning`]: decides when a block of flash is rewritten with newer lines from a device's cache.

use std::collections::VecDeque;
use std::ops::Range;

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use crate::addr::PageId;
use crate::time::{Span, Time};

/// Cleaning by read, modify and write of whole blocks (FlatFlash, ASPLOS'19 §3.2).
///
/// A block is due a fixed time after the first write to one of its pages in the cache. All its
/// pages written until then go to flash together, with the rest of the block.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cleaning {
    after: Span,
    block_pages: u64,
    /// Blocks with pages written since they were last due, the next one first.
    due: VecDeque<(Time, u64)>,
    waiting: FxHashSet<u64>,
}

impl Cleaning {
    /// Cleaning of blocks of `block_pages` pages. Each is due `after` its first write.
    ///
    /// # Panics
    /// If blocks have no pages.
    pub fn new(after: Span, block_pages: u64) -> Cleaning {
        assert!(block_pages > 0, "a block has pages");
        Cleaning { after, block_pages, due: VecDeque::new(), waiting: FxHashSet::default() }
    }

    /// Notes that `page` was written at `now`. Times must not decrease.
    #[inline]
    pub fn written(&mut self, now: Time, page: PageId) {
        let block = page.0 / self.block_pages;
        if self.waiting.insert(block) {
            self.due.push_back((now + self.after, block));
        }
    }

    /// Returns when the next block is due.
    pub fn next_due(&self) -> Option<Time> {
        self.due.front().map(|(at, _)| *at)
    }

    /// Returns the pages of the first block that is due at `now`. A later write makes it due again.
    pub fn take_due(&mut self, now: Time) -> Option<Range<u64>> {
        let (_, block) = self.due.pop_front_if(|(at, _)| *at <= now)?;
        self.waiting.remove(&block);
        Some(block * self.block_pages..(block + 1) * self.block_pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Time {
        Time::ZERO + Span::from_us(us)
    }

    #[test]
    fn a_block_is_due_once_and_a_while_after_its_first_write() {
        let mut cleaning = Cleaning::new(Span::from_us(10), 4);
        for (us, page) in [(0, 5), (3, 9), (9, 7)] {
            cleaning.written(at(us), PageId(page));
        }
        assert_eq!(cleaning.next_due(), Some(at(10)));
        assert_eq!(cleaning.take_due(at(9)), None);
        assert_eq!(cleaning.take_due(at(20)), Some(4..8));
        assert_eq!(cleaning.take_due(at(20)), Some(8..12));
        assert_eq!((cleaning.take_due(at(20)), cleaning.next_due()), (None, None));
    }

    #[test]
    fn a_write_after_a_block_was_due_makes_it_due_anew() {
        let mut cleaning = Cleaning::new(Span::from_us(10), 4);
        cleaning.written(at(0), PageId(5));
        assert_eq!(cleaning.take_due(at(10)), Some(4..8));
        cleaning.written(at(11), PageId(6));
        assert_eq!(cleaning.next_due(), Some(at(21)));
    }
}
