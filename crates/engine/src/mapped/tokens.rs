//! Tokens: the right to have a page in DRAM. A range has as many as its budget holds pages, and the
//! replacement policy decides which page gives its token up.
//!
//! The policy is CLOCK. A plain load leaves no mark, so a page's lives come from its past: a page
//! that comes back soon after its eviction gets lives, and the hand takes one at each pass.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use ebbtide_core::replacement::{Frames, Geometry, PolicyKind, Replacement};
use ebbtide_core::{FrameId, PageId};

use super::lock::Lock;
use super::page_table::{SCORE_MAX, TOKENS_MAX};

/// Lives of a page at most.
const LIVES_MAX: u8 = 3;

/// Clock ticks until every token has been given up once.
const TICKS_A_TURN: u32 = 8;

/// A page that comes back within this many ticks has shown its worth.
const SOON_TICKS: u32 = 2 * TICKS_A_TURN;

/// All tokens of a range.
pub(crate) struct Tokens {
    free: Lock<Free>,
    policy: Lock<Box<dyn Replacement>>,
    marks: Marks,
    /// Evictions so far.
    evictions: AtomicU32,
    evictions_a_tick: u32,
}

/// Tokens that hold no page.
struct Free {
    tokens: Vec<u32>,
    /// Tokens whose DRAM is used for something else.
    retired: Vec<u32>,
    /// So many more are to be retired when they come free.
    owed: usize,
}

/// What the policy asks about tokens.
struct Marks {
    pages: Box<[AtomicU32]>,
    lives: Box<[AtomicU8]>,
    pins: Box<[AtomicU16]>,
}

impl Frames for &Marks {
    fn take_touches(&mut self, frame: FrameId) -> u8 {
        let lives = &self.lives[frame.index()];
        let left = lives.load(Ordering::Relaxed);
        lives.store(left.saturating_sub(1), Ordering::Relaxed);
        left
    }

    fn is_dirty(&self, _frame: FrameId) -> bool {
        false
    }

    fn is_pinned(&self, frame: FrameId) -> bool {
        self.pins[frame.index()].load(Ordering::Relaxed) > 0
    }
}

impl Tokens {
    pub(crate) fn new(count: usize, pages: u64) -> Tokens {
        assert!(count > 0 && count < TOKENS_MAX, "{count} tokens cannot be numbered");
        let geometry = Geometry::fully_associative(count);
        Tokens {
            free: Lock::new(Free {
                tokens: (0..count as u32).rev().collect(),
                retired: Vec::new(),
                owed: 0,
            }),
            policy: Lock::new(PolicyKind::Clock.build(geometry, pages, 0)),
            marks: Marks {
                pages: (0..count).map(|_| AtomicU32::new(u32::MAX)).collect(),
                lives: (0..count).map(|_| AtomicU8::new(0)).collect(),
                pins: (0..count).map(|_| AtomicU16::new(0)).collect(),
            },
            evictions: AtomicU32::new(0),
            evictions_a_tick: (count as u32 / TICKS_A_TURN).max(1),
        }
    }

    /// Bytes of DRAM for `count` tokens, without the pages.
    pub(crate) fn memory_bytes(count: usize, pages: u64) -> usize {
        let marks = 2 * size_of::<AtomicU32>() + size_of::<AtomicU8>() + size_of::<AtomicU16>();
        let geometry = Geometry::fully_associative(count.max(1));
        count * marks + PolicyKind::Clock.memory_bytes(geometry, pages)
    }

    pub(crate) fn count(&self) -> usize {
        self.marks.pages.len()
    }

    /// Takes a free token, if there is one. Also returns how many are left.
    pub(crate) fn take(&self) -> (Option<u32>, usize) {
        let mut free = self.free.lock();
        let token = free.tokens.pop();
        (token, free.tokens.len())
    }

    /// Returns tokens that hold no page.
    pub(crate) fn put(&self, tokens: impl IntoIterator<Item = u32>) {
        let mut free = self.free.lock();
        for token in tokens {
            if free.owed > 0 {
                free.owed -= 1;
                free.retired.push(token);
            } else {
                free.tokens.push(token);
            }
        }
    }

    /// Retires `count` tokens, as they come free. At least half of all stay in use.
    pub(crate) fn retire(&self, count: usize) {
        let mut free = self.free.lock();
        let most = (self.count() / 2).saturating_sub(free.retired.len() + free.owed);
        free.owed += count.min(most);
        let at_once = free.owed.min(free.tokens.len());
        let left = free.tokens.len() - at_once;
        let retired = free.tokens.split_off(left);
        free.owed -= retired.len();
        free.retired.extend(retired);
    }

    /// Uses `count` retired tokens again.
    pub(crate) fn restore(&self, count: usize) {
        let mut free = self.free.lock();
        let not_yet = count.min(free.owed);
        free.owed -= not_yet;
        let left = free.retired.len().saturating_sub(count - not_yet);
        let restored = free.retired.split_off(left);
        free.tokens.extend(restored);
    }

    /// The page that a token holds.
    pub(crate) fn page(&self, token: u32) -> u32 {
        self.marks.pages[token as usize].load(Ordering::Relaxed)
    }

    /// Notes that `token` is for `page`, which had `score` when it was evicted at `evicted_at`.
    /// Returns the page's new score. The policy does not know the token before it is
    /// [offered](Tokens::offer).
    pub(crate) fn hold(&self, token: u32, page: u32, score: u32, evicted_at: u32) -> u32 {
        let score = if score == 0 && evicted_at == 0 {
            0
        } else if self.now().wrapping_sub(evicted_at) % TOKENS_MAX as u32 <= SOON_TICKS {
            (score + 1).min(SCORE_MAX)
        } else {
            score / 2
        };
        self.marks.pages[token as usize].store(page, Ordering::Relaxed);
        let lives = score.min(u32::from(LIVES_MAX)) as u8;
        self.marks.lives[token as usize].store(lives, Ordering::Relaxed);
        score
    }

    /// Lets the policy choose `token`, which holds a page, again.
    pub(crate) fn offer(&self, token: u32) {
        let page = PageId(u64::from(self.page(token)));
        self.policy.lock().insert(FrameId(token), page);
    }

    /// Takes at most `count` victims from the policy. Each of them is the caller's until it is
    /// [offered](Tokens::offer) again or [put](Tokens::put) back.
    pub(crate) fn victims(&self, count: usize) -> Vec<u32> {
        let mut policy = self.policy.lock();
        let mut marks = &self.marks;
        let next = std::iter::from_fn(|| policy.victim(0, &mut marks));
        next.take(count).map(|frame| frame.0).collect()
    }

    /// The time, in ticks. Never zero.
    pub(crate) fn now(&self) -> u32 {
        let ticks = self.evictions.load(Ordering::Relaxed) / self.evictions_a_tick;
        (ticks + 1) % TOKENS_MAX as u32
    }

    /// Free tokens.
    pub(crate) fn free_count(&self) -> usize {
        self.free.lock().tokens.len()
    }

    /// Evictions so far, modulo 2³².
    pub(crate) fn evictions(&self) -> u64 {
        u64::from(self.evictions.load(Ordering::Relaxed))
    }

    /// Counts evictions.
    pub(crate) fn count_evictions(&self, count: usize) {
        self.evictions.fetch_add(count as u32, Ordering::Relaxed);
    }

    /// Adds a life to the page of `token`, because it was used.
    #[inline]
    pub(crate) fn touch(&self, token: u32) {
        if let Some(lives) = self.marks.lives.get(token as usize)
            && lives.load(Ordering::Relaxed) == 0
        {
            lives.store(1, Ordering::Relaxed);
        }
    }

    /// Keeps the page of `token` in DRAM. Only under the lock of the page.
    pub(crate) fn pin(&self, token: u32) {
        let before = self.marks.pins[token as usize].fetch_add(1, Ordering::Relaxed);
        assert!(before < u16::MAX, "page {} is pinned too often", self.page(token));
    }

    /// Ends a [`pin`](Tokens::pin).
    pub(crate) fn unpin(&self, token: u32) {
        let before = self.marks.pins[token as usize].fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "token {token} was not pinned");
    }

    /// True if the page of `token` must stay. Final under the lock of the page.
    pub(crate) fn is_pinned(&self, token: u32) -> bool {
        self.marks.pins[token as usize].load(Ordering::Acquire) > 0
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    fn filled(count: usize) -> Tokens {
        let tokens = Tokens::new(count, 1 << 20);
        while let (Some(token), _) = tokens.take() {
            tokens.hold(token, token + 100, 0, 0);
            tokens.offer(token);
        }
        tokens
    }

    #[test]
    fn victims_come_in_the_order_of_arrival_and_pinned_pages_stay() {
        let tokens = filled(8);
        tokens.pin(2);
        assert_eq!(tokens.victims(3), [0, 1, 3]);
        tokens.unpin(2);
        assert_eq!(tokens.victims(2), [4, 5]);
        assert_eq!(tokens.page(2), 102);
    }

    #[test]
    fn tokens_are_retired_as_they_come_free_and_half_of_them_stay() {
        let tokens = filled(8);
        tokens.retire(3);
        tokens.put([5, 6]);
        assert_eq!(tokens.free_count(), 0);
        tokens.put([1, 2]);
        assert_eq!(tokens.free_count(), 1);
        tokens.retire(7);
        tokens.put([3]);
        assert_eq!(tokens.free_count(), 1);
        tokens.restore(4);
        assert_eq!(tokens.free_count(), 5);
    }

    #[test]
    fn a_page_that_comes_back_soon_outlives_new_ones() {
        let tokens = filled(8);
        assert_eq!(tokens.victims(1), [0]);
        tokens.count_evictions(1);
        let score = tokens.hold(0, 100, 0, tokens.now());
        tokens.offer(0);
        assert_eq!(score, 1);
        // The hand passes it once.
        assert_eq!(tokens.victims(7), [1, 2, 3, 4, 5, 6, 7]);
        for token in 1..8 {
            tokens.hold(token, 200 + token, 0, 0);
            tokens.offer(token);
        }
        assert_eq!(tokens.victims(8), [1, 2, 3, 4, 5, 6, 7, 0]);
    }

    #[test]
    fn a_page_that_comes_back_late_loses_half_its_score() {
        let tokens = filled(8);
        let then = tokens.now();
        tokens.count_evictions(8 * 3);
        tokens.victims(8);
        assert_eq!(tokens.hold(0, 100, 6, then), 3);
    }
}
