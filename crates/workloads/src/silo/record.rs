//! A record in memory: reading it without a lock, locking it and writing it.
//!
//! The first line is `{version and lock, key, 5 words of the row, checksum}`, every further one `{7
//! words of the row, checksum}`. A checksum covers the record's version and its own line, so lines
//! that match the version in the first word were written together. One look at each line reads a
//! whole record. A record with one page out of date does not match. An absent record has its first
//! line only.
//!
//! The lock works like a [`latch`](ebbtide_structures::latch): it moves with the record's page, and
//! a waiter lets other jobs run. A lock whose page the device does not return stays held, and jobs
//! that wait for it meet that page's error.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ebbtide_core::{Addr, FullMemory, LINE_BYTES};

use super::tid::{Tid, TidWord};
use crate::Corrupt;
use ebbtide_structures::checksum::{Checksums, RECORD_OFFSET, RecordWords, mismatch};
use ebbtide_structures::image::Line;
use ebbtide_structures::retry::retry_faults;

/// Words of the row in the first line.
const HEAD_WORDS: usize = 5;

/// Words of the row in every further line.
const BODY_WORDS: usize = 7;

/// Returns the lines of a record with a row of `words` words.
pub(super) const fn lines_of(words: usize) -> usize {
    (words + BODY_WORDS - HEAD_WORDS).div_ceil(BODY_WORDS)
}

/// A record's version and key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub tid: Tid,
    pub key: u64,
}

/// Checks the address that an index has for a record with a row of `words` words.
///
/// # Errors
/// [`Corrupt`] when no record can lie there.
pub(super) fn address<M: FullMemory>(memory: &M, at: u64, words: usize) -> Result<Addr, Corrupt> {
    let end = at.checked_add((lines_of(words) * LINE_BYTES) as u64);
    let is_inside = end.is_some_and(|end| end <= memory.size_bytes());
    match at.is_multiple_of(LINE_BYTES as u64) && is_inside {
        true => Ok(Addr(at)),
        false => Err(Corrupt(format!("an index leads to {:?}, where no record can be", Addr(at)))),
    }
}

/// Reads the record at `at`, and its row into `row` if it is present, while other jobs may write
/// it.
///
/// The record is whole, as some transaction wrote it; it may be outdated by now.
///
/// # Errors
/// [`Corrupt`] if there is no record.
pub(super) fn read<M: FullMemory>(
    memory: &mut M,
    checksums: Checksums,
    at: Addr,
    row: &mut [u64],
) -> Result<Head, Corrupt> {
    loop {
        let before = TidWord(memory.load(at));
        if before.is_locked() {
            wait_for_release(memory, at, before);
            continue;
        }
        if let Some(head) = read_version(memory, checksums, at, before.tid(), row) {
            return Ok(head);
        }
        // The record was torn by a writer or is wrong. A writer leaves a higher version.
        let after = TidWord(memory.load(at));
        if !after.is_locked() && after.tid() == before.tid() {
            return Err(mismatch(at));
        }
    }
}

/// The record at `at`, if all its lines are of version `tid`. `row` may be shorter than the
/// record's; lines beyond it are not read.
pub(super) fn read_version<M: FullMemory>(
    memory: &mut M,
    checksums: Checksums,
    at: Addr,
    tid: Tid,
    row: &mut [u64],
) -> Option<Head> {
    let [_, key, a, b, c, d, e, checksum] = memory.line(at);
    if checksums.of(at, &[tid.bits(), key, a, b, c, d, e]) != checksum {
        return None;
    }
    if !tid.is_absent() {
        let (head, body) = row.split_at_mut(row.len().min(HEAD_WORDS));
        head.copy_from_slice(&[a, b, c, d, e][..head.len()]);
        for (at, words) in body_lines(at).zip(body.chunks_mut(BODY_WORDS)) {
            let [a, b, c, d, e, f, g, checksum] = memory.line(at);
            if checksums.of(at, &[tid.bits(), a, b, c, d, e, f, g]) != checksum {
                return None;
            }
            words.copy_from_slice(&[a, b, c, d, e, f, g][..words.len()]);
        }
    }
    Some(Head { tid, key })
}

/// Stores all of a record but its first word. The caller holds its lock and releases it with the
/// same version.
pub(super) fn write<M: FullMemory>(
    memory: &mut M,
    checksums: Checksums,
    at: Addr,
    head: Head,
    row: &[u64],
) {
    memory.store(at + RECORD_OFFSET, head_line(checksums, at, head, row));
    if !head.tid.is_absent() {
        let (_, body) = row.split_at(row.len().min(HEAD_WORDS));
        for (at, words) in body_lines(at).zip(body.chunks(BODY_WORDS)) {
            memory.store(at, body_line(checksums, at, head.tid, words));
        }
    }
}

/// Line `line` of an unlocked record, for an image.
pub(super) fn image_line(
    checksums: Checksums,
    at: Addr,
    head: Head,
    row: &[u64],
    line: usize,
) -> Line {
    let Some(body) = line.checked_sub(1) else {
        let [a, b, c, d, e, f, g] = head_line(checksums, at, head, row);
        return [TidWord::from(head.tid).0, a, b, c, d, e, f, g];
    };
    let at = at + (line * LINE_BYTES) as u64;
    let from = HEAD_WORDS + body * BODY_WORDS;
    body_line(checksums, at, head.tid, &row[from..row.len().min(from + BODY_WORDS)])
}

fn head_line(checksums: Checksums, at: Addr, head: Head, row: &[u64]) -> RecordWords {
    let mut words = [0; HEAD_WORDS];
    let len = row.len().min(HEAD_WORDS);
    words[..len].copy_from_slice(&row[..len]);
    let [a, b, c, d, e] = words;
    [head.key, a, b, c, d, e, checksums.of(at, &[head.tid.bits(), head.key, a, b, c, d, e])]
}

fn body_line(checksums: Checksums, at: Addr, tid: Tid, row: &[u64]) -> Line {
    let mut words = [0; BODY_WORDS];
    words[..row.len()].copy_from_slice(row);
    let [a, b, c, d, e, f, g] = words;
    [a, b, c, d, e, f, g, checksums.of(at, &[tid.bits(), a, b, c, d, e, f, g])]
}

/// The addresses of a record's further lines.
fn body_lines(at: Addr) -> impl Iterator<Item = Addr> {
    (1..).map(move |line| at + line * LINE_BYTES as u64)
}

/// The first word of the record at `at`.
pub(super) fn word<M: FullMemory>(memory: &mut M, at: Addr) -> TidWord {
    TidWord(memory.load(at))
}

/// The key of the record at `at`, which the caller has locked.
pub(super) fn key<M: FullMemory>(memory: &mut M, at: Addr) -> u64 {
    memory.load(at + RECORD_OFFSET)
}

/// Locks the record at `at` and returns its version.
pub(super) fn lock<M: FullMemory>(memory: &mut M, at: Addr) -> Tid {
    let mut seen = word(memory, at);
    loop {
        if seen.is_locked() {
            wait_for_release(memory, at, seen);
            seen = word(memory, at);
            continue;
        }
        match memory.compare_exchange(at, seen.0, seen.locked().0) {
            Ok(_) => return seen.tid(),
            Err(found) => seen = TidWord(found),
        }
    }
}

/// Waits until the record at `at` is not locked.
pub(super) fn wait_while_locked<M: FullMemory>(memory: &mut M, at: Addr) {
    loop {
        let seen = word(memory, at);
        if !seen.is_locked() {
            return;
        }
        wait_for_release(memory, at, seen);
    }
}

/// Marks the held lock as waited for, so that its holder wakes this job, and waits.
fn wait_for_release<M: FullMemory>(memory: &mut M, at: Addr, seen: TidWord) {
    let waited = seen.waited();
    if seen == waited || memory.compare_exchange(at, seen.0, waited.0).is_ok() {
        memory.wait(at, waited.0);
    }
}

/// Runs `body` with the record at `at` locked. `body` receives the record's version and updates it
/// once it has written the record with a new one. The record is released with that version, also
/// when `body` unwinds.
pub(super) fn while_locked<M: FullMemory, R>(
    memory: &mut M,
    at: Addr,
    body: impl FnOnce(&mut M, &mut Tid) -> R,
) -> R {
    let mut tid = lock(memory, at);
    // `body` shares nothing but the version and memory itself, whose words are valid at any moment.
    let result = catch_unwind(AssertUnwindSafe(|| body(memory, &mut tid)));
    let released = unlock(memory, at, tid);
    // The job ends with the first error.
    result
        .and_then(|result| released.map(|()| result))
        .unwrap_or_else(|payload| resume_unwind(payload))
}

/// Releases the lock of the record at `at`, which is of version `tid` from now on.
///
/// # Errors
/// The payload of the fault, when the device keeps failing to return the record's page. The record
/// stays locked, and jobs that wait for it are woken and meet the fault too.
pub(super) fn unlock<M: FullMemory>(memory: &mut M, at: Addr, tid: Tid) -> std::thread::Result<()> {
    let released = retry_faults(|| {
        let mut seen = word(memory, at);
        loop {
            debug_assert!(seen.is_locked(), "the record at {at:?} was released by another job");
            match memory.compare_exchange(at, seen.0, TidWord::from(tid).0) {
                Ok(_) => return seen.is_waited(),
                Err(found) => seen = TidWord(found),
            }
        }
    });
    // If the page failed, it is unknown whether a job waits.
    if *released.as_ref().unwrap_or(&true) {
        memory.wake(at);
    }
    released.map(|_| ())
}
