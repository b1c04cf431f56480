//! Memory mapped once, touched ahead of need, in huge pages where the kernel grants them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use ebbtide_core::{PAGE_BYTES, PageId};

/// Size of a huge page on every machine this runs on.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A mapping, unmapped when dropped.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is plain memory of the whole process. The code that holds it decides which
// thread may touch which part of it when.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `bytes` bytes of zeros, resident from the start.
    pub(crate) fn zeroed(bytes: usize) -> io::Result<Mapping> {
        let bytes = bytes.max(1).next_multiple_of(PAGE_BYTES);
        // Room to start on a huge page boundary. The rest is given back.
        let reserved = bytes + HUGE_PAGE_BYTES;
        let start = map(reserved, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?;
        let aligned = (start as usize).next_multiple_of(HUGE_PAGE_BYTES);
        let before = aligned - start as usize;
        unmap(start, before);
        let end = aligned + bytes;
        unmap(end as *mut u8, reserved - before - bytes);
        let base = NonNull::new(aligned as *mut u8).expect("a mapping is not at address zero");
        let mapping = Mapping { base, bytes };
        mapping.make_resident()?;
        Ok(mapping)
    }

    /// `pages` pages, resident from the start. `image` writes the contents of each.
    pub(crate) fn filled(
        pages: u64,
        image: &dyn Fn(PageId, &mut [u8; PAGE_BYTES]),
    ) -> io::Result<Mapping> {
        let mapping = Mapping::zeroed(pages as usize * PAGE_BYTES)?;
        for page in 0..pages {
            // SAFETY: the page lies within the mapping, which no other thread has seen yet.
            let memory = unsafe { mapping.base().add(page as usize * PAGE_BYTES) };
            // SAFETY: as above; the mapping is initialised memory.
            image(PageId(page), unsafe { &mut *memory.cast::<[u8; PAGE_BYTES]>() });
        }
        Ok(mapping)
    }

    /// `bytes` bytes of `file` from `offset`, not resident yet. Stores reach the file if `reaches`,
    /// or else stay in this mapping.
    pub(crate) fn of_file(
        file: &File,
        reaches: bool,
        offset: u64,
        bytes: usize,
    ) -> io::Result<Mapping> {
        let flags = if reaches { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
        let base = map(bytes, flags, file.as_raw_fd(), offset)?;
        let base = NonNull::new(base).expect("a mapping is not at address zero");
        let mapping = Mapping { base, bytes };
        // Accesses are random: reading ahead would only waste the device.
        mapping.advise(libc::MADV_RANDOM)?;
        Ok(mapping)
    }

    fn make_resident(&self) -> io::Result<()> {
        // Refusals cost speed, not correctness.
        let _ = self.advise(libc::MADV_HUGEPAGE);
        if self.advise(libc::MADV_POPULATE_WRITE).is_ok() {
            return Ok(());
        }
        // Kernels before 5.14 cannot populate: touch every page.
        for offset in (0..self.bytes).step_by(PAGE_BYTES) {
            // SAFETY: inside the mapping, which no other thread has seen yet.
            unsafe { self.base.as_ptr().add(offset).write_volatile(0) };
        }
        Ok(())
    }

    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping; no advice used here discards contents.
        let result = unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes, advice) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unmap(self.base.as_ptr(), self.bytes);
    }
}

fn map(bytes: usize, flags: libc::c_int, file: libc::c_int, offset: u64) -> io::Result<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let offset = offset as libc::off_t;
    // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file, offset) };
    if base == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(base.cast()) }
}

fn unmap(base: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: only called with ranges that were mapped above and are used no more.
        unsafe { libc::munmap(base.cast(), bytes) };
    }
}
