//! Why rows cannot be gathered or scattered.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::api::engine_error::EngineError;
use crate::core::job_error::JobError;

/// Why rows cannot be gathered or scattered.
#[derive(Debug, Error)]
pub enum RowError {
    /// The file cannot be opened, or the options do not fit.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The file has no rows, or rows without bytes.
    #[error("expected rows of at least a byte, and at least one of them")]
    Empty,
    /// The rows do not fit a file.
    #[error("rows beyond 2^63 bytes: expected offsets within a file")]
    Beyond,
    /// An index without a row.
    #[error("index {index} is out of bounds: expected 0 to {last}")]
    Index {
        /// The index.
        index: u64,
        /// The last there is.
        last: u64,
    },
    /// A buffer of another size.
    #[error("a buffer of {given} bytes: expected {expected}, a row an index")]
    Buffer {
        /// Its size.
        given: usize,
        /// The size of the rows.
        expected: usize,
    },
    /// A row cannot be read.
    #[error("a row cannot be read: {0}")]
    Read(#[from] JobError),
    /// The caller gave the call up.
    #[error("cancelled")]
    Stopped,
    /// Bytes that are no part of a row.
    #[error("bytes {start} to {end} of a row: expected a part of its {row_bytes}")]
    Columns {
        /// The first.
        start: usize,
        /// The end.
        end: usize,
        /// Bytes of a row.
        row_bytes: usize,
    },
    /// The process was forked.
    #[error("opened by process {0}, before a fork: expected to be opened again after it")]
    Forked(u32),
    /// A change of rows that were opened to be read.
    #[error("opened to read rows: expected to be opened to write")]
    ReadOnly,
    /// Changed rows did not reach the file, or their log.
    #[error("{}: changed rows cannot be written: {reason}", path.display())]
    Unwritten {
        /// The file of the rows or of the log.
        path: PathBuf,
        /// What failed.
        reason: String,
    },
    /// A write has failed before.
    #[error("{}: a write has failed before: expected to be opened again", .0.display())]
    Ended(PathBuf),
    /// A log that is not of these rows.
    #[error("{}: {reason}; expected the log of these rows, or no such file", path.display())]
    Log {
        /// The file of the log.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Rows whose log was not applied.
    #[error(
        "{}: has a log of rows that a crash has left: expected to be opened to write once, which applies it",
        .0.display()
    )]
    Unapplied(PathBuf),
}

impl RowError {
    /// The error of a file that could not be written or flushed.
    pub(super) fn unwritten(path: PathBuf) -> impl FnOnce(io::Error) -> RowError {
        move |error| RowError::Unwritten { path, reason: error.to_string() }
    }
}
