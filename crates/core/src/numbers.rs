//! Numbers in messages.

use std::fmt::Display;

/// Returns `number` for a message: `0.5`, and `1e308` where all digits would fill lines.
pub fn brief(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-6..1e16).contains(&size) || !number.is_finite() {
        number.to_string()
    } else {
        format!("{number:e}")
    }
}

/// Returns `count` with its `noun`, which is in the singular: `1 core`, `2 cores`, `2 accesses`.
pub fn counted(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    let ending = match &count[..] {
        "1" => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{count} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_of_many_digits_have_an_exponent() {
        for (number, text) in [
            (0.0, "0"),
            (-1.0, "-1"),
            (0.5, "0.5"),
            (3_600_000.0, "3600000"),
            (1e308, "1e308"),
            (1e-300, "1e-300"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(brief(number), text);
        }
    }

    #[test]
    fn one_thing_is_counted_in_the_singular() {
        assert_eq!(counted(1, "core"), "1 core");
        assert_eq!(counted(0u64, "seed"), "0 seeds");
        assert_eq!(counted(12, "page fault"), "12 page faults");
        assert_eq!(counted(2, "access"), "2 accesses");
        assert_eq!(counted("1", "access"), "1 access");
    }
}
