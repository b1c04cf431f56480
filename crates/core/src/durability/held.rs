//! [`HeldLatches`]: the latches of a transaction under way, and [`Noted`]: the words that it has
//! read.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;

/// Up to this many entries are searched one by one. More have an index.
const LISTED_MAX: usize = 16;

/// Words that a transaction has read, with their values then. The commit compares them with memory.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    words: Vec<(Addr, u64)>,
    /// The first value noted for each word. Filled only once there are more than `LISTED_MAX`.
    first: HashMap<Addr, u64>,
}

impl Noted {
    /// Notes that the transaction read `seen` in the word at `at`.
    pub fn note(&mut self, at: Addr, seen: u64) {
        // A word that was read twice with a change between is noted twice. One of the two differs
        // for certain when the transaction commits.
        if self.first(at) == Some(seen) || self.words.last() == Some(&(at, seen)) {
            return;
        }
        self.words.push((at, seen));
        let not_indexed = match self.words.len() {
            len if len > LISTED_MAX + 1 => &self.words[len - 1..],
            len if len > LISTED_MAX => &self.words[..],
            _ => &[],
        };
        for &(at, seen) in not_indexed {
            self.first.entry(at).or_insert(seen);
        }
    }

    /// Returns the value of the word at `at` when it was noted first.
    pub fn first(&self, at: Addr) -> Option<u64> {
        if self.words.len() > LISTED_MAX {
            return self.first.get(&at).copied();
        }
        self.words.iter().find(|(noted, _)| *noted == at).map(|(_, seen)| *seen)
    }

    /// Returns the noted words, oldest first.
    pub fn words(&self) -> &[(Addr, u64)] {
        &self.words
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.words.clear();
        self.first.clear();
    }
}

/// The latches that a transaction holds until its stores have taken effect, and those that it has
/// read under. `ebbtide_structures::latch` fills it; a memory releases the latches in it.
#[derive(Clone, Debug, Default)]
pub struct HeldLatches {
    held: Vec<Addr>,
    /// The same latches as `held`. Filled only once there are many.
    index: HashSet<Addr>,
    highest: Option<Addr>,
    /// Words of latches, with their values when data was read under them.
    read: Noted,
    rerun: Option<Rerun>,
    /// True if the transaction takes latches to read as well.
    reads_take: bool,
}

impl HeldLatches {
    /// Returns true if the transaction holds the latch at `at`.
    pub fn holds(&self, at: Addr) -> bool {
        match self.held.len() {
            len if len > LISTED_MAX => self.index.contains(&at),
            _ => self.held.contains(&at),
        }
    }

    /// Notes that the transaction has taken the latch at `at`.
    pub fn take(&mut self, at: Addr) {
        debug_assert!(!self.holds(at));
        self.held.push(at);
        self.highest = self.highest.max(Some(at));
        match self.held.len() {
            len if len > LISTED_MAX + 1 => self.index.extend([at]),
            len if len > LISTED_MAX => self.index.extend(&self.held),
            _ => {}
        }
    }

    /// Returns true if waiting for the latch at `at` may deadlock: the transaction holds a latch
    /// with a higher address.
    pub fn may_not_wait_for(&self, at: Addr) -> bool {
        self.highest > Some(at)
    }

    /// Returns true if reading takes latches, too. Other jobs have restarted the transaction too
    /// often for it to end otherwise.
    pub fn reads_take(&self) -> bool {
        self.reads_take
    }

    /// Sets whether reading takes latches from now on.
    pub fn set_reads_take(&mut self, reads_take: bool) {
        self.reads_take = reads_take;
    }

    /// Notes that data was read while the word of the latch at `at` was `seen`.
    pub fn note_read(&mut self, at: Addr, seen: u64) {
        self.read.note(at, seen);
    }

    /// Returns the word of the latch at `at` when data was first read under it.
    pub fn first_read(&self, at: Addr) -> Option<u64> {
        self.read.first(at)
    }

    /// Returns the latches that were read under, with their words then.
    pub fn read(&self) -> &[(Addr, u64)] {
        self.read.words()
    }

    /// Returns the latches held, oldest first.
    pub fn held(&self) -> &[Addr] {
        &self.held
    }

    /// Ends this run of the body by unwinding without a panic message; the body then begins again.
    /// A body that catches the unwinding does not commit.
    pub fn run_again(&mut self, rerun: Rerun) -> ! {
        self.rerun.get_or_insert(rerun);
        std::panic::resume_unwind(Box::new(rerun))
    }

    /// Returns why the body must begin again, if it must.
    pub fn rerun(&self) -> Option<Rerun> {
        self.rerun
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.held.clear();
        self.index.clear();
        self.highest = None;
        self.read.clear();
        self.rerun = None;
        self.reads_take = false;
    }
}

/// Why a run of a transaction's body must begin again. [`run_again`](HeldLatches::run_again)
/// unwinds with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rerun {
    /// The latch at this address must become free first.
    Waits(Addr),
    /// A word that was read has changed since.
    Changed(Changed),
}

/// A word that a transaction has read and that has changed before the transaction committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Changed {
    /// Where the word is.
    pub at: Addr,
    /// Its value when the transaction read it.
    pub read: u64,
    /// Its value when the transaction checked it.
    pub found: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few and many: the second are found by hash.
    const COUNTS: [u64; 2] = [LISTED_MAX as u64, 5 * LISTED_MAX as u64];

    #[test]
    fn a_word_is_noted_once_unless_it_has_changed() {
        for count in COUNTS {
            let mut noted = Noted::default();
            for round in 0..3 {
                (0..count).for_each(|n| noted.note(Addr(8 * n), n));
                assert_eq!(noted.words().len() as u64, count, "round {round}");
            }
            noted.note(Addr(8), 77);
            assert_eq!(noted.words().last(), Some(&(Addr(8), 77)));
            assert_eq!(noted.first(Addr(8)), Some(1));
            assert_eq!(noted.first(Addr(8 * count)), None);
            noted.clear();
            assert_eq!((noted.words(), noted.first(Addr(8))), (&[][..], None));
        }
    }

    #[test]
    fn latches_are_held_until_all_are_forgotten() {
        for count in COUNTS {
            let mut latches = HeldLatches::default();
            (0..count).rev().for_each(|n| latches.take(Addr(16 * n)));
            assert!(
                (0..count).all(|n| latches.holds(Addr(16 * n)) && !latches.holds(Addr(16 * n + 8)))
            );
            assert!(latches.may_not_wait_for(Addr(16 * (count - 1) - 8)));
            assert!(!latches.may_not_wait_for(Addr(16 * (count - 1))));
            latches.clear();
            assert!(!latches.holds(Addr(0)) && !latches.may_not_wait_for(Addr(0)));
        }
    }
}
