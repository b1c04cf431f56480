//! [`HeldLatches`]: the latches of a transaction under way, and [`Noted`]: the words that it has read.

use std::collections::{HashMap, HashSet};

use crate::addr::Addr;

/// So many entries are looked through one by one. More have an index.
const LISTED_MAX: usize = 16;

/// Words that a transaction has read, each with what it was. They are looked at again when the
/// transaction commits.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    words: Vec<(Addr, u64)>,
    /// What each word was first, once there are many.
    first: HashMap<Addr, u64>,
}

impl Noted {
    /// Notes that the word at `at` was `seen`.
    pub fn note(&mut self, at: Addr, seen: u64) {
        // A word that was read twice with a change between is noted twice: one of the two is wrong for
        // certain when the transaction commits.
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

    /// What the word at `at` was when it was noted first.
    pub fn first(&self, at: Addr) -> Option<u64> {
        if self.words.len() > LISTED_MAX {
            return self.first.get(&at).copied();
        }
        self.words.iter().find(|(noted, _)| *noted == at).map(|(_, seen)| *seen)
    }

    /// All of them, in the order in which they were noted.
    pub fn words(&self) -> &[(Addr, u64)] {
        &self.words
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.words.clear();
        self.first.clear();
    }
}

/// The latches that a transaction has taken and keeps until its stores have taken effect, and those
/// that it has read under. `ebbtide_structures::latch` keeps it; a memory releases what it names.
#[derive(Clone, Debug, Default)]
pub struct HeldLatches {
    held: Vec<Addr>,
    /// As `held`, once there are many.
    index: HashSet<Addr>,
    highest: Option<Addr>,
    /// Words of latches as they were when something was read under them.
    read: Noted,
    rerun: Option<Rerun>,
    /// True if the transaction takes latches to read as well.
    reads_take: bool,
}

impl HeldLatches {
    /// Whether the transaction holds the latch at `at`.
    pub fn holds(&self, at: Addr) -> bool {
        match self.held.len() {
            len if len > LISTED_MAX => self.index.contains(&at),
            _ => self.held.contains(&at),
        }
    }

    /// The transaction has taken the latch at `at`.
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

    /// Whether waiting for the latch at `at` may end in a circle: another is held that comes after it.
    pub fn may_not_wait_for(&self, at: Addr) -> bool {
        self.highest > Some(at)
    }

    /// True if reading takes latches, too: other jobs have made the transaction begin again so often that
    /// it would otherwise never end.
    pub fn reads_take(&self) -> bool {
        self.reads_take
    }

    /// Says whether reading takes latches from now on.
    pub fn set_reads_take(&mut self, reads_take: bool) {
        self.reads_take = reads_take;
    }

    /// Something was read while the word of the latch at `at` was `seen`.
    pub fn note_read(&mut self, at: Addr, seen: u64) {
        self.read.note(at, seen);
    }

    /// What the word of the latch at `at` was when something was first read under it.
    pub fn first_read(&self, at: Addr) -> Option<u64> {
        self.read.first(at)
    }

    /// The latches that were read under, with their words then.
    pub fn read(&self) -> &[(Addr, u64)] {
        self.read.words()
    }

    /// The latches that are held, in the order in which they were taken.
    pub fn held(&self) -> &[Addr] {
        &self.held
    }

    /// Ends this run of the body, which has to begin again, by unwinding without a panic message. A body
    /// that catches it does not commit all the same.
    pub fn run_again(&mut self, rerun: Rerun) -> ! {
        self.rerun.get_or_insert(rerun);
        std::panic::resume_unwind(Box::new(rerun))
    }

    /// Why the body has to begin again, if so.
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

/// Why a run of a transaction's body must begin again: what
/// [`run_again`](HeldLatches::run_again) unwinds with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rerun {
    /// The latch at this address has to be free first.
    Waits(Addr),
    /// A word that was read has changed since.
    Changed(Changed),
}

/// A word that a transaction has read and that has changed before the transaction committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Changed {
    /// Where the word is.
    pub at: Addr,
    /// What it was when the transaction read it.
    pub read: u64,
    /// What it was when the transaction looked again.
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
