//! [`Source`]: a stream of accesses, in batches.

use std::vec;

use crate::{Access, TraceError};

/// A stream of accesses in the order of time. Memory stays bounded for streams of any length.
pub trait Source {
    /// Replaces the contents of `batch` by the next accesses. Returns true if there is at least
    /// one, and false at the end of the trace.
    ///
    /// # Errors
    /// [`TraceError`] if the input cannot be read, is not a trace, or is truncated. `batch` then
    /// holds the accesses before the fault, and no more can be read.
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError>;

    /// Returns the writer's description of the traced program, if the format holds it.
    fn origin(&self) -> Option<&str> {
        None
    }

    /// Returns a remark for the user on parts of the input that the source ignores, if there are
    /// any.
    fn remark(&self) -> Option<String> {
        None
    }

    /// Returns an iterator over the accesses. It ends after the first error.
    fn accesses(self) -> Accesses<Self>
    where
        Self: Sized,
    {
        Accesses { source: self, batch: Vec::new().into_iter(), fault: None, done: false }
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        (**self).fill(batch)
    }

    fn origin(&self) -> Option<&str> {
        (**self).origin()
    }

    fn remark(&self) -> Option<String> {
        (**self).remark()
    }
}

impl<S: Source + ?Sized> Source for &mut S {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        (**self).fill(batch)
    }

    fn origin(&self) -> Option<&str> {
        (**self).origin()
    }

    fn remark(&self) -> Option<String> {
        (**self).remark()
    }
}

/// The accesses of a source one by one; after an error there are no more.
pub struct Accesses<S> {
    source: S,
    batch: vec::IntoIter<Access>,
    /// Returned after the accesses before it.
    fault: Option<TraceError>,
    done: bool,
}

impl<S: Source> Iterator for Accesses<S> {
    type Item = Result<Access, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(access) = self.batch.next() {
            return Some(Ok(access));
        }
        if !self.done {
            let mut batch = Vec::new();
            match self.source.fill(&mut batch) {
                Ok(more) => self.done = !more,
                Err(fault) => (self.done, self.fault) = (true, Some(fault)),
            }
            self.batch = batch.into_iter();
        }
        self.batch.next().map(Ok).or_else(|| self.fault.take().map(Err))
    }
}
