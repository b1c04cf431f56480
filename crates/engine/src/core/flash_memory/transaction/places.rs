//! The pages that a commit needs in DRAM, and where they are.

use ebbtide_core::durability::WriteSet;
use ebbtide_core::{Addr, FrameId, PageId};
use smallvec::SmallVec;

use crate::cache::HitPath;
use crate::host::atomic_words;

/// Pages and the frames that they stay in until the end of an epoch.
pub(super) struct Places {
    /// In order.
    pub(super) pages: SmallVec<[PageId; 16]>,
    pub(super) frames: SmallVec<[FrameId; 16]>,
    pub(super) hit_path: HitPath,
}

impl Places {
    /// The frame of `page`, if it is one of them.
    pub(super) fn frame_of(&self, page: PageId) -> Option<FrameId> {
        self.pages.binary_search(&page).ok().map(|index| self.frames[index])
    }

    /// The frame of the word at `at`, which is in one of them, and where it is.
    fn of(&self, at: Addr) -> (FrameId, *mut u8) {
        let Some(frame) = self.frame_of(at.page()) else { unreachable!("its frame was found") };
        (frame, self.hit_path.memory(frame, at.page_offset()))
    }

    /// The word at `at`.
    pub(super) fn load(&self, at: Addr) -> u64 {
        // SAFETY: a word of a page that stays in its frame until the end of the epoch.
        unsafe { atomic_words::load(self.of(at).1) }
    }

    /// Applies the stores that were kept aside.
    pub(super) fn apply(&self, set: &WriteSet) {
        for stored in set.words() {
            let (frame, memory) = self.of(stored.at);
            if stored.is_whole() {
                // SAFETY: as in `load`.
                unsafe { atomic_words::store(memory, stored.word) };
            } else {
                // Other jobs may store to the other bytes of the word.
                let mut seen = self.load(stored.at);
                let exchange = |seen| {
                    // SAFETY: as in `load`.
                    unsafe { atomic_words::compare_exchange(memory, seen, stored.over(seen)) }
                };
                while let Err(found) = exchange(seen) {
                    seen = found;
                }
            }
            self.hit_path.mark_dirty(frame);
        }
    }
}
