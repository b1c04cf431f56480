//! Values that are written in pieces.
//!
//! [`build`] and [`write_value`] first write a large value that no key refers to. A step of the
//! command then attaches it to the key.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Entry, Key, Large, VALUE_BYTES_MAX};

use super::{Call, Outcome, Stop, TOO_LONG};
use crate::large::{PIECE_BYTES, begin, write};

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
    fn piece<M: FullMemory>(&self, call: &mut Call<'_, M>, offset: u64, length: usize) -> Vec<u8> {
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
fn append<M: FullMemory>(
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
pub(super) fn build<M: FullMemory>(
    call: &mut Call<'_, M>,
    (database, key): (usize, &Key<'_>),
    length: u64,
    expires_at_ms: Option<u64>,
    fill: impl FnMut(&mut Call<'_, M>, u64, usize) -> Vec<u8>,
) -> Outcome {
    super::check_key(key)?;
    call.writer.require_pieces()?;
    let keyspace = call.keyspace();
    let (mut large, _hold) = begin(call.memory, &keyspace, call.state)?;
    append(call, &mut large, length, fill)?;
    let before = call.before(database, key);
    call.step(&[key.hash], |call| {
        keyspace.attach_large(call.memory, database, key, &large, expires_at_ms).map(drop)
    })?;
    call.changed((database, key), before);
    Ok(())
}

/// Writes into the value of a key from byte `offset` on. Bytes between its end and `offset` become
/// zeros. Returns the new length.
pub(super) fn write_value<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    offset: u64,
    source: Source<'_>,
) -> Result<u64, Stop> {
    super::check_key(key)?;
    call.writer.require_pieces()?;
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
    call.step(&[key.hash], |call| {
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
