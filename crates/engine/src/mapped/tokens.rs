//! Tokens: the right to have a page in DRAM. A range has as many as its budget holds pages, and the
//! replacement policy decides which page gives its token up.
//!
//! The policy is a CLOCK. A plain load leaves no mark, so a page's lives come from its past. A page
//! that comes back soon after its eviction gets twice as many lives as before, and one more. The
//! hand takes one at each pass. It passes few tokens for a victim. If all of them have lives, the
//! one with the fewest is the victim.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, Ordering};

use super::lock::Lock;
use super::page_table::{SCORE_MAX, TOKENS_MAX};

/// Tokens with lives that the hand passes at most for a victim.
const PASSED_MAX: usize = 16;

/// Clock ticks until every token has been given up once.
const TICKS_A_TURN: u32 = 8;

/// A page that comes back within this many ticks has shown its worth.
const SOON_TICKS: u32 = 2 * TICKS_A_TURN;

/// All tokens of a range.
pub(crate) struct Tokens {
    free: Lock<Free>,
    /// The token that the hand looks at next.
    hand: Lock<usize>,
    marks: Box<[Mark]>,
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

/// What is known of a token.
struct Mark {
    page: AtomicU32,
    pins: AtomicU16,
    lives: AtomicU8,
    /// True if the hand may choose it.
    is_offered: AtomicBool,
}

/// The lives that a page of this score gets.
fn lives_of(score: u32) -> u8 {
    const { assert!(SCORE_MAX < u8::BITS) };
    (1 << score) - 1
}

impl Tokens {
    pub(crate) fn new(count: usize) -> Tokens {
        assert!(count > 0 && count < TOKENS_MAX, "{count} tokens cannot be numbered");
        let mark = |_| Mark {
            page: AtomicU32::new(u32::MAX),
            pins: AtomicU16::new(0),
            lives: AtomicU8::new(0),
            is_offered: AtomicBool::new(false),
        };
        Tokens {
            free: Lock::new(Free {
                tokens: (0..count as u32).rev().collect(),
                retired: Vec::new(),
                owed: 0,
            }),
            hand: Lock::new(0),
            marks: (0..count).map(mark).collect(),
            evictions: AtomicU32::new(0),
            evictions_a_tick: (count as u32 / TICKS_A_TURN).max(1),
        }
    }

    /// Bytes of DRAM for each token, without its page.
    pub(crate) const BYTES_EACH: usize = size_of::<Mark>() + size_of::<u32>();

    pub(crate) fn count(&self) -> usize {
        self.marks.len()
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
        self.marks[token as usize].page.load(Ordering::Relaxed)
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
            score.saturating_sub(1)
        };
        let mark = &self.marks[token as usize];
        mark.page.store(page, Ordering::Relaxed);
        mark.lives.store(lives_of(score), Ordering::Relaxed);
        score
    }

    /// Lets the policy choose `token`, which holds a page, again.
    pub(crate) fn offer(&self, token: u32) {
        self.marks[token as usize].is_offered.store(true, Ordering::Release);
    }

    /// Takes at most `count` victims. Each of them is the caller's until it is
    /// [offered](Tokens::offer) again or [put](Tokens::put) back.
    pub(crate) fn victims(&self, count: usize) -> Vec<u32> {
        let mut hand = self.hand.lock();
        std::iter::from_fn(|| self.victim(&mut hand)).take(count).collect()
    }

    fn victim(&self, hand: &mut usize) -> Option<u32> {
        let mut fewest = None;
        let mut passed = 0;
        for _ in 0..self.count() {
            let token = *hand;
            *hand = (token + 1) % self.count();
            let mark = &self.marks[token];
            if !mark.is_offered.load(Ordering::Acquire) || mark.pins.load(Ordering::Relaxed) > 0 {
                continue;
            }
            let lives = mark.lives.load(Ordering::Relaxed);
            if fewest.is_none_or(|(least, _)| lives < least) {
                fewest = Some((lives, token));
            }
            passed += 1;
            if lives == 0 || passed == PASSED_MAX {
                break;
            }
            mark.lives.store(lives - 1, Ordering::Relaxed);
        }
        let (_, token) = fewest?;
        self.marks[token].is_offered.store(false, Ordering::Relaxed);
        Some(token as u32)
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
        if let Some(mark) = self.marks.get(token as usize)
            && mark.lives.load(Ordering::Relaxed) == 0
        {
            mark.lives.store(1, Ordering::Relaxed);
        }
    }

    /// Keeps the page of `token` in DRAM. Only under the lock of the page.
    pub(crate) fn pin(&self, token: u32) {
        let before = self.marks[token as usize].pins.fetch_add(1, Ordering::Relaxed);
        assert!(before < u16::MAX, "page {} is pinned too often", self.page(token));
    }

    /// Ends a [`pin`](Tokens::pin).
    pub(crate) fn unpin(&self, token: u32) {
        let before = self.marks[token as usize].pins.fetch_sub(1, Ordering::Release);
        debug_assert!(before > 0, "token {token} was not pinned");
    }

    /// True if the page of `token` must stay. Final under the lock of the page.
    pub(crate) fn is_pinned(&self, token: u32) -> bool {
        self.marks[token as usize].pins.load(Ordering::Acquire) > 0
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    fn filled(count: usize) -> Tokens {
        let tokens = Tokens::new(count);
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
    fn a_page_that_comes_back_late_loses_a_point_of_its_score() {
        let tokens = filled(8);
        let then = tokens.now();
        tokens.count_evictions(8 * 3);
        tokens.victims(8);
        assert_eq!(tokens.hold(0, 100, 6, then), 5);
    }
    #[test]
    fn among_pages_with_lives_the_one_with_the_fewest_leaves_first() {
        let count = 4 * PASSED_MAX;
        let tokens = filled(count);
        let all = tokens.victims(count);
        tokens.count_evictions(1);
        for &token in &all {
            let score = if token as usize == PASSED_MAX - 2 { 1 } else { 3 };
            tokens.hold(token, token + 100, score, tokens.now());
            tokens.offer(token);
        }
        assert_eq!(tokens.victims(1), [PASSED_MAX as u32 - 2]);
        // The next tokens have the same lives.
        assert_eq!(tokens.victims(1), [PASSED_MAX as u32]);
    }

    #[test]
    fn a_victim_is_not_chosen_again_before_it_is_offered() {
        let tokens = filled(4);
        assert_eq!(tokens.victims(9), [0, 1, 2, 3]);
        assert_eq!(tokens.victims(1), []);
        tokens.offer(2);
        assert_eq!(tokens.victims(9), [2]);
    }
}
