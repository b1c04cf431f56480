//! [`Scale`]: a fraction that multiplies capacities.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::Config;

/// A fraction of the capacities of a [`Config`], such as 1/64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// At least 1, and at most the denominator.
    pub numerator: u64,
    /// At least 1.
    pub denominator: u64,
}

/// A text that is no [`Scale`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not a fraction up to 1; expected something like 1/64")]
pub struct NoScale(String);

impl Scale {
    /// All of it.
    pub const WHOLE: Scale = Scale { numerator: 1, denominator: 1 };

    /// `config` with its capacities shrunk to this.
    pub fn of(self, config: Config) -> Config {
        config.scaled(self.numerator, self.denominator)
    }
}

impl FromStr for Scale {
    type Err = NoScale;

    fn from_str(text: &str) -> Result<Scale, NoScale> {
        let (numerator, denominator) = text.split_once('/').unwrap_or((text, "1"));
        match (numerator.trim().parse(), denominator.trim().parse()) {
            (Ok(numerator), Ok(denominator)) if 0 < numerator && numerator <= denominator => {
                Ok(Scale { numerator, denominator })
            }
            _ => Err(NoScale(text.to_string())),
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_fractions_up_to_one() {
        assert_eq!("1/64".parse(), Ok(Scale { numerator: 1, denominator: 64 }));
        assert_eq!("1".parse(), Ok(Scale::WHOLE));
        for text in ["0/64", "2/1", "1/0", "0.5", "a/b", "1/", "", "1/2/3", "-1/2"] {
            let error = text.parse::<Scale>().unwrap_err().to_string();
            assert!(error.contains("1/64"), "{error}");
        }
    }
}
