//! Evictions whose outcome is awaited, and what outcomes say of the orders.

use super::record::Tick;
use crate::addr::FrameId;

/// One duel is written down for so many frames.
const FRAMES_A_DUEL: usize = 2;

/// The fewest and the most duels that are written down at a time. The most fit in a core's own cache.
const DUELS_MIN: usize = 64;
const DUELS_MAX: usize = 1 << 13;

/// What a score takes over of an outcome that is known at once; half of it after a turnover.
const RATE: f32 = 0.01;

/// What the scores are at first, below 0: recency is trusted until there is better knowledge.
const LIGHTEST_AT_FIRST: f32 = -0.2;
const NEWEST_AT_FIRST: f32 = -0.1;

/// Classes of the newest page, by half octaves of its weight from half a weight of one access up.
const CLASSES: usize = 16;
const LEVELS_A_CLASS: i32 = 8;

/// Duels after which a class has a score of its own.
const DUELS_OF_A_CLASS: u32 = 16;

/// Which of the three orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expert {
    Recent,
    Light,
    Newest,
}

impl Expert {
    /// The other two.
    pub(super) fn others(self) -> [Expert; 2] {
        match self {
            Expert::Recent => [Expert::Light, Expert::Newest],
            Expert::Light => [Expert::Recent, Expert::Newest],
            Expert::Newest => [Expert::Recent, Expert::Light],
        }
    }
}

/// A page that is or was in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub(super) frame: FrameId,
    pub(super) page: u32,
}

/// An eviction whose outcome is awaited.
#[derive(Clone, Copy)]
pub(super) struct Duel {
    /// The page that left.
    pub(super) page: u32,
    pub(super) at: Tick,
    pub(super) winner: Expert,
    pub(super) class: u8,
    /// The candidates of [`Expert::others`], which stayed.
    pub(super) rivals: [Option<Candidate>; 2],
}

/// The class of a page of `level` as the newest.
pub(super) fn class_of(level: i32) -> u8 {
    (level + LEVELS_A_CLASS).div_euclid(LEVELS_A_CLASS).clamp(0, CLASSES as i32 - 1) as u8
}

/// The duels that are waited for, by a hash of the page that left. In a large cache, pages of
/// most hashes are not waited for.
#[derive(Clone)]
pub(super) struct Duels {
    duels: Vec<Option<Duel>>,
    /// Values of the hash.
    places: usize,
}

impl Duels {
    pub(super) fn new(frames: usize) -> Duels {
        let places = (frames / FRAMES_A_DUEL).max(DUELS_MIN);
        Duels { duels: vec![None; Duels::count(frames)], places }
    }

    fn count(frames: usize) -> usize {
        (frames / FRAMES_A_DUEL).clamp(DUELS_MIN, DUELS_MAX)
    }

    pub(super) fn memory_bytes(frames: usize) -> usize {
        Duels::count(frames) * size_of::<Option<Duel>>()
    }

    /// Where a duel over `page` is written down, if it is.
    pub(super) fn place_of(&self, page: u32) -> Option<usize> {
        // Multiplicative hashing (Knuth, The Art of Computer Programming 3, section 6.4).
        let hash = u64::from(page).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let place = ((hash * self.places as u64) >> 32) as usize;
        (place < self.duels.len()).then_some(place)
    }

    pub(super) fn get(&self, place: usize) -> Option<&Duel> {
        self.duels[place].as_ref()
    }

    pub(super) fn take(&mut self, place: usize) -> Option<Duel> {
        self.duels[place].take()
    }

    pub(super) fn put(&mut self, place: usize, duel: Duel) {
        self.duels[place] = Some(duel);
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
struct ByClass {
    classes: [Score; CLASSES],
    all: Score,
}

impl ByClass {
    fn new() -> ByClass {
        let score = Score::new(NEWEST_AT_FIRST);
        ByClass { classes: [score; CLASSES], all: score }
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

/// The scores of all pairs of orders.
#[derive(Clone)]
pub(super) struct Scores {
    /// Of the lightest against the least recent.
    lightest: Score,
    newest_to_recent: ByClass,
    newest_to_lightest: ByClass,
}

impl Scores {
    pub(super) fn new() -> Scores {
        Scores {
            lightest: Score::new(LIGHTEST_AT_FIRST),
            newest_to_recent: ByClass::new(),
            newest_to_lightest: ByClass::new(),
        }
    }

    /// A duel ended after so many `turnovers`, with `winner` right or wrong against `other`.
    pub(super) fn count(&mut self, duel: &Duel, other: Expert, right: bool, turnovers: f32) {
        let rate = RATE / (1.0 + turnovers);
        let class = duel.class;
        match (duel.winner, other) {
            (Expert::Light, Expert::Recent) => self.lightest.count(right, rate),
            (Expert::Recent, Expert::Light) => self.lightest.count(!right, rate),
            (Expert::Newest, Expert::Recent) => self.newest_to_recent.count(class, right, rate),
            (Expert::Recent, _) => self.newest_to_recent.count(class, !right, rate),
            (Expert::Newest, _) => self.newest_to_lightest.count(class, right, rate),
            (Expert::Light, _) => self.newest_to_lightest.count(class, !right, rate),
        }
    }

    /// The order to follow; `class` is that of the newest candidate, if there is one.
    pub(super) fn best(&self, class: Option<u8>) -> Expert {
        let (order, to_newest) = match self.lightest.value >= 0.0 {
            true => (Expert::Light, &self.newest_to_lightest),
            false => (Expert::Recent, &self.newest_to_recent),
        };
        if class.is_some_and(|class| to_newest.favours_newest(class)) {
            Expert::Newest
        } else {
            order
        }
    }
}
