//! Random: gives up any page, each with the same chance. The baseline without knowledge.

use serde::{Deserialize, Serialize};

use super::{Frames, Geometry, Replacement};
use crate::addr::{FrameId, PageId};
use crate::archive::Archive;

/// The place of a frame that is not known.
const UNKNOWN: u32 = u32::MAX;

/// The known frames of every set in an array without gaps, to draw from.
#[derive(Serialize, Deserialize)]
pub(super) struct Random {
    geometry: Geometry,
    /// `ways` entries for each set. The first `known[set]` of them count.
    drawable: Vec<FrameId>,
    known: Vec<u32>,
    /// The index of each frame in `drawable`.
    place: Vec<u32>,
    generator: SplitMix64,
}

impl Random {
    pub(super) fn new(geometry: Geometry, seed: u64) -> Random {
        Random {
            geometry,
            drawable: vec![FrameId(0); geometry.frames()],
            known: vec![0; geometry.sets],
            place: vec![UNKNOWN; geometry.frames()],
            generator: SplitMix64 { state: seed },
        }
    }

    pub(super) fn memory_bytes(geometry: Geometry) -> usize {
        let per_frame = size_of::<FrameId>() + size_of::<u32>();
        size_of::<Random>() + geometry.frames() * per_frame + geometry.sets * size_of::<u32>()
    }

    fn put(&mut self, place: usize, frame: FrameId) {
        self.drawable[place] = frame;
        self.place[frame.index()] = place as u32;
    }
}

impl Replacement for Random {
    fn insert(&mut self, frame: FrameId, _page: PageId) {
        assert_eq!(self.place[frame.index()], UNKNOWN, "{frame:?} is known already");
        let set = self.geometry.set_of(frame);
        self.put(set * self.geometry.ways + self.known[set] as usize, frame);
        self.known[set] += 1;
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let first = set * self.geometry.ways;
        // A pinned frame that was drawn is put behind the frames still to draw from. So no frame is
        // drawn twice, and the choice among the others stays uniform.
        for left in (1..=self.known[set]).rev() {
            let drawn = first + self.generator.below(left) as usize;
            let frame = self.drawable[drawn];
            if !frames.is_pinned(frame) {
                self.remove(frame);
                return Some(frame);
            }
            let last = first + left as usize - 1;
            self.put(drawn, self.drawable[last]);
            self.put(last, frame);
        }
        None
    }

    fn remove(&mut self, frame: FrameId) {
        let place = std::mem::replace(&mut self.place[frame.index()], UNKNOWN);
        assert_ne!(place, UNKNOWN, "{frame:?} is not known");
        let set = self.geometry.set_of(frame);
        self.known[set] -= 1;
        let last = self.drawable[set * self.geometry.ways + self.known[set] as usize];
        if last != frame {
            self.put(place as usize, last);
        }
    }

    fn state(&mut self, archive: &mut Archive<'_>) {
        archive.part(self);
    }
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): small, and the same on every machine.
#[derive(Serialize, Deserialize)]
struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// A number below `bound`, uniform but for a bias of at most `bound / 2³²`.
    fn below(&mut self, bound: u32) -> u32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (((mixed >> 32) * u64::from(bound)) >> 32) as u32
    }
}
