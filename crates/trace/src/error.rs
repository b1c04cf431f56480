//! [`TraceError`]: why a trace cannot be read or written.

use std::io;

use thiserror::Error;

use crate::lackey::LackeyError;
use crate::native::NativeError;
use crate::text::LineError;

/// Why a trace cannot be read or written.
#[derive(Debug, Error)]
pub enum TraceError {
    /// A file that cannot be opened or created.
    #[error("cannot open {name}: {source}")]
    Open {
        /// The file.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// Input that cannot be read to its end.
    #[error("cannot read {name}: {source}")]
    Read {
        /// The file.
        name: String,
        /// What the system or the decompressor said.
        source: io::Error,
    },
    /// Compressed data that ends before its own end mark.
    #[error("{name}: the compressed data is cut short, expected the end of a zstd frame")]
    CutShort {
        /// The file.
        name: String,
    },
    /// A line that is not an access.
    #[error("{name}:{line}: {problem}")]
    Line {
        /// The file.
        name: String,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        problem: LineError,
    },
    /// A line that Valgrind does not print.
    #[error("{name}:{line}: {problem}")]
    Lackey {
        /// The file.
        name: String,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        problem: LackeyError,
    },
    /// A native trace that is damaged, cut short or of another version.
    #[error("{name}: {entries} entries were read; at byte {offset} it is {problem}")]
    Native {
        /// The file.
        name: String,
        /// Where the block at fault begins, in bytes after decompression.
        offset: u64,
        /// Entries read before it.
        entries: u64,
        /// What is wrong with it.
        problem: NativeError,
    },
    /// Output that cannot be written.
    #[error("cannot write {name}: {source}")]
    Write {
        /// The file.
        name: String,
        /// What the system said.
        source: io::Error,
    },
}
