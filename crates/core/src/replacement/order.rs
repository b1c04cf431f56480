//! [`Order`]: the frames of each set in an order of the policy's own, first to go in front.

use std::hint::black_box;

use super::Geometry;
use super::list::Lists;
use crate::addr::FrameId;

/// Sets of more ways are linked lists, whose changes cost the same however long they are.
const ROW_WAYS_MAX: usize = 16;

/// An order of each set's frames, of which it knows some.
///
/// A narrow set's is a row of bytes, one a way: changing it moves a few bytes of one line of host
/// memory, where a linked list would change three or four lines far apart. A simulated cache of
/// millions of frames lives by that.
#[derive(Clone)]
pub(super) struct Order {
    geometry: Geometry,
    sets: Sets,
}

#[derive(Clone)]
enum Sets {
    /// The known ways of each set in order, then [`NONE`].
    Rows(Vec<u8>),
    /// A list a set.
    Lists(Lists),
}

const NONE: u8 = u8::MAX;

impl Order {
    pub(super) fn new(geometry: Geometry) -> Order {
        let sets = if geometry.ways <= ROW_WAYS_MAX {
            Sets::Rows(vec![NONE; geometry.frames()])
        } else {
            Sets::Lists(Lists::new(geometry.frames(), geometry.sets))
        };
        Order { geometry, sets }
    }

    pub(super) fn memory_bytes(geometry: Geometry) -> usize {
        if geometry.ways <= ROW_WAYS_MAX {
            geometry.frames()
        } else {
            Lists::memory_bytes(geometry.frames(), geometry.sets)
        }
    }

    /// The known frames of `set` from front to back.
    pub(super) fn iter(&self, set: usize) -> impl Iterator<Item = FrameId> {
        let ways = self.geometry.ways;
        let (row, list) = match &self.sets {
            Sets::Rows(rows) => (&rows[set * ways..(set + 1) * ways], None),
            Sets::Lists(lists) => (&[][..], Some(lists.iter(set))),
        };
        let known = row.iter().take_while(|way| **way != NONE);
        known
            .map(move |way| FrameId((set * ways + usize::from(*way)) as u32))
            .chain(list.into_iter().flatten())
    }

    /// Looks at the row of `set`, for nothing but to have it at hand.
    pub(super) fn expect(&self, set: usize) {
        if let Sets::Rows(rows) = &self.sets {
            black_box(rows[set * self.geometry.ways]);
        }
    }

    /// The first known frame of `set`.
    pub(super) fn front(&self, set: usize) -> Option<FrameId> {
        self.iter(set).next()
    }

    /// Puts `frame`, which is not known, behind all others of its set.
    pub(super) fn push_back(&mut self, frame: FrameId) {
        self.insert_behind(self.geometry.ways, frame);
    }

    /// Puts `frame`, which is not known, behind the first `count` of its set, or behind all of them if
    /// there are fewer.
    pub(super) fn insert_behind(&mut self, count: usize, frame: FrameId) {
        let set = self.geometry.set_of(frame);
        match &mut self.sets {
            Sets::Rows(rows) => {
                let (row, way) = row_of(rows, self.geometry, frame);
                assert!(!row.contains(&way), "{frame:?} is known already");
                let place = known(row).min(count);
                row[place..].rotate_right(1);
                row[place] = way;
            }
            Sets::Lists(lists) if count >= self.geometry.ways => lists.push_back(set, frame),
            Sets::Lists(lists) => lists.insert_behind(set, count, frame),
        }
    }

    /// Forgets `frame`, which is known.
    pub(super) fn remove(&mut self, frame: FrameId) {
        match &mut self.sets {
            Sets::Rows(rows) => {
                let (row, way) = row_of(rows, self.geometry, frame);
                let last = row.len() - 1;
                let place = place_of(row, way, frame);
                row[place..].rotate_left(1);
                row[last] = NONE;
            }
            Sets::Lists(lists) => lists.remove(frame),
        }
    }

    /// Puts `frame`, which is known, behind all others of its set.
    pub(super) fn move_to_back(&mut self, frame: FrameId) {
        match &mut self.sets {
            Sets::Rows(rows) => {
                let (row, way) = row_of(rows, self.geometry, frame);
                // Without branches that depend on where the frame is, which nobody can predict.
                let (mut passed, mut last) = (false, NONE);
                for place in 0..row.len() {
                    let here = row[place];
                    let next = row.get(place + 1).copied().unwrap_or(NONE);
                    passed |= here == way;
                    let moved = if next == NONE { way } else { next };
                    row[place] = if passed && here != NONE { moved } else { here };
                    last = if here == NONE { last } else { row[place] };
                }
                assert_eq!(last, way, "{frame:?} is not known");
            }
            Sets::Lists(lists) => lists.move_to_back(self.geometry.set_of(frame), frame),
        }
    }
}

/// The row of `frame`'s set, and which of its ways the frame is.
fn row_of(rows: &mut [u8], geometry: Geometry, frame: FrameId) -> (&mut [u8], u8) {
    let first = geometry.set_of(frame) * geometry.ways;
    (&mut rows[first..first + geometry.ways], (frame.index() - first) as u8)
}

/// How many ways `row` knows.
fn known(row: &[u8]) -> usize {
    row.iter().position(|way| *way == NONE).unwrap_or(row.len())
}

fn place_of(row: &[u8], way: u8, frame: FrameId) -> usize {
    let place = row.iter().position(|other| *other == way);
    place.unwrap_or_else(|| panic!("{frame:?} is not known"))
}
