//! Commands that need several transactions and hold or reserve their keys' stripes throughout.
//!
//! A command on a value too large for a transaction fails with [`Failure::TooLarge`] before it
//! changes anything. It then runs again outside of a transaction. Commands over many keys run that
//! way from the start. Each change of a key is its own transaction ([`step`]). [`build`] and
//! [`write_value`] first write a large value that no key refers to. The transaction then attaches
//! it to the key.

use std::cell::Cell;

use ebbtide_core::Memory;
use ebbtide_core::durability::{Lsn, TransactionError};
use ebbtide_structures::keyspace::{Entry, Full, Key, Large, VALUE_BYTES_MAX};

use super::table::Spec;
use super::{Call, Failure, Outcome, Steps, TOO_LONG, run_by_id};
use crate::large::{PIECE_BYTES, begin, write};
use crate::patience::limit_patience;
use crate::{space, sparse};

/// Runs a command that needs several transactions. `hashes` are the hashes of its keys; none stands
/// for all keys.
///
/// A command that changes one key reserves its stripes, so that other commands can read the keys
/// while it writes the value. A command that changes several keys holds the stripes, so that its
/// changes appear as one step. So does a command of all keys.
pub(super) fn run<M: Memory>(spec: &Spec, call: &mut Call<'_, M>, hashes: &[u64]) -> Outcome {
    let keyspace = call.keyspace();
    let reserves = !spec.changes_several() && !hashes.is_empty();
    let steps = Steps { last: Cell::new(Lsn::ZERO), reserves };
    let Call { memory, state, session, arguments, staged, reply, .. } = call;
    let stripes = state.shared.reserved.of(&keyspace, hashes);
    let body = |memory: &mut M| {
        // A part of it may take effect, so it does not give up from here on.
        limit_patience(memory, false);
        session.start_over();
        let steps = Some(&steps);
        run_by_id(spec.id, &mut Call { memory, state, session, arguments, staged, reply, steps })
    };
    let outcome = state.unless_busy(*memory, |memory| match reserves {
        true => stripes.reserved(memory, body),
        false => stripes.alone(memory, body),
    })?;
    session.written = session.written.max(steps.last.get());
    outcome
}

/// Bytes to write into a value.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// The bytes are in DRAM.
    Bytes(&'a [u8]),
    /// The bytes came in pieces and lie in memory.
    Large(&'a Large),
}

impl Source<'_> {
    fn length(&self) -> u64 {
        match self {
            Source::Bytes(bytes) => bytes.len() as u64,
            Source::Large(large) => large.bytes,
        }
    }

    /// Returns `length` bytes from byte `offset` on.
    fn piece<M: Memory>(&self, call: &mut Call<'_, M>, offset: u64, length: usize) -> Vec<u8> {
        let mut piece = Vec::with_capacity(length);
        match self {
            Source::Bytes(bytes) => {
                piece.extend_from_slice(&bytes[offset as usize..offset as usize + length]);
            }
            Source::Large(large) => {
                call.keyspace().read_large(call.memory, large, offset, length, &mut piece);
            }
        }
        piece
    }
}

/// Appends `length` bytes that `fill` returns in pieces. `fill` gets each piece's offset and
/// length.
fn append<M: Memory>(
    call: &mut Call<'_, M>,
    large: &mut Large,
    length: u64,
    mut fill: impl FnMut(&mut Call<'_, M>, u64, usize) -> Vec<u8>,
) -> Outcome {
    let keyspace = call.keyspace();
    let start = large.bytes;
    while large.bytes < start + length {
        let at = large.bytes - start;
        let piece = fill(call, at, (length - at).min(PIECE_BYTES as u64) as usize);
        let end = large.bytes;
        write(call.memory, &keyspace, call.state, large, (end, &piece))?;
        call.memory.let_others_run();
    }
    Ok(())
}

/// Sets a key to a value of `length` bytes, at least one, that `fill` returns in pieces.
pub(super) fn build<M: Memory>(
    call: &mut Call<'_, M>,
    (database, key): (usize, &Key<'_>),
    length: u64,
    expires_at_ms: Option<u64>,
    fill: impl FnMut(&mut Call<'_, M>, u64, usize) -> Vec<u8>,
) -> Outcome {
    super::check_key(key)?;
    let keyspace = call.keyspace();
    let (mut large, _hold) = begin(call.memory, &keyspace, call.state)?;
    append(call, &mut large, length, fill)?;
    let before = call.before(database, key);
    step(call, &[key.hash], |call| {
        keyspace.attach_large(call.memory, database, key, &large, expires_at_ms).map(drop)
    })?;
    call.changed((database, key), before);
    Ok(())
}

/// Runs `body`, which changes keys of these hashes. It is a separate transaction if the command
/// makes several, and part of the command's transaction otherwise.
///
/// # Errors
/// Returns an error if it is too large for a transaction, there is no room, or the log cannot be
/// written.
pub(super) fn step<M: Memory, R>(
    call: &mut Call<'_, M>,
    hashes: &[u64],
    mut body: impl FnMut(&mut Call<'_, M>) -> Result<R, Full>,
) -> Result<R, Failure> {
    let Some(steps) = call.steps else { return Ok(body(call)?) };
    let keyspace = call.keyspace();
    let Call { memory, state, session, arguments, staged, reply, .. } = call;
    loop {
        let mut change = |memory: &mut M| {
            let ran = memory.transaction(|memory| {
                let steps = Some(steps);
                body(&mut Call { memory, state, session, arguments, staged, reply, steps })
            });
            if let Ok((_, lsn)) = &ran {
                state.shared.wrote(hashes, *lsn);
                steps.last.set(*lsn);
            }
            ran
        };
        let (result, _) = match steps.reserves {
            true => keyspace.alone(*memory, hashes, change),
            false => change(memory),
        }
        .map_err(|error| match error {
            TransactionError::TooLarge { .. } => Failure::TooLarge,
            error => error.into(),
        })?;
        if result.is_ok() || !space::make_held(*memory, state, &keyspace) {
            for hash in hashes {
                sparse::join_sparse_held(*memory, &keyspace, *hash);
            }
            return Ok(result?);
        }
    }
}

/// Writes into the value of a key from byte `offset` on. Bytes between its end and `offset` become
/// zeros. Returns the new length.
pub(super) fn write_value<M: Memory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    offset: u64,
    source: Source<'_>,
) -> Result<u64, Failure> {
    super::check_key(key)?;
    let (keyspace, database) = (call.keyspace(), call.session.database);
    let mut value = Vec::new();
    let entry = call.find_string(key, &mut value)?;
    let before = entry.as_ref().map_or(0, |entry| entry.value_bytes);
    let expires_at_ms = entry.as_ref().and_then(|entry| entry.expires_at_ms);
    let (length, end) = (source.length(), offset.saturating_add(source.length()));
    if end > VALUE_BYTES_MAX {
        return Err(TOO_LONG.into());
    }
    // Bytes beyond the end are not visible yet. Existing bytes may have readers, so a change to
    // them is made in a copy.
    let in_place = offset >= before && entry.as_ref().and_then(Entry::large).is_some();
    let opened = match &entry {
        Some(entry) if in_place => keyspace.open_large(call.memory, entry),
        _ => None,
    };
    let (mut large, _hold) = match opened {
        Some(large) => (large, None),
        None => {
            let (mut copy, hold) = begin(call.memory, &keyspace, call.state)?;
            append(call, &mut copy, before, |call, at, count| match &entry {
                Some(entry) if !entry.is_inline() => call.bytes_at(entry, at, count),
                _ => value[at as usize..at as usize + count].to_vec(),
            })?;
            (copy, Some(hold))
        }
    };
    let gap = offset.saturating_sub(large.bytes);
    append(call, &mut large, gap, |_, _, count| vec![0; count])?;
    let mut done = 0;
    while length - done > PIECE_BYTES as u64 {
        let piece = source.piece(call, done, PIECE_BYTES);
        write(call.memory, &keyspace, call.state, &mut large, (offset + done, &piece))?;
        call.memory.let_others_run();
        done += PIECE_BYTES as u64;
    }
    let last = source.piece(call, done, (length - done) as usize);
    let old = call.before(database, key);
    step(call, &[key.hash], |call| {
        let mut large = large.clone();
        keyspace.write_large(call.memory, &mut large, offset + done, &last)?;
        if !in_place {
            keyspace.attach_large(call.memory, database, key, &large, expires_at_ms).map(drop)
        } else if large.bytes > before {
            keyspace.extend_large(call.memory, database, key, &large, expires_at_ms)
        } else {
            Ok(())
        }
    })?;
    call.changed((database, key), old);
    Ok(end.max(before))
}
