//! [`Adaptive`]: FlatFlash's Algorithm 1. It promotes a page once its count reaches a threshold.
//! The threshold follows the share of accesses that go to promoted pages.

use serde::{Deserialize, Serialize};

use crate::addr::FrameId;
use crate::choice;

choice! {
    /// When the counts of an epoch start anew.
    pub enum Reset as "promotion reset" {
        /// As printed: when the accesses counted equal the epoch. An epoch without an eviction has
        /// as many net accesses as it is long. The next one then starts at its own end, steps past
        /// it, and no epoch ever ends again.
        Strict = "strict",
        /// After a fixed number of accesses, at any counts. The rest is as printed.
        Windowed = "windowed",
    }
}

choice! {
    /// Which counts promote a page.
    pub enum Meets as "count that promotes" {
        /// As printed: the count that equals the threshold. A lowered threshold can leave a page
        /// above it. That page is promoted only if the threshold climbs past its count again, or
        /// after it left and returned.
        Equal = "equal",
        /// A count at the threshold or above it.
        AtLeast = "at-least",
    }
}

/// The constants of Algorithm 1.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Parameters {
    /// At this share of promoted accesses or less, the threshold rises.
    pub lower_ratio: f64,
    /// At this share or more, a promotion lowers the threshold.
    pub higher_ratio: f64,
    /// The highest threshold, and the first one.
    pub threshold_max: u64,
    /// Accesses in an epoch.
    pub epoch: u64,
    /// Which counts promote.
    pub meets: Meets,
}

impl Default for Parameters {
    /// As printed with Algorithm 1 (FL11).
    fn default() -> Parameters {
        Parameters {
            lower_ratio: 0.25,
            higher_ratio: 0.75,
            threshold_max: 7,
            epoch: 10_000,
            meets: Meets::Equal,
        }
    }
}

/// FlatFlash's Algorithm 1 (§3.4). With [`Reset::Strict`] and [`Meets::Equal`] it is the listing to
/// the letter.
///
/// The threshold falls only with an access that promotes. In the paper's prose, the ratio alone
/// lowers it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Adaptive {
    parameters: Parameters,
    reset: Reset,
    /// For each slot, the accesses to its page since the page came.
    counts: Vec<u64>,
    /// Accesses to the pages that are in slots now.
    net: u64,
    /// Accesses of this epoch, plus the value it started with.
    accesses: u64,
    /// Counts of the pages promoted in this epoch.
    promoted: u64,
    threshold: u64,
    /// Accesses since the last reset.
    since_reset: u64,
}

impl Adaptive {
    /// Promotion out of a cache of `slots` pages. No page was accessed yet.
    pub fn new(slots: usize, parameters: Parameters, reset: Reset) -> Adaptive {
        Adaptive {
            counts: vec![0; slots],
            net: 0,
            accesses: 0,
            promoted: 0,
            threshold: parameters.threshold_max,
            since_reset: 0,
            parameters,
            reset,
        }
    }

    /// Counts an access to the page in `slot`. Returns true if the page must be promoted.
    pub fn access(&mut self, slot: FrameId) -> bool {
        self.net += 1;
        self.accesses += 1;
        self.since_reset += 1;
        let count = &mut self.counts[slot.index()];
        *count += 1;
        let promote = match self.parameters.meets {
            Meets::Equal => *count == self.threshold,
            Meets::AtLeast => *count >= self.threshold,
        };
        if promote {
            self.promoted += *count;
        }
        let ratio = self.promoted as f64 / self.accesses as f64;
        if ratio <= self.parameters.lower_ratio {
            self.threshold = (self.threshold + 1).min(self.parameters.threshold_max);
        } else if ratio >= self.parameters.higher_ratio && self.threshold > 1 && promote {
            self.threshold -= 1;
        }
        if self.epoch_ends() {
            self.accesses = self.net;
            self.promoted = 0;
            self.threshold = self.parameters.threshold_max;
            self.since_reset = 0;
        }
        promote
    }

    /// Notes that the page in `slot` left it.
    pub fn evict(&mut self, slot: FrameId) {
        let count = std::mem::take(&mut self.counts[slot.index()]);
        self.net -= count;
    }

    /// The count at which a page is promoted now.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Accesses since the counts of an epoch last started anew.
    pub fn since_reset(&self) -> u64 {
        self.since_reset
    }

    fn epoch_ends(&self) -> bool {
        match self.reset {
            Reset::Strict => self.accesses == self.parameters.epoch,
            Reset::Windowed => self.since_reset == self.parameters.epoch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promotion(slots: usize, reset: Reset) -> Adaptive {
        Adaptive::new(slots, Parameters::default(), reset)
    }

    /// Accesses `slot` until its page is promoted. Returns the number of accesses.
    fn promoted_after(promotion: &mut Adaptive, slot: u32) -> u64 {
        (1..=100).find(|_| promotion.access(FrameId(slot))).expect("it is promoted in the end")
    }

    #[test]
    fn the_seventh_access_promotes_a_page_and_no_other_does() {
        let mut promotion = promotion(1, Reset::Strict);
        let promoted: Vec<bool> = (0..20).map(|_| promotion.access(FrameId(0))).collect();
        assert!(promoted.iter().enumerate().all(|(i, promoted)| *promoted == (i == 6)));
    }

    #[test]
    fn the_threshold_falls_with_each_promotion_while_most_accesses_are_promoted() {
        let mut promotion = promotion(8, Reset::Strict);
        let taken: Vec<u64> = (0..8).map(|slot| promoted_after(&mut promotion, slot)).collect();
        assert_eq!(taken, [7, 6, 5, 4, 3, 2, 1, 1]);
        assert_eq!(promotion.threshold(), 1);
    }

    #[test]
    fn a_high_share_alone_does_not_lower_the_threshold() {
        let mut promotion = promotion(2, Reset::Strict);
        promoted_after(&mut promotion, 0);
        assert_eq!(promotion.threshold(), 6);
        // 7 of 8, then 7 of 9 accesses are promoted: the prose would lower it, the listing does
        // not.
        promotion.access(FrameId(1));
        promotion.access(FrameId(1));
        assert_eq!(promotion.threshold(), 6);
    }

    #[test]
    fn a_page_past_a_lowered_threshold_is_promoted_only_after_it_left_and_returned() {
        let mut promotion = promotion(4, Reset::Strict);
        (0..6).for_each(|_| assert!(!promotion.access(FrameId(3))));
        (0..3).for_each(|slot| assert_eq!(promoted_after(&mut promotion, slot), 7));
        // 21 of 27 accesses: the threshold is 6, and the page in slot 3 was accessed as often.
        assert_eq!(promotion.threshold(), 6);
        (0..200).for_each(|_| assert!(!promotion.access(FrameId(3))));
        promotion.evict(FrameId(3));
        assert_eq!(promoted_after(&mut promotion, 3), promotion.parameters.threshold_max);
    }

    #[test]
    fn a_page_past_a_lowered_threshold_is_promoted_if_that_climbs_to_a_count_yet_to_come() {
        let mut promotion = promotion(100, Reset::Strict);
        (0..5).for_each(|_| assert!(!promotion.access(FrameId(9))));
        let taken: Vec<u64> = (0..4).map(|slot| promoted_after(&mut promotion, slot)).collect();
        assert_eq!((taken, promotion.threshold()), (vec![7, 7, 7, 6], 5));
        assert!(!promotion.access(FrameId(9)), "its sixth access is past the threshold");
        // 27 of 33. Pages accessed once bring that to a quarter, where the threshold rises.
        (10..86).for_each(|slot| assert!(!promotion.access(FrameId(slot))));
        assert_eq!(promotion.threshold(), 7);
        assert!(promotion.access(FrameId(9)), "its seventh meets it again");
    }

    #[test]
    fn a_share_is_a_fraction_and_not_rounded_to_nothing() {
        let mut promotion = promotion(2, Reset::Strict);
        promoted_after(&mut promotion, 0);
        // 7 of 8 are more than a quarter; in whole numbers they would be none.
        promotion.access(FrameId(1));
        assert_eq!(promotion.threshold(), 6);
    }

    #[test]
    fn strict_hangs_after_a_full_epoch_without_an_eviction_and_windowed_does_not() {
        // A page is accessed once only: nothing is promoted, nothing evicted.
        let slots = 40_000;
        let run = |reset| {
            let mut promotion = promotion(slots as usize, reset);
            (0..slots).for_each(|slot| assert!(!promotion.access(FrameId(slot))));
            promotion.since_reset()
        };
        // One reset after 10,000 accesses, which set the count of the next epoch to its end.
        assert_eq!(run(Reset::Strict), 30_000);
        assert_eq!(run(Reset::Windowed), 0);
    }

    #[test]
    fn an_eviction_lets_the_next_strict_epoch_end_after_as_many_accesses_as_it_removed() {
        let mut promotion = promotion(20_000, Reset::Strict);
        (0..5_000).for_each(|slot| assert!(!promotion.access(FrameId(slot))));
        (0..3_000).for_each(|slot| promotion.evict(FrameId(slot)));
        (5_000..10_000).for_each(|slot| assert!(!promotion.access(FrameId(slot))));
        assert_eq!(promotion.since_reset(), 0);
        (10_000..12_999).for_each(|slot| assert!(!promotion.access(FrameId(slot))));
        assert_eq!(promotion.since_reset(), 2_999);
        promotion.access(FrameId(13_000));
        assert_eq!(promotion.since_reset(), 0);
    }

    #[test]
    fn a_count_past_a_lowered_threshold_promotes_where_at_least_the_threshold_does() {
        let parameters = Parameters { meets: Meets::AtLeast, ..Parameters::default() };
        let mut promotion = Adaptive::new(4, parameters, Reset::Strict);
        (0..6).for_each(|_| assert!(!promotion.access(FrameId(3))));
        (0..3).for_each(|slot| assert_eq!(promoted_after(&mut promotion, slot), 7));
        assert_eq!(promotion.threshold(), 6);
        assert!(promotion.access(FrameId(3)), "its seventh");
    }

    #[test]
    fn kinds_have_names() {
        assert_eq!("at-least".parse::<Meets>(), Ok(Meets::AtLeast));
        assert_eq!("windowed".parse::<Reset>(), Ok(Reset::Windowed));
        let error = "window".parse::<Reset>().unwrap_err().to_string();
        assert!(error.contains("did you mean 'windowed'?"), "{error}");
    }
}
