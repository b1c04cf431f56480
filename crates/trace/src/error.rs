//! [`TraceError`]: why a trace cannot be read or written.

use std::io;

use thiserror::Error;

/// Ways to name a format, for messages.
const ENDINGS: &str = "expected .ebt, .txt, .trace, .csv, .lackey, .ramulator, .dramsim3 or \
                       .oracleGeneral, or a format named with --format";

/// An error of reading or writing a trace.
#[derive(Debug, Error)]
pub enum TraceError {
    /// A file that cannot be opened or created.
    #[error("cannot open {name}: {source}")]
    Open {
        /// The file.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// Input that cannot be read to its end.
    #[error("cannot read {name}: {source}")]
    Read {
        /// The file.
        name: String,
        /// The error of the system or the decompressor.
        source: io::Error,
    },
    /// Compressed data that ends before its own end mark.
    #[error("{name}: the compressed data is cut short, expected its end mark")]
    CutShort {
        /// The file.
        name: String,
    },
    /// An invalid line of the text form.
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
    /// An invalid line of a CSV file, a list or a mapping.
    #[error("{name}:{line}: expected {expected}")]
    Unexpected {
        /// The file.
        name: String,
        /// The line, counted from 1.
        line: u64,
        /// What was expected.
        expected: String,
    },
    /// An invalid record of libCacheSim's oracleGeneral.
    #[error("{name}: {records} accesses were read; expected at byte {offset} {expected}")]
    Record {
        /// The file.
        name: String,
        /// Where it begins, in bytes after decompression.
        offset: u64,
        /// Records before it.
        records: u64,
        /// What was expected.
        expected: String,
    },
    /// A file that is not a trace.
    #[error(
        "{name}: {found} at byte {offset}, expected a trace: native, text, CSV, Valgrind's memory \
         trace, a list of addresses and operations, oracleGeneral, champsim or drmemtrace"
    )]
    Foreign {
        /// The file.
        name: String,
        /// Its offset, in bytes after decompression.
        offset: usize,
        /// The kind of thing found.
        found: &'static str,
    },
    /// A file name whose ending is not that of a format.
    #[error("{name}: the ending .{ending} is no trace format; {ENDINGS}")]
    Ending {
        /// The file.
        name: String,
        /// The ending of its name.
        ending: String,
    },
    /// An input whose name does not determine its format.
    #[error("{name}: the format is not known, as the name has no ending; {ENDINGS}")]
    NoEnding {
        /// The file.
        name: String,
    },
    /// A trace without a single access.
    #[error("{name}: the trace is empty; expected at least one access")]
    Empty {
        /// The file.
        name: String,
    },
    /// A trace without an access in a format that does not hold hints.
    #[error("{format} holds no hints, and the trace has no access: expected at least one")]
    OnlyHints {
        /// The format.
        format: &'static str,
    },
    /// An entry without a physical address, where one is needed.
    #[error("the entry at address {address:#x} has no physical address")]
    NoPhysical {
        /// The virtual address of the entry.
        address: u64,
    },
    /// A page that a mapping does not have.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// Output that cannot be written.
    #[error("cannot write {name}: {source}")]
    Write {
        /// The file.
        name: String,
        /// The system's error.
        source: io::Error,
    },
}

impl TraceError {
    /// Returns true if the input is at fault, including truncated or damaged input. Otherwise the
    /// system failed to read the input or to write a result.
    pub fn is_input(&self) -> bool {
        match self {
            // The decompressor reports damage as an error without a number of the system.
            TraceError::Read { source, .. } => {
                source.raw_os_error().is_none() || source.kind() == io::ErrorKind::IsADirectory
            }
            TraceError::Write { .. } => false,
            _ => true,
        }
    }
}

/// A line that Valgrind does not print.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "expected 'I  ADDRESS,SIZE', or ' L', ' S' or ' M' in place of 'I ', in Valgrind's memory trace"
)]
pub struct LackeyError;

/// Why a mapping has no physical page for a virtual one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MappingError {
    /// The list does not have this virtual page.
    #[error("the mapping has no virtual page {0:#x}")]
    Missing(u64),
    /// The trace touches more pages than memory has.
    #[error("memory is full: the trace touches more than 64 GiB")]
    Full,
}

/// What is wrong with a line. The reader adds the file and the line number.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum LineError {
    /// A field with an invalid value.
    #[error("field '{field}': expected {expected}, found '{found}'")]
    Field {
        /// The field.
        field: &'static str,
        /// What was expected.
        expected: &'static str,
        /// What was found.
        found: String,
    },
    /// A line with fewer than five fields.
    #[error("field '{field}' is missing: expected 'time_ns device byte_address size rw'")]
    Missing {
        /// The first missing field.
        field: &'static str,
    },
    /// A line with more than five fields.
    #[error("expected the line to end after field 'rw', found '{found}'")]
    TooMany {
        /// The first field too many.
        found: String,
    },
    /// A time before that of the line before.
    #[error("field 'time': expected at least {before} ns, the time before it, found '{found}'")]
    RunsBack {
        /// The time before, in nanoseconds.
        before: String,
        /// The time of this line.
        found: String,
    },
    /// An access that would end beyond the 64-bit address space.
    #[error("fields 'address' and 'size': {bytes} bytes from {address} end above 2^64")]
    Beyond {
        /// The first byte.
        address: u64,
        /// The number of bytes.
        bytes: u32,
    },
    /// A last line that stops before its last field.
    #[error("the input ends in the middle of the line: it was cut short")]
    CutShort,
    /// A line longer than any access can be.
    #[error("the line is longer than {limit} bytes: this is no trace in text form")]
    TooLong {
        /// The greatest length, in bytes.
        limit: usize,
    },
}

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
    #[error("of format version {0}, expected 1 or 2")]
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
