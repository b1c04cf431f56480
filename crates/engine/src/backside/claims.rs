//! Pages that get a frame without being read, as nobody needs what they hold.
//!
//! A claimed page is busy, so that others wait for it, until its core reveals it or has it read after all.
//! Its core does one or the other without letting another job run between.

use ebbtide_core::{FrameId, PAGE_BYTES, PageId};

use super::Backside;
use crate::buffer_pool::BufferPool;
use crate::cache::{BLANK, Installed, POISONED, PageState};

impl Backside {
    /// Gives an absent page, on flash in some slot or blank, the contents `bytes` without reading it.
    /// Says whether that was possible. Not for pages that survive crashes: their checksums tell damage,
    /// and so they are read as ever.
    pub(crate) fn overwrite(
        &mut self,
        pool: &BufferPool,
        page: PageId,
        bytes: &[u8; PAGE_BYTES],
    ) -> bool {
        debug_assert!(pool.persist.is_none(), "{page:?} would be stored unread");
        let Some(frame) = self.take_unread(pool, page) else { return false };
        pool.cache.fill(frame, bytes);
        self.reveal(pool, page, frame);
        true
    }

    /// Gives `page` a frame of zeros, which nobody else sees yet. `None` if the page is not on flash alone, is
    /// damaged there, or no frame is free.
    pub(crate) fn claim(&mut self, pool: &BufferPool, page: PageId) -> Option<FrameId> {
        let frame = self.take_unread(pool, page)?;
        pool.cache.fill(frame, &[0; PAGE_BYTES]);
        Some(frame)
    }

    /// As [`claim`](Backside::claim), with a frame of any contents.
    fn take_unread(&mut self, pool: &BufferPool, page: PageId) -> Option<FrameId> {
        let shard = pool.cache.shard(page);
        let PageState::Absent(slot) = pool.cache.state(page) else { return None };
        if slot == POISONED && pool.persist.is_some() {
            return None;
        }
        let frame = self.take_free(pool, false)?;
        pool.cache.begin_fetch(page, (slot, frame), self.core, &shard);
        Some(frame)
    }

    /// Makes a claimed page resident as its frame now is, which its copy on flash is not.
    pub(crate) fn reveal(&mut self, pool: &BufferPool, page: PageId, frame: FrameId) {
        self.counters(pool).overwritten.add(1);
        let slot = pool.cache.slot_of(frame);
        self.publish(pool, page, frame, Installed { slot, dirty: true, ahead: false });
    }

    /// Has a claimed page read: it is needed as it was.
    pub(crate) fn unclaim(&mut self, pool: &BufferPool, page: PageId, frame: FrameId) {
        let slot = pool.cache.slot_of(frame).unwrap_or(BLANK);
        self.fill(pool, page, slot, frame, pool.now());
    }
}
