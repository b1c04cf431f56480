//! Latches in memory itself: the concurrency control that every structure over [`Memory`] uses.
//!
//! A latch is one 8-byte word inside the structure it protects, so that it moves with its page. It
//! is a lock and a version at once: [`write()`] excludes everyone, [`read`] only checks that no
//! writer came between. A fresh word of zeros is a free latch.
//!
//! Bit 0: held. Bit 1: somebody waits. Bits 2–63: how often it was written.
//!
//! The page of a held latch may leave DRAM, and then fail to be read back. A release is therefore
//! tried several times before it is given up with the device's error. After that the latch stays
//! held: everyone who waits for it is woken and meets the error of that page for himself, as does
//! whoever comes later. (Should the device give the page back after all, they wait for ever: what
//! the page holds is then not known to be whole.)

use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ebbtide_core::{Addr, Memory};

use crate::retry::retry_faults;

const HELD: u64 = 1;
const WAITED: u64 = 2;
const VERSION: u64 = 4;

/// Runs `body` with the latch at `at` held; see [`write_all`].
#[inline]
pub fn write<M: Memory, R>(memory: &mut M, at: Addr, body: impl FnOnce(&mut M) -> R) -> R {
    write_all(memory, &[at], body)
}

/// Runs `body` with two latches held, in the one order that cannot deadlock. They may be the same.
pub fn write_two<M: Memory, R>(
    memory: &mut M,
    one: Addr,
    other: Addr,
    body: impl FnOnce(&mut M) -> R,
) -> R {
    match one.cmp(&other) {
        Ordering::Less => write_all(memory, &[one, other], body),
        Ordering::Equal => write(memory, one, body),
        Ordering::Greater => write_all(memory, &[other, one], body),
    }
}

/// Runs `body` with all of `latches` held, which are in the order of their addresses, each once:
/// the one order that cannot deadlock. However many they are, the job's stack holds one frame.
///
/// When `body` or the taking of a latch unwinds (a device error, a panic) the latches are released
/// and the unwinding goes on: other jobs find what was stored so far, as they would after any
/// write.
///
/// A latch that cannot be released because its page cannot be had back ends the job with that
/// error, even though all of `body` was done; see the [module](self) for what becomes of the latch.
#[inline]
pub fn write_all<M: Memory, R>(
    memory: &mut M,
    latches: &[Addr],
    body: impl FnOnce(&mut M) -> R,
) -> R {
    debug_assert!(latches.is_sorted_by(|one, next| one < next), "{latches:?}");
    let mut held = 0;
    // Nothing is shared through `body` but memory itself, whose words are valid at any moment.
    let mut result = catch_unwind(AssertUnwindSafe(|| {
        for &at in latches {
            acquire(memory, at);
            held += 1;
        }
        body(memory)
    }));
    for &at in latches[..held].iter().rev() {
        let released = release(memory, at);
        // What went wrong first is what the job is told.
        result = result.and_then(|result| released.map(|()| result));
    }
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Runs `body` until it saw what it reads without a writer in between, and gives its last result.
///
/// `body` may see half-written values meanwhile: it must not follow them blindly (a half-written
/// pointer may lead anywhere) and must have no effect but its result.
#[inline]
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

/// Releases the held latch.
///
/// # Errors
/// The payload of the fault, when the device keeps failing to return the latch's page.
fn release<M: Memory>(memory: &mut M, at: Addr) -> std::thread::Result<()> {
    retry_faults(|| try_release(memory, at)).inspect_err(|_| memory.wake(at))
}

fn try_release<M: Memory>(memory: &mut M, at: Addr) {
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
