//! [`RecentFrames`]: which physical page each virtual page was seen on last, as far as a table
//! remembers.

use ebbtide_core::PageId;

/// Entries of the table, part of the format: writer and reader must forget alike.
const ENTRIES: usize = 1 << 18;

/// A table of fixed size, so that memory stays bounded; a page takes the place of another one.
#[derive(Default)]
pub(super) struct RecentFrames {
    /// The virtual page plus one, and its physical page; empty until it is needed.
    entries: Vec<(u64, u64)>,
}

impl RecentFrames {
    /// Where `page` was seen last, if that is remembered.
    #[inline]
    pub(super) fn of(&self, page: PageId) -> Option<PageId> {
        let &(virtual_page, frame) = self.entries.get(slot(page))?;
        (virtual_page == page.0 + 1).then_some(PageId(frame))
    }

    /// Remembers that `page` lies at `frame`.
    pub(super) fn set(&mut self, page: PageId, frame: PageId) {
        if self.entries.is_empty() {
            self.entries = vec![(0, 0); ENTRIES];
        }
        self.entries[slot(page)] = (page.0 + 1, frame.0);
    }
}

/// The place of `page`: neighbours lie side by side.
fn slot(page: PageId) -> usize {
    ((page.0 ^ page.0 >> 18) % ENTRIES as u64) as usize
}
