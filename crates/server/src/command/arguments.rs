//! Options that several commands take.

use super::{Failure, NOT_INTEGER, SYNTAX};
use crate::number::integer;

/// Times of expiry are kept below this, which is far beyond any calendar.
pub(super) const EXPIRY_MS_MAX: i64 = 1 << 47;

/// How a time of expiry is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

/// From when a time counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum From {
    Now,
    Epoch,
}

/// The time of expiry that a text says, in milliseconds since the Unix epoch; it may have passed. `command`
/// is named in the error.
pub(super) fn expiry(
    text: &[u8],
    unit: Unit,
    from: From,
    now_ms: u64,
    command: &str,
) -> Result<i64, Failure> {
    let number = integer(text).ok_or(Failure::from(NOT_INTEGER))?;
    let invalid = || Failure::from(format!("ERR invalid expire time in '{command}' command"));
    let ms = match unit {
        Unit::Milliseconds => number,
        Unit::Seconds => number.checked_mul(1000).ok_or_else(invalid)?,
    };
    match from {
        From::Epoch => Ok(ms),
        From::Now => ms.checked_add(now_ms as i64).ok_or_else(invalid),
    }
}

/// As [`expiry`], for options of `SET` and its like, where the number must be positive.
pub(super) fn positive_expiry(
    text: &[u8],
    unit: Unit,
    from: From,
    now_ms: u64,
    command: &str,
) -> Result<u64, Failure> {
    let number = integer(text).ok_or(Failure::from(NOT_INTEGER))?;
    if number <= 0 {
        return Err(format!("ERR invalid expire time in '{command}' command").into());
    }
    let at = expiry(text, unit, from, now_ms, command)?;
    Ok(clamp(at))
}

/// A time of expiry as an entry keeps it.
pub(super) fn clamp(at_ms: i64) -> u64 {
    at_ms.clamp(0, EXPIRY_MS_MAX) as u64
}

/// The unit and base of an option `EX`, `PX`, `EXAT` or `PXAT`.
pub(super) fn expiry_option(word: &[u8]) -> Option<(Unit, From)> {
    Some(match word.to_ascii_uppercase().as_slice() {
        b"EX" => (Unit::Seconds, From::Now),
        b"PX" => (Unit::Milliseconds, From::Now),
        b"EXAT" => (Unit::Seconds, From::Epoch),
        b"PXAT" => (Unit::Milliseconds, From::Epoch),
        _ => return None,
    })
}

/// A range `start end` of something of `length` parts, with negative numbers from its end: the first
/// index and how many.
pub(super) fn range(start: i64, end: i64, length: u64) -> (u64, u64) {
    if start < 0 && end < 0 && start > end {
        return (0, 0);
    }
    clamped(start, end, length)
}

/// As [`range`], but of two negative numbers that are both before the start, each means the start.
pub(super) fn clamped(start: i64, end: i64, length: u64) -> (u64, u64) {
    let length = length as i64;
    let from_end = |index: i64| if index < 0 { index.saturating_add(length).max(0) } else { index };
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    if start > end || length == 0 { (0, 0) } else { (start as u64, (end - start + 1) as u64) }
}

/// The text of an argument that names an option, or an error.
pub(super) fn syntax<T>(option: Option<T>) -> Result<T, Failure> {
    option.ok_or(Failure::from(SYNTAX))
}
