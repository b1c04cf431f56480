//! [`WriteLog`]: the log of written lines in the DRAM of a byte-addressable SSD (SkyByte, HPCA'25).

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::addr::{LINE_BYTES, PAGE_BYTES, PageId};
use crate::footprint::Lines;

const LINES: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// Which lines a log holds, and which page compaction merges next.
///
/// The log has two halves. Lines are appended to the *open* half. When it is full it is *sealed*,
/// and the other half is opened. Compaction merges the lines of the sealed half into their pages,
/// one flash write a page. The half is free when the last of these writes has ended. If both halves
/// are full, no line can be appended until then.
///
/// A line that is written again takes another entry, and its old entry is dead. When a page is
/// merged, its lines in the open half go with it. So each page is written at most once for a sealed
/// half, and not at all if its lines there are dead.
///
/// The log keeps no contents and no time. The caller moves the data:
///
/// ```
/// use ebbtide_core::{PageId, WriteLog};
///
/// let mut log = WriteLog::new(256);
/// for number in 0..128 {
///     log.append(PageId(number % 4), (number / 4) as u8);
/// }
/// // The first half is full, and has half of the lines of four pages.
/// let page = log.next_merge().expect("a sealed half");
/// assert_eq!((page, log.lines(page).count()), (PageId(0), 32));
/// // The caller reads the page from flash, takes the lines and writes the page.
/// assert_eq!(log.take(page).count(), 32);
/// log.merged();
/// assert!(!log.holds(page, 3) && log.holds(PageId(1), 3));
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WriteLog {
    /// Entries of a half.
    half: u64,
    /// The open half: 0 or 1.
    open: usize,
    /// Entries in use, by half.
    used: [u64; 2],
    /// The newest lines of each page, by half. A line is in one half at most.
    pages: FxHashMap<PageId, [Lines; 2]>,
    /// Pages in the order of their first line, by half. Some may have no line any more.
    order: [VecDeque<PageId>; 2],
    /// Pages that are being merged.
    merging: u64,
}

impl WriteLog {
    /// The least number of lines: one page in either half.
    pub const LINES_MIN: u64 = 2 * LINES;

    /// An empty log of `lines` entries.
    ///
    /// # Panics
    /// If there are fewer than [`LINES_MIN`](WriteLog::LINES_MIN).
    pub fn new(lines: u64) -> WriteLog {
        assert!(lines >= WriteLog::LINES_MIN, "a half has room for a page");
        WriteLog {
            half: lines / 2,
            open: 0,
            used: [0; 2],
            pages: FxHashMap::default(),
            order: Default::default(),
            merging: 0,
        }
    }

    /// Returns true if a line can be appended.
    #[inline]
    pub fn has_room(&self) -> bool {
        // A full half is sealed as soon as the other one is free.
        self.used[self.open] < self.half
    }

    /// Returns true if all lines of a page can be appended.
    pub fn has_room_for_page(&self) -> bool {
        self.used[self.open] + LINES <= self.half || self.used[1 - self.open] == 0
    }

    /// Appends `line` of `page`. Returns true if the log held an older version of it.
    ///
    /// # Panics
    /// If there is no room.
    pub fn append(&mut self, page: PageId, line: u8) -> bool {
        assert!(self.has_room(), "an entry without room");
        let known = self.enter(page, Lines::one(line));
        self.used[self.open] += 1;
        self.seal_if_full();
        known != Lines::NONE
    }

    /// Appends all lines of `page`.
    ///
    /// # Panics
    /// If there is no room.
    pub fn append_page(&mut self, page: PageId) {
        assert!(self.has_room_for_page(), "entries without room");
        if self.used[self.open] + LINES > self.half {
            self.seal();
        }
        self.enter(page, Lines::ALL);
        self.used[self.open] += LINES;
        self.seal_if_full();
    }

    /// Makes the open half hold `lines` of `page`. Returns those that the log held before.
    fn enter(&mut self, page: PageId, lines: Lines) -> Lines {
        let held = self.pages.entry(page).or_insert([Lines::NONE; 2]);
        let all = held[0].and(held[1]);
        if held[self.open] == Lines::NONE {
            self.order[self.open].push_back(page);
        }
        held[1 - self.open] = held[1 - self.open].without(lines);
        held[self.open] = held[self.open].and(lines);
        all.without(all.without(lines))
    }

    fn seal_if_full(&mut self) {
        if self.used[self.open] >= self.half && self.used[1 - self.open] == 0 {
            self.seal();
        }
    }

    /// Seals the open half and opens the other, which is free.
    fn seal(&mut self) {
        self.open = 1 - self.open;
        // Lines without an entry in use are those of a half whose last merge has ended.
        debug_assert!(self.order[self.open].is_empty() && self.merging == 0);
    }

    /// Returns true if the log has `line` of `page`.
    #[inline]
    pub fn holds(&self, page: PageId, line: u8) -> bool {
        self.lines(page).contains(line)
    }

    /// Returns the lines of `page` that the log has.
    #[inline]
    pub fn lines(&self, page: PageId) -> Lines {
        self.pages.get(&page).map_or(Lines::NONE, |[one, other]| one.and(*other))
    }

    /// Returns true if the log has all lines of `page`, so a merge needs no page from flash.
    pub fn is_whole(&self, page: PageId) -> bool {
        self.lines(page) == Lines::ALL
    }

    /// Returns the pages of which the log has lines.
    pub fn pages(&self) -> impl Iterator<Item = PageId> {
        self.pages.keys().copied()
    }

    /// Returns the next page of the sealed half, and begins its merge. The caller ends the merge
    /// with [`take`](WriteLog::take) and [`merged`](WriteLog::merged).
    pub fn next_merge(&mut self) -> Option<PageId> {
        let sealed = 1 - self.open;
        while let Some(page) = self.order[sealed].pop_front() {
            if self.pages.get(&page).is_some_and(|held| held[sealed] != Lines::NONE) {
                self.merging += 1;
                return Some(page);
            }
        }
        self.free_if_merged();
        None
    }

    /// Removes the lines of `page`, of either half, to write them. Returns them. They are none if
    /// the page was forgotten since its merge began.
    pub fn take(&mut self, page: PageId) -> Lines {
        self.pages.remove(&page).map_or(Lines::NONE, |[one, other]| one.and(other))
    }

    /// Ends a merge: the page is on flash, or had no lines any more.
    ///
    /// # Panics
    /// If no merge is under way.
    pub fn merged(&mut self) {
        self.merging = self.merging.checked_sub(1).expect("a merge is under way");
        self.free_if_merged();
    }

    fn free_if_merged(&mut self) {
        let sealed = 1 - self.open;
        if self.merging == 0 && self.order[sealed].is_empty() {
            self.used[sealed] = 0;
            self.seal_if_full();
        }
    }

    /// Drops the lines of `page`, because a newer version of the page is elsewhere. Returns them.
    /// Their entries stay in use until their half is free.
    pub fn forget(&mut self, page: PageId) -> Lines {
        self.take(page)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Merges the sealed half, and returns its pages with the number of lines of each.
    fn compact(log: &mut WriteLog) -> Vec<(u64, u64)> {
        let mut written = Vec::new();
        while let Some(page) = log.next_merge() {
            written.push((page.0, log.take(page).count()));
            log.merged();
        }
        written
    }

    #[test]
    fn an_appended_line_is_found_until_it_is_merged() {
        let mut log = WriteLog::new(128);
        assert!(!log.append(PageId(9), 7));
        assert!(log.holds(PageId(9), 7) && !log.holds(PageId(9), 6) && !log.holds(PageId(8), 7));
        assert_eq!(log.next_merge(), None, "the half is open");
        (0..63).for_each(|line| _ = log.append(PageId(5), line));
        assert!(log.holds(PageId(9), 7), "a sealed half is read like the open one");
        assert_eq!(compact(&mut log), [(9, 1), (5, 63)]);
        assert!(!log.holds(PageId(9), 7));
    }

    #[test]
    fn a_line_that_is_written_again_takes_an_entry_and_is_merged_once() {
        let mut log = WriteLog::new(128);
        let again = (0..64).filter(|_| log.append(PageId(3), 1)).count();
        assert_eq!(again, 63);
        assert_eq!(compact(&mut log), [(3, 1)]);
    }

    #[test]
    fn lines_of_the_open_half_are_merged_with_their_page() {
        let mut log = WriteLog::new(128);
        (0..64).for_each(|page| _ = log.append(PageId(page), 0));
        log.append(PageId(7), 1);
        log.append(PageId(8), 0);
        let written = compact(&mut log);
        assert_eq!(written.len(), 63, "page 8 has no line in the sealed half any more");
        assert_eq!(written[7], (7, 2));
        assert_eq!(log.pages().collect::<Vec<_>>(), [PageId(8)]);
    }

    #[test]
    fn lines_go_to_the_other_half_while_one_is_merged_and_wait_when_both_are_full() {
        let mut log = WriteLog::new(128);
        (0..64).for_each(|page| _ = log.append(PageId(page), 0));
        let first = log.next_merge().unwrap();
        (64..128).for_each(|page| _ = log.append(PageId(page), 0));
        assert!(!log.has_room() && !log.has_room_for_page());
        log.take(first);
        log.merged();
        assert!(!log.has_room(), "63 pages of the half are left");
        assert_eq!(compact(&mut log).len(), 63 + 64, "the second half follows");
        assert!(log.has_room() && log.has_room_for_page());
        assert_eq!(log.pages().count(), 0);
    }

    #[test]
    fn a_half_is_free_only_after_the_last_write_of_its_pages() {
        let mut log = WriteLog::new(128);
        (0..64).for_each(|line| _ = log.append(PageId(1), line));
        assert_eq!(log.next_merge(), Some(PageId(1)));
        assert!(log.is_whole(PageId(1)));
        log.take(PageId(1));
        (0..64).for_each(|line| _ = log.append(PageId(2), line));
        assert!(!log.has_room());
        log.merged();
        assert!(log.has_room());
    }

    #[test]
    fn a_page_is_appended_whole_and_seals_a_half_without_room_for_it() {
        let mut log = WriteLog::new(256);
        (0..100).for_each(|page| _ = log.append(PageId(page), 0));
        log.append_page(PageId(500));
        assert!(log.is_whole(PageId(500)));
        assert_eq!(compact(&mut log).len(), 100, "not the page, which the open half holds");
        log.append_page(PageId(501));
        assert_eq!(compact(&mut log), [(500, 64), (501, 64)]);
    }

    #[test]
    fn a_forgotten_page_is_not_written() {
        let mut log = WriteLog::new(128);
        (0..64).for_each(|page| _ = log.append(PageId(page), 3));
        let merging = log.next_merge().unwrap();
        assert_eq!(log.forget(merging), Lines::one(3));
        assert_eq!(log.take(merging), Lines::NONE);
        log.merged();
        log.forget(PageId(40));
        assert_eq!(compact(&mut log).len(), 62);
    }

    proptest! {
        /// Against a set of lines: nothing is lost, nothing comes back, and a sealed half needs at
        /// most one write for each of its pages.
        #[test]
        fn every_line_is_in_the_log_or_was_taken_since_it_was_appended(
            steps in prop::collection::vec((0u8..8, 0u64..12, 0u8..64), 1..1_000),
            lines in 128u64..400,
        ) {
            let mut log = WriteLog::new(lines);
            let mut held = [Lines::NONE; 12];
            let mut merging: VecDeque<PageId> = VecDeque::new();
            for (step, number, line) in steps {
                let (page, own) = (PageId(number), &mut held[number as usize]);
                match step {
                    0..=4 if log.has_room() => {
                        prop_assert_eq!(log.append(page, line), own.contains(line));
                        *own = own.and(Lines::one(line));
                    }
                    5 if log.has_room_for_page() => {
                        log.append_page(page);
                        *own = Lines::ALL;
                    }
                    6 => {
                        prop_assert_eq!(log.forget(page), *own);
                        *own = Lines::NONE;
                    }
                    _ => match log.next_merge() {
                        Some(page) => merging.push_back(page),
                        None => if let Some(page) = merging.pop_front() {
                            let own = &mut held[page.0 as usize];
                            prop_assert_eq!(log.take(page), *own);
                            *own = Lines::NONE;
                            log.merged();
                        }
                    },
                }
                for (page, own) in (0..).zip(&held) {
                    prop_assert_eq!(log.lines(PageId(page)), *own);
                }
                prop_assert!(log.used.iter().all(|used| *used <= log.half));
            }
            // Merging everything ends, and makes room.
            while let Some(page) = log.next_merge().or_else(|| merging.pop_front()) {
                log.take(page);
                log.merged();
            }
            prop_assert!(log.has_room() && log.has_room_for_page());
        }
    }
}
