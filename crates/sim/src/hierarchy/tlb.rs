//! [`Tlb`]: two levels of cached translations under exact LRU.

use ebbtide_core::PageId;
use serde::{Deserialize, Serialize};

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

/// A fully associative set under exact LRU, which finds most keys without a search.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct FirstLevel {
    /// `page + 1`, or 0 where a page was dropped or none was.
    keys: Vec<u64>,
    /// When each entry was used last. A dropped entry keeps its age, and is replaced in its turn.
    used: Vec<u64>,
    now: u64,
    last: usize,
    /// Where a key was found last, by its low bits.
    #[serde(skip, default = "no_hints")]
    hints: Box<[u8; HINTS]>,
}

const HINTS: usize = 256;

fn no_hints() -> Box<[u8; HINTS]> {
    Box::new([0; HINTS])
}

impl FirstLevel {
    fn new(entries: usize) -> FirstLevel {
        let (keys, used) = (vec![0; entries], vec![0; entries]);
        FirstLevel { keys, used, now: 0, last: 0, hints: no_hints() }
    }

    /// Looks `key` up and makes it the most recently used one, in place of the least recently used if it
    /// was absent. Gives whether it was present.
    #[inline]
    fn touch(&mut self, key: u64) -> bool {
        if self.keys[self.last] == key {
            // It is the most recently used already.
            return true;
        }
        self.now += 1;
        let hint = &mut self.hints[key as usize % HINTS];
        let place = usize::from(*hint);
        if self.keys.get(place) == Some(&key) {
            (self.used[place], self.last) = (self.now, place);
            return true;
        }
        let found = self.keys.iter().position(|known| *known == key);
        let oldest =
            || {
                let ages = self.used.iter().enumerate();
                ages.fold((0, u64::MAX), |(place, least), (other, used)| {
                    if *used < least { (other, *used) } else { (place, least) }
                })
            };
        let place = found.unwrap_or_else(|| oldest().0);
        // Larger sets than a hint can name are searched.
        *hint = place as u8;
        (self.keys[place], self.used[place], self.last) = (key, self.now, place);
        found.is_some()
    }

    fn forget(&mut self, key: u64) {
        self.keys.iter_mut().filter(|known| **known == key).for_each(|known| *known = 0);
    }
}

/// Moves `key` to the front, and evicts the last key if it was absent. Gives whether it was
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
        // Two more push it out of the first level; all even pages share a set of the second.
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
