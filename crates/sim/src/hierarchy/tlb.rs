//! [`Tlb`]: two levels of cached translations under exact LRU.

use ebbtide_core::PageId;
use serde::{Deserialize, Serialize};

use super::probing::{after, follower};
use crate::config::{self, ConfigError, require};

/// Where a translation was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Translation {
    /// In the first level.
    First,
    /// In the second.
    Second,
    /// In neither level: a page walk is needed.
    Walk,
}

/// The cached translations of a core.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Tlb {
    first: FirstLevel,
    /// `page + 1`, each set from the most recently used. 0 is empty.
    second: Vec<u64>,
    second_ways: usize,
    second_mask: u64,
}

impl Tlb {
    /// An empty TLB of `config`'s sizes.
    ///
    /// # Errors
    /// When the number of sets of the second level is not a power of two.
    pub(crate) fn new(config: &config::Tlb) -> Result<Tlb, ConfigError> {
        let (entries, ways) = (config.l2_entries, config.l2_ways);
        let power = ways > 0 && entries.is_multiple_of(ways) && (entries / ways).is_power_of_two();
        let expected = format!("tlb.l2_ways ({ways}) times a power of two");
        require(power, "tlb.l2_entries", entries, expected)?;
        Ok(Tlb {
            first: FirstLevel::new(config.l1_entries),
            second: vec![0; entries],
            second_ways: ways,
            second_mask: (entries / ways) as u64 - 1,
        })
    }

    /// Looks `page` up, and puts it into both levels.
    #[inline]
    pub(crate) fn look_up(&mut self, page: PageId) -> Translation {
        let key = page.0 + 1;
        if self.first.touch(key) {
            return Translation::First;
        }
        let start = (page.0 & self.second_mask) as usize * self.second_ways;
        match move_to_front(&mut self.second[start..start + self.second_ways], key) {
            true => Translation::Second,
            false => Translation::Walk,
        }
    }

    /// Drops the translation of `page`, which was unmapped.
    pub(crate) fn forget(&mut self, page: PageId) {
        let key = page.0 + 1;
        let start = (page.0 & self.second_mask) as usize * self.second_ways;
        self.first.forget(key);
        let set = &mut self.second[start..start + self.second_ways];
        for entry in set.iter_mut().filter(|entry| **entry == key) {
            *entry = 0;
        }
    }
}

/// A fully associative set under exact LRU. A list has its places in the order of their last use,
/// and a table finds the place of a key.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct FirstLevel {
    /// `page + 1` of each place, or 0 where a page was dropped or none was.
    keys: Vec<u64>,
    /// The places used just before and just after each place, in a ring of all places.
    older: Vec<Place>,
    newer: Vec<Place>,
    /// The place that was used last.
    last: Place,
    /// Places by key, by linear probing. At most a quarter of the table is in use.
    table: Vec<Place>,
}

/// A place in a first level.
type Place = u32;

/// No place.
const NO_PLACE: Place = Place::MAX;

impl FirstLevel {
    fn new(entries: usize) -> FirstLevel {
        let place = |place: usize| (place % entries) as Place;
        FirstLevel {
            keys: vec![0; entries],
            older: (0..entries).map(|at| place(at + entries - 1)).collect(),
            newer: (0..entries).map(|at| place(at + 1)).collect(),
            last: place(entries - 1),
            table: vec![NO_PLACE; (4 * entries).next_power_of_two()],
        }
    }

    /// Looks `key` up and makes it the most recently used. An absent key replaces the least
    /// recently used. Returns whether it was present.
    #[inline]
    fn touch(&mut self, key: u64) -> bool {
        if self.keys[self.last as usize] == key {
            // It is the most recently used already.
            return true;
        }
        if let Some(slot) = self.slot_of(key) {
            let place = self.table[slot];
            self.use_now(place);
            return true;
        }
        // In the ring, the oldest place follows the newest. A dropped entry is replaced in its
        // turn.
        let place = self.newer[self.last as usize];
        self.unlist(self.keys[place as usize]);
        self.keys[place as usize] = key;
        self.last = place;
        let mut slot = self.home(key);
        while self.table[slot] != NO_PLACE {
            slot = after(slot, self.table.len());
        }
        self.table[slot] = place;
        false
    }

    /// Makes `place` the one that was used last.
    #[inline]
    fn use_now(&mut self, place: Place) {
        let oldest = self.newer[self.last as usize];
        if place != oldest {
            let (older, newer) = (self.older[place as usize], self.newer[place as usize]);
            self.newer[older as usize] = newer;
            self.older[newer as usize] = older;
            self.newer[self.last as usize] = place;
            self.older[place as usize] = self.last;
            self.newer[place as usize] = oldest;
            self.older[oldest as usize] = place;
        }
        self.last = place;
    }

    fn forget(&mut self, key: u64) {
        if let Some(slot) = self.slot_of(key) {
            let place = self.table[slot];
            self.unlist(key);
            self.keys[place as usize] = 0;
        }
    }

    /// Where the table's search for `key` begins.
    #[inline]
    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.table.len() - 1)
    }

    /// Where the table holds the place of `key`, if it does.
    #[inline]
    fn slot_of(&self, key: u64) -> Option<usize> {
        let mut slot = self.home(key);
        loop {
            match self.table[slot] {
                NO_PLACE => return None,
                place if self.keys[place as usize] == key => return Some(slot),
                _ => slot = after(slot, self.table.len()),
            }
        }
    }

    /// Removes `key` from the table, if it is there, and moves back the entries behind it.
    #[inline]
    fn unlist(&mut self, key: u64) {
        let Some(mut hole) = self.slot_of(key) else { return };
        while let Some(moved) = follower(hole, self.table.len(), |slot| {
            let place = self.table[slot];
            (place != NO_PLACE).then(|| self.home(self.keys[place as usize]))
        }) {
            self.table[hole] = self.table[moved];
            hole = moved;
        }
        self.table[hole] = NO_PLACE;
    }
}

/// Moves `key` to the front, and evicts the last key if it was absent. Returns whether it was
/// present.
#[inline]
fn move_to_front(entries: &mut [u64], key: u64) -> bool {
    let found = entries.iter().position(|entry| *entry == key);
    entries.copy_within(0..found.unwrap_or(entries.len() - 1), 1);
    entries[0] = key;
    found.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tlb() -> Tlb {
        crate::designs::resolve("astriflash", &[("tlb.l1_entries", "2"), ("tlb.l2_entries", "8")])
            .and_then(|config| Tlb::new(&config.tlb))
            .unwrap()
    }

    #[test]
    fn a_page_falls_from_the_first_level_to_the_second_and_out() {
        let mut tlb = tlb();
        assert_eq!(tlb.look_up(PageId(0)), Translation::Walk);
        assert_eq!(tlb.look_up(PageId(0)), Translation::First);
        // Two more pages evict it from the first level. All even pages share a set of the second.
        for page in [1, 3] {
            tlb.look_up(PageId(page));
        }
        assert_eq!(tlb.look_up(PageId(0)), Translation::Second);
        for page in [2, 4, 6, 8] {
            tlb.look_up(PageId(page));
        }
        assert_eq!(tlb.look_up(PageId(0)), Translation::Walk);
    }

    #[test]
    fn the_first_level_is_exactly_lru_also_with_dropped_pages() {
        let mut level = FirstLevel::new(48);
        let mut model = vec![0u64; 48];
        let mut random = 1u64;
        for step in 0..200_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let key = 1 + random % if step % 1_000 < 500 { 60 } else { 400 };
            if random >> 32 & 0xff == 0 {
                level.forget(key);
                model.iter_mut().filter(|known| **known == key).for_each(|known| *known = 0);
            } else {
                assert_eq!(level.touch(key), move_to_front(&mut model, key), "step {step}");
            }
        }
    }

    #[test]
    fn a_forgotten_page_is_walked_for_again() {
        let mut tlb = tlb();
        tlb.look_up(PageId(7));
        tlb.forget(PageId(7));
        assert_eq!(tlb.look_up(PageId(7)), Translation::Walk);
    }
}
