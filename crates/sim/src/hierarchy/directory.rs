//! [`Directory`]: the private caches that hold each line. AstriFlash Table I has directory MESI.
//! The protocol is that of Nagarajan, Sorin, Hill and Wood, "A Primer on Memory Consistency and
//! Cache Coherence", 2nd edition, §8.2.

use ebbtide_trace::LineId;
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde::{Deserialize, Serialize};
use std::collections::hash_map::Entry;

/// A core. There are at most 1,024.
type Core = u16;

/// The holders of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Held {
    /// One core, which may write the line without a request: states E and M.
    Owned(Core),
    /// A number of cores, which may only read the line: state S. A directory in hardware has a bit
    /// for each core. Here the caches themselves know, and only a store asks them. So an entry has
    /// 16 bytes.
    Shared(u16),
}

/// The directories of all tiles. Caches report every eviction, so the directory is exact, and has
/// no more entries than the caches have lines.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Directory {
    lines: FxHashMap<LineId, Held>,
}

impl Directory {
    /// An empty directory for caches with `lines` lines in all.
    pub(super) fn new(lines: usize) -> Directory {
        Directory { lines: FxHashMap::with_capacity_and_hasher(lines, FxBuildHasher) }
    }

    /// The holders of `line`, if there are any.
    #[cfg(test)]
    pub fn held(&self, line: LineId) -> Option<Held> {
        self.lines.get(&line).copied()
    }

    /// The core that owns `line`, if one does.
    pub(super) fn owner(&self, line: LineId) -> Option<usize> {
        match self.lines.get(&line) {
            Some(Held::Owned(core)) => Some(usize::from(*core)),
            _ => None,
        }
    }

    /// Adds `core` as a reader of `line`, which it did not hold. It owns the line if no other core
    /// holds it. Gives the previous owner, which now shares the line.
    pub(super) fn read(&mut self, core: usize, line: LineId) -> Option<usize> {
        match self.lines.entry(line) {
            Entry::Vacant(unheld) => {
                unheld.insert(Held::Owned(core as Core));
                None
            }
            Entry::Occupied(mut held) => match held.get_mut() {
                Held::Owned(owner) => {
                    let owner = *owner;
                    held.insert(Held::Shared(2));
                    Some(usize::from(owner))
                }
                Held::Shared(count) => {
                    *count += 1;
                    None
                }
            },
        }
    }

    /// Makes `core` the owner of `line`. Gives the previous holders, which may include `core`.
    pub(super) fn own(&mut self, core: usize, line: LineId) -> Option<Held> {
        self.lines.insert(line, Held::Owned(core as Core))
    }

    /// Removes all holders of `line`. Gives them.
    pub(super) fn clear(&mut self, line: LineId) -> Option<Held> {
        self.lines.remove(&line)
    }

    /// A core evicted `line`. The other holders keep sharing it, even if only one is left.
    pub(super) fn leave(&mut self, line: LineId) {
        let Entry::Occupied(mut held) = self.lines.entry(line) else {
            unreachable!("line {line} was held");
        };
        match held.get_mut() {
            Held::Shared(count) if *count > 1 => *count -= 1,
            _ => {
                held.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reader_owns_a_line_and_the_second_makes_both_share_it() {
        let mut directory = Directory::new(8);
        assert_eq!((directory.read(3, 7), directory.owner(7)), (None, Some(3)));
        assert_eq!((directory.read(1, 7), directory.owner(7)), (Some(3), None));
        assert_eq!((directory.read(2, 7), directory.held(7)), (None, Some(Held::Shared(3))));
    }

    #[test]
    fn who_writes_holds_it_alone() {
        let mut directory = Directory::new(8);
        (0..3).for_each(|core| {
            directory.read(core, 7);
        });
        assert_eq!(directory.own(1, 7), Some(Held::Shared(3)));
        assert_eq!((directory.owner(7), directory.own(0, 7)), (Some(1), Some(Held::Owned(1))));
    }

    #[test]
    fn a_line_that_all_have_given_up_is_forgotten_and_a_last_sharer_does_not_own_it() {
        let mut directory = Directory::new(8);
        directory.read(0, 7);
        directory.read(1, 7);
        directory.leave(7);
        assert_eq!((directory.owner(7), directory.held(7)), (None, Some(Held::Shared(1))));
        directory.leave(7);
        assert_eq!(directory.held(7), None);
        directory.own(1_023, 7);
        directory.leave(7);
        assert_eq!(directory.clear(7), None);
    }
}
