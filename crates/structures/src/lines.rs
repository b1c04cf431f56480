//! Reads ranges of memory, one line at a time. A [`Memory`] reads a line in one access.

use ebbtide_core::{Addr, LINE_BYTES, Memory};

/// Reads `bytes` bytes from byte address `at` on, which need not be aligned. Passes them to `take`
/// in order, the bytes of one line together.
pub(crate) fn read<M: Memory>(memory: &mut M, at: Addr, bytes: usize, mut take: impl FnMut(&[u8])) {
    let (mut at, mut left) = (at, bytes);
    while left > 0 {
        let line = memory.line(at);
        let offset = at.0 as usize % LINE_BYTES;
        let piece = left.min(LINE_BYTES - offset);
        take(&bytemuck::bytes_of(&line)[offset..offset + piece]);
        at = at + piece as u64;
        left -= piece;
    }
}
