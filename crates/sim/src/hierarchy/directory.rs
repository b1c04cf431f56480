//! [`Directory`]: which cores' own caches hold a line, as its home tile knows (directory MESI, AF
//! Table I; the protocol is the textbook's: Nagarajan, Sorin, Hill and Wood, "A Primer on Memory
//! Consistency and Cache Coherence", 2nd edition, §8.2).

use ebbtide_trace::LineId;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::hash_map::Entry;

/// A core, of the 1,024 there can be.
type Core = u16;

/// Who holds a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// One core alone, which may write it and need not say so: states E and M.
    Owned(Core),
    /// So many cores, which may only read it: state S. A directory in hardware has a bit for each; here
    /// the caches themselves know which, and only a store asks. It keeps an entry in 16 bytes.
    Shared(u16),
}

/// The directories of all tiles. It is exact, as caches tell it of every line they give up, and so
/// is no larger than all of them together.
#[derive(Debug, Clone)]
pub struct Directory {
    lines: FxHashMap<LineId, Held>,
}

impl Directory {
    /// An empty one over caches of so many lines together.
    pub fn new(lines: usize) -> Directory {
        Directory { lines: FxHashMap::with_capacity_and_hasher(lines, FxBuildHasher) }
    }

    /// Who holds `line`, if anybody does.
    #[cfg(test)]
    pub fn held(&self, line: LineId) -> Option<Held> {
        self.lines.get(&line).copied()
    }

    /// The core that owns `line`.
    pub fn owner(&self, line: LineId) -> Option<usize> {
        match self.lines.get(&line) {
            Some(Held::Owned(core)) => Some(usize::from(*core)),
            _ => None,
        }
    }

    /// `core`, which did not hold `line`, reads it from now on: as its owner if nobody else holds it.
    /// Gives who owned it and shares it now.
    pub fn read(&mut self, core: usize, line: LineId) -> Option<usize> {
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

    /// `core` owns `line` from now on, alone. Gives who held it before, `core` perhaps among them.
    pub fn own(&mut self, core: usize, line: LineId) -> Option<Held> {
        self.lines.insert(line, Held::Owned(core as Core))
    }

    /// Nobody holds `line` any more. Gives who did.
    pub fn clear(&mut self, line: LineId) -> Option<Held> {
        self.lines.remove(&line)
    }

    /// A core has given up `line`, which it held. Others that share it go on doing so, however few are
    /// left.
    pub fn leave(&mut self, line: LineId) {
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
