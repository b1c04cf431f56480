//! Frames on their way from the replacement policy's choice to the free list.

use std::collections::VecDeque;

use ebbtide_core::{FrameId, Span, Time};

use crate::epoch::{Epochs, Moment};

/// After this wait, a barrier on all cores ends a grace period instead of their next memory calls.
const GRACE_PATIENCE: Span = Span::from_us(100);

/// Victims chosen together, waiting for their grace period.
struct Batch {
    frames: Vec<FrameId>,
    moment: Moment,
    since: Time,
}

/// The victims of one core that other cores may still be using, oldest first.
#[derive(Default)]
pub(super) struct Evictions {
    batches: VecDeque<Batch>,
}

impl Evictions {
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    pub(super) fn frame_count(&self) -> usize {
        self.batches.iter().map(|batch| batch.frames.len()).sum()
    }

    /// Starts the grace period of `frames`, whose pages were unpublished just now.
    pub(super) fn begin(&mut self, epochs: &Epochs, frames: Vec<FrameId>, now: Time) {
        self.batches.push_back(Batch { frames, moment: epochs.begin_grace(), since: now });
    }

    /// The oldest victims if their grace period is over, as core `by` (outside any call) sees it.
    pub(super) fn next_over(
        &mut self,
        epochs: &Epochs,
        by: usize,
        now: Time,
    ) -> Option<Vec<FrameId>> {
        let batch = self.batches.front_mut()?;
        if !epochs.is_over(batch.moment, by) {
            if now.since(batch.since) < GRACE_PATIENCE {
                return None;
            }
            epochs.run_barrier(&mut batch.moment);
            if !epochs.is_over(batch.moment, by) {
                return None;
            }
        }
        self.batches.pop_front().map(|batch| batch.frames)
    }
}
