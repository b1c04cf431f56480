//! [`Estimate`]: the mean of a few independent measurements, and how sure it is.

use serde::Serialize;

/// A mean with its 95% confidence interval, from independent measurements of a quantity that is
/// about normally distributed (Student's t).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Lower and upper end of the interval; none from a single measurement.
    pub ci95: Option<[f64; 2]>,
}

impl Estimate {
    /// The estimate from `values`.
    ///
    /// # Panics
    /// When there are none.
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

    /// Half the width of the interval.
    pub fn half_width(&self) -> Option<f64> {
        self.ci95.map(|[low, high]| (high - low) / 2.0)
    }
}

/// How far the second of each pair follows the first in rank, from -1 to 1 (Spearman's); 0 where one
/// of them is always the same.
pub fn rank_correlation(pairs: &[(f64, f64)]) -> f64 {
    let ranks = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        let rank = |value: f64| {
            let below = pairs.iter().filter(|pair| of(pair) < value).count();
            let equal = pairs.iter().filter(|pair| of(pair) == value).count();
            below as f64 + (equal as f64 - 1.0) / 2.0
        };
        pairs.iter().map(|pair| rank(of(pair))).collect()
    };
    let (first, second) = (ranks(|pair| pair.0), ranks(|pair| pair.1));
    let middle = (pairs.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - middle) * (b - middle)).sum()
    };
    let spread = (product(&first, &first) * product(&second, &second)).sqrt();
    if spread > 0.0 { product(&first, &second) / spread } else { 0.0 }
}

/// The `t` that a variable of Student's distribution with `freedom` degrees of freedom stays within,
/// on either side of zero, with probability `within`.
///
/// # Panics
/// Unless `within` lies between 0 and 1, both excluded, and `freedom` is at least 1.
pub fn student_t(within: f64, freedom: u32) -> f64 {
    assert!(within > 0.0 && within < 1.0 && freedom > 0, "{within} within, {freedom} free");
    // The probability grows with the angle: halve the range until nothing is left of it.
    let (mut low, mut high) = (0.0, std::f64::consts::FRAC_PI_2);
    loop {
        let middle = (low + high) / 2.0;
        if middle <= low || middle >= high {
            return f64::from(freedom).sqrt() * middle.tan();
        }
        if within_angle(middle, freedom) < within { low = middle } else { high = middle }
    }
}

/// P(|T| < √freedom · tan `angle`), as a finite sum (Abramowitz & Stegun, 26.7.3 and 26.7.4).
fn within_angle(angle: f64, freedom: u32) -> f64 {
    let (sin, cos) = angle.sin_cos();
    let odd = freedom % 2 == 1;
    // The terms' powers of the cosine go up to freedom - 2, each by two more than the last.
    let (mut term, mut sum) = (if odd { cos } else { 1.0 }, 0.0);
    let mut power = if odd { 1 } else { 0 };
    while power + 2 <= freedom {
        sum += term;
        term *= f64::from(power + 1) / f64::from(power + 2) * cos * cos;
        power += 2;
    }
    if odd { (angle + sin * sum) / std::f64::consts::FRAC_PI_2 } else { sin * sum }
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
    fn quantiles_are_those_of_printed_tables() {
        for (freedom, t) in
            [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (30, 2.0423)]
        {
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
