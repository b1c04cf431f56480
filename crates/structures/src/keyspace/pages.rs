//! The free pages of a keyspace: a list of lists. To take a page costs no read of that page.

use ebbtide_core::{Addr, FullMemory, Hint, PAGE_BYTES};

use super::layout::{Numbers, PageNumber};
use crate::{hash, latch};

/// Pages that only inner pages and the index of due leaves may take, so that a new leaf finds its
/// place.
pub(super) const RESERVE_PAGES: u64 = 16;

/// How many pages of the index are taken between the announcement of a page and its use. Reading a
/// page takes as long as some leaves take to split.
const AHEAD: u64 = 8;

/// Page numbers that a page of the list holds, without its header.
pub(super) const HELD_MAX: u64 = (PAGE_BYTES as u64 - NUMBERS) / 4;

/// Offsets of the header, of the neighbours of a [detached](super::detached) value, and of the
/// numbers. They come after the latch.
const HEADER: u64 = 8;
pub(super) const NEIGHBOURS: u64 = 16;
const NUMBERS: u64 = 24;

/// Offsets of the allocator's words in the header page.
const LATCH: u64 = 0;
const NEXT: u64 = 8;
const LIST: u64 = 16;
const FREE: u64 = 24;

/// There is no page left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no page is free")]
pub struct Full;

/// The pages of a keyspace that nothing uses.
///
/// Pages beyond the highest one ever used are free. Freed pages lie in a chain. Each page of the
/// chain holds the numbers of up to 1,018 others, and only the first page is touched. The pages
/// that list those of a large value have the same form. So a whole value is freed in a few stores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pages {
    base: Addr,
    /// The address of the allocator's words.
    state: Addr,
    pages: u64,
}

impl Pages {
    pub(super) fn new(base: Addr, state: Addr, pages: u64) -> Pages {
        Pages { base, state, pages }
    }

    /// Makes all pages from `first` on free.
    pub(super) fn format<M: FullMemory>(&self, memory: &mut M, first: PageNumber) {
        memory.store(self.state + NEXT, u64::from(first));
        memory.store(self.state + LIST, 0u64);
        memory.store(self.state + FREE, 0u64);
    }

    /// The address of a page.
    pub(super) fn address(&self, page: PageNumber) -> Addr {
        debug_assert!(u64::from(page) < self.pages, "page {page} of {}", self.pages);
        self.base + u64::from(page) * PAGE_BYTES as u64
    }

    /// As [`address`](Pages::address), of a number that a writer may have torn.
    pub(super) fn address_of_any(&self, page: PageNumber) -> Addr {
        self.address(u64::from(page).min(self.pages - 1) as PageNumber)
    }

    /// Returns the next page in a chain of lists, and the number of page numbers in the list at
    /// `number`.
    pub(super) fn list_header<M: FullMemory>(
        &self,
        memory: &mut M,
        number: PageNumber,
    ) -> (PageNumber, u64) {
        let header: u64 = memory.load(self.address_of_any(number) + HEADER);
        (header as PageNumber, (header >> 32).min(HELD_MAX))
    }

    /// Writes the header of a list.
    pub(super) fn set_list_header<M: FullMemory>(
        &self,
        memory: &mut M,
        number: PageNumber,
        (following, held): (PageNumber, u64),
    ) {
        memory.store(self.address(number) + HEADER, held << 32 | u64::from(following));
    }

    /// The number at `index` of a list.
    pub(super) fn listed<M: FullMemory>(
        &self,
        memory: &mut M,
        list: PageNumber,
        index: u64,
    ) -> PageNumber {
        let pair: [u32; 2] = memory.load(self.address_of_any(list) + NUMBERS + index / 2 * 8);
        pair[index as usize % 2]
    }

    /// Writes the number at `index` of a list.
    pub(super) fn set_listed<M: FullMemory>(
        &self,
        memory: &mut M,
        list: PageNumber,
        index: u64,
        number: PageNumber,
    ) {
        let at = self.address(list) + NUMBERS + index / 2 * 8;
        let mut pair: [u32; 2] = memory.load(at);
        pair[index as usize % 2] = number;
        memory.store(at, pair);
    }

    /// Frees a chain of lists from `first` to `last` with all pages in it: `count` pages.
    pub(super) fn give_chain<M: FullMemory>(
        &self,
        memory: &mut M,
        (first, last): (PageNumber, PageNumber),
        count: u64,
    ) {
        latch::write(memory, self.state + LATCH, |memory| {
            let free: u64 = memory.load(self.state + FREE);
            memory.store(self.state + FREE, free + count);
            let list: u64 = memory.load(self.state + LIST);
            let held = self.list_header(memory, last).1;
            self.set_list_header(memory, last, (list as PageNumber, held));
            memory.store(self.state + LIST, u64::from(first));
        });
    }

    /// How many pages are free.
    pub(super) fn free<M: FullMemory>(&self, memory: &mut M) -> u64 {
        let given_back: u64 = memory.load(self.state + FREE);
        self.pages - memory.load::<u64>(self.state + NEXT) + given_back
    }

    /// True if at least half of the pages are free.
    pub(super) fn are_ample<M: FullMemory>(&self, memory: &mut M) -> bool {
        self.free(memory) >= self.pages / 2
    }

    /// Takes a page of the index. Its first word is a free latch, and its other contents are
    /// arbitrary. Leaves at least `spare` pages free.
    ///
    /// # Errors
    /// [`Full`] when there is none.
    pub(super) fn take<M: FullMemory>(
        &self,
        memory: &mut M,
        spare: u64,
    ) -> Result<PageNumber, Full> {
        let taken = self.remove(memory, spare)?;
        self.announce(memory);
        Ok(taken)
    }

    /// Announces a page that will be taken soon. A transaction holds the allocator's latch until it
    /// ends. If it had to read the page then, the others would wait for that.
    fn announce<M: FullMemory>(&self, memory: &mut M) {
        let list: u64 = memory.load(self.state + LIST);
        if list == 0 {
            return;
        }
        let list = list as PageNumber;
        let (following, held) = self.list_header(memory, list);
        let page = match held.checked_sub(AHEAD + 1) {
            Some(at) => self.listed(memory, list, at),
            None => following,
        };
        memory.hint(Hint::WillNeed(self.address_of_any(page)));
    }

    /// Removes a page from the free ones.
    fn remove<M: FullMemory>(&self, memory: &mut M, spare: u64) -> Result<PageNumber, Full> {
        latch::write(memory, self.state + LATCH, |memory| {
            if self.free(memory) <= spare {
                return Err(Full);
            }
            let list: u64 = memory.load(self.state + LIST);
            if list == 0 {
                let next: u64 = memory.load(self.state + NEXT);
                memory.store(self.state + NEXT, next + 1);
                return Ok(next as PageNumber);
            }
            let free: u64 = memory.load(self.state + FREE);
            memory.store(self.state + FREE, free - 1);
            let list = list as PageNumber;
            let (following, held) = self.list_header(memory, list);
            if held == 0 {
                // The list's own page is free too.
                memory.store(self.state + LIST, u64::from(following));
                return Ok(list);
            }
            self.set_list_header(memory, list, (following, held - 1));
            Ok(self.listed(memory, list, held - 1))
        })
    }

    /// Takes a page for data that is written whole. As [`take`](Pages::take), but does not read the
    /// page.
    ///
    /// # Errors
    /// [`Full`] if only the reserve is left.
    pub(super) fn take_for_data<M: FullMemory>(&self, memory: &mut M) -> Result<PageNumber, Full> {
        let number = self.remove(memory, RESERVE_PAGES)?;
        memory.forget(self.address(number).page());
        Ok(number)
    }

    /// Takes pages as [`take_for_data`](Pages::take_for_data) does.
    ///
    /// # Errors
    /// [`Full`] if there are fewer than `count`; none is taken then.
    pub(super) fn take_all_for_data<M: FullMemory>(
        &self,
        memory: &mut M,
        count: u64,
    ) -> Result<Numbers, Full> {
        let mut taken = Numbers::new();
        for _ in 0..count {
            match self.take_for_data(memory) {
                Ok(number) => taken.push(number),
                Err(full) => {
                    taken.into_iter().for_each(|number| self.give(memory, number));
                    return Err(full);
                }
            }
        }
        Ok(taken)
    }

    /// Runs `body`, which writes a page of the index that was just taken. The page's latch gets a
    /// word that it never had before. So a job that still knows an earlier use of the page notices.
    pub(super) fn begin<M: FullMemory, R>(
        &self,
        memory: &mut M,
        number: PageNumber,
        body: impl FnOnce(&mut M, Addr) -> R,
    ) -> R {
        // The word of the allocator's latch changes with every page that is taken.
        let taken: u64 = memory.load(self.state + LATCH);
        let version = hash::mix(taken ^ u64::from(number) << 32);
        let page = self.address(number);
        latch::write_new(memory, page, version, |memory| body(memory, page))
    }

    /// Frees a page that nothing refers to.
    pub(super) fn give<M: FullMemory>(&self, memory: &mut M, number: PageNumber) {
        latch::write(memory, self.state + LATCH, |memory| {
            let free: u64 = memory.load(self.state + FREE);
            memory.store(self.state + FREE, free + 1);
            let list: u64 = memory.load(self.state + LIST);
            let list = list as PageNumber;
            if list != 0 {
                let (following, held) = self.list_header(memory, list);
                if held < HELD_MAX {
                    self.set_listed(memory, list, held, number);
                    self.set_list_header(memory, list, (following, held + 1));
                    return;
                }
            }
            memory.forget(self.address(number).page());
            self.set_list_header(memory, number, (list, 0));
            memory.store(self.state + LIST, u64::from(number));
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use ebbtide_testbed::Plain;

    #[test]
    fn every_page_is_taken_once_and_again_after_it_was_given_back() {
        const PAGES: u64 = 3_000;
        let mut memory = Plain::zeroed(PAGES * PAGE_BYTES as u64);
        let pages = Pages::new(Addr(0), Addr(64), PAGES);
        pages.format(&mut memory, 1);
        for round in 0..3 {
            assert_eq!(pages.free(&mut memory), PAGES - 1);
            let taken: BTreeSet<u32> =
                (1..PAGES).map(|_| pages.take(&mut memory, 0).expect("one is free")).collect();
            assert_eq!(taken, (1..PAGES as u32).collect(), "round {round}");
            assert_eq!(pages.take(&mut memory, 0), Err(Full));
            assert_eq!(pages.free(&mut memory), 0);
            for page in taken {
                pages.give(&mut memory, page);
            }
        }
    }

    #[test]
    fn a_page_of_the_index_is_announced_before_it_is_taken() {
        const PAGES: u64 = 100;
        let mut memory = Plain::zeroed(PAGES * PAGE_BYTES as u64);
        let pages = Pages::new(Addr(0), Addr(64), PAGES);
        pages.format(&mut memory, 1);
        let numbers: Vec<_> =
            (1..PAGES).map(|_| pages.take(&mut memory, 0).expect("one is free")).collect();
        assert_eq!(memory.hints, [], "a page that was never used is not read");
        numbers.into_iter().for_each(|number| pages.give(&mut memory, number));
        let taken: Vec<_> =
            (0..40).map(|_| pages.take(&mut memory, 0).expect("one is free")).collect();
        let at = |number: &PageNumber| Hint::WillNeed(pages.address(*number));
        let announced: Vec<Hint> = taken[AHEAD as usize..].iter().map(at).collect();
        assert_eq!(memory.hints[..announced.len() - 1], announced[1..]);
        let before = memory.hints.len();
        pages.take_for_data(&mut memory).expect("one is free");
        assert_eq!(memory.hints.len(), before, "a page of data is not read");
    }
}
