//! `DUMP` and `RESTORE`: a value as the bytes of a Redis database file, version 10.
//!
//! The format is that used by Redis 7.0: type (1 byte), value, version (2 bytes), and a CRC-64
//! over the rest (8 bytes). Strings are written plain or as integers. LZF-compressed strings are
//! read too.

use ebbtide_core::Memory;
use ebbtide_structures::keyspace::{Entry, Key, Kind, Large, LargeId};

use super::arguments::clamp;
use super::{Call, Failure, NOT_INTEGER, Outcome, SYNTAX, large};
use crate::large::{Outgoing, PIECE_BYTES};
use crate::number::integer;

/// Version of the format.
const VERSION: u16 = 10;

/// Type byte of a string.
const STRING: u8 = 0;

const WRONG: &str = "ERR DUMP payload version or checksum are wrong";
const BAD: &str = "ERR Bad data format";

/// Maximum bytes before a plain value: its type and its length.
const HEAD_BYTES_MAX: u64 = 10;

/// Bytes of version and checksum.
const FOOTER_BYTES: usize = 10;

/// First byte of an encoded string: an integer of 1, 2 or 4 bytes, or LZF.
const INTEGER_1: u8 = 0xc0;
const INTEGER_2: u8 = 0xc1;
const INTEGER_4: u8 = 0xc2;
const COMPRESSED: u8 = 0xc3;

pub(super) fn dump<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    let mut value = Vec::new();
    match call.find(&key, &mut value) {
        Some(entry) if entry.kind() != Kind::String => {
            return Err("ERR DUMP takes strings only, no collections".into());
        }
        Some(entry) => match entry.large() {
            Some(id) => dump_large(call, &entry, id)?,
            None => {
                call.complete(&entry, &mut value)?;
                call.reply.bulk(&dumped(&value));
            }
        },
        None => call.reply.null(),
    }
    Ok(())
}

/// Replies with a large value piece by piece, after computing its checksum.
fn dump_large<M: Memory>(call: &mut Call<'_, M>, entry: &Entry, id: LargeId) -> Outcome {
    if call.steps.is_none() {
        return Err(Failure::TooLarge);
    }
    let hold = call.state.shared.holds.hold(id);
    let mut head = vec![STRING];
    write_length(&mut head, entry.value_bytes as usize);
    let (mut sum, mut at) = (crc64(0, &head), 0);
    while at < entry.value_bytes {
        let count = (entry.value_bytes - at).min(PIECE_BYTES as u64);
        sum = crc64(sum, &call.bytes_at(entry, at, count as usize));
        at += count;
        call.memory.let_others_run();
    }
    let mut foot = VERSION.to_le_bytes().to_vec();
    foot.extend(crc64(sum, &foot).to_le_bytes());
    let bytes = Outgoing::new(entry, 0, entry.value_bytes, hold);
    call.reply.large_within(&head, (entry.value_bytes, bytes), &foot);
    Ok(())
}

pub(super) fn restore<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
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
    let time = integer(call.arguments[2]).ok_or(Failure::from(NOT_INTEGER))?;
    if time < 0 {
        return Err("ERR Invalid TTL value, must be >= 0".into());
    }
    let now_ms = call.state.now_ms.get() as i64;
    let expires_at_ms = match time {
        0 => None,
        time if absolute => Some(clamp(time)),
        time => Some(clamp(time.saturating_add(now_ms))),
    };
    let is_over = expires_at_ms.is_some_and(|at| at <= now_ms as u64);
    if let Some(staged) = call.staged.iter().find(|staged| staged.argument == 3) {
        restore_large(call, &key, staged.value()?, expires_at_ms)?;
    } else {
        let value = restored(call.arguments[3], call.state.settings().argument_bytes_max)?;
        if is_over {
            // The value has expired already, so only the old value is removed.
            call.remove(&key)?;
        } else {
            call.set(&key, &value, expires_at_ms)?;
        }
    }
    call.reply.ok();
    Ok(())
}

/// Sets a key to a dump that came in pieces.
fn restore_large<M: Memory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    dump: &Large,
    expires_at_ms: Option<u64>,
) -> Outcome {
    let most = call.state.settings().argument_bytes_max as u64;
    if call.steps.is_none() {
        return Err(Failure::TooLarge);
    }
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
    if u16::from_le_bytes([foot[0], foot[1]]) > VERSION
        || foot[2..] != crc64(sum, &foot[..2]).to_le_bytes()
    {
        return Err(WRONG.into());
    }
    let head = read(call, 0, end.min(HEAD_BYTES_MAX));
    let Some((&STRING, text)) = head.split_first() else { return Err(BAD.into()) };
    if text.first() == Some(&COMPRESSED) {
        if dump.bytes > most {
            return Err(format!("ERR a compressed value has at most {most} bytes").into());
        }
        let whole = read(call, 0, dump.bytes);
        return call.set(key, &restored(&whole, most as usize)?, expires_at_ms);
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
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(crc64(0, &bytes).to_le_bytes());
    bytes
}

/// Parses a dump of this server or of Redis, of at most `bytes_max` bytes.
fn restored(dump: &[u8], bytes_max: usize) -> Result<Vec<u8>, Failure> {
    let Some(at) = dump.len().checked_sub(FOOTER_BYTES) else { return Err(WRONG.into()) };
    let version = u16::from_le_bytes([dump[at], dump[at + 1]]);
    if version > VERSION || dump[at + 2..] != crc64(0, &dump[..at + 2]).to_le_bytes() {
        return Err(WRONG.into());
    }
    let value = match &dump[..at] {
        [STRING, text @ ..] => text_of(text, bytes_max),
        _ => None,
    };
    value.ok_or(BAD.into())
}

/// Parses an encoded string that takes up all of `text`.
fn text_of(text: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let (&first, rest) = text.split_first()?;
    let number = match first {
        INTEGER_1 => Some(i64::from(i8::from_le_bytes(rest.try_into().ok()?))),
        INTEGER_2 => Some(i64::from(i16::from_le_bytes(rest.try_into().ok()?))),
        INTEGER_4 => Some(i64::from(i32::from_le_bytes(rest.try_into().ok()?))),
        _ => None,
    };
    if let Some(number) = number {
        return Some(number.to_string().into_bytes());
    }
    if first == COMPRESSED {
        let (packed, rest) = read_length(rest)?;
        let (length, rest) = read_length(rest)?;
        return (rest.len() == packed && length <= bytes_max).then(|| unpacked(rest, length))?;
    }
    let (length, rest) = read_length(text)?;
    (rest.len() == length).then(|| rest.to_vec())
}

/// Appends a length: 6 or 14 bits after a tag of 2 bits, or 4 bytes after 0x80.
fn write_length(bytes: &mut Vec<u8>, length: usize) {
    match length {
        0..0x40 => bytes.push(length as u8),
        0x40..0x4000 => bytes.extend((length as u16 | 0x4000).to_be_bytes()),
        _ => {
            bytes.push(0x80);
            // A value has at most 512 MiB.
            bytes.extend((length as u32).to_be_bytes());
        }
    }
}

/// Parses a length. Returns the bytes after it too.
fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [first @ 0..=0x3f, rest @ ..] => Some((usize::from(*first), rest)),
        [first @ 0x40..=0x7f, second, rest @ ..] => {
            Some((usize::from(u16::from_be_bytes([*first & 0x3f, *second])), rest))
        }
        [0x80, a, b, c, d, rest @ ..] => {
            Some((u32::from_be_bytes([*a, *b, *c, *d]) as usize, rest))
        }
        [0x81, rest @ ..] => {
            let (length, rest) = rest.split_first_chunk::<8>()?;
            Some((usize::try_from(u64::from_be_bytes(*length)).ok()?, rest))
        }
        _ => None,
    }
}

/// Unpacks LZF into `length` bytes: runs of literal bytes, and copies of earlier bytes.
fn unpacked(mut packed: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut bytes: Vec<u8> = Vec::new();
    while let Some((&control, rest)) = packed.split_first() {
        packed = rest;
        if control < 0x20 {
            let (run, rest) = packed.split_at_checked(usize::from(control) + 1)?;
            bytes.extend(run);
            packed = rest;
        } else {
            let mut count = usize::from(control >> 5) + 2;
            if count == 9 {
                let (&more, rest) = packed.split_first()?;
                count += usize::from(more);
                packed = rest;
            }
            let (&low, rest) = packed.split_first()?;
            packed = rest;
            let back = (usize::from(control & 0x1f) << 8 | usize::from(low)) + 1;
            let start = bytes.len().checked_sub(back)?;
            // A copy may overlap itself.
            (start..start + count).for_each(|at| bytes.push(bytes[at]));
        }
        if bytes.len() > length {
            return None;
        }
    }
    (bytes.len() == length).then_some(bytes)
}

/// The CRC-64 of Redis: Jones's polynomial, reflected, without an initial or a final inversion.
/// `before` is the CRC of the preceding bytes.
fn crc64(before: u64, bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9_u64.reverse_bits();
    const TABLE: [u64; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let (mut crc, mut bit) = (byte as u64, 0);
            while bit < 8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
                bit += 1;
            }
            table[byte] = crc;
            byte += 1;
        }
        table
    };
    bytes.iter().fold(before, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn what_is_dumped_is_restored_and_damage_is_noticed() {
        for value in ["", "7", "-300", "70000", "99999999999", "007", &"x".repeat(20_000)] {
            let dump = dumped(value.as_bytes());
            assert_eq!(restored(&dump, 1 << 20), Ok(value.as_bytes().to_vec()));
            for at in 0..dump.len() {
                let mut damaged = dump.clone();
                damaged[at] ^= 1;
                assert!(restored(&damaged, 1 << 20).is_err(), "byte {at} of {value:.20}");
            }
            assert!(restored(&dump[1..], 1 << 20).is_err());
        }
    }

    #[test]
    fn packed_text_is_unpacked_to_its_length_only() {
        // "ab", then a copy of 10 bytes from 2 back.
        let packed = [1, b'a', b'b', 0xe0, 1, 1];
        assert_eq!(unpacked(&packed, 12).as_deref(), Some(&b"abababababab"[..]));
        assert_eq!(unpacked(&packed, 11), None);
        assert_eq!(unpacked(&packed[..5], 12), None, "cut short");
        assert_eq!(unpacked(&[0x20, 0], 3), None, "a copy from before the start");
    }
}
