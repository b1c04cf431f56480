//! Prefetches memory that will be used soon into the core's caches.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};

use ebbtide_core::LINE_BYTES;

/// Brings the line at `at` closer. Any address will do.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    // SAFETY: a prefetch changes nothing and faults nowhere.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

/// Prefetches the cache lines of the `bytes` bytes from `at` on.
#[inline(always)]
pub(crate) fn prefetch_bytes(at: *const u8, bytes: usize) {
    (0..bytes).step_by(LINE_BYTES).for_each(|offset| prefetch(at.wrapping_add(offset)));
}
