//! Transactions: stores that are kept aside, committed to the log, and then applied.

mod commit;
mod log;
mod places;
mod reads;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use ebbtide_core::durability::{
    Changed, HeldLatches, Lsn, Noted, Rerun, TransactionError, WriteSet,
};
use ebbtide_core::{Addr, Memory, PAGE_BYTES, PageId, Value};
use ebbtide_structures::latch;
use smallvec::SmallVec;

use super::{FlashMemory, check_not_unwinding};
use crate::core::job_error::discard;
use crate::persist::{FIRST_RESERVATION_BYTES, Persist};
use crate::sync::mailbox::{Outcome, Waiter};

/// Transactions beyond this size are not kept for the next one, in bytes of words.
const KEPT_BYTES_MAX: usize = 1024;

/// Transactions that have looked at more words than this are not kept either.
const KEPT_READS_MAX: usize = 64;

/// How often a transaction runs without latches for its reads.
const OPTIMISTIC_RUNS_MAX: u32 = 8;

/// The most runs in a row that find the same word changed in the same way. No other job changes the
/// word then. The body sees another value than memory has, and would run for ever.
const RUNS_ALIKE_MAX: u32 = 1000;

/// A transaction under way.
#[derive(Default)]
pub(crate) struct Transaction {
    set: WriteSet,
    latches: HeldLatches,
    /// Words that were exchanged, or loaded for verification, with their values in memory.
    checked: Noted,
    /// Pages whose old contents the body forgot: only the stores of this transaction count.
    forgotten: Vec<PageId>,
    /// Room reserved in the log until the commit, in bytes of words.
    reserved: Option<usize>,
    /// Whether its commit has the [turn](crate::persist::Persist::turns).
    has_turn: bool,
    /// Why this run does not count. Later actions of its body do not change that.
    ended: Option<End>,
}

/// Why a run of a body does not count.
enum End {
    /// The body runs again.
    Again(Again),
    /// It does not.
    Refused(TransactionError),
}

/// The work before the next run of a body.
#[derive(Clone, Copy)]
enum Again {
    /// Reserve this many bytes from the start: the reservation was too small and could not grow.
    Reserve(usize),
    /// Wait until the latch at this address is free.
    Waits(Addr),
    /// Nothing: a word that was read has changed.
    Changed(Changed),
    /// Write pages, to free slots for this many more pages that are stored to.
    Slots(usize),
}

/// The initial state of a run of a body.
struct Begin {
    /// Bytes that are reserved in the log.
    reserved: usize,
    /// Whether reading takes latches.
    reads_take: bool,
}

/// The result of a run of a body.
enum Ran {
    Committed(Lsn),
    Ended(End),
    Unwinds(Box<dyn Any + Send>),
}

/// The payload that ends a run by unwinding. The transaction has the reason.
struct RunEnds;

impl Transaction {
    /// Notes that the old contents of `page` are not needed.
    pub(super) fn forget(&mut self, page: PageId) {
        if !self.forgotten.contains(&page) {
            self.forgotten.push(page);
        }
    }

    /// Takes why the run does not count.
    fn take_end(&mut self) -> Option<End> {
        let rerun = |rerun| match rerun {
            Rerun::Waits(at) => Again::Waits(at),
            Rerun::Changed(changed) => Again::Changed(changed),
        };
        self.ended.take().or_else(|| self.latches.rerun().map(rerun).map(End::Again))
    }

    /// Drops all stores. The commit still verifies all reads.
    fn drop_stores(&mut self) {
        self.set.clear();
        self.forgotten.clear();
    }
}

/// The runs of one body.
#[derive(Default)]
struct Runs {
    /// Runs that did not count.
    again: u32,
    last: Option<Changed>,
    alike: u32,
}

impl Runs {
    /// Notes that a run did not count because a word had `changed`.
    fn note(&mut self, changed: Changed) -> Result<(), TransactionError> {
        self.alike = if self.last.replace(changed) == Some(changed) { self.alike + 1 } else { 0 };
        if self.alike < RUNS_ALIKE_MAX {
            return Ok(());
        }
        let Changed { at, read, found } = changed;
        let reason =
            format!("each run reads the word at {:#x} as {read:#x}, but it is {found:#x}", at.0);
        Err(TransactionError::NoProgress { runs: self.again, reason })
    }
}

impl FlashMemory<'_> {
    /// Whether a transaction is under way.
    pub(super) fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// True if accesses belong to the transaction's body. False for accesses that the transaction
    /// itself makes to memory.
    pub(super) fn keeps_aside(&self) -> bool {
        self.in_transaction() && self.hit_path.pages() == 0
    }

    /// Runs `body` on memory without the transaction under way. The transaction goes on when `body`
    /// ends, also by unwinding, because the body of the transaction may catch that.
    pub(super) fn outside<R>(&mut self, body: impl FnOnce(&mut Self) -> R) -> R {
        struct Outside<'m, 'a>(&'m mut FlashMemory<'a>);
        impl Drop for Outside<'_, '_> {
            fn drop(&mut self) {
                self.0.hit_path.set_pages(0);
            }
        }
        self.hit_path.set_pages(self.pages);
        body(Outside(self).0)
    }

    /// Loads a value within a transaction, with its own stores applied.
    #[cold]
    #[inline(never)]
    pub(super) fn load_in_transaction<T: Value>(&mut self, at: Addr) -> T {
        let mut value =
            if self.forgets(at) { T::zeroed() } else { self.outside(|memory| memory.load(at)) };
        self.under_way().set.overlay(at, bytemuck::bytes_of_mut(&mut value));
        value
    }

    /// As [`load_in_transaction`](Self::load_in_transaction) of a word that must still be the same
    /// at the end.
    #[cold]
    #[inline(never)]
    pub(super) fn load_checked_in_transaction(&mut self, at: Addr) -> u64 {
        if self.forgets(at) || self.under_way().set.holds(at) {
            return self.load_in_transaction(at);
        }
        let shared: u64 = self.outside(|memory| memory.load(at));
        let transaction = self.under_way();
        transaction.checked.note(at, shared);
        let mut seen = shared.to_ne_bytes();
        transaction.set.overlay(at, &mut seen);
        self.check_reads();
        u64::from_ne_bytes(seen)
    }

    /// Copies bytes within a transaction, with its own stores applied.
    #[cold]
    #[inline(never)]
    pub(super) fn read_bytes_in_transaction(&mut self, at: Addr, into: &mut [u8]) {
        let (mut from, mut rest) = (at, &mut *into);
        while !rest.is_empty() {
            let bytes = rest.len().min(PAGE_BYTES - from.page_offset());
            let (piece, later) = rest.split_at_mut(bytes);
            match self.forgets(from) {
                true => piece.fill(0),
                false => self.outside(|memory| memory.read_bytes(from, piece)),
            }
            (from, rest) = (from + bytes as u64, later);
        }
        self.under_way().set.overlay(at, into);
    }

    /// Keeps a value aside.
    #[cold]
    #[inline(never)]
    pub(super) fn store_in_transaction<T: Value>(&mut self, at: Addr, value: T) {
        self.under_way().set.store(at, bytemuck::bytes_of(&value));
        self.keep_room();
    }

    /// Keeps a part of a word aside.
    pub(super) fn store_part_in_transaction(&mut self, at: Addr, bytes: &[u8]) {
        self.under_way().set.store_part(at, bytes);
        self.keep_room();
    }

    /// Exchanges a word that is kept aside, and notes its value in memory. Memory must have the
    /// same value at the end.
    #[cold]
    #[inline(never)]
    pub(super) fn exchange_in_transaction(
        &mut self,
        at: Addr,
        current: u64,
        new: u64,
    ) -> Result<u64, u64> {
        let seen = self.load_checked_in_transaction(at);
        if seen != current {
            return Err(seen);
        }
        self.store_in_transaction(at, new);
        Ok(seen)
    }

    /// The word of a latch as it is in memory.
    #[cold]
    #[inline(never)]
    pub(super) fn load_latch_in_transaction(&mut self, at: Addr) -> u64 {
        self.check_reads();
        self.outside(|memory| memory.load(at))
    }

    pub(super) fn transaction_latches(&mut self) -> Option<&mut HeldLatches> {
        self.transaction.as_deref_mut().map(|transaction| &mut transaction.latches)
    }

    /// The transaction under way.
    fn under_way(&mut self) -> &mut Transaction {
        let Some(transaction) = &mut self.transaction else { unreachable!("there is one") };
        transaction
    }

    /// True if the body forgot the page of the word at `at`.
    fn forgets(&mut self, at: Addr) -> bool {
        self.under_way().forgotten.contains(&at.page())
    }

    fn log(&self) -> &Persist {
        let Some(persist) = &self.local.shared.pool.persist else {
            unreachable!("a transaction has a log")
        };
        persist
    }

    /// Ends the run unless there is room in the log for all its stores.
    fn keep_room(&mut self) {
        let transaction = self.under_way();
        let stored = transaction.set.bytes();
        let reserved = transaction.reserved.unwrap_or(0);
        if stored <= reserved {
            return;
        }
        let persist = self.log();
        let wanted = stored.next_power_of_two().min(persist.bytes_max).max(stored);
        match persist.try_grow(reserved, wanted) {
            Ok(true) => self.under_way().reserved = Some(wanted),
            Ok(false) => self.end_run(End::Again(Again::Reserve(wanted))),
            Err(error) => self.end_run(End::Refused(error)),
        }
    }

    /// Ends the run if it has noted more words than the engine permits.
    fn check_reads(&mut self) {
        let transaction = self.under_way();
        let count = transaction.latches.read().len() + transaction.checked.words().len();
        let max = self.log().reads_max;
        if count > max {
            let what = format!("{count} words of latches and others that it has to look at again");
            let (max, bound) = (max as u64, "16 for each frame");
            self.end_run(End::Refused(TransactionError::TooLarge { what, max, bound }));
        }
    }

    /// Ends the run for good, also if the body catches this.
    fn end_run(&mut self, end: End) -> ! {
        self.under_way().ended.get_or_insert(end);
        resume_unwind(Box::new(RunEnds))
    }

    /// Runs `body` until it is committed. A run whose result does not `count` commits nothing. It
    /// ends the transaction if all its reads are of one moment.
    pub(super) fn run_transaction<R>(
        &mut self,
        mut body: impl FnMut(&mut Self) -> R,
        counts: impl Fn(&R) -> bool,
    ) -> Result<(R, Lsn), TransactionError> {
        let mut value = None;
        let lsn = self.run_body(&mut |memory| {
            value = None;
            counts(value.insert(body(memory)))
        })?;
        Ok((value.expect("the last run of a body has a result"), lsn))
    }

    /// As [`run_transaction`](Self::run_transaction) of a body that returns whether it counts. One
    /// copy of this serves all bodies.
    fn run_body(
        &mut self,
        body: &mut dyn FnMut(&mut Self) -> bool,
    ) -> Result<Lsn, TransactionError> {
        let Some(persist) = self.local.shared.pool.persist.clone() else {
            body(self);
            return Ok(Lsn::ZERO);
        };
        if self.in_transaction() {
            self.run_part(body);
            return Ok(Lsn::ZERO);
        }
        check_not_unwinding();
        let mut reserve = FIRST_RESERVATION_BYTES.min(persist.bytes_max);
        let mut runs = Runs::default();
        loop {
            self.reserve(&persist, reserve)?;
            let begin = Begin { reserved: reserve, reads_take: runs.again >= OPTIMISTIC_RUNS_MAX };
            let (ran, transaction) = self.run_once(&persist, begin, body);
            self.give_back(&persist, &transaction);
            self.keep(transaction);
            match ran {
                Ran::Committed(lsn) => {
                    if runs.again > 0 {
                        self.local.shared.jobs.reran(self.local.core, self.fiber, 0);
                    }
                    return Ok(lsn);
                }
                Ran::Unwinds(payload) => resume_unwind(payload),
                Ran::Ended(End::Refused(error)) => return Err(error),
                Ran::Ended(End::Again(again)) => {
                    runs.again += 1;
                    self.local.shared.jobs.reran(self.local.core, self.fiber, runs.again);
                    self.prepare_again(&persist, again, &mut reserve, &mut runs)?;
                }
            }
        }
    }

    /// Does the work before the next run.
    #[cold]
    fn prepare_again(
        &mut self,
        persist: &Persist,
        again: Again,
        reserve: &mut usize,
        runs: &mut Runs,
    ) -> Result<(), TransactionError> {
        match again {
            Again::Reserve(bytes) => *reserve = bytes,
            Again::Waits(at) => latch::wait_until_free(self, at),
            Again::Changed(changed) => {
                runs.note(changed)?;
                // The job that changes it may be one of this core.
                self.yield_now();
            }
            Again::Slots(pages) => {
                while !persist.has_slots_for(pages, self.waiter())? {
                    self.halt_for_log();
                }
            }
        }
        Ok(())
    }

    /// Runs `body` as a part of the transaction under way. Drops its stores unless it counts.
    fn run_part(&mut self, body: &mut dyn FnMut(&mut Self) -> bool) {
        let transaction = self.under_way();
        let before = (transaction.set.clone(), transaction.forgotten.clone());
        if !body(self) {
            let transaction = self.under_way();
            (transaction.set, transaction.forgotten) = before;
        }
    }

    /// Runs `body` once, and commits it. A run that does not count has no effect on memory.
    fn run_once(
        &mut self,
        persist: &Arc<Persist>,
        begin: Begin,
        body: &mut dyn FnMut(&mut Self) -> bool,
    ) -> (Ran, Box<Transaction>) {
        let mut spare = self.local.spare_transactions.take();
        let mut begun = spare.pop().unwrap_or_default();
        self.local.spare_transactions.set(spare);
        begun.reserved = Some(begin.reserved);
        begun.latches.set_reads_take(begin.reads_take);
        self.transaction = Some(begun);
        self.hit_path.set_pages(0);
        let ran = catch_unwind(AssertUnwindSafe(|| body(self)));
        self.hit_path.set_pages(self.pages);
        let Some(mut transaction) = self.transaction.take() else {
            unreachable!("it was put there")
        };
        let ran = match (ran, transaction.take_end()) {
            (Err(payload), Some(end)) => {
                discard(payload);
                Ran::Ended(end)
            }
            (Ok(_), Some(end)) => Ran::Ended(end),
            (Err(payload), None) => Ran::Unwinds(payload),
            (Ok(counts), None) => {
                if !counts {
                    transaction.drop_stores();
                }
                self.end_by_commit(persist, &mut transaction)
            }
        };
        (ran, transaction)
    }

    /// Commits. It is never inlined, because its frame would then take room on the stack while a
    /// body runs.
    #[inline(never)]
    fn end_by_commit(&mut self, persist: &Arc<Persist>, transaction: &mut Transaction) -> Ran {
        // Bringing pages in may fail as any load may.
        match catch_unwind(AssertUnwindSafe(|| self.commit(persist, transaction))) {
            Ok(Ok(Ok(lsn))) => Ran::Committed(lsn),
            Ok(Ok(Err(again))) => Ran::Ended(End::Again(again)),
            Ok(Err(error)) => Ran::Ended(End::Refused(error)),
            Err(payload) => Ran::Unwinds(payload),
        }
    }

    /// Waits for room in the log, holding nothing.
    fn reserve(&mut self, persist: &Persist, bytes: usize) -> Result<(), TransactionError> {
        let pool = &self.local.shared.pool;
        while !persist.try_reserve(bytes, self.waiter(), || pool.write_health.fail())? {
            self.halt_for_log();
        }
        Ok(())
    }

    /// Releases the turn, the reservation and the latches of a transaction that is over. Like
    /// [`end_by_commit`](Self::end_by_commit), it is never inlined.
    #[inline(never)]
    fn give_back(&mut self, persist: &Persist, transaction: &Transaction) {
        if transaction.has_turn {
            self.wake_starved(persist.turns.end().into_iter().collect());
        }
        if let Some(reserved) = transaction.reserved {
            self.wake_starved(persist.release(reserved));
        }
        // From the end of memory on. The lists of free pages lie at its start. They are held until
        // the pages that they list are free for others.
        let mut held: SmallVec<[Addr; 16]> = transaction.latches.held().iter().copied().collect();
        held.sort_unstable();
        for &at in held.iter().rev() {
            latch::release_taken(self, at);
        }
    }

    /// Keeps the memory of a transaction that is over for the next one.
    fn keep(&self, mut over: Box<Transaction>) {
        let reads = over.latches.read().len() + over.checked.words().len();
        if over.set.bytes() > KEPT_BYTES_MAX || reads > KEPT_READS_MAX {
            return;
        }
        let Transaction { set, latches, checked, forgotten, reserved, has_turn, ended } =
            &mut *over;
        set.clear();
        latches.clear();
        checked.clear();
        forgotten.clear();
        *reserved = None;
        *has_turn = false;
        *ended = None;
        let mut spare = self.local.spare_transactions.take();
        spare.push(over);
        self.local.spare_transactions.set(spare);
    }

    fn wake_starved(&self, waiters: Vec<Waiter>) {
        for waiter in waiters {
            self.local.shared.pool.mailboxes.wake(waiter, Outcome::Retry);
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use ebbtide_core::Hint;
    use ebbtide_core::durability::Policy;

    use super::*;
    use crate::cache::PageState;
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

    fn two_cores(folder: &tempfile::TempDir) -> (Arc<Engine>, crate::Jobs) {
        let (path, tag) = (folder.path().join("store"), "two".into());
        let new = NewStore { path, offset: 0, pages: 64, spare_pages: 16, tag, force: false };
        let store = Arc::new(Store::create_persistent(&new, 1 << 20).expect("a store"));
        let mut options = Options { durability: Some(Policy::None), ..Options::new(8 << 20) };
        (options.cores, options.tuning.threads) = (2, Some(4));
        let engine = Arc::new(Engine::open(&store, &options).expect("an engine"));
        let jobs = engine.start().expect("its cores");
        (engine, jobs)
    }

    /// A job that wakes the word between the look and the wait would find no waiter.
    #[test]
    fn a_wait_looks_at_the_word_when_nobody_can_wake_it_any_more() {
        let folder = tempfile::tempdir_in(".").expect("a folder");
        let (engine, jobs) = two_cores(&folder);
        let at = PageId(1).start();
        let held = engine.state().wait_queues.hold(at);
        let (tell, told) = std::sync::mpsc::channel();
        let waits = jobs.submit(move |memory| {
            assert_eq!(memory.load::<u64>(at), 0);
            tell.send(()).expect("the test waits");
            memory.wait(at, 0);
        });
        told.recv().expect("it is about to wait");
        // Long enough for a look that comes too early.
        std::thread::sleep(std::time::Duration::from_millis(50));
        // The other core does it, as this one blocks its own. Its wake would come now and find no
        // waiter.
        jobs.submit(move |memory| memory.store(at, 1u64)).wait().expect("it stores");
        drop(held);
        jobs.stop().expect("the jobs end");
        assert_eq!(waits.wait(), Ok(()), "it would have waited for ever");
    }

    /// Its core would else take the frame for another page, and the commit would store to that.
    #[test]
    fn a_page_stays_in_its_frame_until_a_commit_has_stored_to_it() {
        let folder = tempfile::tempdir_in(".").expect("a folder");
        let (engine, jobs) = two_cores(&folder);
        let (page, at) = (PageId(1), PageId(1).start());
        jobs.submit(move |memory| memory.load::<u64>(at)).wait().expect("it is read");
        // A core that sleeps has told the policy of the page.
        let sleeps = || engine.counters().snapshot().sleeps;
        let before = sleeps();
        while sleeps() < before + 4 {
            std::thread::yield_now();
        }
        let (tell, told) = std::sync::mpsc::channel();
        let may_commit = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let see_may_commit = may_commit.clone();
        let commits = jobs.submit(move |memory| {
            memory.load::<u64>(at);
            let body = |memory: &mut FlashMemory<'_>| {
                tell.send(()).expect("the test waits");
                while !see_may_commit.load(std::sync::atomic::Ordering::SeqCst) {
                    memory.yield_now();
                }
                memory.store(at, 7u64);
            };
            memory.transaction(body).map(drop)
        });
        told.recv().expect("it has its reservation");
        // It stops where it appends to the log.
        let guarded = engine.persist().expect("it persists").lock();
        may_commit.store(true, std::sync::atomic::Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(100));
        // The other core takes the page from its frame, and looks long enough whether that is free.
        let evicts = jobs.submit(move |memory| {
            memory.hint(Hint::DontNeed(at));
            for _ in 0..100 {
                std::thread::sleep(std::time::Duration::from_millis(1));
                memory.yield_now();
            }
            memory.local.shared.pool.cache.state(page)
        });
        let state = evicts.wait().expect("it ends");
        assert!(matches!(state, PageState::Leaving(_)), "{page:?} is {state:?}");
        drop(guarded);
        commits.wait().expect("it ends").expect("it commits");
        assert_eq!(jobs.submit(move |memory| memory.load::<u64>(at)).wait(), Ok(7));
        jobs.stop().expect("the jobs end");
    }
}
