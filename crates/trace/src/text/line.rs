//! The full parser of a line, with a message for every deviation.

use std::fmt;

use ebbtide_core::{Addr, Time};

use crate::error::LineError;
use crate::{Access, Op};

/// The access of `line`, which has no line end; `None` if it is empty.
pub(super) fn parse(line: &[u8]) -> Result<Option<Access>, LineError> {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    let mut fields = line.split(blank).filter(|field| !field.is_empty());
    let Some(time) = fields.next() else { return Ok(None) };
    let mut next = |field| fields.next().ok_or(LineError::Missing { field });
    let at = nanoseconds(time)?;
    let device = number32("device", "a number below 2^32", 0, next("device")?)?;
    let address = address(next("address")?)?;
    let bytes = number32("size", "a number of bytes from 1 to 2^32 - 1", 1, next("size")?)?;
    let op = match next("rw")? {
        b"1" => Op::Read,
        b"0" => Op::Write,
        found => return Err(wrong("rw", "1 (read) or 0 (write)", found)),
    };
    if let Some(found) = fields.next() {
        return Err(LineError::TooMany { found: readable(found) });
    }
    if address.checked_add(u64::from(bytes) - 1).is_none() {
        return Err(LineError::Beyond { address, bytes });
    }
    Ok(Some(Access { device, ..Access::new(at, Addr(address), bytes, op) }))
}

/// A time in the text form: nanoseconds, with decimals only where needed.
pub(crate) struct Nanoseconds(pub(crate) Time);

impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, picoseconds) = (self.0.as_ns(), self.0.as_ps() % 1000);
        match picoseconds {
            0 => write!(f, "{whole}"),
            _ if picoseconds % 100 == 0 => write!(f, "{whole}.{}", picoseconds / 100),
            _ if picoseconds % 10 == 0 => write!(f, "{whole}.{:02}", picoseconds / 10),
            _ => write!(f, "{whole}.{picoseconds:03}"),
        }
    }
}

/// The reverse of [`Nanoseconds`].
pub(crate) fn nanoseconds(text: &[u8]) -> Result<Time, LineError> {
    let expected = "nanoseconds below 18446744073709551, with at most three decimals";
    let (whole, decimals) = match text.iter().position(|&byte| byte == b'.') {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &b"0"[..]),
    };
    let picoseconds = decimal(whole).and_then(|whole| {
        let unit = 1000_u64.checked_div(10_u64.checked_pow(decimals.len() as u32)?)?;
        let fraction = decimal(decimals)?.checked_mul(unit)?;
        (unit > 0).then_some(whole.checked_mul(1000)?.checked_add(fraction)?)
    });
    picoseconds.map(Time::from_ps).ok_or_else(|| wrong("time", expected, text))
}

fn address(text: &[u8]) -> Result<u64, LineError> {
    let expected = "a decimal or 0x hexadecimal number below 2^64";
    number(text).ok_or_else(|| wrong("address", expected, text))
}

/// A decimal number, or a hexadecimal one after `0x`.
pub(crate) fn number(text: impl AsRef<[u8]>) -> Option<u64> {
    let text = text.as_ref();
    match text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")) {
        Some(hexadecimal) => digits(hexadecimal, 16),
        None => decimal(text),
    }
}

fn number32(
    field: &'static str,
    expected: &'static str,
    least: u32,
    text: &[u8],
) -> Result<u32, LineError> {
    let value = decimal(text).and_then(|value| u32::try_from(value).ok());
    value.filter(|&value| value >= least).ok_or_else(|| wrong(field, expected, text))
}

/// A decimal number.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    digits(text, 10)
}

/// The number that `text` writes in `radix`, if it is nothing but digits and fits.
fn digits(text: &[u8], radix: u32) -> Option<u64> {
    let add = |sum: u64, &byte: &u8| {
        let digit = char::from(byte).to_digit(radix)?;
        sum.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))
    };
    if text.is_empty() { None } else { text.iter().try_fold(0, add) }
}

fn wrong(field: &'static str, expected: &'static str, found: &[u8]) -> LineError {
    LineError::Field { field, expected, found: readable(found) }
}

/// `text` for a message of one line: no control letters, and not too long.
pub(crate) fn readable(text: &[u8]) -> String {
    const LONGEST: usize = 40;
    let start = String::from_utf8_lossy(&text[..text.len().min(LONGEST)]);
    let shortened = if text.len() > LONGEST { "…" } else { "" };
    format!("{}{shortened}", start.escape_debug())
}
