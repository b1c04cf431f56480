//! [`Tlb`]: two levels of cached translations under exact LRU.

use ebbtide_core::PageId;

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
#[derive(Debug, Clone)]
pub(crate) struct Tlb {
    /// `page + 1`, from the most recently used. 0 is empty.
    first: Vec<u64>,
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
            first: vec![0; config.l1_entries],
            second: vec![0; entries],
            second_ways: ways,
            second_mask: (entries / ways) as u64 - 1,
        })
    }

    /// Looks `page` up, and puts it into both levels.
    #[inline]
    pub(crate) fn look_up(&mut self, page: PageId) -> Translation {
        let key = page.0 + 1;
        if self.first[0] == key {
            return Translation::First;
        }
        if move_to_front(&mut self.first, key) {
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
        let set = &mut self.second[start..start + self.second_ways];
        for entry in self.first.iter_mut().chain(set).filter(|entry| **entry == key) {
            *entry = 0;
        }
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
    fn a_forgotten_page_is_walked_for_again() {
        let mut tlb = tlb();
        tlb.look_up(PageId(7));
        tlb.forget(PageId(7));
        assert_eq!(tlb.look_up(PageId(7)), Translation::Walk);
    }
}
