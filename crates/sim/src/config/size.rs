//! [`Size`]: bytes, as `"8GiB"` in a file.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Bytes. In a file a string with a unit (`"8GiB"`) or a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

const UNITS: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, shift) = UNITS
            .into_iter()
            .find(|(_, shift)| self.0 >> shift > 0 && self.0.trailing_zeros() >= *shift)
            .unwrap_or(("B", 0));
        write!(f, "{}{unit}", self.0 >> shift)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"8GiB\" or a number of bytes")
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Size, E> {
                u64::try_from(bytes)
                    .map(Size)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(bytes), &self))
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<Size, E> {
                Ok(Size(bytes))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                parse_size::Config::new()
                    .with_binary()
                    .parse_size(text)
                    .map(Size)
                    .map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written_with_their_units() {
        #[derive(Serialize, Deserialize)]
        struct File {
            size: Size,
        }
        for (text, bytes) in [("\"8GiB\"", 8 << 30), ("4096", 4096), ("\"64KiB\"", 64 << 10)] {
            let file: File = toml::from_str(&format!("size = {text}")).unwrap();
            assert_eq!(file.size, Size(bytes));
            let again: File = toml::from_str(&toml::to_string(&file).unwrap()).unwrap();
            assert_eq!(again.size, Size(bytes));
        }
        for text in ["\"8 apples\"", "-1", "1.5"] {
            assert!(toml::from_str::<File>(&format!("size = {text}")).is_err(), "{text}");
        }
    }
}
