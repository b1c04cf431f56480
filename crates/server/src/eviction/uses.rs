//! [`Uses`]: how recently or how often keys were used.
//!
//! A cell of one byte for each key, found by the key's hash. Keys share cells when there are more
//! keys than cells. A key then seems to be used as recently as the last used of its cell, or as
//! often as all of them. Nothing of it is on flash, so a use of a key writes no page, and after a
//! restart all keys are equally old.
//!
//! *Recency*: a cell has the number of a generation. A new generation begins once as many cells
//! were used as a sixteenth of all keys. So a generation is a fixed part of the time that an unused
//! key stays, however fast keys are used.
//!
//! *Frequency*: a cell has the logarithmic counter of Redis. It grows by one with a probability
//! that falls with its value, and loses one a minute.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use ebbtide_structures::hash;

/// Generations in which as many cells are used as there are keys.
const GENERATIONS: u64 = 16;

/// Numbers of generations: 1 to this one, and then 1 again. A cell of 0 was not used.
const NUMBERS: u8 = 255;

/// Age in generations from which a cell counts as unused.
const AGE_MAX: u8 = 128;

/// Each new generation looks for cells of [`AGE_MAX`] in this part of all cells. So none gets as
/// old as [`NUMBERS`].
const SWEPT_PART: usize = 64;

/// A use looks at this many cells at most, in the mean. So a generation has a fewest uses.
const SWEPT_A_USE: u64 = 64;

/// The counter of a new key, as in Redis (`LFU_INIT_VAL`).
const NEW: u8 = 5;

/// The factor of the counter, as in Redis (`lfu-log-factor`).
const LOG_FACTOR: u64 = 10;

/// Time after which a counter loses one, as in Redis (`lfu-decay-time`).
const DECAY_MS: u64 = 60_000;

/// The most cells that lose one in one call.
const DECAYED_MAX: u64 = 1 << 16;

/// The uses of keys. All methods take the hash of a key, mixed with its database ([`Uses::place`]).
#[derive(Debug)]
pub struct Uses {
    cells: Box<[AtomicU8]>,
    since_ms: u64,
    generation: AtomicU8,
    /// When each generation began, in milliseconds since the Unix epoch.
    began_ms: Box<[AtomicU64]>,
    /// Cells used in this generation, and their number at which the next one begins.
    used: AtomicU64,
    used_max: AtomicU64,
    /// The next cell to be swept.
    swept: AtomicUsize,
    /// Cells that have lost one, since the start.
    decayed: AtomicU64,
}

impl Uses {
    /// Returns a table of this many bytes, at least one.
    pub fn new(bytes: usize, now_ms: u64) -> Uses {
        let uses = Uses {
            cells: (0..bytes.max(1)).map(|_| AtomicU8::new(0)).collect(),
            since_ms: now_ms,
            generation: AtomicU8::new(1),
            began_ms: (0..=NUMBERS).map(|_| AtomicU64::new(now_ms)).collect(),
            used: AtomicU64::new(0),
            used_max: AtomicU64::new(0),
            swept: AtomicUsize::new(0),
            decayed: AtomicU64::new(0),
        };
        uses.note_keys(u64::MAX);
        uses
    }

    /// Returns the place of a key in the table.
    pub fn place(&self, database: usize, hash: u64) -> usize {
        let mixed = hash::mix(hash ^ (database as u64) << 56);
        ((u128::from(mixed) * self.cells.len() as u128) >> 64) as usize
    }

    /// DRAM bytes of the cells.
    pub fn bytes(&self) -> usize {
        self.cells.len()
    }

    /// Forgets all uses.
    pub fn clear(&self) {
        self.cells.iter().for_each(|cell| cell.store(0, Ordering::Relaxed));
    }

    /// Sets the number of keys, which determines the length of a generation.
    pub fn note_keys(&self, keys: u64) {
        let cells = self.cells.len() as u64;
        let least = (cells / SWEPT_PART as u64 / SWEPT_A_USE).max(1);
        self.used_max.store((keys.min(cells) / GENERATIONS).max(least), Ordering::Relaxed);
    }

    /// Records that a key is used now.
    pub fn use_now(&self, place: usize, now_ms: u64) {
        let generation = self.generation.load(Ordering::Relaxed);
        // Most uses are of keys that were used in this generation, and write nothing.
        if self.cells[place].load(Ordering::Relaxed) != generation {
            self.cells[place].store(generation, Ordering::Relaxed);
            let used = self.used.fetch_add(1, Ordering::Relaxed) + 1;
            if used >= self.used_max.load(Ordering::Relaxed) {
                self.begin_generation(generation, now_ms);
            }
        }
    }

    /// Begins the generation after `generation`, unless another core has.
    fn begin_generation(&self, generation: u8, now_ms: u64) {
        let next = generation % NUMBERS + 1;
        let began =
            self.generation.compare_exchange(generation, next, Ordering::SeqCst, Ordering::SeqCst);
        if began.is_err() {
            return;
        }
        self.used.store(0, Ordering::Relaxed);
        self.began_ms[usize::from(next)].store(now_ms, Ordering::Relaxed);
        let count = self.cells.len().div_ceil(SWEPT_PART);
        let from = self.swept.fetch_add(count, Ordering::Relaxed) % self.cells.len();
        for cell in self.cells.iter().cycle().skip(from).take(count) {
            if self.age_of(cell.load(Ordering::Relaxed)) >= AGE_MAX {
                cell.store(0, Ordering::Relaxed);
            }
        }
    }

    fn age_of(&self, number: u8) -> u8 {
        match number {
            0 => AGE_MAX,
            number => {
                let now = i32::from(self.generation.load(Ordering::Relaxed));
                (now - i32::from(number)).rem_euclid(i32::from(NUMBERS)) as u8
            }
        }
    }

    /// Returns how many generations ago a key was used last, at most 128.
    pub fn age(&self, place: usize) -> u8 {
        self.age_of(self.cells[place].load(Ordering::Relaxed)).min(AGE_MAX)
    }

    /// Returns the milliseconds since the generation began in which a key was used last. The time
    /// since the server began if it was not used.
    pub fn idle_ms(&self, place: usize, now_ms: u64) -> u64 {
        let number = self.cells[place].load(Ordering::Relaxed);
        let began_ms = match number {
            0 => self.since_ms,
            number => self.began_ms[usize::from(number)].load(Ordering::Relaxed),
        };
        now_ms.saturating_sub(began_ms)
    }

    /// Counts a use of a key.
    pub fn count(&self, place: usize, random: u64) {
        let cell = &self.cells[place];
        let count = cell.load(Ordering::Relaxed);
        let grown = match count {
            0 => NEW,
            u8::MAX => return,
            count => {
                let over = u64::from(count.saturating_sub(NEW));
                if !random.is_multiple_of(over * LOG_FACTOR + 1) {
                    return;
                }
                count + 1
            }
        };
        // Another core may count at the same time. One of the two is then lost.
        cell.store(grown, Ordering::Relaxed);
    }

    /// Returns the counter of a key.
    pub fn frequency(&self, place: usize) -> u8 {
        self.cells[place].load(Ordering::Relaxed)
    }

    /// Takes one from each counter once a minute, some at each call.
    pub fn decay(&self, now_ms: u64) {
        let cells = self.cells.len() as u64;
        let due = now_ms.saturating_sub(self.since_ms).saturating_mul(cells) / DECAY_MS;
        let done = self.decayed.load(Ordering::Relaxed);
        // Of a long pause, one turn of all cells counts.
        let done = done.max(due.saturating_sub(cells));
        let end = due.min(done + DECAYED_MAX);
        for number in done..end {
            let cell = &self.cells[(number % cells) as usize];
            cell.store(cell.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
        }
        self.decayed.store(end.max(done), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gets_older_while_others_are_used_and_young_when_it_is_used() {
        let uses = Uses::new(1_000, 5_000);
        uses.note_keys(256);
        assert_eq!(uses.age(7), AGE_MAX, "it was not used yet");
        uses.use_now(7, 5_000);
        assert_eq!(uses.age(7), 0);
        let mut last = 0;
        for (number, now_ms) in (100..900).zip(5_001..) {
            uses.use_now(number, now_ms);
            assert!(uses.age(7) == last || uses.age(7) == last + 1);
            last = uses.age(7);
        }
        assert_eq!(last, 50, "800 cells in generations of 16");
        assert!(uses.age(899) < uses.age(500) && uses.age(500) < uses.age(101));
        assert_eq!(uses.idle_ms(7, 6_000), 1_000);
        uses.use_now(7, 6_000);
        assert_eq!((uses.age(7), uses.idle_ms(7, 6_000) < 300), (0, true));
    }

    #[test]
    fn of_a_few_large_keys_the_last_used_is_known_exactly() {
        let uses = Uses::new(1_000, 0);
        uses.note_keys(5);
        (0..5).for_each(|place| uses.use_now(place, 0));
        uses.use_now(1, 0);
        let ages = [1, 4, 3, 2, 0].map(|place| uses.age(place));
        assert!(ages.is_sorted_by(|one, other| one < other), "{ages:?}");
    }

    #[test]
    fn a_key_that_is_never_used_again_stays_the_oldest_for_ever() {
        let uses = Uses::new(1_000, 0);
        uses.note_keys(1);
        (0..10).for_each(|place| uses.use_now(place, 0));
        for round in 0..3_000 {
            // Each round uses all cells of a generation.
            (10..1_000).skip(round % 2).step_by(2).for_each(|place| uses.use_now(place, 1));
            if round > 10 {
                assert!((0..10).all(|place| uses.age(place) == AGE_MAX), "round {round}");
            }
        }
    }

    #[test]
    fn a_counter_grows_with_the_logarithm_of_uses_and_decays_by_the_minute() {
        let uses = Uses::new(100, 0);
        let mut random = 0;
        let mut count = |place, times: u32| {
            for _ in 0..times {
                random += 1;
                uses.count(place, hash::mix(random));
            }
        };
        count(1, 1);
        count(2, 100);
        count(3, 100_000);
        let [new, some, many] = [1, 2, 3].map(|place| uses.frequency(place));
        // Redis documents 10 after 100 hits and 142 after 100,000 with its factor.
        assert!(new == NEW && (7..=15).contains(&some) && (120..=160).contains(&many), "{many}");
        for now_ms in (0..=600_000).step_by(100) {
            uses.decay(now_ms);
        }
        assert_eq!(
            [1, 2, 3].map(|place| uses.frequency(place)),
            [0, some.saturating_sub(10), many - 10]
        );
        uses.decay(DECAY_MS * 100_000);
        uses.decay(DECAY_MS * 100_000);
        assert_eq!(uses.frequency(3), many - 11, "a pause takes one");
    }
}
