//! The newest frames of each set, in the order of their insertion.

use super::super::Geometry;
use crate::addr::FrameId;

/// One frame in so many is among the newest, unless victims are taken in larger batches.
const NEWEST_SHARE: usize = 100;

/// The largest batch of victims for which there is room, and the share of a set that it may be.
const BATCH_MAX: usize = 64;
const BATCH_SHARE: usize = 8;

/// A ring of frames a set.
#[derive(Clone)]
pub(super) struct Newest {
    frames: Vec<FrameId>,
    /// Places of a set.
    capacity: usize,
    /// Where the oldest of each set is, and how many there are.
    first: Vec<u32>,
    length: Vec<u32>,
    /// How many there may be: the share, or as many as lately left one after the other.
    usual: usize,
    batch: usize,
    leaving: usize,
}

impl Newest {
    pub(super) fn new(geometry: Geometry) -> Newest {
        let capacity = Newest::capacity(geometry);
        Newest {
            frames: vec![FrameId(0); geometry.sets * capacity],
            capacity,
            first: vec![0; geometry.sets],
            length: vec![0; geometry.sets],
            usual: Newest::usual(geometry),
            batch: 0,
            leaving: 0,
        }
    }

    fn usual(geometry: Geometry) -> usize {
        (geometry.ways / NEWEST_SHARE).max(1)
    }

    fn capacity(geometry: Geometry) -> usize {
        Newest::usual(geometry).max((geometry.ways / BATCH_SHARE).min(BATCH_MAX))
    }

    pub(super) fn memory_bytes(geometry: Geometry) -> usize {
        let frames = geometry.sets * Newest::capacity(geometry);
        frames * size_of::<FrameId>() + geometry.sets * 2 * size_of::<u32>()
    }

    /// A frame is given up, perhaps not one of these.
    pub(super) fn count_victim(&mut self) {
        self.leaving += 1;
    }

    pub(super) fn oldest(&self, set: usize) -> Option<FrameId> {
        let oldest = self.frames[set * self.capacity + self.first[set] as usize];
        (self.length[set] > 0).then_some(oldest)
    }

    pub(super) fn drop_oldest(&mut self, set: usize) {
        self.first[set] = self.place(set, 1);
        self.length[set] -= 1;
    }

    pub(super) fn push(&mut self, set: usize, frame: FrameId) {
        if self.leaving > 0 {
            self.batch = self.leaving.max(self.batch.saturating_sub(1));
            self.leaving = 0;
        }
        let most = self.batch.clamp(self.usual, self.capacity);
        while self.length[set] as usize >= most {
            self.drop_oldest(set);
        }
        let place = self.place(set, self.length[set]);
        self.frames[set * self.capacity + place as usize] = frame;
        self.length[set] += 1;
    }

    /// The place `count` behind the oldest.
    fn place(&self, set: usize, count: u32) -> u32 {
        let place = self.first[set] + count;
        if place >= self.capacity as u32 { place - self.capacity as u32 } else { place }
    }
}
