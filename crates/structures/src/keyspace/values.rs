//! Values that lie in pages of their own.

use ebbtide_core::{Hint, Memory, PAGE_BYTES};

use super::entry::{LISTED_MAX, NUMBERS_PER_PAGE, Numbers, Place};
use super::layout::{DATA_BYTES, PageNumber, copy_in, copy_out};
use super::pages::{Full, Pages};

/// Pages that are asked for ahead of the one that is being read.
const AHEAD: usize = 32;

/// A value in pages: page `i` holds its bytes from `i · 4088` on, behind its first word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PagedValue {
    pub(super) numbers: Vec<PageNumber>,
}

impl PagedValue {
    /// The pages at `place`; none for an inline value.
    pub(super) fn load<M: Memory>(
        pages: &Pages,
        memory: &mut M,
        place: &Place,
        value_bytes: u64,
    ) -> PagedValue {
        let numbers = match place {
            Place::Inline => Vec::new(),
            Place::Listed(numbers) => numbers.to_vec(),
            Place::Indirect(lists) => {
                let mut left = (value_bytes as usize).div_ceil(DATA_BYTES);
                let mut bytes = Vec::with_capacity(left * 4);
                for list in lists {
                    let held = left.min(NUMBERS_PER_PAGE);
                    copy_out(memory, pages.address(*list) + 8, held * 4, &mut bytes);
                    left -= held;
                }
                bytes.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number)).collect()
            }
        };
        PagedValue { numbers }
    }

    /// Makes the value `pages_wanted` pages long. New pages hold arbitrary bytes.
    ///
    /// # Errors
    /// [`Full`]; the value then is as before.
    pub(super) fn resize<M: Memory>(
        &mut self,
        pages: &Pages,
        memory: &mut M,
        pages_wanted: usize,
    ) -> Result<(), Full> {
        let before = self.numbers.len();
        while self.numbers.len() < pages_wanted {
            match pages.take(memory) {
                Ok(number) => self.numbers.push(number),
                Err(full) => {
                    self.give_from(pages, memory, before);
                    return Err(full);
                }
            }
        }
        self.give_from(pages, memory, pages_wanted);
        Ok(())
    }

    /// Gives back all pages from the one of this index on.
    pub(super) fn give_from<M: Memory>(&mut self, pages: &Pages, memory: &mut M, from: usize) {
        for number in self.numbers.drain(from.min(self.numbers.len())..) {
            pages.give(memory, number);
        }
    }

    /// Writes `bytes` from byte `offset` on. The pages are there.
    pub(super) fn write<M: Memory>(
        &self,
        pages: &Pages,
        memory: &mut M,
        offset: u64,
        bytes: &[u8],
    ) {
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let (page, within) = split(offset);
            let (piece, later) = rest.split_at(rest.len().min(PAGE_BYTES - within));
            copy_in(memory, pages.address(self.numbers[page]) + within as u64, piece);
            offset += piece.len() as u64;
            rest = later;
        }
    }

    /// Appends the `length` bytes from byte `offset` on to `into`. The pages are there.
    pub(super) fn read<M: Memory>(
        &self,
        pages: &Pages,
        memory: &mut M,
        offset: u64,
        length: usize,
        into: &mut Vec<u8>,
    ) {
        let (mut offset, mut left) = (offset, length);
        let last = split(offset + (length as u64).saturating_sub(1)).0;
        let mut asked = 0;
        while left > 0 {
            let (page, within) = split(offset);
            if page >= asked && page < last {
                asked = (page + AHEAD).min(last + 1);
                for number in &self.numbers[page..asked] {
                    memory.hint(Hint::WillNeed(pages.address(*number)));
                }
            }
            let piece = left.min(PAGE_BYTES - within);
            copy_out(memory, pages.address(self.numbers[page]) + within as u64, piece, into);
            offset += piece as u64;
            left -= piece;
        }
    }

    /// Makes a list of the pages for the entry. A long one takes pages itself.
    pub(super) fn list<M: Memory>(&self, pages: &Pages, memory: &mut M) -> Result<Place, Full> {
        if self.numbers.len() <= LISTED_MAX {
            return Ok(Place::Listed(Numbers::from_slice(&self.numbers)));
        }
        let chunks = self.numbers.chunks(NUMBERS_PER_PAGE);
        let mut lists = PagedValue { numbers: Vec::new() };
        lists.resize(pages, memory, chunks.len())?;
        for (list, numbers) in lists.numbers.iter().zip(chunks) {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            copy_in(memory, pages.address(*list) + 8, &bytes);
        }
        Ok(Place::Indirect(Numbers::from_vec(lists.numbers)))
    }
}

/// Gives back the pages of page numbers of `place`.
pub(super) fn give_lists<M: Memory>(pages: &Pages, memory: &mut M, place: &Place) {
    if let Place::Indirect(lists) = place {
        for list in lists {
            pages.give(memory, *list);
        }
    }
}

/// The page of a byte, and its place within that.
fn split(offset: u64) -> (usize, usize) {
    ((offset / DATA_BYTES as u64) as usize, 8 + (offset % DATA_BYTES as u64) as usize)
}
