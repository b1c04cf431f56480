//! The skew of YCSB's requests that makes a working set (FlatFlash, ASPLOS'19 §5.4).
//!
//! The paper varies the working set by the request distribution, up to 16 times the size of DRAM.
//! It does not print the distributions. Here the working set is all pages that the 64 million
//! operations of a run are expected to touch, and the distribution is Zipfian.

/// Operations of a run (§5.4).
const OPERATIONS: f64 = 64e6;

/// Bytes of a key-value pair (§5.4).
const PAIR_BYTES: u64 = 64;

const PAIRS_A_PAGE: u64 = 4096 / PAIR_BYTES;

/// Ranks counted one by one. Beyond, ranks of nearly the same popularity are counted together.
const EXACT: u64 = 2_000;

/// The ratio of the last to the first rank that are counted together.
const TOGETHER: f64 = 1.003;

/// The skews of the search.
const THETAS: [f64; 2] = [0.5, 3.0];

/// The Zipfian skew over `data_bytes` of pairs with which a run touches `working_set_bytes`. A run
/// at `1 / scale` of the capacities has as many fewer operations. The skew has two decimals.
pub(super) fn theta(data_bytes: u64, working_set_bytes: u64, scale: u64) -> f64 {
    let [mut low, mut high] = THETAS;
    while high - low > 0.001 {
        let middle = (low + high) / 2.0;
        let touched = touched_pages(middle, data_bytes / PAIR_BYTES, OPERATIONS / scale as f64);
        match touched > working_set_bytes as f64 / 4096.0 {
            true => low = middle,
            false => high = middle,
        }
    }
    (100.0 * low).round() / 100.0
}

/// The pages that `operations` on `pairs` are expected to touch. Popular pairs are on random pages.
fn touched_pages(theta: f64, pairs: u64, operations: f64) -> f64 {
    let groups = groups(pairs);
    let popularity = |(first, last): (u64, u64)| (first as f64 * last as f64).sqrt().powf(-theta);
    let count = |(first, last): (u64, u64)| (last - first + 1) as f64;
    let all: f64 = groups.iter().map(|&group| count(group) * popularity(group)).sum();
    let untouched = groups.iter().map(|&group| {
        let requests = operations * popularity(group) / all;
        count(group) * (-requests).exp()
    });
    let untouched = untouched.sum::<f64>() / pairs as f64;
    (pairs / PAIRS_A_PAGE) as f64 * (1.0 - untouched.powi(PAIRS_A_PAGE as i32))
}

/// The ranks `1..=last`, from the most popular on, in groups of nearly the same popularity.
fn groups(last: u64) -> Vec<(u64, u64)> {
    let (mut groups, mut first) = (Vec::new(), 1);
    while first <= last {
        let until = match first {
            one if one <= EXACT => one,
            many => ((many as f64 * TOGETHER) as u64).min(last),
        };
        groups.push((first, until));
        first = until + 1;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn every_rank_is_in_one_group() {
        let groups = groups(1 << 20);
        assert_eq!((groups[0], groups[groups.len() - 1].1), ((1, 1), 1 << 20));
        assert!(groups.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0));
    }

    #[test]
    fn uniform_requests_touch_all_pages_and_skewed_ones_few() {
        let pairs = 32 * GIB / PAIR_BYTES;
        let pages = (32 * GIB / 4096) as f64;
        let share = |theta| touched_pages(theta, pairs, OPERATIONS) / pages;
        assert!(share(0.0) > 0.99, "{}", share(0.0));
        assert!((0.88..0.91).contains(&share(0.99)), "{}", share(0.99));
        assert!(share(1.5) < 0.03, "{}", share(1.5));
    }

    #[test]
    fn the_skew_makes_the_working_set_at_any_scale() {
        for (scale, working_set) in [(1, 8 * GIB), (64, 8 * GIB), (1, 2 * GIB)] {
            let (data, wanted) = (32 * GIB / scale, (working_set / scale / 4096) as f64);
            let theta = theta(data, working_set / scale, scale);
            let touched = touched_pages(theta, data / PAIR_BYTES, OPERATIONS / scale as f64);
            assert!((touched / wanted - 1.0).abs() < 0.05, "{theta}: {touched} of {wanted}");
        }
    }
}
