//! Ebbtide's own memory: the DRAM cache over flash, where a miss switches fibers.

mod bytes;
mod fiber_context;
mod transaction;
mod whole_pages;
mod write_out;

use std::cell::{Cell, RefCell};
use std::hint::black_box;
use std::sync::Arc;

use ebbtide_core::durability::{Aborted, HeldLatches, Lsn, TransactionError};
use ebbtide_core::{
    Addr, FrameId, FullMemory, Hint, LINE_BYTES, Memory, MemoryFault, PAGE_BYTES, PageId, Patience,
    Time, Value, check_access,
};
use ebbtide_fiber::Suspend;
use parking_lot::MutexGuard;

use crate::cache::{BLANK, HitPath, PageState};
use crate::core::engine_state::EngineState;
use crate::core::job_error::Deadlock;
use crate::host::atomic_words;
use crate::host::prefetched::{prefetch, prefetch_bytes};
use crate::miss::{Backside, Drive, Lookup, Rest};
use crate::sync::counters::CoreCounters;
use crate::sync::epoch::Presence;
use crate::sync::mailbox::{Outcome, Waiter};

pub use bytes::PageView;
pub(crate) use fiber_context::FiberContext;
use transaction::Transaction;

/// Why a fiber suspended itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signal {
    /// It waits for an [`Outcome`].
    Halted,
    /// It lets other jobs run.
    Yielded,
    /// Its job is over.
    Finished,
}

/// The state that a core's fibers share with its scheduler, only on the core's thread. What every
/// miss needs comes first, in two cache lines.
#[repr(C, align(64))]
pub(crate) struct Local {
    pub(crate) shared: Arc<EngineState>,
    pub(crate) core: usize,
    pub(crate) fibers: Box<[FiberState]>,
    /// Fibers that have missed on a page since the core last drove its backside.
    missed: RefCell<Vec<Missed>>,
    /// How long the core may leave its backside alone.
    pub(crate) rest: Cell<Rest>,
    /// Fibers that wait for pages on their way by other cores.
    pub(crate) await_others: Cell<u32>,
    /// True if the backside fetches pages ahead of demand. The place of a page should then be known
    /// before its job halts.
    fetches_ahead: Cell<bool>,
    /// Frames that their first waiters have used since then.
    used: RefCell<Vec<FrameId>>,
    /// By core: fibers that wait for a page which that one brings in or out.
    pub(crate) awaited: Box<[Cell<u32>]>,
    /// Fibers that wait on a word.
    pub(crate) word_waiters: Cell<u32>,
    /// Fibers that wait for the log, which goes on without them.
    pub(crate) log_waiters: Cell<u32>,
    /// Finished transactions, for the next ones to reuse their memory.
    #[expect(clippy::vec_box, reason = "a job holds the box while its transaction is under way")]
    pub(crate) spare_transactions: Cell<Vec<Box<Transaction>>>,
}

/// The state of a fiber that waits. Fits one cache line.
#[repr(align(64))]
pub(crate) struct FiberState {
    /// The outcome that the fiber was sent, until it is resumed.
    pub(crate) outcome: Cell<Option<Outcome>>,
    /// The data that it will need first, if it halted on a miss.
    needs: Cell<Needs>,
    /// Where its core found the page that it last missed on.
    found: Cell<Lookup>,
}

const _: () = assert!(size_of::<FiberState>() == LINE_BYTES);

/// A fiber that has halted on a miss, and was not looked for yet.
struct Missed {
    fiber: u32,
    page: PageId,
    /// When it halted. The core notes that once the fiber has.
    at: Option<Time>,
}

/// The data that a fiber touches first when it goes on after a miss.
#[derive(Clone, Copy)]
pub(crate) struct Needs {
    /// Near the end of its stack.
    stack: *const u8,
    /// The byte of the page that it waited for.
    offset: usize,
}

impl Needs {
    /// Bytes of the stack of a resumed fiber to prefetch: the stack frames of the miss, of the
    /// access and of its caller.
    const STACK_BYTES: usize = 1024;

    /// How many of them are below the place that is noted.
    const STACK_BYTES_BELOW: usize = 256;

    const NOTHING: Needs = Needs { stack: std::ptr::null(), offset: 0 };
}

impl FiberState {
    fn new() -> FiberState {
        FiberState {
            outcome: Cell::new(None),
            needs: Cell::new(Needs::NOTHING),
            found: Cell::new(Lookup::Absent),
        }
    }
}

impl Local {
    /// For core `core`, which has `threads` fibers.
    pub(crate) fn new(shared: Arc<EngineState>, core: usize, threads: usize) -> Local {
        let cores = shared.backsides.len();
        let prefetches = shared.backsides[core].lock().prefetches();
        Local {
            shared,
            core,
            fibers: (0..threads).map(|_| FiberState::new()).collect(),
            rest: Cell::default(),
            missed: RefCell::new(Vec::with_capacity(threads)),
            fetches_ahead: Cell::new(prefetches),
            used: RefCell::new(Vec::with_capacity(threads)),
            awaited: (0..cores).map(|_| Cell::new(0)).collect(),
            await_others: Cell::new(0),
            word_waiters: Cell::new(0),
            log_waiters: Cell::new(0),
            spare_transactions: Cell::default(),
        }
    }

    /// Prefetches the data that `fiber` touches first, as it will go on soon. Other data has
    /// displaced it from the core's caches since the fiber halted, and its page comes from the
    /// device.
    pub(crate) fn prefetch(&self, fiber: u32) {
        let FiberState { outcome, needs, .. } = &self.fibers[fiber as usize];
        let Needs { stack, offset } = needs.get();
        prefetch_bytes(stack.wrapping_sub(Needs::STACK_BYTES_BELOW), Needs::STACK_BYTES);
        let sent = outcome.take();
        if let Some(Outcome::Installed(frame)) = sent {
            prefetch(self.shared.pool.cache.frame_memory(frame).wrapping_add(offset));
        }
        outcome.set(sent);
    }

    /// Lets the core's backside know of all frames that were used by now.
    pub(crate) fn settle(&self, backside: &mut Backside) {
        backside.settle(&mut self.used.borrow_mut());
    }

    /// The backside of this core, locked, which knows of all frames that were used by then.
    pub(crate) fn backside(&self) -> MutexGuard<'_, Backside> {
        let mut backside = self.shared.backsides[self.core].lock();
        // Requests may come to it.
        self.rest.set(Rest::default());
        self.settle(&mut backside);
        backside
    }

    /// Notes that the fiber that halted last did so at `now`. Returns the number of fibers that
    /// have missed since the core last drove its backside, and when the first one did.
    pub(crate) fn note_halt(&self, now: Time) -> (usize, Option<Time>) {
        let mut missed = self.missed.borrow_mut();
        if let Some(last) = missed.last_mut() {
            last.at.get_or_insert(now);
        }
        (missed.len(), missed.first().and_then(|first| first.at))
    }

    /// True if the core, busy as `drive` says, need not look at its backside at `now`.
    /// [`note_halt`](Local::note_halt) returns its `missed` fibers.
    pub(crate) fn may_rest(&self, missed: (usize, Option<Time>), drive: Drive, now: Time) -> bool {
        self.await_others.get() == 0 && self.rest.get().permits(missed, drive, now)
    }

    /// Looks where the pages are that fibers have missed on since the last time.
    pub(crate) fn look_for_missed(&self, backside: &mut Backside, now: Time) {
        let mut missed = self.missed.borrow_mut();
        for &Missed { fiber, page, at } in &*missed {
            let waiter = Waiter { core: self.core as u32, fiber };
            let found = backside.miss(page, waiter, at.unwrap_or(now));
            self.fibers[fiber as usize].found.set(found);
            if let Lookup::UnderWay { mover } = found {
                self.note_awaited(mover, 1);
            }
        }
        missed.clear();
    }

    fn note_missed(&self, fiber: u32, page: PageId) {
        self.missed.borrow_mut().push(Missed { fiber, page, at: None });
    }

    fn note_used(&self, frame: FrameId) {
        self.used.borrow_mut().push(frame);
    }

    /// One fiber more or less waits for a page that `mover` brings in or out.
    fn note_awaited(&self, mover: usize, change: i32) {
        if mover != self.core {
            let add = |count: &Cell<u32>| count.set(count.get().wrapping_add_signed(change));
            add(&self.awaited[mover]);
            add(&self.await_others);
        }
    }
}

/// The memory a job runs over in the engine: an address space on flash behind the DRAM cache.
///
/// It belongs to one fiber. [`Memory`] documents its calls, and what a job must not hold across
/// them.
pub struct FlashMemory<'a> {
    /// Has no pages during a transaction. So every access takes the path of a page that does not
    /// exist, and jobs without a transaction pay nothing.
    hit_path: HitPath,
    /// Pages of the address space.
    pages: u64,
    transaction: Option<Box<Transaction>>,
    presence: Presence<'a>,
    counters: &'a CoreCounters,
    accesses: u64,
    local: &'a Local,
    suspend: &'a Suspend<'a, (), Signal>,
    fiber: u32,
    /// True if a miss blocks the core. The fiber must not be suspended.
    blocks: bool,
    patience: Patience,
}

impl<'a> FlashMemory<'a> {
    pub(crate) fn new(
        local: &'a Local,
        suspend: &'a Suspend<'a, (), Signal>,
        fiber: u32,
    ) -> FlashMemory<'a> {
        let hit_path = local.shared.pool.cache.hit_path();
        FlashMemory {
            pages: hit_path.pages(),
            hit_path,
            transaction: None,
            presence: local.shared.pool.epochs.core(local.core),
            counters: local.shared.pool.counters.core(local.core),
            accesses: 0,
            local,
            suspend,
            fiber,
            blocks: false,
            patience: Patience::default(),
        }
    }

    /// Whether an access to `at` is part of a transaction and not one beyond the address space.
    #[cold]
    #[inline(never)]
    fn is_kept_aside(&self, at: Addr) -> bool {
        self.in_transaction() && at.page().0 < self.pages
    }

    /// Runs `body` on the memory of a value of type `T` at `at`, which stays in place until `body`
    /// returns. `wrote` tells from the result whether `body` has changed the value.
    #[inline(always)]
    fn access<T: Value, R>(
        &mut self,
        at: Addr,
        wrote: impl FnOnce(&R) -> bool,
        body: impl FnOnce(*mut u8) -> R,
    ) -> R {
        check_access::<T>(at);
        self.access_page(at, wrote, body)
    }

    /// As [`access`](FlashMemory::access), for any data within the page of `at`.
    #[inline(always)]
    fn access_page<R>(
        &mut self,
        at: Addr,
        wrote: impl FnOnce(&R) -> bool,
        body: impl FnOnce(*mut u8) -> R,
    ) -> R {
        let page = at.page();
        if page.0 >= self.hit_path.pages() {
            out_of_bounds(at, self.hit_path.pages());
        }
        self.accesses += 1;
        let frame = self.enter(at);
        let result = body(self.hit_path.memory(frame, at.page_offset()));
        if wrote(&result) {
            self.hit_path.mark_dirty(frame);
        }
        self.presence.exit();
        result
    }

    /// Starts a memory call. Until its end, the page of `at`, which exists, is in the returned
    /// frame.
    #[inline(always)]
    fn enter(&mut self, at: Addr) -> FrameId {
        self.presence.enter();
        match self.hit_path.find_at_once(at.page()) {
            Some(frame) => {
                self.hit_path.touch(frame);
                frame
            }
            None => self.find_or_miss(at),
        }
    }

    /// Returns the frame of the page of `at`, after a miss if it is not resident.
    #[cold]
    #[inline(never)]
    fn find_or_miss(&mut self, at: Addr) -> FrameId {
        if let Some(frame) = self.hit_path.find_if_likely(at.page()) {
            self.hit_path.touch(frame);
            return frame;
        }
        self.miss(at)
    }

    /// Waits until the page of `at` is resident. Returns its frame, inside a new epoch. The core
    /// looks up the page when it next drives its backside.
    fn miss(&mut self, at: Addr) -> FrameId {
        let page = at.page();
        self.presence.exit();
        self.publish_accesses();
        if !self.blocks {
            check_not_unwinding();
        }
        let local = self.local;
        if local.fetches_ahead.get()
            && let Some(frame) = self.use_ahead(page)
        {
            return frame;
        }
        loop {
            self.hit_path.prefetch(page);
            local.note_missed(self.fiber, page);
            let here = black_box(0u8);
            let needs = Needs { stack: &raw const here, offset: at.page_offset() };
            self.fiber().needs.set(needs);
            let outcome = self.halt();
            let found = self.fiber().found.get();
            if let Lookup::UnderWay { mover } = found {
                local.note_awaited(mover, -1);
            }
            let first_use = match outcome {
                Outcome::Installed(frame) => {
                    // A page on its way out was asked for in time and stayed.
                    self.counters.hits_under_miss.add(u64::from(found != Lookup::Absent));
                    // The epoch pins the frame: this call uses it before it can be evicted.
                    self.presence.enter();
                    local.note_used(frame);
                    return frame;
                }
                Outcome::Here { first_use } => first_use,
                Outcome::Retry => false,
                Outcome::Failed(reason) => {
                    MemoryFault { page, reason: reason.to_string(), writes_fail: false }.unwind()
                }
                Outcome::NoFrame => {
                    let reason = "no frame can be freed for it: writes to the device fail";
                    MemoryFault { page, reason: reason.into(), writes_fail: true }.unwind()
                }
                Outcome::Deadlocked(_) => {
                    unreachable!("a job that waits for a page waits on no word")
                }
            };
            self.presence.enter();
            // It may have gone again before the epoch began.
            if let Some(frame) = self.hit_path.find(page) {
                self.hit_path.touch(frame);
                self.counters.hits_under_miss.add(u64::from(!first_use));
                return frame;
            }
            self.presence.exit();
        }
    }

    /// As [`miss`](FlashMemory::miss), at once, for a page that was fetched ahead.
    fn use_ahead(&mut self, page: PageId) -> Option<FrameId> {
        let pool = &self.local.shared.pool;
        let ahead = matches!(pool.cache.state(page), PageState::Ahead(_));
        if !ahead || !self.local.backside().use_ahead(page, pool.now()) {
            return None;
        }
        self.presence.enter();
        let found = self.hit_path.find(page);
        match found {
            Some(frame) => self.hit_path.touch(frame),
            None => self.presence.exit(),
        }
        found
    }

    /// Lets other jobs run before this one goes on: ready ones, and a new one if a thread is free.
    /// Does nothing while the job unwinds.
    pub fn yield_now(&mut self) {
        if !std::thread::panicking() {
            self.suspend.suspend(Signal::Yielded);
            self.fiber().outcome.take();
        }
    }

    /// Labels the job under way with a number of the program's choice, until it ends. The label
    /// appears in [`Engine::long_jobs`](crate::Engine::long_jobs).
    pub fn label_job(&mut self, label: u64) {
        self.local.shared.jobs.label(self.local.core, self.fiber, label);
    }

    fn fiber(&self) -> &'a FiberState {
        &self.local.fibers[self.fiber as usize]
    }

    fn waiter(&self) -> Waiter {
        Waiter { core: self.local.core as u32, fiber: self.fiber }
    }

    /// Suspends the fiber, or blocks the core, until the fiber is sent an outcome.
    fn halt(&mut self) -> Outcome {
        if self.blocks {
            return self.await_outcome();
        }
        self.suspend.suspend(Signal::Halted);
        let outcome = self.fiber().outcome.take();
        outcome.expect("a fiber is resumed only with an outcome")
    }

    /// Adds the accesses so far to the counters.
    pub(crate) fn publish_accesses(&mut self) {
        self.counters.accesses.add(std::mem::take(&mut self.accesses));
    }
}

/// Panics if the thread unwinds. Other jobs on this thread would find it unwinding.
fn check_not_unwinding() {
    assert!(
        !std::thread::panicking(),
        "a job that unwinds cannot wait: what it drops must not need a page that is not in DRAM, or a \
         latch that is held"
    );
}

#[cold]
#[inline(never)]
fn out_of_bounds(at: Addr, pages: u64) -> ! {
    panic!("address {at:?} is beyond the address space of {pages} pages");
}

impl Memory for FlashMemory<'_> {
    fn size_bytes(&self) -> u64 {
        self.pages * ebbtide_core::PAGE_BYTES as u64
    }

    #[inline(always)]
    fn load<T: Value>(&mut self, at: Addr) -> T {
        if at.page().0 >= self.hit_path.pages() && self.is_kept_aside(at) {
            check_access::<T>(at);
            return self.load_in_transaction(at);
        }
        // SAFETY: `access` has checked place and size and keeps the frame in place; frames are only
        // accessed as words while they are published.
        self.access::<T, T>(at, |_| false, |memory| unsafe { atomic_words::load(memory) })
    }

    #[inline(always)]
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        if at.page().0 >= self.hit_path.pages() && self.is_kept_aside(at) {
            check_access::<T>(at);
            return self.store_in_transaction(at, value);
        }
        // SAFETY: as in `load`.
        self.access::<T, ()>(at, |()| true, |memory| unsafe { atomic_words::store(memory, value) });
    }

    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        if at.page().0 >= self.hit_path.pages() && self.is_kept_aside(at) {
            check_access::<u64>(at);
            return self.exchange_in_transaction(at, current, new);
        }
        // SAFETY: as in `load`.
        self.access::<u64, _>(at, Result::is_ok, |memory| unsafe {
            atomic_words::compare_exchange(memory, current, new)
        })
    }

    fn wait(&mut self, at: Addr, seen: u64) {
        check_access::<u64>(at);
        check_not_unwinding();
        if self.keeps_aside() {
            return self.outside(|memory| memory.wait(at, seen));
        }
        self.patience.check();
        let local = self.local;
        let still = || {
            self.presence.enter();
            let found = self.hit_path.find(at.page()).map(|frame| {
                let memory = self.hit_path.memory(frame, at.page_offset());
                // SAFETY: the address was checked, and the frame stays until the epoch ends.
                unsafe { atomic_words::load::<u64>(memory) }
            });
            self.presence.exit();
            // A page that is not here cannot be looked at under the lock: look again from outside.
            found == Some(seen)
        };
        if at.page().0 < self.pages && local.shared.wait_queues.add(at, self.waiter(), still) {
            local.word_waiters.set(local.word_waiters.get() + 1);
            let outcome = self.halt();
            local.word_waiters.set(local.word_waiters.get() - 1);
            if let Outcome::Deadlocked(waiting) = outcome {
                std::panic::resume_unwind(Box::new(Deadlock { at, waiting }));
            }
            self.patience.check();
        }
    }

    fn wake(&mut self, at: Addr) {
        let shared = &*self.local.shared;
        for waiter in shared.wait_queues.take(at) {
            shared.pool.mailboxes.wake(waiter, Outcome::Retry);
        }
    }

    fn transaction<R>(
        &mut self,
        body: impl FnMut(&mut Self) -> R,
    ) -> Result<(R, Lsn), TransactionError> {
        self.run_transaction(body, |_| true)
    }

    fn try_transaction<R, E>(
        &mut self,
        body: impl FnMut(&mut Self) -> Result<R, E>,
    ) -> Result<(R, Lsn), Aborted<E>> {
        let (value, lsn) = self.run_transaction(body, Result::is_ok)?;
        value.map(|value| (value, lsn)).map_err(Aborted::GivenUp)
    }

    fn durable(&mut self, lsn: Lsn) -> Result<(), TransactionError> {
        self.await_durable(lsn)
    }

    /// Starts to read a page that will be needed, if a frame can be spared for it, and evicts one
    /// that will not.
    fn hint(&mut self, hint: Hint) {
        let shared = &*self.local.shared;
        let (pool, core) = (&shared.pool, self.local.core);
        let (Hint::WillNeed(at) | Hint::DontNeed(at)) = hint;
        let page = at.page();
        if !shared.hints || page.0 >= self.pages {
            return;
        }
        match (hint, pool.cache.state(page)) {
            (Hint::WillNeed(_), PageState::Absent(_)) => {
                self.local.fetches_ahead.set(true);
                self.local.backside().fetch_ahead(page, pool.now());
            }
            (Hint::DontNeed(_), PageState::Resident(_) | PageState::Ahead(_)) => {
                self.local.backside().drop_page(page, core, pool.now());
            }
            _ => {}
        }
    }
}

impl FullMemory for FlashMemory<'_> {
    fn work(&mut self, instructions: u64) {
        atomic_words::execute(instructions);
    }

    fn let_others_run(&mut self) {
        self.yield_now();
    }

    fn patience(&mut self) -> Option<&mut Patience> {
        Some(&mut self.patience)
    }

    fn exchange_latch(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        if self.in_transaction() {
            return self.outside(|memory| memory.compare_exchange(at, current, new));
        }
        self.compare_exchange(at, current, new)
    }

    #[inline(always)]
    fn load_latch(&mut self, at: Addr) -> u64 {
        if at.page().0 >= self.hit_path.pages() && self.is_kept_aside(at) {
            check_access::<u64>(at);
            return self.load_latch_in_transaction(at);
        }
        // SAFETY: as in `load`.
        self.access::<u64, u64>(at, |_| false, |memory| unsafe { atomic_words::load(memory) })
    }

    #[inline(always)]
    fn load_checked(&mut self, at: Addr) -> u64 {
        if at.page().0 >= self.hit_path.pages() && self.is_kept_aside(at) {
            check_access::<u64>(at);
            return self.load_checked_in_transaction(at);
        }
        // SAFETY: as in `load`.
        self.access::<u64, u64>(at, |_| false, |memory| unsafe { atomic_words::load(memory) })
    }

    fn read_bytes(&mut self, at: Addr, into: &mut [u8]) {
        FlashMemory::read_bytes(self, at, into);
    }

    fn persist(&mut self, at: Addr, bytes: u64) -> Result<Lsn, TransactionError> {
        self.persist_range(at, bytes)
    }

    fn latches(&mut self) -> Option<&mut HeldLatches> {
        self.transaction_latches()
    }

    fn boot(&self) -> u32 {
        self.local.shared.pool.persist.as_ref().map_or(0, |persist| persist.boot)
    }

    fn forget(&mut self, page: PageId) {
        if page.0 >= self.pages {
            out_of_bounds(page.start(), self.pages);
        }
        if let Some(transaction) = &mut self.transaction {
            return transaction.forget(page);
        }
        let pool = &self.local.shared.pool;
        // A log knows what the page held, and nothing of its new state before a transaction.
        if pool.persist.is_none()
            && matches!(pool.cache.state(page), PageState::Absent(slot) if slot != BLANK)
        {
            let overwritten = self.local.backside().overwrite(page, &[0; PAGE_BYTES]);
            self.accesses += u64::from(overwritten);
        }
    }
}
