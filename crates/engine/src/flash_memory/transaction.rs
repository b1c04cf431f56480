//! Transactions: stores that are kept aside, committed to the log, and then applied.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use ebbtide_core::durability::{HeldLatches, Lsn, Rerun, TransactionError, WriteSet};
use ebbtide_core::{Addr, FrameId, Hint, Memory, PAGE_BYTES, PageId, Value};
use ebbtide_structures::latch;
use smallvec::SmallVec;

use super::{FlashMemory, Signal, check_not_unwinding};
use crate::atomic_words;
use crate::mailbox::{Outcome, Waiter};
use crate::persist::{FIRST_RESERVATION_BYTES, Persist};

/// Transactions beyond this size are not kept for the next one, in bytes of words.
const KEPT_BYTES_MAX: usize = 1024;

/// How often a transaction runs without latches for what it reads.
const OPTIMISTIC_RUNS_MAX: u32 = 8;

/// Pages that were [claimed](crate::backside::Backside::claim), with their frames.
type Claims = SmallVec<[(PageId, FrameId); 8]>;

/// A transaction under way.
#[derive(Default)]
pub(crate) struct Transaction {
    set: WriteSet,
    latches: HeldLatches,
    /// Words that were exchanged, with what they were in memory.
    exchanged: Vec<(Addr, u64)>,
    /// Pages of which nobody needs more than what is stored to them here.
    forgotten: Vec<PageId>,
    /// What is reserved in the log, in bytes of words, until it is committed.
    reserved: Option<usize>,
}

impl Transaction {
    /// Nobody needs what `page` held before.
    pub(super) fn forget(&mut self, page: PageId) {
        if !self.forgotten.contains(&page) {
            self.forgotten.push(page);
        }
    }
}

/// Ends a run whose reservation was too small and could not grow: the next begins with this one.
struct Short(usize);

/// Ends a run for good.
struct Refused(TransactionError);

impl FlashMemory<'_> {
    /// Whether a transaction is under way.
    pub(super) fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Whether accesses are those of a transaction, and not ones that it makes of memory itself.
    pub(super) fn keeps_aside(&self) -> bool {
        self.in_transaction() && self.hit_path.pages() == 0
    }

    /// Runs `body` on memory as it is without the transaction under way.
    pub(super) fn outside<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        self.hit_path.set_pages(self.pages);
        let result = body(self);
        // If it unwinds, so does the transaction, which ends there.
        self.hit_path.set_pages(0);
        result
    }

    /// Loads a value within a transaction: its own stores lie over memory.
    #[cold]
    #[inline(never)]
    pub(super) fn load_in_transaction<T: Value>(&mut self, at: Addr) -> T {
        let forgotten = |transaction: &Transaction| transaction.forgotten.contains(&at.page());
        let mut value = match &self.transaction {
            Some(transaction) if forgotten(transaction) => T::zeroed(),
            _ => self.outside(|memory| memory.load(at)),
        };
        if let Some(transaction) = &self.transaction {
            transaction.set.overlay(at, bytemuck::bytes_of_mut(&mut value));
        }
        value
    }

    /// Keeps a value aside.
    #[cold]
    #[inline(never)]
    pub(super) fn store_in_transaction<T: Value>(&mut self, at: Addr, value: T) {
        let (Some(transaction), Some(persist)) =
            (&mut self.transaction, &self.local.shared.pool.persist)
        else {
            unreachable!("there is a transaction")
        };
        transaction.set.store(at, bytemuck::bytes_of(&value));
        let stored = transaction.set.bytes();
        let reserved = transaction.reserved.unwrap_or(0);
        if stored <= reserved {
            return;
        }
        let wanted = stored.next_power_of_two();
        let wanted = wanted.min(persist.bytes_max).max(stored);
        match persist.try_grow(reserved, wanted) {
            Ok(true) => transaction.reserved = Some(wanted),
            Ok(false) => resume_unwind(Box::new(Short(wanted))),
            Err(error) => resume_unwind(Box::new(Refused(error))),
        }
    }

    /// Exchanges a word that is kept aside, and notes what it was in memory: that must still be so at
    /// the end.
    #[cold]
    #[inline(never)]
    pub(super) fn exchange_in_transaction(
        &mut self,
        at: Addr,
        current: u64,
        new: u64,
    ) -> Result<u64, u64> {
        let shared: u64 = self.outside(|memory| memory.load(at));
        let mut seen = shared.to_ne_bytes();
        let Some(transaction) = &mut self.transaction else { unreachable!("there is one") };
        transaction.set.overlay(at, &mut seen);
        if !transaction.set.holds(at) && !transaction.exchanged.contains(&(at, shared)) {
            transaction.exchanged.push((at, shared));
        }
        let seen = u64::from_ne_bytes(seen);
        if seen != current {
            return Err(seen);
        }
        self.store_in_transaction(at, new);
        Ok(seen)
    }

    pub(super) fn transaction_latches(&mut self) -> Option<&mut HeldLatches> {
        self.transaction.as_deref_mut().map(|transaction| &mut transaction.latches)
    }

    /// Runs `body` until it is committed.
    pub(super) fn run_transaction<R>(
        &mut self,
        mut body: impl FnMut(&mut Self) -> R,
    ) -> Result<(R, Lsn), TransactionError> {
        let persist = self.local.shared.pool.persist.clone();
        let Some(persist) = persist.filter(|_| !self.in_transaction()) else {
            return Ok((body(self), Lsn::ZERO));
        };
        check_not_unwinding();
        let mut reserve = FIRST_RESERVATION_BYTES.min(persist.bytes_max);
        let mut runs = 0u32;
        loop {
            self.reserve(&persist, reserve)?;
            let mut spare = self.local.spare_transactions.take();
            let mut begun = spare.pop().unwrap_or_default();
            self.local.spare_transactions.set(spare);
            begun.reserved = Some(reserve);
            begun.latches.set_reads_take(runs >= OPTIMISTIC_RUNS_MAX);
            runs = runs.saturating_add(1);
            self.transaction = Some(begun);
            self.hit_path.set_pages(0);
            // A run that unwinds leaves nothing behind but what it did outside of memory.
            let ran = catch_unwind(AssertUnwindSafe(|| body(self)));
            self.hit_path.set_pages(self.pages);
            let transaction = self.transaction.take();
            let Some(mut transaction) = transaction else { unreachable!("it was put there") };
            let committed = match &ran {
                Ok(_) => {
                    // Bringing pages in may fail as any load may.
                    let commit = AssertUnwindSafe(|| self.commit(&persist, &mut transaction));
                    catch_unwind(commit)
                }
                Err(_) => Ok(Ok(None)),
            };
            self.give_back(&persist, &transaction);
            self.keep(transaction);
            match (ran, committed) {
                (Ok(value), Ok(Ok(Some(lsn)))) => return Ok((value, lsn)),
                // Something that it read has changed.
                (Ok(_), Ok(Ok(None))) => {}
                (Ok(_), Ok(Err(error))) => return Err(error),
                (_, Err(payload)) => resume_unwind(payload),
                (Err(payload), Ok(_)) => {
                    if let Some(short) = self.why_again(payload)? {
                        reserve = short;
                    }
                }
            }
        }
    }

    /// Why a run of a body ended, if it is to run again: with another reservation, perhaps.
    fn why_again(
        &mut self,
        payload: Box<dyn std::any::Any + Send>,
    ) -> Result<Option<usize>, TransactionError> {
        let payload = match payload.downcast::<Short>() {
            Ok(short) => return Ok(Some(short.0)),
            Err(payload) => payload,
        };
        let payload = match payload.downcast::<Refused>() {
            Ok(refused) => return Err(refused.0),
            Err(payload) => payload,
        };
        match payload.downcast::<Rerun>() {
            Ok(rerun) => {
                if let Some(latch) = rerun.latch {
                    latch::wait_until_free(self, latch);
                }
                Ok(None)
            }
            Err(payload) => resume_unwind(payload),
        }
    }

    /// Waits for room in the log, holding nothing.
    fn reserve(&mut self, persist: &Persist, bytes: usize) -> Result<(), TransactionError> {
        while !persist.try_reserve(bytes, Some(self.waiter()))? {
            self.halt_for_log();
        }
        Ok(())
    }

    /// Gives back the reservation and the latches of a transaction that is over.
    fn give_back(&mut self, persist: &Persist, transaction: &Transaction) {
        if let Some(reserved) = transaction.reserved {
            self.wake_starved(persist.release(reserved));
        }
        // From the end of memory on: what lists free pages lies at its start, and is held until the
        // pages that it lists are free for others.
        let mut held: SmallVec<[Addr; 16]> = transaction.latches.held().iter().copied().collect();
        held.sort_unstable();
        for &at in held.iter().rev() {
            latch::release_taken(self, at);
        }
    }

    /// Keeps the memory of a transaction that is over for the next one.
    fn keep(&self, mut over: Box<Transaction>) {
        if over.set.bytes() > KEPT_BYTES_MAX {
            return;
        }
        let Transaction { set, latches, exchanged, forgotten, reserved } = &mut *over;
        set.clear();
        latches.clear();
        exchanged.clear();
        forgotten.clear();
        *reserved = None;
        let mut spare = self.local.spare_transactions.take();
        spare.push(over);
        self.local.spare_transactions.set(spare);
    }

    fn wake_starved(&self, waiters: Vec<Waiter>) {
        for waiter in waiters {
            self.local.shared.pool.mailboxes.wake(waiter, Outcome::Retry);
        }
    }

    /// Appends the stores and applies them; `None` if something that was read has changed.
    fn commit(
        &mut self,
        persist: &Arc<Persist>,
        transaction: &mut Transaction,
    ) -> Result<Option<Lsn>, TransactionError> {
        let Transaction { set, latches, exchanged, forgotten, reserved } = transaction;
        let pages: SmallVec<[PageId; 8]> = set.pages().collect();
        if pages.len() > persist.pages_max {
            let (what, max) = (format!("to {} pages", pages.len()), persist.pages_max as u64);
            return Err(TransactionError::TooLarge { what, max });
        }
        let read: SmallVec<[(Addr, u64); 8]> =
            latches.read().iter().filter(|(at, _)| !latches.holds(*at)).copied().collect();
        let looked_at = read.iter().chain(&*exchanged).map(|(at, _)| at.page());
        // What a page held is needed if some of it is looked at again, or a latch in it will be released.
        let held = latches.held().iter().map(|at| at.page());
        let kept = |page| looked_at.clone().chain(held.clone()).any(|kept| kept == page);
        forgotten.retain(|&page| !kept(page));
        let mut needed: SmallVec<[PageId; 16]> = pages.iter().copied().chain(looked_at).collect();
        needed.sort_unstable();
        needed.dedup();
        let (frames, claimed) = self.frames_of(&needed, forgotten);
        let hit_path = self.hit_path;
        let place = |at: Addr| {
            let index = needed.binary_search(&at.page());
            let frame = frames[index.unwrap_or_else(|_| unreachable!("its frame was found"))];
            (frame, hit_path.memory(frame, at.page_offset()))
        };
        // SAFETY: a word of a page that is resident and stays so until the end of the epoch.
        let still = |&(at, seen): &(Addr, u64)| unsafe {
            latch::is_unchanged(atomic_words::load::<u64>(place(at).1), seen)
        };
        // SAFETY: as above.
        let same =
            |&(at, seen): &(Addr, u64)| unsafe { atomic_words::load::<u64>(place(at).1) == seen };
        let apply = || {
            for (at, word) in set.words() {
                let (frame, memory) = place(at);
                // SAFETY: as above.
                unsafe { atomic_words::store(memory, word) };
                hit_path.mark_dirty(frame);
            }
        };
        // Both under the journal's lock: who has committed under one of these latches before had taken
        // it, and its word tells.
        let is_valid = || read.iter().all(still) && exchanged.iter().all(same);
        let committed = persist.commit(set, reserved.unwrap_or(0), is_valid, apply);
        self.presence.exit();
        self.end_claims(&claimed, matches!(committed, Ok(Some(_))));
        let Some((lsn, starved)) = committed? else { return Ok(None) };
        *reserved = None;
        self.wake_starved(starved);
        Ok(Some(lsn))
    }

    /// The frames of `needed` pages, inside an epoch that begins here: they stay until its end, even if a page
    /// is given up meanwhile. Pages that are on flash alone and `forgotten` are claimed instead of read, and
    /// given with their frames as well.
    fn frames_of(
        &mut self,
        needed: &[PageId],
        forgotten: &[PageId],
    ) -> (SmallVec<[FrameId; 16]>, Claims) {
        loop {
            self.presence.enter();
            let found: SmallVec<[Option<FrameId>; 16]> =
                needed.iter().map(|&page| self.hit_path.find(page)).collect();
            let absent = needed.iter().zip(&found).filter(|(_, frame)| frame.is_none());
            let absent: SmallVec<[PageId; 8]> = absent.map(|(page, _)| *page).collect();
            let mut read = absent.clone();
            read.retain(|page| !forgotten.contains(page));
            if read.is_empty() {
                if let Some(claimed) = self.claim(&absent) {
                    let mut fresh = claimed.iter().map(|(_, frame)| *frame);
                    let frames = found.iter().map(|frame| frame.or_else(|| fresh.next()));
                    return (frames.flatten().collect(), claimed);
                }
                read = absent;
            }
            self.presence.exit();
            // All of them at once.
            for page in &read {
                self.hint(Hint::WillNeed(page.start()));
            }
            for page in &read {
                self.load::<u64>(page.start());
            }
        }
    }

    /// Claims all of `pages`, or has those read that could be claimed.
    fn claim(&self, pages: &[PageId]) -> Option<Claims> {
        let mut claimed = Claims::new();
        if pages.is_empty() {
            return Some(claimed);
        }
        let shared = &*self.local.shared;
        let mut backside = self.local.backside();
        for &page in pages {
            match backside.claim(&shared.pool, page) {
                Some(frame) => claimed.push((page, frame)),
                None => {
                    for (page, frame) in claimed {
                        backside.unclaim(&shared.pool, page, frame);
                    }
                    return None;
                }
            }
        }
        Some(claimed)
    }

    /// Shows claimed pages to others, whose stores have taken effect. If they `have` not, the pages are as they
    /// were.
    fn end_claims(&mut self, claimed: &Claims, have: bool) {
        if claimed.is_empty() {
            return;
        }
        let shared = &*self.local.shared;
        let mut backside = self.local.backside();
        for &(page, frame) in claimed {
            if have {
                backside.reveal(&shared.pool, page, frame);
            } else {
                backside.unclaim(&shared.pool, page, frame);
            }
        }
        self.accesses += if have { claimed.len() as u64 } else { 0 };
    }

    /// Logs what a range holds, a page at a time.
    pub(super) fn persist_range(&mut self, at: Addr, bytes: u64) -> Result<Lsn, TransactionError> {
        let persist = self.local.shared.pool.persist.clone();
        let Some(persist) = persist.filter(|_| !self.in_transaction()) else {
            return Ok(Lsn::ZERO);
        };
        check_not_unwinding();
        self.check_range(at, bytes as usize);
        let end = at + bytes;
        let (mut at, mut last) = (Addr(at.0 / 8 * 8), Lsn::ZERO);
        while at < end {
            let most = (PAGE_BYTES - at.page_offset()).min(persist.bytes_max) as u64;
            let piece = most.min(end - at).next_multiple_of(8);
            self.reserve(&persist, piece as usize)?;
            let logged = catch_unwind(AssertUnwindSafe(|| self.log_words(&persist, at, piece)));
            self.wake_starved(persist.release(piece as usize));
            if let Some(lsn) = logged.unwrap_or_else(|payload| resume_unwind(payload))? {
                last = lsn;
                at = at + piece;
            }
        }
        Ok(last)
    }

    /// Logs the words from `at` on, which lie within a page.
    fn log_words(
        &mut self,
        persist: &Persist,
        at: Addr,
        bytes: u64,
    ) -> Result<Option<Lsn>, TransactionError> {
        let frame = loop {
            self.presence.enter();
            if let Some(frame) = self.hit_path.find(at.page()) {
                break frame;
            }
            self.presence.exit();
            self.load::<u64>(at.page().start());
        };
        let hit_path = self.hit_path;
        let word = |at: Addr| {
            // SAFETY: a word of a page that is resident and stays so until the end of the epoch.
            unsafe { atomic_words::load::<u64>(hit_path.memory(frame, at.page_offset())) }
        };
        let committed = persist.commit_with(|set| {
            for at in (at.0..at.0 + bytes).step_by(8).map(Addr) {
                set.store(at, &word(at).to_ne_bytes());
            }
            // The page has to be written again before the log can be let go.
            hit_path.mark_dirty(frame);
        });
        self.presence.exit();
        committed
    }

    /// Waits until the transaction that gave `lsn` may be acknowledged.
    pub(super) fn await_durable(&mut self, lsn: Lsn) -> Result<(), TransactionError> {
        let Some(persist) = self.local.shared.pool.persist.clone() else { return Ok(()) };
        if self.in_transaction() {
            return Err(TransactionError::Inside);
        }
        check_not_unwinding();
        while !persist.await_durable(lsn, self.waiter())? {
            self.halt_for_log();
        }
        Ok(())
    }

    /// Suspends the fiber until the log writer wakes it.
    fn halt_for_log(&mut self) {
        self.publish_accesses();
        self.local.log_waiters.set(self.local.log_waiters.get() + 1);
        self.suspend.suspend(Signal::Halted);
        self.local.log_waiters.set(self.local.log_waiters.get() - 1);
        self.local.outcomes[self.fiber as usize].take();
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use ebbtide_core::durability::Policy;

    use super::*;
    use crate::store::{NewStore, Store};
    use crate::{Engine, Options};

    #[test]
    fn the_memory_of_a_transaction_is_kept_for_the_next_one_unless_it_was_large() {
        const WORDS_KEPT_MAX: u64 = KEPT_BYTES_MAX as u64 / 8;
        let folder = tempfile::tempdir_in(".").expect("a folder");
        let (path, tag) = (folder.path().join("store"), "kept".into());
        let new = NewStore { path, offset: 0, pages: 64, spare_pages: 16, tag, force: false };
        let store = Arc::new(Store::create_persistent(&new, 1 << 20).expect("a store"));
        let options = Options { durability: Some(Policy::None), ..Options::new(4 << 20) };
        let jobs = Arc::new(Engine::open(&store, &options).expect("an engine")).start();
        let jobs = jobs.expect("its cores");
        let kept_after = move |memory: &mut FlashMemory<'_>, words: u64| {
            let store = |memory: &mut FlashMemory<'_>| {
                (0..words).for_each(|word| memory.store(Addr(8 * word), word));
            };
            memory.transaction(store).expect("a commit");
            let spare = memory.local.spare_transactions.take();
            let count = spare.len();
            memory.local.spare_transactions.set(spare);
            count
        };
        let all = [1, WORDS_KEPT_MAX, WORDS_KEPT_MAX + 1, 1, 2 * WORDS_KEPT_MAX];
        let kept = jobs.submit(move |memory| all.map(|words| kept_after(memory, words)));
        assert_eq!(kept.wait(), Ok([1, 1, 0, 1, 0]));
    }
}
