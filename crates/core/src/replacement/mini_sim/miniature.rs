//! Miniatures of the cache, one for each order. They replay the accesses to a sample of the pages,
//! and choose among the orders.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::super::Geometry;
use super::order::{Order, Record, Search};
use super::ranked::{Marks, Ranked};
use crate::addr::FrameId;

/// A miniature has one frame for this many frames of the cache.
const FRAMES_A_FRAME: usize = 64;

/// Bounds of a miniature's frames. A cache of fewer frames is its own miniature.
const FRAMES_MIN: usize = 1024;
const FRAMES_MAX: usize = 1 << 14;

/// No frame: the page is not in a miniature.
const NOWHERE: u16 = u16::MAX;

/// The bar for a change of order, as a part of the pages that the order's miniature holds and the
/// cache lacks. The order must have saved that many misses, and [`BAR_MIN`] more to tell a gain
/// from chance.
const BAR_SHARE: usize = 4;
const BAR_MIN: usize = 8;

/// The same for a return to recency. It is lower, so that less is lost to LRU.
const BAR_SHARE_RECENT: usize = 10;

/// The weight of a new age in the average age at which LRU gives pages up.
const AGE_RATE: f32 = 1.0 / 64.0;

/// One miniature of the cache for each order.
#[derive(Serialize, Deserialize)]
pub(super) struct Miniatures {
    of: [Miniature; Order::ALL.len()],
    /// Each sampled page that is in a miniature or in the cache.
    places: FxHashMap<u32, Places>,
    /// The greatest hash of a sampled page.
    hash_max: u32,
    /// Misses that each order would have saved, since it was last no better than the current order.
    spared: [usize; Order::ALL.len()],
    /// Sampled pages that the miniature of each order holds and the cache does not. This is the
    /// cost of a change to that order.
    lacking: [usize; Order::ALL.len()],
}

/// Where a sampled page is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Places {
    /// Its frame in the miniature of each order.
    frames: [u16; Order::ALL.len()],
    is_cached: bool,
}

impl Places {
    const NONE: Places = Places { frames: [NOWHERE; Order::ALL.len()], is_cached: false };
}

impl Miniatures {
    /// Makes the miniatures of a cache of `frames` frames.
    pub(super) fn new(frames: usize) -> Miniatures {
        let own = Miniatures::frames(frames);
        let share = own as f64 / frames as f64;
        let mut places = FxHashMap::default();
        places.reserve(pages_max(own));
        Miniatures {
            of: Order::ALL.map(|_| Miniature::new(own)),
            places,
            hash_max: (share * f64::from(u32::MAX)) as u32,
            spared: [0; Order::ALL.len()],
            lacking: [0; Order::ALL.len()],
        }
    }

    fn frames(frames: usize) -> usize {
        frames.min((frames / FRAMES_A_FRAME).clamp(FRAMES_MIN, FRAMES_MAX))
    }

    pub(super) fn memory_bytes(frames: usize) -> usize {
        let own = Miniatures::frames(frames);
        // A hash table is at most seven eighths full, and has a byte an entry and a few more.
        let entries = (pages_max(own) * 8 / 7).next_power_of_two().max(16);
        Order::ALL.len() * Ranked::memory_bytes(Geometry::fully_associative(own))
            + entries * (size_of::<(u32, Places)>() + 1)
            + 64
    }

    /// Whether the miniatures replay accesses to `page`.
    #[inline]
    pub(super) fn samples(&self, page: u32) -> bool {
        // Multiplicative hashing (Knuth, The Art of Computer Programming 3, section 6.4).
        let hash = u64::from(page).wrapping_mul(0xd1b5_4a32_d192_ed03) >> 32;
        hash as u32 <= self.hash_max
    }

    /// True if the miniature of `order` holds `page`, which is sampled.
    pub(super) fn hold(&self, page: u32, order: Order) -> bool {
        self.places.get(&page).is_some_and(|places| places.frames[order as usize] != NOWHERE)
    }

    /// True if the miniature of `order` is as large as the cache, and holds `page`.
    pub(super) fn spare(&self, page: u32, order: Order) -> bool {
        self.hash_max == u32::MAX && self.hold(page, order)
    }

    /// Returns the average age in ticks at which LRU gives a page up. `None` before the first one.
    pub(super) fn lru_age(&self) -> Option<usize> {
        let age = self.of[Order::Recent as usize].age;
        (age > 0.0).then_some((age as usize).max(1))
    }

    /// Replays an access to a sampled page, which the cache holds from now on. Returns the order to
    /// change to, if any.
    pub(super) fn replay(&mut self, record: Record, search: &Search) -> Option<Order> {
        let places = self.places.entry(record.page).or_insert(Places::NONE);
        let frames = places.frames;
        for (lacking, frame) in self.lacking.iter_mut().zip(frames) {
            *lacking -= usize::from(frame != NOWHERE && !places.is_cached);
        }
        places.is_cached = true;
        for order in Order::ALL {
            let at = order as usize;
            if frames[at] != NOWHERE {
                self.of[at].ranked.set(FrameId(u32::from(frames[at])), record);
                continue;
            }
            let (free, left) = self.of[at].insert(record, &Search { order, ..*search });
            if let Some(page) = left {
                self.leave(page, order);
            }
            let places = self.places.get_mut(&record.page).expect("it is cached");
            places.frames[at] = free.0 as u16;
        }
        self.better(frames.map(|frame| frame == NOWHERE), search.order)
    }

    /// Notes that `page` has left the miniature of `order`.
    fn leave(&mut self, page: u32, order: Order) {
        let places = self.places.get_mut(&page).expect("it was in a miniature");
        places.frames[order as usize] = NOWHERE;
        self.lacking[order as usize] -= usize::from(!places.is_cached);
        if *places == Places::NONE {
            self.places.remove(&page);
        }
    }

    /// Notes that the cache has given up a sampled page.
    pub(super) fn leave_cache(&mut self, page: u32) {
        let Some(places) = self.places.get_mut(&page) else { return };
        places.is_cached = false;
        for (lacking, frame) in self.lacking.iter_mut().zip(places.frames) {
            *lacking += usize::from(frame != NOWHERE);
        }
        if *places == Places::NONE {
            self.places.remove(&page);
        }
    }

    /// Adds up the misses that the orders save. Returns a better order than `current`, if there is
    /// one.
    fn better(&mut self, misses: [bool; Order::ALL.len()], current: Order) -> Option<Order> {
        for (spared, misses_here) in self.spared.iter_mut().zip(misses) {
            match (misses[current as usize], misses_here) {
                (true, false) => *spared += 1,
                (false, true) => *spared = spared.saturating_sub(1),
                _ => {}
            }
        }
        // While the orders agree, which they mostly do, that is all.
        if self.spared.iter().all(|spared| *spared <= BAR_MIN) {
            return None;
        }
        let better = Order::ALL.into_iter().max_by_key(|order| self.spared[*order as usize])?;
        let share = if better == Order::Recent { BAR_SHARE_RECENT } else { BAR_SHARE };
        if self.spared[better as usize] <= self.lacking[better as usize] / share + BAR_MIN {
            return None;
        }
        self.spared = [0; Order::ALL.len()];
        Some(better)
    }
}

/// The most pages in the table: seven for each frame of the miniatures. That is all that a hash
/// table of eight places a frame can have. The miniatures and the cache hold at most four pages a
/// frame, and fewer in fact, as all hold the newest. A table that is less than half full clears
/// removed entries in place, and never grows.
fn pages_max(frames: usize) -> usize {
    7 * frames
}

/// A small cache that follows one order.
#[derive(Serialize, Deserialize)]
struct Miniature {
    ranked: Ranked,
    /// Frames that hold a page, and all frames.
    filled: usize,
    frames: usize,
    /// The average age of the pages that were given up; 0 before the first one.
    age: f32,
}

impl Miniature {
    fn new(frames: usize) -> Miniature {
        let ranked = Ranked::new(Geometry::fully_associative(frames));
        Miniature { ranked, filled: 0, frames, age: 0.0 }
    }

    /// Inserts a page. Returns its frame, and the page that left.
    fn insert(&mut self, record: Record, search: &Search) -> (FrameId, Option<u32>) {
        let (frame, left) = if self.filled < self.frames {
            self.filled += 1;
            (FrameId(self.filled as u32 - 1), None)
        } else {
            let (frame, page) = self.give_up(search);
            (frame, Some(page))
        };
        self.ranked.set(frame, record);
        if search.order == Order::Admit {
            self.ranked.note_newest(frame, record);
        }
        (frame, left)
    }

    fn give_up(&mut self, search: &Search) -> (FrameId, u32) {
        let victim = self.ranked.victim(0, search, &mut Untouched);
        let victim = victim.expect("nothing is pinned in a miniature");
        let Record { page, used, .. } = self.ranked.remove(victim);
        let age = f32::from(search.clocks.age(used));
        self.age = if self.age == 0.0 { age } else { self.age + (age - self.age) * AGE_RATE };
        (victim, page)
    }
}

/// A miniature sees every access, so its records have no touches to add.
struct Untouched;

impl Marks for Untouched {}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::super::order::Clocks;
    use super::super::weight::Key;
    use super::*;

    #[test]
    fn the_table_of_pages_never_grows() {
        const FRAMES: usize = 1024;
        let mut miniatures = Miniatures::new(FRAMES);
        let capacity = miniatures.places.capacity();
        let clocks = Clocks::new(FRAMES);
        let mut search = Search { order: Order::Recent, groups: 1, clocks };
        let mut most = 0;
        // A loop that does not fit: the miniatures keep different parts of it.
        for at in 0..200_000 {
            let key = Key::of_level(0, search.clocks.key_now());
            let record = Record { page: at % 4_000, key, used: search.clocks.now() };
            miniatures.replay(record, &search);
            // So does the cache: the last pages of a round.
            if (record.page as usize) < 4_000 - FRAMES {
                miniatures.leave_cache(record.page);
            }
            search.clocks.tick += 1;
            most = most.max(miniatures.places.len());
        }
        assert!(most > 5 * FRAMES / 2, "{most} pages");
        assert_eq!(miniatures.places.capacity(), capacity);
    }

    #[test]
    fn the_pages_that_the_cache_lacks_for_an_order_are_counted() {
        const FRAMES: usize = 64;
        const PAGES: u32 = 200;
        let mut miniatures = Miniatures::new(FRAMES);
        let mut random = Pcg64::seed_from_u64(43);
        let mut search = Search { order: Order::Recent, groups: 1, clocks: Clocks::new(FRAMES) };
        let mut cached = Vec::new();
        for _ in 0..20_000 {
            let page = random.random_range(0..PAGES);
            let page = random.random_range(0..=page);
            if !cached.contains(&page) {
                if cached.len() == FRAMES {
                    let left = cached.swap_remove(random.random_range(0..FRAMES));
                    miniatures.leave_cache(left);
                }
                cached.push(page);
            }
            let key = Key::of_level(0, search.clocks.key_now());
            miniatures.replay(Record { page, key, used: search.clocks.now() }, &search);
            search.clocks.tick += 1;
            for order in Order::ALL {
                let lacks = |page: &u32| miniatures.hold(*page, order) && !cached.contains(page);
                let lacking = (0..PAGES).filter(lacks).count();
                assert_eq!(miniatures.lacking[order as usize], lacking, "{order:?}");
            }
        }
    }
}
