//! [`WakeEvent`]: a descriptor that wakes a core which sleeps in the kernel.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// An eventfd. It is readable from a wake-up until it is drained.
pub(crate) struct WakeEvent(OwnedFd);

impl WakeEvent {
    /// One that is not readable.
    ///
    /// # Errors
    /// When the process has too many open files.
    pub(crate) fn new() -> io::Result<WakeEvent> {
        // SAFETY: eventfd has no preconditions; its result is checked.
        let event = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `event` is a descriptor just opened that has no other owner.
        Ok(WakeEvent(unsafe { OwnedFd::from_raw_fd(event) }))
    }

    /// Makes it readable, from any thread.
    pub(crate) fn wake(&self) {
        let one = 1u64;
        // SAFETY: writes 8 bytes from `one` to a descriptor we own; a full counter is as good.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Empties it, without waiting.
    pub(crate) fn drain(&self) {
        let mut count = 0u64;
        // SAFETY: reads at most 8 bytes into `count` from a descriptor we own; it does not block.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsRawFd for WakeEvent {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
