//! [`LookAside`]: FlatFlash's promotion look-aside buffer, which lets a page be used while it
//! moves.

use rustc_hash::FxHashMap;

use crate::addr::{FrameId, LINE_BYTES, PAGE_BYTES, PageId};

/// Lines of a page.
const LINES: usize = PAGE_BYTES / LINE_BYTES;

/// Where a line of a moving page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Still in the SSD.
    Ssd,
    /// In the frame that the page goes to.
    Dram(FrameId),
}

/// Pages that move from the SSD to host DRAM, and their lines that have arrived (FlatFlash §3.3).
///
/// Lines stream in from the SSD while the CPU goes on. A store of the CPU goes to DRAM at once and
/// is newer than the SSD's line. So a line that the CPU has written is dropped when it comes. The
/// page is there when all its lines are, from either source.
///
/// The published buffer compares all entries at once, in one cycle. This one hashes.
#[derive(Clone, Debug)]
pub struct LookAside {
    entries: FxHashMap<PageId, Entry>,
    entries_max: usize,
}

/// A page that moves.
#[derive(Clone, Copy, Debug)]
struct Entry {
    frame: FrameId,
    /// A bit for each line that is in DRAM.
    copied: u64,
}

impl LookAside {
    /// An empty buffer for `entries_max` pages.
    ///
    /// # Panics
    /// If that is none.
    pub fn new(entries_max: usize) -> LookAside {
        assert!(entries_max > 0, "a look-aside buffer needs room for a page");
        LookAside { entries: FxHashMap::default(), entries_max }
    }

    /// Returns true if no other page can begin to move.
    pub fn is_full(&self) -> bool {
        self.entries.len() == self.entries_max
    }

    /// Returns true if `page` is on its way.
    #[inline]
    pub fn contains(&self, page: PageId) -> bool {
        !self.entries.is_empty() && self.entries.contains_key(&page)
    }

    /// Begins to move `page` to `frame`. The page must not be moving already.
    ///
    /// # Panics
    /// If the buffer [is full](LookAside::is_full), or the page is on its way.
    pub fn begin(&mut self, page: PageId, frame: FrameId) {
        assert!(!self.is_full(), "a full buffer takes no page");
        let before = self.entries.insert(page, Entry { frame, copied: 0 });
        assert!(before.is_none(), "{page:?} is on its way already");
    }

    /// Notes that line `line` of `page` comes from the SSD. Returns the frame to write it to, or
    /// `None` to drop it because the CPU has written that line.
    ///
    /// # Panics
    /// If the page is not on its way.
    pub fn inbound(&mut self, page: PageId, line: usize) -> Option<FrameId> {
        let entry = self.entries.get_mut(&page).expect("only pages on their way have lines come");
        let bit = bit(line);
        let written = entry.copied & bit != 0;
        entry.copied |= bit;
        (!written).then_some(entry.frame)
    }

    /// Notes that the CPU writes line `line` of `page`. Returns the frame that it goes to, or
    /// `None` if the page is not on its way.
    pub fn store(&mut self, page: PageId, line: usize) -> Option<FrameId> {
        let entry = self.entries.get_mut(&page)?;
        entry.copied |= bit(line);
        Some(entry.frame)
    }

    /// Returns where the CPU reads line `line` of `page`. `None` if the page is not moving.
    pub fn load(&self, page: PageId, line: usize) -> Option<Place> {
        let entry = self.entries.get(&page)?;
        Some(if entry.copied & bit(line) != 0 { Place::Dram(entry.frame) } else { Place::Ssd })
    }

    /// Frees the entry of `page`, whose lines are all there. Returns its frame.
    ///
    /// # Panics
    /// If the page is not on its way, or lines are missing.
    pub fn finish(&mut self, page: PageId) -> FrameId {
        let entry = self.entries.remove(&page).expect("only pages on their way arrive");
        assert_eq!(entry.copied, u64::MAX, "lines of {page:?} are missing");
        entry.frame
    }
}

fn bit(line: usize) -> u64 {
    assert!(line < LINES, "a page has no line {line}");
    1 << line
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: PageId = PageId(7);
    const FRAME: FrameId = FrameId(3);

    fn moving() -> LookAside {
        let mut look_aside = LookAside::new(2);
        look_aside.begin(PAGE, FRAME);
        look_aside
    }

    #[test]
    fn a_cpu_write_beats_an_inbound_line() {
        let mut look_aside = moving();
        assert_eq!(look_aside.store(PAGE, 5), Some(FRAME));
        assert_eq!(look_aside.inbound(PAGE, 5), None, "what the SSD sends is older");
        assert_eq!(look_aside.inbound(PAGE, 6), Some(FRAME));
        assert_eq!(look_aside.store(PAGE, 6), Some(FRAME), "and may be written over");
    }

    #[test]
    fn reads_follow_each_line_from_the_ssd_to_dram() {
        let mut look_aside = moving();
        assert_eq!(look_aside.load(PAGE, 0), Some(Place::Ssd));
        look_aside.inbound(PAGE, 0);
        look_aside.store(PAGE, 63);
        assert_eq!(look_aside.load(PAGE, 0), Some(Place::Dram(FRAME)));
        assert_eq!(look_aside.load(PAGE, 63), Some(Place::Dram(FRAME)));
        assert_eq!(look_aside.load(PAGE, 1), Some(Place::Ssd));
        assert_eq!(look_aside.load(PageId(8), 0), None);
        assert_eq!(look_aside.store(PageId(8), 0), None);
    }

    #[test]
    fn a_page_whose_lines_are_all_there_makes_room_for_another() {
        let mut look_aside = moving();
        look_aside.begin(PageId(8), FrameId(4));
        assert!(look_aside.is_full());
        (0..64).for_each(|line| {
            look_aside.inbound(PAGE, line);
        });
        assert_eq!(look_aside.finish(PAGE), FRAME);
        assert!(!look_aside.is_full() && !look_aside.contains(PAGE));
    }

    #[test]
    #[should_panic(expected = "lines of PageId(7) are missing")]
    fn a_page_is_not_there_before_its_last_line() {
        let mut look_aside = moving();
        (0..63).for_each(|line| {
            look_aside.inbound(PAGE, line);
        });
        look_aside.finish(PAGE);
    }
}
