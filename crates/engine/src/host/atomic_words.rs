//! Words in memory. The only module that reads and writes values in raw memory.
//!
//! Every access consists of 8-byte atomics. A load is relaxed and followed by an acquire fence. A
//! store is preceded by a release fence. On x86-64 both are plain moves. Races between jobs are
//! defined behaviour on every architecture.

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

/// Stores `new` in the word at `at` if the word is `current`. Returns the word found.
///
/// # Safety
/// As for [`load`] of a `u64`.
#[inline(always)]
pub(crate) unsafe fn compare_exchange(at: *mut u8, current: u64, new: u64) -> Result<u64, u64> {
    // SAFETY: the caller's promise is this one.
    let word = unsafe { &*at.cast::<AtomicU64>() };
    word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
}

/// Copies the bytes from `from` on, which need no alignment, into `into`.
///
/// # Safety
/// The words that the range touches are mapped, and are only ever accessed through this module
/// while they are shared.
pub(crate) unsafe fn copy_out(from: *const u8, into: &mut [u8]) {
    // A part of a word, which the caller's range touches.
    let part = |from: *const u8, into: &mut [u8]| {
        // SAFETY: the word is in the range, whose words are mapped.
        let (word, first) = unsafe { word_of(from) };
        let bytes = word.load(Ordering::Relaxed).to_ne_bytes();
        into.copy_from_slice(&bytes[first..first + into.len()]);
    };
    let before = ((from as usize).wrapping_neg() % 8).min(into.len());
    let (first, rest) = into.split_at_mut(before);
    if !first.is_empty() {
        part(from, first);
    }
    let mut from = from.wrapping_add(before);
    let (words, last) = rest.as_chunks_mut::<8>();
    for into in words {
        // SAFETY: aligned, and within the range, whose words are mapped.
        let word = unsafe { &*from.cast::<AtomicU64>() };
        *into = word.load(Ordering::Relaxed).to_ne_bytes();
        from = from.wrapping_add(8);
    }
    if !last.is_empty() {
        part(from, last);
    }
    fence(Ordering::Acquire);
}

/// Copies `from` to the bytes from `to` on. `to` needs no alignment. Other bytes of the same words
/// keep their values, also bytes that another thread stores at the same time.
///
/// # Safety
/// As for [`copy_out`].
pub(crate) unsafe fn copy_in(to: *mut u8, from: &[u8]) {
    fence(Ordering::Release);
    let mut done = 0;
    while done < from.len() {
        // SAFETY: within the range, whose words are mapped.
        let (word, first) = unsafe { word_of(to.add(done)) };
        let count = (8 - first).min(from.len() - done);
        let piece = &from[done..done + count];
        if let Ok(whole) = <[u8; 8]>::try_from(piece) {
            word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
        } else {
            let changed = |old: u64| {
                let mut bytes = old.to_ne_bytes();
                bytes[first..first + count].copy_from_slice(piece);
                Some(u64::from_ne_bytes(bytes))
            };
            let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
        }
        done += count;
    }
}

/// The word that the byte at `at` is in, and its place in it.
///
/// # Safety
/// That word is mapped, and accessed as [`copy_out`] says, for as long as the reference is used.
unsafe fn word_of<'a>(at: *const u8) -> (&'a AtomicU64, usize) {
    let first = at as usize % 8;
    // SAFETY: aligned to 8 by construction; the caller promises the rest.
    (unsafe { &*at.sub(first).cast::<AtomicU64>() }, first)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A line's worth of memory, aligned as pages are.
    #[repr(align(64))]
    struct Line([AtomicU64; LINE_BYTES / 8]);

    fn line() -> Line {
        Line(std::array::from_fn(|index| AtomicU64::new(index as u64)))
    }

    fn contents(line: &Line) -> [u64; LINE_BYTES / 8] {
        std::array::from_fn(|index| line.0[index].load(Ordering::Relaxed))
    }

    fn start(line: &Line) -> *mut u8 {
        line.0.as_ptr().cast_mut().cast()
    }

    #[test]
    fn values_of_every_size_come_back_and_touch_nothing_else() {
        let line = line();
        // SAFETY: within the line, aligned to words. Only this module accesses it during the test.
        unsafe {
            assert_eq!(load::<[u64; 8]>(start(&line)), [0, 1, 2, 3, 4, 5, 6, 7]);
            store(start(&line).add(8), [10u64, 20]);
            assert_eq!(load::<[u64; 2]>(start(&line).add(8)), [10, 20]);
            store(start(&line).add(56), u64::MAX);
            assert_eq!(load::<i64>(start(&line).add(56)), -1);
        }
        assert_eq!(contents(&line), [0, 10, 20, 3, 4, 5, 6, u64::MAX]);
    }

    #[test]
    fn an_exchange_takes_place_only_when_the_word_is_as_expected() {
        let line = line();
        // SAFETY: as above.
        unsafe {
            assert_eq!(compare_exchange(start(&line).add(24), 3, 33), Ok(3));
            assert_eq!(compare_exchange(start(&line).add(24), 3, 34), Err(33));
        }
        assert_eq!(contents(&line)[3], 33);
    }

    /// A thread that loads a new word also sees every earlier store.
    #[test]
    fn stores_are_seen_in_order_by_another_thread() {
        const ROUNDS: u64 = if cfg!(miri) { 50 } else { 100_000 };
        let line = line();
        let shared = &line;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for round in 10..10 + ROUNDS {
                    // SAFETY: as above, from two threads, as words.
                    unsafe {
                        store(start(shared), round);
                        store(start(shared).add(8), round);
                    }
                }
            });
            let mut second = 0;
            while second < 9 + ROUNDS {
                // SAFETY: as above.
                unsafe {
                    second = load::<u64>(start(shared).add(8));
                    assert!(second < 10 || load::<u64>(start(shared)) >= second);
                }
                std::hint::spin_loop();
            }
        });
    }
}
