//! [`open()`]: a trace of any format.

use std::path::Path;

use crate::{Format, Input, Source, TraceError};

/// Opens the trace at `path`, or standard input for `-`, in any format, compressed or not.
///
/// # Errors
/// When it cannot be opened, its start cannot be read, or it is not a trace.
pub fn open(path: &Path) -> Result<Box<dyn Source + Send>, TraceError> {
    let mut input = Input::open(path)?;
    Format::of(&mut input)?.read(input)
}
