//! Rows of one width in a file of any format, behind a DRAM cache.
//!
//! [`RowFile`] is what programs use: it gathers rows, and scatters them if it was opened to write.
//! [`Part`](part) is some rows of a call, which jobs copy. [`RowLog`](log) has the rows that were
//! changed since the last flush, for files whose rows must not tear.

mod error;
mod file;
mod flush;
mod log;
mod part;
mod places;
mod stream;
mod writer;

pub use error::RowError;
pub use file::RowFile;
pub use places::RowRun;
