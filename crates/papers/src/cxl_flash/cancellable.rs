//! [`Cancellable`]: a trace that the user can break off.

use ebbtide_trace::{Access, Source, TraceError};

use crate::Cancel;

/// A trace that ends early, and so gives no result, when the user breaks off.
pub(super) struct Cancellable<'a, S> {
    pub(super) source: S,
    pub(super) cancel: &'a Cancel,
}

impl<S: Source> Source for Cancellable<'_, S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        if self.cancel.is_cancelled() {
            batch.clear();
            return Ok(false);
        }
        self.source.fill(batch)
    }
}
