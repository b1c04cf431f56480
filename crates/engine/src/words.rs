//! Words in memory: the one place where values are read from and written to raw memory.
//!
//! Every access is made of 8-byte atomics. A load is relaxed and followed by an acquire fence, a
//! store preceded by a release fence: on x86-64 both are plain moves, and races between jobs are
//! defined behaviour everywhere.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use ebbtide_core::{LINE_BYTES, Value};

/// The value at `at`.
///
/// # Safety
/// `at` is aligned to 8 and `size_of::<T>()` bytes from it are mapped, and are only ever accessed
/// through this module while they are shared.
#[inline(always)]
pub(crate) unsafe fn load<T: Value>(at: *const u8) -> T {
    let words = at.cast::<AtomicU64>();
    let mut value = [0u64; LINE_BYTES / 8];
    for (index, word) in value.iter_mut().enumerate().take(size_of::<T>() / 8) {
        // SAFETY: within the value, as the caller promises.
        *word = unsafe { (*words.add(index)).load(Ordering::Relaxed) };
    }
    fence(Ordering::Acquire);
    bytemuck::pod_read_unaligned(&bytemuck::bytes_of(&value)[..size_of::<T>()])
}

/// Stores `value` at `at`.
///
/// # Safety
/// As for [`load`].
#[inline(always)]
pub(crate) unsafe fn store<T: Value>(at: *mut u8, value: T) {
    let words = at.cast::<AtomicU64>();
    let bytes = bytemuck::bytes_of(&value);
    fence(Ordering::Release);
    for index in 0..size_of::<T>() / 8 {
        let word = bytemuck::pod_read_unaligned(&bytes[index * 8..index * 8 + 8]);
        // SAFETY: within the value, as the caller promises.
        unsafe { (*words.add(index)).store(word, Ordering::Relaxed) };
    }
}

/// Stores `new` in the word at `at` if it is `current`; gives the word found.
///
/// # Safety
/// As for [`load`] of a `u64`.
#[inline(always)]
pub(crate) unsafe fn compare_exchange(at: *mut u8, current: u64, new: u64) -> Result<u64, u64> {
    // SAFETY: the caller's promise is this one.
    let word = unsafe { &*at.cast::<AtomicU64>() };
    word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
}

/// Instructions in one turn of [`execute`]'s loop: six of the generator and two of the loop.
const INSTRUCTIONS_PER_TURN: u64 = 8;

/// Executes about `instructions` simple dependent instructions, for real.
pub(crate) fn execute(instructions: u64) {
    let mut state = black_box(0x9e37_79b9_7f4a_7c15u64);
    for _ in 0..instructions / INSTRUCTIONS_PER_TURN {
        // An xorshift generator: no compiler finds a closed form for it.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}
