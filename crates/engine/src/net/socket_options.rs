//! Options of sockets, and the kernel's figures about them.

use std::os::fd::{AsRawFd, OwnedFd};

/// Sets an option that may not exist for this kind of socket.
pub(super) fn set_option(
    socket: &OwnedFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) {
    let value: *const libc::c_int = &value;
    // SAFETY: reads one `int` from `value` and nothing else. An error leaves the default.
    unsafe {
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), level, name, value.cast(), length);
    }
}

/// Indices of `SO_MEMINFO` (`linux/sock_diag.h`): bytes received, bytes on their way out, bytes
/// waiting to be sent, and bytes received while the socket was in use.
const RECEIVED: usize = 0;
const LEAVING: usize = 2;
const QUEUED: usize = 5;
const BACKLOG: usize = 7;
const MEMORY_WORDS: usize = 9;

/// The option that returns them, for any kind of socket (`asm-generic/socket.h`, since Linux 4.12).
const SO_MEMINFO: libc::c_int = 55;

/// Bytes of memory that the kernel holds for a socket; 0 if it does not report them.
pub(super) fn memory_bytes(socket: &OwnedFd) -> usize {
    let mut words = [0u32; MEMORY_WORDS];
    let mut length = size_of_val(&words) as libc::socklen_t;
    // SAFETY: writes at most `length` bytes to `words`. After an error all words are zero.
    unsafe {
        let words = words.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_MEMINFO, words, &mut length);
    }
    // TCP counts what it sends as queued; other sockets count it as leaving.
    let out = words[LEAVING].max(words[QUEUED]);
    words[RECEIVED] as usize + words[BACKLOG] as usize + out as usize
}

/// Bytes sent that the other side has not taken (`SIOCOUTQ`); 0 if the kernel does not report them.
pub(super) fn untaken_bytes(socket: &OwnedFd) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: writes one `int` to `bytes`. After an error it is zero.
    unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    u64::try_from(bytes).unwrap_or(0)
}
