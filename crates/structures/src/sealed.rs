//! Sealed records: how a line tells that it is whole and where it belongs.
//!
//! A seal is a checksum over a record, its address and the dataset's seed. A line that was torn,
//! that rotted, that comes from another place or another dataset does not match its seal. (A line
//! that is merely *old* does: what notices that is said by each structure.)

use std::ops::Range;

use bytemuck::Pod;
use ebbtide_core::{Addr, LINE_BYTES, Memory};

use crate::{ALL_LINES, PageBytes, Wrong, latch};

/// A line as words: a latch, six words of record, its seal.
pub type Line = [u64; LINE_BYTES / 8];

/// The record of a line and its seal: all but the latch.
pub type Sealed = [u64; 7];

/// Where in a line its [`Sealed`] part starts.
pub const SEALED: u64 = 8;

/// Seals and checks records of one dataset.
#[derive(Debug, Clone, Copy)]
pub struct Seals {
    salt: u64,
}

impl Seals {
    /// Seals for the dataset of `pages` pages that the owner numbered `owner` makes of `seed`, and
    /// for no other.
    pub fn new(owner: u64, pages: u64, seed: u64) -> Seals {
        Seals { salt: mix(seed ^ mix(pages ^ mix(owner))) }
    }

    /// The seal of `words` at `at`. A change of any one word always changes it.
    #[inline]
    pub fn seal<const N: usize>(self, at: Addr, words: &[u64; N]) -> u64 {
        let mut sum = at.0.wrapping_add(self.salt);
        for (i, word) in words.iter().enumerate() {
            let product = (word ^ self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            sum = sum.wrapping_add(product.rotate_left(7 * i as u32 + 5));
        }
        sum ^= sum >> 32;
        sum = sum.wrapping_mul(0xd6e8_feb8_6659_fd93);
        sum ^ (sum >> 32)
    }

    /// `record` with its seal, as it is stored behind the latch of the line at `at`.
    #[inline]
    pub fn close<T: Pod>(self, at: Addr, record: T) -> Sealed {
        let words: [u64; 6] = bytemuck::cast(record);
        let seal = self.seal(at, &words);
        let [a, b, c, d, e, f] = words;
        [a, b, c, d, e, f, seal]
    }

    /// The line at `at` that holds `record` and a free latch.
    #[inline]
    pub fn line<T: Pod>(self, at: Addr, record: T) -> Line {
        let [a, b, c, d, e, f, seal] = self.close(at, record);
        [0, a, b, c, d, e, f, seal]
    }

    /// The record in `line`, which was read at `at`.
    #[inline]
    pub fn open<T: Pod>(self, at: Addr, line: Line) -> Result<T, Wrong> {
        let [_, a, b, c, d, e, f, seal] = line;
        let words = [a, b, c, d, e, f];
        if self.seal(at, &words) != seal {
            return Err(broken(at));
        }
        Ok(bytemuck::cast(words))
    }

    /// Reads the record at `at` while others may write it.
    ///
    /// One access if the line is whole, which its seal proves; else it was torn by a writer or is
    /// wrong, which the latch tells apart.
    #[inline]
    pub fn read<M: Memory, T: Pod>(self, memory: &mut M, at: Addr) -> Result<T, Wrong> {
        let line = memory.line(at);
        match self.open(at, line) {
            Ok(record) => Ok(record),
            Err(_) => latch::read(memory, at, |memory| self.open(at, memory.line(at))),
        }
    }
}

/// Mixes all bits of `value` into all bits of the result, bijectively: the finaliser of SplitMix64
/// (Steele, Lea and Flood, OOPSLA'14; constants by Stafford, "Mix13").
#[inline]
pub fn mix(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// That the record at `at` does not match its seal.
#[cold]
#[inline(never)]
pub fn broken(at: Addr) -> Wrong {
    Wrong(format!("the record at {at:?} does not match its seal"))
}

/// Fills `lines` of `page` one by one, and gives them back.
pub fn fill(
    page: &mut PageBytes,
    lines: Range<usize>,
    mut line: impl FnMut(u64) -> Line,
) -> Range<usize> {
    let wanted = &mut page.as_chunks_mut::<LINE_BYTES>().0[lines.clone()];
    for (i, bytes) in (lines.start as u64..).zip(wanted) {
        *bytes = bytemuck::cast(line(i));
    }
    lines
}

/// Zeroes every record of `record_lines` lines of `page` that one of `lines` is of. Gives the numbers
/// of those records, and all their lines. What is left of a page behind its last whole record is
/// zeroed too and has no number.
pub fn clear_records(
    page: &mut PageBytes,
    lines: Range<usize>,
    record_lines: usize,
) -> (Range<usize>, Range<usize>) {
    let whole = ALL_LINES.end / record_lines;
    let (first, end) = (lines.start / record_lines, lines.end.div_ceil(record_lines));
    let cleared = first * record_lines..(end * record_lines).min(ALL_LINES.end);
    page.as_chunks_mut::<LINE_BYTES>().0[cleared.clone()].as_flattened_mut().fill(0);
    (first.min(whole)..end.min(whole), cleared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEALS: fn(u64) -> Seals = |seed| Seals::new(0, 1, seed);

    proptest! {
        #[test]
        fn any_changed_bit_breaks_the_seal(
            record: [u64; 6], line_number in 0u64..1 << 40, bit in 64..512usize,
        ) {
            let (seals, at) = (SEALS(1), Addr(line_number * 64));
            let mut line = seals.line(at, record);
            prop_assert_eq!(seals.open::<[u64; 6]>(at, line).unwrap(), record);
            line[bit / 64] ^= 1 << (bit % 64);
            prop_assert!(seals.open::<[u64; 6]>(at, line).is_err());
        }

        #[test]
        fn a_line_of_another_place_or_dataset_is_not_taken(record: [u64; 6], by in 1u64..1 << 30) {
            let line = SEALS(1).line(Addr(0), record);
            prop_assert!(SEALS(1).open::<[u64; 6]>(Addr(by * 64), line).is_err());
            prop_assert!(SEALS(2).open::<[u64; 6]>(Addr(0), line).is_err());
        }
    }

    #[test]
    fn zeros_are_not_a_record() {
        assert!(SEALS(0).open::<[u64; 6]>(Addr(0), [0; 8]).is_err());
    }
}
