//! [`Sink`]: a writer of traces.

use crate::{Access, TraceError};

/// A trace that is being written. A sink that is dropped before [`Sink::finish`] leaves no file.
pub trait Sink {
    /// Writes one entry, without the fields that the format cannot store. Times must not decrease.
    ///
    /// # Errors
    /// [`TraceError`] if the output cannot be written.
    fn write(&mut self, access: &Access) -> Result<(), TraceError>;

    /// Writes the rest and ends the trace. A file appears under its name now.
    ///
    /// # Errors
    /// [`TraceError`] if the output cannot be written or the file cannot be renamed.
    fn finish(self: Box<Self>) -> Result<(), TraceError>;
}
