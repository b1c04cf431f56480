//! Stores that are logged without a transaction, and waits for the log.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ebbtide_core::durability::{Lsn, TransactionError};
use ebbtide_core::{Addr, Memory, PAGE_BYTES};

use crate::core::flash_memory::{FlashMemory, Signal, check_not_unwinding};
use crate::host::atomic_words;
use crate::persist::Persist;

impl FlashMemory<'_> {
    /// Logs the contents of a range, a page at a time.
    pub(in crate::core::flash_memory) fn persist_range(
        &mut self,
        at: Addr,
        bytes: u64,
    ) -> Result<Lsn, TransactionError> {
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
    pub(in crate::core::flash_memory) fn await_durable(
        &mut self,
        lsn: Lsn,
    ) -> Result<(), TransactionError> {
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

    /// Waits until no other commit has the turn.
    pub(super) fn await_turn(&mut self, persist: &Persist) {
        while !persist.turns.is_turn_of(self.waiter()) {
            self.halt_for_log();
        }
    }

    /// Suspends the fiber until the log writer wakes it, or the commit that had the turn.
    pub(super) fn halt_for_log(&mut self) {
        self.publish_accesses();
        self.local.log_waiters.set(self.local.log_waiters.get() + 1);
        self.suspend.suspend(Signal::Halted);
        self.local.log_waiters.set(self.local.log_waiters.get() - 1);
        self.fiber().outcome.take();
    }
}
