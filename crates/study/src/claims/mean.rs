//! [`mean`]: what several runs come to.

/// The arithmetic mean of `values`; not a number when there are none.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let add = |(sum, count), value| (sum + value, count + 1.0);
    let (sum, count) = values.into_iter().fold((0.0, 0.0), add);
    sum / count
}

/// The geometric mean of `values`; not a number when there are none.
pub fn geometric_mean(values: impl IntoIterator<Item = f64>) -> f64 {
    mean(values.into_iter().map(f64::ln)).exp()
}

/// The least of `values`; infinite when there are none.
pub fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

/// The most of `values`; negatively infinite when there are none.
pub fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::NEG_INFINITY, f64::max)
}
