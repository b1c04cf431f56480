//! Looking at frames: their touches are collected, and those that may go come into the pools.

use super::super::Frames;
use super::super::adaptive_lrfu::Key;
use super::Dueling;
use super::pool::Entry;
use super::record::{Known, Packed};
use crate::addr::FrameId;

/// How often a frame is looked at while LRU would keep a page that is not used, so that the times of
/// last use are known to an eighth of that.
const LOOKS_A_STAY: usize = 8;

/// The fewest and the most frames that are looked at for a victim.
const LOOKS_MIN: usize = 8;
const LOOKS_MAX: usize = 64;

/// Neighbours that are looked at together: their records share a line of host memory.
const NEIGHBOURS: usize = 8;

impl Dueling {
    /// Counts the touches of `frame`, which is known; whether there were any.
    pub(super) fn look(&mut self, frame: FrameId, frames: &mut dyn Frames) -> bool {
        let known = self.known(frame);
        self.look_at(known, frame, frames).1
    }

    /// The same of a frame of which that is `known`; also what is known of it now. Inlined, or it would be
    /// passed through memory in parts.
    #[inline(always)]
    pub(super) fn look_at(
        &mut self,
        mut known: Known,
        frame: FrameId,
        frames: &mut dyn Frames,
    ) -> (Known, bool) {
        let touches = frames.take_touches(frame);
        let mut used = known.used;
        let mut key = known.key;
        if touches > 0 {
            let level = key.level(self.key_now);
            if known.is_forecast {
                self.forecasts.count(level, true);
                known.is_forecast = false;
            }
            key = Key::of_level(self.weights.add(level, touches), self.key_now);
            // It was touched at some time between the looks.
            used = self.now.minus(self.now.since(known.looked) / 2);
            self.account.count_hit(known.used, used);
            known.is_touched = true;
        }
        known.looked = self.now;
        known.used = used.not_too_old(self.now);
        known.key = key.not_older_than_history(self.key_now);
        self.known[frame.index()] = Packed::new(known);
        (known, touches > 0)
    }

    /// Looks at `count` frames of `set` and puts those that may go into its pools.
    pub(super) fn look_for_candidates(
        &mut self,
        set: usize,
        count: usize,
        frames: &mut dyn Frames,
    ) {
        let ways = self.geometry.ways;
        for _ in 0..count.min(ways) {
            let way = self.hands[set];
            self.hands[set] = self.next_way(way as usize) as u32;
            let frame = FrameId((set * ways) as u32 + way);
            let known = self.known(frame);
            if !known.is_known {
                continue;
            }
            let (Known { key, used, inserted, .. }, _) = self.look_at(known, frame, frames);
            if frames.is_pinned(frame) {
                continue;
            }
            let entry = Entry { frame, key, used };
            let (on_trial, in_window) = (self.is_on_trial(frame), self.is_in_window(inserted));
            let pools = self.pools_of(set);
            if !on_trial {
                pools.rest.offer(entry, Entry::is_less_recent);
            } else {
                pools.recent.offer(entry, Entry::is_less_recent);
                if !in_window {
                    pools.light.offer(entry, Entry::is_lighter);
                }
            }
        }
    }

    /// The way that is looked at after `way`. Neighbours follow each other; behind them is a gap, so that
    /// pages that came together are not looked at together.
    fn next_way(&self, way: usize) -> usize {
        let ways = self.geometry.ways;
        if way + 1 < ways && !(way + 1).is_multiple_of(NEIGHBOURS) {
            return way + 1;
        }
        let groups = self.geometry.ways.div_ceil(NEIGHBOURS);
        let next = way / NEIGHBOURS + self.stride;
        NEIGHBOURS * if next >= groups { next - groups } else { next }
    }

    /// How many frames are looked at for a victim.
    pub(super) fn looks(&self) -> usize {
        let stay = usize::from(self.account.lru_age().max(1));
        let looks = LOOKS_A_STAY * usize::from(self.ticks_a_turnover) / stay;
        looks.clamp(LOOKS_MIN, LOOKS_MAX)
    }
}

/// By how many groups of neighbours the hand of a set of `ways` moves on, so that it comes by all of
/// them: the golden section of them, which leaves gaps of about the same size at any time.
pub(super) fn stride(ways: usize) -> usize {
    let groups = ways.div_ceil(NEIGHBOURS);
    let has_common_factor = |stride: usize| {
        let (mut one, mut other) = (groups, stride);
        while other > 0 {
            (one, other) = (other, one % other);
        }
        one > 1
    };
    let golden = (groups as f64 * 0.618) as usize;
    (golden.max(1)..groups).find(|stride| !has_common_factor(*stride)).unwrap_or(groups)
}
