//! S3-FIFO: simple, scalable caching with three static FIFO queues (Yang et al., SOSP 2023).
//!
//! A page enters a *small* queue of a tenth of the frames. It moves to the *main* queue only if it
//! was touched more than once there. Most pages are not, and leave quickly. A page that was given
//! up from the small queue a short while ago (the *ghost* queue) enters the main queue at once. The
//! main queue reinserts a touched page, up to three times for touches that came together.

use serde::{Deserialize, Serialize};

use super::linked_lists::LinkedLists;
use super::{Frames, Geometry, Replacement, TOUCHES_MAX};
use crate::addr::{FrameId, PageId};
use crate::archive::Archive;

/// Touches in the small queue that make a page move to the main queue (Algorithm 1).
const TOUCHES_TO_MOVE: u8 = 2;

/// Small and main queue of each set, and the ghost queue as a time stamp for each page (section
/// 4.2).
#[derive(Serialize, Deserialize)]
pub(super) struct S3Fifo {
    geometry: Geometry,
    small_target: usize,
    /// The small queue of set `s` is list `2s`, its main queue list `2s + 1`.
    queues: LinkedLists,
    /// Frames in each of `queues`.
    lengths: Vec<usize>,
    in_main: Vec<bool>,
    /// Touches not yet used up by a reinsertion, of each frame in a main queue.
    lives: Vec<u8>,
    page_of: Vec<PageId>,
    /// Pages given up from the small queue of each set so far.
    given_up: Vec<u32>,
    /// The value of `given_up` after each page was last given up from a small queue; 0 if never.
    ghost_stamp: Vec<u32>,
}

impl S3Fifo {
    pub(super) fn new(geometry: Geometry, pages: u64) -> S3Fifo {
        let frames = geometry.frames();
        S3Fifo {
            geometry,
            small_target: (geometry.ways / 10).max(1),
            queues: LinkedLists::new(frames, 2 * geometry.sets),
            lengths: vec![0; 2 * geometry.sets],
            in_main: vec![false; frames],
            lives: vec![0; frames],
            page_of: vec![PageId(0); frames],
            given_up: vec![0; geometry.sets],
            ghost_stamp: vec![0; pages as usize],
        }
    }

    pub(super) fn memory_bytes(geometry: Geometry, pages: u64) -> usize {
        let per_frame = size_of::<bool>() + size_of::<u8>() + size_of::<PageId>();
        size_of::<S3Fifo>()
            + LinkedLists::memory_bytes(geometry.frames(), 2 * geometry.sets)
            + geometry.frames() * per_frame
            + geometry.sets * (2 * size_of::<usize>() + size_of::<u32>())
            + pages as usize * size_of::<u32>()
    }

    fn is_ghost(&self, set: usize, page: PageId) -> bool {
        let stamp = self.ghost_stamp[page.index()];
        let ghosts = self.geometry.ways - self.small_target;
        stamp != 0 && (self.given_up[set].wrapping_sub(stamp) as usize) < ghosts
    }

    fn put(&mut self, set: usize, in_main: bool, frame: FrameId) {
        let queue = 2 * set + usize::from(in_main);
        self.queues.push_back(queue, frame);
        self.lengths[queue] += 1;
        self.in_main[frame.index()] = in_main;
    }

    fn victim_from_small(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let small = 2 * set;
        for _ in 0..self.lengths[small] {
            let frame = self.queues.front(small)?;
            if frames.is_pinned(frame) {
                self.queues.move_to_back(small, frame);
            } else if frames.take_touches(frame) >= TOUCHES_TO_MOVE {
                self.remove(frame);
                self.put(set, true, frame);
            } else {
                self.remove(frame);
                self.given_up[set] = self.given_up[set].wrapping_add(1).max(1);
                self.ghost_stamp[self.page_of[frame.index()].index()] = self.given_up[set];
                return Some(frame);
            }
        }
        None
    }

    fn victim_from_main(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let main = 2 * set + 1;
        let known = self.lengths[main];
        let turns = usize::from(TOUCHES_MAX) + 1;
        for step in 0..turns * known {
            let frame = self.queues.front(main)?;
            if !frames.is_pinned(frame) {
                let lives = &mut self.lives[frame.index()];
                *lives = (*lives + frames.take_touches(frame)).min(TOUCHES_MAX);
                // No life outlasts the turns before the last, unless hits arrive in between. These
                // must not keep the queue turning.
                let last_turn = step >= (turns - 1) * known;
                if *lives == 0 || last_turn {
                    self.remove(frame);
                    return Some(frame);
                }
                *lives -= 1;
            }
            self.queues.move_to_back(main, frame);
        }
        None
    }
}

impl Replacement for S3Fifo {
    fn insert(&mut self, frame: FrameId, page: PageId) {
        let set = self.geometry.set_of(frame);
        let to_main = self.is_ghost(set, page);
        self.ghost_stamp[page.index()] = 0;
        self.page_of[frame.index()] = page;
        self.lives[frame.index()] = 0;
        self.put(set, to_main, frame);
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let small_is_full = self.lengths[2 * set] >= self.small_target;
        let from_small = if small_is_full { self.victim_from_small(set, frames) } else { None };
        // Either queue may hold nothing but pinned frames, and a search of the small queue may move
        // all of it to the main queue.
        from_small
            .or_else(|| self.victim_from_main(set, frames))
            .or_else(|| self.victim_from_small(set, frames))
            .or_else(|| self.victim_from_main(set, frames))
    }

    fn remove(&mut self, frame: FrameId) {
        let queue = 2 * self.geometry.set_of(frame) + usize::from(self.in_main[frame.index()]);
        self.queues.remove(frame);
        self.lengths[queue] -= 1;
    }

    fn state(&mut self, archive: &mut Archive<'_>) {
        archive.part(self);
    }
}
