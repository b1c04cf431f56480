//! Sizes, shares, times and settings as users type them.

use std::str::FromStr;

use ebbtide_measure::bench::Dram;

/// `2GiB`, `512MB`, `4096`: bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    parse_size::parse_size(text)
        .map_err(|_| format!("'{text}' is no size; expected something like 2GiB or 500MB"))
}

/// A whole number.
pub(crate) fn count<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is no whole number; expected something like 4"))
}

/// A whole number above zero.
pub(crate) fn at_least_one(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("expected at least 1".to_string()),
        count => Ok(count),
    }
}

/// A number.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("'{text}' is no number; expected something like 0.5"))
}

/// `3%` of the dataset, or a size.
pub(crate) fn dram(text: &str) -> Result<Dram, String> {
    let Some(percent) = text.strip_suffix('%') else { return bytes(text).map(Dram::Bytes) };
    match percent.trim().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Dram::Share(percent / 100.0)),
        _ => Err(format!("'{text}' is no share; expected something like 3% or 64MiB")),
    }
}

/// `10us`, `1.5ms`: microseconds.
pub(crate) fn micros(text: &str) -> Result<f64, String> {
    // Fractions are more than humantime takes.
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = humantime::parse_duration(&format!("1{unit}"));
    match (number.trim().parse::<f64>(), unit) {
        (Ok(number), Ok(unit)) if number > 0.0 && number.is_finite() => {
            Ok(number * unit.as_secs_f64() * 1e6)
        }
        _ => Err(format!("'{text}' is no time; expected something like 10us or 1.5ms")),
    }
}

/// `dram_cache.ways=8`: a key and a value.
pub(crate) fn setting(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
    match parts {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => {
            Ok((key.to_string(), value.to_string()))
        }
        _ => Err(format!("'{text}' sets nothing; expected something like dram_cache.ways=8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_and_without_units() {
        assert_eq!(bytes("2GiB"), Ok(2 << 30));
        assert_eq!(bytes("4096"), Ok(4096));
        assert!(bytes("2 bananas").unwrap_err().contains("'2 bananas' is no size"));
    }

    #[test]
    fn dram_is_a_share_or_a_size() {
        assert_eq!(dram("3%"), Ok(Dram::Share(0.03)));
        assert_eq!(dram("64MiB"), Ok(Dram::Bytes(64 << 20)));
        assert!(dram("0%").is_err() && dram("101%").is_err() && dram("x%").is_err());
    }

    #[test]
    fn numbers_are_finite_and_counts_whole() {
        assert_eq!(count("4"), Ok(4usize));
        assert!(count::<usize>("-1").is_err() && count::<u64>("1.5").is_err());
        assert_eq!(number("0.5"), Ok(0.5));
        assert!(number("nan").is_err() && number("inf").is_err() && number("1s").is_err());
    }

    #[test]
    fn times_with_fractions() {
        assert_eq!(micros("10us"), Ok(10.0));
        assert_eq!(micros("1.5ms"), Ok(1500.0));
        assert!(micros("10").is_err() && micros("-1us").is_err() && micros("us").is_err());
    }

    #[test]
    fn settings_have_a_key_and_a_value() {
        let set = |key: &str, value: &str| Ok((key.to_string(), value.to_string()));
        assert_eq!(setting("a.b=c=d"), set("a.b", "c=d"));
        assert!(setting("a.b").is_err() && setting("=c").is_err() && setting("a=").is_err());
    }
}
