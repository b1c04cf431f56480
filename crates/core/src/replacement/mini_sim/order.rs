//! The orders of eviction, and the record of a page that they are read from.

use serde::{Deserialize, Serialize};

use super::super::TOUCHES_TOGETHER;
use super::weight::{AGE_MAX, Key, TICKS_PER_HALF_LIFE};

/// Frames that are looked at together.
pub(super) const NEIGHBOURS: usize = TOUCHES_TOGETHER;

/// Stands for no page: the frame is not known.
pub(super) const NO_PAGE: u32 = u32::MAX;

/// The first place of pages that the window protects from their weight.
const IN_WINDOW: u64 = 1 << 63;

/// Divides the last turnover: pages used in this part of it keep their place at any weight.
const WINDOW_SHARE: usize = 8;

/// Two octaves of weight. When the pages of one value are read together, one may count three
/// touches and another one touch.
const NEAR: i32 = 2 * TICKS_PER_HALF_LIFE as i32;

/// An order of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
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

/// The record of a page in a frame.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
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

/// The records of frames that are looked at together. They are in one line of host memory, so that
/// one vector comparison covers all of them.
#[derive(Clone, Serialize, Deserialize)]
#[repr(align(64))]
pub(super) struct Neighbours {
    pub(super) pages: [u32; NEIGHBOURS],
    keys: [Key; NEIGHBOURS],
    used: [u16; NEIGHBOURS],
}

impl Neighbours {
    pub(super) const NONE: Neighbours = Neighbours {
        pages: [Record::NONE.page; NEIGHBOURS],
        keys: [Record::NONE.key; NEIGHBOURS],
        used: [Record::NONE.used; NEIGHBOURS],
    };

    #[inline]
    pub(super) fn get(&self, at: usize) -> Record {
        Record { page: self.pages[at], key: self.keys[at], used: self.used[at] }
    }

    #[inline]
    pub(super) fn set(&mut self, at: usize, Record { page, key, used }: Record) {
        (self.pages[at], self.keys[at], self.used[at]) = (page, key, used);
    }

    /// Returns a bit for each record that holds a page, the lowest for the first one.
    #[inline]
    pub(super) fn known(&self) -> u8 {
        bits(|at| self.pages[at] != NO_PAGE)
    }
}

/// True if `is_so` holds for any of the neighbours. Evaluates all, so that the host can do it at
/// once.
#[inline]
fn any(is_so: impl Fn(usize) -> bool) -> bool {
    (0..NEIGHBOURS).fold(false, |any, at| any | is_so(at))
}

/// Returns a bit for each of the neighbours, the lowest for the first one.
#[inline]
fn bits(is_so: impl Fn(usize) -> bool) -> u8 {
    (0..NEIGHBOURS).fold(0, |bits, at| bits | u8::from(is_so(at)) << at)
}

/// The time in two units. Both begin late enough for the greatest age.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Clocks {
    /// Parts of a turnover.
    pub(super) tick: u64,
    /// Parts of a weight's half-life.
    pub(super) key_tick: u64,
    /// Ticks for which a used page is not given up for its weight.
    window: u16,
}

impl Clocks {
    /// Makes the clocks of a cache with `ticks_a_turnover` ticks in a turnover.
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

    /// Keeps the records of pages younger than one period of the clocks.
    #[inline]
    pub(super) fn limit_ages(&self, records: &mut Neighbours) {
        let (now, key_now) = (self.now(), self.key_now());
        // Both are seldom so old, so that all are looked at as a whole first.
        let is_old = |at: usize| {
            (self.age(records.used[at]) > AGE_MAX) | records.keys[at].is_older_than_history(key_now)
        };
        if any(is_old) {
            for (used, key) in records.used.iter_mut().zip(&mut records.keys) {
                if self.age(*used) > AGE_MAX {
                    *used = now.wrapping_sub(AGE_MAX);
                }
                *key = key.not_older_than_history(key_now);
            }
        }
    }
}

/// The parameters of a search for a victim.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Search {
    pub(super) order: Order,
    /// Groups of neighbours to look at for a victim.
    pub(super) groups: usize,
    pub(super) clocks: Clocks,
}

impl Search {
    /// Returns a number that does not change while the page is not used. The page with the least
    /// goes first.
    #[inline]
    pub(super) fn place(&self, record: &Record) -> u64 {
        let clocks = &self.clocks;
        let age = clocks.age(record.used);
        let used = clocks.tick - u64::from(age);
        if self.order == Order::Recent {
            used
        } else if self.order == Order::Light && age < clocks.window {
            IN_WINDOW | used
        } else {
            let level = record.key.level(clocks.key_now());
            let weight = clocks.key_tick.saturating_add_signed(i64::from(level));
            // What weighs the same goes by recency.
            weight << 32 | used & u64::from(u32::MAX)
        }
    }

    /// True if the page of `record` is worth hardly more than the page of `next`, the next victim.
    /// By recency, it was not used for half as long. By weight, it weighs at most [`NEAR`] more and
    /// was not used lately.
    pub(super) fn is_near(&self, record: &Record, next: &Record) -> bool {
        let clocks = &self.clocks;
        let age = clocks.age(record.used);
        if self.order == Order::Recent {
            return 2 * u32::from(age) >= u32::from(clocks.age(next.used));
        }
        let level = |record: &Record| record.key.level(clocks.key_now());
        age >= clocks.window && level(record) <= level(next) + NEAR
    }

    /// Returns the `records` that may have a place before `bar`, the lowest bit for the first one.
    /// Includes all that have, and few others. No age may be above the limit.
    #[inline]
    pub(super) fn may_precede(&self, bar: u64, records: &Neighbours) -> u8 {
        let clocks = &self.clocks;
        let (mut age_min, mut level_max) = (0, i16::MAX);
        if self.order == Order::Recent {
            let age = (clocks.tick + 1).saturating_sub(bar);
            age_min = u16::try_from(age).unwrap_or(u16::MAX);
        } else if bar < IN_WINDOW {
            let level = (bar >> 32) as i64 - clocks.key_tick as i64;
            level_max = level.clamp(i64::from(i16::MIN), i64::from(i16::MAX)) as i16;
            age_min = if self.order == Order::Light { clocks.window } else { 0 };
        }
        let key_now = clocks.key_now();
        let precedes = |at: usize| {
            let level = records.keys[at].0.wrapping_sub(key_now) as i16;
            (clocks.age(records.used[at]) >= age_min) & (level <= level_max)
        };
        if any(precedes) { bits(precedes) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    #[test]
    fn a_page_is_near_the_next_victim_by_recency_or_by_weight() {
        let clocks = Clocks { tick: 20_000, key_tick: 20_000, window: 100 };
        let page = |level, age: u16| {
            let key = Key::of_level(level, clocks.key_now());
            Record { page: 0, key, used: clocks.now().wrapping_sub(age) }
        };
        let next = page(-40, 1_000);
        let is_near = |order, record| Search { order, groups: 1, clocks }.is_near(&record, &next);
        assert!(is_near(Order::Recent, page(90, 500)));
        assert!(!is_near(Order::Recent, page(-40, 499)), "used after half of the others");
        for order in [Order::Light, Order::Admit] {
            assert!(is_near(order, page(-40 + NEAR, 100)));
            assert!(!is_near(order, page(-40 + NEAR + 1, 100)), "more than four times as heavy");
            assert!(!is_near(order, page(-40, 99)), "used lately");
        }
    }

    #[test]
    fn no_record_before_the_bar_is_passed_over() {
        let mut random = Pcg64::seed_from_u64(41);
        for _ in 0..20_000 {
            let mut clocks = Clocks::new(1024);
            clocks.tick += random.random_range(0..1 << 20);
            clocks.key_tick += random.random_range(0..1 << 20);
            let order = Order::ALL[random.random_range(0..Order::ALL.len())];
            let search = Search { order, groups: 1, clocks };
            let spread = 1 << random.random_range(0..14);
            let mut records = Neighbours::NONE;
            for at in 0..NEIGHBOURS {
                let key = Key::of_level(random.random_range(-spread..128), clocks.key_now());
                let used = clocks.now().wrapping_sub(random.random_range(0..=spread as u16));
                records.set(at, Record { page: at as u32, key, used });
            }
            let places: [u64; NEIGHBOURS] =
                std::array::from_fn(|at| search.place(&records.get(at)));
            for bar in places.into_iter().chain([0, u64::MAX]) {
                let which = search.may_precede(bar, &records);
                for (at, place) in places.iter().enumerate() {
                    assert!(*place >= bar || which >> at & 1 == 1, "{order:?} {bar} {at}");
                }
            }
        }
    }
}
