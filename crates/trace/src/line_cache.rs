//! [`LineCache`]: a set-associative cache of lines with exact LRU. It has tags and no contents.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A line's number: its address divided by [`LINE_BYTES`](ebbtide_core::LINE_BYTES).
pub type LineId = u64;

/// A set-associative cache with exact LRU. It has tags and no contents.
///
/// A set keeps its ways in the order of their last use, the latest first. So LRU needs no
/// timestamps, and hot lines are found first.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LineCache {
    /// `line + 1` with the dirty bit on top; 0 is empty.
    entries: Vec<u64>,
    ways: usize,
    set_mask: u64,
}

/// An evicted line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evicted {
    /// The line.
    pub line: LineId,
    /// True if the line is dirty and must be written back.
    pub dirty: bool,
}

const DIRTY: u64 = 1 << 63;

impl LineCache {
    /// Returns an empty cache of `lines` lines in sets of `ways`. `None` if the number of sets is
    /// not a power of two.
    pub fn new(lines: u64, ways: usize) -> Option<LineCache> {
        let in_set = ways as u64;
        let whole = in_set > 0 && lines >= in_set && lines.is_multiple_of(in_set);
        let set_mask = if whole { lines / in_set - 1 } else { return None };
        let power = (set_mask + 1).is_power_of_two();
        power.then(|| LineCache { entries: vec![0; lines as usize], ways, set_mask })
    }

    /// Looks `line` up, makes it the most recently used, and marks it dirty if `write`. Returns
    /// `None` if it is absent, otherwise whether it was dirty before.
    #[inline]
    pub fn touch(&mut self, line: LineId, write: bool) -> Option<bool> {
        let set = self.set(line);
        let way = set.iter().position(|entry| entry & !DIRTY == line + 1)?;
        let entry = set[way];
        set.copy_within(0..way, 1);
        set[0] = entry | if write { DIRTY } else { 0 };
        Some(entry & DIRTY != 0)
    }

    /// Returns true if `line` is present. Its place in the LRU order stays.
    pub fn holds(&self, line: LineId) -> bool {
        self.entries[self.set_of(line)].iter().any(|entry| entry & !DIRTY == line + 1)
    }

    /// Inserts `line` as the most recently used. It must not be present. If the set was full,
    /// evicts and returns its least recently used line.
    #[inline]
    pub fn install(&mut self, line: LineId, dirty: bool) -> Option<Evicted> {
        let ways = self.ways;
        let set = self.set(line);
        debug_assert!(set.iter().all(|entry| entry & !DIRTY != line + 1), "line {line} is there");
        let last = set[ways - 1];
        set.copy_within(0..ways - 1, 1);
        set[0] = (line + 1) | if dirty { DIRTY } else { 0 };
        (last != 0).then(|| Evicted { line: (last & !DIRTY) - 1, dirty: last & DIRTY != 0 })
    }

    /// Invalidates `line`, because another core writes it. Returns `None` if it was absent,
    /// otherwise whether it was dirty.
    pub fn remove(&mut self, line: LineId) -> Option<bool> {
        let set = self.set(line);
        let way = set.iter().position(|entry| entry & !DIRTY == line + 1)?;
        let entry = set[way];
        set.copy_within(way + 1.., way);
        set[set.len() - 1] = 0;
        Some(entry & DIRTY != 0)
    }

    /// Marks `line` as clean, because its contents were written back. Returns true if it was dirty.
    pub fn clean(&mut self, line: LineId) -> bool {
        let found = self.set(line).iter_mut().find(|entry| **entry & !DIRTY == line + 1);
        found.is_some_and(|entry| std::mem::replace(entry, line + 1) & DIRTY != 0)
    }

    #[inline]
    fn set(&mut self, line: LineId) -> &mut [u64] {
        let set = self.set_of(line);
        &mut self.entries[set]
    }

    /// The range of entries of the set of `line`.
    #[inline]
    fn set_of(&self, line: LineId) -> Range<usize> {
        let start = (line & self.set_mask) as usize * self.ways;
        start..start + self.ways
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// What is done to a line.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Load,
        Store,
        Remove,
        Clean,
    }

    fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
        let step = prop::sample::select(vec![
            Step::Load,
            Step::Load,
            Step::Load,
            Step::Store,
            Step::Store,
            Step::Remove,
            Step::Clean,
        ]);
        prop::collection::vec((0u64..40, step), 1..400)
    }

    proptest! {
        #[test]
        fn it_agrees_with_lists_in_order_of_use(steps in steps()) {
            let mut cache = LineCache::new(4 * 4, 4).unwrap();
            let mut model: Vec<VecDeque<(u64, bool)>> = vec![VecDeque::new(); 4];
            for (line, step) in steps {
                let set = &mut model[line as usize % 4];
                let found = set.iter().position(|(l, _)| *l == line);
                let was_dirty = found.map(|way| set[way].1);
                let write = matches!(step, Step::Store);
                match step {
                    Step::Remove => {
                        prop_assert_eq!(cache.remove(line), was_dirty);
                        if let Some(way) = found {
                            set.remove(way);
                        }
                        continue;
                    }
                    Step::Clean => {
                        prop_assert_eq!(cache.clean(line), was_dirty == Some(true));
                        if let Some(way) = found {
                            set[way].1 = false;
                        }
                        continue;
                    }
                    Step::Load | Step::Store => {}
                }
                prop_assert_eq!(cache.touch(line, write), was_dirty);
                if let Some(way) = found {
                    set.remove(way);
                } else {
                    let gone = if set.len() == 4 { set.pop_back() } else { None };
                    let evicted = gone.map(|(line, dirty)| Evicted { line, dirty });
                    prop_assert_eq!(cache.install(line, write), evicted);
                }
                set.push_front((line, was_dirty == Some(true) || write));
            }
        }
    }

    #[test]
    fn sets_that_are_no_power_of_two_are_refused() {
        for (lines, ways) in [(3 * 4, 4), (0, 4), (2, 4), (18, 4), (64, 0)] {
            assert!(LineCache::new(lines, ways).is_none(), "{lines} lines, {ways} ways");
        }
    }
}
