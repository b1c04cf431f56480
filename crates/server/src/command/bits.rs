//! Commands on the bits of strings. Bit 0 is the highest of the first byte.

use ebbtide_core::Memory;

use super::arguments::{clamped, range};
use super::strings::write_at;
use super::{Call, Failure, Outcome, SYNTAX};
use crate::number::integer;

const BAD_OFFSET: &str = "ERR bit offset is not an integer or out of range";

/// One beyond the last bit of the longest string.
const BITS_MAX: i64 = 1 << 32;

fn offset(text: &[u8]) -> Result<u64, Failure> {
    let number = integer(text).filter(|number| (0..BITS_MAX).contains(number));
    number.map(|number| number as u64).ok_or(Failure::from(BAD_OFFSET))
}

/// The byte of a value at `index`; 0 beyond its end.
fn byte<M: Memory>(call: &mut Call<'_, M>, index: u64) -> u8 {
    let key = call.key(1);
    let mut value = Vec::new();
    match call.find(&key, &mut value) {
        Some(entry) if index >= entry.value_bytes => 0,
        Some(entry) if entry.is_inline() => value[index as usize],
        Some(entry) => {
            call.keyspace().read_range(call.memory, &entry, index, 1, &mut value);
            value[0]
        }
        None => 0,
    }
}

pub(super) fn getbit<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    let offset = offset(call.arguments[2])?;
    let bit = byte(call, offset / 8) >> (7 - offset % 8) & 1;
    call.reply.integer(bit.into());
    Ok(())
}

pub(super) fn setbit<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    let offset = offset(call.arguments[2])?;
    let new = match call.arguments[3] {
        b"0" => 0,
        b"1" => 1u8,
        _ => return Err("ERR bit is not an integer or out of range".into()),
    };
    let old = byte(call, offset / 8);
    let shift = 7 - offset % 8;
    write_at(call, 1, offset / 8, &[old & !(1 << shift) | new << shift])?;
    call.reply.integer((old >> shift & 1).into());
    Ok(())
}

/// The bits of a value that `start end [BYTE|BIT]` names, if anything: the value, the first bit and one
/// beyond the last.
struct Part {
    value: Vec<u8>,
    from: u64,
    to: u64,
}

/// `index` is where the range begins among the arguments.
fn part<M: Memory>(
    call: &mut Call<'_, M>,
    index: usize,
    range: fn(i64, i64, u64) -> (u64, u64),
) -> Result<Option<Part>, Failure> {
    let key = call.key(1);
    let Some(value) = call.value(&key)? else { return Ok(None) };
    let start = if call.arguments.len() > index { call.integer(index)? } else { 0 };
    let by_bits = match call.arguments.len() - index.min(call.arguments.len()) {
        3 if call.is(index + 2, "BIT") => true,
        3 if call.is(index + 2, "BYTE") => false,
        0..=2 => false,
        _ => return Err(SYNTAX.into()),
    };
    let end = if call.arguments.len() > index + 1 { call.integer(index + 1)? } else { -1 };
    let length = value.len() as u64;
    let (from, to) = if by_bits {
        let (from, count) = range(start, end, length * 8);
        (from, from + count)
    } else {
        let (from, count) = range(start, end, length);
        (from * 8, (from + count) * 8)
    };
    Ok(Some(Part { value, from, to }))
}

pub(super) fn bitcount<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    if call.arguments.len() == 3 {
        let key = call.key(1);
        return match call.find(&key, &mut Vec::new()) {
            // The other end is missing, which does not matter where there is nothing.
            Some(_) => Err(SYNTAX.into()),
            None => {
                call.reply.integer(0);
                Ok(())
            }
        };
    }
    let part = part(call, 2, range)?;
    let count = part.map_or(0, |part| {
        let (first, last) = (part.from.div_ceil(8), part.to / 8);
        let bit = |at: u64| u64::from(part.value[at as usize / 8] >> (7 - at % 8) & 1);
        if first > last {
            return (part.from..part.to).map(bit).sum::<u64>();
        }
        let whole = &part.value[first as usize..last as usize];
        let whole: u64 = whole.iter().map(|byte| u64::from(byte.count_ones())).sum();
        let ends = (part.from..first * 8).chain(last * 8..part.to);
        whole + ends.map(bit).sum::<u64>()
    });
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn bitpos<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
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
    let skip = if wanted == 1 { 0x00 } else { 0xff };
    let mut at = part.from;
    while at < part.to {
        let byte = part.value[at as usize / 8];
        if at % 8 == 0 && byte == skip {
            at += 8;
        } else if byte >> (7 - at % 8) & 1 == wanted {
            break;
        } else {
            at += 1;
        }
    }
    let found = if at < part.to {
        at as i64
    } else if wanted == 0 && !has_end && part.from < part.to {
        // Zeros follow a string.
        part.to as i64
    } else {
        -1
    };
    call.reply.integer(found);
    Ok(())
}

pub(super) fn bitop<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
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
    let mut result: Option<Vec<u8>> = None;
    for index in 3..call.arguments.len() {
        let key = call.key(index);
        let mut value = call.value(&key)?.unwrap_or_default();
        result = Some(match result {
            None if operation == b"NOT" => value.iter().map(|byte| !byte).collect(),
            None => value,
            Some(mut result) => {
                let length = result.len().max(value.len());
                result.resize(length, 0);
                value.resize(length, 0);
                result.iter_mut().zip(&value).for_each(|(a, b)| *a = combine(*a, *b));
                result
            }
        });
    }
    let result = result.unwrap_or_default();
    let key = call.key(2);
    if result.is_empty() {
        call.remove(&key);
    } else {
        call.set(&key, &result, None)?;
    }
    call.reply.integer(result.len() as i64);
    Ok(())
}

/// An integer of some bits.
#[derive(Clone, Copy)]
struct Width {
    signed: bool,
    bits: u32,
}

/// What happens to a result that does not fit.
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
        let bits = bits.ok_or(Failure::from(BAD))? as u32;
        Ok(Width { signed, bits })
    }

    /// The number at bit `at` of `value`, beyond whose end are zeros.
    fn get(self, value: &[u8], at: u64) -> i64 {
        let bit = |at: u64| {
            value.get(at as usize / 8).map_or(0, |byte| u64::from(byte >> (7 - at % 8) & 1))
        };
        let raw = (at..at + u64::from(self.bits)).fold(0u64, |raw, at| raw << 1 | bit(at));
        self.of(raw.into())
    }

    /// The number that the lowest bits of `raw` are.
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

    /// A number as it fits.
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

pub(super) fn bitfield<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    run_fields(call, false)
}

pub(super) fn bitfield_ro<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    run_fields(call, true)
}

fn run_fields<M: Memory>(call: &mut Call<'_, M>, read_only: bool) -> Outcome {
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
    let key = call.key(1);
    let old = call.value_and_entry(&key)?;
    let (mut value, expires_at_ms) =
        old.map_or((Vec::new(), None), |(value, entry)| (value, entry.expires_at_ms));
    let writes = operations.iter().filter(|(operation, ..)| !matches!(operation, Operation::Get));
    let end = writes.map(|(_, width, at, _)| (at + u64::from(width.bits)).div_ceil(8)).max();
    if let Some(end) = end {
        value.resize(value.len().max(end as usize), 0);
    }
    call.reply.array(operations.len());
    for (operation, width, at, overflow) in operations {
        let found = width.get(&value, at);
        let (new, told) = match operation {
            Operation::Get => (None, Some(found)),
            Operation::Set(number) => {
                let new = width.fit(number.into(), overflow);
                (new, new.map(|_| found))
            }
            Operation::Add(by) => {
                let new = width.fit(i128::from(found) + i128::from(by), overflow);
                (new, new)
            }
        };
        if let Some(new) = new {
            width.put(&mut value, at, new);
        }
        match told {
            Some(number) => call.reply.integer(number),
            None => call.reply.null(),
        }
    }
    if end.is_some() {
        call.set(&key, &value, expires_at_ms)?;
    }
    Ok(())
}
