//! The native form of a trace: compressed blocks of columns, checksummed, written and read as a
//! stream. `docs/TRACE_FORMAT.md` has every byte.
//!
//! Blocks follow each other without an index. The last one has the number of all entries, so
//! truncation is detected at any place.

mod columns;
mod cursor;
mod reader;
mod recent_frames;
mod writer;

pub use crate::error::NativeError;
pub use reader::NativeReader;
pub use writer::NativeWriter;

/// The first bytes of every file: one that is not ASCII, the name, and line ends that a transfer in
/// text mode would change.
pub(crate) const MAGIC: [u8; 8] = *b"\x89EBBT\r\n\x1a";

/// The version that is written and the newest that is read.
const VERSION: u16 = 2;

/// The number of columns in blocks of `version`, or `None` if this program cannot read it. Version
/// 1 has no threads.
fn columns_of(version: u16) -> Option<usize> {
    match version {
        1 => Some(columns::COLUMNS - 1),
        VERSION => Some(columns::COLUMNS),
        _ => None,
    }
}

/// The most entries in a block.
const BLOCK_ENTRIES: usize = 1 << 16;

/// The longest description, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 1 << 16;

/// Bytes of a block's header.
const BLOCK_HEADER_BYTES: usize = 16;

/// The most bytes that the columns of `entries` take: a tag, and the longest numbers throughout.
fn raw_bytes_max(entries: usize) -> usize {
    columns::COLUMNS * columns::LENGTH_BYTES
        + (entries + 2) * (1 + columns::COLUMNS * cursor::VARINT_BYTES_MAX)
}
