//! What plain LRU would hold now, and what was won and lost against it.
//!
//! LRU holds the pages that were used last, as many as there are frames (its stack, Mattson et al.,
//! IBM Systems Journal 1970). Pages are counted by the time of their last use, cached or not, in
//! classes of a 64th of a turnover or less; so the age is known up to which LRU would hold them, and
//! it costs two counts a use. A page that is missed at a lower age is one that LRU would have had: a
//! *loss*. A page that is used at a greater age is one that LRU would have missed: a *gain*.

use super::record::Tick;

/// Classes of ages.
const CLASSES: usize = 1024;

/// Classes a turnover of a large cache at least; the logarithm.
const CLASSES_A_TURNOVER: u32 = 6;

/// The most ticks that a class has; the logarithm.
const TICKS_A_CLASS_MAX: u32 = 4;

/// Uses are neither gains nor losses within one part in so many of LRU's age: times of use are not
/// known exactly.
const UNSURE: u16 = 10;

/// The least share of the frames that is on trial.
const TRIAL_MIN: f64 = 0.2;

/// Gains beyond losses, as a share of the frames, for which all frames are on trial; the most that are
/// counted; and the most losses beyond gains.
const GAINS_FOR_ALL: f64 = 0.12;
const GAINS_MAX: f64 = 0.2;
const LOSSES_MAX: f64 = 0.01;

/// Pages by the time of their last use, and the balance of gains and losses.
#[derive(Clone)]
pub(super) struct Account {
    /// How many pages were last used in each class of ticks.
    used: Vec<u32>,
    ticks_a_class: u32,
    frames: usize,
    now: Tick,
    lru_age: u16,
    /// Gains less losses.
    balance: f64,
    /// Of 2²⁴ values of a frame's hash, those of frames on trial.
    on_trial: u32,
}

impl Account {
    pub(super) fn new(frames: usize, now: Tick) -> Account {
        let log = frames.max(1 << CLASSES_A_TURNOVER).ilog2() - CLASSES_A_TURNOVER;
        let mut account = Account {
            used: vec![0; CLASSES],
            ticks_a_class: log.min(TICKS_A_CLASS_MAX),
            frames,
            now,
            lru_age: 0,
            balance: 0.0,
            on_trial: 0,
        };
        account.lru_age = account.age_max();
        account.count(0.0);
        account
    }

    pub(super) fn memory_bytes() -> usize {
        CLASSES * size_of::<u32>()
    }

    /// Pages of this age are not told apart.
    fn age_max(&self) -> u16 {
        ((CLASSES - 1) << self.ticks_a_class) as u16
    }

    fn class(&self, tick: Tick) -> usize {
        usize::from(tick.0 >> self.ticks_a_class) % CLASSES
    }

    /// The age, in ticks, of the pages that LRU would give up now; a large one while it has room.
    pub(super) fn lru_age(&self) -> u16 {
        self.lru_age
    }

    /// A cached page, last used at `before`, was used at `at`.
    pub(super) fn count_hit(&mut self, before: Tick, at: Tick) {
        if at.since(before) > self.lru_age.saturating_add(self.lru_age / UNSURE) {
            self.count(1.0);
        }
        self.move_page(before, at);
    }

    /// A page that is not cached, last used at `before`, is used now.
    pub(super) fn count_miss(&mut self, before: Tick) {
        if self.now.since(before) < self.lru_age - self.lru_age / UNSURE {
            self.count(-1.0);
        }
        self.move_page(before, self.now);
    }

    fn count(&mut self, gains: f64) {
        let frames = self.frames as f64;
        self.balance = (self.balance + gains).clamp(-LOSSES_MAX * frames, GAINS_MAX * frames);
        let share = TRIAL_MIN + (1.0 - TRIAL_MIN) * self.balance / (GAINS_FOR_ALL * frames);
        self.on_trial = (share.clamp(TRIAL_MIN, 1.0) * (1 << 24) as f64) as u32;
    }

    fn move_page(&mut self, before: Tick, to: Tick) {
        if self.now.since(before) < self.age_max() {
            let class = self.class(before);
            self.used[class] = self.used[class].saturating_sub(1);
        }
        let class = self.class(to);
        self.used[class] += 1;
    }

    /// It is `now`, a tick after the last one that was told.
    pub(super) fn advance(&mut self, now: Tick) {
        let class = self.class(now);
        if class != self.class(self.now) {
            self.used[class] = 0;
            self.lru_age = self.age_of_lru(class);
        }
        self.now = now;
    }

    /// The age at which, from `class` backwards, there are as many pages as frames.
    fn age_of_lru(&self, class: usize) -> u16 {
        let mut left = self.frames;
        for age in 1..CLASSES {
            let pages = self.used[(class + CLASSES - age) % CLASSES] as usize;
            if pages >= left {
                let within = (left << self.ticks_a_class) / pages;
                return (((age - 1) << self.ticks_a_class) + within) as u16;
            }
            left -= pages;
        }
        self.age_max()
    }

    /// How much of the frames is on trial, in 2⁻²⁴.
    pub(super) fn share_on_trial(&self) -> u32 {
        self.on_trial
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The account of a cache of `frames` frames in which every request misses, after `requests`.
    /// Also the next tick.
    fn after(frames: usize, requests: impl Iterator<Item = usize>) -> (Account, Tick, Vec<Tick>) {
        let mut now = Tick(0x4000);
        let mut used = vec![Tick(0); 1_000];
        let mut account = Account::new(frames, now);
        for page in requests {
            account.count_miss(used[page]);
            used[page] = now;
            now = Tick(now.0.wrapping_add(1));
            account.advance(now);
        }
        (account, now, used)
    }

    #[test]
    fn lru_holds_the_pages_that_were_used_last() {
        // A loop of 200 pages: LRU holds the last 64 of them. Of pages that are each used twice in a
        // row, it holds the last 64 too, which takes it twice as long.
        let (account, ..) = after(64, (0..1_000).map(|at| at % 200));
        assert_eq!(account.lru_age(), 64);
        let (account, ..) = after(64, (0..1_000).map(|at| at / 2 % 200));
        assert!((127..=129).contains(&account.lru_age()), "{}", account.lru_age());
    }

    #[test]
    fn the_trial_grows_with_gains_and_shrinks_with_losses() {
        let (mut account, now, used) = after(64, (0..1_000).map(|at| at % 200));
        let at_first = account.share_on_trial();
        // The last request was for page 199: LRU has page 150, and has given up page 100.
        (0..4).for_each(|_| account.count_hit(used[100], now));
        let grown = account.share_on_trial();
        assert!(grown > at_first, "{grown}, at first {at_first}");
        account.count_hit(used[150], now);
        account.count_miss(used[100]);
        assert_eq!(account.share_on_trial(), grown);
        account.count_miss(used[150]);
        assert!(account.share_on_trial() < grown);
        (0..64).for_each(|_| account.count_hit(used[100], now));
        assert_eq!(account.share_on_trial(), 1 << 24);
    }
}
