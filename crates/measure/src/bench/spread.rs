//! [`Spread`]: a figure over several rounds.

use serde::Serialize;

/// A figure over several rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The median: the middle value, or the mean of the two middle values.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of `values`; zeros for an empty list.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (Some(&min), Some(&max)) = (values.first(), values.last()) else {
            return Spread { median: 0.0, min: 0.0, max: 0.0 };
        };
        let median = (values[(values.len() - 1) / 2] + values[values.len() / 2]) / 2.0;
        Spread { median, min, max }
    }
}
