//! The fast parser: plain lines, which are nearly all of a trace, eight bytes at a time.
//!
//! Other lines (hexadecimal, decimals, several blanks, more than 16 digits, anything invalid) are
//! left to [`super::line`], which defines the form.

use ebbtide_core::{Addr, Time};

use crate::{Access, Op};

/// The access at the start of `text`, and the bytes its line takes with its line end. `None` if the
/// line is not plain or `text` ends too soon to tell.
#[inline]
pub(super) fn parse(text: &[u8]) -> Option<(Access, usize)> {
    let (time, rest) = number(text)?;
    let (device, rest) = number(rest)?;
    let (address, rest) = number(rest)?;
    let (bytes, rest) = number(rest)?;
    let (&[rw, end], rest) = rest.split_first_chunk::<2>()?;
    let device = u32::try_from(device).ok()?;
    let bytes = u32::try_from(bytes).ok()?;
    if end != b'\n' || !matches!(rw, b'0' | b'1') || bytes == 0 {
        return None;
    }
    // 16 digits of nanoseconds are fewer picoseconds than 2^64, and 16 digits plus a size of 32
    // bits are far from the end of the address space.
    let at = Time::from_ns(time);
    let op = if rw == b'0' { Op::Write } else { Op::Read };
    let access = Access { device, ..Access::new(at, Addr(address), bytes, op) };
    Some((access, text.len() - rest.len()))
}

/// The number of 1 to 16 digits at the start of `text`, and what follows the blank after it.
#[inline]
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let (first, length) = digits(text)?;
    let (value, length) = if length < 8 {
        (first, length)
    } else {
        let (second, more) = digits(&text[8..])?;
        (first * POWERS_OF_TEN[more] + second, 8 + more)
    };
    match text[length..].split_first() {
        Some((b' ', rest)) if length > 0 => Some((value, rest)),
        _ => None,
    }
}

const POWERS_OF_TEN: [u64; 9] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// The number written by the digits among the first eight bytes of `text`, and how many they are.
#[inline]
fn digits(text: &[u8]) -> Option<(u64, usize)> {
    let word = u64::from_le_bytes(*text.first_chunk::<8>()?);
    // Digits become 0 to 9. Whatever else stands first among the bytes gets its top bit set below;
    // carries only disturb the bytes after it.
    let values = word ^ 0x3030_3030_3030_3030;
    let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    let length = others.trailing_zeros() as usize / 8;
    if length == 0 {
        return Some((0, 0));
    }
    // The last digit to the top byte and zeros before the first; then pairs, fours, all eight.
    let ones = values << (8 * (8 - length));
    let pairs = (ones * 10 + (ones >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let eight = (fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff;
    Some((eight, length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::line;

    proptest! {
        #[test]
        fn what_is_read_fast_is_what_is_read_with_care(
            text in "[0-9]{0,18}( |  |\t|,)[0-9]{0,11} (0x)?[0-9a]{1,17} [0-9]{1,11} [01R]( 3)?"
        ) {
            let padded = format!("{text}\n{}", "7".repeat(32));
            if let Some((access, length)) = parse(padded.as_bytes()) {
                prop_assert_eq!(length, text.len() + 1);
                prop_assert_eq!(line::parse(text.as_bytes()), Ok(Some(access)));
            }
        }

        #[test]
        fn every_plain_line_is_read_fast(
            (time, device) in (0..10_u64.pow(16), any::<u32>()),
            (address, bytes) in (0..10_u64.pow(16), 1..=u32::MAX),
            rw in 0..=1,
        ) {
            let text = format!("{time} {device} {address} {bytes} {rw}");
            let padded = format!("{text}\n{}", " ".repeat(16));
            let quick = parse(padded.as_bytes()).map(|(access, _)| access);
            prop_assert_eq!(Ok(quick), line::parse(text.as_bytes()));
            prop_assert!(quick.is_some());
        }
    }
}
