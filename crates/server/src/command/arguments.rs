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
    let number = integer(text).ok_or(NOT_INTEGER)?;
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
    let number = integer(text).ok_or(NOT_INTEGER)?;
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

/// As [`range`], of the indices of a list or a sorted set. An end before the start is an empty
/// range.
pub(super) fn indices(start: i64, end: i64, length: u64) -> (u64, u64) {
    let length = length as i64;
    let from_end = |index: i64| if index < 0 { index.saturating_add(length) } else { index };
    let (start, end) = (from_end(start).max(0), from_end(end).min(length - 1));
    if start > end { (0, 0) } else { (start as u64, (end - start + 1) as u64) }
}

/// Returns a syntax error if the option is unknown.
pub(super) fn syntax<T>(option: Option<T>) -> Result<T, Failure> {
    option.ok_or(Failure::from(SYNTAX))
}

/// Returns the keys after the number of keys at `index`, and the index of the argument after them.
pub(super) fn counted_keys<'a, 'b>(
    arguments: &'b [&'a [u8]],
    index: usize,
) -> Result<(&'b [&'a [u8]], usize), Failure> {
    keys_or(arguments, index, "ERR Number of keys can't be greater than number of args")
}

/// As [`counted_keys`], with a syntax error if there are too few.
pub(super) fn keys_of<'a, 'b>(
    arguments: &'b [&'a [u8]],
    index: usize,
) -> Result<(&'b [&'a [u8]], usize), Failure> {
    keys_or(arguments, index, SYNTAX)
}

fn keys_or<'a, 'b>(
    arguments: &'b [&'a [u8]],
    index: usize,
    too_few: &'static str,
) -> Result<(&'b [&'a [u8]], usize), Failure> {
    let count = integer(arguments[index]).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or("ERR numkeys should be greater than 0")?;
    let end = (index + 1).saturating_add(count);
    Ok((arguments.get(index + 1..end).ok_or(too_few)?, end))
}

/// Parses `COUNT number` at `index`, if there is something; 1 if not.
pub(super) fn count_option(arguments: &[&[u8]], index: usize) -> Result<u64, Failure> {
    match arguments.get(index..).unwrap_or_default() {
        [] => Ok(1),
        [word, count] if word.eq_ignore_ascii_case(b"COUNT") => {
            let count = integer(count).and_then(|count| u64::try_from(count).ok());
            let count = count.filter(|count| *count > 0);
            count.ok_or(Failure::from("ERR count should be greater than 0"))
        }
        _ => Err(SYNTAX.into()),
    }
}

/// Parses `LIMIT number` at `index`, if there is something. No limit is the largest number.
pub(super) fn limit_option(arguments: &[&[u8]], index: usize) -> Result<u64, Failure> {
    let (pairs, odd) = arguments.get(index..).unwrap_or_default().as_chunks::<2>();
    let mut most = u64::MAX;
    for [word, limit] in pairs {
        if !word.eq_ignore_ascii_case(b"LIMIT") {
            return Err(SYNTAX.into());
        }
        let limit = integer(limit).and_then(|limit| u64::try_from(limit).ok());
        most = match limit.ok_or("ERR LIMIT can't be negative")? {
            0 => u64::MAX,
            limit => limit,
        };
    }
    if odd.is_empty() { Ok(most) } else { Err(SYNTAX.into()) }
}
