//! Axes: positions of values and of ticks.

/// A linear or logarithmic axis.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    log: bool,
    /// Values that get a line and a number.
    pub(super) ticks: Vec<f64>,
}

impl Scale {
    /// A linear axis from zero, or from below the least value if that is negative, to above the
    /// greatest, with about `count` ticks.
    pub(super) fn linear(values: impl Iterator<Item = f64> + Clone, count: usize) -> Scale {
        let least = values.clone().fold(0.0, f64::min);
        let mut greatest = values.fold(0.0, f64::max);
        if greatest <= least {
            greatest = least + 1.0;
        }
        let step = round_step((greatest - least) / count.max(1) as f64);
        let (first, last) = ((least / step).floor() as i64, (greatest / step).ceil() as i64);
        let ticks: Vec<f64> = (first..=last).map(|n| n as f64 * step).collect();
        Scale { low: first as f64 * step, high: last as f64 * step, log: false, ticks }
    }

    /// A logarithmic axis around positive values. Ticks at 1, 2, 5, 10, … or at powers of ten
    /// alone, so that there are not many more than `count`.
    pub(super) fn log(values: impl Iterator<Item = f64> + Clone, count: usize) -> Scale {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let greatest = values.fold(0.0, f64::max);
        let (least, greatest) = if greatest > 0.0 { (least, greatest) } else { (1.0, 10.0) };
        let decades = least.log10().floor() as i32..=greatest.log10().ceil() as i32;
        let fine = decades
            .clone()
            .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power)));
        // The axis ends at the fine steps just outside of the values.
        let low = fine.clone().filter(|t| *t <= least * 1.000_001).fold(0.0, f64::max);
        let high = fine.clone().filter(|t| *t >= greatest * 0.999_999);
        let mut high = high.fold(f64::INFINITY, f64::min);
        if high <= low {
            high = low * 10.0;
        }
        let within = |t: &f64| *t >= low * 0.999_999 && *t <= high * 1.000_001;
        let mut ticks: Vec<f64> = fine.filter(within).collect();
        if ticks.len() > count + 2 {
            let powers: Vec<f64> = decades.map(|power| 10f64.powi(power)).filter(within).collect();
            // The ends are named too, unless a power of ten stands close by.
            let room = (high / low).powf(0.07);
            let clear = |end: &f64| powers.iter().all(|t| (t / end).max(end / t) > room);
            ticks = [low, high].into_iter().filter(clear).collect();
            ticks.extend(&powers);
        }
        Scale { low, high, log: true, ticks }
    }

    /// Where `value` lies: 0 at the low end, 1 at the high end.
    pub(super) fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share.clamp(0.0, 1.0)
    }
}

/// A logarithmic axis suits values whose ends differ by this factor or more.
const WIDE: f64 = 10.0;

/// Returns true if a logarithmic axis shows `values` better: all are above zero, and the greatest
/// is at least ten times the least.
pub fn suits_log_axis(values: impl IntoIterator<Item = f64>) -> bool {
    let (least, greatest) =
        values.into_iter().fold((f64::INFINITY, 0.0), |(least, most), value| {
            (f64::min(least, value), f64::max(most, value))
        });
    least > 0.0 && greatest.is_finite() && greatest >= WIDE * least
}

/// The round number (1, 2 or 5 times a power of ten) next above `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= step * 0.999_999);
    digit.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_starts_at_zero_and_ends_at_a_round_number() {
        let scale = Scale::linear([0.4, 0.93].into_iter(), 5);
        assert_eq!(scale.ticks.first(), Some(&0.0));
        assert!((scale.ticks.last().unwrap() - 1.0).abs() < 1e-9);
        assert!((scale.share(0.5) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_log_axis_covers_its_values() {
        let scale = Scale::log([29.0, 7582.0].into_iter(), 6);
        assert!(scale.share(29.0) >= 0.0 && scale.share(7582.0) <= 1.0);
        assert!(scale.ticks.contains(&100.0) && scale.ticks.contains(&1000.0));
    }

    #[test]
    fn a_log_axis_suits_positive_values_of_more_than_a_decade() {
        assert!(suits_log_axis([10.0, 1.0, 3.0]) && suits_log_axis([0.2, 7582.0]));
        assert!(!suits_log_axis([1.0, 9.9]) && !suits_log_axis([0.0, 1.0, 100.0]));
        assert!(!suits_log_axis([-1.0, 100.0]) && !suits_log_axis([5.0]) && !suits_log_axis([]));
    }

    #[test]
    fn one_value_or_none_still_makes_an_axis() {
        for values in [vec![], vec![0.0], vec![5.0]] {
            let scale = Scale::linear(values.iter().copied(), 5);
            assert!(scale.share(5.0).is_finite() && !scale.ticks.is_empty());
        }
        for values in [vec![], vec![10.0]] {
            let scale = Scale::log(values.iter().copied(), 5);
            assert!(scale.share(10.0).is_finite() && !scale.ticks.is_empty(), "{scale:?}");
        }
    }
}
