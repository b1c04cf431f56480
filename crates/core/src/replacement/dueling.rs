//! Dueling: three orders each name a victim, and the order whose victims are wanted back last decides.
//!
//! No order of pages is best for every program. The least recently used page is right when recent use
//! foretells the next; the least frequently used page is right under a steady skew; and in a loop that
//! does not fit, the newest page is right, because the loop comes back to it last. This policy keeps
//! all three and measures which one is right.
//!
//! **Three candidates.** For each victim there are
//!
//! * the *least recent*: the front of a list in which a frame moves to the back when its touches are
//!   collected (CLOCK, Corbató 1968, with the order of a list);
//! * the *lightest*: the victim that [adaptive LRFU](super::adaptive_lrfu) would take, by its history
//!   of every page;
//! * the *newest*: the oldest of the last 1% of insertions, if it was not touched since. Giving it up
//!   keeps what is in the cache, as LIRS does with pages whose reuse distance is long (Jiang and
//!   Zhang, SIGMETRICS 2002, section 3.3) and W-TinyLFU with pages it does not admit (Einziger et
//!   al., ACM Transactions on Storage 2017, section 4).
//!
//! **A duel** is an eviction whose candidates differ. The page that left and the two that stayed are
//! written down. Belady's rule (IBM Systems Journal 1966) says who should have left: the page that is
//! used last. If the page that left is missed before a rival is used, the rival was the better victim;
//! if the rival was used by then, it was right to stay. Either answer is seen without trying the other
//! choice, because a miss is always seen and a rival's touches can be collected when it matters. So no
//! share of the cache runs under a worse policy to be compared, as in set dueling (Qureshi et al.,
//! ISCA 2007), and no random choices explore, as in LeCaR (Vietri et al., HotStorage 2018) and CACHEUS
//! (Rodriguez et al., FAST 2021), from which the idea comes to blame an eviction for the page's
//! return.
//!
//! **Scores.** Each pair of orders has a score between −1 and 1: an average of its duels' outcomes in
//! which old ones fade. A duel that takes long to end counts less, since a frame that waits long for
//! one hit is worth little (Beckmann et al., "LHD", NSDI 2018, section 3). The newest page
//! competes in a class of its own by its weight, so that pages of a scan are told from pages that
//! come back. A class with few duels so far uses the score of all classes. The least recent goes
//! while nothing is known.
//!
//! **Looking around.** Hits are only known as touches that someone collects. A hand collects those of
//! four frames for each insertion, from the first one on: without it, the first victims of a large
//! cache would be taken blindly, since each page was touched at some time.
//!
//! **Memory** is four bytes a page of the address space (two of adaptive LRFU's history and the time
//! of the last use), 29 a frame, and 32 a duel: one for two frames, at most 65,536. Time is counted in
//! victims: a tick is a 512th of a turnover (as many victims as there are frames), at least one
//! victim.
//!
//! **Shards.** An instance for each part of the frames, with pages given to parts by a hash, needs no
//! communication. Eight parts of 2,000 frames cost less than 2% more misses (tested), eight of 200
//! frames 3%.
//!
//! **Limits.** A caller that takes more victims in a row than the newest 1% leaves the third order
//! without a candidate. A scan many times the cache that comes first is met as LRU meets it.

use super::adaptive_lrfu::AdaptiveLrfu;
use super::linked_lists::LinkedLists;
use super::{Frames, Geometry, Replacement};
use crate::addr::{FrameId, PageId};

/// Frames whose touches are collected for each insertion.
const LOOKS_AN_INSERTION: usize = 4;

/// Frames that one search finds touched before it takes the next one whatever its touches.
const LOOKS_MAX: usize = 64;

/// One frame in so many is among the newest.
const NEWEST_SHARE: usize = 100;

/// One duel is written down for so many frames.
const FRAMES_A_DUEL: usize = 2;

/// The fewest and the most duels that are written down at a time.
const DUELS_MIN: usize = 64;
const DUELS_MAX: usize = 1 << 16;

/// Ticks in a turnover of the cache; in one of fewer frames, a tick is a victim.
const TICKS_A_TURNOVER: u32 = 512;

/// Turnovers after which a duel ends: in every second place of the table as many as a loop ten times
/// as long as the cache needs to come round.
const PATIENCE: [u16; 2] = [2, 16];

/// A page not used for this many ticks is taken for one used then, long before the time wraps.
const AGE_MAX: u16 = 0x8000;

/// What a score takes over of an outcome that is known at once; half of it after a turnover.
const RATE: f32 = 0.01;

/// What the scores are at first, below 0: recency is trusted until there is better knowledge.
const LIGHTEST_AT_FIRST: f32 = -0.3;
const NEWEST_AT_FIRST: f32 = -0.2;

/// Classes of the newest page, by half octaves of its weight from half a weight of one access up.
const CLASSES: usize = 16;
const LEVELS_A_CLASS: i32 = 8;

/// Duels after which a class has a score of its own.
const DUELS_OF_A_CLASS: u32 = 16;

/// Returned pages whose duels wait for the next victim.
const RETURNS_MAX: usize = 64;

/// The time in ticks, modulo 2¹⁶.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tick(u16);

impl Tick {
    /// Ticks from `earlier` until this.
    fn since(self, earlier: Tick) -> u16 {
        self.0.wrapping_sub(earlier.0)
    }
}

/// Which of the three orders.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expert {
    Recent,
    Light,
    Newest,
}

/// A page that is or was in a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Candidate {
    frame: FrameId,
    page: u32,
}

/// An eviction whose outcome is awaited.
#[derive(Clone, Copy)]
struct Duel {
    /// The page that left.
    page: u32,
    at: Tick,
    winner: Expert,
    class: u8,
    /// The other experts' candidates, which stayed; in the order of [`others`].
    rivals: [Option<Candidate>; 2],
}

/// The experts other than `winner`.
fn others(winner: Expert) -> [Expert; 2] {
    match winner {
        Expert::Recent => [Expert::Light, Expert::Newest],
        Expert::Light => [Expert::Recent, Expert::Newest],
        Expert::Newest => [Expert::Recent, Expert::Light],
    }
}

/// The frames by recency of use, and when every page was last used, as far as touches were collected.
#[derive(Clone)]
struct Recency {
    geometry: Geometry,
    /// A list a set, the least recent in front.
    lists: LinkedLists,
    page_of: Vec<u32>,
    used: Vec<Tick>,
    now: Tick,
    victims_since_tick: u32,
    victims_a_tick: u32,
    ticks_a_turnover: u16,
}

impl Recency {
    fn advance(&mut self) {
        self.victims_since_tick += 1;
        if self.victims_since_tick >= self.victims_a_tick {
            self.victims_since_tick = 0;
            self.now = Tick(self.now.0.wrapping_add(1));
        }
    }

    /// Keeps the time of the last use of `page` from wrapping while a duel waits.
    fn limit_age(&mut self, page: u32) {
        let used = &mut self.used[page as usize];
        if self.now.since(*used) > AGE_MAX {
            *used = Tick(self.now.0.wrapping_sub(AGE_MAX));
        }
    }

    /// Whether `page`, whose age was limited at `at`, was used since.
    fn used_after(&self, page: u32, at: Tick) -> bool {
        let ago = self.now.since(self.used[page as usize]);
        ago < self.now.since(at)
    }
}

/// The frames of a cache, whose touches change the order of recency as they are collected.
struct Watched<'a> {
    recency: &'a mut Recency,
    frames: &'a mut dyn Frames,
}

impl Frames for Watched<'_> {
    fn take_touches(&mut self, frame: FrameId) -> u8 {
        let touches = self.frames.take_touches(frame);
        if touches > 0 {
            let recency = &mut *self.recency;
            recency.lists.move_to_back(recency.geometry.set_of(frame), frame);
            recency.used[recency.page_of[frame.index()] as usize] = recency.now;
        }
        touches
    }

    fn is_dirty(&self, frame: FrameId) -> bool {
        self.frames.is_dirty(frame)
    }

    fn is_pinned(&self, frame: FrameId) -> bool {
        self.frames.is_pinned(frame)
    }
}

/// The newest frames of each set, in the order of their insertion.
#[derive(Clone)]
struct Newest {
    /// A ring of `capacity` frames a set.
    frames: Vec<FrameId>,
    capacity: usize,
    /// Where the oldest of each set is, and how many there are.
    first: Vec<u32>,
    length: Vec<u32>,
}

impl Newest {
    fn new(geometry: Geometry) -> Newest {
        let capacity = Newest::capacity(geometry);
        Newest {
            frames: vec![FrameId(0); geometry.sets * capacity],
            capacity,
            first: vec![0; geometry.sets],
            length: vec![0; geometry.sets],
        }
    }

    fn capacity(geometry: Geometry) -> usize {
        (geometry.ways / NEWEST_SHARE).max(1)
    }

    fn memory_bytes(geometry: Geometry) -> usize {
        let frames = geometry.sets * Newest::capacity(geometry);
        frames * size_of::<FrameId>() + geometry.sets * 2 * size_of::<u32>()
    }

    fn oldest(&self, set: usize) -> Option<FrameId> {
        let oldest = self.frames[set * self.capacity + self.first[set] as usize];
        (self.length[set] > 0).then_some(oldest)
    }

    fn drop_oldest(&mut self, set: usize) {
        self.first[set] = (self.first[set] + 1) % self.capacity as u32;
        self.length[set] -= 1;
    }

    fn push(&mut self, set: usize, frame: FrameId) {
        if self.length[set] as usize == self.capacity {
            self.drop_oldest(set);
        }
        let at = (self.first[set] + self.length[set]) as usize % self.capacity;
        self.frames[set * self.capacity + at] = frame;
        self.length[set] += 1;
    }
}

/// How often the first of two orders named the better victim: from −1, never, to 1, always.
#[derive(Clone, Copy)]
struct Score {
    value: f32,
    duels: u32,
}

impl Score {
    fn new(value: f32) -> Score {
        Score { value, duels: 0 }
    }

    fn count(&mut self, first_was_better: bool, rate: f32) {
        let outcome = if first_was_better { 1.0 } else { -1.0 };
        self.value += (outcome - self.value) * rate;
        self.duels = self.duels.saturating_add(1);
    }
}

/// The score of the newest against another order: by class, and of all classes.
#[derive(Clone)]
struct Scores {
    classes: [Score; CLASSES],
    all: Score,
}

impl Scores {
    fn new() -> Scores {
        let score = Score::new(NEWEST_AT_FIRST);
        Scores { classes: [score; CLASSES], all: score }
    }

    fn count(&mut self, class: u8, newest_was_better: bool, rate: f32) {
        self.classes[usize::from(class)].count(newest_was_better, rate);
        self.all.count(newest_was_better, rate);
    }

    fn favours_newest(&self, class: u8) -> bool {
        let own = self.classes[usize::from(class)];
        let score = if own.duels < DUELS_OF_A_CLASS { self.all } else { own };
        score.value > 0.0
    }
}

/// Three orders of the frames, the duels between them, and their scores.
#[derive(Clone)]
pub(super) struct Dueling {
    geometry: Geometry,
    lightness: AdaptiveLrfu,
    recency: Recency,
    newest: Newest,
    /// By a hash of the page that left.
    duels: Vec<Option<Duel>>,
    /// Places of duels whose page was inserted since the last victim.
    returns: Vec<usize>,
    /// Of the lightest against the least recent.
    lightest: Score,
    newest_to_recent: Scores,
    newest_to_lightest: Scores,
    hand: usize,
}

impl Dueling {
    /// # Panics
    /// If there are 2³² pages or more.
    pub(super) fn new(geometry: Geometry, pages: u64) -> Dueling {
        let frames = geometry.frames();
        assert!(pages <= u64::from(u32::MAX), "a page's number must fit in 32 bits");
        let victims_a_tick = (frames as u32 / TICKS_A_TURNOVER).max(1);
        Dueling {
            geometry,
            lightness: AdaptiveLrfu::new(geometry, pages),
            recency: Recency {
                geometry,
                lists: LinkedLists::new(frames, geometry.sets),
                page_of: vec![0; frames],
                used: vec![Tick(0); pages as usize],
                now: Tick(0),
                victims_since_tick: 0,
                victims_a_tick,
                ticks_a_turnover: (frames as u32 / victims_a_tick) as u16,
            },
            newest: Newest::new(geometry),
            duels: vec![None; duels(geometry)],
            returns: Vec::with_capacity(RETURNS_MAX),
            lightest: Score::new(LIGHTEST_AT_FIRST),
            newest_to_recent: Scores::new(),
            newest_to_lightest: Scores::new(),
            hand: 0,
        }
    }

    pub(super) fn memory_bytes(geometry: Geometry, pages: u64) -> usize {
        size_of::<Dueling>() - size_of::<AdaptiveLrfu>()
            + AdaptiveLrfu::memory_bytes(geometry, pages)
            + LinkedLists::<()>::memory_bytes(geometry.frames(), geometry.sets)
            + geometry.frames() * size_of::<u32>()
            + pages as usize * size_of::<Tick>()
            + Newest::memory_bytes(geometry)
            + duels(geometry) * size_of::<Option<Duel>>()
            + RETURNS_MAX * size_of::<usize>()
    }

    /// Counts the touches of `frame`, which is known; whether there were any.
    fn look(&mut self, frame: FrameId, frames: &mut dyn Frames) -> bool {
        self.lightness.look_between(frame, &mut Watched { recency: &mut self.recency, frames })
    }

    fn candidate(&self, frame: FrameId) -> Candidate {
        Candidate { frame, page: self.recency.page_of[frame.index()] }
    }

    fn least_recent(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let first = |recency: &Recency, frames: &dyn Frames| {
            recency.lists.iter(set).find(|&frame| !frames.is_pinned(frame))
        };
        for _ in 0..LOOKS_MAX {
            let frame = first(&self.recency, frames)?;
            if !self.look(frame, frames) {
                return Some(frame);
            }
        }
        first(&self.recency, frames)
    }

    /// The oldest of the newest frames that was not touched and may go.
    fn newest(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        for _ in 0..LOOKS_MAX {
            let frame = self.newest.oldest(set)?;
            let may_go = self.lightness.knows(frame) && !frames.is_pinned(frame);
            if may_go && !self.look(frame, frames) {
                return Some(frame);
            }
            self.newest.drop_oldest(set);
        }
        None
    }

    /// The class of `page` as the newest.
    fn class_of(&self, page: u32) -> u8 {
        let level = self.lightness.level_of(PageId(u64::from(page)));
        (level + LEVELS_A_CLASS).div_euclid(LEVELS_A_CLASS).clamp(0, CLASSES as i32 - 1) as u8
    }

    /// Where a duel over `page` is written down.
    fn place_of(&self, page: u32) -> usize {
        // Fibonacci hashing (Knuth, The Art of Computer Programming 3, section 6.4).
        let hash = u64::from(page).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        hash as usize % self.duels.len()
    }

    /// Ends the duel in `place`: the page that left has returned, or is not waited for any longer.
    fn end(&mut self, place: usize, returned: bool, frames: &mut dyn Frames) {
        let Some(duel) = self.duels[place].take() else { return };
        let ticks = self.recency.now.since(duel.at);
        let turnovers = f32::from(ticks) / f32::from(self.recency.ticks_a_turnover);
        let rate = RATE / (1.0 + turnovers);
        for (rival, other) in duel.rivals.into_iter().zip(others(duel.winner)) {
            let Some(Candidate { frame, page }) = rival else { continue };
            if self.lightness.knows(frame) && self.recency.page_of[frame.index()] == page {
                self.look(frame, frames);
            }
            let used = self.recency.used_after(page, duel.at);
            if !returned && !used {
                continue;
            }
            let (class, right) = (duel.class, used);
            match (duel.winner, other) {
                (Expert::Light, Expert::Recent) => self.lightest.count(right, rate),
                (Expert::Recent, Expert::Light) => self.lightest.count(!right, rate),
                (Expert::Newest, Expert::Recent) => self.newest_to_recent.count(class, right, rate),
                (Expert::Recent, _) => self.newest_to_recent.count(class, !right, rate),
                (Expert::Newest, _) => self.newest_to_lightest.count(class, right, rate),
                (Expert::Light, _) => self.newest_to_lightest.count(class, !right, rate),
            }
        }
    }

    /// Writes down that `victim` left and the other candidates stayed, unless an earlier duel is
    /// still waited for in its place.
    fn begin(
        &mut self,
        winner: Expert,
        class: u8,
        named: impl Fn(Expert) -> Option<Candidate>,
        frames: &mut dyn Frames,
    ) {
        let Some(victim) = named(winner) else { return };
        let rivals = others(winner).map(|other| named(other).filter(|rival| *rival != victim));
        if rivals == [None, None] {
            return;
        }
        let place = self.place_of(victim.page);
        if let Some(earlier) = self.duels[place] {
            let patience = PATIENCE[place % PATIENCE.len()] * self.recency.ticks_a_turnover;
            if self.recency.now.since(earlier.at) <= patience {
                return;
            }
            self.end(place, false, frames);
        }
        let at = self.recency.now;
        rivals.iter().flatten().for_each(|rival| self.recency.limit_age(rival.page));
        self.duels[place] = Some(Duel { page: victim.page, at, winner, class, rivals });
    }
}

/// How many duels are written down at a time.
fn duels(geometry: Geometry) -> usize {
    (geometry.frames() / FRAMES_A_DUEL).clamp(DUELS_MIN, DUELS_MAX)
}

impl Replacement for Dueling {
    fn insert(&mut self, frame: FrameId, page: PageId) {
        self.lightness.insert(frame, page);
        let (set, page) = (self.geometry.set_of(frame), page.0 as u32);
        self.recency.lists.push_back(set, frame);
        self.recency.page_of[frame.index()] = page;
        self.recency.used[page as usize] = self.recency.now;
        self.newest.push(set, frame);
        let place = self.place_of(page);
        let returned = self.duels[place].is_some_and(|duel| duel.page == page);
        if returned && self.returns.len() < RETURNS_MAX {
            self.returns.push(place);
        }
    }

    fn look_around(&mut self, frames: &mut dyn Frames) {
        for _ in 0..LOOKS_AN_INSERTION {
            let frame = FrameId(self.hand as u32);
            self.hand = (self.hand + 1) % self.geometry.frames();
            if self.lightness.knows(frame) {
                self.look(frame, frames);
            }
        }
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        while let Some(place) = self.returns.pop() {
            self.end(place, true, frames);
        }
        let mut watched = Watched { recency: &mut self.recency, frames };
        let light = self.lightness.candidate(set, &mut watched)?;
        let recent = self.least_recent(set, frames)?;
        let newest = self.newest(set, frames);

        let class = newest.map_or(0, |frame| self.class_of(self.candidate(frame).page));
        let (order, to_newest) = match self.lightest.value >= 0.0 {
            true => (Expert::Light, &self.newest_to_lightest),
            false => (Expert::Recent, &self.newest_to_recent),
        };
        let is_newest = newest.is_some() && to_newest.favours_newest(class);
        let winner = if is_newest { Expert::Newest } else { order };
        let named =
            [Some(recent), Some(light), newest].map(|named| named.map(|f| self.candidate(f)));
        let named = |expert: Expert| named[expert as usize];
        self.begin(winner, class, named, frames);

        let victim = named(winner)?.frame;
        self.recency.lists.remove(victim);
        self.lightness.give_up(victim, &mut Watched { recency: &mut self.recency, frames });
        self.recency.advance();
        Some(victim)
    }

    fn remove(&mut self, frame: FrameId) {
        self.lightness.remove(frame);
        self.recency.lists.remove(frame);
    }
}
