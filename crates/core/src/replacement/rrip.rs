//! RRIP: re-reference interval prediction (Jaleel et al., ISCA 2010), for set-associative caches.
//!
//! Every frame has a prediction of how soon its page will be hit again, from near (0) to distant.
//! The victim is the first frame of the set with a distant one. If there is none, all predictions
//! of the set age until there is one.

use serde::{Deserialize, Serialize};

use super::{Frames, Geometry, Replacement, TOUCHES_MAX};
use crate::addr::{FrameId, PageId};
use crate::archive::Archive;

/// The prediction of a distant re-reference: the highest value of M = 2 bits (§5.1).
const DISTANT: u8 = 3;
/// The prediction of a page that is given a chance.
const LONG: u8 = DISTANT - 1;
/// Stands for the prediction of a frame that is not known.
const UNKNOWN: u8 = u8::MAX;

const _: () = assert!(TOUCHES_MAX >= DISTANT, "enough hits are told apart to count down to 0");

/// A bimodal cache gives one page in this many a chance (§4.2).
const CHANCE: u32 = 32;

/// Sets that duel for each side (§4.3).
const LEADERS: usize = 32;
/// The votes of a duel fit in 10 bits and begin in the middle (§4.3).
const VOTES_MAX: u16 = 1023;
const VOTES_EVEN: u16 = 512;

/// The effect of a hit on the prediction of a page.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum HitRule {
    /// Makes it near: *hit priority*.
    Near,
    /// Makes it one step nearer: *frequency priority*.
    Nearer,
}

/// The prediction of a new page.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Insertion {
    /// Long: SRRIP.
    Static,
    /// Distant, and long once in a while: BRRIP.
    Bimodal,
    /// Whichever of the two misses less in sets that lead for it: DRRIP.
    Dynamic,
}

/// The predictions of every frame, and the duel of insertions.
#[derive(Serialize, Deserialize)]
pub(super) struct Rrip {
    geometry: Geometry,
    hit_rule: HitRule,
    insertion: Insertion,
    predictions: Vec<u8>,
    /// Pages inserted by the bimodal rule.
    bimodal: u32,
    /// Misses of the sets that lead for the static insertion, less the misses of the sets that lead
    /// for the bimodal one.
    votes: u16,
}

impl Rrip {
    pub(super) fn new(geometry: Geometry, hit_rule: HitRule, insertion: Insertion) -> Rrip {
        let predictions = vec![UNKNOWN; geometry.frames()];
        Rrip { geometry, hit_rule, insertion, predictions, bimodal: 0, votes: VOTES_EVEN }
    }

    pub(super) fn memory_bytes(geometry: Geometry) -> usize {
        size_of::<Rrip>() + geometry.frames() * size_of::<u8>()
    }

    /// The insertion that `set` leads for, if any. The leaders of both are spread evenly over the
    /// sets.
    fn leads_for(&self, set: usize) -> Option<Insertion> {
        let leaders = LEADERS.min(self.geometry.sets / 2);
        let every = self.geometry.sets.checked_div(leaders)?;
        match set % every {
            0 => Some(Insertion::Static),
            place if place == every / 2 => Some(Insertion::Bimodal),
            _ => None,
        }
    }

    /// The insertion for a miss in `set`, by the duel. The miss may be a vote.
    fn duel(&mut self, set: usize) -> Insertion {
        let leads = self.leads_for(set);
        match leads {
            Some(Insertion::Static) => self.votes = (self.votes + 1).min(VOTES_MAX),
            Some(_) => self.votes = self.votes.saturating_sub(1),
            None => {}
        }
        let ahead = self.votes > VOTES_EVEN;
        leads.unwrap_or(if ahead { Insertion::Bimodal } else { Insertion::Static })
    }
}

impl Replacement for Rrip {
    fn insert(&mut self, frame: FrameId, _page: PageId) {
        let insertion = match self.insertion {
            Insertion::Dynamic => self.duel(self.geometry.set_of(frame)),
            fixed => fixed,
        };
        let bimodal = insertion == Insertion::Bimodal;
        self.bimodal += u32::from(bimodal);
        let chance = !bimodal || self.bimodal.is_multiple_of(CHANCE);
        let prediction = &mut self.predictions[frame.index()];
        assert_eq!(*prediction, UNKNOWN, "{frame:?} is known already");
        *prediction = if chance { LONG } else { DISTANT };
    }

    /// Hits since the last search only matter to the next one. So taking them all now has the same
    /// effect on every prediction as reporting each hit when it happens.
    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let first = set * self.geometry.ways;
        let predictions = &mut self.predictions[first..first + self.geometry.ways];
        let frame_at = |way| FrameId((first + way) as u32);
        let mut farthest = None;
        for (way, prediction) in predictions.iter_mut().enumerate() {
            if *prediction == UNKNOWN {
                continue;
            }
            let touches = frames.take_touches(frame_at(way));
            *prediction = match self.hit_rule {
                HitRule::Near if touches > 0 => 0,
                HitRule::Near => *prediction,
                HitRule::Nearer => prediction.saturating_sub(touches),
            };
            if !frames.is_pinned(frame_at(way)) {
                farthest = farthest.max(Some(*prediction));
            }
        }
        let ageing = DISTANT - farthest?;
        for prediction in predictions.iter_mut().filter(|prediction| **prediction != UNKNOWN) {
            *prediction = (*prediction + ageing).min(DISTANT);
        }
        let way = (0..predictions.len())
            .find(|&way| predictions[way] == DISTANT && !frames.is_pinned(frame_at(way)))?;
        predictions[way] = UNKNOWN;
        Some(frame_at(way))
    }

    fn remove(&mut self, frame: FrameId) {
        let was = std::mem::replace(&mut self.predictions[frame.index()], UNKNOWN);
        assert_ne!(was, UNKNOWN, "{frame:?} is not known");
    }

    fn state(&mut self, archive: &mut Archive<'_>) {
        archive.part(self);
    }
}
