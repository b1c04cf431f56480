//! Claims: pages that get a frame without a read, because their old contents are not needed.
//!
//! A claimed page counts as moving, so other jobs wait for it. Its core either reveals it or reads
//! it after all, and runs no other job before that.

use ebbtide_core::{FrameId, PAGE_BYTES, PageId, Time};

use super::Backside;
use crate::cache::{Effect, Event};

impl Backside {
    /// Stores `bytes` as the contents of an absent page, without reading it. The page is on flash
    /// in some slot, or blank. Returns true if that was possible. Not for pages that survive
    /// crashes: they are always read, so that their checksums can show damage.
    pub(crate) fn overwrite(&mut self, page: PageId, bytes: &[u8; PAGE_BYTES]) -> bool {
        debug_assert!(self.shared.persist.is_none(), "{page:?} would be stored unread");
        let Some(frame) = self.take_unread(page) else { return false };
        self.shared.cache.fill(frame, bytes);
        self.reveal(page);
        true
    }

    /// Takes a frame of zeros for `page`. No other job sees it yet. Returns `None` if the page is
    /// not absent, is damaged, or no frame is free.
    pub(crate) fn claim(&mut self, page: PageId) -> Option<FrameId> {
        let frame = self.take_unread(page)?;
        self.shared.cache.fill(frame, &[0; PAGE_BYTES]);
        Some(frame)
    }

    /// As [`claim`](Backside::claim), with a frame of any contents.
    fn take_unread(&mut self, page: PageId) -> Option<FrameId> {
        let &frame = self.free.last()?;
        let change = self.shared.cache.apply(page, Event::Claimed { core: self.core, frame });
        self.execute(page, &change, Time::ZERO);
        change.has(Effect::Take).then_some(frame)
    }

    /// Makes a claimed page resident as its frame now is, which its copy on flash is not.
    pub(crate) fn reveal(&mut self, page: PageId) {
        self.counters().overwritten.add(1);
        let change = self.shared.cache.apply(page, Event::Revealed);
        self.install(&change);
    }

    /// Has a claimed page read: it is needed as it was.
    pub(crate) fn unclaim(&mut self, page: PageId) {
        let change = self.shared.cache.apply(page, Event::Unclaimed);
        self.execute(page, &change, self.shared.now());
    }
}
