//! [`Sink`]: wherever accesses go, one by one.

use crate::{Access, TraceError};

/// A trace that is being written. One that is dropped before [`Sink::finish`] leaves nothing
/// behind.
pub trait Sink {
    /// Writes one entry, without what the format has no place for. Its time must not be before that
    /// of the one before.
    ///
    /// # Errors
    /// When it cannot be written.
    fn write(&mut self, access: &Access) -> Result<(), TraceError>;

    /// Writes what is left and ends the trace.
    ///
    /// # Errors
    /// When it cannot be written or a file cannot take its place.
    fn finish(self: Box<Self>) -> Result<(), TraceError>;
}
