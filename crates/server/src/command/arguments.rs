//! Options that several commands take.

use super::{Failure, NOT_INTEGER, SYNTAX};
use crate::number::integer;

/// Upper bound of expiry times in milliseconds, far beyond any calendar.
pub(super) const EXPIRY_MS_MAX: i64 = 1 << 47;

/// The unit of an expiry time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

/// Start of an expiry time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum From {
    Now,
    Epoch,
}

/// Parses an expiry time into milliseconds since the Unix epoch. It may have passed. Errors name
/// `command`.
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

/// As [`expiry`], for options of `SET` and similar commands, whose number must be positive.
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

/// Limits an expiry time to what an entry can hold.
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

/// Returns the first index and the length of the range `start end` in `length` parts. Negative
/// numbers count from the end.
pub(super) fn range(start: i64, end: i64, length: u64) -> (u64, u64) {
    if start < 0 && end < 0 && start > end {
        return (0, 0);
    }
    clamped(start, end, length)
}

/// As [`range`], but two negative numbers before the start both mean the start.
pub(super) fn clamped(start: i64, end: i64, length: u64) -> (u64, u64) {
    let length = length as i64;
    let from_end = |index: i64| if index < 0 { index.saturating_add(length).max(0) } else { index };
    let (start, end) = (from_end(start), from_end(end).min(length - 1));
    if start > end || length == 0 { (0, 0) } else { (start as u64, (end - start + 1) as u64) }
}

/// Returns a syntax error if the option is unknown.
pub(super) fn syntax<T>(option: Option<T>) -> Result<T, Failure> {
    option.ok_or(Failure::from(SYNTAX))
}
