//! What is kept of a frame and of a page, in few bytes.

use super::super::adaptive_lrfu::Key;

/// A page not used for this many ticks is taken for one used then, long before the time wraps.
pub(super) const AGE_MAX: u16 = 0x4000;

/// The time in ticks, modulo 2¹⁶.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Tick(pub(super) u16);

impl Tick {
    /// Ticks from `earlier` until this.
    pub(super) fn since(self, earlier: Tick) -> u16 {
        self.0.wrapping_sub(earlier.0)
    }

    pub(super) fn minus(self, ticks: u16) -> Tick {
        Tick(self.0.wrapping_sub(ticks))
    }

    /// Whether this is before `other`, both being of limited age.
    pub(super) fn is_before(self, other: Tick) -> bool {
        (self.0.wrapping_sub(other.0) as i16) < 0
    }

    /// The same, or the time of the greatest age at `now`.
    pub(super) fn not_too_old(self, now: Tick) -> Tick {
        if now.since(self) > AGE_MAX { now.minus(AGE_MAX) } else { self }
    }
}

/// What is known of the page in a frame.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) page: u32,
    /// The weight of its accesses.
    pub(super) key: Key,
    /// When it was used last, inserted and looked at.
    pub(super) used: Tick,
    pub(super) inserted: Tick,
    pub(super) looked: Tick,
    pub(super) is_known: bool,
    /// Whether it was touched since it was inserted.
    pub(super) is_touched: bool,
    /// Whether it was looked at exactly a turnover ago, and found no touch since.
    pub(super) is_forecast: bool,
}

/// What is [`Known`] of a frame in two words, each read and written as a whole: a part of a word that
/// was just written makes the processor wait when all of it is read.
#[derive(Clone, Copy, Default)]
pub(super) struct Packed([u64; 2]);

impl Packed {
    const KNOWN: u64 = 1 << 32;
    const TOUCHED: u64 = 1 << 33;
    const FORECAST: u64 = 1 << 34;

    #[inline]
    pub(super) fn new(known: Known) -> Packed {
        let Known { page, key, used, inserted, looked, .. } = known;
        let flag = |is_set: bool, flag: u64| if is_set { flag } else { 0 };
        let flags = flag(known.is_known, Packed::KNOWN)
            | flag(known.is_touched, Packed::TOUCHED)
            | flag(known.is_forecast, Packed::FORECAST);
        Packed([
            u64::from(page) | u64::from(key.0) << 32 | u64::from(used.0) << 48,
            u64::from(inserted.0) | u64::from(looked.0) << 16 | flags,
        ])
    }

    #[inline]
    pub(super) fn get(self) -> Known {
        let Packed([first, second]) = self;
        Known {
            page: first as u32,
            key: Key((first >> 32) as u16),
            used: Tick((first >> 48) as u16),
            inserted: Tick(second as u16),
            looked: Tick((second >> 16) as u16),
            is_known: second & Packed::KNOWN != 0,
            is_touched: second & Packed::TOUCHED != 0,
            is_forecast: second & Packed::FORECAST != 0,
        }
    }
}

/// What is remembered of a page that is not cached.
#[derive(Clone, Copy, Default)]
pub(super) struct Past {
    pub(super) key: Key,
    pub(super) used: Tick,
}
