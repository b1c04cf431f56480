//! Formats of numbers and quantities in text, tables and charts.

use std::ops::Range;

/// Returns `value` in ASCII with three significant digits, or all digits before the point: 0.914,
/// 12.5, 107000. Sizes below 0.001 or from 10⁹ on have an exponent: `1.50e-4`.
pub fn figure(value: f64) -> String {
    rounded(value, 1e-3..1e9)
}

/// Returns the fraction `share` in percent: `3.00%` for 0.03.
pub fn percent(share: f64) -> String {
    format!("{}%", figure(share * 100.0))
}

/// Returns a number of bytes with a binary unit, such as `32.0 MiB`.
pub fn bytes(bytes: f64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = units.iter().find(|(_, shift)| bytes >= 2_f64.powi(*shift));
    let (name, shift) = unit.copied().unwrap_or(("B", 0));
    format!("{} {name}", figure(bytes / 2_f64.powi(shift)))
}

/// Returns a time in microseconds as `50.0 us`, or from a thousand on as `1.500 ms` or `2.000 s`.
pub fn microseconds(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.3} s", us / 1e6),
        us if us >= 1e3 => format!("{:.3} ms", us / 1e3),
        us => format!("{us:.1} us"),
    }
}

/// Returns a time in years of 365 days in the largest unit that gives at least 1: `12.0 years`,
/// `182 days`, hours or minutes.
pub fn years(years: f64) -> String {
    let hours = years * 365.0 * 24.0;
    let units = [("years", 1.0 / (365.0 * 24.0)), ("days", 1.0 / 24.0), ("hours", 1.0)];
    let unit = units.iter().find(|(_, an_hour)| hours * an_hour >= 1.0);
    let (name, an_hour) = unit.copied().unwrap_or(("minutes", 60.0));
    format!("{} {name}", figure(hours * an_hour))
}

/// As [`figure`], with thousands separated by a narrow no-break space and a true minus: 107 000.
pub(super) fn readable(value: f64) -> String {
    let text = rounded(value, 1e-4..1e12);
    if text.contains('e') {
        return text;
    }
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), ""), |parts| parts);
    let digits = whole.trim_start_matches('-');
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if digits.len() > 4 && index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 { "\u{2212}" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{grouped}{point}{fraction}")
}

/// Three significant digits; powers of ten only outside of `plain`.
fn rounded(value: f64, plain: Range<f64>) -> String {
    let size = value.abs();
    if size != 0.0 && !plain.contains(&size) {
        return format!("{value:.2e}");
    }
    let decimals = match size {
        0.0 => 0,
        s if s < 0.009_995 => 5,
        s if s < 0.099_95 => 4,
        s if s < 0.9995 => 3,
        s if s < 9.995 => 2,
        s if s < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// As [`readable`], without zeros at the end: for axes.
pub(super) fn tick(value: f64) -> String {
    if (1e6..1e12).contains(&value.abs()) {
        return format!("{} M", tick(value / 1e6));
    }
    let text = readable(value);
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_string()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.9144, "0.914"),
            (1.0, "1.00"),
            (9.999, "10.0"),
            (12.54, "12.5"),
            (107_178.0, "107\u{202f}178"),
            (4321.0, "4321"),
            (-0.05, "\u{2212}0.0500"),
            (1e-7, "1.00e-7"),
        ] {
            assert_eq!(readable(value), text);
        }
    }

    #[test]
    fn figures_are_plain_text() {
        for (value, text) in
            [(107_178.0, "107178"), (-0.05, "-0.0500"), (0.005, "0.00500"), (2e9, "2.00e9")]
        {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn quantities_are_short_and_have_units() {
        assert_eq!(bytes(33_554_432.0), "32.0 MiB");
        assert_eq!(
            [12.0, 0.5, 0.001, 1e-7].map(years),
            ["12.0 years", "182 days", "8.76 hours", "0.0526 minutes"]
        );
        assert_eq!([percent(0.03), microseconds(1500.0)], ["3.00%", "1.500 ms"]);
        assert_eq!([figure(1234.5), figure(12.34), figure(0.5)], ["1234", "12.3", "0.500"]);
    }

    #[test]
    fn ticks_are_short() {
        for (value, text) in [(1.0, "1"), (0.25, "0.25"), (1e6, "1 M"), (2.5e6, "2.5 M")] {
            assert_eq!(tick(value), text);
        }
        assert_eq!(tick(100.0), "100");
    }
}
