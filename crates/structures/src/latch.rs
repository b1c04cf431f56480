//! Latches that lie in memory: the concurrency control of the structures over [`Memory`].
//!
//! A latch is one 8-byte word inside the structure it protects, so it moves with its page. It is a
//! lock and a version at once: [`write()`] excludes all other jobs, [`read`] only checks that no
//! writer intervened. A word of zeros is a free latch.
//!
//! Bit 0: held. Bit 1: a job waits. Bits 2–63: the number of writes.
//!
//! The page of a held latch may leave DRAM, and the device may then fail to read it back. A release
//! is therefore tried eight times. If all attempts fail, the job ends with the device's error and
//! the latch stays held. Jobs that wait for it are woken and meet the error of that page, as do
//! later jobs. If the device returns the page after all, these jobs wait for ever, since the page
//! may be half written.

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

/// Runs `body` with two latches held, which may be the same. They are taken in the order of their
/// addresses, which cannot deadlock.
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

/// Runs `body` with all of `latches` held. They must be sorted by address without duplicates, an
/// order that cannot deadlock. Any number of latches takes one frame of the job's stack.
///
/// When `body` or the taking of a latch unwinds (a device error, a panic), the latches are released
/// and the unwinding continues. Other jobs then find what was stored so far.
///
/// When the device does not return the page of a latch, the job ends with that error although
/// `body` is done. The [module](self) says what happens to the latch.
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
        // The job ends with the first error.
        result = result.and_then(|result| released.map(|()| result));
    }
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Runs `body` until no writer intervened, and returns the result of its last run.
///
/// `body` may read half-written values. It must check a pointer before it follows it, and have no
/// effect but its result.
#[inline]
pub fn read<M: Memory, R>(memory: &mut M, at: Addr, mut body: impl FnMut(&mut M) -> R) -> R {
    loop {
        let before: u64 = memory.load(at);
        if before & HELD != 0 {
            wait_for_release(memory, at, before);
            continue;
        }
        let result = body(memory);
        // A job that starts to wait sets a bit and changes nothing that was read.
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

/// Marks the held latch as waited for, so that its holder wakes this job, and waits.
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
