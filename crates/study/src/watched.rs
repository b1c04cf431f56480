//! [`Watched`]: a trace that can be stopped while it is read.

use ebbtide_core::Watch;
use ebbtide_trace::{Access, Source, TraceError};

/// A trace that ends early when its watch requests a stop. The end looks like that of a whole
/// trace, so a reader must check [`stopped`](Watched::stopped) there.
pub struct Watched<'a, S> {
    trace: S,
    watch: Watch<'a>,
    stopped: bool,
}

impl<'a, S: Source> Watched<'a, S> {
    /// Wraps `trace`.
    pub fn new(trace: S, watch: Watch<'a>) -> Watched<'a, S> {
        Watched { trace, watch, stopped: false }
    }

    /// Returns true if the watch stopped the trace before its end.
    pub fn stopped(&self) -> bool {
        self.stopped
    }
}

impl<S: Source> Source for Watched<'_, S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        if self.watch.is_stopped() {
            batch.clear();
            self.stopped = true;
            return Ok(false);
        }
        self.trace.fill(batch)
    }

    fn remark(&self) -> Option<String> {
        self.trace.remark()
    }
}
