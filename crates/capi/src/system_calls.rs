//! System calls on bytes of a region.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::BorrowedFd;

use ebbtide_engine::mapped::Region;

use crate::code::{EbbtideCode, Failure, guarded};
use crate::region::{EbbtideRegion, region_of};

/// Makes a system call with a region. Returns its result, or -1 with `errno` as the system call.
///
/// # Safety
/// `file` is not closed during the call.
unsafe fn called(
    region: *const EbbtideRegion,
    file: c_int,
    call: impl FnOnce(&Region, BorrowedFd<'_>) -> io::Result<usize>,
) -> isize {
    let (mut moved, mut errno) = (-1, libc::EINVAL);
    let code = guarded(|| {
        let region = region_of(region)?;
        if file < 0 {
            errno = libc::EBADF;
            return Err(Failure::input(format!("{file} is not a file descriptor")));
        }
        // SAFETY: as the caller promises.
        match call(&region, unsafe { BorrowedFd::borrow_raw(file) }) {
            Ok(bytes) => moved = bytes as isize,
            Err(error) => {
                errno = error.raw_os_error().unwrap_or(errno);
                return Err(Failure::failed(error));
            }
        }
        Ok(())
    });
    if code != EbbtideCode::EbbtideOk {
        // SAFETY: the thread's own.
        unsafe { *libc::__errno_location() = errno };
    }
    moved
}

/// As `read(2)`, to bytes of a region, which are in DRAM during the call. Moves at most 256 KiB.
/// Bytes outside of the region are passed on. A call that waits blocks its core. Returns -1 with
/// `errno` on failure; `EINVAL` if `ebbtide_error` has the reason.
///
/// # Safety
/// As `read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_region_read(
    region: *const EbbtideRegion,
    file: c_int,
    at: *mut c_void,
    bytes: usize,
) -> isize {
    // SAFETY: as the caller promises.
    unsafe { called(region, file, |region, file| region.read(file, at.cast(), bytes)) }
}

/// As `write(2)`, from bytes of a region; otherwise as `ebbtide_region_read`.
///
/// # Safety
/// As `write`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_region_write(
    region: *const EbbtideRegion,
    file: c_int,
    at: *const c_void,
    bytes: usize,
) -> isize {
    // SAFETY: as the caller promises.
    unsafe { called(region, file, |region, file| region.write(file, at.cast(), bytes)) }
}

/// As `recv(2)`, to bytes of a region; otherwise as `ebbtide_region_read`.
///
/// # Safety
/// As `recv`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_region_recv(
    region: *const EbbtideRegion,
    socket: c_int,
    at: *mut c_void,
    bytes: usize,
    flags: c_int,
) -> isize {
    // SAFETY: as the caller promises.
    unsafe { called(region, socket, |region, file| region.recv(file, at.cast(), bytes, flags)) }
}

/// As `send(2)`, from bytes of a region; otherwise as `ebbtide_region_read`.
///
/// # Safety
/// As `send`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_region_send(
    region: *const EbbtideRegion,
    socket: c_int,
    at: *const c_void,
    bytes: usize,
    flags: c_int,
) -> isize {
    // SAFETY: as the caller promises.
    unsafe { called(region, socket, |region, file| region.send(file, at.cast(), bytes, flags)) }
}
