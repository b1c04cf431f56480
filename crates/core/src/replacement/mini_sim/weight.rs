//! The weight of a page's past accesses, in two bytes a page.
//!
//! LRFU (Lee et al., IEEE Transactions on Computers 2001) weighs an access `2^(-age / half-life)`.
//! A weight is stored as a *key*: its logarithm plus the time on a clock that also counts in
//! half-lives. So passing time changes no key and no order.

use serde::{Deserialize, Serialize};

use super::super::TOUCHES_MAX;
use crate::addr::PageId;

/// Clock ticks in the half-life of a weight; also key units in a factor of two.
pub(super) const TICKS_PER_HALF_LIFE: usize = 16;

/// Half-life of a weight in turnovers of the cache. A shorter one forgets the pages at the margin.
/// A longer one follows a drift too slowly.
pub(super) const HALF_LIFE_TURNOVERS: usize = 8;

/// Levels (keys relative to the clock) run from `-LEVELS / 2` to `LEVELS / 2 - 1`. A lighter weight
/// counts as the lightest. No weight is heavier: from level 114 on, touches add nothing.
const LEVELS: usize = 256;

/// A history older than this many ticks is made this old, long before the clock's 16 bits wrap.
pub(super) const AGE_MAX: u16 = 0x4000;

/// The logarithm of a page's weight in units of 1/16 octave, plus the tick at which it was formed.
/// Both grow alike with time, so keys of different ages compare; modulo 2¹⁶.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(super) struct Key(pub(super) u16);

impl Key {
    /// The logarithm of the weight at tick `now`.
    pub(super) fn level(self, now: u16) -> i32 {
        let ahead = self.0.wrapping_sub(now);
        if usize::from(ahead) < LEVELS / 2 {
            i32::from(ahead)
        } else {
            -i32::from(now.wrapping_sub(self.0))
        }
    }

    pub(super) fn of_level(level: i32, now: u16) -> Key {
        Key(now.wrapping_add(level as u16))
    }

    /// True if the level at tick `now` is below all levels of a history.
    #[inline]
    pub(super) fn is_older_than_history(self, now: u16) -> bool {
        // Counted from the oldest level up, the levels of a history are the first ones.
        self.0.wrapping_sub(now).wrapping_add(AGE_MAX) >= AGE_MAX + LEVELS as u16 / 2
    }

    /// Returns this key, or the key of the oldest possible history at tick `now` if this one is
    /// older.
    pub(super) fn not_older_than_history(self, now: u16) -> Key {
        if self.is_older_than_history(now) { Key(now.wrapping_sub(AGE_MAX)) } else { self }
    }
}

/// Loads the histories of `pages` together, so that the loads overlap.
pub(super) fn recall(past: &[Key], pages: &[PageId]) {
    let loaded = pages.iter().fold(0, |all, page| all ^ past[page.index()].0);
    std::hint::black_box(loaded);
}

/// Sums of weights, all as logarithms in key units.
pub(super) struct Weights {
    /// The increase of the greater of two weights by the other, by their difference.
    gain: [u8; LEVELS],
    /// The weight of this many accesses now.
    accesses: [i32; TOUCHES_MAX as usize + 1],
}

impl Weights {
    pub(super) fn new() -> Weights {
        let units = |octaves: f64| (octaves * TICKS_PER_HALF_LIFE as f64).round();
        Weights {
            gain: std::array::from_fn(|difference| {
                let lesser = (-(difference as f64) / TICKS_PER_HALF_LIFE as f64).exp2();
                units((1.0 + lesser).log2()) as u8
            }),
            accesses: std::array::from_fn(|count| units((count.max(1) as f64).log2()) as i32),
        }
    }

    pub(super) fn add(&self, level: i32, accesses: u8) -> i32 {
        let added = self.accesses[usize::from(accesses.min(TOUCHES_MAX))];
        let difference = level.abs_diff(added) as usize;
        level.max(added) + i32::from(self.gain.get(difference).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_older_than_history_exactly_where_its_level_says_so() {
        for now in [0, 1, AGE_MAX, u16::MAX] {
            for key in (0..=u16::MAX).map(Key) {
                let is_old = key.level(now) < -i32::from(AGE_MAX);
                assert_eq!(key.is_older_than_history(now), is_old, "{key:?} at {now}");
            }
        }
    }
}
