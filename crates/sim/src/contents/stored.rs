//! [`Stored`]: the stored lines of pages, as they were when the pages left their slots.

use ebbtide_core::PageId;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::{Line, Lines, set_bits};

/// Stored lines by page. The lines of a page lie in one block, so that reading them takes the host
/// hardly longer than copying them.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Stored {
    pages: FxHashMap<PageId, Kept>,
    /// Blocks by size. Pool `n` has blocks of 2ⁿ lines.
    pools: [Pool; CLASSES],
}

/// Sizes of blocks, up to a page.
const CLASSES: usize = u64::BITS.trailing_zeros() as usize + 1;

/// The stored lines of a page, one bit each. They are in order in block `block` of their pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Kept {
    lines: u64,
    block: u32,
}

impl Kept {
    /// The pool of the block.
    fn class(lines: u64) -> usize {
        lines.count_ones().next_power_of_two().trailing_zeros() as usize
    }
}

/// Blocks of one size, one after the other.
#[derive(Default, Serialize, Deserialize)]
struct Pool {
    lines: Vec<Line>,
    free: Vec<u32>,
}

impl Pool {
    fn block(&self, class: usize, block: u32) -> &[Line] {
        let first = (block as usize) << class;
        &self.lines[first..first + (1 << class)]
    }

    fn block_mut(&mut self, class: usize, block: u32) -> &mut [Line] {
        let first = (block as usize) << class;
        &mut self.lines[first..first + (1 << class)]
    }

    /// A free block, or a new one.
    fn take(&mut self, class: usize) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            let block = self.lines.len() >> class;
            self.lines.resize((block + 1) << class, Line::default());
            u32::try_from(block).expect("host memory ends before 256 GiB")
        })
    }
}

impl Stored {
    /// Keeps the lines of `page` whose bits in `written` are set. `all` holds them, and all lines
    /// of the page that are kept already.
    pub(super) fn keep(&mut self, page: PageId, written: u64, all: &Lines) {
        let before = self.pages.get(&page).copied();
        let lines = before.map_or(0, |kept| kept.lines) | written;
        let class = Kept::class(lines);
        let (block, changed) = match before {
            Some(kept) if kept.lines == lines => (kept.block, written),
            Some(kept) if Kept::class(kept.lines) == class => (kept.block, lines),
            before => {
                if let Some(Kept { lines, block }) = before {
                    self.pools[Kept::class(lines)].free.push(block);
                }
                (self.pools[class].take(class), lines)
            }
        };
        let kept = self.pools[class].block_mut(class, block);
        for (line, kept) in set_bits(lines).zip(kept) {
            if changed >> line & 1 == 1 {
                *kept = all[line];
            }
        }
        if before != Some(Kept { lines, block }) {
            self.pages.insert(page, Kept { lines, block });
        }
    }

    /// Copies the kept lines of `page` into `all`. Returns a bit for each of them.
    pub(super) fn read(&self, page: PageId, all: &mut Lines) -> u64 {
        let Some(&Kept { lines, block }) = self.pages.get(&page) else { return 0 };
        let class = Kept::class(lines);
        let kept = self.pools[class].block(class, block);
        set_bits(lines).zip(kept).for_each(|(line, kept)| all[line] = *kept);
        lines
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
            steps in prop::collection::vec((0..8u64, any::<u64>(), any::<u64>(), any::<u64>()), 1..100),
        ) {
            let mut stored = Stored::default();
            let mut model: BTreeMap<u64, (u64, Box<Lines>)> = BTreeMap::new();
            let mut most = [0; CLASSES];
            for (page, lines, sparse, content) in steps {
                // Few lines and many alike.
                let written = [lines, lines & sparse, lines & sparse & content][page as usize % 3];
                let mut all = Box::new([[0; 8]; 64]);
                let had = stored.read(PageId(page), &mut all);
                let nothing = || (0, Box::new([[0; 8]; 64]));
                let (expected, contents) = model.remove(&page).unwrap_or_else(nothing);
                prop_assert_eq!((had, &all), (expected, &contents));
                if written == 0 {
                    if expected != 0 {
                        model.insert(page, (expected, contents));
                    }
                    continue;
                }
                set_bits(written).for_each(|line| all[line] = [content ^ line as u64; 8]);
                stored.keep(PageId(page), written, &all);
                model.insert(page, (had | written, all));
                for (class, most) in most.iter_mut().enumerate() {
                    let held = model.values().filter(|(lines, _)| Kept::class(*lines) == class);
                    *most = held.count().max(*most);
                    let blocks = stored.pools[class].lines.len() >> class;
                    prop_assert_eq!(blocks, *most, "free blocks are used again");
                }
            }
        }
    }
}
