//! The frames of a cache or of a miniature, with a search for the first of an order.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::super::Geometry;
use super::order::{NEIGHBOURS, NO_PAGE, Neighbours, Order, Record, Search};
use super::pool::{Candidate, POOL_FRAMES, Pool};
use super::weight::TICKS_PER_HALF_LIFE;
use crate::addr::FrameId;

/// Candidates found touched before the next one goes even if touched.
const FOUND_TOUCHED_MAX: usize = 64;

/// One frame in this many is among the newest, unless victims are taken in larger batches.
const NEWEST_SHARE: usize = 100;

/// The largest batch of victims for which there is room, and the share of a set that it may be.
const BATCH_MAX: usize = 64;
const BATCH_SHARE: usize = 8;

/// A newest page goes unless it is heavier than the lightest by more than this, a factor of 2.4.
/// Pages of a loop that were used once more than others weigh up to twice as much.
const ADMISSION_MARGIN: i32 = TICKS_PER_HALF_LIFE as i32 * 5 / 4;

/// Events of frames since they were last looked at. There are none by default.
pub(super) trait Marks {
    /// Adds the touches of the frames of `records`, from `first` on, to the records that are
    /// `known`.
    fn collect(&mut self, _first: FrameId, _known: u8, _records: &mut Neighbours) {}

    /// Adds the touches of `frame` to `record`. Returns true if there were any.
    fn is_touched(&mut self, _frame: FrameId, _record: &mut Record) -> bool {
        false
    }

    /// Whether `frame` must not be given up now.
    fn is_pinned(&self, _frame: FrameId) -> bool {
        false
    }

    /// True if some pages must go, independent of their place.
    fn gives_up(&self) -> bool {
        false
    }

    /// Whether `page` is one of them.
    fn is_given_up(&self, _page: u32) -> bool {
        false
    }
}

/// The place of a page that must go in every order.
const GIVEN_UP: u64 = 0;

/// The place of the page of `record`.
fn place(search: &Search, record: &Record, marks: &impl Marks) -> u64 {
    if marks.is_given_up(record.page) { GIVEN_UP } else { search.place(record) }
}

/// The state of a set.
#[derive(Serialize, Deserialize)]
struct Set {
    /// The group of neighbours that is looked at next.
    hand: u32,
    pool: Pool,
    /// The last insertions, oldest in front, with the tick of each.
    newest: VecDeque<(FrameId, u16)>,
    /// Victims that left in a row lately, and victims since the last insertion.
    batch: usize,
    leaving: usize,
}

/// Records of frames in sets.
#[derive(Serialize, Deserialize)]
pub(super) struct Ranked {
    geometry: Geometry,
    /// The frames of each set by groups of neighbours. The last group may have frames that do not
    /// exist.
    neighbours: Vec<Neighbours>,
    sets: Vec<Set>,
    /// Frames of each set that do not exist.
    padding: usize,
    /// Groups of neighbours from one look to the next.
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
            neighbours: vec![Neighbours::NONE; geometry.sets * groups(ways)],
            sets: (0..geometry.sets).map(set).collect(),
            padding: groups(ways) * NEIGHBOURS - ways,
            stride: stride(ways),
        }
    }

    pub(super) fn memory_bytes(geometry: Geometry) -> usize {
        let newest = newest_max(geometry.ways) * size_of::<(FrameId, u16)>();
        let neighbours = groups(geometry.ways) * size_of::<Neighbours>();
        geometry.sets * (neighbours + size_of::<Set>() + newest)
    }

    /// The group of neighbours of `frame`, and its place there.
    #[inline]
    fn slot(&self, frame: FrameId) -> (usize, usize) {
        let slot = frame.index() + self.geometry.set_of(frame) * self.padding;
        (slot / NEIGHBOURS, slot % NEIGHBOURS)
    }

    /// Returns the record of `frame`.
    #[inline]
    pub(super) fn get(&self, frame: FrameId) -> Record {
        let (group, at) = self.slot(frame);
        self.neighbours[group].get(at)
    }

    #[inline]
    pub(super) fn set(&mut self, frame: FrameId, record: Record) {
        let (group, at) = self.slot(frame);
        self.neighbours[group].set(at, record);
    }

    pub(super) fn insert(&mut self, frame: FrameId, record: Record) {
        assert_eq!(self.get(frame).page, NO_PAGE, "{frame:?} is known already");
        self.set(frame, record);
        self.note_newest(frame, record);
    }

    /// Counts `frame` among the newest of its set.
    pub(super) fn note_newest(&mut self, frame: FrameId, record: Record) {
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

    /// Forgets `frame`. Returns its record.
    pub(super) fn remove(&mut self, frame: FrameId) -> Record {
        let record = self.get(frame);
        self.set(frame, Record::NONE);
        record
    }

    /// Forgets the candidates, for another order.
    pub(super) fn forget_candidates(&mut self) {
        self.sets.iter_mut().for_each(|set| set.pool.clear());
    }

    /// Looks at groups of neighbours in `set` and keeps the frames that must go first.
    pub(super) fn look(&mut self, set: usize, search: &Search, marks: &mut impl Marks) {
        let ways = self.geometry.ways;
        let groups = groups(ways);
        let of_set = &mut self.neighbours[set * groups..][..groups];
        let Set { hand, pool, .. } = &mut self.sets[set];
        for _ in 0..search.groups.min(groups) {
            let group = *hand as usize;
            // A gap follows, so that pages that came together are not looked at together.
            let next = group + self.stride;
            *hand = if next >= groups { next - groups } else { next } as u32;
            let first = (set * ways + group * NEIGHBOURS) as u32;
            let records = &mut of_set[group];
            let known = records.known();
            marks.collect(FrameId(first), known, records);
            search.clocks.limit_ages(records);
            let mut left = known;
            if !marks.gives_up() {
                left &= search.may_precede(pool.bar(), records);
            }
            while left != 0 {
                let at = left.trailing_zeros();
                left &= left - 1;
                let place = place(search, &records.get(at as usize), marks);
                let frame = FrameId(first + at);
                if place < pool.bar() && !marks.is_pinned(frame) {
                    pool.offer(Candidate { place, frame });
                }
            }
        }
    }

    /// Returns the frame of `set` that must go, which stays known. `None` if all are pinned.
    pub(super) fn victim(
        &mut self,
        set: usize,
        search: &Search,
        marks: &mut impl Marks,
    ) -> Option<FrameId> {
        let ways = self.geometry.ways;
        if ways <= POOL_FRAMES {
            self.sets[set].pool.clear();
            self.look(set, &Search { groups: groups(ways), ..*search }, marks);
        } else {
            self.look(set, search, marks);
        }
        let first = self.first(set, search, marks)?;
        let victim = match search.order {
            Order::Admit if !marks.is_given_up(self.get(first).page) => {
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

    /// True if the page in `frame`, which is known, was not touched and is worth hardly more than
    /// the next victim.
    pub(super) fn may_leave_early(
        &mut self,
        frame: FrameId,
        search: &Search,
        marks: &mut impl Marks,
    ) -> bool {
        if marks.is_pinned(frame) || self.is_touched(frame, marks) {
            return false;
        }
        let next = self.first(self.geometry.set_of(frame), search, marks);
        next.is_some_and(|next| search.is_near(&self.get(frame), &self.get(next)))
    }

    /// Returns the oldest of the newest frames that was not used again, unless it weighs much more
    /// than `lightest`.
    fn not_admitted(
        &mut self,
        set: usize,
        lightest: FrameId,
        search: &Search,
        marks: &mut impl Marks,
    ) -> Option<FrameId> {
        let now = search.clocks.key_now();
        let least = self.get(lightest).key.level(now);
        while let Some((frame, inserted)) = self.sets[set].newest.front().copied() {
            let record = self.get(frame);
            let is_new = record.page != NO_PAGE && record.used == inserted;
            if is_new && !marks.is_pinned(frame) && !self.is_touched(frame, marks) {
                if record.key.level(now) >= least + ADMISSION_MARGIN {
                    return None;
                }
                self.sets[set].newest.pop_front();
                return Some(frame);
            }
            self.sets[set].newest.pop_front();
        }
        None
    }

    /// Adds the touches of `frame` to its record. Returns true if there were any.
    fn is_touched(&mut self, frame: FrameId, marks: &mut impl Marks) -> bool {
        let (group, at) = self.slot(frame);
        let mut record = self.neighbours[group].get(at);
        let is_touched = marks.is_touched(frame, &mut record);
        if is_touched {
            self.neighbours[group].set(at, record);
        }
        is_touched
    }

    /// Returns the first frame of `set` that was not touched since it was looked at, at the end of
    /// its pool.
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
            if self.get(frame).page != NO_PAGE && !marks.is_pinned(frame) {
                let is_touched = self.is_touched(frame, marks);
                found_touched += usize::from(is_touched);
                let is_first = !is_touched && self::place(search, &self.get(frame), marks) == place;
                if is_first || found_touched > FOUND_TOUCHED_MAX {
                    return Some(frame);
                }
            }
            self.sets[set].pool.drop_first();
        }
    }
}

/// Groups of neighbours in a set of `ways`.
fn groups(ways: usize) -> usize {
    ways.div_ceil(NEIGHBOURS)
}

/// Returns the step of the hand in a set of `ways`, in groups of neighbours. It is the golden
/// section of all groups, so the hand passes all of them, and its gaps are always of about the same
/// size.
fn stride(ways: usize) -> usize {
    let groups = groups(ways);
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

/// The number of newest frames of a set of `ways`: usually, and at most.
fn newest_usual(ways: usize) -> usize {
    (ways / NEWEST_SHARE).max(1)
}

fn newest_max(ways: usize) -> usize {
    newest_usual(ways).max((ways / BATCH_SHARE).min(BATCH_MAX))
}
