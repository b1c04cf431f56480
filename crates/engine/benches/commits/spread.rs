//! [`Spread`]: the median of some figures, with the range.

/// The median, the least and the most.
pub struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    pub fn of(figures: impl Iterator<Item = f64>) -> Spread {
        let mut sorted: Vec<f64> = figures.collect();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
        Spread { median: sorted[sorted.len() / 2], least, most }
    }

    pub fn whole(&self) -> String {
        format!("{:.0} ({:.0}–{:.0})", self.median, self.least, self.most)
    }

    pub fn hundredths(&self) -> String {
        format!("{:.2} ({:.2}–{:.2})", self.median, self.least, self.most)
    }
}
