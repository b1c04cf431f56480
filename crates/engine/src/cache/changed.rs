//! Changed pages, which a flush writes to their places.

use ebbtide_core::{FrameId, PageId};

use super::{Cache, PageState};

impl Cache {
    /// Returns the pages in DRAM that have changed since they were read or written, and those on
    /// their way out, in order. Jobs that store at the same time may change more.
    pub(crate) fn changed_pages(&self) -> Vec<PageId> {
        let frames = (0..self.frame_count() as u32).map(FrameId);
        let mut pages: Vec<PageId> = frames.filter_map(|frame| self.changed_page(frame)).collect();
        pages.sort_unstable();
        pages
    }

    fn changed_page(&self, frame: FrameId) -> Option<PageId> {
        let (page, _) = self.table.record(frame).holds().page()?;
        let counts = match self.state(page) {
            PageState::Resident(found) | PageState::Ahead(found) => {
                found == frame && self.is_dirty(frame)
            }
            PageState::Leaving(found) => found == frame,
            PageState::Absent(_) | PageState::Starved(_) | PageState::Arriving(_) => false,
        };
        counts.then_some(page)
    }
}
