//! [`Bytes`]: a size in bytes, and its text form.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

/// A number of bytes.
///
/// The text form is the same on the command line, in TOML files and in errors. It is a whole number
/// of bytes, or a number with a unit. `KiB`, `MiB`, `GiB` and `TiB` are powers of 1,024. `kB`,
/// `MB`, `GB` and `TB` are powers of 1,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A text that is not a size.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{}' is not a size; expected something like 2GiB, 500MB or 4096", .0.escape_debug())]
pub struct NotBytes(String);

const UNITS: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

impl FromStr for Bytes {
    type Err = NotBytes;

    fn from_str(text: &str) -> Result<Bytes, NotBytes> {
        parse_size::parse_size(text).map(Bytes).map_err(|_| NotBytes(text.to_string()))
    }
}

impl fmt::Display for Bytes {
    /// Writes the value in the largest unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, shift) = UNITS
            .into_iter()
            .find(|(_, shift)| self.0 >> shift > 0 && self.0.trailing_zeros() >= *shift)
            .unwrap_or(("B", 0));
        write!(f, "{}{unit}", self.0 >> shift)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"8GiB\" or a number of bytes")
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Bytes, E> {
                u64::try_from(bytes)
                    .map(Bytes)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(bytes), &self))
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Bytes, E> {
                Ok(Bytes(bytes))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_units_are_powers_of_1024_and_decimal_ones_of_1000() {
        for (text, bytes) in [
            ("2GiB", 2 << 30),
            ("2GB", 2_000_000_000),
            ("64KiB", 64 << 10),
            ("0.5MiB", 512 << 10),
            ("4096", 4096),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_says_what_one_looks_like() {
        for text in ["2 bananas", "-1", "", "GiB"] {
            let error = text.parse::<Bytes>().unwrap_err().to_string();
            let expected =
                format!("'{text}' is not a size; expected something like 2GiB, 500MB or 4096");
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn a_file_holds_a_size_as_text_or_as_a_number() {
        #[derive(Serialize, Deserialize)]
        struct File {
            size: Bytes,
        }
        for (text, bytes) in [
            ("\"8GiB\"", 8 << 30),
            ("4096", 4096),
            ("\"64KiB\"", 64 << 10),
            ("\"1GB\"", 1_000_000_000),
        ] {
            let file: File = toml::from_str(&format!("size = {text}")).unwrap();
            assert_eq!(file.size, Bytes(bytes));
            let again: File = toml::from_str(&toml::to_string(&file).unwrap()).unwrap();
            assert_eq!(again.size, Bytes(bytes));
        }
        for text in ["\"8 apples\"", "-1", "1.5"] {
            assert!(toml::from_str::<File>(&format!("size = {text}")).is_err(), "{text}");
        }
    }
}
