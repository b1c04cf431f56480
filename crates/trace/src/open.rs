//! [`open()`]: a trace of any format.

use std::path::Path;

use crate::{Access, Format, Input, Source, TraceError};

/// Opens the trace at `path`, or standard input for `-`, compressed or not. The first bytes
/// identify a native trace, the ending of the name any other format.
///
/// # Errors
/// [`TraceError`] if the file cannot be opened, its format is not known, or its start is not a
/// trace. The source ends in [`TraceError::Empty`] if the trace has no access.
pub fn open(path: &Path) -> Result<Box<dyn Source + Send>, TraceError> {
    open_as(path, None)
}

/// Opens the trace at `path` as [`open`] does, but in `format` if one is given.
///
/// # Errors
/// As [`open`].
pub fn open_as(path: &Path, format: Option<Format>) -> Result<Box<dyn Source + Send>, TraceError> {
    let mut input = Input::open(path)?;
    let name = input.name().to_string();
    if input.peek(1)?.is_empty() {
        return Err(TraceError::Empty { name });
    }
    let format = format.map_or_else(|| Format::of(&mut input), Ok)?;
    Ok(Box::new(NotEmpty { source: format.read(input)?, name, any: false }))
}

/// A source that ends in an error if it has no access.
struct NotEmpty {
    source: Box<dyn Source + Send>,
    name: String,
    any: bool,
}

impl Source for NotEmpty {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        let more = self.source.fill(batch)?;
        self.any |= !batch.is_empty();
        if !more && !self.any {
            return Err(TraceError::Empty { name: self.name.clone() });
        }
        Ok(more)
    }

    fn origin(&self) -> Option<&str> {
        self.source.origin()
    }

    fn remark(&self) -> Option<String> {
        self.source.remark()
    }
}
