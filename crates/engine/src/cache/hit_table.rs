//! The table of resident pages and their frames. It fits a core's own cache.
//!
//! The states of all pages take four bytes each, and most of them belong to pages on flash. So a
//! hot page costs a whole cache line there, and this table holds resident pages only. Every reader
//! may use it without a lock. It is a hint: a page that is missing here is looked up in the states.
//!
//! A line has eight places. Each page has its own place in one line. If that place is taken, the
//! page uses another place of the line, or none if the line is full.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use ebbtide_core::{FrameId, PageId};

use crate::host::mapping::Mapping;
use crate::host::prefetched::prefetch;

/// Places in a cache line.
const LINE_PLACES: usize = 8;

/// In a place that no page has taken. No page has this number.
const FREE: u64 = u64::MAX;

/// The table of a cache.
pub(super) struct HitTable {
    places: Mapping,
    count: usize,
}

/// Whether a line has no free place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LineIsFull(pub(super) bool);

/// The table as plain values, for a reader. The table must outlive it.
#[derive(Clone, Copy)]
pub(super) struct HitLookup {
    places: *const AtomicU64,
    last: usize,
}

impl HitTable {
    /// For a cache of `frames` frames.
    pub(super) fn new(frames: usize) -> io::Result<HitTable> {
        let count = HitTable::place_count(frames);
        let places = Mapping::zeroed(HitTable::bytes(frames))?;
        let table = HitTable { places, count };
        let lookup = table.lookup();
        (0..count).for_each(|place| lookup.place(place).store(FREE, Ordering::Relaxed));
        Ok(table)
    }

    fn place_count(frames: usize) -> usize {
        (frames + frames / 2).next_power_of_two().max(LINE_PLACES)
    }

    /// Bytes that a table for `frames` frames takes.
    pub(super) fn bytes(frames: usize) -> usize {
        HitTable::place_count(frames) * size_of::<AtomicU64>()
    }

    pub(super) fn lookup(&self) -> HitLookup {
        HitLookup { places: self.places.base().cast_const().cast(), last: self.count - 1 }
    }

    /// Brings the line of `page` into the core's caches.
    pub(super) fn prefetch(&self, page: PageId) {
        self.lookup().prefetch(page);
    }

    /// Notes that `page` is in `frame` from now on, if there is a place for it. At the same time,
    /// no other thread may add or remove this page.
    pub(super) fn add(&self, page: PageId, frame: FrameId) {
        let entry = page.0 << 32 | u64::from(frame.0);
        let lookup = self.lookup();
        for place in lookup.line(page) {
            let place = lookup.place(place);
            if place.load(Ordering::Relaxed) == FREE
                && place.compare_exchange(FREE, entry, Ordering::Release, Ordering::Relaxed).is_ok()
            {
                return;
            }
        }
    }

    /// Forgets `page`.
    pub(super) fn remove(&self, page: PageId) {
        let lookup = self.lookup();
        for place in lookup.line(page) {
            let place = lookup.place(place);
            if place.load(Ordering::Relaxed) >> 32 == page.0 {
                place.store(FREE, Ordering::Release);
                return;
            }
        }
    }
}

impl HitLookup {
    /// The frame of `page`, if that has its own place.
    #[inline(always)]
    pub(super) fn find(&self, page: PageId) -> Option<FrameId> {
        let entry = self.place(self.own_place(page)).load(Ordering::Acquire);
        (entry >> 32 == page.0).then_some(FrameId(entry as u32))
    }

    /// Brings the line of `page` into the core's caches.
    pub(super) fn prefetch(&self, page: PageId) {
        prefetch(self.place(self.own_place(page)));
    }

    /// The frame of `page`, if that has any place of its line. Else whether the line is full, so
    /// that the page may have found none.
    pub(super) fn find_in_line(&self, page: PageId) -> Result<FrameId, LineIsFull> {
        // Nearly always the page is not there, so all places are looked at without a branch.
        let (mut found, mut free) = (FREE, false);
        let first = self.own_place(page) & !(LINE_PLACES - 1);
        for place in first..first + LINE_PLACES {
            let entry = self.place(place).load(Ordering::Acquire);
            found = if entry >> 32 == page.0 { entry } else { found };
            free |= entry == FREE;
        }
        match found {
            FREE => Err(LineIsFull(!free)),
            entry => Ok(FrameId(entry as u32)),
        }
    }

    /// The place of `page`. No hash: one would take longer than the rest of a hit, and neighbours
    /// share a line as it is.
    #[inline(always)]
    fn own_place(&self, page: PageId) -> usize {
        page.index() & self.last
    }

    /// The places that `page` may have, its own first.
    fn line(&self, page: PageId) -> impl Iterator<Item = usize> + use<> {
        let own = self.own_place(page);
        (0..LINE_PLACES).map(move |step| own ^ step)
    }

    #[inline(always)]
    fn place(&self, place: usize) -> &AtomicU64 {
        // SAFETY: a place comes from `own_place`, which masks it, or lies in the same line; the
        // table outlives its readers.
        unsafe { &*self.places.add(place) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(table: &HitTable, page: PageId) -> Option<FrameId> {
        let lookup = table.lookup();
        lookup.find_in_line(page).ok()
    }

    #[test]
    fn pages_are_found_in_their_frames_until_they_are_removed() {
        let table = HitTable::new(1_000).unwrap();
        let pages: Vec<PageId> = (0..1_000).map(|n| PageId(n * 37)).collect();
        for (frame, &page) in (0..).map(FrameId).zip(&pages) {
            assert_eq!(find(&table, page), None);
            table.add(page, frame);
        }
        let known = |range: std::ops::Range<usize>| {
            let found = |frame: &usize| {
                let found = find(&table, pages[*frame]);
                assert!(found.is_none_or(|found| found.index() == *frame), "page of {frame}");
                found.is_some()
            };
            range.filter(found).count()
        };
        assert!(known(0..1_000) > 980, "a few may find their line full");
        pages[..500].iter().for_each(|&page| table.remove(page));
        assert_eq!(known(0..500), 0);
        assert!(known(500..1_000) > 480);
    }

    #[test]
    fn a_full_line_takes_no_page_more_and_loses_none() {
        let table = HitTable::new(1).unwrap();
        assert_eq!(table.count, LINE_PLACES);
        for n in 0..LINE_PLACES as u64 + 1 {
            table.add(PageId(n), FrameId(n as u32));
        }
        let known = |n: u64| find(&table, PageId(n)) == Some(FrameId(n as u32));
        assert_eq!((0..LINE_PLACES as u64 + 1).filter(|&n| known(n)).count(), LINE_PLACES);
        assert!(!known(LINE_PLACES as u64));
        table.remove(PageId(3));
        table.add(PageId(8), FrameId(8));
        assert!(known(8) && !known(3));
    }

    #[test]
    fn a_page_whose_place_is_taken_gets_any_other_of_its_line() {
        let table = HitTable::new(1_000).unwrap();
        // All of them have the last place of the first line for their own.
        let pages = |n: u64| PageId(LINE_PLACES as u64 - 1 + n * table.count as u64);
        for n in 0..LINE_PLACES as u64 {
            table.add(pages(n), FrameId(n as u32));
        }
        for n in 0..LINE_PLACES as u64 {
            assert_eq!(find(&table, pages(n)), Some(FrameId(n as u32)));
        }
    }

    #[test]
    fn a_table_has_half_as_many_places_again_as_frames_rounded_up_to_a_power_of_two() {
        for (frames, places) in [(1, 8), (5, 8), (6, 16), (682, 1024), (683, 1024), (684, 2048)] {
            assert_eq!(HitTable::bytes(frames), places * size_of::<AtomicU64>(), "{frames}");
        }
    }
}
