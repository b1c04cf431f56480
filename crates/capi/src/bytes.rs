//! Bytes of any length as they cross the interface.

use std::ffi::c_void;
use std::ptr::null;
use std::slice;

use crate::code::{Failure, given};

/// Bytes that the library owns.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct EbbtideBytes {
    /// The first byte; null if there is no value.
    pub data: *const u8,
    /// Number of bytes.
    pub size: usize,
}

impl EbbtideBytes {
    pub(crate) fn of(bytes: Option<&[u8]>) -> EbbtideBytes {
        bytes.map_or(EbbtideBytes { data: null(), size: 0 }, |bytes| EbbtideBytes {
            data: bytes.as_ptr(),
            size: bytes.len(),
        })
    }
}

/// The bytes that a caller gives.
///
/// # Safety
/// `data` has `size` bytes, or is null and `size` is 0.
pub(crate) unsafe fn bytes<'a>(
    name: &str,
    data: *const c_void,
    size: usize,
) -> Result<&'a [u8], Failure> {
    if size == 0 {
        return Ok(&[]);
    }
    given(name, data)?;
    if isize::try_from(size).is_err() {
        return Err(Failure::input(format!("{name} has {size} bytes, more than memory can have")));
    }
    // SAFETY: as the caller promises, and the size is that of an object.
    Ok(unsafe { slice::from_raw_parts(data.cast(), size) })
}

/// Frees a value that `ebbtide_map_get` gave.
///
/// # Safety
/// `value` is as `ebbtide_map_get` has set it, and was not freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_bytes_free(value: EbbtideBytes) {
    if !value.data.is_null() {
        let value = std::ptr::slice_from_raw_parts_mut(value.data.cast_mut(), value.size);
        // SAFETY: it is a box that `ebbtide_map_get` has leaked.
        drop(unsafe { Box::from_raw(value) });
    }
}
