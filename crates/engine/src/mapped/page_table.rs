//! The page table of a mapped range: the state of every page, and the fibers that wait for one.
//!
//! A page's word changes only under the lock of its shard.

use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam_utils::CachePadded;

use super::lock::{Guard, Lock};
use super::states::{Action, Event, State};
use crate::sync::mailbox::Waiter;

const SHARDS: usize = 64;

/// Bytes of DRAM for each page of a range.
pub(super) const PAGE_STATE_BYTES: usize = size_of::<AtomicU32>();

/// Tokens have numbers below this.
pub(super) const TOKENS_MAX: usize = 1 << 26;

const STATE_BITS: u32 = 3;
const SCORE_BITS: u32 = 3;
const VALUE_SHIFT: u32 = STATE_BITS + SCORE_BITS;

/// The highest score of a page.
pub(super) const SCORE_MAX: u32 = (1 << SCORE_BITS) - 1;

/// The page table of a range.
pub(crate) struct PageTable {
    /// By page: its [`State`], its score, and its token. An absent page has the time of its
    /// eviction in place of a token.
    words: Box<[AtomicU32]>,
    shards: Box<[CachePadded<Lock<Waiting>>]>,
}

/// The fibers that wait for pages of a shard to arrive.
type Waiting = Vec<(u32, Waiter)>;

/// A page whose shard is locked.
pub(crate) struct Locked<'a> {
    page: u32,
    word: &'a AtomicU32,
    waiting: Guard<'a, Waiting>,
}

impl PageTable {
    pub(crate) fn new(pages: usize) -> PageTable {
        PageTable {
            words: (0..pages).map(|_| AtomicU32::new(State::Absent as u32)).collect(),
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
        }
    }

    pub(crate) fn lock(&self, page: u32) -> Locked<'_> {
        let waiting = self.shards[page as usize % SHARDS].lock();
        Locked { page, word: &self.words[page as usize], waiting }
    }

    /// The state of `page` and its token, as a hint: both may change at once.
    #[inline]
    pub(crate) fn glance(&self, page: u32) -> (State, u32) {
        let word = self.words[page as usize].load(Ordering::Relaxed);
        (state_of(word), word >> VALUE_SHIFT)
    }
}

fn state_of(word: u32) -> State {
    State::ALL[(word & ((1 << STATE_BITS) - 1)) as usize]
}

impl Locked<'_> {
    fn load(&self) -> u32 {
        self.word.load(Ordering::Relaxed)
    }

    pub(crate) fn state(&self) -> State {
        state_of(self.load())
    }

    /// The token of a page that is not absent.
    pub(crate) fn token(&self) -> u32 {
        self.load() >> VALUE_SHIFT
    }

    /// The time at which an absent page was evicted.
    pub(crate) fn evicted_at(&self) -> u32 {
        self.load() >> VALUE_SHIFT
    }

    pub(crate) fn score(&self) -> u32 {
        self.load() >> STATE_BITS & SCORE_MAX
    }

    /// Makes the transition for `event`.
    ///
    /// # Panics
    /// If the event cannot occur in the page's state.
    pub(crate) fn apply(&mut self, event: Event) -> Action {
        let (state, word) = (self.state(), self.load());
        let next = state.after(event);
        let (next, action) =
            next.unwrap_or_else(|| panic!("{event:?} of a page that is {state:?}"));
        self.word.store(word & !((1 << STATE_BITS) - 1) | next as u32, Ordering::Relaxed);
        action
    }

    /// Sets the score, and the token or the time of eviction.
    pub(crate) fn set(&mut self, score: u32, value: u32) {
        debug_assert!(score <= SCORE_MAX && (value as usize) < TOKENS_MAX);
        let state = self.load() & ((1 << STATE_BITS) - 1);
        self.word.store(state | score << STATE_BITS | value << VALUE_SHIFT, Ordering::Relaxed);
    }

    /// Adds a fiber to those that wait for the page.
    pub(crate) fn wait(&mut self, waiter: Waiter) {
        self.waiting.push((self.page, waiter));
    }

    /// Takes the fibers that wait for the page.
    pub(crate) fn take_waiting(&mut self) -> Vec<Waiter> {
        let page = self.page;
        self.waiting.extract_if(.., |(of, _)| *of == page).map(|(_, waiter)| waiter).collect()
    }
}
