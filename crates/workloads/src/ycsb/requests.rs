//! [`Requests`]: the items that the client chooses, by its Zipfian, latest and uniform generators.

use rand_pcg::Pcg64Mcg;

use super::key::fnv64;
use crate::keys::{Ranks, Scatter};

/// The popularity of items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// Popularity is independent of the time of insertion. An item that replaces another inherits
    /// its popularity.
    Zipfian,
    /// The newest items are the most popular.
    Latest,
}

/// Draws item numbers from the window of present items.
#[derive(Debug, Clone)]
pub struct Requests {
    window: u64,
    ranks: Ranks,
    order: Order,
}

/// The item of a rank of popularity.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// The item `rank` before the newest.
    Latest,
    /// The item with this residue modulo the window.
    InRow,
    /// The item whose residue is the rank's hash modulo the window.
    Scrambled,
}

impl Requests {
    /// Ranks of the client's scrambled Zipfian. They do not depend on the number of items, so that
    /// popularity does not shift as items are added. The client's ζ is 26.469 028 201 783 02.
    const SCRAMBLED_RANKS: u64 = 10_000_000_000;

    /// Requests for items of a window of `window` items, with skew `theta`: 0 is uniform.
    ///
    /// With [`Scatter::Keys`], a Zipfian is scrambled by the client's own hash. Otherwise it keeps
    /// its ranks in the order of items, so that popular items are neighbours.
    ///
    /// # Panics
    /// When `window` is 0 or above 2⁵³, or `theta` is negative or not finite.
    pub fn new(distribution: Distribution, scatter: Scatter, window: u64, theta: f64) -> Requests {
        let order = match (distribution, scatter) {
            (Distribution::Latest, _) => Order::Latest,
            (Distribution::Zipfian, Scatter::Keys) if theta > 0.0 => Order::Scrambled,
            (Distribution::Zipfian, _) => Order::InRow,
        };
        let ranks = match order {
            Order::Scrambled => Requests::SCRAMBLED_RANKS,
            Order::Latest | Order::InRow => window,
        };
        Requests { window, ranks: Ranks::new(ranks, theta), order }
    }

    /// Draws one of the `window` items up to `newest`.
    #[inline]
    pub fn draw(&self, rng: &mut Pcg64Mcg, newest: u64) -> u64 {
        let rank = self.ranks.draw(rng);
        match self.order {
            Order::Latest => newest - rank,
            Order::InRow => self.newest_of(rank, newest),
            Order::Scrambled => self.newest_of(fnv64(rank) % self.window, newest),
        }
    }

    /// The newest item with this residue modulo the window.
    #[inline]
    fn newest_of(&self, residue: u64, newest: u64) -> u64 {
        let of_newest = newest % self.window;
        let older = if residue <= of_newest { 0 } else { self.window };
        newest - (of_newest + older - residue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::job_rng;

    const WINDOW: u64 = 100;
    const DRAWS: u64 = 300_000;
    /// 99 degrees of freedom: χ² is above this one time in a thousand. The seeds are fixed.
    const CHI_SQUARE_MAX: f64 = 148.2;

    /// Pearson's χ² of `requests` drawn at `newest` against `share` of the items of the window,
    /// the oldest first.
    fn chi_square(requests: &Requests, newest: u64, share: impl Fn(u64) -> f64) -> f64 {
        let mut rng = job_rng(17, 0);
        let oldest = newest + 1 - WINDOW;
        let mut seen = [0u64; WINDOW as usize];
        (0..DRAWS).for_each(|_| seen[(requests.draw(&mut rng, newest) - oldest) as usize] += 1);
        let excess = |(i, &seen): (u64, &u64)| {
            let expected = DRAWS as f64 * share(oldest + i);
            (seen as f64 - expected).powi(2) / expected
        };
        (0..).zip(&seen).map(excess).sum()
    }

    fn weight(rank: u64, theta: f64) -> f64 {
        ((rank + 1) as f64).powf(-theta)
    }

    fn zipf_share(rank: u64, theta: f64) -> f64 {
        weight(rank, theta) / (0..WINDOW).map(|rank| weight(rank, theta)).sum::<f64>()
    }

    /// The exact shares of the scrambled Zipfian: ranks one by one while they weigh anything, the
    /// rest spread evenly.
    fn scrambled_shares() -> [f64; WINDOW as usize] {
        const ZETA: f64 = 26.469_028_201_783_02;
        let mut shares = [0.0; WINDOW as usize];
        for rank in 0..1_000_000 {
            shares[(fnv64(rank) % WINDOW) as usize] += weight(rank, 0.99) / ZETA;
        }
        let rest = 1.0 - shares.iter().sum::<f64>();
        shares.map(|share| share + rest / WINDOW as f64)
    }

    #[test]
    fn latest_favours_the_newest_item_by_zipf_s_law() {
        for newest in [WINDOW - 1, WINDOW, 12_345] {
            let requests = Requests::new(Distribution::Latest, Scatter::Keys, WINDOW, 0.99);
            let found = chi_square(&requests, newest, |item| zipf_share(newest - item, 0.99));
            assert!(found < CHI_SQUARE_MAX, "{found}");
        }
    }

    #[test]
    fn the_scrambled_zipfian_has_the_shares_of_hashed_ranks() {
        let shares = scrambled_shares();
        for newest in [WINDOW - 1, 12_345] {
            let requests = Requests::new(Distribution::Zipfian, Scatter::Keys, WINDOW, 0.99);
            let found = chi_square(&requests, newest, |item| shares[(item % WINDOW) as usize]);
            assert!(found < CHI_SQUARE_MAX, "{found}");
        }
    }

    #[test]
    fn a_zipfian_over_pages_favours_neighbours() {
        let requests = Requests::new(Distribution::Zipfian, Scatter::Pages, WINDOW, 0.99);
        let found = chi_square(&requests, 12_345, |item| zipf_share(item % WINDOW, 0.99));
        assert!(found < CHI_SQUARE_MAX, "{found}");
    }

    #[test]
    fn without_skew_every_item_is_asked_for_alike() {
        for distribution in [Distribution::Zipfian, Distribution::Latest] {
            for scatter in [Scatter::Pages, Scatter::Keys] {
                let requests = Requests::new(distribution, scatter, WINDOW, 0.0);
                let found = chi_square(&requests, 12_345, |_| 1.0 / WINDOW as f64);
                assert!(found < CHI_SQUARE_MAX, "{found}");
            }
        }
    }

    #[test]
    fn another_skew_fails_the_same_test() {
        let requests = Requests::new(Distribution::Latest, Scatter::Keys, WINDOW, 0.95);
        let found = chi_square(&requests, 12_345, |item| zipf_share(12_345 - item, 0.99));
        assert!(found > CHI_SQUARE_MAX, "{found}");
        let shares = scrambled_shares();
        let requests = Requests::new(Distribution::Zipfian, Scatter::Keys, WINDOW, 0.95);
        let found = chi_square(&requests, 12_345, |item| shares[(item % WINDOW) as usize]);
        assert!(found > CHI_SQUARE_MAX, "{found}");
    }
}
