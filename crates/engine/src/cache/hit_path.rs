//! [`HitPath`]: the path of an access to a resident page.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use ebbtide_core::replacement::TOUCHES_MAX;
use ebbtide_core::{FrameId, PAGE_BYTES, PageId};

use super::MISSING;
use super::hit_table::{HitLookup, LineIsFull};
use crate::host::prefetched::prefetch;

/// The hit path: page → state → frame → memory. It takes no lock, and writes nothing shared except
/// the frame's mark, which it stores only when the mark changes.
#[derive(Clone, Copy)]
pub(crate) struct HitPath {
    pub(super) lookup: HitLookup,
    pub(super) states: *const AtomicU32,
    pub(super) pages: u64,
    pub(super) frames: *mut u8,
    pub(super) touches: *const AtomicU8,
    pub(super) dirty: *const AtomicU8,
}

impl HitPath {
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Makes every access one to a page that does not exist, or undoes that with the real number.
    pub(crate) fn set_pages(&mut self, pages: u64) {
        self.pages = pages;
    }

    /// The frame of `page` if that has its own place in the table of resident pages, as nearly all
    /// have. Call inside an epoch (see [`crate::epoch`]); the answer is good until its end.
    #[inline(always)]
    pub(crate) fn find_at_once(&self, page: PageId) -> Option<FrameId> {
        debug_assert!(page.0 < self.pages);
        self.lookup.find(page)
    }

    /// The frame of `page` if it is resident. Call inside an epoch; the answer is good until its
    /// end.
    pub(crate) fn find(&self, page: PageId) -> Option<FrameId> {
        debug_assert!(page.0 < self.pages);
        self.lookup.find_in_line(page).ok().or_else(|| self.find_by_state(page))
    }

    /// As [`find`](HitPath::find), but treats a page that is most probably not resident as absent.
    /// It does not load the page's state, because that has long left the core's caches.
    pub(crate) fn find_if_likely(&self, page: PageId) -> Option<FrameId> {
        debug_assert!(page.0 < self.pages);
        match self.lookup.find_in_line(page) {
            Ok(frame) => Some(frame),
            Err(LineIsFull(true)) => self.find_by_state(page),
            Err(LineIsFull(false)) => None,
        }
    }

    /// Prefetches the data that changes when `page` comes or goes. It has left the core's caches
    /// since.
    pub(crate) fn prefetch(&self, page: PageId) {
        prefetch(self.states.wrapping_add(page.index()));
        self.lookup.prefetch(page);
    }

    fn find_by_state(&self, page: PageId) -> Option<FrameId> {
        // SAFETY: the caller has checked the page number; states live as long as the cache.
        let state = unsafe { (*self.states.add(page.index())).load(Ordering::Acquire) };
        (state & MISSING == 0).then_some(FrameId(state))
    }

    /// The memory `offset` bytes into `frame`.
    #[inline(always)]
    pub(crate) fn memory(&self, frame: FrameId, offset: usize) -> *mut u8 {
        // SAFETY: frames come from `find`, so they exist; `offset` is within the page.
        // The offset first: it is known before the frame is.
        unsafe { self.frames.add(offset).add(frame.index() * PAGE_BYTES) }
    }

    /// Marks a hit. Racing marks may be lost: they only guide replacement.
    #[inline(always)]
    pub(crate) fn touch(&self, frame: FrameId) {
        // SAFETY: there is a mark for every frame.
        let mark = unsafe { &*self.touches.add(frame.index()) };
        let touches = mark.load(Ordering::Relaxed);
        if touches < TOUCHES_MAX {
            mark.store(touches + 1, Ordering::Relaxed);
        }
    }

    /// Marks the frame as written. Only ever set while the page is published, so none is lost.
    #[inline(always)]
    pub(crate) fn mark_dirty(&self, frame: FrameId) {
        // SAFETY: there is a mark for every frame.
        let mark = unsafe { &*self.dirty.add(frame.index()) };
        if mark.load(Ordering::Relaxed) == 0 {
            mark.store(1, Ordering::Relaxed);
        }
    }
}
