//! Miniatures of the cache, one for each order, that replay the accesses to a sample of the pages,
//! and the choice among the orders.

use rustc_hash::FxHashMap;

use super::super::Geometry;
use super::order::{Clocks, Order, Record};
use super::ranked::{Marks, Ranked};
use crate::addr::FrameId;

/// A miniature has a frame for so many frames of the cache,
const FRAMES_A_FRAME: usize = 64;

/// but at least and at most so many; caches of fewer frames are their own miniatures.
const FRAMES_MIN: usize = 1024;
const FRAMES_MAX: usize = 1 << 14;

/// Another order is followed when it would have spared as many misses as the miniatures have frames,
/// divided by this, and a few more, which tell a gain from chance in small caches.
const BAR_SHARE: usize = 10;
const BAR_MIN: usize = 8;

/// The age at which LRU gives pages up is an average in which a new one counts this much.
const AGE_RATE: f32 = 1.0 / 64.0;

/// One miniature of the cache for each order.
#[derive(Clone)]
pub(super) struct Miniatures {
    of: [Miniature; Order::ALL.len()],
    /// The greatest hash of a sampled page.
    hash_max: u32,
    /// Misses that each order would have spared since it last was no better than the one followed.
    spared: [usize; Order::ALL.len()],
    bar: usize,
}

impl Miniatures {
    /// Of a cache of `frames` frames.
    pub(super) fn new(frames: usize) -> Miniatures {
        let own = Miniatures::frames(frames);
        let share = own as f64 / frames as f64;
        Miniatures {
            of: Order::ALL.map(|order| Miniature::new(order, own)),
            hash_max: (share * f64::from(u32::MAX)) as u32,
            spared: [0; Order::ALL.len()],
            bar: own / BAR_SHARE + BAR_MIN,
        }
    }

    fn frames(frames: usize) -> usize {
        frames.min((frames / FRAMES_A_FRAME).clamp(FRAMES_MIN, FRAMES_MAX))
    }

    pub(super) fn memory_bytes(frames: usize) -> usize {
        Order::ALL.len() * Miniature::memory_bytes(Miniatures::frames(frames))
    }

    /// Whether the miniatures replay accesses to `page`.
    #[inline]
    pub(super) fn samples(&self, page: u32) -> bool {
        // Multiplicative hashing (Knuth, The Art of Computer Programming 3, section 6.4).
        let hash = u64::from(page).wrapping_mul(0xd1b5_4a32_d192_ed03) >> 32;
        hash as u32 <= self.hash_max
    }

    /// The age in ticks at which LRU gives a page up, if it has given one up.
    pub(super) fn lru_age(&self) -> Option<usize> {
        let age = self.of[Order::Recent as usize].age;
        (age > 0.0).then_some((age as usize).max(1))
    }

    /// Replays an access to a sampled page, while the cache follows `current`. The order to follow
    /// from now on, if it is another one.
    pub(super) fn replay(
        &mut self,
        record: Record,
        clocks: &Clocks,
        groups: usize,
        current: Order,
    ) -> Option<Order> {
        let misses = self.of.each_mut().map(|one| one.misses(record, clocks, groups));
        for (spared, misses_here) in self.spared.iter_mut().zip(misses) {
            match (misses[current as usize], misses_here) {
                (true, false) => *spared += 1,
                (false, true) => *spared = spared.saturating_sub(1),
                _ => {}
            }
        }
        let better = Order::ALL.into_iter().max_by_key(|order| self.spared[*order as usize])?;
        if self.spared[better as usize] <= self.bar {
            return None;
        }
        self.spared = [0; Order::ALL.len()];
        Some(better)
    }
}

/// A small cache that follows one order.
#[derive(Clone)]
struct Miniature {
    order: Order,
    ranked: Ranked,
    frame_of: FxHashMap<u32, FrameId>,
    frames: usize,
    /// The average age of the pages that were given up; 0 before the first one.
    age: f32,
}

impl Miniature {
    fn new(order: Order, frames: usize) -> Miniature {
        let mut frame_of = FxHashMap::default();
        frame_of.reserve(frames);
        let ranked = Ranked::new(Geometry::fully_associative(frames));
        Miniature { order, ranked, frame_of, frames, age: 0.0 }
    }

    fn memory_bytes(frames: usize) -> usize {
        // A hash table is at most seven eighths full, and has a byte an entry and a few more.
        let entries = (frames * 8 / 7 + 1).next_power_of_two().max(16);
        Ranked::memory_bytes(Geometry::fully_associative(frames))
            + entries * (size_of::<(u32, FrameId)>() + 1)
            + 64
    }

    /// Accesses the page of `record`; whether it missed.
    fn misses(&mut self, record: Record, clocks: &Clocks, groups: usize) -> bool {
        if let Some(&frame) = self.frame_of.get(&record.page) {
            *self.ranked.record_mut(frame) = record;
            return false;
        }
        let frame = match self.frame_of.len() < self.frames {
            true => FrameId(self.frame_of.len() as u32),
            false => self.give_up(clocks, groups),
        };
        self.frame_of.insert(record.page, frame);
        self.ranked.insert(frame, record);
        true
    }

    fn give_up(&mut self, clocks: &Clocks, groups: usize) -> FrameId {
        let victim = self.ranked.victim(0, groups, self.order, clocks, &mut Untouched);
        let victim = victim.expect("nothing is pinned in a miniature");
        let Record { page, used, .. } = self.ranked.remove(victim);
        self.frame_of.remove(&page);
        let age = f32::from(clocks.age(used));
        self.age = if self.age == 0.0 { age } else { self.age + (age - self.age) * AGE_RATE };
        victim
    }
}

/// A miniature is told of every access: its records have no touches to add.
struct Untouched;

impl Marks for Untouched {
    fn collect(&mut self, _first: FrameId, _records: &mut [Record]) {}

    fn is_touched(&mut self, _frame: FrameId, _record: &mut Record) -> bool {
        false
    }

    fn is_pinned(&self, _frame: FrameId) -> bool {
        false
    }
}
