//! [`Wrapped`] and [`WithFrames`]: a trace fitted to a device.

use ebbtide_core::{Addr, PAGE_BYTES};

use crate::{Access, Source, TraceError};

/// The accesses of a trace whose physical address is known.
pub struct WithFrames<S> {
    source: S,
}

impl<S: Source> WithFrames<S> {
    /// `source` without the accesses that name no frame.
    pub fn new(source: S) -> WithFrames<S> {
        WithFrames { source }
    }
}

impl<S: Source> Source for WithFrames<S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        while self.source.fill(batch)? {
            batch.retain(|access| access.frame.is_some());
            if !batch.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A trace on a device that is smaller than its addresses: an address beyond the end wraps around,
/// so that neighbours stay neighbours.
pub struct Wrapped<S> {
    source: S,
    device_bytes: u64,
}

impl<S: Source> Wrapped<S> {
    /// `source` on a device of `pages` pages.
    pub fn new(source: S, pages: u64) -> Wrapped<S> {
        Wrapped { source, device_bytes: pages * PAGE_BYTES as u64 }
    }
}

impl<S: Source> Source for Wrapped<S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        let more = self.source.fill(batch)?;
        batch
            .iter_mut()
            .for_each(|access| access.address = Addr(access.address.0 % self.device_bytes));
        Ok(more)
    }
}
