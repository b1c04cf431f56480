//! Dueling: three orders each name a victim, and the order whose victims are wanted back last decides,
//! for as many frames as it has won against LRU.
//!
//! No order of pages is best for every program. The least recently used page is right when recent use
//! foretells the next; the least frequently used page is right under a steady skew; and in a loop that
//! does not fit, the newest page is right, because the loop comes back to it last. This policy keeps
//! all three, measures which one is right, and measures what that wins or loses against plain LRU.
//!
//! **Three candidates.** For each victim there are
//!
//! * the *least recent*: the frame whose last use is longest ago;
//! * the *lightest*: the page that [adaptive LRFU](super::adaptive_lrfu) would give up, by its history
//!   of every page, among those that are not new;
//! * the *newest*: the oldest of the last insertions, as many as a hundredth of the frames or as
//!   victims are taken at a time, if it was not touched since. Giving it up keeps what is in the cache,
//!   as LIRS does with pages whose reuse distance is long (Jiang and Zhang, SIGMETRICS 2002, section
//!   3.3) and W-TinyLFU with pages it does not admit (Einziger et al., ACM Transactions on Storage
//!   2017, section 4).
//!
//! **A duel** is an eviction whose candidates differ. The page that left and the two that stayed are
//! written down. Belady's rule (IBM Systems Journal 1966) says who should have left: the page that is
//! used last. If the page that left is missed before a rival is used, the rival was the better victim;
//! if the rival was used by then, it was right to stay. Either answer is seen without trying the other
//! choice, because a miss is always seen and a rival's touches can be collected when it matters. The
//! idea to blame an eviction for the page's return comes from LeCaR (Vietri et al., HotStorage 2018)
//! and CACHEUS (Rodriguez et al., FAST 2021).
//!
//! **Scores.** Each pair of orders has a score between −1 and 1: an average of its duels' outcomes in
//! which old ones fade. A duel that takes long to end counts less, since a frame that waits long for
//! one hit is worth little (Beckmann et al., "LHD", NSDI 2018, section 3). The newest page
//! competes in a class of its own by its weight, so that pages of a scan are told from pages that
//! come back. A class with few duels so far uses the score of all classes. The least recent goes
//! while nothing is known.
//!
//! **The account against LRU.** Scores compare pages two by two, at one moment. Where two orders are
//! about as good, they waver, and each change of order costs misses. So the policy also counts what
//! LRU would do (`account`): which misses LRU would have had in its cache, and which hits it would have
//! missed. Only a fifth of the frames, by a hash, are on *trial*: there the best order decides. In the
//! *rest* the least recent page goes. The trial grows with what it wins until it holds all frames, and
//! shrinks with what it loses. Set dueling (Qureshi et al., ISCA 2007) also lets a share of a cache
//! show what a policy is worth.
//!
//! **Looking around.** Hits are only known as touches that someone collects. For each victim, and for
//! each insertion before the first one, a hand looks at 8 to 64 frames: each frame eight times in
//! the time for which LRU keeps a page that is not used. So the times of last use are known to an eighth
//! of that time, and there is no list to move frames in. A pool keeps the 16 frames that are to go
//! first in each order, as in Redis. The hand leaves gaps of the golden section between groups of
//! neighbours, because neighbours hold pages of the same age after a cache has filled.
//!
//! **Memory** is four bytes a page of the address space (the weight and the time of the last use of
//! pages that are not cached), 16 a frame, and 32 a duel: one for two frames, at most 8,192. Time is
//! counted in insertions: a tick is a 1,024th of a turnover (as many insertions as there are frames),
//! at least one insertion.
//!
//! **Shards.** An instance for each part of the frames, with pages given to parts by a hash, needs no
//! communication. Eight parts of 2,000 frames cost less than 2% more misses (tested).
//!
//! **Limits.** A decision costs several times as much as one of adaptive LRFU, most of it for looking
//! at frames. A scan many times the cache that comes first is met as LRU meets it.

mod account;
mod duels;
mod looking;
mod newest;
mod pool;
mod record;

use super::adaptive_lrfu::{
    AGE_MAX as KEY_AGE_MAX, Forecasts, HALF_LIFE_TURNOVERS, Key, ROUND_MIN, TICKS_A_FAILURE,
    TICKS_PER_HALF_LIFE, Verdict, Weights,
};
use super::{Frames, Geometry, Replacement};
use crate::addr::{FrameId, PageId};
use account::Account;
use duels::{Candidate, Duel, Duels, Expert, Scores, class_of};
use looking::stride;
use newest::Newest;
use pool::{Entry, POOL_FRAMES, Pool};
use record::{AGE_MAX, Known, Packed, Past, Tick};

/// Ticks in a turnover of the cache, or up to twice as many; in one of fewer frames, a tick is an
/// insertion.
const TICKS_A_TURNOVER: u32 = 1024;

/// Frames found touched in a pool before the next one goes whatever its touches.
const FOUND_TOUCHED_MAX: usize = 64;

/// Pages in one frame of so many are new: their weight does not count yet.
const WINDOW_SHARE: u16 = 8;

/// Turnovers after which a duel ends: in every second place of the table as many as a loop eight times
/// as long as the cache needs to come round.
const PATIENCE: [u16; 2] = [2, 8];

/// Returned pages whose duels wait for the next victim.
const RETURNS_MAX: usize = 64;

/// The frames of a set that are to go first.
#[derive(Clone)]
struct Pools {
    /// Of those not on trial, by recency.
    rest: Pool,
    /// Of those on trial, by recency and by weight.
    recent: Pool,
    light: Pool,
}

/// An order of some of the frames.
#[derive(Clone, Copy)]
enum Order {
    Rest,
    Recent,
    Light,
}

impl Pools {
    fn new() -> Pools {
        Pools { rest: Pool::new(), recent: Pool::new(), light: Pool::new() }
    }

    fn of(&mut self, order: Order) -> &mut Pool {
        match order {
            Order::Rest => &mut self.rest,
            Order::Recent => &mut self.recent,
            Order::Light => &mut self.light,
        }
    }

    fn clear(&mut self) {
        self.rest.clear();
        self.recent.clear();
        self.light.clear();
    }
}

/// The frames, three orders of them, the duels between these, and the account of them against LRU.
#[derive(Clone)]
pub(super) struct Dueling {
    geometry: Geometry,
    known: Vec<Packed>,
    past: Vec<Past>,
    /// By set; one for all where a whole set is looked at for each victim.
    pools: Vec<Pools>,
    /// The frame of each set that is looked at next, and how many groups of neighbours lie between
    /// those looked at one after the other.
    hands: Vec<u32>,
    stride: usize,
    /// Victims whose frames were looked for before their place is filled.
    ahead: u32,
    newest: Newest,
    duels: Duels,
    /// Places of duels whose page was inserted since the last victim.
    returns: Vec<usize>,
    scores: Scores,
    account: Account,
    /// The part of a victim, in 2⁻²⁴, that the frames on trial owe.
    trial_owes: u32,
    weights: Weights,
    forecasts: Forecasts,
    verdict: Verdict,
    forecast_hand: u32,
    /// The clock of weights, and insertions since it ticked.
    key_now: u16,
    since_key_tick: usize,
    insertions_a_key_tick: usize,
    /// The clock of uses, and insertions since it ticked.
    now: Tick,
    since_tick: u32,
    insertions_a_tick: u32,
    ticks_a_turnover: u16,
    /// The next page whose history is checked for age, and how many are at each insertion.
    ageing_page: usize,
    ageing_stride: usize,
}

impl Dueling {
    /// # Panics
    /// If there are more than 2³² pages.
    pub(super) fn new(geometry: Geometry, pages: u64) -> Dueling {
        let frames = geometry.frames();
        assert!(pages <= 1 << 32, "{pages} pages cannot be numbered");
        let pages = pages as usize;
        let insertions_a_tick = (frames as u32 / TICKS_A_TURNOVER).max(1);
        let now = Tick(AGE_MAX);
        Dueling {
            geometry,
            known: vec![Packed::default(); frames],
            past: vec![Past::default(); pages],
            pools: vec![Pools::new(); Dueling::pools(geometry)],
            hands: vec![0; geometry.sets],
            stride: stride(geometry.ways),
            ahead: 0,
            newest: Newest::new(geometry),
            duels: Duels::new(frames),
            returns: Vec::with_capacity(RETURNS_MAX),
            scores: Scores::new(),
            account: Account::new(frames, now),
            trial_owes: 0,
            weights: Weights::new(),
            forecasts: Forecasts::new((frames / 8).max(ROUND_MIN)),
            verdict: Verdict::Good,
            forecast_hand: 0,
            key_now: KEY_AGE_MAX,
            since_key_tick: 0,
            insertions_a_key_tick: (frames * HALF_LIFE_TURNOVERS / TICKS_PER_HALF_LIFE).max(1),
            now,
            since_tick: 0,
            insertions_a_tick,
            ticks_a_turnover: (frames as u32 / insertions_a_tick) as u16,
            ageing_page: 0,
            ageing_stride: pages / (32 * frames) + 1,
        }
    }

    pub(super) fn memory_bytes(geometry: Geometry, pages: u64) -> usize {
        size_of::<Dueling>()
            + geometry.frames() * size_of::<Packed>()
            + pages as usize * size_of::<Past>()
            + Dueling::pools(geometry) * size_of::<Pools>()
            + geometry.sets * size_of::<u32>()
            + Newest::memory_bytes(geometry)
            + Duels::memory_bytes(geometry.frames())
            + Account::memory_bytes()
            + RETURNS_MAX * size_of::<usize>()
    }

    fn pools(geometry: Geometry) -> usize {
        if is_looked_at_whole(geometry) { 1 } else { geometry.sets }
    }

    fn pools_of(&mut self, set: usize) -> &mut Pools {
        let pools = if is_looked_at_whole(self.geometry) { 0 } else { set };
        &mut self.pools[pools]
    }

    #[inline]
    fn known(&self, frame: FrameId) -> Known {
        self.known[frame.index()].get()
    }

    /// Whether `frame` is one of those for which the best order decides.
    #[inline]
    fn is_on_trial(&self, frame: FrameId) -> bool {
        // Multiplicative hashing (Knuth, The Art of Computer Programming 3, section 6.4).
        frame.0.wrapping_mul(0x9e37_79b9) >> 8 < self.account.share_on_trial()
    }

    /// Whether the page that was inserted then is among the newest eighth.
    fn is_in_window(&self, inserted: Tick) -> bool {
        self.now.since(inserted) < (self.ticks_a_turnover / WINDOW_SHARE).max(1)
    }

    /// The first to go by `order` that was not touched since it was looked at.
    fn candidate(&mut self, order: Order, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        for found in 1..=FOUND_TOUCHED_MAX {
            let Entry { frame, key, used } = self.pools_of(set).of(order).first()?;
            let known = self.known(frame);
            let is_same = known.is_known && known.key == key && known.used == used;
            let belongs = self.is_on_trial(frame) != matches!(order, Order::Rest);
            if is_same
                && belongs
                && !frames.is_pinned(frame)
                && (!self.look(frame, frames) || found == FOUND_TOUCHED_MAX)
            {
                return Some(frame);
            }
            self.pools_of(set).of(order).drop_first();
        }
        None
    }

    /// The least recent of all frames of `set` that may go, for when pools are empty.
    fn search(&self, set: usize, frames: &dyn Frames) -> Option<FrameId> {
        let first = set * self.geometry.ways;
        let all = (first..first + self.geometry.ways).map(|frame| FrameId(frame as u32));
        all.filter(|frame| self.known(*frame).is_known && !frames.is_pinned(*frame))
            .max_by_key(|frame| self.now.since(self.known(*frame).used))
    }

    /// The oldest of the newest frames that is on trial, was not touched and may go.
    fn newest(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        while let Some(frame) = self.newest.oldest(set) {
            let Known { is_known, is_touched, .. } = self.known(frame);
            let may_go = is_known && !is_touched && !frames.is_pinned(frame);
            if may_go && self.is_on_trial(frame) && !self.look(frame, frames) {
                return Some(frame);
            }
            self.newest.drop_oldest(set);
        }
        None
    }

    /// The victim: among the frames on trial by the order that duels favour, among the others the least
    /// recent. Either way it is a duel with the other candidates.
    fn choose(&mut self, on_trial: bool, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let orders = match on_trial {
            true => [Order::Recent, Order::Rest],
            false => [Order::Rest, Order::Recent],
        };
        let recent = match self.candidate(orders[0], set, frames) {
            Some(frame) => frame,
            None => match self.candidate(orders[1], set, frames) {
                Some(frame) => frame,
                None => self.search(set, frames)?,
            },
        };
        let light = self.candidate(Order::Light, set, frames).unwrap_or(recent);
        let newest = self.newest(set, frames);
        let class = newest.map(|frame| class_of(self.known(frame).key.level(self.key_now)));
        let winner =
            if self.is_on_trial(recent) { self.scores.best(class) } else { Expert::Recent };
        let named = [Some(recent), Some(light), newest];
        let victim = named[winner as usize]?;
        let candidate = |frame: FrameId| Candidate { frame, page: self.known(frame).page };
        let named = named.map(|frame| frame.map(candidate));
        self.begin(winner, class.unwrap_or(0), named, frames);
        Some(victim)
    }

    /// Writes down that the candidate of `winner` leaves and the others stay, unless an earlier duel is
    /// still waited for in its place.
    fn begin(
        &mut self,
        winner: Expert,
        class: u8,
        named: [Option<Candidate>; 3],
        frames: &mut dyn Frames,
    ) {
        let Some(victim) = named[winner as usize] else { return };
        let Some(place) = self.duels.place_of(victim.page) else { return };
        let rivals =
            winner.others().map(|other| named[other as usize].filter(|rival| *rival != victim));
        if rivals == [None, None] {
            return;
        }
        if let Some(earlier) = self.duels.get(place) {
            let patience = PATIENCE[place % PATIENCE.len()] * self.ticks_a_turnover;
            if self.now.since(earlier.at) <= patience {
                return;
            }
            self.end(place, false, frames);
        }
        self.duels.put(place, Duel { page: victim.page, at: self.now, winner, class, rivals });
    }

    /// Ends the duel in `place`: the page that left has returned, or is not waited for any longer.
    fn end(&mut self, place: usize, returned: bool, frames: &mut dyn Frames) {
        let Some(duel) = self.duels.take(place) else { return };
        let ticks = self.now.since(duel.at);
        let turnovers = f32::from(ticks) / f32::from(self.ticks_a_turnover);
        for (rival, other) in duel.rivals.into_iter().zip(duel.winner.others()) {
            let Some(Candidate { frame, page }) = rival else { continue };
            let Known { is_known, page: in_frame, .. } = self.known(frame);
            let last_use = if is_known && in_frame == page {
                self.look(frame, frames);
                self.known(frame).used
            } else {
                self.past[page as usize].used
            };
            let used = self.now.since(last_use) < ticks;
            if returned || used {
                self.scores.count(&duel, other, used, turnovers);
            }
        }
    }

    /// Compares what was forecast for the next frame a turnover ago with its touches since.
    fn check_forecast(&mut self, frames: &mut dyn Frames) {
        let frame = FrameId(self.forecast_hand);
        let next = self.forecast_hand + 1;
        self.forecast_hand = if next as usize == self.geometry.frames() { 0 } else { next };
        let known = self.known(frame);
        if known.is_known && !self.is_in_window(known.inserted) {
            let (known, _) = self.look_at(known, frame, frames);
            if known.is_forecast {
                self.forecasts.count(known.key.level(self.key_now), false);
            }
            self.known[frame.index()] = Packed::new(Known { is_forecast: true, ..known });
        }
        if let Some(verdict) = self.forecasts.judge() {
            self.verdict = verdict;
            if verdict == Verdict::Fail {
                self.key_now = self.key_now.wrapping_add(TICKS_A_FAILURE as u16);
            }
        }
    }

    /// A page has been inserted: moves the clocks.
    fn advance(&mut self) {
        self.since_tick += 1;
        if self.since_tick >= self.insertions_a_tick {
            self.since_tick = 0;
            self.now = Tick(self.now.0.wrapping_add(1));
            self.account.advance(self.now);
        }
        if self.verdict != Verdict::Scan {
            self.since_key_tick += 1;
            if self.since_key_tick >= self.insertions_a_key_tick {
                self.since_key_tick = 0;
                self.key_now = self.key_now.wrapping_add(1);
            }
        }
    }

    /// Keeps every history younger than the time in which the clocks wrap.
    fn limit_ages(&mut self) {
        for _ in 0..self.ageing_stride {
            let past = &mut self.past[self.ageing_page];
            past.key = past.key.not_older_than_history(self.key_now);
            past.used = past.used.not_too_old(self.now);
            self.ageing_page += 1;
            if self.ageing_page == self.past.len() {
                self.ageing_page = 0;
            }
        }
    }
}

/// Whether sets have so few ways that all are looked at for each victim.
fn is_looked_at_whole(geometry: Geometry) -> bool {
    geometry.ways <= POOL_FRAMES
}

impl Replacement for Dueling {
    fn insert(&mut self, frame: FrameId, page: PageId) {
        assert!(!self.known(frame).is_known, "{frame:?} is known already");
        let past = &mut self.past[page.index()];
        let level = past.key.level(self.key_now);
        let used = std::mem::replace(&mut past.used, self.now);
        self.account.count_miss(used);
        self.forecasts.count_miss(level);
        let page = page.0 as u32;
        self.known[frame.index()] = Packed::new(Known {
            page,
            key: Key::of_level(self.weights.add(level, 1), self.key_now),
            used: self.now,
            inserted: self.now,
            looked: self.now,
            is_known: true,
            is_touched: false,
            is_forecast: false,
        });
        if self.is_on_trial(frame) {
            self.newest.push(self.geometry.set_of(frame), frame);
        }
        let place = self
            .duels
            .place_of(page)
            .filter(|place| self.duels.get(*place).is_some_and(|duel| duel.page == page));
        if let Some(place) = place
            && self.returns.len() < RETURNS_MAX
        {
            self.returns.push(place);
        }
        self.limit_ages();
        self.advance();
    }

    fn look_around(&mut self, frames: &mut dyn Frames) {
        if self.ahead > 0 {
            self.ahead -= 1;
        } else if !is_looked_at_whole(self.geometry) {
            // Before the first victims: any set, each in its turn.
            let set = self.forecast_hand as usize % self.geometry.sets;
            let next = self.forecast_hand + 1;
            self.forecast_hand = if next as usize == self.geometry.frames() { 0 } else { next };
            self.look_for_candidates(set, self.looks(), frames);
        }
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        while let Some(place) = self.returns.pop() {
            self.end(place, true, frames);
        }
        if is_looked_at_whole(self.geometry) {
            self.pools[0].clear();
            self.look_for_candidates(set, self.geometry.ways, frames);
        } else {
            self.look_for_candidates(set, self.looks(), frames);
        }
        self.trial_owes += self.account.share_on_trial();
        let on_trial = self.trial_owes >= 1 << 24;
        if on_trial {
            self.trial_owes -= 1 << 24;
        }
        let victim = self.choose(on_trial, set, frames)?;
        self.remove(victim);
        self.newest.count_victim();
        self.check_forecast(frames);
        self.ahead = self.ahead.saturating_add(1);
        Some(victim)
    }

    fn remove(&mut self, frame: FrameId) {
        let known = self.known(frame);
        assert!(known.is_known, "{frame:?} is not known");
        self.known[frame.index()] = Packed::new(Known { is_known: false, ..known });
        self.past[known.page as usize] = Past { key: known.key, used: known.used };
    }
}
