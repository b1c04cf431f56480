//! Adaptive LRFU: gives up the page whose past accesses weigh least, by a history of *every* page of
//! the address space that ages faster while it forecasts badly. The engine's default.
//!
//! LRFU (Lee et al., IEEE Transactions on Computers 2001) weighs an access `2^(−age / half-life)` and
//! gives up the page of least total weight: LFU with a long half-life, LRU with a short one. Here it
//! costs little, and the half-life need not suit every program:
//!
//! * **Nothing happens on a hit.** A weight grows by the touches found when its frame is looked at.
//!   Decisions are between pages touched about once in four turnovers of the cache (a turnover: as
//!   many victims as there are frames), so that touches are capped hardly ever matters.
//! * **No heap.** A weight is kept as its logarithm plus the time on a clock that also counts in
//!   half-lives (the *key*). Passing time changes no key and no order, so frames wait in one list a
//!   quarter of an octave, and the lowest list that is not empty has the victim.
//! * **History outlives the cache** in two bytes a page: a page read again comes back with its
//!   weight, and the pages of a scan, seen once, never outweigh the hot set.
//! * **New pages get a window** (W-TinyLFU, Einziger et al., ACM Transactions on Storage 2017) of an
//!   eighth of the frames, where their weight does not count yet. A job that misses page after page
//!   finds the first ones again when it has the last: with a window of a 32nd, a hundred TPC-C jobs
//!   at once took each other's pages away and missed half as often again.
//! * **The half-life adapts.** A weight implies how likely its page is to be touched in the next
//!   turnover. A hand that looks at one frame a victim compares these forecasts with what happened.
//!   While far fewer frames are touched than forecast, the clock jumps: the hot set has shifted.
//!   While hardly any page missed has been seen lately, it stands still: that is a scan, and what
//!   was hot before will be after.
//!
//! Misses as a fraction of exact LRU's in the second half of each stream, and misses a request,
//! as the example `miss_ratio` of `ebbtide-trace` prints them (Zipf 0.99, 3% of the pages cached):
//!
//! | stream | adaptive LRFU | S3-FIFO | CLOCK | hottest pages pinned |
//! |---|---|---|---|---|
//! | stationary, 1,000,000 pages | .790 (.270) | .805 (.275) | .973 (.332) | .754 (.257) |
//! | 64 elements a page, of consecutive rank | .789 (.221) | .804 (.225) | .974 (.272) | .753 (.210) |
//! | 64 elements a page, scattered | .850 (.454) | .852 (.455) | .984 (.526) | .815 (.436) |
//! | all ranks anew every six turnovers | .971 (.340) | 1.007 (.353) | .982 (.344) | |
//! | 2% of the ranks anew every half turnover | .875 (.301) | .864 (.297) | .975 (.335) | |
//! | every fourth request from a scan | .851 (.453) | .849 (.452) | .985 (.524) | .817 (.435) |
//! | a scan of 33 turnovers now and then | .911 (.536) | .898 (.529) | .989 (.582) | .874 (.514) |
//! | 30 frames, 1,000 pages | .789 (.498) | .800 (.505) | .975 (.616) | .752 (.475) |
//!
//! In a prototype that did not adapt, a half-life of 2, 8 or 32 turnovers gave .819, .778 or .772 on
//! the first stream and .967, 1.050 or 1.157 on the fourth.

use serde::{Deserialize, Serialize};

use super::linked_lists::LinkedLists;
use super::{Frames, Geometry, Replacement, TOUCHES_MAX};
use crate::addr::{FrameId, PageId};
use crate::archive::Archive;

/// Clock ticks in the time in which a weight halves; also key units in a factor of two.
pub(super) const TICKS_PER_HALF_LIFE: usize = 16;

/// Half-life of a weight in turnovers of the cache (as many victims as there are frames), while
/// forecasts are good. Shorter forgets the pages at the margin; longer follows a drift too slowly.
pub(super) const HALF_LIFE_TURNOVERS: usize = 8;

/// Forecasts judged together: an eighth of the frames', but enough to tell failure from chance.
const ROUND_MIN: usize = 64;

/// Forecasts fail when fewer than this many quarters of the touches forecast come true.
const QUARTERS_EXPECTED: u64 = 3;

/// Clock ticks at once for a round of forecasts that failed: up to four half-lives a turnover.
const TICKS_A_FAILURE: usize = 8;

/// A miss of a page of at least this level, two octaves below one access now, is a *return*.
const LEVEL_OF_RETURN: i32 = -2 * TICKS_PER_HALF_LIFE as i32;

/// With less than one return in this many misses, what goes on is a scan.
const MISSES_A_RETURN: u64 = 8;

/// The window of new pages, as a fraction of a set.
const WINDOW_FRACTION: usize = 8;

/// Levels (keys relative to the clock) run from `−LEVELS / 2` to `LEVELS / 2 − 1`; what is lighter
/// counts as lightest, and nothing is heavier: from level 114 on, touches add nothing.
const LEVELS: usize = 256;

/// Key units that share a list.
const UNITS_PER_BUCKET: u16 = 4;

/// Lists of a set; those in use fit in the bits of one word.
const BUCKETS: usize = LEVELS / UNITS_PER_BUCKET as usize;

/// A frame in one of so many lists above the lowest one weighs hardly more than the victim: two octaves. Of the
/// pages of a value that are read together, one counts up to three touches and another one.
const BUCKETS_NEAR: usize = 8;

/// Frames that one search finds touched before it takes the next one whatever its touches.
const LOOKS_MAX: usize = 64;

/// A history older than this many ticks is made this old, long before the clock's 16 bits wrap.
pub(super) const AGE_MAX: u16 = 0x4000;

/// The logarithm of a page's weight in units of 1/16 octave, plus the tick at which it was formed.
/// Both grow alike with time, so keys of different ages compare; modulo 2¹⁶.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(super) struct Key(pub(super) u16);

impl Key {
    /// The logarithm of the weight at tick `now`.
    pub(super) fn level(self, now: u16) -> i32 {
        let ahead = self.0.wrapping_sub(now);
        if usize::from(ahead) < LEVELS / 2 {
            i32::from(ahead)
        } else {
            -i32::from(now.wrapping_sub(self.0))
        }
    }

    pub(super) fn of_level(level: i32, now: u16) -> Key {
        Key(now.wrapping_add(level as u16))
    }

    /// Whether its level at tick `now` is below those that history can have.
    #[inline]
    pub(super) fn is_older_than_history(self, now: u16) -> bool {
        // From the oldest level up, those of history are the first ones.
        self.0.wrapping_sub(now).wrapping_add(AGE_MAX) >= AGE_MAX + LEVELS as u16 / 2
    }

    /// The same, or a key that is as old as history can be at tick `now`.
    pub(super) fn not_older_than_history(self, now: u16) -> Key {
        if self.is_older_than_history(now) { Key(now.wrapping_sub(AGE_MAX)) } else { self }
    }

    /// The list among those of a set that frames of this key wait in at tick `now`.
    fn bucket(self, now: u16) -> usize {
        let level = self.level(now).max(lowest_level(now));
        usize::from(Key::of_level(level, now).0 / UNITS_PER_BUCKET) % BUCKETS
    }
}

/// The lowest level with a list of its own: half the levels down, to the start of a list.
fn lowest_level(now: u16) -> i32 {
    -(LEVELS as i32 / 2) + i32::from(UNITS_PER_BUCKET) - i32::from(now % UNITS_PER_BUCKET)
}

/// Loads the histories of `pages`, one beside the other.
pub(super) fn recall(past: &[Key], pages: &[PageId]) {
    let loaded = pages.iter().fold(0, |all, page| all ^ past[page.index()].0);
    std::hint::black_box(loaded);
}

/// The list of the lowest level.
fn lowest_bucket(now: u16) -> usize {
    Key::of_level(lowest_level(now), now).bucket(now)
}

/// What the policy knows of a frame.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Known {
    page: u32,
    /// The page's, as `key_of` has it.
    key: Key,
    place: Place,
}

/// Where a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
enum Place {
    #[default]
    Unknown,
    /// Among the set's newest.
    Window,
    /// In the list of its page's key.
    Ranked,
    /// The same, and looked at exactly a turnover ago by the hand, and not since.
    Forecast,
}

/// The frames by weight, the weights of all pages, and the clock.
#[derive(Serialize, Deserialize)]
pub(super) struct AdaptiveLrfu {
    geometry: Geometry,
    /// `BUCKETS` lists a set by weight, then a list a set of its newest frames, oldest in front.
    lists: LinkedLists<Known>,
    /// By page, cached or not. Of a cached one it is only written: a copy lies beside its links.
    key_of: Vec<Key>,
    /// For each set, the bit of every list by weight that may hold a frame.
    occupied: Vec<u64>,
    window_lengths: Vec<usize>,
    window_target: usize,
    #[serde(skip, default = "Weights::new")]
    weights: Weights,
    now: u16,
    /// Victims since the last tick, and after how many there is one.
    since_tick: usize,
    victims_per_tick: usize,
    hand: usize,
    forecasts: Forecasts,
    verdict: Verdict,
    /// The next page whose history is checked for age, and how many are at each insertion.
    ageing_page: usize,
    ageing_stride: usize,
}

impl AdaptiveLrfu {
    pub(super) fn new(geometry: Geometry, pages: u64) -> AdaptiveLrfu {
        let frames = geometry.frames();
        assert!(pages <= 1 << 32, "{pages} pages cannot be numbered");
        let pages = pages as usize;
        AdaptiveLrfu {
            geometry,
            lists: LinkedLists::new(frames, geometry.sets * (BUCKETS + 1)),
            key_of: vec![Key(0); pages],
            occupied: vec![0; geometry.sets],
            window_lengths: vec![0; geometry.sets],
            window_target: (geometry.ways / WINDOW_FRACTION).max(1),
            weights: Weights::new(),
            now: AGE_MAX,
            since_tick: 0,
            victims_per_tick: (frames * HALF_LIFE_TURNOVERS / TICKS_PER_HALF_LIFE).max(1),
            hand: 0,
            forecasts: Forecasts::new((frames / 8).max(ROUND_MIN)),
            verdict: Verdict::Good,
            ageing_page: 0,
            ageing_stride: pages / (512 * frames) + 1,
        }
    }

    pub(super) fn memory_bytes(geometry: Geometry, pages: u64) -> usize {
        size_of::<AdaptiveLrfu>()
            + LinkedLists::<Known>::memory_bytes(geometry.frames(), geometry.sets * (BUCKETS + 1))
            + geometry.sets * (size_of::<u64>() + size_of::<usize>())
            + pages as usize * size_of::<Key>()
    }

    fn window_of(&self, set: usize) -> usize {
        self.geometry.sets * BUCKETS + set
    }

    /// Adds `accesses` accesses now to the weight of the page in `frame`.
    fn weigh(&mut self, frame: FrameId, accesses: u8) {
        let known = self.lists.value_mut(frame);
        let level = self.weights.add(known.key.level(self.now), accesses);
        known.key = Key::of_level(level, self.now);
        self.key_of[known.page as usize] = known.key;
    }

    /// Puts `frame`, which is in no list, behind those of the same weight.
    fn rank(&mut self, frame: FrameId) {
        let set = self.geometry.set_of(frame);
        let bucket = self.lists.value(frame).key.bucket(self.now);
        self.lists.push_back(set * BUCKETS + bucket, frame);
        self.occupied[set] |= 1 << bucket;
        self.lists.value_mut(frame).place = Place::Ranked;
    }

    /// Counts the touches of a ranked frame since it was last looked at; whether there were any.
    fn look(&mut self, frame: FrameId, frames: &mut dyn Frames) -> bool {
        let touches = frames.take_touches(frame);
        if touches > 0 {
            self.weigh(frame, touches);
            self.lists.remove(frame);
            self.rank(frame);
        }
        touches > 0
    }

    /// A frame has been given up: moves the hand and the clock.
    fn advance(&mut self, frames: &mut dyn Frames) {
        self.check_forecast(FrameId(self.hand as u32), frames);
        self.hand = (self.hand + 1) % self.geometry.frames();

        if let Some(verdict) = self.forecasts.judge() {
            self.verdict = verdict;
            if verdict == Verdict::Fail {
                for _ in 0..TICKS_A_FAILURE {
                    self.tick();
                }
            }
        }
        if self.verdict != Verdict::Scan {
            self.since_tick += 1;
            if self.since_tick >= self.victims_per_tick {
                self.since_tick = 0;
                self.tick();
            }
        }
    }

    /// Compares what was forecast for `frame` a turnover ago with its touches since.
    fn check_forecast(&mut self, frame: FrameId, frames: &mut dyn Frames) {
        let Known { key, place, .. } = *self.lists.value(frame);
        if matches!(place, Place::Unknown | Place::Window) {
            return;
        }
        let level = key.level(self.now);
        let touched = self.look(frame, frames);
        if place == Place::Forecast {
            self.forecasts.count(level, touched);
        }
        let known = self.lists.value_mut(frame);
        known.place = Place::Forecast;
        known.key = known.key.not_older_than_history(self.now);
    }

    fn tick(&mut self) {
        self.now = self.now.wrapping_add(1);
        if self.now.is_multiple_of(UNITS_PER_BUCKET) {
            // The lowest list becomes the highest: what it holds joins the next one up.
            let lowest = lowest_bucket(self.now);
            let below = (lowest + BUCKETS - 1) % BUCKETS;
            for set in 0..self.geometry.sets {
                if self.occupied[set] & (1 << below) != 0 {
                    self.lists.prepend(set * BUCKETS + below, set * BUCKETS + lowest);
                    self.occupied[set] = (self.occupied[set] & !(1 << below)) | (1 << lowest);
                }
            }
        }
    }

    /// Keeps every history younger than the time in which the clock wraps.
    fn limit_ages(&mut self) {
        for _ in 0..self.ageing_stride {
            let key = &mut self.key_of[self.ageing_page];
            *key = key.not_older_than_history(self.now);
            self.ageing_page = (self.ageing_page + 1) % self.key_of.len();
        }
    }

    /// The lightest of the ranked frames that may be given up.
    fn lightest(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        for _ in 0..LOOKS_MAX {
            let (frame, bucket) = self.lightest_unpinned(set, frames)?;
            if self.look(frame, frames) {
                continue;
            }
            if self.lists.value(frame).key.bucket(self.now) == bucket {
                return Some(frame);
            }
            // Its weight grew when it was looked at between.
            self.lists.remove(frame);
            self.rank(frame);
        }
        self.lightest_unpinned(set, frames).map(|(frame, _)| frame)
    }

    /// The first frame of the lowest list that may be given up, and the list.
    fn lightest_unpinned(&mut self, set: usize, frames: &dyn Frames) -> Option<(FrameId, usize)> {
        let lowest = lowest_bucket(self.now);
        let mut left = self.occupied[set].rotate_right(lowest as u32);
        while left != 0 {
            let bucket = (lowest + left.trailing_zeros() as usize) % BUCKETS;
            let list = set * BUCKETS + bucket;
            if let Some(frame) = self.lists.iter(list).find(|&frame| !frames.is_pinned(frame)) {
                return Some((frame, bucket));
            }
            if self.lists.front(list).is_none() {
                self.occupied[set] &= !(1 << bucket);
            }
            left &= left - 1;
        }
        None
    }

    fn oldest_of_window(&self, set: usize, frames: &dyn Frames) -> Option<FrameId> {
        self.lists.iter(self.window_of(set)).find(|&frame| !frames.is_pinned(frame))
    }
}

impl Replacement for AdaptiveLrfu {
    fn insert(&mut self, frame: FrameId, page: PageId) {
        assert!(self.lists.value(frame).place == Place::Unknown, "{frame:?} is known already");
        self.limit_ages();
        let key = self.key_of[page.index()];
        self.forecasts.count_miss(key.level(self.now));
        *self.lists.value_mut(frame) = Known { page: page.0 as u32, key, place: Place::Window };
        self.weigh(frame, 1);

        let set = self.geometry.set_of(frame);
        let window = self.window_of(set);
        self.lists.push_back(window, frame);
        self.window_lengths[set] += 1;
        if self.window_lengths[set] > self.window_target {
            let oldest = self.lists.front(window).expect("the window holds more than its target");
            self.remove(oldest);
            self.rank(oldest);
        }
    }

    fn recall(&self, pages: &[PageId]) {
        recall(&self.key_of, pages);
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let victim = self.lightest(set, frames).or_else(|| self.oldest_of_window(set, frames))?;
        self.remove(victim);
        self.advance(frames);
        Some(victim)
    }

    fn leave_early(&mut self, frame: FrameId, frames: &mut dyn Frames) -> bool {
        let Known { key, place, .. } = *self.lists.value(frame);
        let lowest = lowest_bucket(self.now);
        let above = |bucket: usize| (bucket + BUCKETS - lowest) % BUCKETS;
        let occupied = self.occupied[self.geometry.set_of(frame)].rotate_right(lowest as u32);
        let least = occupied.trailing_zeros() as usize;
        let is_near = above(key.bucket(self.now)) <= least + BUCKETS_NEAR;
        if !matches!(place, Place::Ranked | Place::Forecast)
            || !is_near
            || frames.is_pinned(frame)
            || self.look(frame, frames)
        {
            return false;
        }
        self.remove(frame);
        self.advance(frames);
        true
    }

    fn remove(&mut self, frame: FrameId) {
        self.lists.remove(frame);
        let known = self.lists.value_mut(frame);
        if known.place == Place::Window {
            self.window_lengths[self.geometry.set_of(frame)] -= 1;
        }
        known.place = Place::Unknown;
    }

    fn state(&mut self, archive: &mut Archive<'_>) {
        archive.part(self);
    }
}

/// Sums of weights, all as logarithms in key units.
pub(super) struct Weights {
    /// What the greater of two weights gains, by how much greater it is.
    gain: [u8; LEVELS],
    /// The weight of this many accesses now.
    accesses: [i32; TOUCHES_MAX as usize + 1],
}

impl Weights {
    pub(super) fn new() -> Weights {
        let units = |octaves: f64| (octaves * TICKS_PER_HALF_LIFE as f64).round();
        Weights {
            gain: std::array::from_fn(|difference| {
                let lesser = (-(difference as f64) / TICKS_PER_HALF_LIFE as f64).exp2();
                units((1.0 + lesser).log2()) as u8
            }),
            accesses: std::array::from_fn(|count| units((count.max(1) as f64).log2()) as i32),
        }
    }

    pub(super) fn add(&self, level: i32, accesses: u8) -> i32 {
        let added = self.accesses[usize::from(accesses.min(TOUCHES_MAX))];
        let difference = level.abs_diff(added) as usize;
        level.max(added) + i32::from(self.gain.get(difference).copied().unwrap_or(0))
    }
}

/// What a round of forecasts shows.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Verdict {
    /// Weights foretell touches.
    Good,
    /// Far fewer touches than foretold, and the pages missed are in demand: the hot set shifts.
    Fail,
    /// Hardly a page that is missed was missed or touched lately: nothing to learn from.
    Scan,
}

/// Whether weights foretell touches: a tally of forecasts, judged a round at a time.
#[derive(Serialize, Deserialize)]
struct Forecasts {
    /// Chance in 2¹⁶ that a page of each level is touched in one turnover.
    #[serde(skip, default = "chances")]
    chance: [u32; LEVELS],
    round: u64,
    tally: Tally,
}

/// The round so far. Touches are in 2⁻¹⁶.
#[derive(Default, Serialize, Deserialize)]
struct Tally {
    forecasts: u64,
    expected: u64,
    touched: u64,
    misses: u64,
    returns: u64,
}

fn chances() -> [u32; LEVELS] {
    std::array::from_fn(|index| {
        let octaves = (index as f64 - (LEVELS / 2) as f64) / TICKS_PER_HALF_LIFE as f64;
        // Accesses at a constant rate add up to a weight of rate × half-life / ln 2.
        let rate = octaves.exp2() * std::f64::consts::LN_2 / HALF_LIFE_TURNOVERS as f64;
        ((1.0 - (-rate).exp()) * 65536.0) as u32
    })
}

impl Forecasts {
    fn new(round: usize) -> Forecasts {
        Forecasts { chance: chances(), round: round as u64, tally: Tally::default() }
    }

    /// A page that had `level` before was missed.
    fn count_miss(&mut self, level: i32) {
        self.tally.misses += 1;
        self.tally.returns += u64::from(level >= LEVEL_OF_RETURN);
    }

    /// A cached page of `level` was touched, or was not, in a turnover.
    fn count(&mut self, level: i32, touched: bool) {
        let middle = LEVELS as i32 / 2;
        let index = level.clamp(-middle, middle - 1) + middle;
        self.tally.forecasts += 1;
        self.tally.expected += u64::from(self.chance[index as usize]);
        self.tally.touched += u64::from(touched) << 16;
    }

    /// The verdict on the round, if it is complete; the next one begins.
    fn judge(&mut self) -> Option<Verdict> {
        if self.tally.forecasts < self.round {
            return None;
        }
        let Tally { expected, touched, misses, returns, .. } = std::mem::take(&mut self.tally);
        Some(if returns * MISSES_A_RETURN < misses {
            Verdict::Scan
        } else if touched * 4 < expected * QUARTERS_EXPECTED {
            Verdict::Fail
        } else {
            Verdict::Good
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_older_than_history_exactly_where_its_level_says_so() {
        for now in [0, 1, AGE_MAX, u16::MAX] {
            for key in (0..=u16::MAX).map(Key) {
                let is_old = key.level(now) < -i32::from(AGE_MAX);
                assert_eq!(key.is_older_than_history(now), is_old, "{key:?} at {now}");
            }
        }
    }
}
