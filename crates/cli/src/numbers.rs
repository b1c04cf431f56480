//! Parsers of numbers and settings on the command line.

use std::str::FromStr;

/// A whole number.
pub(crate) fn count<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("'{text}' is not a whole number; expected something like 4"))
}

/// A whole number above zero.
pub(crate) fn at_least_one(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("expected at least 1".to_string()),
        count => Ok(count),
    }
}

/// A number of seeds. Each is a run.
pub(crate) fn seeds(text: &str) -> Result<u64, String> {
    const MAX: u64 = 10_000;
    at_least_one(text).and_then(|count| match count {
        ..=MAX => Ok(count),
        _ => Err(format!("expected at most {MAX}")),
    })
}

/// A number.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| format!("'{text}' is not a number; expected something like 0.5"))
}

/// `dram_cache.ways=8`: a key and a value.
pub(crate) fn setting(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
    match parts {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => {
            Ok((key.to_string(), value.to_string()))
        }
        _ => Err(format!("'{text}' is not a setting; expected something like dram_cache.ways=8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_finite_and_counts_whole() {
        assert_eq!(count("4"), Ok(4usize));
        assert!(count::<usize>("-1").is_err() && count::<u64>("1.5").is_err());
        assert_eq!(number("0.5"), Ok(0.5));
        assert!(number("nan").is_err() && number("inf").is_err() && number("1s").is_err());
    }

    #[test]
    fn settings_have_a_key_and_a_value() {
        let set = |key: &str, value: &str| Ok((key.to_string(), value.to_string()));
        assert_eq!(setting("a.b=c=d"), set("a.b", "c=d"));
        assert!(setting("a.b").is_err() && setting("=c").is_err() && setting("a=").is_err());
    }
}
