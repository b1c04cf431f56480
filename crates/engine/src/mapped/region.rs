//! [`Region`]: a part of a mapped store that a program uses by plain pointers.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ebbtide_core::PAGE_BYTES;

use super::error::MappedError;
use super::registry::Access;
use super::space::{MappedCounts, Space};
use super::states::State;
use crate::api::engine::Engine;

/// A range of addresses whose pages come from flash.
///
/// Its bytes are zero at first, and are gone when the store is closed. Any thread may use the
/// addresses. In a job, a load or store of a page that is not in DRAM lets other jobs run. On any
/// other thread it blocks that thread. `docs/MAPPED.md` has the rules.
#[derive(Clone)]
pub struct Region {
    space: Arc<Space>,
    offset: usize,
    bytes: usize,
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region")
            .field("start", &self.start())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Region {
    /// A region over all pages of `engine`, of which `tokens` may be mapped at once
    /// ([`Shares`](super::Shares)). For programs that [run](Engine::run) a service of their own.
    /// Only their jobs may use the region.
    ///
    /// # Errors
    /// When the kernel refuses userfaultfd, or the engine keeps a log.
    pub fn over(engine: &Arc<Engine>, tokens: usize) -> Result<Region, MappedError> {
        let space = Space::new(engine.clone(), 0, engine.pages(), tokens)?;
        let bytes = space.addresses().len();
        Ok(Region::new(space, 0, bytes))
    }

    /// Counts of the pages of its store since the start.
    pub fn counts(&self) -> MappedCounts {
        self.space.counts()
    }

    pub(super) fn new(space: Arc<Space>, offset: usize, bytes: usize) -> Region {
        Region { space, offset, bytes }
    }

    /// The first address, which is a multiple of 4096.
    pub fn start(&self) -> NonNull<u8> {
        let start = self.space.addresses().start + self.offset;
        NonNull::new(start as *mut u8).expect("a mapping is not at address zero")
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if `at` is an address of the region.
    pub fn contains(&self, at: *const u8) -> bool {
        (at as usize).wrapping_sub(self.start().as_ptr() as usize) < self.bytes
    }

    /// The offset of `at` in the space.
    fn offset_of(&self, at: *const u8) -> Option<usize> {
        self.contains(at).then(|| at as usize - self.space.addresses().start)
    }

    /// Announces an access to `at`, a store or a load. Costs a few loads if the page is in DRAM,
    /// and tells the replacement policy that it is in use. Otherwise it brings the page, for less
    /// than a plain access would. Does nothing for other addresses.
    #[inline]
    pub fn touch(&self, at: *const u8, store: bool) {
        let Some(offset) = self.offset_of(at) else { return };
        let (state, token) = self.space.protocol.table.glance((offset / PAGE_BYTES) as u32);
        if state == State::Dirty || state.is_mapped() && !store {
            self.space.protocol.tokens.touch(token);
        } else {
            self.bring(offset, store);
        }
    }

    /// DRAM that a structure of this region takes changes from `before` pages to `after`. It is
    /// taken from the pages that are mapped at once.
    pub(super) fn change_dram(&self, before: usize, after: usize) {
        let tokens = &self.space.protocol.tokens;
        if after > before { tokens.retire(after - before) } else { tokens.restore(before - after) }
    }

    #[cold]
    fn bring(&self, offset: usize, store: bool) {
        self.space.resolve(Access { offset, store, instruction: 0 });
    }

    /// Keeps the `bytes` bytes from `at` on in DRAM until the result is dropped, for a system call
    /// that reads them. With `store`, also for one that writes to them. Without this, a system call
    /// may fail with `EFAULT`.
    ///
    /// # Errors
    /// When too many pages are pinned.
    ///
    /// # Panics
    /// When the bytes are not within the region.
    pub fn pin(&self, at: *const u8, bytes: usize, store: bool) -> Result<Pinned, MappedError> {
        let offset = self
            .offset_of(at)
            .filter(|_| bytes <= self.bytes - (at as usize - self.start().as_ptr() as usize));
        let offset = offset.expect("only bytes of the region can be pinned");
        let pages = offset / PAGE_BYTES..(offset + bytes).div_ceil(PAGE_BYTES);
        let (count, pinned_max) = (pages.len(), self.space.protocol.tokens.count() / 4);
        let pinned = self.space.pinned.fetch_add(count, Ordering::AcqRel);
        let mut guard = Pinned { space: self.space.clone(), tokens: Vec::new(), count };
        if pinned + count > pinned_max {
            return Err(MappedError::TooManyPins { pinned, pinned_max });
        }
        for page in pages {
            guard.tokens.push(self.pin_page(page, store));
        }
        Ok(guard)
    }

    fn pin_page(&self, page: usize, store: bool) -> u32 {
        loop {
            if let Some(token) = self.space.protocol.try_pin(page as u32, store) {
                return token;
            }
            self.bring(page * PAGE_BYTES, store);
        }
    }
}

/// Bytes of a region that stay in DRAM until this is dropped.
#[must_use = "the bytes stay only as long as this lives"]
pub struct Pinned {
    space: Arc<Space>,
    tokens: Vec<u32>,
    /// Pages that it counts for.
    count: usize,
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned").field("pages", &self.count).finish_non_exhaustive()
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.tokens.iter().for_each(|&token| self.space.protocol.tokens.unpin(token));
        self.space.pinned.fetch_sub(self.count, Ordering::AcqRel);
    }
}
