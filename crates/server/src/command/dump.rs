//! `DUMP` and `RESTORE`: a value as the bytes of a Redis database file, version 10.
//!
//! The format is that used by Redis 7.0: type (1 byte), value, version (2 bytes), and a CRC-64
//! over the rest (8 bytes). Strings are written plain or as integers. LZF-compressed strings are
//! read too.
//! [Collections](super::dump_collections) have types of their own.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Entry, Key, Kind, Large, LargeId};

use super::arguments::clamp;
use super::{Call, Failure, NOT_INTEGER, Outcome, SYNTAX, Stop, dump_collections, large};
use crate::large::{Outgoing, PIECE_BYTES};
use crate::number::integer;
use crate::rdb::checksum::crc64;
use crate::rdb::forms::STRING;
use crate::rdb::text::{
    COMPRESSED, INTEGER_1, INTEGER_2, INTEGER_4, read_length, take_text, write_length,
};
use crate::rdb::{VERSION, VERSION_READ_MAX};

const WRONG: &str = "ERR DUMP payload version or checksum are wrong";
const BAD: &str = "ERR Bad data format";

/// Maximum bytes before a plain value: its type and its length.
const HEAD_BYTES_MAX: u64 = 10;

/// Bytes of version and checksum.
const FOOTER_BYTES: usize = 10;

pub(super) fn dump<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    let mut value = Vec::new();
    match call.find(&key, &mut value) {
        Some(entry) => match entry.large().filter(|_| entry.kind() == Kind::String) {
            Some(id) => dump_large(call, &entry, id)?,
            None => {
                let dump = dumped_whole(call, &key, &entry, value)?;
                call.reply.bulk(&dump);
            }
        },
        None => call.reply.null(),
    }
    Ok(())
}

/// Returns the dump of an entry that was found with `value`.
///
/// # Errors
/// Returns an error if it takes too much DRAM.
pub(super) fn dumped_whole<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    entry: &Entry,
    mut value: Vec<u8>,
) -> Result<Vec<u8>, Stop> {
    if entry.kind() == Kind::String {
        call.complete(entry, &mut value)?;
        return Ok(dumped(&value));
    }
    let collection = call.keyspace().open_collection(key, entry, &value).ok_or(BAD)?;
    Ok(with_footer(dump_collections::dumped(call, &collection)?))
}

/// The dump of a large value, whose bytes come in pieces.
pub(super) struct Summed {
    head: Vec<u8>,
    sum: u64,
}

impl Summed {
    /// Begins the dump of a value of this many bytes.
    pub(super) fn begin(bytes: u64) -> Summed {
        let mut head = vec![STRING];
        write_length(&mut head, bytes as usize);
        let sum = crc64(0, &head);
        Summed { head, sum }
    }

    /// The bytes before the value.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Bytes of the whole dump of a value of this many bytes.
    pub(super) fn length(&self, bytes: u64) -> u64 {
        (self.head.len() + FOOTER_BYTES) as u64 + bytes
    }

    /// Adds the next piece of the value to the checksum.
    pub(super) fn add(&mut self, piece: &[u8]) {
        self.sum = crc64(self.sum, piece);
    }

    /// The bytes after the value.
    pub(super) fn foot(&self) -> Vec<u8> {
        let mut foot = VERSION.to_le_bytes().to_vec();
        foot.extend(crc64(self.sum, &foot).to_le_bytes());
        foot
    }
}

/// Replies with a large value piece by piece, after computing its checksum.
fn dump_large<M: FullMemory>(call: &mut Call<'_, M>, entry: &Entry, id: LargeId) -> Outcome {
    call.writer.require_pieces()?;
    let hold = call.state.shared.holds.hold(id);
    let (mut dump, mut at) = (Summed::begin(entry.value_bytes), 0);
    while at < entry.value_bytes {
        let count = (entry.value_bytes - at).min(PIECE_BYTES as u64);
        dump.add(&call.bytes_at(entry, at, count as usize));
        at += count;
        call.memory.let_others_run();
    }
    let bytes = Outgoing::new(entry, 0, entry.value_bytes, hold);
    call.reply.large_within(dump.head(), (entry.value_bytes, bytes), &dump.foot());
    Ok(())
}

pub(super) fn restore<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (mut replace, mut absolute) = (false, false);
    let (mut idle, mut frequency) = (None, None);
    let mut index = 4;
    while index < call.arguments.len() {
        let has_more = index + 1 < call.arguments.len();
        if call.is(index, "REPLACE") {
            replace = true;
        } else if call.is(index, "ABSTTL") {
            absolute = true;
        } else if call.is(index, "IDLETIME") && has_more && frequency.is_none() {
            index += 1;
            let given = call.integer(index)?;
            if given < 0 {
                return Err("ERR Invalid IDLETIME value, must be >= 0".into());
            }
            idle = Some(given);
        } else if call.is(index, "FREQ") && has_more && idle.is_none() {
            index += 1;
            let given = call.integer(index)?;
            if !(0..=255).contains(&given) {
                return Err("ERR Invalid FREQ value, must be >= 0 and <= 255".into());
            }
            frequency = Some(given);
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    let key = call.key(1);
    if !replace && call.find(&key, &mut Vec::new()).is_some() {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let time = integer(call.arguments[2]).ok_or(NOT_INTEGER)?;
    if time < 0 {
        return Err("ERR Invalid TTL value, must be >= 0".into());
    }
    let now_ms = call.state.now_ms.get() as i64;
    let expires_at_ms = match time {
        0 => None,
        time if absolute => Some(clamp(time)),
        time => Some(clamp(time.saturating_add(now_ms))),
    };
    let is_over = expires_at_ms.is_some_and(|at| at <= call.expired_ms());
    if let Some(staged) = call.staged.iter().find(|staged| staged.argument == 3) {
        restore_large(call, &key, staged.value()?, expires_at_ms)?;
    } else {
        let dump = checked(call.arguments[3])?;
        if is_over {
            // The value has expired already, so only the old value is removed.
            call.remove(&key)?;
        } else if dump.first() == Some(&STRING) {
            let value = restored(dump, call.state.settings().argument_bytes_max)?;
            call.set(&key, &value, expires_at_ms)?;
        } else {
            dump_collections::restore(call, &key, dump, expires_at_ms, BAD)?;
        }
    }
    call.reply.ok();
    Ok(())
}

/// Sets a key to a dump that came in pieces.
fn restore_large<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    dump: &Large,
    expires_at_ms: Option<u64>,
) -> Outcome {
    let most = call.state.settings().argument_bytes_max as u64;
    call.writer.require_pieces()?;
    let keyspace = call.keyspace();
    let read = |call: &mut Call<'_, M>, at: u64, count: u64| {
        let mut bytes = Vec::with_capacity(count as usize);
        keyspace.read_large(call.memory, dump, at, count as usize, &mut bytes);
        bytes
    };
    let end = dump.bytes.checked_sub(FOOTER_BYTES as u64).ok_or(WRONG)?;
    let foot = read(call, end, FOOTER_BYTES as u64);
    let (mut sum, mut at) = (0, 0);
    while at < end {
        let count = (end - at).min(PIECE_BYTES as u64);
        let piece = read(call, at, count);
        sum = crc64(sum, &piece);
        at += count;
        call.memory.let_others_run();
    }
    if !ends_right(sum, &foot) {
        return Err(WRONG.into());
    }
    let head = read(call, 0, end.min(HEAD_BYTES_MAX));
    let (form, text) = head.split_first().ok_or(BAD)?;
    if *form != STRING {
        if dump.bytes > most {
            return Err(format!("ERR a collection in a dump has at most {most} bytes").into());
        }
        let whole = read(call, 0, end);
        return dump_collections::restore(call, key, &whole, expires_at_ms, BAD);
    }
    if text.first() == Some(&COMPRESSED) {
        if dump.bytes > most {
            return Err(format!("ERR a compressed value has at most {most} bytes").into());
        }
        let whole = read(call, 0, dump.bytes);
        return call.set(key, &restored(checked(&whole)?, most as usize)?, expires_at_ms);
    }
    let (length, rest) = read_length(text).ok_or(BAD)?;
    let start = (head.len() - rest.len()) as u64;
    if length == 0 || start.checked_add(length as u64) != Some(end) {
        return Err(BAD.into());
    }
    let database = call.session.database;
    large::build(call, (database, key), length as u64, expires_at_ms, |call, at, count| {
        read(call, start + at, count as u64)
    })
}

/// Returns a value in the format of `DUMP`.
fn dumped(value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![STRING];
    let number = (value.len() <= 11).then(|| integer(value)).flatten();
    if let Some(number) = number.and_then(|number| i8::try_from(number).ok()) {
        bytes.push(INTEGER_1);
        bytes.extend(number.to_le_bytes());
    } else if let Some(number) = number.and_then(|number| i16::try_from(number).ok()) {
        bytes.push(INTEGER_2);
        bytes.extend(number.to_le_bytes());
    } else if let Some(number) = number.and_then(|number| i32::try_from(number).ok()) {
        bytes.push(INTEGER_4);
        bytes.extend(number.to_le_bytes());
    } else {
        write_length(&mut bytes, value.len());
        bytes.extend(value);
    }
    with_footer(bytes)
}

/// Returns a dump with its version and its checksum.
fn with_footer(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(crc64(0, &bytes).to_le_bytes());
    bytes
}

/// Returns a dump of this server or of Redis without its version and its checksum.
fn checked(dump: &[u8]) -> Result<&[u8], Failure> {
    let Some(at) = dump.len().checked_sub(FOOTER_BYTES) else { return Err(WRONG.into()) };
    if !ends_right(crc64(0, &dump[..at]), &dump[at..]) {
        return Err(WRONG.into());
    }
    Ok(&dump[..at])
}

/// True if `foot` has a version that can be read, and the checksum of a dump whose other bytes have
/// the checksum `sum`.
fn ends_right(sum: u64, foot: &[u8]) -> bool {
    let (version, stored) = foot.split_at(size_of::<u16>());
    u16::from_le_bytes([version[0], version[1]]) <= VERSION_READ_MAX
        && stored == crc64(sum, version).to_le_bytes()
}

/// Parses a string of at most `bytes_max` bytes.
fn restored(dump: &[u8], bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let value = match dump {
        [STRING, text @ ..] => {
            let mut rest = text;
            take_text(&mut rest, bytes_max).filter(|_| rest.is_empty())
        }
        _ => None,
    };
    value.ok_or(BAD.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dumped_is_restored_and_damage_is_noticed() {
        for value in ["", "7", "-300", "70000", "99999999999", "007", &"x".repeat(20_000)] {
            let dump = dumped(value.as_bytes());
            let read = |dump: &[u8]| restored(checked(dump)?, 1 << 20);
            assert_eq!(read(&dump), Ok(value.as_bytes().to_vec()));
            for at in 0..dump.len() {
                let mut damaged = dump.clone();
                damaged[at] ^= 1;
                assert!(read(&damaged).is_err(), "byte {at} of {value:.20}");
            }
            assert!(read(&dump[1..]).is_err());
        }
    }
}
