//! The persist part of an engine: the journal that all cores share, and its waiters.
//!
//! The protocol is `ebbtide_core::durability`. Cores append to the journal and apply stores under
//! its lock. One thread (`log_writer`) writes and flushes. A job that waits for either gives up its
//! core.

mod commit_turns;
mod file_disk;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_queue::SegQueue;
use ebbtide_core::durability::{
    Checksums, Disk, Frozen, Geometry, Inspection, Journal, Limits, Lsn, Mapped, Policy, Recovered,
    RecoveryOptions, TransactionError, WriteSet, inspect, recover,
};
use ebbtide_core::{PageId, Watch};
use parking_lot::{Condvar, Mutex};

use crate::cache::Cache;
use crate::store::{Store, StoreError};
use crate::sync::job_table::Does;
use crate::sync::mailbox::Waiter;
use commit_turns::CommitTurns;
pub(crate) use file_disk::FileDisk;

/// The log is flushed at least this often.
const FLUSH_EVERY_MAX: Duration = Duration::from_secs(1);

/// A flush waits for the jobs that the last flush has released. It waits for this part of that
/// flush's time.
const GATHER_SHARE: u32 = 4;

/// Time between two checks of a thread that waits for a checkpoint.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Bytes reserved for a transaction before the size of its stores is known.
pub(crate) const FIRST_RESERVATION_BYTES: usize = 1024;

/// The most bytes that one transaction may store, in whole words.
const TRANSACTION_BYTES_MAX: usize = 4 << 20;

/// Bytes that a transaction may store in any store, unless its log is smaller than a megabyte.
const TRANSACTION_BYTES_MIN: usize = 64 << 10;

/// A large transaction takes a share of the log, and its stores a share of DRAM.
const LOG_SHARE: usize = 16;
const DRAM_SHARE: usize = 32;

/// The most words that one transaction may have to verify: [`READS_PER_FRAME`] for each frame, and
/// at least [`READS_MAX_MIN`]. Each takes about 64 bytes until the transaction commits.
const READS_PER_FRAME: usize = 16;
const READS_MAX_MIN: usize = 1 << 16;

/// A callback for the acknowledgement of a transaction, or for the error that prevents it.
pub(crate) type Tell = Box<dyn FnOnce(Result<(), TransactionError>) + Send>;

/// The journal, and the jobs and programs that wait for it.
pub(crate) struct Guarded {
    pub(crate) journal: Journal,
    /// Fibers that wait until the log is on the device up to a place.
    pub(crate) waiting: Vec<(Lsn, Waiter)>,
    /// Callbacks for places in the log, called when the place is on the device or never will be.
    pub(crate) tickets: Vec<(Lsn, Tell)>,
    /// Fibers that wait for room in the log.
    pub(crate) starved: Vec<Waiter>,
    /// When the oldest transaction was committed that is not on the device.
    pub(crate) behind_since: Option<Instant>,
    pub(crate) flush_asked: bool,
    /// Why pages cannot be written, if they could not for long.
    pages_fail: Option<String>,
    /// Why the log cannot be written, if the device has had no room for it for long.
    log_full: Option<String>,
    /// True while the device has no room for the log.
    log_waits: bool,
    /// The place in the log up to which a flush was asked for.
    flush_asked_to: Lsn,
    /// True if cores have been asked to write pages and will be asked again soon. No further
    /// request is needed.
    pub(crate) cleaning: bool,
    pub(crate) stop: bool,
    /// How many waited for the last flush, and until when the next one waits for as many.
    pub(crate) gathered: usize,
    pub(crate) gather_until: Option<Instant>,
    /// How often the log was flushed, and how long that took in all.
    pub(crate) flushes: (u64, Duration),
    /// Bytes of the log, base maps and superblocks that were written.
    pub(crate) written_bytes: u64,
    pub(crate) stored: Stored,
}

/// The stores of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stored {
    /// Transactions with at least one store.
    pub transactions: u64,
    /// The pages that each of them stored to, added up.
    pub pages: u64,
    /// Bytes of the words that they stored.
    pub bytes: u64,
}

/// The result of a commit.
pub(crate) enum Committed<R> {
    /// It ends at this place in the log. These wait for room and have to be woken.
    Done(Lsn, Vec<Waiter>),
    /// Its reads do not count, for this reason.
    Refused(R),
    /// Pages have to be written first.
    NoSlots,
}

impl Guarded {
    /// Why no transaction is accepted, if so.
    pub(crate) fn refusal(&self) -> Option<TransactionError> {
        let pages = || self.pages_fail.clone().map(|reason| TransactionError::PagesFail { reason });
        self.gives_up().or_else(pages)
    }

    /// The error for all that wait for the log, if there is one.
    pub(crate) fn gives_up(&self) -> Option<TransactionError> {
        let full = || self.log_full.clone().map(|reason| TransactionError::LogFull { reason });
        self.journal.ended().or_else(full)
    }

    /// How many wait for a flush.
    pub(crate) fn waiting_count(&self) -> usize {
        self.waiting.len() + self.tickets.len()
    }

    /// True if the log must be flushed now, so that it is at most `every` behind.
    pub(crate) fn wants_flush(&self, every: Duration, now: Instant) -> bool {
        let due = self.behind_since.is_some_and(|since| now.duration_since(since) >= every);
        let asked = self.flush_asked && self.gathers_for(now).is_none();
        asked || due || self.stop
    }

    /// Notes that a flush that began at `began` has ended at `now`.
    pub(crate) fn flushed(&mut self, began: Instant, now: Instant) {
        let took = now.duration_since(began);
        self.flushes.0 += 1;
        self.flushes.1 += took;
        self.gathered = self.waiting_count();
        self.gather_until = Some(now + took / GATHER_SHARE);
        let durable = self.journal.durable();
        self.behind_since = (self.journal.committed() > durable).then_some(began);
        let mut waited_for = self.waiting.iter().map(|(lsn, _)| lsn);
        self.flush_asked = self.flush_asked_to > durable
            || waited_for.any(|lsn| *lsn > durable)
            || self.tickets.iter().any(|(lsn, _)| *lsn > durable);
    }

    /// Returns how long a requested flush still waits. The jobs that the last flush has released
    /// are likely to commit again at once. If the next flush began without them, they would wait
    /// for two, and every group would be half as large.
    pub(crate) fn gathers_for(&self, now: Instant) -> Option<Duration> {
        let until = self.gather_until.filter(|_| self.waiting_count() < self.gathered)?;
        Some(until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }
}

/// The disk of the log, recovery and checkpoints. Pages that leave the cache go to a
/// [`Device`](crate::device::Device).
pub type LogDisk = Box<dyn Disk + Send>;

/// The persist part of an engine.
pub(crate) struct Persist {
    guarded: Mutex<Guarded>,
    pub(crate) news: Condvar,
    pub(crate) geometry: Geometry,
    checksums: Arc<Checksums>,
    pub(crate) policy: Policy,
    pub(crate) boot: u32,
    pub(crate) recovered: Recovered,
    /// The most bytes that one transaction may store.
    pub(crate) bytes_max: usize,
    /// The most pages that one transaction may store to.
    pub(crate) pages_max: usize,
    /// The most words that one transaction may have to look at again when it commits.
    pub(crate) reads_max: usize,
    /// Pages that a checkpoint waits for: any core writes them.
    pub(crate) to_clean: SegQueue<PageId>,
    /// Turns of commits that evict each other's pages.
    pub(crate) turns: CommitTurns,
}

impl Persist {
    /// Bytes of DRAM for the map, the log's blocks with `fibers` jobs under way, and the stores of
    /// a large transaction. They include the records of pages whose stores are in the log alone,
    /// and what a copy of the store needs.
    pub(crate) fn dram_bytes(geometry: &Geometry, fibers: usize, dram_bytes: usize) -> usize {
        let (transaction, _) = transaction_bound(geometry, dram_bytes);
        let blocks = buffer_blocks_max(fibers, transaction) as usize;
        let stores = WriteSet::dram_bytes(transaction.saturating_sub(TRANSACTION_BYTES_MIN));
        let buffer = blocks * ebbtide_core::PAGE_BYTES + stores;
        let unmapped = unmapped_pages_max(geometry, dram_bytes) * Journal::UNMAPPED_PAGE_BYTES;
        let copy = Journal::copy_bytes(geometry);
        geometry.pages as usize * Checksums::ENTRY_BYTES + buffer + unmapped + copy
    }

    /// Recovers the store on `disk`, for an engine with `frames` frames under a budget of
    /// `dram_bytes`, and at most `fibers` jobs at once.
    pub(crate) fn open(
        geometry: Geometry,
        disk: &mut LogDisk,
        policy: Policy,
        (dram_bytes, frames, fibers): (usize, usize, usize),
        watch: Watch<'_>,
    ) -> Result<Persist, StoreError> {
        let (transaction_bytes_max, transaction_bound) = transaction_bound(&geometry, dram_bytes);
        let unmapped_pages_max = unmapped_pages_max(&geometry, dram_bytes);
        let limits = Limits {
            transaction_bytes_max,
            transaction_bound,
            buffer_blocks_max: buffer_blocks_max(fibers, transaction_bytes_max),
            unmapped_pages_max,
            // If writing ends, the frames with these pages keep them, and reading needs others.
            dirty_pages_max: (frames - frames / 8).min(unmapped_pages_max / 4 * 3),
        };
        let options = RecoveryOptions { pages_at_once: (frames / 2).max(1), limits };
        let (journal, recovered) = recover(geometry, disk, &options, watch)?;
        give_back_freed_memory();
        let guarded = Guarded {
            waiting: Vec::new(),
            tickets: Vec::new(),
            starved: Vec::new(),
            behind_since: None,
            flush_asked: false,
            pages_fail: None,
            log_full: None,
            log_waits: false,
            flush_asked_to: Lsn::ZERO,
            cleaning: false,
            stop: false,
            gathered: 0,
            gather_until: None,
            flushes: (0, Duration::ZERO),
            written_bytes: 0,
            stored: Stored::default(),
            journal,
        };
        Ok(Persist {
            checksums: guarded.journal.map().checksums().clone(),
            boot: guarded.journal.boot(),
            guarded: Mutex::new(guarded),
            news: Condvar::new(),
            geometry,
            policy,
            recovered,
            bytes_max: transaction_bytes_max,
            pages_max: (frames / 8).clamp(1, limits.unmapped_pages_max),
            reads_max: READS_MAX_MIN.max(READS_PER_FRAME * frames),
            to_clean: SegQueue::new(),
            turns: CommitTurns::default(),
        })
    }

    pub(crate) fn lock(&self) -> parking_lot::MutexGuard<'_, Guarded> {
        self.guarded.lock()
    }

    /// A sentence for the user about the findings of recovery.
    pub(crate) fn notice(&self) -> Option<String> {
        let unreadable = &self.recovered.unreadable;
        let first = unreadable.first()?;
        let count = unreadable.len();
        Some(format!(
            "the device cannot read {count} blocks of the store, the first of them block {} of the persist \
             part: what they held counts as damaged; `ebbtide store check` names the pages",
            first.0
        ))
    }

    /// Sets the place of every page in `cache`. From now on the journal asks the cache for it.
    pub(crate) fn place_pages(&self, mut cache: Cache) -> Arc<Cache> {
        let mut guarded = self.lock();
        let map = guarded.journal.map();
        for page in (0..self.geometry.pages).map(PageId) {
            let slot = match map.get(page) {
                Mapped::Blank => crate::cache::BLANK,
                Mapped::Poisoned => crate::cache::POISONED,
                Mapped::Slot { slot, .. } => slot,
            };
            cache.place(page, slot);
        }
        let cache = Arc::new(cache);
        guarded.journal.keep_slots_in(cache.clone());
        cache
    }

    /// True if `contents`, read for `page` from its slot, match the last write there.
    pub(crate) fn is_sound(&self, page: PageId, contents: &[u8; ebbtide_core::PAGE_BYTES]) -> bool {
        self.geometry.checksum(contents) == self.checksums.get(page)
    }

    /// Commits `set` with `reserved` bytes, unless `look` refuses it. `complete` then adds the
    /// missing words to it, and `apply` stores it in memory. The reservation is released if it was
    /// committed.
    pub(crate) fn commit<R>(
        &self,
        set: &mut WriteSet,
        reserved: usize,
        look: impl FnOnce() -> Result<(), R>,
        complete: impl FnOnce(&mut WriteSet),
        apply: impl FnOnce(&WriteSet),
    ) -> Result<Committed<R>, TransactionError> {
        let mut guarded = self.lock();
        if let Err(reason) = look() {
            return Ok(Committed::Refused(reason));
        }
        if !guarded.journal.has_slots_for(set.pages().count()) {
            return Ok(Committed::NoSlots);
        }
        complete(set);
        let set = &*set;
        let lsn = self.commit_guarded(&mut guarded, set, || apply(set))?;
        guarded.journal.release(reserved);
        Ok(Committed::Done(lsn, std::mem::take(&mut guarded.starved)))
    }

    /// The fibers that wait for the log, for room in it, and for a turn to commit.
    pub(crate) fn waiting(&self) -> [(Does, Vec<Waiter>); 3] {
        let guarded = self.lock();
        let waiting = guarded.waiting.iter().map(|(_, waiter)| *waiter).collect();
        [
            (Does::WaitsForLog, waiting),
            (Does::WaitsForRoom, guarded.starved.clone()),
            (Does::WaitsForTurn, self.turns.waiting()),
        ]
    }

    /// Refuses transactions from now on, because pages cannot be written for this reason. With
    /// `None`, accepts them again. Returns the waiters that must be woken.
    #[must_use]
    pub(crate) fn refuse(&self, reason: Option<&str>) -> Vec<Waiter> {
        let mut guarded = self.lock();
        guarded.pages_fail = reason.map(str::to_string);
        if reason.is_some() {
            // So that pages are tried again, also if none has to leave DRAM.
            guarded.journal.begin_checkpoint();
        }
        self.news.notify_one();
        std::mem::take(&mut guarded.starved)
    }

    /// Notes that the device has no room for the log, and the reason if that has lasted long.
    pub(crate) fn note_log_full(&self, reason: Option<&str>) {
        let mut guarded = self.lock();
        guarded.log_waits = true;
        guarded.log_full = reason.map(str::to_string);
    }

    /// Notes that the device has room for the log again.
    pub(crate) fn note_log_written(&self) {
        let mut guarded = self.lock();
        guarded.log_waits = false;
        guarded.log_full = None;
    }

    /// Waits for `pause`, or until the log writer must end. Returns false in the latter case.
    pub(crate) fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        let mut guarded = self.lock();
        while !guarded.stop && !self.news.wait_until(&mut guarded, until).timed_out() {}
        !guarded.stop
    }

    /// Ends writing, because an internal thread has died. `reason` describes it.
    pub(crate) fn end_writing(&self, reason: &str) {
        self.lock().journal.end(reason.to_string());
        self.news.notify_one();
    }

    /// Returns true if there are slots for a transaction that stores to `pages` more pages. If not,
    /// pages are written, and `waiter` is woken when there may be slots.
    pub(crate) fn has_slots_for(
        &self,
        pages: usize,
        waiter: Waiter,
    ) -> Result<bool, TransactionError> {
        let mut guarded = self.lock();
        guarded.refusal().map_or(Ok(()), Err)?;
        if guarded.journal.has_slots_for(pages) {
            return Ok(true);
        }
        guarded.journal.begin_checkpoint();
        guarded.starved.push(waiter);
        self.news.notify_one();
        Ok(false)
    }

    /// Commits a set of words of one page, which `fill` fills while no transaction commits. Returns
    /// `None` if pages must be written first.
    pub(crate) fn commit_with(
        &self,
        fill: impl FnOnce(&mut WriteSet),
    ) -> Result<Option<Lsn>, TransactionError> {
        let mut guarded = self.lock();
        if !guarded.journal.has_slots_for(1) {
            guarded.journal.begin_checkpoint();
            self.news.notify_one();
            return Ok(None);
        }
        let mut set = WriteSet::default();
        fill(&mut set);
        self.commit_guarded(&mut guarded, &set, || ()).map(Some)
    }

    fn commit_guarded(
        &self,
        guarded: &mut Guarded,
        set: &WriteSet,
        apply: impl FnOnce(),
    ) -> Result<Lsn, TransactionError> {
        let lsn = guarded.journal.commit(set, apply)?;
        if set.is_empty() {
            return Ok(lsn);
        }
        guarded.stored.transactions += 1;
        guarded.stored.pages += set.pages().count() as u64;
        guarded.stored.bytes += set.bytes() as u64;
        let first = guarded.behind_since.is_none();
        if first {
            guarded.behind_since = Some(Instant::now());
        }
        let cleaning = guarded.journal.wants_cleaning() && !guarded.cleaning;
        if first || cleaning || guarded.journal.wants_attention() {
            self.news.notify_one();
        }
        Ok(lsn)
    }

    /// Logs that the copy of a page was written to `slot`. Returns false if that write does not
    /// count ([`Journal::written`]). Wakes the log writer if transactions may wait for the record.
    pub(crate) fn written(&self, frozen: Frozen, slot: u32, checksum: u32) -> bool {
        let mut guarded = self.lock();
        let counts = guarded.journal.written(frozen, slot, checksum);
        if guarded.journal.wants_settling() {
            self.news.notify_one();
        }
        counts
    }

    /// Reserves room for `bytes` bytes. If there is none, `waiter` is woken when there may be.
    /// While writes fail, there is none once changed pages hold seven eighths of the frames: reads
    /// need the others. `page_writes_fail` is called under the lock, so that no wake-up is missed.
    pub(crate) fn try_reserve(
        &self,
        bytes: usize,
        waiter: Waiter,
        page_writes_fail: impl FnOnce() -> bool,
    ) -> Result<bool, TransactionError> {
        let mut guarded = self.lock();
        guarded.refusal().map_or(Ok(()), Err)?;
        let writes_fail = guarded.log_waits || page_writes_fail();
        let reserved = !(writes_fail && guarded.journal.wants_cleaning())
            && guarded.journal.try_reserve(bytes)?;
        if !reserved {
            guarded.starved.push(waiter);
            self.news.notify_one();
        }
        Ok(reserved)
    }

    /// Changes a reservation of `from` bytes into one of `to`, if there is room.
    pub(crate) fn try_grow(&self, from: usize, to: usize) -> Result<bool, TransactionError> {
        let mut guarded = self.lock();
        let grown = guarded.journal.try_reserve(to)?;
        if grown {
            guarded.journal.release(from);
        }
        Ok(grown)
    }

    /// Releases a reservation. Returns the waiters for room, which must be woken.
    #[must_use]
    pub(crate) fn release(&self, bytes: usize) -> Vec<Waiter> {
        let mut guarded = self.lock();
        guarded.journal.release(bytes);
        std::mem::take(&mut guarded.starved)
    }

    /// Whether the transaction that gave `lsn` may be acknowledged. If not, `waiter` is woken when
    /// it may.
    pub(crate) fn await_durable(&self, lsn: Lsn, waiter: Waiter) -> Result<bool, TransactionError> {
        let mut guarded = self.lock();
        if lsn <= self.acknowledged(&guarded) {
            return Ok(true);
        }
        if let Some(error) = guarded.gives_up() {
            return Err(error);
        }
        guarded.waiting.push((lsn, waiter));
        self.want_flush(&mut guarded);
        Ok(false)
    }

    /// Calls `tell` when the transaction with `lsn` may be acknowledged, or at once.
    pub(crate) fn when_durable(&self, lsn: Lsn, tell: Tell) {
        let guarded = self.lock();
        let known = self.acknowledged(&guarded);
        self.when_beyond(guarded, known, lsn, tell);
    }

    /// Calls `tell` when the transaction with `lsn` is on the device, under every policy, or at
    /// once.
    pub(crate) fn when_flushed(&self, lsn: Lsn, tell: Tell) {
        let guarded = self.lock();
        let known = guarded.journal.durable();
        self.when_beyond(guarded, known, lsn, tell);
    }

    fn when_beyond(
        &self,
        mut guarded: parking_lot::MutexGuard<'_, Guarded>,
        known: Lsn,
        lsn: Lsn,
        tell: Tell,
    ) {
        if lsn <= known {
            drop(guarded);
            return tell(Ok(()));
        }
        if let Some(error) = guarded.gives_up() {
            drop(guarded);
            return tell(Err(error));
        }
        guarded.tickets.push((lsn, tell));
        self.want_flush(&mut guarded);
    }

    /// Asks for a flush for one more that waits.
    fn want_flush(&self, guarded: &mut Guarded) {
        let first = !guarded.flush_asked;
        guarded.flush_asked = true;
        if first || guarded.waiting_count() >= guarded.gathered {
            self.news.notify_one();
        }
    }

    /// All transactions up to here may be acknowledged under the policy.
    fn acknowledged(&self, guarded: &Guarded) -> Lsn {
        let durable = guarded.journal.durable();
        let committed = guarded.journal.committed().max(durable);
        let ended = guarded.journal.ended().is_some();
        match self.policy {
            Policy::None => committed,
            Policy::Every(span)
                if !ended
                    && guarded
                        .behind_since
                        .is_none_or(|since| since.elapsed().as_nanos() as u64 <= span.as_ns()) =>
            {
                committed
            }
            Policy::Every(_) | Policy::Always => durable,
        }
    }

    /// The progress of the log: what may be acknowledged, is on the device, and is committed.
    pub(crate) fn progress(&self) -> Progress {
        let guarded = self.lock();
        Progress {
            acknowledged: self.acknowledged(&guarded),
            durable: guarded.journal.durable(),
            committed: guarded.journal.committed(),
            ended: guarded.journal.ended(),
            refused: guarded.refusal(),
            flushes: guarded.flushes.0,
            flush_time: guarded.flushes.1,
            written_bytes: guarded.written_bytes,
            stored: guarded.stored,
        }
    }

    /// Asks for a flush of all that is committed.
    pub(crate) fn ask_flush(&self) {
        let mut guarded = self.lock();
        guarded.flush_asked = true;
        guarded.flush_asked_to = guarded.journal.committed();
        self.news.notify_one();
    }

    /// Asks running cores to write all pages that were stored to so far. Waits until recovery would
    /// redo nothing of that. Returns `false` while the store is copied, and after `patience`.
    pub(crate) fn checkpoint(&self, patience: Duration) -> Result<bool, TransactionError> {
        let began = Instant::now();
        let committed = self.lock().journal.committed();
        loop {
            let mut guarded = self.lock();
            if guarded.journal.horizon() >= committed {
                return Ok(true);
            }
            guarded.refusal().map_or(Ok(()), Err)?;
            if guarded.journal.is_pinned() || began.elapsed() >= patience {
                return Ok(false);
            }
            // If one is under way, it may have begun too early: another follows it.
            guarded.journal.begin_checkpoint();
            self.news.notify_one();
            drop(guarded);
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// How long the log may be behind.
    pub(crate) fn flush_every(&self) -> Duration {
        match self.policy {
            Policy::Every(span) => Duration::from_nanos(span.as_ns() / 2).min(FLUSH_EVERY_MAX),
            Policy::None | Policy::Always => FLUSH_EVERY_MAX,
        }
    }
}

/// Makes the C library return freed memory to the kernel. Otherwise it would keep tens of MiB that
/// recovery used, in addition to the frames that are allocated next.
fn give_back_freed_memory() {
    // SAFETY: it changes nothing that is allocated.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The most pages that recovery should read: the work of half of ten seconds, for a drive of 50,000
/// reads a second.
const REDO_PAGES_MAX: usize = 250_000;

/// How many pages may have stores that are in the log alone: as many as the budget could hold. Most
/// of them have a copy and wait for their map records. This is below the bound that refuses a
/// commit, so waiting for room suffices.
fn unmapped_pages_max(geometry: &Geometry, dram_bytes: usize) -> usize {
    let spare = geometry.slots - geometry.pages;
    (dram_bytes / ebbtide_core::PAGE_BYTES)
        .min(REDO_PAGES_MAX)
        .min(spare.div_ceil(2) as usize)
        .max(1)
}

/// The most bytes that one transaction may store, and what that depends on.
fn transaction_bound(geometry: &Geometry, dram_bytes: usize) -> (usize, &'static str) {
    // A small transaction may take a quarter of a small log.
    let ring_share = (geometry.log_blocks / 4).max(3);
    let small = (0..=TRANSACTION_BYTES_MIN)
        .rev()
        .step_by(8)
        .find(|&bytes| Journal::blocks_for(bytes) <= ring_share)
        .unwrap_or(0);
    let log_bytes = geometry.log_blocks as usize * ebbtide_core::PAGE_BYTES;
    let bounds = [
        (TRANSACTION_BYTES_MAX, "the bound of every store"),
        (log_bytes / LOG_SHARE, "a sixteenth of the log"),
        (dram_bytes / DRAM_SHARE, "a 32nd of the engine's DRAM"),
    ];
    let (bytes, bound) = bounds.into_iter().min().expect("there are some");
    if bytes > small { (bytes / 8 * 8, bound) } else { (small, "the least bound of a store") }
}

/// Blocks of the log in DRAM. They hold the first reservations of all jobs, a large transaction and
/// one of the least bound. Some more wait to be written.
fn buffer_blocks_max(fibers: usize, transaction_bytes_max: usize) -> u64 {
    let first = Journal::blocks_for(FIRST_RESERVATION_BYTES);
    let large = Journal::blocks_for(transaction_bytes_max.max(TRANSACTION_BYTES_MIN));
    fibers as u64 * first + large + Journal::blocks_for(TRANSACTION_BYTES_MIN) + 32
}

/// The progress of an engine's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Transactions up to here may be acknowledged under the engine's policy.
    pub acknowledged: Lsn,
    /// Transactions up to here survive a crash.
    pub durable: Lsn,
    /// Where the newest transaction ends.
    pub committed: Lsn,
    /// The error after which nothing more can become durable, if there was one.
    pub ended: Option<TransactionError>,
    /// Why no transaction is accepted, if so. Unlike `ended`, it may pass.
    pub refused: Option<TransactionError>,
    /// How often the log was flushed since the engine began.
    pub flushes: u64,
    /// How long these flushes took in all.
    pub flush_time: Duration,
    /// Bytes of the log, base maps and superblocks that were written since then.
    pub written_bytes: u64,
    /// Stores of transactions since then.
    pub stored: Stored,
}

impl Progress {
    /// The error for all that wait for the log, if there is one: writing has ended, or the device
    /// has no room for the log.
    pub fn gives_up(&self) -> Option<&TransactionError> {
        let full = |error: &&TransactionError| matches!(error, TransactionError::LogFull { .. });
        self.ended.as_ref().or(self.refused.as_ref().filter(full))
    }
}

impl Store {
    /// Inspects the contents of a persistent store, without changing anything. Returns `None` if
    /// the store does not persist. With `read_pages`, it reads every copy of a page and verifies
    /// its checksum.
    ///
    /// # Errors
    /// When recovery would refuse the store, or it was stopped.
    pub fn inspect(
        &self,
        read_pages: bool,
        watch: Watch<'_>,
    ) -> Result<Option<Inspection>, StoreError> {
        let Some(geometry) = self.header().persist() else { return Ok(None) };
        let mut disk = FileDisk::new(self.file(), self.persist_offset(), self.path())?;
        Ok(Some(inspect(&geometry, &mut disk, read_pages, watch)?))
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use ebbtide_core::durability::Io;
    use ebbtide_core::{Addr, Span};

    use super::*;
    use crate::api::budget::Budget;
    use crate::api::options::Options;
    use crate::store::NewStore;

    /// The persist part of an engine without a log writer. Only the test writes.
    fn persist() -> Persist {
        persist_under(Policy::None)
    }

    fn persist_under(policy: Policy) -> Persist {
        persist_with(policy, 64)
    }

    fn persist_with(policy: Policy, spare_pages: u64) -> Persist {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("store");
        let tag = String::new();
        let new = NewStore { path, offset: 0, pages: 64, spare_pages, tag, force: false };
        let store = Store::create_persistent(&new, 1 << 20).unwrap();
        let disk = FileDisk::new(store.file(), store.persist_offset(), store.path()).unwrap();
        let sizes = (1 << 20, 32, 4);
        let geometry = store.header().persist().unwrap();
        let mut disk: LogDisk = Box::new(disk);
        Persist::open(geometry, &mut disk, policy, sizes, Watch::unattended()).unwrap()
    }

    fn commit(persist: &Persist) {
        persist.commit_with(|set| set.store(Addr(0), &[7; 8])).unwrap().unwrap();
    }

    #[test]
    fn a_log_that_is_behind_is_flushed_after_a_while_or_when_it_is_asked_for() {
        let persist = persist();
        commit(&persist);
        let every = Duration::from_secs(1);
        let since = persist.lock().behind_since.unwrap();
        let wants = |after: Duration| persist.lock().wants_flush(every, since + after);
        assert!(!wants(Duration::ZERO) && !wants(every - Duration::from_nanos(1)));
        assert!(wants(every));
        persist.ask_flush();
        assert!(wants(Duration::ZERO));
    }

    #[test]
    fn a_copy_wakes_the_log_writer_if_room_comes_with_its_record() {
        for spare_pages in [1, 2, 4, 8] {
            let persist = persist_with(Policy::None, spare_pages);
            let (mut pages, waiter) = (0, Waiter { core: 0, fiber: 0 });
            while persist.try_reserve(8, waiter, || false).unwrap() {
                let at = PageId(pages).start();
                persist.commit_with(|set| set.store(at, &[7; 8])).unwrap().unwrap();
                assert!(persist.release(8).is_empty());
                pages += 1;
            }
            assert!(0 < pages && pages <= spare_pages, "{pages} pages of {spare_pages}");
            let mut guarded = persist.lock();
            let slot = guarded.journal.take_slots(1).unwrap().first;
            let frozen = guarded.journal.freeze(PageId(0));
            std::thread::scope(|scope| {
                // It gets the lock once this thread waits, as the log writer does.
                scope.spawn(|| assert!(persist.written(frozen, slot, 0)));
                while !guarded.journal.wants_flush() {
                    let late = persist.news.wait_for(&mut guarded, Duration::from_secs(300));
                    assert!(!late.timed_out(), "the log writer was not woken");
                }
                drop(guarded);
            });
        }
    }

    #[test]
    fn a_log_that_is_further_behind_than_the_policy_allows_holds_up_those_who_commit() {
        let waits = |every: Span| {
            let persist = persist_under(Policy::Every(every));
            commit(&persist);
            let lsn = persist.progress().committed;
            std::thread::sleep(Duration::from_millis(3));
            let waits = !persist.await_durable(lsn, Waiter { core: 0, fiber: 0 }).unwrap();
            assert_eq!(persist.progress().acknowledged == lsn, !waits);
            waits
        };
        assert!(waits(Span::from_us(2_000)), "nobody flushes");
        assert!(!waits(Span::from_us(3_600_000_000)));
    }

    #[test]
    fn a_flush_that_was_asked_for_during_another_follows_it() {
        let persist = persist();
        let flush = |meanwhile: &dyn Fn()| {
            let began = Instant::now();
            let next = || persist.lock().journal.next(true).unwrap();
            while let Io::Write(_) = next() {
                persist.lock().journal.done(Ok(()));
            }
            meanwhile();
            let mut guarded = persist.lock();
            guarded.journal.done(Ok(()));
            guarded.flushed(began, Instant::now());
        };
        for (asked, follows) in [(false, false), (true, true)] {
            commit(&persist);
            persist.ask_flush();
            flush(&|| {
                commit(&persist);
                if asked {
                    persist.ask_flush();
                }
            });
            assert_eq!(persist.lock().flush_asked, follows);
            flush(&|| ());
            let guarded = persist.lock();
            assert!(!guarded.flush_asked && guarded.behind_since.is_none());
        }
    }

    #[test]
    fn a_flush_waits_a_quarter_of_the_last_one_for_those_whom_that_released() {
        let persist = persist();
        let mut guarded = persist.lock();
        let (began, took) = (Instant::now(), Duration::from_millis(8));
        guarded.waiting.push((Lsn::ZERO, Waiter { core: 0, fiber: 0 }));
        guarded.flushed(began, began + took);
        assert_eq!(guarded.flushes, (1, took));
        guarded.waiting.clear();
        guarded.flush_asked = true;
        let until = began + took + took / 4;
        let wants = |guarded: &Guarded, at| guarded.wants_flush(Duration::from_secs(1), at);
        assert!(!wants(&guarded, until - Duration::from_nanos(1)));
        assert!(wants(&guarded, until));
        guarded.waiting.push((Lsn::ZERO, Waiter { core: 0, fiber: 0 }));
        assert!(wants(&guarded, began + took), "all are there");
    }

    #[test]
    fn what_is_known_of_pages_whose_stores_are_in_the_log_alone_comes_out_of_the_budget() {
        let of = |spare: u64| {
            let geometry = Geometry { id: 1, pages: 4096, slots: 4096 + spare, log_blocks: 64 };
            (unmapped_pages_max(&geometry, 1 << 30), Persist::dram_bytes(&geometry, 64, 1 << 30))
        };
        let ((few, few_bytes), (many, many_bytes)) = (of(1000), of(3000));
        assert_eq!(many - few, 1000);
        assert!(many_bytes - few_bytes >= 1000 * Journal::UNMAPPED_PAGE_BYTES);
    }

    #[test]
    fn a_page_that_survives_crashes_takes_at_most_twelve_bytes_of_dram() {
        const DRAM_BYTES: usize = 64 << 20;
        let pages = 20 * DRAM_BYTES as u64 / ebbtide_core::PAGE_BYTES as u64;
        let of = |pages| {
            let geometry = Geometry { id: 1, pages, slots: 2 * pages, log_blocks: 64 };
            Persist::dram_bytes(&geometry, 64, DRAM_BYTES)
        };
        // What does not grow with the pages falls out of the difference.
        let persist_bytes = of(2 * pages) - of(pages);
        let budget = Budget::divide(&Options::new(DRAM_BYTES), pages).expect("it fits");
        let bytes = budget.states_bytes + budget.policy_bytes + persist_bytes;
        assert!(bytes <= 12 * pages as usize, "{:.2} bytes a page", bytes as f64 / pages as f64);
    }
}
