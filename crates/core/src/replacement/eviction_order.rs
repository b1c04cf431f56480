//! [`EvictionOrder`]: the frames of each set in an order of the policy, the next victim in front.

use std::hint::black_box;

use serde::{Deserialize, Serialize};

use super::Geometry;
use super::linked_lists::LinkedLists;
use crate::addr::FrameId;

/// Sets of more ways are linked lists. The cost of a change does not depend on their length.
const ROW_WAYS_MAX: usize = 16;

/// An order of the known frames of each set.
///
/// A narrow set is a row of bytes, one for each way. A change moves a few bytes of one line of host
/// memory. In a linked list it would change three or four lines far apart. The difference decides
/// the speed of a simulated cache of millions of frames.
#[derive(Serialize, Deserialize)]
pub(super) struct EvictionOrder {
    geometry: Geometry,
    sets: Sets,
}

#[derive(Serialize, Deserialize)]
enum Sets {
    /// The known ways of each set in order, then [`NONE`]. Padding behind the last set lets every
    /// row be read as a row of [`ROW_WAYS_MAX`] ways.
    Rows(Vec<u8>),
    /// A list for each set.
    LinkedLists(LinkedLists),
}

const NONE: u8 = u8::MAX;

impl EvictionOrder {
    pub(super) fn new(geometry: Geometry) -> EvictionOrder {
        let sets = if geometry.ways <= ROW_WAYS_MAX {
            Sets::Rows(vec![NONE; geometry.frames() + ROW_WAYS_MAX])
        } else {
            Sets::LinkedLists(LinkedLists::new(geometry.frames(), geometry.sets))
        };
        EvictionOrder { geometry, sets }
    }

    pub(super) fn memory_bytes(geometry: Geometry) -> usize {
        if geometry.ways <= ROW_WAYS_MAX {
            geometry.frames()
        } else {
            LinkedLists::memory_bytes(geometry.frames(), geometry.sets)
        }
    }

    /// The known frames of `set` from front to back.
    pub(super) fn iter(&self, set: usize) -> impl Iterator<Item = FrameId> {
        let ways = self.geometry.ways;
        let (row, list) = match &self.sets {
            Sets::Rows(rows) => (&rows[set * ways..(set + 1) * ways], None),
            Sets::LinkedLists(lists) => (&[][..], Some(lists.iter(set))),
        };
        let known = row.iter().take_while(|way| **way != NONE);
        known
            .map(move |way| FrameId((set * ways + usize::from(*way)) as u32))
            .chain(list.into_iter().flatten())
    }

    /// Reads the row of `set`, only to bring it into the host's cache.
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

    /// Puts `frame`, which is not known, behind the first `count` of its set, or behind all of them
    /// if there are fewer.
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
            Sets::LinkedLists(lists) if count >= self.geometry.ways => lists.push_back(set, frame),
            Sets::LinkedLists(lists) => lists.insert_behind(set, count, frame),
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
            Sets::LinkedLists(lists) => lists.remove(frame),
        }
    }

    /// Puts `frame`, which is known, behind all others of its set.
    pub(super) fn move_to_back(&mut self, frame: FrameId) {
        match &mut self.sets {
            Sets::Rows(rows) => {
                let ways = self.geometry.ways;
                let (first, way) = place_in_rows(self.geometry, frame);
                let bytes = &mut rows[first..];
                // In the narrowest number: what another row's last change has just written and this
                // one reads in part would be waited for.
                let moved = match ways {
                    ..=4 => bytes
                        .first_chunk_mut()
                        .and_then(|four| row_in::u32::move_to_back(four, ways, way)),
                    5..=8 => bytes
                        .first_chunk_mut()
                        .and_then(|eight| row_in::u64::move_to_back(eight, ways, way)),
                    _ => bytes
                        .first_chunk_mut()
                        .and_then(|all| row_in::u128::move_to_back(all, ways, way)),
                };
                moved.unwrap_or_else(|| panic!("{frame:?} is not known"));
            }
            Sets::LinkedLists(lists) => lists.move_to_back(self.geometry.set_of(frame), frame),
        }
    }
}

/// Returns the row of `frame`'s set, and the way of the frame.
fn row_of(rows: &mut [u8], geometry: Geometry, frame: FrameId) -> (&mut [u8], u8) {
    let (first, way) = place_in_rows(geometry, frame);
    (&mut rows[first..first + geometry.ways], way)
}

/// Returns the place of the row of `frame`'s set, and the way of the frame.
#[inline]
fn place_in_rows(geometry: Geometry, frame: FrameId) -> (usize, u8) {
    let first = geometry.set_of(frame) * geometry.ways;
    (first, (frame.index() - first) as u8)
}

/// A row as one integer, with its front in the lowest byte. There are three widths: 4 ways, 8 ways,
/// and the most ways of a row.
macro_rules! row_in {
    ($number:ident) => {
        pub mod $number {
            type Row = $number;

            /// Every byte 1.
            const ONES: Row = Row::MAX / 0xff;
            const BYTES: usize = size_of::<Row>();

            /// Returns the row at the start of `bytes`, of `ways`, with `way` moved behind all
            /// other known ways. `None` if `way` is not known. No branch or shift depends on its
            /// position, because the host could not predict it.
            #[inline]
            pub fn move_to_back(bytes: &mut [u8; BYTES], ways: usize, way: u8) -> Option<()> {
                let row = Row::from_le_bytes(*bytes);
                let set = Row::MAX >> (8 * (BYTES - ways));
                let (known, wanted) = (row | !set, ONES * Row::from(way));
                let before = below_first(known, wanted);
                if before == Row::MAX {
                    return None;
                }
                let all = below_first(known, Row::MAX);
                let others = all >> 8;
                let moved =
                    known & before | known >> 8 & others & !before | wanted & all & !others | !all;
                *bytes = (moved & set | row & !set).to_le_bytes();
                Some(())
            }

            /// Returns a mask of the bytes of `row` below the lowest one that equals its byte in
            /// `wanted`. Covers all bytes if there is none.
            #[inline]
            fn below_first(row: Row, wanted: Row) -> Row {
                let differs = row ^ wanted;
                // The top bit of every byte that is zero; of some above the lowest such as well.
                let zero = differs.wrapping_sub(ONES) & !differs & ONES << 7;
                let lowest = zero & zero.wrapping_neg();
                (lowest >> 7).wrapping_sub(1)
            }
        }
    };
}

mod row_in {
    row_in!(u32);
    row_in!(u64);
    row_in!(u128);
}

/// How many ways `row` knows.
fn known(row: &[u8]) -> usize {
    row.iter().position(|way| *way == NONE).unwrap_or(row.len())
}

fn place_of(row: &[u8], way: u8, frame: FrameId) -> usize {
    let place = row.iter().position(|other| *other == way);
    place.unwrap_or_else(|| panic!("{frame:?} is not known"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_row_moves_a_way_behind_all_that_it_knows_and_leaves_its_neighbours_alone(
            order in Just((0..16u8).collect::<Vec<u8>>()).prop_shuffle(),
            (ways, count, place) in (1..=16usize)
                .prop_flat_map(|ways| (Just(ways), 1..=ways))
                .prop_flat_map(|(ways, count)| (Just(ways), Just(count), 0..count)),
            neighbours in any::<u8>(),
        ) {
            let all = order.into_iter().filter(|way| usize::from(*way) < ways);
            let mut plain: Vec<u8> = all.collect();
            let unknown = plain.split_off(count);
            let row = |known: &[u8]| {
                let mut bytes = [neighbours; 16];
                bytes[..ways].fill(NONE);
                bytes[..count].copy_from_slice(known);
                bytes
            };
            let before = row(&plain);
            let way = plain.remove(place);
            plain.push(way);
            macro_rules! moves_as_the_list_does {
                ($row:ident) => {
                    let moved = |way| {
                        let mut bytes = before;
                        let row = bytes.first_chunk_mut().unwrap();
                        row_in::$row::move_to_back(row, ways, way).map(|()| bytes)
                    };
                    prop_assert_eq!(moved(way), Some(row(&plain)));
                    prop_assert!(unknown.iter().all(|way| moved(*way).is_none()));
                };
            }
            moves_as_the_list_does!(u128);
            if ways <= 8 {
                moves_as_the_list_does!(u64);
            }
            if ways <= 4 {
                moves_as_the_list_does!(u32);
            }
        }
    }
}
