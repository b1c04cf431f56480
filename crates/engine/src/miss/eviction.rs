//! Frames on their way from the replacement policy's choice to the free list.

use std::collections::VecDeque;

use ebbtide_core::{FrameId, Span, Time};

use crate::sync::epoch::{Epochs, Moment};

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
        let batch = self.batches.front()?;
        if !epochs.is_over(batch.moment, by) {
            if now.since(batch.since) < GRACE_PATIENCE {
                return None;
            }
            // One barrier serves all that wait.
            epochs.run_barrier(self.batches.iter_mut().map(|batch| &mut batch.moment));
            if !self.batches.front().is_some_and(|batch| epochs.is_over(batch.moment, by)) {
                return None;
            }
        }
        self.batches.pop_front().map(|batch| batch.frames)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    static BARRIERS: AtomicU32 = AtomicU32::new(0);

    #[test]
    fn one_barrier_ends_the_grace_periods_of_all_victims_that_wait() {
        let counted = || {
            BARRIERS.fetch_add(1, Ordering::Relaxed);
            true
        };
        let epochs = Epochs::with_barrier(2, Some(counted));
        // It computes, outside any call, and saw no later epoch.
        epochs.core(1).awake();
        let mut evictions = Evictions::default();
        for frame in 0..3 {
            evictions.begin(&epochs, vec![FrameId(frame)], Time::ZERO);
        }
        assert_eq!(evictions.next_over(&epochs, 0, Time::ZERO), None);
        if epochs.barrier_works() {
            let later = Time::ZERO + GRACE_PATIENCE;
            let over = std::iter::from_fn(|| evictions.next_over(&epochs, 0, later));
            assert_eq!(over.collect::<Vec<_>>().concat(), [FrameId(0), FrameId(1), FrameId(2)]);
            assert_eq!(BARRIERS.load(Ordering::Relaxed), 1);
        }
    }
}
