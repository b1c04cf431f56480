//! The frames that are to go first, among those that were looked at.

use crate::addr::FrameId;

/// Frames that a pool keeps; sets of no more ways are looked at as a whole for each victim.
pub(super) const POOL_FRAMES: usize = 16;

/// A frame that may be given up, and its place in the order.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    pub(super) place: u64,
    pub(super) frame: FrameId,
}

/// The first to go of those that were offered, as in the pool of sampled candidates of Redis (since
/// its version 3.0).
#[derive(Clone)]
pub(super) struct Pool {
    /// The first to go at the end.
    candidates: [Candidate; POOL_FRAMES],
    length: usize,
    /// Candidates of this place or behind it do not come in: the last place of a full pool, until
    /// half of it has left. So what comes in is seldom driven out again at once.
    bar: u64,
}

impl Pool {
    pub(super) fn new() -> Pool {
        let none = Candidate { place: 0, frame: FrameId(0) };
        Pool { candidates: [none; POOL_FRAMES], length: 0, bar: u64::MAX }
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
        self.bar = u64::MAX;
    }

    /// Whether a candidate of this place would come in.
    #[inline]
    pub(super) fn takes(&self, place: u64) -> bool {
        place < self.bar
    }

    /// Takes in a candidate that goes before the bar; in a full pool, the last one makes room.
    pub(super) fn offer(&mut self, candidate: Candidate) {
        let known = &self.candidates[..self.length];
        let mut free = match known.iter().position(|other| other.frame == candidate.frame) {
            Some(at) => at,
            None if self.length == POOL_FRAMES => 0,
            None => {
                self.length += 1;
                self.length - 1
            }
        };
        // What goes later moves down, what goes earlier moves up.
        while free > 0 && self.candidates[free - 1].place < candidate.place {
            self.candidates[free] = self.candidates[free - 1];
            free -= 1;
        }
        while free + 1 < self.length && self.candidates[free + 1].place > candidate.place {
            self.candidates[free] = self.candidates[free + 1];
            free += 1;
        }
        self.candidates[free] = candidate;
        if self.length == POOL_FRAMES {
            self.bar = self.candidates[0].place;
        }
    }

    /// The first to go.
    #[inline]
    pub(super) fn first(&self) -> Option<Candidate> {
        self.length.checked_sub(1).map(|last| self.candidates[last])
    }

    pub(super) fn drop_first(&mut self) {
        self.length -= 1;
        if self.length < POOL_FRAMES / 2 {
            self.bar = u64::MAX;
        }
    }
}
