//! [`Vector`]: a fixed number of values, each of which changes as a whole.
//!
//! Values of one word lie densely and are exchanged in one atomic step. Wider ones need a latch,
//! which is in their own page, so that it costs no second miss: a page is one line of eight latches
//! and 63 lines of values, and every eighth line shares a latch.

use std::marker::PhantomData;

use super::{LINE, PAGE, check_base, slot_bytes};
use crate::latch;
use ebbtide_core::Addr;
use ebbtide_core::{Memory, Value};

const LATCHES: u64 = LINE / 8;

/// A fixed number of values in memory, all zeros at first.
///
/// A value of 9 to 16 bytes takes up 16, up to 32 bytes 32, else 64; the latches of values wider
/// than a word take up another 64th.
#[derive(Debug, Clone, Copy)]
pub struct Vector<T> {
    base: Addr,
    len: u64,
    values: PhantomData<fn() -> T>,
}

impl<T: Value> Vector<T> {
    /// Whether a value is one word, which never tears.
    const ONE_WORD: bool = slot_bytes::<T>() == 8;
    const SLOTS_PER_LINE: u64 = LINE / slot_bytes::<T>();
    const LATCH_LINES: u64 = if Self::ONE_WORD { 0 } else { 1 };
    const SLOTS_PER_PAGE: u64 = (PAGE / LINE - Self::LATCH_LINES) * Self::SLOTS_PER_LINE;

    /// Bytes that `len` values take up, in whole pages.
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

    /// How many values there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value at `index`.
    ///
    /// # Panics
    /// If there is none: `index` is [`len`](Vector::len) or more.
    #[inline]
    pub fn get<M: Memory>(&self, memory: &mut M, index: u64) -> T {
        let at = self.address(index);
        if Self::ONE_WORD {
            return memory.load(at);
        }
        latch::read(memory, latch_of(at), |memory| memory.load(at))
    }

    /// Makes `value` the value at `index`.
    ///
    /// # Panics
    /// As [`get`](Vector::get).
    #[inline]
    pub fn set<M: Memory>(&self, memory: &mut M, index: u64, value: T) {
        let at = self.address(index);
        if Self::ONE_WORD {
            return memory.store(at, value);
        }
        latch::write(memory, latch_of(at), |memory| memory.store(at, value));
    }

    /// Makes what `change` makes of the value at `index` its new value, which is given back. Nobody
    /// else's change is lost in between: `change` may be called again, with what another job stored
    /// meanwhile.
    ///
    /// # Panics
    /// As [`get`](Vector::get); and when `change` does, in which case the value stays as it is.
    #[inline]
    pub fn update<M: Memory>(
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

/// Changes a word in one atomic step; gives what `change` made of it.
#[inline]
pub(super) fn update_word<M: Memory, T: Value>(
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
