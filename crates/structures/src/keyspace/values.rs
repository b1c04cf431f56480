//! Values that lie in pages of their own.
//!
//! Page `i` of a value holds its bytes from `i · 4088` on, behind its first word. The bytes beyond
//! the last whole page may lie in the entry instead, as the value's tail.

use ebbtide_core::{FullMemory, Hint, PAGE_BYTES};

use super::entry::{LISTED_MAX, Place};
use super::layout::{DATA_BYTES, Numbers, PageNumber, copy_in, copy_out};
use super::pages::{Full, HELD_MAX, Pages};

/// Pages that are fetched ahead of the one that is being read.
const AHEAD: u64 = 32;

/// Pages of a value of this many bytes.
pub(super) fn pages_of(value_bytes: u64) -> u64 {
    value_bytes.div_ceil(DATA_BYTES as u64)
}

/// The number of page `index` of a value. Arbitrary, if a writer intervened.
fn number<M: FullMemory>(pages: &Pages, memory: &mut M, place: &Place, index: u64) -> PageNumber {
    match place {
        Place::Inline | Place::Collection { .. } => 0,
        Place::Listed(_) | Place::Tailed(_) => {
            place.numbers().get(index as usize).copied().unwrap_or(0)
        }
        Place::Chained(lists) => {
            let list = lists.get((index / HELD_MAX) as usize).copied().unwrap_or(0);
            pages.listed(memory, list, index % HELD_MAX)
        }
    }
}

/// Appends the `length` bytes from byte `offset` on of the value at `place` to `into`.
pub(super) fn read<M: FullMemory>(
    pages: &Pages,
    memory: &mut M,
    place: &Place,
    (offset, length): (u64, usize),
    into: &mut Vec<u8>,
) {
    let Place::Tailed(tailed) = place else {
        return read_pages(pages, memory, place, (offset, length), into);
    };
    let end = (tailed.numbers.len() * DATA_BYTES) as u64;
    let in_pages = end.saturating_sub(offset).min(length as u64) as usize;
    read_pages(pages, memory, place, (offset, in_pages), into);
    let rest = tailed.tail.get(offset.saturating_sub(end) as usize..).unwrap_or_default();
    into.extend_from_slice(&rest[..rest.len().min(length - in_pages)]);
}

/// As [`read`], of bytes that lie in pages.
fn read_pages<M: FullMemory>(
    pages: &Pages,
    memory: &mut M,
    place: &Place,
    (offset, length): (u64, usize),
    into: &mut Vec<u8>,
) {
    let (mut offset, mut left) = (offset, length);
    let last = split(offset + (length as u64).saturating_sub(1)).0;
    let mut asked = 0;
    while left > 0 {
        let (page, within) = split(offset);
        if page >= asked && page < last {
            asked = (page + AHEAD).min(last + 1);
            for index in page..asked {
                let number = number(pages, memory, place, index);
                memory.hint(Hint::WillNeed(pages.address_of_any(number)));
            }
        }
        let piece = left.min(PAGE_BYTES - within);
        let number = number(pages, memory, place, page);
        copy_out(memory, pages.address_of_any(number) + within as u64, piece, into);
        offset += piece as u64;
        left -= piece;
    }
}

/// Writes `bytes` from byte `offset` on into the pages of the value at `place`, which are there.
pub(super) fn write<M: FullMemory>(
    pages: &Pages,
    memory: &mut M,
    place: &Place,
    offset: u64,
    bytes: &[u8],
) {
    let (mut offset, mut rest) = (offset, bytes);
    while !rest.is_empty() {
        let (page, within) = split(offset);
        let (piece, later) = rest.split_at(rest.len().min(PAGE_BYTES - within));
        let number = number(pages, memory, place, page);
        copy_in(memory, pages.address(number) + within as u64, piece);
        offset += piece.len() as u64;
        rest = later;
    }
}

/// The pages of a value that its entry lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed(pub(super) Numbers);

impl Listed {
    /// Makes the value `wanted` pages long. New pages hold arbitrary bytes.
    ///
    /// # Errors
    /// [`Full`]; the value then is as before.
    pub(super) fn resize<M: FullMemory>(
        &mut self,
        pages: &Pages,
        memory: &mut M,
        wanted: usize,
    ) -> Result<(), Full> {
        assert!(wanted <= LISTED_MAX, "a list of {wanted} pages");
        let missing = wanted.saturating_sub(self.0.len());
        self.0.extend(pages.take_all_for_data(memory, missing as u64)?);
        self.give_from(pages, memory, wanted);
        Ok(())
    }

    /// Frees all pages from the one of this index on.
    pub(super) fn give_from<M: FullMemory>(&mut self, pages: &Pages, memory: &mut M, from: usize) {
        for number in self.0.drain(from.min(self.0.len())..) {
            pages.give(memory, number);
        }
    }
}

/// Returns the page of a byte, and the byte's place within that page.
fn split(offset: u64) -> (u64, usize) {
    (offset / DATA_BYTES as u64, 8 + (offset % DATA_BYTES as u64) as usize)
}
