//! [`Ranks`]: draws of ranks by Zipf's law.

use std::sync::Arc;

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Draws ranks `0..n` with Zipfian popularity: rank `r` with probability `∝ 1 / (r + 1)^θ`.
///
/// Exact rejection sampling in constant time and space for any `n`, with the draws of
/// `rand_distr::Zipf`. For θ up to 1 nearly all draws take no power: a [`Table`] inverts the area,
/// and a bound accepts the rank. The 53-bit uniform numbers have over 10⁴ values for the rarest of
/// 2³³ ranks.
#[derive(Debug, Clone)]
pub(crate) struct Ranks {
    theta: f64,
    /// The area under the envelope: 1 for the first rank, then `x^-θ` from 1 to `n`.
    area: f64,
    /// `1 / (1 - θ)`, or 0 if θ is 1.
    inverse: f64,
    len: u64,
    table: Option<Arc<Table>>,
}

/// More than powers of 2⁵³ ranks are rounded by.
const ROUNDING: f64 = 1e-9;

/// The greatest exponent with which the error of a table is below [`ROUNDING`]. A power multiplies
/// the rounding of its base by its exponent.
const EXPONENT_MAX: f64 = 1e5;

impl Ranks {
    /// Ranks `0..len` with skew `theta`: 0 is uniform, 0.99 is YCSB's.
    ///
    /// # Panics
    /// When `len` is 0 or above 2⁵³, or `theta` is negative or not finite.
    pub fn new(len: u64, theta: f64) -> Ranks {
        assert!((1..=1 << 53).contains(&len), "{len} ranks");
        assert!(theta.is_finite() && theta >= 0.0, "Zipf θ = {theta}");
        let n = len as f64;
        let (area, inverse) = if theta == 1.0 {
            (1.0 + n.ln(), 0.0)
        } else {
            let inverse = 1.0 / (1.0 - theta);
            ((n.powf(1.0 - theta) - theta) * inverse, inverse)
        };
        let mut ranks = Ranks { theta, area, inverse, len, table: None };
        let is_exact = theta <= 1.0 && inverse <= EXPONENT_MAX;
        ranks.table = is_exact.then(|| Arc::new(Table::new(&ranks)));
        ranks
    }

    /// Draws one rank.
    #[inline]
    pub fn draw(&self, rng: &mut Pcg64Mcg) -> u64 {
        loop {
            let area = rng.random::<f64>() * self.area;
            let height: f64 = rng.random();
            if area < 1.0 - ROUNDING {
                return 0;
            }
            if let Some((drawn, below)) = self.table.as_ref().and_then(|table| table.invert(area)) {
                // Below the envelope `drawn^-θ` the rank has `rank^-θ`. Their ratio for θ = 1 is
                // `drawn / rank`, and greater for smaller θ.
                let rank = below as f64 + 1.0;
                if (height + ROUNDING) * rank < drawn {
                    return (below as u64).min(self.len - 1);
                }
            }
            if let Some(rank) = self.by_powers(area, height) {
                return rank;
            }
        }
    }

    /// The rank at which `area` of the envelope lies, unless `height`, a share of the envelope, is
    /// above the ratio of the rank.
    #[inline(never)]
    fn by_powers(&self, area: f64, height: f64) -> Option<u64> {
        let drawn = self.under_envelope(area);
        let rank = (drawn + 1.0).floor();
        // Bernoulli's inequality bounds the ratio, for θ < 1 by that of θ = 1.
        let lost = self.theta.max(1.0) * (rank - drawn) / rank;
        let accepted = rank == 1.0
            || height < 1.0 - lost - ROUNDING
            || height < rank.powf(-self.theta) * drawn.powf(self.theta);
        // Rounding may reach one beyond the last rank.
        accepted.then(|| (rank as u64 - 1).min(self.len - 1))
    }

    /// The place below which `area` of the envelope lies.
    fn under_envelope(&self, area: f64) -> f64 {
        if area <= 1.0 {
            area
        } else if self.theta == 1.0 {
            (area - 1.0).exp()
        } else {
            (area * (1.0 - self.theta) + self.theta).powf(self.inverse)
        }
    }
}

/// The inverse of the area under the envelope from 1 on, in cells of equal area.
///
/// With `q = 1 - θ` the inverse at a distance `δ` of area from a place `x` is
/// `x · (1 + q z)^(1/q)`, where `z = δ · x^-q`. Its power series in `z` is the same for all cells.
#[derive(Debug)]
struct Table {
    /// Cells in an area of 1.
    per_area: f64,
    /// The factors of `z²` to `z⁵`.
    series: [f64; 4],
    /// The greatest relative difference from [`Ranks::under_envelope`].
    error: f64,
    cells: [Cell; CELLS],
}

/// A cell, described at its middle.
#[derive(Debug, Clone, Copy)]
struct Cell {
    /// The inverse.
    x: f64,
    /// `z` of the whole cell.
    width: f64,
}

/// Cells of a table, which takes 16 KiB.
const CELLS: usize = 1 << 10;

/// The widest cell. Up to here the sixth power of `z` is below the error. Wider cells have no
/// values.
const WIDTH_MAX: f64 = 0.04;

impl Table {
    /// The table of `ranks`, whose θ is at most 1.
    fn new(ranks: &Ranks) -> Table {
        let (q, step) = (1.0 - ranks.theta, (ranks.area - 1.0) / CELLS as f64);
        let cells = std::array::from_fn(|cell| {
            let area = 1.0 + (cell as f64 + 0.5) * step;
            let x = ranks.under_envelope(area);
            let width = step / (area * q + ranks.theta);
            Cell { x: if width <= WIDTH_MAX { x } else { f64::NAN }, width }
        });
        let error = 2e-13 + 2e-15 * ranks.inverse;
        let mut factor = 1.0;
        let series = [1.0, 2.0, 3.0, 4.0].map(|k| {
            factor *= (1.0 - k * q) / (k + 1.0);
            factor
        });
        Table { per_area: 1.0 / step, series, error, cells }
    }

    /// The place below which `area` of the envelope lies, and the whole number below it. `None` if
    /// the error may matter to that number.
    #[inline]
    fn invert(&self, area: f64) -> Option<(f64, i64)> {
        let at = (area - 1.0) * self.per_area;
        let cell = at as i64;
        let Cell { x, width } = *self.cells.get(cell as usize)?;
        let z = (at - cell as f64 - 0.5) * width;
        let [second, third, fourth, fifth] = self.series;
        let x = x * (1.0 + z * (1.0 + z * (second + z * (third + z * (fourth + z * fifth)))));
        let below = x as i64;
        let (over, error) = (x - below as f64, x * self.error);
        (over > error && over + error < 1.0).then_some((x, below))
    }
}

#[cfg(test)]
mod tests {
    use rand_distr::{Distribution, Zipf};

    use super::super::job_rng;
    use super::*;

    /// Pearson's χ² of `draws` ranks of `0..len` against the exact probabilities.
    fn chi_square(len: u64, theta: f64, draws: u64) -> f64 {
        let ranks = Ranks::new(len, theta);
        let mut rng = job_rng(11, 0);
        let mut seen = vec![0u64; len as usize];
        (0..draws).for_each(|_| seen[ranks.draw(&mut rng) as usize] += 1);
        let weight = |rank: usize| ((rank + 1) as f64).powf(-theta);
        let total: f64 = (0..seen.len()).map(weight).sum();
        let excess = |(rank, &n): (usize, &u64)| {
            let expected = draws as f64 * weight(rank) / total;
            (n as f64 - expected).powi(2) / expected
        };
        seen.iter().enumerate().map(excess).sum()
    }

    #[test]
    fn drawn_ranks_have_the_exact_zipf_frequencies() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.2] {
            // 99 degrees of freedom: above 148.2 one time in a thousand. The seed is fixed.
            let found = chi_square(100, theta, 300_000);
            assert!(found < 148.2, "θ = {theta}: χ² = {found}");
        }
    }

    /// Skews on both sides of 1, and so near to it that rounding matters.
    const THETAS: [f64; 13] =
        [0.0, 1e-300, 0.3, 0.5, 0.9, 0.99, 0.9999, 0.99999, 1.0 - 1e-9, 1.0, 1.2, 3.0, 10.0];

    const LENGTHS: [u64; 8] = [1, 2, 3, 100, 1 << 20, 100_000_000, 1 << 33, 1 << 53];

    #[test]
    fn ranks_are_drawn_as_rand_distr_draws_them() {
        for theta in THETAS {
            for len in LENGTHS {
                let (ranks, zipf) = (Ranks::new(len, theta), Zipf::new(len as f64, theta).unwrap());
                let (mut rng, mut other) = (job_rng(3, len), job_rng(3, len));
                for draw in 0..50_000 {
                    let expected = (zipf.sample(&mut other) as u64 - 1).min(len - 1);
                    assert_eq!(ranks.draw(&mut rng), expected, "draw {draw} of {len}, {theta}");
                }
            }
        }
    }

    #[test]
    fn a_place_of_the_table_is_that_of_the_powers_to_its_error() {
        for theta in THETAS {
            for len in LENGTHS {
                let ranks = Ranks::new(len, theta);
                let Some(table) = &ranks.table else { continue };
                let mut rng = job_rng(7, len);
                for _ in 0..20_000 {
                    let area = 1.0 + rng.random::<f64>() * (ranks.area - 1.0);
                    let Some((place, below)) = table.invert(area) else { continue };
                    let exact = ranks.under_envelope(area);
                    // The margin for a place beside a whole number is twice what is needed.
                    let error = (place / exact - 1.0).abs();
                    assert!(error <= table.error / 2.0, "{area} of {len}, {theta}: {error:e}");
                    assert_eq!(below as f64, exact.floor(), "{area} of {len}, {theta}");
                }
            }
        }
    }

    #[test]
    fn the_table_serves_nearly_all_draws_from_many_ranks() {
        for len in [1 << 20, 100_000_000] {
            let ranks = Ranks::new(len, 0.99);
            let table = ranks.table.as_ref().expect("a table");
            let mut rng = job_rng(9, len);
            let areas = (0..100_000).map(|_| rng.random::<f64>() * ranks.area);
            let served = areas.filter(|&area| area < 1.0 || table.invert(area).is_some());
            assert!(served.count() > 99_900);
        }
    }

    #[test]
    fn a_wrong_skew_fails_the_same_test() {
        let ranks = Ranks::new(100, 0.9);
        let mut rng = job_rng(11, 0);
        let hottest = (0..300_000).filter(|_| ranks.draw(&mut rng) == 0).count() as f64;
        let expected = 300_000.0 / (1..=100).map(|r| f64::from(r).powf(-0.99)).sum::<f64>();
        assert!((hottest - expected).powi(2) / expected > 148.2);
    }

    #[test]
    fn eight_billion_ranks_are_drawn_by_the_decades_of_the_exact_sum() {
        let (len, theta, draws) = (1u64 << 33, 0.99, 200_000);
        let ranks = Ranks::new(len, theta);
        let mut rng = job_rng(5, 0);
        let mut below = [0u32; 34];
        for _ in 0..draws {
            let rank = ranks.draw(&mut rng);
            assert!(rank < len);
            (0..34).filter(|&b| rank < 1 << b).for_each(|b| below[b] += 1);
        }
        // Σ r^-θ for r ≤ n by Euler–Maclaurin; exact to 1e-9 from n = 1 on once the constant is
        // taken from a sum of the first thousand.
        let integral = |n: f64| {
            n.powf(1.0 - theta) / (1.0 - theta) + n.powf(-theta) / 2.0
                - theta * n.powf(-theta - 1.0) / 12.0
        };
        let thousand: f64 = (1..=1000).map(|r| f64::from(r).powf(-theta)).sum();
        let sum = |n: f64| thousand + integral(n) - integral(1000.0);
        for (b, &drawn) in below.iter().enumerate().skip(10) {
            let share = sum((1u64 << b) as f64) / sum(len as f64);
            let found = f64::from(drawn) / f64::from(draws);
            // Four standard deviations of a share of 200,000 draws.
            let tolerance = 4.0 * (share * (1.0 - share) / f64::from(draws)).sqrt() + 1e-9;
            assert!((found - share).abs() < tolerance, "2^{b}: {found} against {share}");
        }
    }
}
