//! [`Tid`]: the version of a record (Silo, SOSP'13, §4.2).

use bytemuck::{Pod, Zeroable};

const LOCKED: u64 = 1;
const WAITED: u64 = 2;
const ABSENT: u64 = 4;
const ONE: u64 = 8;
const EPOCH_SHIFT: u32 = 32;

/// A record's version: the identifier of the transaction that wrote it, and whether the record is
/// present.
///
/// Bit 2: the record is absent. Bits 3–31: a sequence number within the epoch. Bits 32–63: the
/// epoch. In memory, a version has the two bits of the lock in addition: bit 0 held, bit 1 a job
/// waits.
///
/// A record's versions only rise, and two transactions that write one record have different
/// versions. Silo's *latest* bit is not needed, since old versions are not kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct Tid(u64);

impl Tid {
    /// The version of the initial records, in epoch 0.
    pub const INITIAL: Tid = Tid(ONE);

    /// The version of a place that never had a record.
    pub const NEVER: Tid = Tid(ABSENT);

    /// Returns the epoch of the version.
    pub fn epoch(self) -> u64 {
        self.0 >> EPOCH_SHIFT
    }

    /// Returns true if the record is absent.
    pub fn is_absent(self) -> bool {
        self.0 & ABSENT != 0
    }

    /// This version with the absent bit as given.
    pub(super) fn with_absent(self, absent: bool) -> Tid {
        Tid(self.0 & !ABSENT | if absent { ABSENT } else { 0 })
    }

    /// The least version of `epoch` above this one; `None` if this one is of a later epoch or the
    /// epoch has no sequence number left.
    pub(super) fn next_in(self, epoch: u64) -> Option<Tid> {
        let first = Tid(epoch << EPOCH_SHIFT | ONE);
        let next = Tid((self.0 & !ABSENT).checked_add(ONE)?).max(first);
        (next.epoch() == epoch).then_some(next)
    }

    /// The next version in the same epoch, for changes outside of transactions.
    pub(super) fn next(self) -> Option<Tid> {
        self.next_in(self.epoch())
    }

    /// The last version of an epoch.
    #[cfg(test)]
    pub(super) fn last_of(epoch: u64) -> Tid {
        Tid(((epoch + 1) << EPOCH_SHIFT) - ONE)
    }

    /// The version as a checksum covers it.
    pub(super) fn bits(self) -> u64 {
        self.0
    }
}

/// The first word of a record: a version and its lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct TidWord(pub(super) u64);

impl TidWord {
    pub(super) fn tid(self) -> Tid {
        Tid(self.0 & !(LOCKED | WAITED))
    }

    pub(super) fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    pub(super) fn is_waited(self) -> bool {
        self.0 & WAITED != 0
    }

    pub(super) fn locked(self) -> TidWord {
        TidWord(self.0 | LOCKED)
    }

    pub(super) fn waited(self) -> TidWord {
        TidWord(self.0 | WAITED)
    }
}

impl From<Tid> for TidWord {
    fn from(tid: Tid) -> TidWord {
        TidWord(tid.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_rise_within_an_epoch_and_into_the_next() {
        let first = Tid::INITIAL.next_in(3).unwrap();
        let second = first.next_in(3).unwrap();
        assert!(Tid::INITIAL < first && first < second);
        assert_eq!((first.epoch(), second.epoch()), (3, 3));
        assert!(second < second.next_in(4).unwrap());
    }

    #[test]
    fn a_version_of_a_later_epoch_has_no_next_in_an_earlier_one() {
        assert_eq!(Tid::INITIAL.next_in(3).unwrap().next_in(2), None);
    }

    #[test]
    fn a_version_after_an_absent_one_is_higher_whether_there_or_not() {
        let gone = Tid::INITIAL.next_in(7).unwrap().with_absent(true);
        let next = gone.next_in(7).unwrap();
        assert!(next > gone && !next.is_absent() && next.with_absent(true) > gone);
    }

    #[test]
    fn sequence_numbers_never_run_into_the_epoch() {
        let last = Tid((5 << EPOCH_SHIFT) - ONE);
        assert_eq!((last.epoch(), last.next()), (4, None));
    }

    #[test]
    fn the_lock_is_no_part_of_the_version() {
        let word = TidWord::from(Tid::INITIAL).locked().waited();
        assert_eq!(word.tid(), Tid::INITIAL);
        assert!(word.is_locked() && word.is_waited());
    }
}
