//! The protocol of mapped pages: faults, arrivals and evictions as transitions around system calls.
//!
//! It owns no thread and does no I/O. The kernel is behind [`Mapper`], so that the model checks can
//! put a kernel of their own in its place.

use super::page_table::PageTable;
use super::states::{Action, Event, State};
use super::tokens::Tokens;
use crate::sync::mailbox::Waiter;

/// The calls that change the mapping of pages. Each has taken effect on all cores when it returns.
pub(crate) trait Mapper {
    /// Maps `page` with the contents at `from`, writable or write-protected.
    fn install(&self, page: u32, from: *const u8, writable: bool);
    /// Write-protects `page`.
    fn protect(&self, page: u32);
    /// Makes `page` writable.
    fn unprotect(&self, page: u32);
    /// Removes `pages`.
    fn remove(&self, pages: &[u32]);
}

/// What a fault does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Make the access again.
    Retry,
    /// The page of this token is writable, and pinned for the fiber. Make the access again.
    Writable(u32),
    /// Come again with a token.
    TakeToken,
    /// The waiter is in the list. It is woken when the page has arrived.
    Wait,
    /// The page is on its way for another fiber, and this one cannot wait: read it as well.
    ReadToo,
    /// Read the page. It has the token.
    Read,
    /// Look again after a system call of another core.
    Pause,
}

/// The result of an attempt to give the engine a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cleaned {
    /// The engine has it.
    Done,
    /// The engine has no room yet.
    NoRoom,
    /// The page was stored to, and stays.
    Changed,
}

/// The pages of a range.
pub(crate) struct Protocol<M> {
    pub(crate) table: PageTable,
    pub(crate) tokens: Tokens,
    pub(crate) mapper: M,
}

impl<M: Mapper> Protocol<M> {
    /// Handles a fault on `page` by a store or a load. Makes the page writable if that is all it
    /// takes. `waiter` is the fiber, unless it must not be suspended.
    pub(crate) fn fault(
        &self,
        page: u32,
        store: bool,
        waiter: Option<Waiter>,
        token: Option<u32>,
    ) -> Next {
        let mut locked = self.table.lock(page);
        if locked.state() == State::Absent && token.is_none() {
            return Next::TakeToken;
        }
        match locked.apply(if store { Event::StoreFault } else { Event::LoadFault }) {
            Action::Read => {
                let token = token.expect("an absent page was given a token");
                let score = self.tokens.hold(token, page, locked.score(), locked.evicted_at());
                locked.set(score, token);
                Next::Read
            }
            Action::AwaitArrival => match waiter {
                Some(waiter) => {
                    locked.wait(waiter);
                    Next::Wait
                }
                None => Next::ReadToo,
            },
            Action::AwaitCall => Next::Pause,
            Action::Unprotect => {
                drop(locked);
                self.mapper.unprotect(page);
                let mut locked = self.table.lock(page);
                locked.apply(Event::Unprotected);
                self.tokens.pin(locked.token());
                Next::Writable(locked.token())
            }
            Action::Retry => Next::Retry,
            other => unreachable!("a fault leads to {other:?}"),
        }
    }

    /// The contents of `page`, which was read, are at `from`. Maps them if the page is still on its
    /// way (with `token`, if that is given), and pins it. Returns its token and the fibers to wake.
    /// `None` if the page has arrived for another fiber.
    pub(crate) fn arrived(
        &self,
        page: u32,
        token: Option<u32>,
        store: bool,
        from: *const u8,
    ) -> Option<(u32, Vec<Waiter>)> {
        let mut locked = self.table.lock(page);
        let holds = locked.token();
        if locked.state() != State::Reading || token.is_some_and(|token| token != holds) {
            return None;
        }
        self.mapper.install(page, from, store);
        locked.apply(if store { Event::ArrivedForStore } else { Event::ArrivedForLoad });
        self.tokens.pin(holds);
        self.tokens.offer(holds);
        Some((holds, locked.take_waiting()))
    }

    /// Pins `page` if it is in DRAM, and writable if `store` is set. Returns its token then.
    pub(crate) fn try_pin(&self, page: u32, store: bool) -> Option<u32> {
        let locked = self.table.lock(page);
        let state = locked.state();
        let usable = state == State::Dirty || !store && state.is_mapped();
        usable.then(|| {
            self.tokens.pin(locked.token());
            locked.token()
        })
    }

    /// Begins to evict the pages of `victims`. Clean ones are removed at once. Returns the tokens
    /// of dirty ones, which are write-protected now and must be [given to the
    /// engine](Protocol::clean).
    pub(crate) fn evict(&self, victims: &[u32]) -> Vec<u32> {
        let (mut removed, mut cleaning) = (Vec::new(), Vec::new());
        for &token in victims {
            let page = self.tokens.page(token);
            let mut locked = self.table.lock(page);
            if self.tokens.is_pinned(token) {
                self.tokens.offer(token);
                continue;
            }
            match locked.state() {
                State::Dirty => {
                    locked.apply(Event::Clean);
                    drop(locked);
                    self.mapper.protect(page);
                    self.table.lock(page).apply(Event::Protected);
                    cleaning.push(token);
                }
                State::Clean => removed.push(token),
                _ => self.tokens.offer(token),
            }
        }
        self.remove(&removed);
        cleaning
    }

    /// Hands the engine the page of `token`, which is being cleaned. `copy` makes the copy, unless
    /// there is no room for it. It runs while the page cannot change.
    pub(crate) fn clean(&self, token: u32, copy: impl FnOnce() -> bool) -> Cleaned {
        let mut locked = self.table.lock(self.tokens.page(token));
        if locked.state() != State::Cleaning {
            return Cleaned::Changed;
        }
        if !copy() {
            return Cleaned::NoRoom;
        }
        locked.apply(Event::Copied);
        Cleaned::Done
    }

    /// Removes the pages of `tokens` that are clean and not pinned, in one call. The others stay.
    pub(crate) fn remove(&self, tokens: &[u32]) {
        let (mut pages, mut freed) = (Vec::with_capacity(tokens.len()), Vec::new());
        for &token in tokens {
            let page = self.tokens.page(token);
            let mut locked = self.table.lock(page);
            if !self.tokens.is_pinned(token) && locked.apply(Event::Evict) == Action::Zap {
                pages.push(page);
                freed.push(token);
            } else {
                self.tokens.offer(token);
            }
        }
        if pages.is_empty() {
            return;
        }
        self.mapper.remove(&pages);
        let now = self.tokens.now();
        for &page in &pages {
            let mut locked = self.table.lock(page);
            locked.apply(Event::Zapped);
            let score = locked.score();
            locked.set(score, now);
        }
        self.tokens.count_evictions(pages.len());
        self.tokens.put(freed);
    }
}
