//! Promotion against a second model of the published listing, with exact fractions and pages by
//! name.

use std::collections::HashMap;

use ebbtide_core::FrameId;
use ebbtide_core::promotion::{Adaptive, Meets, Parameters, Reset};
use proptest::prelude::*;

/// Algorithm 1, line by line as in its listing.
struct Listing {
    page_counts: HashMap<u32, u64>,
    net: u64,
    accesses: u64,
    promoted: u64,
    threshold: u64,
    /// True if a count above the threshold promotes as well.
    at_least: bool,
    /// The accesses of a window, if a window ends an epoch.
    window: Option<u64>,
}

const EPOCH: u64 = 100;

impl Listing {
    fn new(windowed: bool, at_least: bool) -> Listing {
        let window = windowed.then_some(0);
        Listing {
            page_counts: HashMap::new(),
            net: 0,
            accesses: 0,
            promoted: 0,
            threshold: 7,
            at_least,
            window,
        }
    }

    fn update(&mut self, slot: u32) -> bool {
        self.net += 1;
        self.accesses += 1;
        let count = self.page_counts.entry(slot).or_insert(0);
        *count += 1;
        let hit = *count == self.threshold || self.at_least && *count > self.threshold;
        if hit {
            self.promoted += *count;
        }
        // Shares of a quarter and of three quarters, by cross-multiplication.
        if 4 * self.promoted <= self.accesses {
            if self.threshold < 7 {
                self.threshold += 1;
            }
        } else if 4 * self.promoted >= 3 * self.accesses && hit && self.threshold > 1 {
            self.threshold -= 1;
        }
        let over = match &mut self.window {
            None => self.accesses == EPOCH,
            Some(seen) => {
                *seen = (*seen + 1) % EPOCH;
                *seen == 0
            }
        };
        if over {
            (self.accesses, self.promoted, self.threshold) = (self.net, 0, 7);
        }
        hit
    }

    fn evict(&mut self, slot: u32) {
        self.net -= self.page_counts.remove(&slot).unwrap_or(0);
    }
}

proptest! {
    #[test]
    fn it_promotes_what_the_listing_promotes(
        windowed: bool,
        at_least: bool,
        steps in prop::collection::vec((0u32..12, 0u32..10), 0..2_000),
        promoted_pages_leave: bool,
    ) {
        let reset = if windowed { Reset::Windowed } else { Reset::Strict };
        let meets = if at_least { Meets::AtLeast } else { Meets::Equal };
        let parameters = Parameters { epoch: EPOCH, meets, ..Parameters::default() };
        let mut adaptive = Adaptive::new(12, parameters, reset);
        let mut listing = Listing::new(windowed, at_least);
        for (slot, action) in steps {
            let evicted = action == 0;
            let promoted = !evicted && {
                let promoted = adaptive.access(FrameId(slot));
                prop_assert_eq!(promoted, listing.update(slot));
                promoted
            };
            if evicted || (promoted && promoted_pages_leave) {
                adaptive.evict(FrameId(slot));
                listing.evict(slot);
            }
            prop_assert_eq!(adaptive.threshold(), listing.threshold);
        }
    }
}
