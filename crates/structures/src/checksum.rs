//! [`Checksums`]: show a job that a record it read is whole and belongs where it lies.
//!
//! A checksum covers the data, their address and the dataset's seed. So data do not match if they
//! were torn by a concurrent write, rotted, or come from another place or another dataset. An older
//! version of the same data does match; each structure documents how it notices that.
//!
//! Three layouts have checksums:
//!
//! | layout | bytes | methods |
//! |---|---|---|
//! | record behind a latch | a line: latch, six words, checksum | [`line`](Checksums::line), [`read`](Checksums::read), [`write_latched`](Checksums::write_latched) |
//! | row without a latch | lines of seven words and a checksum | [`row_lines`](Checksums::row_lines), [`read_row`](Checksums::read_row), [`write_row`](Checksums::write_row) |
//! | number | a word: 40 bits under 24 bits of checksum | [`number_word`](Checksums::number_word), [`read_number`](Checksums::read_number), [`write_number`](Checksums::write_number) |

use bytemuck::Pod;
use ebbtide_core::{Addr, FullMemory, LINE_BYTES};

use crate::hash::mix;
use crate::image::Line;
use crate::{Corrupt, latch};

/// A record and its checksum: all words of a line except the latch.
pub type RecordWords = [u64; 7];

/// The offset of [`RecordWords`] in a line, in bytes.
pub const RECORD_OFFSET: u64 = 8;

/// Bytes of a row in each of its lines.
const ROW_PART_BYTES: usize = LINE_BYTES - 8;

/// Bits of the number in a word.
pub const NUMBER_BITS: u32 = 40;

/// The greatest number that a word holds.
pub const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1;

/// Computes and verifies the checksums of one dataset.
#[derive(Debug, Clone, Copy)]
pub struct Checksums {
    salt: u64,
}

impl Checksums {
    /// The checksums of a dataset of `pages` pages, made by the program numbered `owner` from
    /// `seed`. They differ for another owner, size or seed.
    pub fn new(owner: u64, pages: u64, seed: u64) -> Checksums {
        Checksums { salt: mix(seed ^ mix(pages ^ mix(owner))) }
    }

    /// The checksum of `words` at `at`. A change of any one word always changes it.
    #[inline]
    pub fn of<const N: usize>(self, at: Addr, words: &[u64; N]) -> u64 {
        let mut sum = at.0.wrapping_add(self.salt);
        for (i, word) in words.iter().enumerate() {
            let product = (word ^ self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            sum = sum.wrapping_add(product.rotate_left(7 * i as u32 + 5));
        }
        sum ^= sum >> 32;
        sum = sum.wrapping_mul(0xd6e8_feb8_6659_fd93);
        sum ^ (sum >> 32)
    }

    /// The line at `at` that holds `record`, of 48 bytes, behind a free latch.
    #[inline]
    pub fn line<T: Pod>(self, at: Addr, record: T) -> Line {
        let [a, b, c, d, e, f, checksum] = self.record_words(at, record);
        [0, a, b, c, d, e, f, checksum]
    }

    #[inline]
    fn record_words<T: Pod>(self, at: Addr, record: T) -> RecordWords {
        let words: [u64; 6] = bytemuck::cast(record);
        let checksum = self.of(at, &words);
        let [a, b, c, d, e, f] = words;
        [a, b, c, d, e, f, checksum]
    }

    /// Returns the record in `line`, which was read at `at`.
    ///
    /// # Errors
    /// [`Corrupt`] when it does not match its checksum.
    #[inline]
    pub fn check<T: Pod>(self, at: Addr, line: Line) -> Result<T, Corrupt> {
        let [_, a, b, c, d, e, f, checksum] = line;
        let words = [a, b, c, d, e, f];
        if self.of(at, &words) != checksum {
            return Err(mismatch(at));
        }
        Ok(bytemuck::cast(words))
    }

    /// Reads the record at `at`, even while others write it.
    ///
    /// If the line matches its checksum, this is one access. Otherwise a second look under the
    /// latch tells a line torn by a writer from a wrong one.
    ///
    /// # Errors
    /// [`Corrupt`] when it does not match its checksum.
    #[inline]
    pub fn read<M: FullMemory, T: Pod>(self, memory: &mut M, at: Addr) -> Result<T, Corrupt> {
        match self.read_latched(memory, at) {
            Ok(record) => Ok(record),
            Err(_) => latch::read(memory, at, |memory| self.read_latched(memory, at)),
        }
    }

    /// Reads the record at `at`. No other job may write it during that: its latch is held, or jobs
    /// only read.
    ///
    /// # Errors
    /// [`Corrupt`] when it does not match its checksum.
    #[inline]
    pub fn read_latched<M: FullMemory, T: Pod>(
        self,
        memory: &mut M,
        at: Addr,
    ) -> Result<T, Corrupt> {
        self.check(at, memory.line(at))
    }

    /// Writes the record at `at`, whose latch is held.
    #[inline]
    pub fn write_latched<M: FullMemory, T: Pod>(self, memory: &mut M, at: Addr, record: T) {
        memory.store(at + RECORD_OFFSET, self.record_words(at, record));
    }

    /// The lines that hold `row`, a multiple of 56 bytes, from `at` on.
    pub fn row_lines<T: Pod>(self, at: Addr, row: &T) -> impl Iterator<Item = (Addr, Line)> {
        const { assert!(size_of::<T>().is_multiple_of(ROW_PART_BYTES)) };
        let parts = bytemuck::bytes_of(row).as_chunks::<ROW_PART_BYTES>().0.iter();
        lines_from(at).zip(parts).map(move |(at, part)| (at, self.row_line(at, *part)))
    }

    /// The line at `at` that holds a row, or a part of one, of 56 bytes.
    #[inline]
    pub fn row_line<T: Pod>(self, at: Addr, row: T) -> Line {
        let words: [u64; 7] = bytemuck::cast(row);
        let [a, b, c, d, e, f, g] = words;
        [a, b, c, d, e, f, g, self.of(at, &words)]
    }

    /// Reads a row, or a part of one, from the line at `at` on.
    ///
    /// # Errors
    /// [`Corrupt`] when a line does not match its checksum.
    #[inline]
    pub fn read_row<M: FullMemory, T: Pod>(self, memory: &mut M, at: Addr) -> Result<T, Corrupt> {
        const { assert!(size_of::<T>().is_multiple_of(ROW_PART_BYTES)) };
        let mut row = T::zeroed();
        let parts = bytemuck::bytes_of_mut(&mut row).as_chunks_mut::<ROW_PART_BYTES>().0.iter_mut();
        for (at, part) in lines_from(at).zip(parts) {
            let [words @ .., checksum] = memory.line(at);
            if self.of::<7>(at, &words) != checksum {
                return Err(mismatch(at));
            }
            *part = bytemuck::cast(words);
        }
        Ok(row)
    }

    /// Writes a row, or a part of one, from the line at `at` on.
    #[inline]
    pub fn write_row<M: FullMemory, T: Pod>(self, memory: &mut M, at: Addr, row: &T) {
        self.row_lines(at, row).for_each(|(at, line)| memory.store(at, line));
    }

    /// The word at `at` that holds `number`, at most [`NUMBER_MAX`].
    ///
    /// A word never tears, so it needs no latch. Of damaged words one in 16 million passes.
    #[inline]
    pub fn number_word(self, at: Addr, number: u64) -> u64 {
        debug_assert!(number <= NUMBER_MAX, "{number} does not fit in a word");
        self.of(at, &[number]) << NUMBER_BITS | number
    }

    /// The number in `word`, which was read at `at`.
    ///
    /// # Errors
    /// [`Corrupt`] when it does not match its checksum.
    #[inline]
    pub fn check_number(self, at: Addr, word: u64) -> Result<u64, Corrupt> {
        let number = word & NUMBER_MAX;
        if self.number_word(at, number) != word {
            return Err(word_mismatch(at));
        }
        Ok(number)
    }

    /// Reads the number at `at`.
    ///
    /// # Errors
    /// [`Corrupt`] when it does not match its checksum.
    #[inline]
    pub fn read_number<M: FullMemory>(self, memory: &mut M, at: Addr) -> Result<u64, Corrupt> {
        self.check_number(at, memory.load(at))
    }

    /// Writes `number`, at most [`NUMBER_MAX`], at `at`.
    #[inline]
    pub fn write_number<M: FullMemory>(self, memory: &mut M, at: Addr, number: u64) {
        memory.store(at, self.number_word(at, number));
    }
}

fn lines_from(first: Addr) -> impl Iterator<Item = Addr> {
    (0..).map(move |line| first + line * LINE_BYTES as u64)
}

/// The error that the record at `at` does not match its checksum.
#[cold]
#[inline(never)]
pub fn mismatch(at: Addr) -> Corrupt {
    Corrupt(format!("the record at {at:?} does not match its checksum"))
}

#[cold]
#[inline(never)]
fn word_mismatch(at: Addr) -> Corrupt {
    Corrupt(format!("the word at {at:?} does not match its checksum"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHECKSUMS: fn(u64) -> Checksums = |seed| Checksums::new(0, 1, seed);

    proptest! {
        #[test]
        fn any_changed_bit_breaks_the_checksum(
            record: [u64; 6], line_number in 0u64..1 << 40, bit in 64..512usize,
        ) {
            let (checksums, at) = (CHECKSUMS(1), Addr(line_number * 64));
            let mut line = checksums.line(at, record);
            prop_assert_eq!(checksums.check::<[u64; 6]>(at, line).unwrap(), record);
            line[bit / 64] ^= 1 << (bit % 64);
            prop_assert!(checksums.check::<[u64; 6]>(at, line).is_err());
        }

        #[test]
        fn a_line_of_another_place_or_dataset_is_not_taken(record: [u64; 6], by in 1u64..1 << 30) {
            let line = CHECKSUMS(1).line(Addr(0), record);
            prop_assert!(CHECKSUMS(1).check::<[u64; 6]>(Addr(by * 64), line).is_err());
            prop_assert!(CHECKSUMS(2).check::<[u64; 6]>(Addr(0), line).is_err());
        }

        #[test]
        fn a_number_is_read_where_it_was_written_and_nowhere_else(
            number in 0..=NUMBER_MAX, index in 0u64..1 << 43, by in 1u64..1 << 30, bit in 0..64u32,
        ) {
            let at = Addr(index * 8);
            let word = CHECKSUMS(1).number_word(at, number);
            prop_assert_eq!(CHECKSUMS(1).check_number(at, word), Ok(number));
            prop_assert!(CHECKSUMS(1).check_number(at, word ^ 1 << bit).is_err());
            prop_assert!(CHECKSUMS(1).check_number(at + by * 8, word).is_err());
            prop_assert!(CHECKSUMS(2).check_number(at, word).is_err());
        }
    }

    #[test]
    fn zeros_are_neither_a_record_nor_a_number() {
        assert!(CHECKSUMS(0).check::<[u64; 6]>(Addr(0), [0; 8]).is_err());
        assert!(CHECKSUMS(0).check_number(Addr(0), 0).is_err());
    }
}
