//! Ranges of bytes and views of whole pages.

use std::marker::PhantomData;

use ebbtide_core::{Addr, Hint, Memory, PAGE_BYTES, PageId, Value, check_access};

use super::{FlashMemory, out_of_bounds};
use crate::cache::PageState;
use crate::host::atomic_words;
use crate::sync::epoch::Presence;

/// Pages of a range that are requested ahead of the page that is being copied.
const WINDOW_PAGES: u64 = 64;

impl<'a> FlashMemory<'a> {
    /// Copies the bytes from `at` on into `into`. The range may begin anywhere and span any number
    /// of pages. Its pages on flash are requested together. Other jobs may store to the range at
    /// the same time. No word tears.
    ///
    /// # Panics
    /// When the range is not within the address space.
    pub fn read_bytes(&mut self, at: Addr, into: &mut [u8]) {
        self.check_range(at, into.len());
        if self.keeps_aside() {
            return self.read_bytes_in_transaction(at, into);
        }
        let (mut asked_to, mut at, mut rest) = (at.page(), at, into);
        while !rest.is_empty() {
            let (piece, later) = rest.split_at_mut(rest.len().min(PAGE_BYTES - at.page_offset()));
            if !later.is_empty() {
                self.fetch_pages(at, piece.len() + later.len(), &mut asked_to);
            }
            // SAFETY: the piece lies within the page, which stays in place during the access.
            self.access_page(
                at,
                |()| false,
                |memory| unsafe {
                    atomic_words::copy_out(memory, piece);
                },
            );
            (at, rest) = (at + piece.len() as u64, later);
        }
    }

    /// Copies `from` to the bytes from `at` on, under the rules of
    /// [`read_bytes`](FlashMemory::read_bytes). Bytes outside the range keep their values, also
    /// bytes that other jobs store at the same time.
    ///
    /// # Panics
    /// When the range is not within the address space.
    pub fn write_bytes(&mut self, at: Addr, from: &[u8]) {
        self.check_range(at, from.len());
        if self.in_transaction() {
            return self.write_bytes_in_transaction(at, from);
        }
        // Without a log whole pages are stored without a read, so that only the ends may need one.
        let reads = self.local.shared.pool.persist.is_some();
        let end = at + from.len() as u64;
        if !reads && end.page() != at.page() && !end.page_offset().is_multiple_of(PAGE_BYTES) {
            self.hint(Hint::WillNeed(end));
        }
        let (mut asked_to, mut at, mut rest) = (at.page(), at, from);
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(rest.len().min(PAGE_BYTES - at.page_offset()));
            if reads {
                self.fetch_pages(at, rest.len(), &mut asked_to);
            }
            if reads || !self.overwrite(at, piece) {
                // SAFETY: as in `read_bytes`.
                self.access_page(
                    at,
                    |()| true,
                    |memory| unsafe {
                        atomic_words::copy_in(memory, piece);
                    },
                );
            }
            (at, rest) = (at + piece.len() as u64, later);
        }
    }

    /// Returns a view of `page`, which stays in DRAM as long as the view lives. The view must be
    /// dropped before the next memory call. Keep it short-lived, because it also delays the frames
    /// that other cores give up.
    ///
    /// ```compile_fail
    /// # use ebbtide_core::{Addr, Hint, Memory, PageId};
    /// # fn job(memory: &mut ebbtide_engine::FlashMemory<'_>) {
    /// let view = memory.page(PageId(3));
    /// memory.load::<u64>(Addr(0));
    /// view.load::<u64>(0);
    /// # }
    /// ```
    ///
    /// # Panics
    /// When the page is not within the address space, and inside a transaction, whose own stores it
    /// would not show.
    pub fn page(&mut self, page: PageId) -> PageView<'_> {
        assert!(!self.in_transaction(), "a page is not viewed inside a transaction");
        if page.0 >= self.hit_path.pages() {
            out_of_bounds(page.start(), self.hit_path.pages());
        }
        self.accesses += 1;
        let frame = self.enter(page.start());
        let memory = self.hit_path.memory(frame, 0);
        PageView { memory, presence: self.presence, memory_borrow: PhantomData }
    }

    /// Keeps bytes aside word by word. Of the first and the last word only the bytes that were
    /// written.
    fn write_bytes_in_transaction(&mut self, at: Addr, from: &[u8]) {
        let mut done = 0;
        while done < from.len() {
            let to = at + done as u64;
            let count = (8 - to.0 as usize % 8).min(from.len() - done);
            let piece = &from[done..done + count];
            match <[u8; 8]>::try_from(piece) {
                Ok(whole) => self.store(to, u64::from_ne_bytes(whole)),
                Err(_) => self.store_part_in_transaction(to, piece),
            }
            done += count;
        }
    }

    pub(super) fn check_range(&self, at: Addr, bytes: usize) {
        let size_bytes = self.pages * PAGE_BYTES as u64;
        if at.0.checked_add(bytes as u64).is_none_or(|end| end > size_bytes) {
            out_of_bounds(at, self.pages);
        }
    }

    /// Stores `piece` at `at` without a read, if it is a whole page that is not in DRAM and a frame
    /// is free. Returns true if it did.
    fn overwrite(&mut self, at: Addr, piece: &[u8]) -> bool {
        let Ok(bytes) = piece.try_into() else { return false };
        let shared = &*self.local.shared;
        let absent = matches!(shared.pool.cache.state(at.page()), PageState::Absent(_));
        let done = absent && self.local.backside().overwrite(at.page(), bytes);
        self.accesses += u64::from(done);
        done
    }

    /// Requests pages ahead of a copy of the `bytes` bytes from `at` on. It starts at `asked_to`,
    /// behind the page of `at`, and sets `asked_to` to the next page to request. It requests half a
    /// window at a time, and less if frames are short. Pages that are in DRAM are marked as used.
    /// Otherwise these reads would take the frames of the pages that are copied next.
    fn fetch_pages(&mut self, at: Addr, bytes: usize, asked_to: &mut PageId) {
        let here = at.page().0;
        let last = (at.0 + bytes as u64 - 1) / PAGE_BYTES as u64;
        let first = asked_to.0.max(here + 1);
        if first > here + WINDOW_PAGES / 2 {
            return;
        }
        let shared = &*self.local.shared;
        let absent = |page: &PageId| match shared.pool.cache.state(*page) {
            PageState::Resident(frame) => {
                self.hit_path.touch(frame);
                false
            }
            state => matches!(state, PageState::Absent(_)),
        };
        let end = last.min(here + WINDOW_PAGES) + 1;
        *asked_to = PageId(end);
        let mut absent = (first..end).map(PageId).filter(absent).peekable();
        if absent.peek().is_none() {
            return;
        }
        self.local.fetches_ahead.set(true);
        let mut backside = self.local.backside();
        let now = shared.pool.now();
        if let Some(page) = absent.find(|page| !backside.fetch_ahead(*page, now)) {
            *asked_to = page;
        }
    }
}

/// A page in DRAM, for reading. Other jobs may store to it at the same time. No word tears.
pub struct PageView<'m> {
    memory: *const u8,
    presence: Presence<'m>,
    memory_borrow: PhantomData<&'m mut ()>,
}

impl PageView<'_> {
    /// The value `offset` bytes into the page.
    ///
    /// # Panics
    /// When it is not aligned to 8 bytes, crosses a 64-byte line or is not within the page.
    pub fn load<T: Value>(&self, offset: usize) -> T {
        check_access::<T>(Addr(offset as u64));
        assert!(offset < PAGE_BYTES, "a page has no byte {offset}");
        // SAFETY: aligned and within the page, as checked, which stays in place while the view
        // lives.
        unsafe { atomic_words::load(self.memory.add(offset)) }
    }

    /// Copies the bytes from `offset` on into `into`.
    ///
    /// # Panics
    /// When the range is not within the page.
    pub fn read_bytes(&self, offset: usize, into: &mut [u8]) {
        let end = offset.checked_add(into.len());
        assert!(
            end.is_some_and(|end| end <= PAGE_BYTES),
            "{} bytes from byte {offset} of a page",
            into.len()
        );
        // SAFETY: within the page, as checked, which stays in place while the view lives.
        unsafe { atomic_words::copy_out(self.memory.add(offset), into) };
    }
}

impl Drop for PageView<'_> {
    fn drop(&mut self) {
        self.presence.exit();
    }
}
