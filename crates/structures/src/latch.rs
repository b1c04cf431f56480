//! Latches that lie in memory: the concurrency control of the structures over [`FullMemory`].
//!
//! A latch is one 8-byte word inside the structure it protects, so it moves with its page. It is a
//! lock and a version at once: [`write()`] excludes all other jobs, [`read`] only checks that no
//! writer intervened. A reader that writers disturb eight times takes the latch, so that it ends. A
//! word of zeros is a free latch.
//!
//! Bit 0: held. Bit 1: a job waits. Bits 2–17: the boot ([`FullMemory::boot`]) when it was last
//! taken. Bits 18–63: the number of writes. A latch that was held when a durable store went down is
//! free: its boot is over.
//!
//! Inside a [transaction](ebbtide_core::Memory::transaction), a latch that is taken stays held
//! until the stores have taken effect. Words that were read under a latch are checked again before
//! that. A transaction may have to wait for a latch out of the order of addresses. It then releases
//! those it holds, waits and begins again. After eight such runs it takes latches to read as well,
//! so that it ends even if others write often.
//!
//! The page of a held latch may leave DRAM, and the device may then fail to read it back. A release
//! is therefore tried eight times. If all attempts fail, the job ends with the device's error and
//! the latch stays held. Jobs that wait for it are woken and meet the error of that page, as do
//! later jobs. If the device returns the page after all, these jobs wait for ever, since the page
//! may be half written.

use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use ebbtide_core::durability::{Changed, Rerun};
use ebbtide_core::{Addr, FullMemory};

use crate::retry::retry_faults;

const HELD: u64 = 1;
const WAITED: u64 = 2;
const BOOT_SHIFT: u32 = 2;
const BOOT: u64 = 0xffff << BOOT_SHIFT;
const VERSION: u64 = 1 << 18;

/// How many times a reader tries without the latch.
const OPTIMISTIC_READS_MAX: u32 = 8;

/// The bits of the present boot.
fn boot_bits<M: FullMemory>(memory: &M) -> u64 {
    (u64::from(memory.boot()) << BOOT_SHIFT) & BOOT
}

/// Returns true if a latch with the word `seen` is held.
fn is_held<M: FullMemory>(memory: &M, seen: u64) -> bool {
    seen & HELD != 0 && seen & BOOT == boot_bits(memory)
}

/// Runs `body` with the latch at `at` held; see [`write_all`].
#[inline]
pub fn write<M: FullMemory, R>(memory: &mut M, at: Addr, body: impl FnOnce(&mut M) -> R) -> R {
    write_all(memory, &[at], body)
}

/// Runs `body` with two latches held, which may be the same. They are taken in the order of their
/// addresses, which cannot deadlock.
pub fn write_two<M: FullMemory, R>(
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
/// If `body` or the taking of a latch unwinds (a device error, a panic), the latches are released
/// and the unwinding continues. Other jobs then find the stores made so far.
///
/// If the device does not return the page of a latch, the job ends with that error although `body`
/// is done. The [module](self) describes the state of the latch then.
#[inline]
pub fn write_all<M: FullMemory, R>(
    memory: &mut M,
    latches: &[Addr],
    body: impl FnOnce(&mut M) -> R,
) -> R {
    debug_assert!(latches.is_sorted_by(|one, next| one < next), "{latches:?}");
    acquire_all(memory, latches);
    run_held(memory, latches, body)
}

/// Takes `latches` in their order. If that unwinds, releases those it has taken.
fn acquire_all<M: FullMemory>(memory: &mut M, latches: &[Addr]) {
    let mut held = 0;
    let taken = catch_unwind(AssertUnwindSafe(|| {
        for &at in latches {
            acquire(memory, at);
            held += 1;
        }
    }));
    if let Err(payload) = taken {
        // The job ends with the first error.
        let _later = release_all(memory, &latches[..held]);
        resume_unwind(payload);
    }
}

/// Runs `body` until no writer intervened, and returns the result of its last run. After eight
/// failed runs it takes the latch.
///
/// `body` may read half-written values. It must check a pointer before it follows it, and have no
/// effect but its result.
#[inline]
pub fn read<M: FullMemory, R>(memory: &mut M, at: Addr, mut body: impl FnMut(&mut M) -> R) -> R {
    if let Some(latches) = memory.latches() {
        if latches.holds(at) {
            return body(memory);
        }
        if latches.reads_take() {
            return write(memory, at, body);
        }
    }
    for _ in 0..OPTIMISTIC_READS_MAX {
        let before = memory.load_latch(at);
        if is_held(memory, before) {
            wait_for_release(memory, at, before);
            continue;
        }
        if let Some(latches) = memory.latches() {
            // Checked again when the transaction commits, so that all it has read is of one moment.
            latches.note_read(at, before & !WAITED);
        }
        let result = body(memory);
        if is_unchanged(memory.load_latch(at), before) {
            return result;
        }
    }
    write(memory, at, body)
}

fn acquire<M: FullMemory>(memory: &mut M, at: Addr) {
    if memory.latches().is_some_and(|latches| latches.holds(at)) {
        return;
    }
    let mut seen = memory.load_latch(at);
    loop {
        if is_held(memory, seen) {
            wait_for_release(memory, at, seen);
            seen = memory.load_latch(at);
            continue;
        }
        match take(memory, at, seen) {
            Ok(()) => return,
            Err(found) => seen = found,
        }
    }
}

/// Takes the latch at `at`, if its word is still `seen`, which must be a free one.
///
/// # Errors
/// The word that is there instead.
fn take<M: FullMemory>(memory: &mut M, at: Addr, seen: u64) -> Result<(), u64> {
    if let Some(latches) = memory.latches()
        && let Some(read) = latches.first_read(at)
        && !is_unchanged(seen, read)
    {
        // A word that the transaction has read under it has changed. Nothing is taken. A release
        // would be a change to all others, and each could make the next one run again for ever.
        latches.run_again(Rerun::Changed(Changed { at, read, found: seen }));
    }
    let taken = seen & !(BOOT | WAITED) | boot_bits(memory) | HELD;
    // Jobs wait only in this boot.
    let taken = if seen & BOOT == boot_bits(memory) { taken | seen & WAITED } else { taken };
    memory.exchange_latch(at, seen, taken)?;
    if let Some(latches) = memory.latches() {
        latches.take(at);
    }
    Ok(())
}

/// Returns true if the transaction under way holds the latch at `at`.
fn is_own<M: FullMemory>(memory: &mut M, at: Addr) -> bool {
    memory.latches().is_some_and(|latches| latches.holds(at))
}

/// Returns the word of the latch at `at` as soon as no other job holds it. From the word,
/// [`read_if`] and [`write_if`] can tell a later write under the latch.
pub(crate) fn word<M: FullMemory>(memory: &mut M, at: Addr) -> u64 {
    loop {
        let seen = memory.load_latch(at);
        if !is_held(memory, seen) || is_own(memory, at) {
            return seen;
        }
        wait_for_release(memory, at, seen);
    }
}

/// True if no job has written under the latch at `at` since its word was `word`.
pub(crate) fn is_still<M: FullMemory>(memory: &mut M, at: Addr, word: u64) -> bool {
    is_unchanged(memory.load_latch(at), word)
}

/// Runs `body`, as [`read`] does, once. `None` if a job has written under the latch since its word
/// was `word`.
pub(crate) fn read_if<M: FullMemory, R>(
    memory: &mut M,
    at: Addr,
    word: u64,
    body: impl FnOnce(&mut M) -> R,
) -> Option<R> {
    let result = body(memory);
    if !is_still(memory, at, word) {
        return None;
    }
    if !is_own(memory, at)
        && let Some(latches) = memory.latches()
    {
        latches.note_read(at, word);
    }
    Some(result)
}

/// Runs `body` with the latch held, unless a job has written under it since its word was `word`.
/// Never waits.
pub(crate) fn write_if<M: FullMemory, R>(
    memory: &mut M,
    at: Addr,
    word: u64,
    body: impl FnOnce(&mut M) -> R,
) -> Option<R> {
    acquire_if(memory, at, word).then(|| run_held(memory, &[at], body))
}

/// Runs `body` with all of `latches` held, in any order. `None` if another job holds one. Never
/// waits.
pub(crate) fn try_write_all<M: FullMemory, R>(
    memory: &mut M,
    latches: &[Addr],
    body: impl FnOnce(&mut M) -> R,
) -> Option<R> {
    for (held, &at) in latches.iter().enumerate() {
        let seen = memory.load_latch(at);
        let free = !is_held(memory, seen) || is_own(memory, at);
        if !free || !acquire_if(memory, at, seen) {
            run_held(memory, &latches[..held], |_| ());
            return None;
        }
    }
    Some(run_held(memory, latches, body))
}

/// Runs `body` with those `latches` held that are free, and passes them to it. Never waits.
pub(crate) fn write_free<M: FullMemory, R>(
    memory: &mut M,
    latches: &[Addr],
    body: impl FnOnce(&mut M, &[Addr]) -> R,
) -> R {
    let mut held = Vec::with_capacity(latches.len());
    for &at in latches {
        let seen = memory.load_latch(at);
        if (!is_held(memory, seen) || is_own(memory, at)) && acquire_if(memory, at, seen) {
            held.push(at);
        }
    }
    run_held(memory, &held, |memory| body(memory, &held))
}

/// Runs `body`, which writes a page that no other job can reach yet, with the page's latch held.
/// The latch begins anew with `version`, so its words differ from those of the page's earlier uses.
pub(crate) fn write_new<M: FullMemory, R>(
    memory: &mut M,
    at: Addr,
    version: u64,
    body: impl FnOnce(&mut M) -> R,
) -> R {
    if is_own(memory, at) {
        return body(memory);
    }
    loop {
        let seen = word(memory, at);
        let begun = version & !(VERSION - 1);
        if memory.exchange_latch(at, seen, begun).is_ok() && acquire_if(memory, at, begun) {
            return run_held(memory, &[at], body);
        }
    }
}

/// Takes the latch at `at` if its word is still `word`. Returns true if it did.
fn acquire_if<M: FullMemory>(memory: &mut M, at: Addr, word: u64) -> bool {
    if is_own(memory, at) {
        return true;
    }
    let mut seen = word;
    while let Err(found) = take(memory, at, seen) {
        if !is_unchanged(found, word) {
            return false;
        }
        seen = found;
    }
    true
}

/// Runs `body` and releases `held` latches, also if it unwinds.
fn run_held<M: FullMemory, R>(memory: &mut M, held: &[Addr], body: impl FnOnce(&mut M) -> R) -> R {
    // `body` shares nothing but memory itself, whose words are valid at any moment.
    let result = catch_unwind(AssertUnwindSafe(|| body(memory)));
    let released = release_all(memory, held);
    // The job ends with the first error.
    match result.and_then(|result| released.map(|()| result)) {
        Ok(result) => result,
        Err(payload) => resume_unwind(payload),
    }
}

/// Releases latches, the last one first.
///
/// # Errors
/// The payload of the first release that unwinds. The others are released all the same.
fn release_all<M: FullMemory>(memory: &mut M, held: &[Addr]) -> thread::Result<()> {
    let mut result = Ok(());
    for &at in held.iter().rev() {
        let released = release(memory, at);
        result = result.and(released);
    }
    result
}

/// Waits until the latch at `at` was free at some moment.
pub fn wait_until_free<M: FullMemory>(memory: &mut M, at: Addr) {
    loop {
        let seen = memory.load_latch(at);
        if !is_held(memory, seen) {
            return;
        }
        wait_for_release(memory, at, seen);
    }
}

/// Returns true if no job has written under a latch whose word was `seen` and is `now`. A job that
/// starts to wait sets a bit and changes nothing that was read.
pub fn is_unchanged(now: u64, seen: u64) -> bool {
    now & !WAITED == seen & !WAITED
}

/// Releases a latch that a transaction has taken, after the transaction. Only memories call this.
///
/// # Panics
/// With the device's error, when it keeps failing to return the latch's page.
pub fn release_taken<M: FullMemory>(memory: &mut M, at: Addr) {
    release(memory, at).unwrap_or_else(|payload| resume_unwind(payload));
}

/// Marks the held latch as waited for, so that its holder wakes this job, and waits.
fn wait_for_release<M: FullMemory>(memory: &mut M, at: Addr, seen: u64) {
    if let Some(latches) = memory.latches()
        && latches.may_not_wait_for(at)
    {
        latches.run_again(Rerun::Waits(at));
    }
    let waited = seen | WAITED;
    if seen == waited || memory.exchange_latch(at, seen, waited).is_ok() {
        memory.wait(at, waited);
    }
}

/// Releases the held latch.
///
/// # Errors
/// The payload of the fault, when the device keeps failing to return the latch's page.
fn release<M: FullMemory>(memory: &mut M, at: Addr) -> thread::Result<()> {
    if memory.latches().is_some_and(|latches| latches.holds(at)) {
        // When the transaction is over.
        return Ok(());
    }
    retry_faults(|| try_release(memory, at)).inspect_err(|_| memory.wake(at))
}

fn try_release<M: FullMemory>(memory: &mut M, at: Addr) {
    let mut seen = memory.load_latch(at);
    loop {
        debug_assert!(seen & HELD != 0, "the latch at {at:?} was released by another job");
        let free = (seen & !(HELD | WAITED)).wrapping_add(VERSION);
        match memory.exchange_latch(at, seen, free) {
            Ok(_) => break,
            Err(found) => seen = found,
        }
    }
    if seen & WAITED != 0 {
        memory.wake(at);
    }
}
