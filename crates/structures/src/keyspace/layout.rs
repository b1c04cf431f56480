//! The layout of the pages of a [`Keyspace`](super::Keyspace), and reading a page.

use ebbtide_core::{Addr, FullMemory, PAGE_BYTES};
use smallvec::SmallVec;

/// The number of a page, counted from the base of the keyspace. Page 0 is the header, so 0 also
/// stands for none.
pub(super) type PageNumber = u32;

/// The numbers of the pages of a value, or of the pages that list them.
pub(super) type Numbers = SmallVec<[PageNumber; 4]>;

/// Bytes of the header of a page of the index: one line.
pub(super) const PAGE_HEADER_BYTES: u64 = 64;

/// Bytes of a page that is not part of the index. The first word of every page is its latch, and
/// only latches change it. So a page of a value may become one of the index while the log holds
/// only its data.
pub(super) const DATA_BYTES: usize = PAGE_BYTES - 8;

/// Bytes of a leaf's slots and entries.
pub(super) const LEAF_BYTES: usize = PAGE_BYTES - PAGE_HEADER_BYTES as usize;

/// Bytes of a slot, which holds the place of an entry.
pub(super) const SLOT_BYTES: usize = 4;

/// The bit of a header that marks a sparse leaf.
const SPARSE: u64 = 1 << 56;

/// One beyond the largest hash.
pub const HASHES: u64 = 1 << 48;

/// The first line of a page of the index.
///
/// Such a page holds the hashes from `low` to below `high`. `right` is the next page on the same
/// level. A search that meets a page just divided finds the other half there. (Lehman and Yao,
/// "Efficient Locking for Concurrent Operations on B-Trees", TODS 1981.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageHeader {
    /// 0 for leaves.
    pub(super) level: u8,
    pub(super) low: u64,
    pub(super) high: u64,
    pub(super) right: PageNumber,
    /// Number of entries.
    pub(super) count: u16,
    /// The first byte of a leaf's entries, which grow downwards from the end.
    pub(super) heap: u16,
    /// Bytes of a leaf's heap that belong to no entry any more.
    pub(super) garbage: u16,
    /// The time step of the leaf's record in the [index of due leaves](super::due); 0 if it has
    /// none.
    pub(super) due: u32,
    /// True if a leaf has lost entries since it was last compared with its neighbours.
    pub(super) sparse: bool,
}

impl PageHeader {
    /// The header of a page without entries.
    pub(super) fn empty(level: u8, low: u64, high: u64) -> PageHeader {
        PageHeader {
            level,
            low,
            high,
            right: 0,
            count: 0,
            heap: PAGE_BYTES as u16,
            garbage: 0,
            due: 0,
            sparse: false,
        }
    }

    /// Decodes the header in a line. Its first word is the latch, which is not part of the header.
    pub(super) fn decode(line: [u64; 8]) -> PageHeader {
        let [_, low, high, packed, heap, ..] = line;
        PageHeader {
            level: (packed >> 48) as u8,
            low,
            high,
            right: packed as u32,
            count: (packed >> 32) as u16,
            heap: heap as u16,
            garbage: (heap >> 16) as u16,
            due: (heap >> 32) as u32,
            sparse: packed & SPARSE != 0,
        }
    }

    /// Returns the words after the latch.
    pub(super) fn encode(&self) -> [u64; 4] {
        let packed =
            u64::from(self.level) << 48 | u64::from(self.count) << 32 | u64::from(self.right);
        let packed = if self.sparse { packed | SPARSE } else { packed };
        let heap = u64::from(self.due) << 32 | u64::from(self.garbage) << 16;
        [self.low, self.high, packed, heap | u64::from(self.heap)]
    }

    /// Writes the header of the page at `page`, whose latch is held.
    pub(super) fn store<M: FullMemory>(&self, memory: &mut M, page: Addr) {
        memory.store(page + 8, self.encode());
    }

    pub(super) fn load<M: FullMemory>(memory: &mut M, page: Addr) -> PageHeader {
        PageHeader::decode(memory.line(page))
    }
}

/// Appends `bytes` bytes from byte address `at` on, which need not be aligned, to `into`.
pub(super) fn copy_out<M: FullMemory>(memory: &mut M, at: Addr, bytes: usize, into: &mut Vec<u8>) {
    let before = into.len();
    into.resize(before + bytes, 0);
    memory.read_bytes(at, &mut into[before..]);
}

/// Returns true if the bytes from byte address `at` on are `expected`.
pub(super) fn equals<M: FullMemory>(memory: &mut M, at: Addr, expected: &[u8]) -> bool {
    let (mut at, mut expected) = (at, expected);
    while !expected.is_empty() {
        let line: [u64; 8] = memory.line(at);
        let offset = at.0 as usize % 64;
        let (piece, later) = expected.split_at(expected.len().min(64 - offset));
        if bytemuck::bytes_of(&line)[offset..offset + piece.len()] != *piece {
            return false;
        }
        at = at + piece.len() as u64;
        expected = later;
    }
    true
}

/// Stores `bytes` from byte address `at` on, which need not be aligned. The other bytes in the
/// first and the last word keep their values.
pub(super) fn copy_in<M: FullMemory>(memory: &mut M, at: Addr, bytes: &[u8]) {
    let (mut at, mut rest) = (at, bytes);
    while !rest.is_empty() {
        let offset = at.0 as usize % 64;
        let (piece, later) = rest.split_at(rest.len().min(64 - offset));
        if piece.len() == 64 {
            let mut line = [0u64; 8];
            bytemuck::bytes_of_mut(&mut line).copy_from_slice(piece);
            memory.store(at, line);
        } else {
            copy_words(memory, at, piece);
        }
        at = at + piece.len() as u64;
        rest = later;
    }
}

/// Stores `bytes`, which lie within a line, word by word.
fn copy_words<M: FullMemory>(memory: &mut M, at: Addr, bytes: &[u8]) {
    let (mut at, mut rest) = (at, bytes);
    while !rest.is_empty() {
        let offset = at.0 as usize % 8;
        let (piece, later) = rest.split_at(rest.len().min(8 - offset));
        let word = Addr(at.0 - offset as u64);
        let mut value = if piece.len() == 8 { [0; 8] } else { memory.load::<[u8; 8]>(word) };
        value[offset..offset + piece.len()].copy_from_slice(piece);
        memory.store(word, value);
        at = at + piece.len() as u64;
        rest = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_core::Memory;
    use ebbtide_testbed::Plain;

    #[test]
    fn bytes_go_in_and_out_at_any_place_and_their_neighbours_stay() {
        let mut memory = Plain::zeroed(8192);
        for start in [0u64, 1, 7, 8, 60, 63, 64, 4090] {
            for length in [0usize, 1, 5, 8, 9, 63, 64, 65, 200] {
                copy_in(&mut memory, Addr(0), &[0xee; 8192]);
                let bytes: Vec<u8> = (0..length).map(|i| (i as u64 + start) as u8).collect();
                copy_in(&mut memory, Addr(start), &bytes);
                let mut all = Vec::new();
                copy_out(&mut memory, Addr(0), 8192, &mut all);
                let end = start as usize + length;
                assert_eq!(all[start as usize..end], bytes);
                assert!(all[..start as usize].iter().chain(&all[end..]).all(|b| *b == 0xee));
                let mut out = vec![9];
                copy_out(&mut memory, Addr(start), length, &mut out);
                assert_eq!(out[1..], bytes);
                assert!(equals(&mut memory, Addr(start), &bytes));
                if let Some(last) = bytes.len().checked_sub(1) {
                    let mut other = bytes.clone();
                    other[last] ^= 1;
                    assert!(!equals(&mut memory, Addr(start), &other));
                }
            }
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = PageHeader {
            level: 3,
            low: 5,
            high: HASHES,
            right: u32::MAX,
            count: 403,
            heap: 4095,
            garbage: 77,
            due: 1 << 31,
            sparse: true,
        };
        let mut memory = Plain::zeroed(4096);
        memory.store(Addr(0), u64::MAX);
        header.store(&mut memory, Addr(0));
        assert_eq!(PageHeader::load(&mut memory, Addr(0)), header);
        assert_eq!(memory.load::<u64>(Addr(0)), u64::MAX, "the latch is not part of it");
    }
}
