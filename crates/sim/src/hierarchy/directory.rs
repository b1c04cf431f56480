//! [`Directory`]: which cores' own caches hold a line, as its home tile knows (directory MESI, AF
//! Table I; the protocol is the textbook's: Nagarajan, Sorin, Hill and Wood, "A Primer on Memory
//! Consistency and Cache Coherence", 2nd edition, §8.2).

use ebbtide_core::LineId;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::hash_map::Entry;

/// A core, of the 1,024 there can be.
type Core = u16;

/// Who holds a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holders {
    /// One core alone, which may write it and need not say so: states E and M.
    Owner(Core),
    /// Cores that may only read it, at least one: state S.
    Sharers(Vec<Core>),
}

impl Holders {
    /// Which cores they are.
    pub fn cores(&self) -> impl Iterator<Item = usize> {
        let cores = match self {
            Holders::Owner(core) => std::slice::from_ref(core),
            Holders::Sharers(cores) => cores,
        };
        cores.iter().map(|core| usize::from(*core))
    }
}

/// The directories of all tiles. It is exact, as caches tell it of every line they give up, and so
/// is no larger than all of them together.
#[derive(Debug, Clone)]
pub struct Directory {
    lines: FxHashMap<LineId, Holders>,
}

impl Directory {
    /// An empty one over caches of so many lines together.
    pub fn new(lines: usize) -> Directory {
        Directory { lines: FxHashMap::with_capacity_and_hasher(lines, FxBuildHasher) }
    }

    /// Who holds `line`, if anybody does.
    pub fn holders(&self, line: LineId) -> Option<&Holders> {
        self.lines.get(&line)
    }

    /// The core that owns `line`.
    pub fn owner(&self, line: LineId) -> Option<usize> {
        match self.lines.get(&line) {
            Some(Holders::Owner(core)) => Some(usize::from(*core)),
            _ => None,
        }
    }

    /// `core`, which did not hold `line`, reads it from now on: as its owner if nobody else holds it.
    /// Gives who owned it and shares it now.
    pub fn read(&mut self, core: usize, line: LineId) -> Option<usize> {
        let core = core as Core;
        match self.lines.entry(line) {
            Entry::Vacant(unheld) => {
                unheld.insert(Holders::Owner(core));
                None
            }
            Entry::Occupied(mut held) => match held.get_mut() {
                Holders::Owner(owner) => {
                    let owner = *owner;
                    held.insert(Holders::Sharers(vec![owner, core]));
                    Some(usize::from(owner))
                }
                Holders::Sharers(cores) => {
                    cores.push(core);
                    None
                }
            },
        }
    }

    /// `core` owns `line` from now on, alone. Gives who held it before, `core` perhaps among them.
    pub fn own(&mut self, core: usize, line: LineId) -> Option<Holders> {
        self.lines.insert(line, Holders::Owner(core as Core))
    }

    /// Nobody holds `line` any more. Gives who did.
    pub fn clear(&mut self, line: LineId) -> Option<Holders> {
        self.lines.remove(&line)
    }

    /// `core` has given up `line`. Others that share it go on doing so, however few are left.
    pub fn leave(&mut self, core: usize, line: LineId) {
        let Entry::Occupied(mut held) = self.lines.entry(line) else {
            unreachable!("line {line} was held by core {core}");
        };
        let left = match held.get_mut() {
            Holders::Owner(_) => 0,
            Holders::Sharers(cores) => {
                cores.retain(|sharer| usize::from(*sharer) != core);
                cores.len()
            }
        };
        if left == 0 {
            held.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(directory: &Directory, line: LineId) -> Vec<usize> {
        directory.holders(line).map_or(Vec::new(), |holders| holders.cores().collect())
    }

    #[test]
    fn the_first_reader_owns_a_line_and_the_second_makes_both_share_it() {
        let mut directory = Directory::new(8);
        assert_eq!((directory.read(3, 7), directory.owner(7)), (None, Some(3)));
        assert_eq!((directory.read(1, 7), directory.owner(7)), (Some(3), None));
        assert_eq!((directory.read(2, 7), held(&directory, 7)), (None, vec![3, 1, 2]));
    }

    #[test]
    fn who_writes_holds_it_alone() {
        let mut directory = Directory::new(8);
        (0..3).for_each(|core| {
            directory.read(core, 7);
        });
        assert_eq!(directory.own(1, 7), Some(Holders::Sharers(vec![0, 1, 2])));
        assert_eq!((directory.owner(7), held(&directory, 7)), (Some(1), vec![1]));
        assert_eq!(directory.own(0, 7), Some(Holders::Owner(1)));
    }

    #[test]
    fn a_line_that_all_have_given_up_is_forgotten_and_a_last_sharer_does_not_own_it() {
        let mut directory = Directory::new(8);
        directory.read(0, 7);
        directory.read(1, 7);
        directory.leave(0, 7);
        assert_eq!((directory.owner(7), held(&directory, 7)), (None, vec![1]));
        directory.leave(1, 7);
        assert_eq!(directory.holders(7), None);
        directory.own(1_023, 7);
        directory.leave(1_023, 7);
        assert_eq!(directory.clear(7), None);
    }
}
