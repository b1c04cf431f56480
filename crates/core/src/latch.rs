//! Latches in memory itself: the concurrency control that every structure over [`Memory`] uses.
//!
//! A latch is one 8-byte word inside the structure it protects, so that it moves with its page. It
//! is a lock and a version at once: [`write()`] excludes everyone, [`read`] only checks that no
//! writer came between. A fresh word of zeros is a free latch.
//!
//! Bit 0: held. Bit 1: somebody waits. Bits 2–63: how often it was written.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::addr::Addr;
use crate::memory::Memory;

const HELD: u64 = 1;
const WAITED: u64 = 2;
const VERSION: u64 = 4;

/// Runs `body` with the latch at `at` held.
///
/// When `body` unwinds (a device error, a panic) the latch is released and the unwinding goes on:
/// other jobs find what was stored so far, as they would after any write.
pub fn write<M: Memory, R>(memory: &mut M, at: Addr, body: impl FnOnce(&mut M) -> R) -> R {
    acquire(memory, at);
    // Nothing is shared through `body` but memory itself, whose words are valid at any moment.
    let result = catch_unwind(AssertUnwindSafe(|| body(memory)));
    release(memory, at);
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Runs `body` with two latches held, in the one order that cannot deadlock. They may be the same.
pub fn write_two<M: Memory, R>(
    memory: &mut M,
    one: Addr,
    other: Addr,
    body: impl FnOnce(&mut M) -> R,
) -> R {
    if one == other {
        return write(memory, one, body);
    }
    let (first, second) = if one < other { (one, other) } else { (other, one) };
    write(memory, first, |memory| write(memory, second, body))
}

/// Runs `body` until it saw what it reads without a writer in between, and gives its last result.
///
/// `body` may see half-written values meanwhile: it must not follow them blindly (a half-written
/// pointer may lead anywhere) and must have no effect but its result.
pub fn read<M: Memory, R>(memory: &mut M, at: Addr, mut body: impl FnMut(&mut M) -> R) -> R {
    loop {
        let before: u64 = memory.load(at);
        if before & HELD != 0 {
            wait_for_release(memory, at, before);
            continue;
        }
        let result = body(memory);
        // Somebody starting to wait sets a bit but changes nothing that was read.
        if memory.load::<u64>(at) & !WAITED == before & !WAITED {
            return result;
        }
    }
}

fn acquire<M: Memory>(memory: &mut M, at: Addr) {
    let mut seen: u64 = memory.load(at);
    loop {
        if seen & HELD != 0 {
            wait_for_release(memory, at, seen);
            seen = memory.load(at);
            continue;
        }
        match memory.compare_exchange(at, seen, seen | HELD) {
            Ok(_) => return,
            Err(found) => seen = found,
        }
    }
}

/// Marks the held latch as waited for, so that its holder wakes us, and waits.
fn wait_for_release<M: Memory>(memory: &mut M, at: Addr, seen: u64) {
    let waited = seen | WAITED;
    if seen == waited || memory.compare_exchange(at, seen, waited).is_ok() {
        memory.wait(at, waited);
    }
}

fn release<M: Memory>(memory: &mut M, at: Addr) {
    let mut seen: u64 = memory.load(at);
    loop {
        debug_assert!(seen & HELD != 0, "the latch at {at:?} is released by someone else");
        let free = (seen & !(HELD | WAITED)).wrapping_add(VERSION);
        match memory.compare_exchange(at, seen, free) {
            Ok(_) => break,
            Err(found) => seen = found,
        }
    }
    if seen & WAITED != 0 {
        memory.wake(at);
    }
}
