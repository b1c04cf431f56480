//! Suffix lines: the rest of the only key with a slice, and its value.
//!
//! A line is `{value, checksum and length, 48 bytes of suffix}`. While a slot of a border node
//! leads to it, only the value changes, which is one word and replaced atomically. A rest that is
//! too long for a line goes into further layers until it fits.

use ebbtide_core::{Addr, FullMemory};

use super::Tree;
use crate::Corrupt;
use ebbtide_structures::image::Line;

/// The longest suffix in bytes.
pub(super) const SUFFIX_BYTES_MAX: usize = 48;
/// The word with the checksum and the length.
const CHECKSUM: usize = 1;
/// The length that a free line has.
const FREE: u64 = 0xff;

/// The rest of a key behind its slice, and the key's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Suffix {
    pub(super) value: u64,
    words: [u64; 6],
    len: usize,
}

impl Suffix {
    /// # Panics
    /// When `bytes` has more than [`SUFFIX_BYTES_MAX`] bytes.
    pub(super) fn new(bytes: &[u8], value: u64) -> Suffix {
        let mut words = [0; 6];
        bytemuck::bytes_of_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
        Suffix { value, words, len: bytes.len() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &bytemuck::bytes_of(&self.words)[..self.len]
    }

    /// Stores it at `at`, which no job reads yet.
    pub(super) fn store<M: FullMemory>(&self, tree: &Tree, m: &mut M, at: Addr) {
        let [a, b, c, d, e, f] = self.words;
        m.store(
            at,
            [self.value, checksum(tree, at, self.len as u64, &self.words), a, b, c, d, e, f],
        );
    }

    /// The suffix in `line`, which was read at `at`.
    pub(super) fn open(tree: &Tree, at: Addr, line: &Line) -> Result<Suffix, Corrupt> {
        let [value, stored, words @ ..] = *line;
        let len = stored & 0xff;
        if len > SUFFIX_BYTES_MAX as u64 || checksum(tree, at, len, &words) != stored {
            return Err(Corrupt(format!("the suffix at {at:?} does not match its checksum")));
        }
        Ok(Suffix { value, words, len: len as usize })
    }
}

/// Marks the line as free. The pool uses its first word.
pub(super) fn free<M: FullMemory>(tree: &Tree, m: &mut M, at: Addr) {
    m.store(at + 8 * CHECKSUM as u64, checksum(tree, at, FREE, &[0; 6]));
}

/// Returns true if the line was marked as free.
pub(super) fn is_free(tree: &Tree, at: Addr, line: &Line) -> bool {
    line[CHECKSUM] == checksum(tree, at, FREE, &[0; 6])
}

fn checksum(tree: &Tree, at: Addr, len: u64, words: &[u64; 6]) -> u64 {
    let [a, b, c, d, e, f] = *words;
    tree.checksums.of(at, &[len, a, b, c, d, e, f]) & !0xff | len
}
