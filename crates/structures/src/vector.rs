//! [`Vector`]: a fixed number of values. Reads and writes of each value are atomic.
//!
//! Values of one word lie densely and change by compare-exchange. Wider values have a latch in
//! their own page, so that it costs no second miss. Such a page is one line of eight latches and 63
//! lines of values. Every eighth line shares a latch.

use std::marker::PhantomData;

use super::{LINE, PAGE, check_base, slot_bytes};
use crate::latch;
use ebbtide_core::Addr;
use ebbtide_core::{FullMemory, Value};

const LATCHES: u64 = LINE / 8;

/// A fixed number of values in memory, zero at first.
///
/// A value of 9 to 16 bytes takes 16 bytes, one of up to 32 bytes takes 32, a larger one takes 64.
/// Latches take one line in 64 where values are wider than a word.
#[derive(Debug, Clone, Copy)]
pub struct Vector<T> {
    base: Addr,
    len: u64,
    values: PhantomData<fn() -> T>,
}

impl<T: Value> Vector<T> {
    /// True if a value is one word, which never tears.
    const ONE_WORD: bool = slot_bytes::<T>() == 8;
    const SLOTS_PER_LINE: u64 = LINE / slot_bytes::<T>();
    const LATCH_LINES: u64 = if Self::ONE_WORD { 0 } else { 1 };
    const SLOTS_PER_PAGE: u64 = (PAGE / LINE - Self::LATCH_LINES) * Self::SLOTS_PER_LINE;

    /// Bytes that `len` values take, in whole pages.
    pub const fn bytes(len: u64) -> u64 {
        len.div_ceil(Self::SLOTS_PER_PAGE).saturating_mul(PAGE)
    }

    /// The vector of `len` values in the [`bytes`](Vector::bytes) from `base` on.
    ///
    /// # Panics
    /// If `base` is not the start of a page.
    pub fn at(base: Addr, len: u64) -> Vector<T> {
        check_base(base);
        Vector { base, len, values: PhantomData }
    }

    /// The number of values.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value at `index`.
    ///
    /// # Panics
    /// If `index` is [`len`](Vector::len) or more.
    #[inline]
    pub fn get<M: FullMemory>(&self, memory: &mut M, index: u64) -> T {
        let at = self.address(index);
        if Self::ONE_WORD {
            return bytemuck::cast(memory.load_checked(at));
        }
        latch::read(memory, latch_of(at), |memory| memory.load(at))
    }

    /// Sets the value at `index`.
    ///
    /// # Panics
    /// As [`get`](Vector::get).
    #[inline]
    pub fn set<M: FullMemory>(&self, memory: &mut M, index: u64, value: T) {
        let at = self.address(index);
        if Self::ONE_WORD {
            return memory.store(at, value);
        }
        latch::write(memory, latch_of(at), |memory| memory.store(at, value));
    }

    /// Replaces the value at `index` by `change` of it in one atomic step, and returns the new
    /// value. `change` may be called several times, if other jobs store at the same time.
    ///
    /// # Panics
    /// As [`get`](Vector::get), and when `change` panics. The value then stays as it is.
    #[inline]
    pub fn update<M: FullMemory>(
        &self,
        memory: &mut M,
        index: u64,
        mut change: impl FnMut(T) -> T,
    ) -> T {
        let at = self.address(index);
        if Self::ONE_WORD {
            return update_word(memory, at, |word| {
                bytemuck::cast(change(bytemuck::cast::<u64, T>(word)))
            });
        }
        latch::write(memory, latch_of(at), |memory| {
            let value = change(memory.load(at));
            memory.store(at, value);
            value
        })
    }

    #[inline]
    fn address(&self, index: u64) -> Addr {
        assert!(index < self.len, "index {index} of a vector of {} values", self.len);
        let (page, slot) = (index / Self::SLOTS_PER_PAGE, index % Self::SLOTS_PER_PAGE);
        let line = Self::LATCH_LINES + slot / Self::SLOTS_PER_LINE;
        let in_line = slot % Self::SLOTS_PER_LINE * slot_bytes::<T>();
        self.base + page * PAGE + line * LINE + in_line
    }
}

/// The latch that guards the value at `at`, in the first line of its page.
#[inline]
fn latch_of(at: Addr) -> Addr {
    at.page().start() + at.0 / LINE % LATCHES * 8
}

/// Changes a word in one atomic step and returns the result of `change`.
#[inline]
pub(super) fn update_word<M: FullMemory, T: Value>(
    memory: &mut M,
    at: Addr,
    mut change: impl FnMut(u64) -> T,
) -> T {
    let mut seen: u64 = memory.load(at);
    loop {
        let changed = change(seen);
        match memory.compare_exchange(at, seen, bytemuck::cast(changed)) {
            Ok(_) => return changed,
            Err(found) => seen = found,
        }
    }
}
