//! The system calls on a mapped range: userfaultfd in SIGBUS mode, and removal of pages.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

use ebbtide_core::{Bytes, PAGE_BYTES};
use linux_raw_sys::general as sys;
use linux_raw_sys::ioctl;

use super::error::MappedError;
use super::fatal::fatal;
use super::protocol::Mapper;

/// Features without which a region cannot work, with the names that users see.
const FEATURES: [(u32, &str); 2] = [
    (sys::UFFD_FEATURE_SIGBUS, "signals in place of messages (UFFD_FEATURE_SIGBUS)"),
    (sys::UFFD_FEATURE_PAGEFAULT_FLAG_WP, "write protection (UFFD_FEATURE_PAGEFAULT_FLAG_WP)"),
];

/// `UFFDIO_WRITEPROTECT_MODE_WP` of the kernel's header.
const WRITE_PROTECT: u32 = 1;

/// The most pages that one call removes.
pub(super) const REMOVED_TOGETHER: usize = 64;

/// How pages are removed.
#[derive(Debug)]
enum Removal {
    /// Many pages a call: `process_madvise` on the own process (Linux 6.13).
    Together(OwnedFd),
    /// One call a page.
    OneByOne,
}

/// A range of addresses whose missing pages raise SIGBUS.
#[derive(Debug)]
pub(super) struct MappedRange {
    base: *mut u8,
    bytes: usize,
    uffd: OwnedFd,
    removal: Removal,
}

// SAFETY: the range is memory of the whole process, and the descriptors may be used by every
// thread.
unsafe impl Send for MappedRange {}
// SAFETY: as above.
unsafe impl Sync for MappedRange {}

/// What the kernel offers to mapped regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSupport {
    /// True if one call removes many pages. It takes Linux 6.13.
    pub removes_together: bool,
}

impl KernelSupport {
    /// Asks the kernel. Maps and removes one page for that.
    ///
    /// # Errors
    /// When the kernel cannot have mapped regions, or refuses them to this process.
    pub fn ask() -> Result<KernelSupport, MappedError> {
        let range = MappedRange::new(PAGE_BYTES)?;
        Ok(KernelSupport { removes_together: matches!(range.removal, Removal::Together(_)) })
    }
}

impl MappedRange {
    /// Maps `bytes` bytes, which are missing.
    pub(super) fn new(bytes: usize) -> Result<MappedRange, MappedError> {
        let uffd = open()?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe { libc::mmap(null_mut(), bytes, access, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(MappedError::AddressSpace(Bytes(bytes as u64)));
        }
        let base = base.cast::<u8>();
        let mut range = MappedRange { base, bytes, uffd, removal: Removal::OneByOne };
        let io = |doing| move |source| MappedError::Io { doing, source };
        // A huge page would be read and evicted as a whole.
        range.advise(libc::MADV_NOHUGEPAGE).map_err(io("turn off huge pages in a region"))?;
        // A child's accesses would find zeros in missing pages.
        range.advise(libc::MADV_DONTFORK).map_err(io("keep a region from forked children"))?;
        range.register().map_err(MappedError::Refused)?;
        if let Some(process) = own_process()
            && range.remove_together(&process, &[0]).is_ok()
        {
            range.removal = Removal::Together(process);
        }
        Ok(range)
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the range is exactly this mapping, which nothing uses yet.
        let result = unsafe { libc::madvise(self.base.cast(), self.bytes, advice) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn register(&self) -> io::Result<()> {
        let range = sys::uffdio_range { start: self.base as u64, len: self.bytes as u64 };
        let mode = sys::UFFDIO_REGISTER_MODE_MISSING | sys::UFFDIO_REGISTER_MODE_WP;
        let mut register = sys::uffdio_register { range, mode: u64::from(mode), ioctls: 0 };
        // SAFETY: the call takes one structure of this type.
        unsafe { call(&self.uffd, ioctl::UFFDIO_REGISTER, &mut register) }
    }

    /// The address of `page`.
    pub(super) fn page(&self, page: u32) -> *mut u8 {
        let offset = page as usize * PAGE_BYTES;
        assert!(offset < self.bytes, "page {page} is beyond the range");
        // SAFETY: within the mapping.
        unsafe { self.base.add(offset) }
    }

    /// The contents of `page`, which is mapped and write-protected, so that they cannot change.
    pub(super) fn contents(&self, page: u32) -> &[u8; PAGE_BYTES] {
        // SAFETY: the page is mapped, and the kernel lets nothing store to it.
        unsafe { &*self.page(page).cast::<[u8; PAGE_BYTES]>() }
    }

    fn set_protection(&self, page: u32, protected: bool) {
        let range = sys::uffdio_range { start: self.page(page) as u64, len: PAGE_BYTES as u64 };
        let mode = if protected { WRITE_PROTECT } else { 0 };
        let mut protect = sys::uffdio_writeprotect { range, mode: u64::from(mode) };
        loop {
            // SAFETY: the call takes one structure of this type.
            match unsafe { call(&self.uffd, ioctl::UFFDIO_WRITEPROTECT, &mut protect) } {
                Ok(()) => return,
                // The address space changes just now.
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
                Err(error) => fatal(format_args!("cannot protect a mapped page: {error}")),
            }
        }
    }

    /// Removes `pages` by one call.
    fn remove_together(&self, process: &OwnedFd, pages: &[u32]) -> io::Result<()> {
        let place =
            |&page: &u32| libc::iovec { iov_base: self.page(page).cast(), iov_len: PAGE_BYTES };
        let places: smallvec::SmallVec<[libc::iovec; REMOVED_TOGETHER]> =
            pages.iter().map(place).collect();
        let (places, count) = (places.as_ptr(), places.len());
        // SAFETY: the places are pages of this mapping, whose contents are no longer needed.
        let removed = unsafe {
            let process = process.as_raw_fd();
            libc::syscall(libc::SYS_process_madvise, process, places, count, libc::MADV_DONTNEED, 0)
        };
        match usize::try_from(removed) {
            Ok(bytes) if bytes == count * PAGE_BYTES => Ok(()),
            Ok(_) => Err(io::ErrorKind::Interrupted.into()),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }

    fn remove_one(&self, page: u32) {
        // SAFETY: a page of this mapping, whose contents are no longer needed.
        let result =
            unsafe { libc::madvise(self.page(page).cast(), PAGE_BYTES, libc::MADV_DONTNEED) };
        if result != 0 {
            let error = io::Error::last_os_error();
            fatal(format_args!("cannot remove a mapped page: {error}"));
        }
    }
}

impl Mapper for MappedRange {
    fn install(&self, page: u32, from: *const u8, writable: bool) {
        let mode = if writable { 0 } else { u64::from(sys::UFFDIO_COPY_MODE_WP) };
        let (dst, len) = (self.page(page) as u64, PAGE_BYTES as u64);
        loop {
            let mut copy = sys::uffdio_copy { dst, src: from as u64, len, mode, copy: 0 };
            // SAFETY: the call takes one structure of this type, and `from` is a whole page.
            match unsafe { call(&self.uffd, ioctl::UFFDIO_COPY, &mut copy) } {
                Ok(()) => return,
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
                Err(error) => fatal(format_args!("cannot map a page: {error}")),
            }
        }
    }

    fn protect(&self, page: u32) {
        self.set_protection(page, true);
    }

    fn unprotect(&self, page: u32) {
        self.set_protection(page, false);
    }

    fn remove(&self, pages: &[u32]) {
        for pages in pages.chunks(REMOVED_TOGETHER) {
            match &self.removal {
                Removal::Together(process) if self.remove_together(process, pages).is_ok() => {}
                _ => pages.iter().for_each(|&page| self.remove_one(page)),
            }
        }
    }
}

impl Drop for MappedRange {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`. Its owner lets nothing use it any more.
        unsafe { libc::munmap(self.base.cast(), self.bytes) };
    }
}

/// Opens a userfaultfd for faults of user code, with the features that a region needs.
fn open() -> Result<OwnedFd, MappedError> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | sys::UFFD_USER_MODE_ONLY as libc::c_int;
    // SAFETY: the call takes an integer and returns a descriptor.
    let uffd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    if uffd < 0 {
        return Err(MappedError::Refused(io::Error::last_os_error()));
    }
    // SAFETY: the descriptor was opened just now, and belongs to nothing else.
    let uffd = unsafe { OwnedFd::from_raw_fd(uffd as libc::c_int) };
    let features = FEATURES.iter().fold(0, |all, (feature, _)| all | u64::from(*feature));
    let mut api = sys::uffdio_api { api: u64::from(sys::UFFD_API), features, ioctls: 0 };
    // SAFETY: the call takes one structure of this type.
    if let Err(error) = unsafe { call(&uffd, ioctl::UFFDIO_API, &mut api) } {
        // The kernel clears the structure when it lacks a feature.
        return match error.raw_os_error() {
            Some(libc::EINVAL) => Err(MappedError::Lacks(FEATURES[1].1)),
            _ => Err(MappedError::Refused(error)),
        };
    }
    match FEATURES.iter().find(|(feature, _)| api.features & u64::from(*feature) == 0) {
        Some((_, name)) => Err(MappedError::Lacks(name)),
        None => Ok(uffd),
    }
}

/// A descriptor of this process, for `process_madvise`.
fn own_process() -> Option<OwnedFd> {
    // SAFETY: the call takes two integers and returns a descriptor.
    let process = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    // SAFETY: the descriptor was opened just now, and belongs to nothing else.
    (process >= 0).then(|| unsafe { File::from_raw_fd(process as libc::c_int).into() })
}

/// Makes a call on `uffd`.
///
/// # Safety
/// `request` takes a structure of type `T`.
unsafe fn call<T>(uffd: &OwnedFd, request: u32, argument: &mut T) -> io::Result<()> {
    // SAFETY: as the caller promises.
    let result =
        unsafe { libc::ioctl(uffd.as_raw_fd(), libc::Ioctl::from(request), &raw mut *argument) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
