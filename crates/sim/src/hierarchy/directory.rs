//! [`Directory`]: the private caches that hold each line. AstriFlash Table I has directory MESI.
//! The protocol follows Nagarajan, Sorin, Hill and Wood, "A Primer on Memory Consistency and Cache
//! Coherence", 2nd edition, §8.2.

use ebbtide_trace::LineId;
use serde::{Deserialize, Serialize};

use super::probing::{after, follower};

/// A core. There are at most 1,024.
type Core = u16;

/// The holders of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// One core, which may write the line without a request: states E and M.
    Owned(Core),
    /// A number of cores, which may only read the line: state S. A directory in hardware has a bit
    /// for each core. Here the caches know their lines, and only a store asks them. So an entry has
    /// 8 bytes.
    Shared(u16),
}

/// The directories of all tiles. Caches report every eviction, so the directory is exact. It has at
/// most as many entries as the caches have lines.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Directory {
    /// A hash table with linear probing, at most half full. Most lookups read one line of host
    /// memory.
    entries: Vec<Entry>,
}

/// A line and its holders in one word; 0 is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Entry(u64);

/// The lowest bits of an entry: the number of sharers, or the owner with this bit on top. There is
/// always a sharer, so no entry is 0.
const OWNED: u64 = 1 << (HOLDERS_BITS - 1);
const HOLDERS_BITS: u32 = 12;

impl Entry {
    const EMPTY: Entry = Entry(0);

    #[inline]
    fn new(line: LineId, held: Held) -> Entry {
        debug_assert!(line >> (u64::BITS - HOLDERS_BITS) == 0, "line {line} is beyond 2^58 bytes");
        let holders = match held {
            Held::Owned(core) => OWNED | u64::from(core),
            Held::Shared(count) => u64::from(count),
        };
        Entry(line << HOLDERS_BITS | holders)
    }

    #[inline]
    fn line(self) -> LineId {
        self.0 >> HOLDERS_BITS
    }

    #[inline]
    fn held(self) -> Held {
        let number = (self.0 & (OWNED - 1)) as u16;
        if self.0 & OWNED != 0 { Held::Owned(number) } else { Held::Shared(number) }
    }
}

impl Directory {
    /// An empty directory for caches with `lines` lines in all.
    pub(super) fn new(lines: usize) -> Directory {
        // A line that a cache takes enters the directory before the evicted line leaves it.
        Directory { entries: vec![Entry::EMPTY; (2 * (lines + 1)).next_power_of_two()] }
    }

    /// The holders of `line`, if there are any.
    #[cfg(test)]
    pub fn held(&self, line: LineId) -> Option<Held> {
        let entry = self.entries[self.find(line)];
        (entry != Entry::EMPTY).then(|| entry.held())
    }

    /// The core that owns `line`, if one does.
    #[inline]
    pub(super) fn owner(&self, line: LineId) -> Option<usize> {
        let entry = self.entries[self.find(line)];
        (entry.0 & OWNED != 0).then_some((entry.0 & (OWNED - 1)) as usize)
    }

    /// Adds `core` as a reader of `line`, which it did not hold. It owns the line if no other core
    /// holds it. Returns the previous owner, which now shares the line.
    #[inline]
    pub(super) fn read(&mut self, core: usize, line: LineId) -> Option<usize> {
        let place = self.find(line);
        let entry = &mut self.entries[place];
        if *entry == Entry::EMPTY {
            *entry = Entry::new(line, Held::Owned(core as Core));
            return None;
        }
        match entry.held() {
            Held::Owned(owner) => {
                *entry = Entry::new(line, Held::Shared(2));
                Some(usize::from(owner))
            }
            Held::Shared(count) => {
                *entry = Entry::new(line, Held::Shared(count + 1));
                None
            }
        }
    }

    /// Makes `core` the owner of `line`. Returns the previous holders, which may include `core`.
    #[inline]
    pub(super) fn own(&mut self, core: usize, line: LineId) -> Option<Held> {
        let place = self.find(line);
        let owned = Entry::new(line, Held::Owned(core as Core));
        let before = std::mem::replace(&mut self.entries[place], owned);
        (before != Entry::EMPTY).then(|| before.held())
    }

    /// Removes all holders of `line` and returns them.
    pub(super) fn clear(&mut self, line: LineId) -> Option<Held> {
        let place = self.find(line);
        let before = self.entries[place];
        (before != Entry::EMPTY).then(|| {
            self.remove(place);
            before.held()
        })
    }

    /// A core evicted `line`. The other holders keep sharing it, even if only one is left.
    #[inline]
    pub(super) fn leave(&mut self, line: LineId) {
        let place = self.find(line);
        let entry = &mut self.entries[place];
        assert!(*entry != Entry::EMPTY, "line {line} was held");
        match entry.held() {
            Held::Shared(count) if count > 1 => {
                *entry = Entry::new(line, Held::Shared(count - 1));
            }
            _ => self.remove(place),
        }
    }

    /// Where the search for `line` begins.
    #[inline]
    fn home(&self, line: LineId) -> usize {
        let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> (u64::BITS - self.entries.len().trailing_zeros())) as usize
    }

    /// Where `line` is, or the empty place where it would be.
    #[inline]
    fn find(&self, line: LineId) -> usize {
        let mut place = self.home(line);
        while self.entries[place] != Entry::EMPTY && self.entries[place].line() != line {
            place = after(place, self.entries.len());
        }
        place
    }

    /// Empties `place`, and moves back the entries behind it.
    fn remove(&mut self, place: usize) {
        let mut hole = place;
        while let Some(moved) = follower(hole, self.entries.len(), |place| {
            let entry = self.entries[place];
            (entry != Entry::EMPTY).then(|| self.home(entry.line()))
        }) {
            self.entries[hole] = self.entries[moved];
            hole = moved;
        }
        self.entries[hole] = Entry::EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rustc_hash::FxHashMap;

    proptest! {
        #[test]
        fn it_agrees_with_a_map_also_where_lines_share_a_place(
            steps in prop::collection::vec((0..4u8, 0..12u64, 0..1_024usize), 1..200),
        ) {
            let mut directory = Directory::new(16);
            let mut model: FxHashMap<LineId, Held> = FxHashMap::default();
            // Lines with few home places, so some are far from theirs, and the line with the
            // highest number.
            let lines: Vec<LineId> = (0..)
                .map(|i| i * 7 + (1 << 51))
                .filter(|line| directory.home(*line) >= 62 || directory.home(*line) < 2)
                .take(12)
                .collect();
            for (step, line, core) in steps {
                let line = lines[line as usize];
                let before = model.get(&line).copied();
                match (step, before) {
                    (0, before) => {
                        let owned = Held::Owned(core as Core);
                        let owner = match before {
                            Some(Held::Owned(owner)) => Some(usize::from(owner)),
                            _ => None,
                        };
                        prop_assert_eq!(directory.read(core, line), owner);
                        model.insert(line, match before {
                            None => owned,
                            Some(Held::Owned(_)) => Held::Shared(2),
                            Some(Held::Shared(count)) => Held::Shared(count + 1),
                        });
                    }
                    (1, before) => {
                        prop_assert_eq!(directory.own(core, line), before);
                        model.insert(line, Held::Owned(core as Core));
                    }
                    (2, before) => {
                        prop_assert_eq!(directory.clear(line), before);
                        model.remove(&line);
                    }
                    (_, None) => {}
                    (_, Some(held)) => {
                        directory.leave(line);
                        match held {
                            Held::Shared(count @ 2..) => {
                                model.insert(line, Held::Shared(count - 1));
                            }
                            _ => {
                                model.remove(&line);
                            }
                        }
                    }
                }
                for line in &lines {
                    prop_assert_eq!(directory.held(*line), model.get(line).copied());
                }
            }
        }
    }

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
