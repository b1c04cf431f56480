//! [`Sink`]: a writer of traces.

use crate::{Access, TraceError};

/// A trace that is being written. A sink that is dropped before [`Sink::finish`] leaves no file.
pub trait Sink {
    /// Writes one entry, without the fields that the format cannot store. Times must not decrease.
    ///
    /// # Errors
    /// When it cannot be written.
    fn write(&mut self, access: &Access) -> Result<(), TraceError>;

    /// Writes the rest and ends the trace.
    ///
    /// # Errors
    /// When it cannot be written, or a file cannot be renamed.
    fn finish(self: Box<Self>) -> Result<(), TraceError>;
}
