//! [`LineCache`]: a set-associative cache of lines, exact LRU. Tags only: contents live elsewhere.

/// A line's number: its address divided by [`LINE_BYTES`](crate::LINE_BYTES).
pub type LineId = u64;

/// The tags of a cache.
///
/// A set keeps its ways in order of use, the latest first, so that LRU needs no clocks and hot
/// lines are found at the first look.
#[derive(Debug, Clone)]
pub struct LineCache {
    /// `line + 1` with the dirty bit on top; 0 is empty.
    entries: Vec<u64>,
    ways: usize,
    set_mask: u64,
}

/// A dirty line that had to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writeback(pub LineId);

const DIRTY: u64 = 1 << 63;

impl LineCache {
    /// A cache of `lines` lines in sets of `ways`. `None` when its sets are not a power of two.
    pub fn new(lines: u64, ways: usize) -> Option<LineCache> {
        let in_set = ways as u64;
        let whole = in_set > 0 && lines >= in_set && lines.is_multiple_of(in_set);
        let set_mask = if whole { lines / in_set - 1 } else { return None };
        let power = (set_mask + 1).is_power_of_two();
        power.then(|| LineCache { entries: vec![0; lines as usize], ways, set_mask })
    }

    /// Looks `line` up and makes it the latest used; marks it dirty if `write`. Gives whether it was
    /// there, and whether it was dirty before.
    #[inline]
    pub fn touch(&mut self, line: LineId, write: bool) -> Option<bool> {
        let set = self.set(line);
        let way = set.iter().position(|entry| entry & !DIRTY == line + 1)?;
        let entry = set[way];
        set.copy_within(0..way, 1);
        set[0] = entry | if write { DIRTY } else { 0 };
        Some(entry & DIRTY != 0)
    }

    /// Puts `line`, which is not there, first in its set. The least recently used one goes.
    #[inline]
    pub fn install(&mut self, line: LineId, dirty: bool) -> Option<Writeback> {
        let ways = self.ways;
        let set = self.set(line);
        debug_assert!(set.iter().all(|entry| entry & !DIRTY != line + 1), "line {line} is there");
        let last = set[ways - 1];
        set.copy_within(0..ways - 1, 1);
        set[0] = (line + 1) | if dirty { DIRTY } else { 0 };
        (last & DIRTY != 0).then(|| Writeback((last & !DIRTY) - 1))
    }

    #[inline]
    fn set(&mut self, line: LineId) -> &mut [u64] {
        let start = (line & self.set_mask) as usize * self.ways;
        &mut self.entries[start..start + self.ways]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn it_agrees_with_lists_in_order_of_use(
            accesses in prop::collection::vec((0u64..40, any::<bool>()), 1..400)
        ) {
            let mut cache = LineCache::new(4 * 4, 4).unwrap();
            let mut model: Vec<VecDeque<(u64, bool)>> = vec![VecDeque::new(); 4];
            for (line, write) in accesses {
                let set = &mut model[line as usize % 4];
                let found = set.iter().position(|(l, _)| *l == line);
                prop_assert_eq!(cache.touch(line, write), found.map(|way| set[way].1));
                let dirty = match found.and_then(|way| set.remove(way)) {
                    Some((_, dirty)) => dirty,
                    None => {
                        let gone = if set.len() == 4 { set.pop_back() } else { None };
                        let writeback = gone.filter(|g| g.1).map(|g| Writeback(g.0));
                        prop_assert_eq!(cache.install(line, write), writeback);
                        false
                    }
                };
                set.push_front((line, dirty || write));
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
