//! System calls that read or write bytes of a region: each pins them first.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use ebbtide_core::PAGE_BYTES;

use super::region::{Pinned, Region};

/// Bytes that one call moves at most.
const CALL_BYTES_MAX: usize = 64 * PAGE_BYTES;

impl Region {
    /// Pins the first of the `bytes` bytes from `at` on. Returns their number. Bytes outside of the
    /// region need no pin.
    fn pin_first(
        &self,
        at: *const u8,
        bytes: usize,
        store: bool,
    ) -> io::Result<(Option<Pinned>, usize)> {
        let bytes = bytes.min(CALL_BYTES_MAX);
        let start = self.start().as_ptr() as usize;
        let region = start..start + self.bytes();
        let (first, end) = (at as usize, (at as usize).saturating_add(bytes));
        if end <= region.start || region.end <= first {
            return Ok((None, bytes));
        }
        if first < region.start || region.end < end {
            let text = "the bytes are partly within the region";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let pinned = self.pin(at, bytes, store).map_err(io::Error::other)?;
        Ok((Some(pinned), bytes))
    }

    /// Reads from `file` to the `bytes` bytes from `at` on, as `read` does. At most 256 KiB in one
    /// call. A call that waits blocks its core.
    ///
    /// # Safety
    /// The bytes may be written to.
    ///
    /// # Errors
    /// As `read`, or when too many pages are pinned.
    pub unsafe fn read(&self, file: impl AsFd, at: *mut u8, bytes: usize) -> io::Result<usize> {
        let (_pinned, bytes) = self.pin_first(at, bytes, true)?;
        // SAFETY: as the caller promises.
        counted(unsafe { libc::read(file.as_fd().as_raw_fd(), at.cast(), bytes) })
    }

    /// Writes the `bytes` bytes from `at` on to `file`, as `write` does. Otherwise as
    /// [`read`](Region::read).
    ///
    /// # Safety
    /// The bytes may be read.
    ///
    /// # Errors
    /// As `write`, or when too many pages are pinned.
    pub unsafe fn write(&self, file: impl AsFd, at: *const u8, bytes: usize) -> io::Result<usize> {
        let (_pinned, bytes) = self.pin_first(at, bytes, false)?;
        // SAFETY: as the caller promises.
        counted(unsafe { libc::write(file.as_fd().as_raw_fd(), at.cast(), bytes) })
    }

    /// Receives from `socket`, as `recv` does with these `flags`. Otherwise as
    /// [`read`](Region::read).
    ///
    /// # Safety
    /// The bytes may be written to.
    ///
    /// # Errors
    /// As `recv`, or when too many pages are pinned.
    pub unsafe fn recv(
        &self,
        socket: impl AsFd,
        at: *mut u8,
        bytes: usize,
        flags: i32,
    ) -> io::Result<usize> {
        let (_pinned, bytes) = self.pin_first(at, bytes, true)?;
        // SAFETY: as the caller promises.
        counted(unsafe { libc::recv(socket.as_fd().as_raw_fd(), at.cast(), bytes, flags) })
    }

    /// Sends to `socket`, as `send` does with these `flags`. Otherwise as [`read`](Region::read).
    ///
    /// # Safety
    /// The bytes may be read.
    ///
    /// # Errors
    /// As `send`, or when too many pages are pinned.
    pub unsafe fn send(
        &self,
        socket: impl AsFd,
        at: *const u8,
        bytes: usize,
        flags: i32,
    ) -> io::Result<usize> {
        let (_pinned, bytes) = self.pin_first(at, bytes, false)?;
        // SAFETY: as the caller promises.
        counted(unsafe { libc::send(socket.as_fd().as_raw_fd(), at.cast(), bytes, flags) })
    }
}

/// The result of a system call.
fn counted(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
