//! Points in time and spans between them, in integer picoseconds.
//!
//! Every clock and transfer time of the modelled systems is a whole number of picoseconds. Examples
//! are the beat of DDR4-1600, 0.625 ns, and a cycle at 2 GHz. So simulated runs are reproducible to
//! the bit. 64 bits last 213 days.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A point in time: picoseconds since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Time(u64);

/// A length of time in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Span(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Time = Time(0);

    /// The point `ps` picoseconds after the start.
    pub const fn from_ps(ps: u64) -> Time {
        Time(ps)
    }

    /// The point `ns` nanoseconds after the start.
    pub const fn from_ns(ns: u64) -> Time {
        Time(ns * 1_000)
    }

    /// Picoseconds since the start.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Whole nanoseconds since the start.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns the time from `earlier` to this; zero if this is not after `earlier`.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// A span of zero.
    pub const ZERO: Span = Span(0);

    /// A span of `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Span {
        Span(ps)
    }

    /// A span of `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Span {
        Span(ns * 1_000)
    }

    /// A span of `us` microseconds.
    pub const fn from_us(us: u64) -> Span {
        Span(us * 1_000_000)
    }

    /// The sum of the two, or the longest span if the sum is longer. For totals over threads or
    /// commands: many of them together take more than 213 days sooner than the clock does.
    #[must_use]
    pub const fn saturating_add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }

    /// The span in picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// The span in whole nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1_000
    }

    /// The span in microseconds.
    pub const fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// A text that is not a length of time.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{}' is not a time; expected something like 10us or 1.5ms", .0.escape_debug())]
pub struct NotSpan(String);

impl FromStr for Span {
    type Err = NotSpan;

    /// A number above zero with a unit, such as `10us`, `1.5ms` or `2s`.
    fn from_str(text: &str) -> Result<Span, NotSpan> {
        // humantime reads units from nanoseconds on, but whole numbers only.
        let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let unit_ps = match unit {
            "ps" => Ok(1.0),
            unit => humantime::parse_duration(&format!("1{unit}"))
                .map(|one| one.as_nanos() as f64 * 1e3),
        };
        let ps = match (number.trim().parse::<f64>(), unit_ps) {
            (Ok(number), Ok(unit_ps)) => number * unit_ps,
            _ => f64::NAN,
        };
        if (1.0..u64::MAX as f64).contains(&ps) {
            Ok(Span(ps.round() as u64))
        } else {
            Err(NotSpan(text.to_string()))
        }
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0 + span.0)
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        self.0 += span.0;
    }
}

impl Sub<Time> for Time {
    type Output = Span;
    fn sub(self, earlier: Time) -> Span {
        debug_assert!(self >= earlier, "time runs back from {earlier:?} to {self:?}");
        self.since(earlier)
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0 + other.0)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ps", self.0)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ps", self.0)
    }
}

impl fmt::Display for Span {
    /// Writes the value in the largest unit that it reaches, such as `1.5ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("s", 1e12), ("ms", 1e9), ("us", 1e6), ("ns", 1e3)];
        let fits = |(_, ps): &(&str, f64)| self.0 as f64 >= *ps;
        let (unit, ps) = units.into_iter().find(fits).unwrap_or(("ps", 1.0));
        write!(f, "{}{unit}", self.0 as f64 / ps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_number_and_a_unit() {
        for (text, span) in [
            ("10us", Span::from_us(10)),
            ("1.5ms", Span::from_us(1_500)),
            ("2s", Span::from_us(2_000_000)),
            ("0.5ns", Span::from_ps(500)),
        ] {
            assert_eq!(text.parse(), Ok(span), "{text}");
            assert_eq!(span.to_string().parse(), Ok(span), "{text}");
        }
        for text in ["10", "-1us", "us", "0us", "nanus", "infus", "1 parsec"] {
            let error = text.parse::<Span>().unwrap_err().to_string();
            let expected = format!("'{text}' is not a time; expected something like 10us or 1.5ms");
            assert_eq!(error, expected);
        }
    }
}
