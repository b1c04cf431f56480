//! The text form of a trace, one access a line: `time_ns device byte_address size rw`.
//!
//! Times are nanoseconds, with up to three decimals, and never decrease. Addresses are decimal or
//! `0x` hexadecimal. `rw` is 1 for a read and 0 for a write, as in the published traces of the
//! CXL-flash authors. Fields are separated by blanks. Empty lines are skipped.
//!
//! `rw` comes last and is a single letter, so a last line without a line end is either whole or
//! visibly truncated.

mod fast_line;
mod line;
mod reader;
mod writer;

pub use crate::error::LineError;
pub(crate) use line::{Nanoseconds, decimal, nanoseconds, number, readable};
pub use reader::TextReader;
pub use writer::TextWriter;
