//! [`FreeFrames`]: the frames that a kernel keeps free, and the reads that wait for one.

use std::collections::VecDeque;

use ebbtide_core::{PageId, Time};

/// Free frames, without time.
///
/// A read takes a frame. Reclaim gives one back for it: at once if the frame held a clean page or
/// none, and otherwise when its page has been written. If no frame is free, a read waits.
pub(super) struct FreeFrames {
    free: u64,
    /// Reads that wait, with the times at which they were requested.
    waiting: VecDeque<(Time, PageId)>,
}

impl FreeFrames {
    /// `free` free frames.
    pub(super) fn new(free: u64) -> FreeFrames {
        FreeFrames { free, waiting: VecDeque::new() }
    }

    /// Adds a frame that is free at once. The read that made the kernel reclaim it takes it next,
    /// so no other read waits for it.
    pub(super) fn give(&mut self) {
        self.free += 1;
    }

    /// Adds the frame of a page that has been written. Returns the read that has waited longest,
    /// which takes the frame.
    pub(super) fn give_to_waiting(&mut self) -> Option<(Time, PageId)> {
        let read = self.waiting.pop_front();
        if read.is_none() {
            self.free += 1;
        }
        read
    }

    /// Takes a frame for a read of `page` at `at`. Returns false if the read waits for one.
    pub(super) fn take(&mut self, at: Time, page: PageId) -> bool {
        if self.free == 0 {
            self.waiting.push_back((at, page));
            return false;
        }
        self.free -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_wait_for_written_frames_in_their_order() {
        let mut frames = FreeFrames::new(1);
        let at = |us: u64| Time::from_ps(us * 1_000_000);
        assert!(frames.take(at(1), PageId(1)));
        assert!(!frames.take(at(2), PageId(2)) && !frames.take(at(3), PageId(3)));
        // A clean page's frame is for its own read.
        frames.give();
        assert!(frames.take(at(4), PageId(4)));
        assert_eq!(frames.give_to_waiting(), Some((at(2), PageId(2))));
        assert_eq!(frames.give_to_waiting(), Some((at(3), PageId(3))));
        assert_eq!(frames.give_to_waiting(), None);
        assert!(frames.take(at(5), PageId(5)) && !frames.take(at(6), PageId(6)));
    }
}
