//! [`mean`] and other summaries of several runs.

/// Returns the arithmetic mean of `values`. NaN if there are none.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let add = |(sum, count), value| (sum + value, count + 1.0);
    let (sum, count) = values.into_iter().fold((0.0, 0.0), add);
    sum / count
}

/// Returns the geometric mean of `values`. NaN if there are none or one is negative.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> f64 {
    mean(values.into_iter().map(f64::ln)).exp()
}

/// Returns the least of `values`. Infinite if there are none.
pub fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

/// Returns the largest of `values`. Negative infinity if there are none.
pub fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::NEG_INFINITY, f64::max)
}
