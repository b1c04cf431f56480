//! [`Footprints`]: predicts which lines of a page will be used while it is cached. The others need
//! not be fetched.
//!
//! This is the predictor of Footprint Cache (Jevdjic, Volos and Falsafi, "Die-Stacked DRAM Caches
//! for Servers", ISCA'13). AstriFlash names it as an option for its own cache (HPCA'23 §II-A).
//!
//! When a page is evicted, the lines that were used are recorded under the access that brought it.
//! That access is known by its *place in the program* and the *line* it wanted. The next page that
//! the same place brings by the same line is expected to need the same lines.

use serde::{Deserialize, Serialize};

use crate::addr::{LINE_BYTES, PAGE_BYTES};

/// Number of lines in a page.
const LINES: u8 = (PAGE_BYTES / LINE_BYTES) as u8;

/// A set of lines of a page: bit `n` is line `n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Lines(u64);

impl Lines {
    /// No line.
    pub const NONE: Lines = Lines(0);
    /// The whole page.
    pub const ALL: Lines = Lines(u64::MAX);

    /// Line `line` alone.
    ///
    /// # Panics
    /// If a page has no such line.
    pub fn one(line: u8) -> Lines {
        assert!(line < LINES, "a page has {LINES} lines");
        Lines(1 << line)
    }

    /// Returns the lines that either set has.
    #[must_use]
    pub fn and(self, other: Lines) -> Lines {
        Lines(self.0 | other.0)
    }

    /// Returns the lines of `self` that are not in `other`.
    #[must_use]
    pub fn without(self, other: Lines) -> Lines {
        Lines(self.0 & !other.0)
    }

    /// Returns true if `line` is one of them.
    pub fn contains(self, line: u8) -> bool {
        self.0 >> line & 1 == 1
    }

    /// Returns the number of lines.
    pub fn count(self) -> u64 {
        u64::from(self.0.count_ones())
    }
}

/// The access that made a page come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Trigger {
    /// The place in the program: the instruction's address, or a number that stands for it.
    pub site: u32,
    /// The line that it accessed.
    pub line: u8,
}

/// A trigger, and the lines used of its last page.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Entry {
    trigger: Trigger,
    used: Lines,
}

/// Entries of the table. Assumption: Footprint Cache's table has 16 Ki too.
const ENTRIES: usize = 1 << 14;

/// A table of the last footprint of every trigger, direct-mapped.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Footprints {
    entries: Vec<Option<Entry>>,
}

impl Default for Footprints {
    fn default() -> Footprints {
        Footprints { entries: vec![None; ENTRIES] }
    }
}

impl Footprints {
    /// An empty table.
    pub fn new() -> Footprints {
        Footprints::default()
    }

    /// Returns the lines expected to be used of the page that `trigger` brings, its own line among
    /// them. For an unknown trigger that is the whole page.
    pub fn expected(&self, trigger: Trigger) -> Lines {
        match self.entries[index(trigger)] {
            Some(entry) if entry.trigger == trigger => entry.used.and(Lines::one(trigger.line)),
            _ => Lines::ALL,
        }
    }

    /// Records that a page brought by `trigger` leaves, and that its lines `used` were used.
    pub fn left(&mut self, trigger: Trigger, used: Lines) {
        self.entries[index(trigger)] = Some(Entry { trigger, used });
    }
}

/// Returns the entry of a trigger. Lines are neighbours, and sites are spread by the golden ratio.
fn index(trigger: Trigger) -> usize {
    let spread = trigger.site.wrapping_mul(0x9e37_79b9) >> 24;
    (spread as usize * usize::from(LINES) + usize::from(trigger.line)) % ENTRIES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(site: u32, line: u8) -> Trigger {
        Trigger { site, line }
    }

    #[test]
    fn an_unknown_trigger_brings_the_whole_page() {
        assert_eq!(Footprints::new().expected(trigger(1, 5)), Lines::ALL);
    }

    #[test]
    fn a_trigger_brings_what_its_last_page_used_and_always_its_own_line() {
        let mut footprints = Footprints::new();
        footprints.left(trigger(1, 5), Lines::one(5).and(Lines::one(9)));
        assert_eq!(footprints.expected(trigger(1, 5)), Lines::one(5).and(Lines::one(9)));
        footprints.left(trigger(1, 5), Lines::one(7));
        assert_eq!(footprints.expected(trigger(1, 5)), Lines::one(5).and(Lines::one(7)));
    }

    #[test]
    fn another_line_or_another_site_is_another_trigger() {
        let mut footprints = Footprints::new();
        footprints.left(trigger(1, 5), Lines::one(5));
        assert_eq!(footprints.expected(trigger(1, 6)), Lines::ALL);
        assert_eq!(footprints.expected(trigger(2, 5)), Lines::ALL);
        // Even where they share an entry, which then belongs to the later one.
        let other = (2..).map(|site| trigger(site, 5)).find(|t| index(*t) == index(trigger(1, 5)));
        let other = other.expect("there are more sites than entries");
        assert_eq!(footprints.expected(other), Lines::ALL);
        footprints.left(other, Lines::one(1));
        assert_eq!(footprints.expected(trigger(1, 5)), Lines::ALL);
    }
}
