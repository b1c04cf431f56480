//! The orders in which pages are given up, and the record of a page that they are read from.

use super::super::adaptive_lrfu::{AGE_MAX, Key};

/// No page: the frame is not known.
pub(super) const NO_PAGE: u32 = u32::MAX;

/// Pages used in the last turnover's part of this size keep their place whatever they weigh.
const WINDOW_SHARE: usize = 8;

/// An order of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// The page that was used least recently goes first.
    Recent,
    /// The lightest page that was not used lately goes first.
    Light,
    /// The newest page goes first, unless it weighs much more than the lightest one.
    Admit,
}

impl Order {
    /// All orders, each at the place of its number.
    pub(super) const ALL: [Order; 3] = [Order::Recent, Order::Light, Order::Admit];
}

/// What is known of a page in a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) page: u32,
    /// The weight of its accesses.
    pub(super) key: Key,
    /// The tick of its last use, modulo 2¹⁶.
    pub(super) used: u16,
}

impl Record {
    pub(super) const NONE: Record = Record { page: NO_PAGE, key: Key(0), used: 0 };
}

/// The time in two units. Both begin at a time by which the greatest age has passed.
#[derive(Clone, Copy)]
pub(super) struct Clocks {
    /// Parts of a turnover.
    pub(super) tick: u64,
    /// Parts of a weight's half-life.
    pub(super) key_tick: u64,
    /// Ticks for which a page that was used is not given up for its weight.
    window: u16,
}

impl Clocks {
    /// For a cache with so many ticks in a turnover.
    pub(super) fn new(ticks_a_turnover: usize) -> Clocks {
        let window = (ticks_a_turnover / WINDOW_SHARE).max(1) as u16;
        Clocks { tick: u64::from(AGE_MAX), key_tick: u64::from(AGE_MAX), window }
    }

    /// The tick, modulo 2¹⁶.
    pub(super) fn now(&self) -> u16 {
        self.tick as u16
    }

    /// The tick of weights, modulo 2¹⁶.
    pub(super) fn key_now(&self) -> u16 {
        self.key_tick as u16
    }

    /// Ticks since a use.
    pub(super) fn age(&self, used: u16) -> u16 {
        self.now().wrapping_sub(used)
    }

    /// Keeps what is known of a page younger than the times in which the clocks wrap.
    pub(super) fn limit_age(&self, record: &mut Record) {
        if self.age(record.used) > AGE_MAX {
            record.used = self.now().wrapping_sub(AGE_MAX);
        }
        // Written only if it changes: a record is read as a whole soon, for which the processor would
        // wait after a part of it was written.
        let key = record.key.not_older_than_history(self.key_now());
        if key != record.key {
            record.key = key;
        }
    }

    /// A number that does not change while the page is not used. The least goes first.
    pub(super) fn place(&self, order: Order, record: &Record) -> u64 {
        let age = self.age(record.used);
        let used = self.tick - u64::from(age);
        if order == Order::Recent {
            used
        } else if order == Order::Light && age < self.window {
            1 << 63 | used
        } else {
            let level = record.key.level(self.key_now());
            let weight = self.key_tick.saturating_add_signed(i64::from(level));
            // What weighs the same goes by recency.
            weight << 32 | used & u64::from(u32::MAX)
        }
    }
}
