//! Commands on the bits of strings. Bit 0 is the highest bit of the first byte.

use std::collections::BTreeMap;

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Entry, Key, WHOLE_BYTES_MAX};

use super::arguments::{clamped, range};
use super::strings::write_at;
use super::{Call, Failure, Outcome, SYNTAX, large};
use crate::large::PIECE_BYTES;
use crate::number::integer;

const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";

/// Bits of the longest string.
const BITS_MAX: i64 = 1 << 32;

fn offset(text: &[u8]) -> Result<u64, Failure> {
    let number = integer(text).filter(|number| (0..BITS_MAX).contains(number));
    number.map(|number| number as u64).ok_or(Failure::from(BAD_OFFSET))
}

/// A value or nothing. Its bytes are read when they are needed.
struct Bytes {
    entry: Option<Entry>,
    inline: Vec<u8>,
}

impl Bytes {
    fn find<M: FullMemory>(call: &mut Call<'_, M>, key: &Key<'_>) -> Result<Bytes, Failure> {
        let mut inline = Vec::new();
        let entry = call.find_string(key, &mut inline)?;
        Ok(Bytes { entry, inline })
    }

    fn len(&self) -> u64 {
        self.entry.as_ref().map_or(0, |entry| entry.value_bytes)
    }

    /// Reads `count` bytes from byte `at` on. Bytes beyond the end are zeros.
    fn read<M: FullMemory>(&self, call: &mut Call<'_, M>, at: u64, count: usize) -> Vec<u8> {
        let there = self.len().saturating_sub(at).min(count as u64) as usize;
        let mut bytes = match &self.entry {
            _ if there == 0 => Vec::new(),
            Some(entry) if !entry.is_inline() => call.bytes_at(entry, at, there),
            _ => self.inline[at as usize..at as usize + there].to_vec(),
        };
        bytes.resize(count, 0);
        bytes
    }
}

/// Returns the byte of a value at `index`; 0 beyond its end.
fn byte<M: FullMemory>(call: &mut Call<'_, M>, index: u64) -> Result<u8, Failure> {
    let key = call.key(1);
    Ok(Bytes::find(call, &key)?.read(call, index, 1)[0])
}

pub(super) fn getbit<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let offset = offset(call.arguments[2])?;
    let bit = byte(call, offset / 8)? >> (7 - offset % 8) & 1;
    call.reply.integer(bit.into());
    Ok(())
}

pub(super) fn setbit<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let offset = offset(call.arguments[2])?;
    let new = match call.arguments[3] {
        b"0" => 0,
        b"1" => 1u8,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    let key = call.key(1);
    let bytes = Bytes::find(call, &key)?;
    let old = bytes.read(call, offset / 8, 1)[0];
    let shift = 7 - offset % 8;
    let old_bit = old >> shift & 1;
    // An existing bit that keeps its value changes nothing.
    if old_bit != new || offset / 8 >= bytes.len() {
        write_at(call, 1, offset / 8, &[old & !(1 << shift) | new << shift])?;
    }
    call.reply.integer(old_bit.into());
    Ok(())
}

/// The bits that `start end [BYTE|BIT]` names: the value, the first bit, and the bit after the
/// last.
struct Part {
    bytes: Bytes,
    from: u64,
    to: u64,
}

impl Part {
    /// Calls
    /// `each` with the first bit and the bytes of each piece, until it returns a value. `change`
    /// is applied to every byte first; then bits outside the part are zeros.
    fn each<M: FullMemory, R>(
        &self,
        call: &mut Call<'_, M>,
        change: fn(u8) -> u8,
        mut each: impl FnMut(u64, &[u8]) -> Option<R>,
    ) -> Option<R> {
        let (mut at, end) = (self.from / 8, self.to.div_ceil(8));
        while self.from < self.to && at < end {
            let count = (end - at).min(PIECE_BYTES as u64) as usize;
            let mut piece = self.bytes.read(call, at, count);
            piece.iter_mut().for_each(|byte| *byte = change(*byte));
            if at == self.from / 8 {
                piece[0] &= 0xff >> (self.from % 8);
            }
            if at + count as u64 == end {
                piece[count - 1] &= 0xff << (end * 8 - self.to);
            }
            if let Some(found) = each(at * 8, &piece) {
                return Some(found);
            }
            at += count as u64;
        }
        None
    }
}

/// Parses the range at argument `index`. `None` if the key does not exist.
fn part<M: FullMemory>(
    call: &mut Call<'_, M>,
    index: usize,
    range: fn(i64, i64, u64) -> (u64, u64),
) -> Result<Option<Part>, Failure> {
    let key = call.key(1);
    let bytes = Bytes::find(call, &key)?;
    if bytes.entry.is_none() {
        return Ok(None);
    }
    let start = if call.arguments.len() > index { call.integer(index)? } else { 0 };
    let by_bits = match call.arguments.len() - index.min(call.arguments.len()) {
        3 if call.is(index + 2, "BIT") => true,
        3 if call.is(index + 2, "BYTE") => false,
        0..=2 => false,
        _ => return Err(SYNTAX.into()),
    };
    let end = if call.arguments.len() > index + 1 { call.integer(index + 1)? } else { -1 };
    let length = bytes.len();
    let (from, to) = if by_bits {
        let (from, count) = range(start, end, length * 8);
        (from, from + count)
    } else {
        let (from, count) = range(start, end, length);
        (from * 8, (from + count) * 8)
    };
    Ok(Some(Part { bytes, from, to }))
}

pub(super) fn bitcount<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    if call.arguments.len() == 3 {
        let key = call.key(1);
        return match call.find_string(&key, &mut Vec::new())? {
            // The end of the range is missing, which matters only if the key exists.
            Some(_) => Err(SYNTAX.into()),
            None => {
                call.reply.integer(0);
                Ok(())
            }
        };
    }
    let mut count = 0;
    if let Some(part) = part(call, 2, range)? {
        part.each(
            call,
            |byte| byte,
            |_, piece| {
                count += piece.iter().map(|byte| i64::from(byte.count_ones())).sum::<i64>();
                None::<()>
            },
        );
    }
    call.reply.integer(count);
    Ok(())
}

pub(super) fn bitpos<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let wanted = match call.integer(2)? {
        0 => 0,
        1 => 1u8,
        _ => return Err("ERR The bit argument must be 1 or 0.".into()),
    };
    let has_end = call.arguments.len() > 4;
    let Some(part) = part(call, 3, clamped)? else {
        call.reply.integer(if wanted == 1 { -1 } else { 0 });
        return Ok(());
    };
    let change: fn(u8) -> u8 = if wanted == 1 { |byte| byte } else { |byte| !byte };
    let found = part.each(call, change, |at, piece| {
        let index = piece.iter().position(|byte| *byte != 0)?;
        Some(at + index as u64 * 8 + u64::from(piece[index].leading_zeros()))
    });
    let found = match found {
        Some(at) => at as i64,
        // Zeros follow a string.
        None if wanted == 0 && !has_end && part.from < part.to => part.to as i64,
        None => -1,
    };
    call.reply.integer(found);
    Ok(())
}

pub(super) fn bitop<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    type Combine = fn(u8, u8) -> u8;
    let operation = call.arguments[1].to_ascii_uppercase();
    let combine: Combine = match operation.as_slice() {
        b"AND" => |a, b| a & b,
        b"OR" => |a, b| a | b,
        b"XOR" => |a, b| a ^ b,
        b"NOT" if call.arguments.len() == 4 => |_, b| !b,
        b"NOT" => return Err("ERR BITOP NOT must be called with a single source key.".into()),
        _ => return Err(SYNTAX.into()),
    };
    let mut sources = Vec::new();
    for index in 3..call.arguments.len() {
        let key = call.key(index);
        sources.push(Bytes::find(call, &key)?);
    }
    let length = sources.iter().map(Bytes::len).max().unwrap_or(0);
    let inverted = operation == b"NOT";
    let piece = |call: &mut Call<'_, M>, at: u64, count: usize| {
        let mut result = sources[0].read(call, at, count);
        if inverted {
            result.iter_mut().for_each(|byte| *byte = !*byte);
        }
        for source in &sources[1..] {
            let other = source.read(call, at, count);
            result.iter_mut().zip(other).for_each(|(a, b)| *a = combine(*a, b));
        }
        result
    };
    let key = call.key(2);
    if length == 0 {
        call.remove(&key)?;
    } else if length <= PIECE_BYTES as u64 {
        let result = piece(call, 0, length as usize);
        call.set(&key, &result, None)?;
    } else {
        large::build(call, (call.session.database, &key), length, None, piece)?;
    }
    call.reply.integer(length as i64);
    Ok(())
}

/// The type of a field: an integer of `bits` bits.
#[derive(Clone, Copy)]
struct Width {
    signed: bool,
    bits: u32,
}

/// Treatment of a result that does not fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// An operation of `BITFIELD`.
enum Operation {
    Get,
    Set(i64),
    Add(i64),
}

impl Width {
    fn parse(text: &[u8]) -> Result<Width, Failure> {
        const BAD: &str = "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is \
                           not supported but i64 is.";
        let signed = match text.first() {
            Some(b'i') => true,
            Some(b'u') => false,
            _ => return Err(BAD.into()),
        };
        let bits = integer(&text[1..]).filter(|bits| (1..=63 + i64::from(signed)).contains(bits));
        let bits = bits.ok_or(BAD)? as u32;
        Ok(Width { signed, bits })
    }

    /// The bytes of the field at bit `at`.
    fn bytes(self, at: u64) -> std::ops::RangeInclusive<u64> {
        at / 8..=(at + u64::from(self.bits) - 1) / 8
    }

    /// Returns the field at bit `at` of `value`.
    fn get(self, value: &[u8], at: u64) -> i64 {
        let bit = |at: u64| u64::from(value[at as usize / 8] >> (7 - at % 8) & 1);
        let raw = (at..at + u64::from(self.bits)).fold(0u64, |raw, at| raw << 1 | bit(at));
        self.of(raw.into())
    }

    /// Returns the lowest bits of `raw` as a number.
    fn of(self, raw: i128) -> i64 {
        let raw = raw & ((1 << self.bits) - 1);
        let negative = self.signed && raw >> (self.bits - 1) & 1 == 1;
        (if negative { raw - (1 << self.bits) } else { raw }) as i64
    }

    fn put(self, value: &mut [u8], at: u64, number: i64) {
        for index in 0..u64::from(self.bits) {
            let at = at + index;
            let bit = (number >> (u64::from(self.bits) - 1 - index) & 1) as u8;
            let byte = &mut value[at as usize / 8];
            let shift = 7 - at % 8;
            *byte = *byte & !(1 << shift) | bit << shift;
        }
    }

    /// Converts a client's number. For unsigned fields a negative number counts as a large one, as
    /// in Redis.
    fn given(self, number: i64) -> i128 {
        if self.signed { number.into() } else { (number as u64).into() }
    }

    /// Fits a number into the field; `None` if it overflows and must fail.
    fn fit(self, number: i128, overflow: Overflow) -> Option<i64> {
        let (least, most) = if self.signed {
            (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1)
        } else {
            (0, (1i128 << self.bits) - 1)
        };
        match overflow {
            _ if (least..=most).contains(&number) => Some(number as i64),
            Overflow::Wrap => Some(self.of(number)),
            Overflow::Saturate => Some(number.clamp(least, most) as i64),
            Overflow::Fail => None,
        }
    }
}

fn field_offset(text: &[u8], width: Width) -> Result<u64, Failure> {
    let (text, times) = match text.strip_prefix(b"#") {
        Some(rest) => (rest, u64::from(width.bits)),
        None => (text, 1),
    };
    let at = offset(text)?.saturating_mul(times);
    let fits = at + u64::from(width.bits) <= BITS_MAX as u64;
    if fits { Ok(at) } else { Err(BAD_OFFSET.into()) }
}

pub(super) fn bitfield<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    run_fields(call, false)
}

pub(super) fn bitfield_ro<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    run_fields(call, true)
}

/// An operation of `BITFIELD` on a field, with the field's width, its first bit, and what happens
/// on overflow.
type FieldOperation = (Operation, Width, u64, Overflow);

/// Parses the operations on fields.
fn field_operations<M: FullMemory>(
    call: &Call<'_, M>,
    read_only: bool,
) -> Result<Vec<FieldOperation>, Failure> {
    let mut operations = Vec::new();
    let mut overflow = Overflow::Wrap;
    let mut index = 2;
    while index < call.arguments.len() {
        let left = call.arguments.len() - index;
        if call.is(index, "OVERFLOW") && left >= 2 {
            overflow = match call.arguments[index + 1].to_ascii_uppercase().as_slice() {
                b"WRAP" => Overflow::Wrap,
                b"SAT" => Overflow::Saturate,
                b"FAIL" => Overflow::Fail,
                _ => return Err("ERR Invalid OVERFLOW type specified".into()),
            };
            index += 2;
            continue;
        }
        let is_get = call.is(index, "GET");
        if !(is_get && left >= 3
            || (call.is(index, "SET") || call.is(index, "INCRBY")) && left >= 4)
        {
            return Err(SYNTAX.into());
        }
        let width = Width::parse(call.arguments[index + 1])?;
        let at = field_offset(call.arguments[index + 2], width)?;
        let operation = if is_get {
            Operation::Get
        } else if read_only {
            return Err("ERR BITFIELD_RO only supports the GET subcommand".into());
        } else if call.is(index, "SET") {
            Operation::Set(call.integer(index + 3)?)
        } else {
            Operation::Add(call.integer(index + 3)?)
        };
        operations.push((operation, width, at, overflow));
        index += if is_get { 3 } else { 4 };
    }
    Ok(operations)
}

fn run_fields<M: FullMemory>(call: &mut Call<'_, M>, read_only: bool) -> Outcome {
    let operations = field_operations(call, read_only)?;
    let key = call.key(1);
    let old = Bytes::find(call, &key)?;
    // Bytes written so far, by index.
    let mut written: BTreeMap<u64, u8> = BTreeMap::new();
    call.reply.array(operations.len());
    for (operation, width, at, overflow) in operations {
        let touched = width.bytes(at);
        let (first, is_there) = (*touched.start(), *touched.end() < old.len());
        let mut value = old.read(call, first, (touched.end() - first) as usize + 1);
        for (index, byte) in written.range(touched) {
            value[(index - first) as usize] = *byte;
        }
        let within = at - first * 8;
        let found = width.get(&value, within);
        let (new, told) = match operation {
            Operation::Get => (None, Some(found)),
            Operation::Set(number) => {
                let new = width.fit(width.given(number), overflow);
                (Some(new.unwrap_or(found)), new.map(|_| found))
            }
            Operation::Add(by) => {
                let new = width.fit(i128::from(found) + i128::from(by), overflow);
                (Some(new.unwrap_or(found)), new)
            }
        };
        // An existing field that keeps its value changes nothing.
        if let Some(new) = new.filter(|new| !is_there || *new != found) {
            width.put(&mut value, within, new);
            written.extend((first..).zip(value));
        }
        match told {
            Some(number) => call.reply.integer(number),
            None => call.reply.null(),
        }
    }
    let (Some((&first, _)), Some((&last, _))) =
        (written.first_key_value(), written.last_key_value())
    else {
        return Ok(());
    };
    if last - first >= PIECE_BYTES as u64 && last >= WHOLE_BYTES_MAX as u64 {
        return Err(
            format!("ERR BITFIELD changes at most {PIECE_BYTES} bytes of such a value").into()
        );
    }
    let mut value = old.read(call, first, (last - first) as usize + 1);
    for (index, byte) in written {
        value[(index - first) as usize] = byte;
    }
    write_at(call, 1, first, &value).map(drop)
}
