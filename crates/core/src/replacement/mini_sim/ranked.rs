//! The frames of a cache, or of a miniature of one, of which the first of an order can be found.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::super::Geometry;
use super::super::adaptive_lrfu::TICKS_PER_HALF_LIFE;
use super::order::{NEIGHBOURS, NO_PAGE, Order, Record, Search};
use super::pool::{Candidate, POOL_FRAMES, Pool};
use crate::addr::FrameId;

/// Candidates found touched before the next one goes whatever its touches.
const FOUND_TOUCHED_MAX: usize = 64;

/// One frame in so many is among the newest, unless victims are taken in larger batches.
const NEWEST_SHARE: usize = 100;

/// The largest batch of victims for which there is room, and the share of a set that it may be.
const BATCH_MAX: usize = 64;
const BATCH_SHARE: usize = 8;

/// A newest page goes unless it is heavier than the lightest by more than this: a factor of 2.4, as
/// pages of a loop that were used once more than others weigh up to twice as much.
const ADMISSION_MARGIN: i32 = TICKS_PER_HALF_LIFE as i32 * 5 / 4;

/// What happened to frames since they were last looked at.
pub(super) trait Marks {
    /// Takes the touches of the frames of `records`, at most [`NEIGHBOURS`] from `first` on, into
    /// those that hold a page.
    fn collect(&mut self, first: FrameId, records: &mut [Record]);
    /// Takes the touches of `frame` into `record`; whether there were any.
    fn is_touched(&mut self, frame: FrameId, record: &mut Record) -> bool;
    /// Whether `frame` must not be given up now.
    fn is_pinned(&self, frame: FrameId) -> bool;
    /// Which of `records`, the lowest bit for the first one, are of pages that are to go whatever their
    /// place.
    fn given_up(&self, records: &[Record]) -> u8;
}

/// The place of a page that is given up whatever the order.
const GIVEN_UP: u64 = 0;

/// The place of the page of `record`, which is given up whatever the order or not.
fn place(search: &Search, record: &Record, given_up: bool) -> u64 {
    if given_up { GIVEN_UP } else { search.place(record) }
}

fn is_given_up(record: &Record, marks: &impl Marks) -> bool {
    marks.given_up(std::slice::from_ref(record)) != 0
}

/// What is kept of a set.
#[derive(Serialize, Deserialize)]
struct Set {
    /// The group of neighbours that is looked at next.
    hand: u32,
    pool: Pool,
    /// The last insertions, oldest in front, with the tick of each.
    newest: VecDeque<(FrameId, u16)>,
    /// How many victims left in a row lately, and since the last insertion.
    batch: usize,
    leaving: usize,
}

/// Records of frames in sets.
#[derive(Serialize, Deserialize)]
pub(super) struct Ranked {
    geometry: Geometry,
    records: Vec<Record>,
    sets: Vec<Set>,
    /// How many groups of neighbours lie between those looked at one after the other.
    stride: usize,
}

impl Ranked {
    pub(super) fn new(geometry: Geometry) -> Ranked {
        let ways = geometry.ways;
        let set = |_| Set {
            hand: 0,
            pool: Pool::new(),
            newest: VecDeque::with_capacity(newest_max(ways)),
            batch: 0,
            leaving: 0,
        };
        Ranked {
            geometry,
            records: vec![Record::NONE; geometry.frames()],
            sets: (0..geometry.sets).map(set).collect(),
            stride: stride(ways),
        }
    }

    pub(super) fn memory_bytes(geometry: Geometry) -> usize {
        let newest = newest_max(geometry.ways) * size_of::<(FrameId, u16)>();
        geometry.frames() * size_of::<Record>() + geometry.sets * (size_of::<Set>() + newest)
    }

    /// What is known of `frame`, to change it.
    pub(super) fn record_mut(&mut self, frame: FrameId) -> &mut Record {
        &mut self.records[frame.index()]
    }

    pub(super) fn insert(&mut self, frame: FrameId, record: Record) {
        let known = &mut self.records[frame.index()];
        assert_eq!(known.page, NO_PAGE, "{frame:?} is known already");
        *known = record;
        let ways = self.geometry.ways;
        let set = &mut self.sets[self.geometry.set_of(frame)];
        if set.leaving > 0 {
            set.batch = set.leaving.max(set.batch.saturating_sub(1));
            set.leaving = 0;
        }
        let room = set.batch.clamp(newest_usual(ways), newest_max(ways));
        while set.newest.len() >= room {
            set.newest.pop_front();
        }
        set.newest.push_back((frame, record.used));
    }

    /// Forgets `frame`; what was known of it.
    pub(super) fn remove(&mut self, frame: FrameId) -> Record {
        std::mem::replace(&mut self.records[frame.index()], Record::NONE)
    }

    /// Forgets who was to go first, for another order.
    pub(super) fn forget_candidates(&mut self) {
        self.sets.iter_mut().for_each(|set| set.pool.clear());
    }

    /// Looks at groups of neighbours in `set` and keeps those that are to go first.
    pub(super) fn look(&mut self, set: usize, search: &Search, marks: &mut impl Marks) {
        let ways = self.geometry.ways;
        let of_set = &mut self.records[set * ways..(set + 1) * ways];
        let Set { hand, pool, .. } = &mut self.sets[set];
        let groups_of_set = ways.div_ceil(NEIGHBOURS);
        for _ in 0..search.groups.min(groups_of_set) {
            let way = *hand as usize * NEIGHBOURS;
            // A gap follows, so that pages that came together are not looked at together.
            let next = *hand as usize + self.stride;
            *hand = if next >= groups_of_set { next - groups_of_set } else { next } as u32;
            let first = (set * ways + way) as u32;
            let neighbours = &mut of_set[way..ways.min(way + NEIGHBOURS)];
            marks.collect(FrameId(first), neighbours);
            search.clocks.limit_ages(neighbours);
            let mut left = match <&[Record; NEIGHBOURS]>::try_from(&*neighbours) {
                Ok(all) => search.may_precede(pool.bar(), all),
                Err(_) => (1 << neighbours.len()) - 1,
            };
            let given_up = marks.given_up(neighbours);
            left |= given_up;
            while left != 0 {
                let at = left.trailing_zeros();
                left &= left - 1;
                let record = &neighbours[at as usize];
                let place = place(search, record, given_up >> at & 1 == 1);
                let frame = FrameId(first + at);
                if place < pool.bar() && record.page != NO_PAGE && !marks.is_pinned(frame) {
                    pool.offer(Candidate { place, frame });
                }
            }
        }
    }

    /// The frame of `set` that is to go, which stays known. `None` if all are pinned.
    pub(super) fn victim(
        &mut self,
        set: usize,
        search: &Search,
        marks: &mut impl Marks,
    ) -> Option<FrameId> {
        let ways = self.geometry.ways;
        if ways <= POOL_FRAMES {
            self.sets[set].pool.clear();
            self.look(set, &Search { groups: ways.div_ceil(NEIGHBOURS), ..*search }, marks);
        } else {
            self.look(set, search, marks);
        }
        let first = self.first(set, search, marks)?;
        let victim = match search.order {
            Order::Admit if !is_given_up(&self.records[first.index()], marks) => {
                self.not_admitted(set, first, search, marks).unwrap_or(first)
            }
            _ => first,
        };
        let left = &mut self.sets[set];
        left.leaving += 1;
        if victim == first {
            left.pool.drop_first();
        }
        Some(victim)
    }

    /// The oldest of the newest frames that was not used again, unless it weighs much more than
    /// `lightest`.
    fn not_admitted(
        &mut self,
        set: usize,
        lightest: FrameId,
        search: &Search,
        marks: &mut impl Marks,
    ) -> Option<FrameId> {
        let now = search.clocks.key_now();
        let least = self.records[lightest.index()].key.level(now);
        let newest = &mut self.sets[set].newest;
        while let Some(&(frame, inserted)) = newest.front() {
            let record = &mut self.records[frame.index()];
            let is_new = record.page != NO_PAGE && record.used == inserted;
            if is_new && !marks.is_pinned(frame) && !marks.is_touched(frame, record) {
                if record.key.level(now) >= least + ADMISSION_MARGIN {
                    return None;
                }
                newest.pop_front();
                return Some(frame);
            }
            newest.pop_front();
        }
        None
    }

    /// The first frame of `set` that was not touched since it was looked at, at the end of its pool.
    fn first(&mut self, set: usize, search: &Search, marks: &mut impl Marks) -> Option<FrameId> {
        let mut found_touched = 0;
        let mut looked = 0;
        loop {
            let Some(Candidate { place, frame }) = self.sets[set].pool.first() else {
                if looked > self.geometry.ways / NEIGHBOURS {
                    return None;
                }
                looked += 1;
                self.look(set, &Search { groups: 1, ..*search }, marks);
                continue;
            };
            let record = &mut self.records[frame.index()];
            if record.page != NO_PAGE && !marks.is_pinned(frame) {
                let is_touched = marks.is_touched(frame, record);
                found_touched += usize::from(is_touched);
                let given_up = is_given_up(record, marks);
                let is_first = !is_touched && self::place(search, record, given_up) == place;
                if is_first || found_touched > FOUND_TOUCHED_MAX {
                    return Some(frame);
                }
            }
            self.sets[set].pool.drop_first();
        }
    }
}

/// By how many groups of neighbours the hand of a set of `ways` moves on, so that it comes by all of
/// them: the golden section of them, which leaves gaps of about the same size at any time.
fn stride(ways: usize) -> usize {
    let groups = ways.div_ceil(NEIGHBOURS);
    let has_common_factor = |stride: usize| {
        let (mut one, mut other) = (groups, stride);
        while other > 0 {
            (one, other) = (other, one % other);
        }
        one > 1
    };
    let golden = (groups as f64 * 0.618) as usize;
    (golden.max(1)..groups).find(|stride| !has_common_factor(*stride)).unwrap_or(groups)
}

/// How many frames are the newest of a set of `ways`: usually, and at most.
fn newest_usual(ways: usize) -> usize {
    (ways / NEWEST_SHARE).max(1)
}

fn newest_max(ways: usize) -> usize {
    newest_usual(ways).max((ways / BATCH_SHARE).min(BATCH_MAX))
}
