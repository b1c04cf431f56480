//! [`Stored`]: the stored lines of pages that are in no slot.

use ebbtide_core::PageId;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::{Line, Lines, set_bits};

/// Stored lines by page. All lines are in one block of host memory, so a line needs no allocation.
#[derive(Serialize, Deserialize)]
pub(super) struct Stored {
    pages: FxHashMap<PageId, Chain>,
    places: Vec<Place>,
    /// The first free place, or [`END`].
    free: u32,
}

/// The stored lines of a page, one bit each. They are in order from place `first` on.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Chain {
    lines: u64,
    first: u32,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Place {
    line: Line,
    /// The place of the page's next line, or the next free place, or [`END`].
    next: u32,
}

const END: u32 = u32::MAX;

impl Stored {
    pub(super) fn new() -> Stored {
        Stored { pages: FxHashMap::default(), places: Vec::new(), free: END }
    }

    /// Keeps the lines of `page` whose bits in `lines` are set. `all` holds all lines of the page.
    pub(super) fn keep(&mut self, page: PageId, lines: u64, all: &Lines) {
        let mut first = END;
        let mut after = None;
        for line in set_bits(lines) {
            let place = self.place(all[line]);
            match after.replace(place) {
                Some(before) => self.places[before as usize].next = place,
                None => first = place,
            }
        }
        if first != END {
            self.pages.insert(page, Chain { lines, first });
        }
    }

    /// Moves the kept lines of `page` into `all`. Returns a bit for each of them.
    pub(super) fn take(&mut self, page: PageId, all: &mut Lines) -> u64 {
        let Some(Chain { lines, first }) = self.pages.remove(&page) else { return 0 };
        let mut place = first;
        for line in set_bits(lines) {
            let Place { line: contents, next } = &mut self.places[place as usize];
            all[line] = *contents;
            let after = std::mem::replace(next, self.free);
            self.free = place;
            place = after;
        }
        lines
    }

    /// A new place that holds `line` as the last of its page.
    fn place(&mut self, line: Line) -> u32 {
        let filled = Place { line, next: END };
        if self.free == END {
            self.places.push(filled);
            return u32::try_from(self.places.len() - 1).expect("host memory ends before 256 GiB");
        }
        let place = self.free;
        self.free = std::mem::replace(&mut self.places[place as usize], filled).next;
        place
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    use super::*;

    proptest! {
        #[test]
        fn it_gives_back_what_it_keeps(
            steps in prop::collection::vec((0..8u64, any::<u64>(), any::<u64>()), 1..100),
        ) {
            let mut stored = Stored::new();
            let mut model: BTreeMap<u64, (u64, Box<Lines>)> = BTreeMap::new();
            let mut most = 0;
            for (page, lines, content) in steps {
                let mut all = Box::new([[0; 8]; 64]);
                let had = stored.take(PageId(page), &mut all);
                let nothing = || (0, Box::new([[0; 8]; 64]));
                let (expected, contents) = model.remove(&page).unwrap_or_else(nothing);
                prop_assert_eq!((had, &all), (expected, &contents));
                let all = Box::new(std::array::from_fn(|line| [content ^ line as u64; 8]));
                stored.keep(PageId(page), lines, &all);
                if lines != 0 {
                    let mut kept = Box::new([[0; 8]; 64]);
                    set_bits(lines).for_each(|line| kept[line] = all[line]);
                    model.insert(page, (lines, kept));
                }
                let held: u32 = model.values().map(|(lines, _)| lines.count_ones()).sum();
                most = most.max(held as usize);
                prop_assert_eq!(stored.places.len(), most, "free places are used again");
            }
        }
    }
}
