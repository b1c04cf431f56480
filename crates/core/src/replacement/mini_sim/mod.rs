//! Mini-sim: a policy with three orders of eviction. Miniature caches show which order misses
//! least, and the whole cache follows that order.
//!
//! No order of pages is best for every program. The least recently used page is the right victim
//! when recent use predicts the next one. The least frequently used page is right under a steady
//! skew. The newest page is right when a program loops over more pages than fit. This policy has
//! one record for each frame. All three orders can be read from it, and the policy follows one of
//! them at a time.
//!
//! **Three orders** (`order`):
//!
//! * *Recent*: the page whose last use is longest ago goes first, as under LRU.
//! * *Light*: the page whose past accesses weigh least goes first, as under LRFU (Lee et al., IEEE
//!   Transactions on Computers 2001), with the weights of `weight`. Pages that were used in the
//!   last eighth of a turnover stay. A turnover is as many insertions as there are frames.
//! * *Admit*: the newest page that was not used again goes first, unless it weighs more than twice
//!   as much as the lightest page. So a page has to earn its place, as under W-TinyLFU (Einziger et
//!   al., ACM Transactions on Storage 2017, section 4). A part of a loop that does not fit stays,
//!   as under LIRS (Jiang and Zhang, SIGMETRICS 2002, section 3.3). Weights follow a page when it
//!   leaves. The factor of two keeps pages of equal weight from taking each other's places.
//!
//! **Miniature caches** (`miniature`) show the value of each order, also while another one is
//! followed. The source is Waldspurger et al., "Cache Modeling and Optimization using Miniature
//! Simulations" (USENIX ATC 2017). Pages are sampled by a hash. For each order, a cache that is
//! smaller by the same factor replays the accesses to them. A miniature has at most 16,384 frames,
//! and at least 1,024, or as many as the cache if that has fewer. For 32,768 frames, one page in 32
//! is sampled. The policy looks at frames in batches. The sampled pages among them reach the
//! miniatures in the same batches.
//!
//! **The choice** is a test by cumulative sums (Page, Biometrika 1954). For every other order, the
//! policy adds up the misses that the order would have saved its miniature. The sum never falls
//! below zero. A change costs about one miss for each page that the order would have kept and the
//! cache lacks, if that page is used again. The miniature shows the number of these pages in the
//! sample. The policy changes to the order when its sum reaches a quarter of that number and a few
//! more. So gains pay for the move before it is made, as in a metrical task system (Borodin et al.,
//! Journal of the ACM 1992). For a return to *recent* a tenth is enough, so that less is lost to
//! LRU. Then all sums start again. The first order is *recent*.
//!
//! A cache of at most 1,024 frames is its own miniature. So the policy knows which pages the cache
//! would hold if it had followed its order all along. Each time one of them comes in, a page that
//! the miniature does not hold must leave, independent of its place. Otherwise heavy pages of the
//! past would stay under *admit* for long.
//!
//! **Finding the victim** (`ranked`). Hits are only known as touches that the policy collects. For
//! each victim, and for each insertion before the first one, a hand looks at 8 to 64 frames. It
//! looks at each frame about eight times in the time for which LRU keeps an unused page. So the
//! times of last use are known to an eighth of that time, and there is no list to move frames in. A
//! pool keeps the 16 frames that must go first, as in Redis (since its version 3.0). The hand
//! leaves gaps of the golden section between groups of neighbours, because neighbours hold pages of
//! the same age after a cache has filled.
//!
//! **Memory** is two bytes for each page of the address space (the weights of pages that are not
//! cached), 8 for each frame, and 8 for every hundredth frame. Each frame of a miniature takes
//! about 130 to 230 bytes more.
//!
//! **Shards.** One instance for each part of the frames needs no communication, if a hash assigns
//! pages to parts.
//!
//! **Limits.** The miniatures of a cache of a thousand frames or fewer hold all its pages. So a
//! miss costs several times as much there. The policy handles an initial scan of many times the
//! cache as LRU does. All sets of a set-associative cache follow the same order. A program may
//! change its behaviour as soon as an order has been chosen, and then loses the cost of the change.
//! So streams whose misses are only a few times the number of frames can end some 4% behind LRU.

mod miniature;
mod order;
mod pool;
mod ranked;
mod weight;

use serde::{Deserialize, Serialize};

use super::{Frames, Geometry, Replacement};
use crate::addr::{FrameId, PageId};
use crate::archive::Archive;
use miniature::Miniatures;
use order::{Clocks, NEIGHBOURS, NO_PAGE, Neighbours, Order, Record, Search};
use ranked::{Marks, Ranked};
use weight::{HALF_LIFE_TURNOVERS, Key, TICKS_PER_HALF_LIFE, Weights, recall};

/// Ticks in a turnover of the cache, or up to twice as many. In a cache of fewer frames, a tick is
/// an insertion.
const TICKS_A_TURNOVER: usize = 1024;

/// Looks at each frame in the time for which LRU would keep an unused page.
const LOOKS_A_STAY: usize = 8;

/// The most groups of neighbours to look at for a victim. At least one is looked at.
const GROUPS_MAX: usize = 8;

/// The most touched sampled pages noted between two victims. The miniatures learn nothing of more.
const NOTED_MAX: usize = 256;

/// The frames, the weights of pages that are not cached, and the miniatures of the cache.
#[derive(Serialize, Deserialize)]
pub(super) struct MiniSim {
    geometry: Geometry,
    ranked: Ranked,
    #[serde(skip, default = "Weights::new")]
    weights: Weights,
    past: Vec<Key>,
    search: Search,
    miniatures: Miniatures,
    /// The average age in ticks at which LRU gives pages up. `Some(0)` before the first access.
    stay: Option<usize>,
    /// Half the ticks that the hand needs to pass all frames.
    half_sweep: u16,
    /// Records of sampled pages that were found touched, for the miniatures.
    noted: Vec<Record>,
    insertions_a_tick: usize,
    since_tick: usize,
    since_key_tick: usize,
    /// Number of pages to give up because the miniature of the order does not hold them. It grows
    /// when a page comes in that the miniature had already. 0 where miniatures are smaller than the
    /// cache.
    owed: usize,
    /// Victims that were searched for before their place is filled.
    ahead: usize,
    /// The set that is looked at before the first victims.
    next_set: usize,
    /// The next page whose history is checked for age, and the number of checks at each insertion.
    ageing_page: usize,
    ageing_stride: usize,
}

impl MiniSim {
    /// # Panics
    /// If there are 2³² pages or more.
    pub(super) fn new(geometry: Geometry, pages: u64) -> MiniSim {
        let frames = geometry.frames();
        assert!(pages < 1 << 32, "{pages} pages cannot be numbered");
        let insertions_a_tick = (frames / TICKS_A_TURNOVER).max(1);
        MiniSim {
            geometry,
            ranked: Ranked::new(geometry),
            weights: Weights::new(),
            past: vec![Key(0); pages as usize],
            search: Search {
                order: Order::Recent,
                groups: 1,
                clocks: Clocks::new(frames / insertions_a_tick),
            },
            miniatures: Miniatures::new(frames),
            stay: Some(0),
            half_sweep: 0,
            noted: Vec::with_capacity(NOTED_MAX),
            insertions_a_tick,
            since_tick: 0,
            since_key_tick: 0,
            owed: 0,
            ahead: 0,
            next_set: 0,
            ageing_page: 0,
            ageing_stride: pages as usize / (32 * frames) + 1,
        }
    }

    pub(super) fn memory_bytes(geometry: Geometry, pages: u64) -> usize {
        size_of::<MiniSim>()
            + Ranked::memory_bytes(geometry)
            + pages as usize * size_of::<Key>()
            + Miniatures::memory_bytes(geometry.frames())
            + NOTED_MAX * size_of::<Record>()
    }

    /// Runs an operation on the frames while their touches are collected. Reports the touches to
    /// the miniatures.
    fn looking<T>(
        &mut self,
        frames: &mut dyn Frames,
        act: impl FnOnce(&mut Ranked, &Search, &mut Looker) -> T,
    ) -> T {
        let mut looker = Looker {
            frames,
            weights: &self.weights,
            search: self.search,
            half_sweep: self.half_sweep,
            miniatures: &self.miniatures,
            gives_up: self.owed > 0,
            noted: &mut self.noted,
        };
        let result = act(&mut self.ranked, &self.search, &mut looker);
        for at in 0..self.noted.len() {
            self.rehearse(self.noted[at]);
        }
        self.noted.clear();
        result
    }

    /// Lets the miniatures replay an access to a sampled page.
    fn rehearse(&mut self, record: Record) {
        if let Some(better) = self.miniatures.replay(record, &self.search) {
            self.search.order = better;
            self.owed = 0;
            self.ranked.forget_candidates();
        }
        let stay = self.miniatures.lru_age();
        if stay == self.stay {
            return;
        }
        self.stay = stay;
        let ticks = self.geometry.frames() / self.insertions_a_tick;
        let looks = stay.map_or(0, |stay| LOOKS_A_STAY * ticks / stay);
        self.search.groups = looks.div_ceil(NEIGHBOURS).clamp(1, GROUPS_MAX);
        self.half_sweep = (ticks / (NEIGHBOURS * self.search.groups) / 2) as u16;
    }

    /// Moves the clocks after an insertion.
    fn advance(&mut self) {
        self.since_tick += 1;
        if self.since_tick >= self.insertions_a_tick {
            self.since_tick = 0;
            self.search.clocks.tick += 1;
        }
        // Counted in parts of an insertion, since a half-life may be less than its ticks.
        self.since_key_tick += TICKS_PER_HALF_LIFE;
        while self.since_key_tick >= HALF_LIFE_TURNOVERS * self.geometry.frames() {
            self.since_key_tick -= HALF_LIFE_TURNOVERS * self.geometry.frames();
            self.search.clocks.key_tick += 1;
        }
    }

    /// Keeps every history younger than one period of the clock.
    fn limit_ages(&mut self) {
        for _ in 0..self.ageing_stride {
            let key = &mut self.past[self.ageing_page];
            *key = key.not_older_than_history(self.search.clocks.key_now());
            self.ageing_page += 1;
            if self.ageing_page == self.past.len() {
                self.ageing_page = 0;
            }
        }
    }
}

/// Collects the touches of frames.
struct Looker<'a> {
    frames: &'a mut dyn Frames,
    weights: &'a Weights,
    search: Search,
    half_sweep: u16,
    miniatures: &'a Miniatures,
    gives_up: bool,
    noted: &'a mut Vec<Record>,
}

impl Looker<'_> {
    /// Counts touches of the page of `record`.
    fn count(&mut self, record: &mut Record, touches: u8) {
        let clocks = &self.search.clocks;
        let now = clocks.key_now();
        let level = self.weights.add(record.key.level(now), touches);
        record.key = Key::of_level(level, now);
        // It was touched at some time between two looks.
        if clocks.age(record.used) > self.half_sweep {
            record.used = clocks.now().wrapping_sub(self.half_sweep);
        }
        if self.miniatures.samples(record.page) && self.noted.len() < NOTED_MAX {
            self.noted.push(*record);
        }
    }
}

impl Marks for Looker<'_> {
    #[inline]
    fn collect(&mut self, first: FrameId, known: u8, records: &mut Neighbours) {
        let touches = self.frames.take_touches_together(first, known);
        let mut left = u64::from_le_bytes(touches);
        while left != 0 {
            let at = left.trailing_zeros() as usize / 8;
            left &= !(0xff << (8 * at));
            let mut record = records.get(at);
            self.count(&mut record, touches[at]);
            records.set(at, record);
        }
    }

    #[inline]
    fn is_touched(&mut self, frame: FrameId, record: &mut Record) -> bool {
        let touches = self.frames.take_touches(frame);
        if touches > 0 {
            self.count(record, touches);
        }
        touches > 0
    }

    fn is_pinned(&self, frame: FrameId) -> bool {
        self.frames.is_pinned(frame)
    }

    #[inline]
    fn gives_up(&self) -> bool {
        self.gives_up
    }

    #[inline]
    fn is_given_up(&self, page: u32) -> bool {
        self.gives_up && !self.miniatures.hold(page, self.search.order)
    }
}

impl Replacement for MiniSim {
    fn insert(&mut self, frame: FrameId, page: PageId) {
        let now = self.search.clocks.key_now();
        let level = self.past[page.index()].level(now);
        let key = Key::of_level(self.weights.add(level, 1), now);
        let record = Record { page: page.0 as u32, key, used: self.search.clocks.now() };
        self.ranked.insert(frame, record);
        if self.miniatures.samples(record.page) {
            self.owed += usize::from(self.miniatures.spare(record.page, self.search.order));
            self.rehearse(record);
        }
        self.limit_ages();
        self.advance();
    }

    fn recall(&self, pages: &[PageId]) {
        recall(&self.past, pages);
    }

    fn look_around(&mut self, frames: &mut dyn Frames) {
        if self.ahead > 0 {
            self.ahead -= 1;
            return;
        }
        // Before the first victims: any set, each in its turn.
        let set = self.next_set;
        self.next_set = if set + 1 == self.geometry.sets { 0 } else { set + 1 };
        self.looking(frames, |ranked, search, marks| ranked.look(set, search, marks));
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let victim =
            self.looking(frames, |ranked, search, marks| ranked.victim(set, search, marks))?;
        let page = self.ranked.get(victim).page;
        if self.owed > 0 && !self.miniatures.hold(page, self.search.order) {
            self.owed -= 1;
        }
        self.remove(victim);
        self.ahead += 1;
        Some(victim)
    }

    fn leave_early(&mut self, frame: FrameId, frames: &mut dyn Frames) -> bool {
        let leaves = self
            .looking(frames, |ranked, search, marks| ranked.may_leave_early(frame, search, marks));
        if leaves {
            self.remove(frame);
        }
        leaves
    }

    fn remove(&mut self, frame: FrameId) {
        let Record { page, key, .. } = self.ranked.remove(frame);
        assert_ne!(page, NO_PAGE, "{frame:?} is not known");
        self.past[page as usize] = key;
        if self.miniatures.samples(page) {
            self.miniatures.leave_cache(page);
        }
    }

    fn state(&mut self, archive: &mut Archive<'_>) {
        archive.part(self);
    }
}
