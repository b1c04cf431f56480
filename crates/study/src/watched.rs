//! [`Watched`]: a trace whose reader can be broken off.

use ebbtide_sim::Watch;
use ebbtide_trace::{Access, Source, TraceError};

/// A trace that ends early when its watch says so; who reads it must ask whether it did.
pub(crate) struct Watched<'a, S> {
    trace: S,
    watch: Watch<'a>,
    stopped: bool,
}

impl<'a, S: Source> Watched<'a, S> {
    pub(crate) fn new(trace: S, watch: Watch<'a>) -> Watched<'a, S> {
        Watched { trace, watch, stopped: false }
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stopped
    }
}

impl<S: Source> Source for Watched<'_, S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        // How long a trace is, nobody knows before its end.
        if (self.watch)("replaying", 0.5).is_break() {
            self.stopped = true;
            return Ok(false);
        }
        self.trace.fill(batch)
    }
}
