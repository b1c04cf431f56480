//! [`NativeError`]: what is wrong with a native trace.

use thiserror::Error;

/// What is wrong with a native trace. The reader adds the place.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NativeError {
    /// The file ends too soon.
    #[error("cut short, expected {expected} bytes, found {found}")]
    CutShort {
        /// The number of bytes that should follow.
        expected: usize,
        /// The number of bytes that follow.
        found: usize,
    },
    /// A later version of the format.
    #[error("of format version {0}, expected 1")]
    Version(u16),
    /// Bytes that changed since they were written.
    #[error("damaged: its checksum is {found:#010x}, expected {expected:#010x}")]
    Checksum {
        /// As stored.
        expected: u32,
        /// Of what was read.
        found: u32,
    },
    /// Invalid bytes.
    #[error("corrupt, expected {0}")]
    Corrupt(&'static str),
    /// The count at the end is not the number of entries read.
    #[error("at its end, expected {expected} entries")]
    Count {
        /// The count at the end.
        expected: u64,
    },
}
