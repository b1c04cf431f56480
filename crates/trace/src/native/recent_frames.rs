//! [`RecentFrames`]: a bounded table of the last known physical page of virtual pages.

use ebbtide_core::PageId;

/// Entries of the table. Part of the format: writer and reader must evict the same entries.
const ENTRIES: usize = 1 << 18;

/// A direct-mapped table of fixed size, so that memory stays bounded.
#[derive(Default)]
pub(super) struct RecentFrames {
    /// The virtual page plus one, and its physical page. Allocated at the first use.
    entries: Vec<(u64, u64)>,
}

impl RecentFrames {
    /// The last known physical page of `page`, if the table has it.
    #[inline]
    pub(super) fn of(&self, page: PageId) -> Option<PageId> {
        let &(virtual_page, frame) = self.entries.get(slot(page))?;
        (virtual_page == page.0 + 1).then_some(PageId(frame))
    }

    /// Stores that `page` lies at `frame`.
    pub(super) fn set(&mut self, page: PageId, frame: PageId) {
        if self.entries.is_empty() {
            self.entries = vec![(0, 0); ENTRIES];
        }
        self.entries[slot(page)] = (page.0 + 1, frame.0);
    }
}

/// The entry of `page`. Neighbouring pages have neighbouring entries.
fn slot(page: PageId) -> usize {
    ((page.0 ^ page.0 >> 18) % ENTRIES as u64) as usize
}
