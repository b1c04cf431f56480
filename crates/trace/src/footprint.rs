//! [`Footprint`]: the pages that a trace touches; [`Compacted`]: the trace on a device of just
//! these.

use ebbtide_core::{Addr, PAGE_BYTES, PageId};
use rustc_hash::FxHashSet;

use crate::{Source, TraceError};

/// The pages that a trace touches.
#[derive(Debug, Clone)]
pub struct Footprint {
    /// In ascending order.
    pages: Vec<PageId>,
}

impl Footprint {
    /// Reads `source` to its end. An access counts only with the page of its first byte; see
    /// [`Paged`](crate::Paged).
    ///
    /// # Errors
    /// [`TraceError`] if the source cannot be read.
    pub fn of(mut source: impl Source) -> Result<Footprint, TraceError> {
        let (mut batch, mut touched, mut last) = (Vec::new(), FxHashSet::default(), None);
        while source.fill(&mut batch)? {
            for page in batch.iter().map(|access| access.address.page()) {
                if last.replace(page) != Some(page) {
                    touched.insert(page);
                }
            }
        }
        let mut pages: Vec<PageId> = touched.into_iter().collect();
        pages.sort_unstable();
        Ok(Footprint { pages })
    }

    /// Returns the number of pages.
    pub fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// The place of `page` among them.
    fn place(&self, page: PageId) -> Option<u64> {
        self.pages.binary_search(&page).ok().map(|place| place as u64)
    }
}

/// A trace with the gaps between its pages removed. Pages are renumbered from 0 in the order of
/// their addresses.
pub struct Compacted<'a, S> {
    source: S,
    footprint: &'a Footprint,
    last: Option<(PageId, u64)>,
}

impl<'a, S: Source> Compacted<'a, S> {
    /// Renumbers the pages of `source` by their place in `footprint`. Pages that are not in it keep
    /// their number.
    pub fn new(source: S, footprint: &'a Footprint) -> Compacted<'a, S> {
        Compacted { source, footprint, last: None }
    }
}

impl<S: Source> Source for Compacted<'_, S> {
    fn fill(&mut self, batch: &mut Vec<crate::Access>) -> Result<bool, TraceError> {
        let more = self.source.fill(batch);
        for access in batch.iter_mut() {
            let page = access.address.page();
            let place = match self.last {
                Some((last, place)) if last == page => place,
                _ => self.footprint.place(page).unwrap_or(page.0),
            };
            self.last = Some((page, place));
            let offset = access.address.0 % PAGE_BYTES as u64;
            access.address = Addr(place * PAGE_BYTES as u64 + offset);
        }
        more
    }

    fn remark(&self) -> Option<String> {
        self.source.remark()
    }
}
