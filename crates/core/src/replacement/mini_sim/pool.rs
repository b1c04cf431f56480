//! The pool: the frames that must go first, among the frames that were looked at.

use serde::{Deserialize, Serialize};

use crate::addr::FrameId;

/// Frames that a pool keeps. Sets of at most this many ways are looked at as a whole for each
/// victim.
pub(super) const POOL_FRAMES: usize = 16;

/// A frame that may be given up, and its place in the order.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) place: u64,
    pub(super) frame: FrameId,
}

/// No frame, where the pool has no candidate.
const NO_FRAME: FrameId = FrameId(u32::MAX);

/// The offered candidates that must go first, as in the pool of sampled candidates of Redis (since
/// its version 3.0).
#[derive(Serialize, Deserialize)]
pub(super) struct Pool {
    /// The candidates, the first to go at the end.
    places: [u64; POOL_FRAMES],
    frames: [FrameId; POOL_FRAMES],
    length: usize,
    /// Candidates of this place or behind it do not come in. It is the last place of a full pool,
    /// until half of the pool has left. So a new candidate is seldom driven out again at once.
    bar: u64,
}

impl Pool {
    pub(super) fn new() -> Pool {
        Pool { places: [0; POOL_FRAMES], frames: [NO_FRAME; POOL_FRAMES], length: 0, bar: u64::MAX }
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
        self.frames = [NO_FRAME; POOL_FRAMES];
        self.bar = u64::MAX;
    }

    /// Candidates come in if their place is before this one.
    #[inline]
    pub(super) fn bar(&self) -> u64 {
        self.bar
    }

    /// Takes in a candidate with a place before the bar. In a full pool, the last one makes room.
    pub(super) fn offer(&mut self, Candidate { place, frame }: Candidate) {
        // All are compared, so that the host can compare several at once.
        let is_known = self.frames.iter().fold(false, |any, other| any | (*other == frame));
        let known = is_known.then(|| self.frames.iter().position(|other| *other == frame));
        let mut free = match known.flatten() {
            Some(known) => known,
            None if self.length == POOL_FRAMES => 0,
            None => {
                self.length += 1;
                self.length - 1
            }
        };
        // What goes later moves down, what goes earlier moves up.
        while free > 0 && self.places[free - 1] < place {
            self.copy(free - 1, free);
            free -= 1;
        }
        while free + 1 < self.length && self.places[free + 1] > place {
            self.copy(free + 1, free);
            free += 1;
        }
        (self.places[free], self.frames[free]) = (place, frame);
        if self.length == POOL_FRAMES {
            self.bar = self.places[0];
        }
    }

    fn copy(&mut self, from: usize, to: usize) {
        self.places[to] = self.places[from];
        self.frames[to] = self.frames[from];
    }

    /// The first to go.
    #[inline]
    pub(super) fn first(&self) -> Option<Candidate> {
        let last = self.length.checked_sub(1)?;
        Some(Candidate { place: self.places[last], frame: self.frames[last] })
    }

    pub(super) fn drop_first(&mut self) {
        self.length -= 1;
        self.frames[self.length] = NO_FRAME;
        if self.length < POOL_FRAMES / 2 {
            self.bar = u64::MAX;
        }
    }
}
