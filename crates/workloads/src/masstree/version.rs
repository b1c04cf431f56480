//! The version word of a node: its lock, its state and its number of changes.

/// One job holds the node for writing.
const LOCKED: u64 = 1;
/// A job waits for the node's release.
const WAITED: u64 = 1 << 1;
/// Its keys are changing at this moment.
const INSERTING: u64 = 1 << 2;
/// Keys are moving from or to it at this moment.
const SPLITTING: u64 = 1 << 3;
/// It was removed from the tree.
const DELETED: u64 = 1 << 4;
/// It is the root of a layer.
const ROOT: u64 = 1 << 5;
const LEVEL_SHIFT: u32 = 6;
const LEVEL_MASK: u64 = 0x1f << LEVEL_SHIFT;
const INSERTS_SHIFT: u32 = 11;
const INSERTS_MASK: u64 = 0xff_ffff << INSERTS_SHIFT;
const SPLITS_SHIFT: u32 = 35;
const SPLITS_MASK: u64 = 0x1f_ffff << SPLITS_SHIFT;
const MARK_SHIFT: u32 = 56;

/// The kinds of change to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Keys were inserted or removed.
    Insert,
    /// The node's range of keys changed.
    Split,
}

/// A version word (Mao, Kohler and Morris, EuroSys'12, §4.5), without the bits of its lock.
///
/// Bits 0–1: locked, waited for. Bits 2–3: inserting, splitting. Bits 4–5: deleted, root of its
/// layer. Bits 6–10: level, 0 for a border node. Bits 11–34: inserts and removals so far; 35–55:
/// splits and joins. Bits 56–63: a mark that follows from the node's address and tells a lock from
/// garbage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version(u64);

impl Version {
    /// The number of levels.
    pub(super) const LEVELS: u32 = 32;

    /// The version in a word, without the lock.
    #[inline]
    pub(super) fn of(word: u64) -> Version {
        Version(word & !(LOCKED | WAITED))
    }

    /// The version of a node that was never used before.
    pub(super) fn first(mark: u8) -> Version {
        Version(u64::from(mark) << MARK_SHIFT | DELETED)
    }

    /// The version as an unlocked word.
    #[inline]
    pub(super) fn word(self) -> u64 {
        self.0
    }

    /// Returns true if the node is not changing.
    #[inline]
    pub(super) fn is_stable(self) -> bool {
        self.0 & (INSERTING | SPLITTING) == 0
    }

    #[inline]
    pub(super) fn is_deleted(self) -> bool {
        self.0 & DELETED != 0
    }

    #[inline]
    pub(super) fn is_root(self) -> bool {
        self.0 & ROOT != 0
    }

    /// Levels above the border nodes.
    #[inline]
    pub(super) fn level(self) -> u32 {
        ((self.0 & LEVEL_MASK) >> LEVEL_SHIFT) as u32
    }

    /// Returns true if the mark is `mark`.
    pub(super) fn has_mark(self, mark: u8) -> bool {
        self.0 >> MARK_SHIFT == u64::from(mark)
    }

    /// The version after one more change.
    pub(super) fn after(self, change: Change) -> Version {
        let (mask, one) = match change {
            Change::Insert => (INSERTS_MASK, 1 << INSERTS_SHIFT),
            Change::Split => (SPLITS_MASK, 1 << SPLITS_SHIFT),
        };
        Version(self.0 & !mask | (self.0 & mask).wrapping_add(one) & mask)
    }

    /// The version while that change is made.
    pub(super) fn during(self, change: Change) -> Version {
        match change {
            Change::Insert => Version(self.0 | INSERTING),
            Change::Split => Version(self.0 | SPLITTING),
        }
    }

    /// The version at another level.
    pub(super) fn at_level(self, level: u32) -> Version {
        assert!(level < Version::LEVELS, "a tree of {level} levels");
        Version(self.0 & !LEVEL_MASK | u64::from(level) << LEVEL_SHIFT)
    }

    /// The version of a reused node, as the root of a layer or not.
    pub(super) fn alive(self, root: bool) -> Version {
        Version(self.0 & !(DELETED | ROOT) | if root { ROOT } else { 0 })
    }

    /// The version of a deleted node.
    pub(super) fn deleted(self) -> Version {
        Version(self.0 | DELETED)
    }
}

/// Returns true if `word` is locked.
pub(super) fn is_locked(word: u64) -> bool {
    word & LOCKED != 0
}

/// Returns true if a job waits for the release of `word`.
pub(super) fn is_waited(word: u64) -> bool {
    word & WAITED != 0
}

/// `version`, locked.
pub(super) fn locked(version: Version) -> u64 {
    version.0 | LOCKED
}

/// `word` with a job waiting for it.
pub(super) fn waited(word: u64) -> u64 {
    word | WAITED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_wrap_within_their_bits() {
        let first = Version::first(0xab).alive(true).at_level(31);
        let full = Version(first.0 | INSERTS_MASK | SPLITS_MASK);
        assert_eq!(full.after(Change::Insert).after(Change::Split), first);
        assert!(first.has_mark(0xab) && first.is_root() && first.level() == 31);
    }

    #[test]
    fn every_change_gives_another_version() {
        let version = Version::first(1).alive(false);
        for change in [Change::Insert, Change::Split] {
            assert_ne!(version.after(change), version);
            assert!(version.is_stable() && !version.during(change).is_stable());
        }
        assert_ne!(version.deleted(), version);
    }

    #[test]
    fn the_lock_is_no_part_of_the_version() {
        let version = Version::first(1);
        let word = waited(locked(version));
        assert!(is_locked(word) && is_waited(word) && !is_locked(version.word()));
        assert_eq!(Version::of(word), version);
    }
}
