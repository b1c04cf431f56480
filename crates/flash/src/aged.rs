//! [`Aged`]: the contents of a pre-aged plane, computed and not stored.
//!
//! A device that was overwritten at random for long and collects greedily has blocks of every age.
//! A page survives each round of writes with the same probability. The valid share of a block thus
//! falls exponentially with its age, from 1 just after it was written to [`victim_share`] in the
//! next victim.

/// Returns the share of valid pages, from 0 to 1, in the next block that garbage collection frees.
/// `mean` is the share of valid pages in all written blocks.
///
/// The device is written uniformly at random. It always collects the block with the fewest valid
/// pages.
///
/// The share is the `g` with `(1 - g) / -ln g = mean`. Xiang and Kurkoski ("An Improved Analytic
/// Expression for Write Amplification in NAND Flash", 2012) give it with Lambert's W; Desnoyers
/// (SYSTOR 2012) agrees. The write amplification of such a device is `1 / (1 - g)`.
pub fn victim_share(mean: f64) -> f64 {
    if mean >= 1.0 {
        return 1.0;
    }
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    for _ in 0..60 {
        let share = f64::midpoint(low, high);
        if (1.0 - share) / -share.ln() < mean { low = share } else { high = share }
    }
    f64::midpoint(low, high)
}

/// The pre-aged contents of a plane, equal on every plane.
///
/// The plane's first [`pages`](Aged::pages) logical pages hold data. An affine permutation scatters
/// them over the written blocks. The first block is the youngest. The valid pages of a block are at
/// its start.
#[derive(Debug, Clone)]
pub(crate) struct Aged {
    /// Number of valid pages before each written block, and their total at the end.
    starts: Vec<u32>,
    step: u64,
    inverse: u64,
}

impl Aged {
    /// `pages` logical pages in `blocks` blocks of `slots` pages each.
    ///
    /// # Panics
    /// If they do not fit.
    pub(crate) fn new(pages: u32, blocks: u32, slots: u32) -> Aged {
        let room = u64::from(blocks) * u64::from(slots);
        assert!(u64::from(pages) <= room, "{pages} pages in {room} places");
        let share = if pages == 0 { 0.0 } else { victim_share(f64::from(pages) / room as f64) };
        let starts = (0..=blocks).map(|block| {
            let age = f64::from(block) / f64::from(blocks);
            let before = if share >= 1.0 { age } else { (1.0 - share.powf(age)) / (1.0 - share) };
            if pages == 0 { 0 } else { (f64::from(pages) * before).round() as u32 }
        });
        let (step, inverse) = permutation(u64::from(pages));
        Aged { starts: starts.collect(), step, inverse }
    }

    /// Number of logical pages that hold data.
    pub(crate) fn pages(&self) -> u32 {
        self.starts[self.starts.len() - 1]
    }

    /// Number of written blocks.
    pub(crate) fn blocks(&self) -> u32 {
        (self.starts.len() - 1) as u32
    }

    /// Number of valid pages of `block`, which are at its start.
    pub(crate) fn valid(&self, block: u32) -> u32 {
        self.starts[block as usize + 1] - self.starts[block as usize]
    }

    /// Block of a logical page that holds data, and its index there.
    pub(crate) fn place(&self, local: u32) -> Option<(u32, u32)> {
        if local >= self.pages() {
            return None;
        }
        let rank = (u64::from(local) * self.step % u64::from(self.pages())) as u32;
        let block = self.starts.partition_point(|start| *start <= rank) as u32 - 1;
        Some((block, rank - self.starts[block as usize]))
    }

    /// The logical page at place `index` of `block`, which must be valid.
    pub(crate) fn page_at(&self, block: u32, index: u32) -> u32 {
        let rank = u64::from(self.starts[block as usize] + index);
        (rank * self.inverse % u64::from(self.pages())) as u32
    }
}

/// The golden section, whose multiples lie evenly from 0 to 1 for any number of them.
pub(crate) const GOLDEN: f64 = 0.618_033_988_749_895;

/// A number coprime to `count` near its golden section, and the number's inverse modulo `count`.
fn permutation(count: u64) -> (u64, u64) {
    let mut step = ((count as f64 * GOLDEN) as u64).max(1);
    loop {
        if let Some(inverse) = inverse(step, count) {
            return (step, inverse);
        }
        step += 1;
    }
}

/// The inverse of `value` modulo `modulus` by Euclid's algorithm, if there is one.
fn inverse(value: u64, modulus: u64) -> Option<u64> {
    if modulus <= 1 {
        return Some(0);
    }
    let (mut old, mut new) = ((value as i64, 1_i64), (modulus as i64, 0_i64));
    while new.0 != 0 {
        let quotient = old.0 / new.0;
        (old, new) = (new, (old.0 - quotient * new.0, old.1 - quotient * new.1));
    }
    (old.0 == 1).then(|| old.1.rem_euclid(modulus as i64) as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_next_victim_agrees_with_the_published_write_amplification() {
        // Xiang and Kurkoski, abstract: over-provisioning factor 0.3 gives 2.36.
        let amplification = 1.0 / (1.0 - victim_share(1.0 / 1.3));
        assert!((amplification - 2.36).abs() < 0.005, "{amplification}");
        assert_eq!(victim_share(1.0), 1.0);
    }

    #[test]
    fn older_blocks_hold_less() {
        let aged = Aged::new(32_768, 256, 256);
        assert!(aged.valid(0) >= 254);
        assert!((0..255).all(|block| aged.valid(block) + 1 >= aged.valid(block + 1)));
        let oldest = f64::from(aged.valid(255)) / 256.0;
        assert!((oldest - victim_share(0.5)).abs() < 0.01, "{oldest}");
    }

    proptest! {
        #[test]
        fn every_page_has_one_place_and_every_valid_place_one_page(
            blocks in 1u32..20, slots in 1u32..40, share in 0.0f64..=1.0,
        ) {
            let pages = (f64::from(blocks * slots) * share) as u32;
            let aged = Aged::new(pages, blocks, slots);
            prop_assert_eq!(aged.pages(), pages);
            prop_assert_eq!((0..blocks).map(|block| aged.valid(block)).sum::<u32>(), pages);
            let mut places = BTreeSet::new();
            for page in 0..pages {
                let (block, index) = aged.place(page).unwrap();
                prop_assert!(index < aged.valid(block) && aged.valid(block) <= slots);
                prop_assert_eq!(aged.page_at(block, index), page);
                prop_assert!(places.insert((block, index)));
            }
            prop_assert_eq!(aged.place(pages), None);
        }
    }
}
