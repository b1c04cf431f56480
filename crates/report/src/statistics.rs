//! Statistics of a few independent measurements: means and ratios with confidence intervals
//! ([`Estimate`]), and rank correlation.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::statistics::{Data, OrderStatistics, RankTieBreaker, Statistics};

/// A mean or ratio with its 95% confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean or ratio.
    pub mean: f64,
    /// Lower and upper end of the interval. `None` if there are too few measurements.
    pub ci95: Option<[f64; 2]>,
}

impl Estimate {
    /// Returns the arithmetic mean of `values` with Student's t interval. The values must be
    /// independent and about normally distributed. A single value has no interval.
    ///
    /// # Panics
    /// If `values` is empty.
    pub fn of(values: &[f64]) -> Estimate {
        assert!(!values.is_empty(), "an estimate needs a measurement");
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let ci95 = (values.len() > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            let error = (squares / (count - 1.0) / count).sqrt();
            let reach = student_t(0.95, values.len() as u32 - 1) * error;
            [mean - reach, mean + reach]
        });
        Estimate { mean, ci95 }
    }

    /// Returns true if half the width of the interval is at most `share` of the mean. `share` is a
    /// fraction such as 0.05. Returns false if there is no interval.
    pub fn is_within(&self, share: f64) -> bool {
        self.half_width().is_some_and(|half| half <= share * self.mean.abs())
    }

    /// Returns half the width of the interval; `None` if there is no interval.
    pub fn half_width(&self) -> Option<f64> {
        self.ci95.map(|[low, high]| (high - low) / 2.0)
    }
}

/// Returns the geometric mean of `after` divided by the geometric mean of `before`, with its 95%
/// confidence interval. The samples must be independent.
///
/// The interval is Welch's t interval of the difference between the means of the logarithms. It is
/// `None` if a sample has a single value. The result is `None` if a sample is empty, or has a value
/// that is not finite and above zero.
pub fn ratio_of_means(before: &[f64], after: &[f64]) -> Option<Estimate> {
    let (before, after) = (Logarithms::of(before)?, Logarithms::of(after)?);
    let difference = after.mean - before.mean;
    let ci95 = before.error.zip(after.error).map(|(b, a)| {
        let error = (b.square + a.square).sqrt();
        // Welch-Satterthwaite; identical values have no error and any number of degrees.
        let spread = b.square.powi(2) / b.freedom + a.square.powi(2) / a.freedom;
        let freedom = if spread > 0.0 { error.powi(4) / spread } else { 1.0 };
        let reach = student_quantile(0.95, freedom) * error;
        [(difference - reach).exp(), (difference + reach).exp()]
    });
    Some(Estimate { mean: difference.exp(), ci95 })
}

/// The mean of the logarithms of a sample.
struct Logarithms {
    mean: f64,
    /// `None` from a single value.
    error: Option<MeanError>,
}

/// The error of a mean.
struct MeanError {
    /// The square of the standard error.
    square: f64,
    /// Degrees of freedom.
    freedom: f64,
}

impl Logarithms {
    fn of(values: &[f64]) -> Option<Logarithms> {
        if values.is_empty() || values.iter().any(|value| !(*value > 0.0 && value.is_finite())) {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().map(|value| value.ln()).sum::<f64>() / count;
        let error = (values.len() > 1).then(|| {
            let squares: f64 = values.iter().map(|value| (value.ln() - mean).powi(2)).sum();
            MeanError { square: squares / (count - 1.0) / count, freedom: count - 1.0 }
        });
        Some(Logarithms { mean, error })
    }
}

/// Returns Spearman's rank correlation of the pairs, from -1 to 1. Returns 0 if one side is
/// constant.
pub fn rank_correlation(pairs: &[(f64, f64)]) -> f64 {
    let ranks = |of: fn(&(f64, f64)) -> f64| {
        let mut values = Data::new(pairs.iter().map(of).collect::<Vec<f64>>());
        values.ranks(RankTieBreaker::Average)
    };
    let (first, second) = (ranks(|pair| pair.0), ranks(|pair| pair.1));
    let spread = (&first).population_std_dev() * (&second).population_std_dev();
    if spread > 0.0 { (&first).population_covariance(&second) / spread } else { 0.0 }
}

/// Returns the `t` such that a variable of Student's distribution with `freedom` degrees of freedom
/// lies between -t and t with probability `within`.
///
/// # Panics
/// Unless `within` lies between 0 and 1, both excluded, and `freedom` is at least 1.
pub(crate) fn student_t(within: f64, freedom: u32) -> f64 {
    student_quantile(within, f64::from(freedom))
}

fn student_quantile(within: f64, freedom: f64) -> f64 {
    assert!(within > 0.0 && within < 1.0 && freedom > 0.0, "{within} within, {freedom} free");
    let distribution = StudentsT::new(0.0, 1.0, freedom).expect("freedom is positive");
    distribution.inverse_cdf(0.5 + within / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_correlate_whatever_the_scale() {
        assert_eq!(rank_correlation(&[(1.0, 3.0), (2.0, 50.0), (3.0, 1e9)]), 1.0);
        assert_eq!(rank_correlation(&[(1.0, 3.0), (2.0, 2.0), (3.0, -9.0)]), -1.0);
        assert_eq!(rank_correlation(&[(1.0, 7.0), (2.0, 7.0)]), 0.0);
        assert_eq!(rank_correlation(&[(1.0, 1.0), (2.0, 2.0), (3.0, 2.0), (4.0, 1.0)]), 0.0);
    }

    #[test]
    fn a_factor_has_the_interval_of_welchs_test() {
        let found = ratio_of_means(&[1.0, 1.1, 0.9], &[2.0, 2.2, 1.8]).expect("a factor");
        assert!((found.mean - 2.0).abs() < 1e-12, "{found:?}");
        // By hand: the logarithms have a standard deviation of 0.10039 either way, so that the
        // error of the difference is 0.08197, with 4 degrees of freedom (t = 2.7764).
        let [low, high] = found.ci95.expect("an interval");
        assert!((low - 2.0 * (-0.22758f64).exp()).abs() < 1e-3, "{found:?}");
        assert!((high - 2.0 * 0.22758f64.exp()).abs() < 1e-3, "{found:?}");
        assert_eq!(ratio_of_means(&[1.0], &[2.0]).expect("a factor").ci95, None);
        let same = ratio_of_means(&[1.0, 1.0], &[1.0, 1.0]).expect("a factor");
        assert_eq!(same, Estimate { mean: 1.0, ci95: Some([1.0, 1.0]) });
        assert_eq!(ratio_of_means(&[], &[1.0]), None);
        assert_eq!(ratio_of_means(&[0.0], &[1.0]), None);
    }

    #[test]
    fn quantiles_are_those_of_printed_tables() {
        for (freedom, t) in
            [(1, 12.706204736174696), (2, 4.302652729749463), (3, 3.182446305283709)]
        {
            let ours = student_t(0.95, freedom);
            assert!((ours - t).abs() < 1e-9 * t, "{freedom}: {ours}");
        }
        for (freedom, t) in [(4, 2.7764), (9, 2.2622), (30, 2.0423)] {
            let ours = student_t(0.95, freedom);
            assert!((ours - t).abs() < 5e-5, "{freedom}: {ours}");
        }
        assert!((student_t(0.95, 100_000) - 1.95998).abs() < 1e-4, "a normal one in the limit");
        assert!((student_t(0.99, 5) - 4.0321).abs() < 5e-5);
    }

    #[test]
    fn an_estimate_is_what_a_textbook_computes() {
        let estimate = Estimate::of(&[4.0, 6.0, 8.0]);
        // Standard error 2 / √3, two degrees of freedom.
        let reach = 4.30265 * 2.0 / 3f64.sqrt();
        assert_eq!(estimate.mean, 6.0);
        assert!((estimate.half_width().unwrap() - reach).abs() < 1e-4);
        assert_eq!(Estimate::of(&[5.0]), Estimate { mean: 5.0, ci95: None });
        assert_eq!(Estimate::of(&[5.0; 4]).ci95, Some([5.0, 5.0]));
    }

    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        // Twelve uniform numbers add up to about a normal one, with mean 6.
        let mut state = 1u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>();
        let held = (0..2_000)
            .map(|_| Estimate::of(&[(); 5].map(|()| normal())))
            .filter(|estimate| estimate.ci95.is_some_and(|[low, high]| low <= 6.0 && 6.0 <= high))
            .count();
        assert!((1_870..1_930).contains(&held), "{held} of 2000");
    }
}
