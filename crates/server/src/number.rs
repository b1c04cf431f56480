//! Numbers as Redis reads and writes them.

/// Fractional digits of a sum of floating-point numbers.
const FRACTION_DIGITS: usize = 17;

/// Parses a signed 64-bit integer. A sign `+`, spaces and leading zeros are errors.
pub fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.len() < 19 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !plain {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses a floating-point number, decimal or as hexadecimal digits after `0x`. NaN is an error,
/// and so is a number too great or too small for 64 bits.
pub fn float(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.is_empty()
        || text.starts_with(char::is_whitespace)
        || text.ends_with(char::is_whitespace)
    {
        return None;
    }
    let (sign, digits) = match text.as_bytes() {
        [b'-', digits @ ..] => (-1.0, digits),
        [b'+', digits @ ..] => (1.0, digits),
        digits => (1.0, digits),
    };
    if let [b'0', b'x' | b'X', digits @ ..] = digits {
        return hexadecimal(digits).map(|value| sign * value);
    }
    let value = text.parse::<f64>().ok().filter(|value| !value.is_nan())?;
    let mut mantissa = digits.iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
    let fits = match digits {
        [b'i' | b'I', ..] => true,
        _ if value == 0.0 => mantissa.all(|byte| matches!(byte, b'0' | b'.')),
        _ => value.is_finite(),
    };
    fits.then_some(value)
}

/// Parses hexadecimal digits with a point and a binary exponent, as `1.8p4`.
fn hexadecimal(text: &[u8]) -> Option<f64> {
    /// Digits that surely fit in the mantissa with the bit of the others.
    const EXACT_MAX: i32 = 15;
    let at = text.iter().position(|byte| matches!(byte, b'p' | b'P')).unwrap_or(text.len());
    let exponent = match &text[at..] {
        [] => 0,
        [_, exponent @ ..] => std::str::from_utf8(exponent).ok()?.parse::<i32>().ok()?,
    };
    let (mut mantissa, mut taken, mut shift) = (0u64, 0, 0i32);
    let (mut any, mut in_fraction) = (false, false);
    for byte in &text[..at] {
        if *byte == b'.' && !in_fraction {
            in_fraction = true;
            continue;
        }
        let digit = u64::from(char::from(*byte).to_digit(16)?);
        any = true;
        if taken < EXACT_MAX {
            mantissa = mantissa << 4 | digit;
            taken += i32::from(mantissa > 0);
            shift -= if in_fraction { 4 } else { 0 };
        } else {
            mantissa |= u64::from(digit > 0);
            shift += if in_fraction { 0 } else { 4 };
        }
    }
    let exponent = exponent.saturating_add(shift).clamp(-4096, 4096);
    let half = f64::from(exponent / 2).exp2();
    let value = match mantissa {
        0 => 0.0,
        _ => mantissa as f64 * half * f64::from(exponent - exponent / 2).exp2(),
    };
    let fits = value.is_finite() && (value > 0.0 || mantissa == 0);
    (any && fits).then_some(value)
}

/// Returns the sum of two numbers as text, with at most 17 fractional digits.
/// `None` if one is no number; [`NotFinite`] if the sum is infinite or NaN.
///
/// Redis adds in 80-bit floating point. Here a sum below 10²⁰ is exact, and its text is the same.
pub fn add_floats(one: &[u8], other: &[u8]) -> Option<Result<String, NotFinite>> {
    let sum = float(one)? + float(other)?;
    if !sum.is_finite() {
        return Some(Err(NotFinite));
    }
    let exact = fixed(one).zip(fixed(other)).map(|(one, other)| unfixed(one + other));
    Some(Ok(exact.unwrap_or_else(|| format!("{sum:.0}"))))
}

/// The sum is infinite or NaN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotFinite;

/// Returns a number as text with at most `digits` significant digits, as `%g` of C does.
pub fn significant(value: f64, digits: usize) -> String {
    let digits = digits.max(1);
    if !value.is_finite() {
        let text = if value.is_nan() { "nan" } else { "inf" };
        return if value.is_sign_negative() { format!("-{text}") } else { text.into() };
    }
    if value.fract() == 0.0 && value.abs() < 1e14 && value != 0.0 && digits >= 14 {
        return itoa::Buffer::new().format(value as i64).into();
    }
    let scientific = format!("{:.*e}", digits - 1, value);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    trimmed(&format!("{:.*}", (digits as i32 - 1 - exponent) as usize, value))
}

/// Returns a number below 10²⁰ as a multiple of 10⁻¹⁷.
fn fixed(text: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(text).ok()?;
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = whole.bytes().chain(fraction.bytes());
    // Number of digits before the decimal point.
    let point = whole.len() as i64 + i64::from(exponent);
    let (mut value, mut taken) = (0i128, 0i64);
    let wanted = point + FRACTION_DIGITS as i64;
    for (index, digit) in digits.enumerate() {
        let digit = char::from(digit).to_digit(10)?;
        if (index as i64) < wanted {
            value = value.checked_mul(10)?.checked_add(i128::from(digit))?;
            taken += 1;
        } else if index as i64 == wanted && digit >= 5 {
            value += 1;
        }
    }
    for _ in taken..wanted.max(0).min(taken + 60) {
        value = value.checked_mul(10)?;
    }
    let limit = 10i128.pow(20 + FRACTION_DIGITS as u32);
    (value < limit).then_some(if negative { -value } else { value })
}

fn unfixed(value: i128) -> String {
    let one = 10u128.pow(FRACTION_DIGITS as u32);
    let magnitude = value.unsigned_abs();
    let fraction = format!("{:0width$}", magnitude % one, width = FRACTION_DIGITS);
    let fraction = fraction.trim_end_matches('0');
    let sign = if value < 0 { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{fraction}", magnitude / one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_redis_reads_them() {
        let read = |text: &str| integer(text.as_bytes());
        assert_eq!(read("9223372036854775807"), Some(i64::MAX));
        assert_eq!(read("-9223372036854775808"), Some(i64::MIN));
        for text in ["", "-", "+1", "01", "-0", " 1", "1 ", "1.0", "9223372036854775808", "x"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn floating_point_numbers_are_read_as_redis_reads_them() {
        let read = |text: &str| float(text.as_bytes());
        for (text, value) in [
            ("1.5", 1.5),
            ("-.5", -0.5),
            ("+5.", 5.0),
            ("-inf", f64::NEG_INFINITY),
            ("Infinity", f64::INFINITY),
            ("0e999", 0.0),
            ("4e-320", 4e-320),
            ("0x10", 16.0),
            ("-0X1.8p4", -24.0),
            ("0x.8", 0.5),
            ("0x0p9", 0.0),
            ("0x1p-1074", 5e-324),
            ("0xffffffffffffffffffff", 1_208_925_819_614_629_174_706_175.0),
            ("0x20000000000001", 9_007_199_254_740_992.0),
            ("0x20000000000001000001", 151_115_727_451_828_680_000_000.0),
        ] {
            assert_eq!(read(text), Some(value), "{text}");
        }
        for text in [
            "", " 1", "1 ", "nan", "1e400", "-1e400", "1e-400", "0x", "0x.", "0xg", "0x1p2000",
            "1_0",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn significant_digits_are_those_of_c() {
        for (value, digits, text) in [
            (0.0, 17, "0"),
            (-0.0, 17, "-0"),
            (1.0, 17, "1"),
            (-12.0, 14, "-12"),
            (3.5, 17, "3.5"),
            (0.1, 17, "0.10000000000000001"),
            (0.1, 14, "0.1"),
            (1e17, 17, "1e+17"),
            (123_456_789_012_345_678.0, 17, "1.2345678901234568e+17"),
            (99_999_999_999_999_990.0, 17, "99999999999999984"),
            (1e15, 14, "1e+15"),
            (0.0001, 14, "0.0001"),
            (0.00001, 14, "1e-05"),
            (2.5e-300, 14, "2.5e-300"),
            (f64::INFINITY, 17, "inf"),
            (f64::NEG_INFINITY, 17, "-inf"),
        ] {
            assert_eq!(significant(value, digits), text, "{value:e}");
        }
    }

    #[test]
    fn sums_of_decimals_are_exact() {
        let add = |a: &str, b: &str| add_floats(a.as_bytes(), b.as_bytes());
        for (a, b, sum) in [
            ("10.5", "0.1", "10.6"),
            ("5.0e3", "200", "5200"),
            ("1", "-1.25", "-0.25"),
            ("3", "-3", "0"),
            ("0.00000000000000001", "1", "1.00000000000000001"),
            (".5", "1.", "1.5"),
            ("1e22", "1", "10000000000000000000000"),
            ("12e-1", "0", "1.2"),
        ] {
            assert_eq!(add(a, b), Some(Ok(sum.to_string())), "{a} + {b}");
        }
        assert_eq!(add("x", "1"), None);
        assert_eq!(add("inf", "1"), Some(Err(NotFinite)));
        assert_eq!(add("1", " 1"), None);
    }
}
