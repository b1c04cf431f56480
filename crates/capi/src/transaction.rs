//! Transactions and durable waits.

use std::ffi::c_void;

use ebbtide_core::durability::{Lsn, TransactionError};
use ebbtide_core::{Addr, FullMemory, Memory};

use crate::code::{EbbtideCode, Failure, guarded};
use crate::engine::EbbtideWork;
use crate::memory::{EbbtideMemory, own};

impl From<TransactionError> for Failure {
    fn from(error: TransactionError) -> Failure {
        match error {
            TransactionError::Inside => Failure::new(EbbtideCode::EbbtideMisplaced, error),
            error if error.is_input() => Failure::input(error),
            error => Failure::failed(error),
        }
    }
}

/// Runs `body` as a transaction. If `body` returns 0, all its stores take effect in one step. They
/// survive a crash as a whole or not at all. If it returns anything else, none of them takes
/// effect. In a store without a log, they stay.
///
/// `body` may be called several times, and only its last run counts. A call in it that returns an
/// error ends the run. All later calls then return `EBBTIDE_AGAIN`, and the body should return. A
/// transaction inside a transaction is part of the outer one. Returns the place in the log for
/// `ebbtide_durable` in `*lsn`, if `lsn` is not null.
///
/// # Safety
/// `body` may be called with `argument`; `lsn` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_transaction(
    memory: *mut EbbtideMemory,
    body: EbbtideWork,
    argument: *mut c_void,
    lsn: *mut u64,
) -> EbbtideCode {
    guarded(|| {
        let body = body.ok_or_else(|| Failure::input("body is null"))?;
        let own = own(memory)?;
        let ran = own.call(|flash| {
            flash.transaction(|flash| {
                own.run_body(flash, || {
                    // SAFETY: as the caller promises.
                    unsafe { body(memory, argument) }
                });
            })
        })?;
        let ((), place) = ran?;
        own.has_committed(place);
        if !lsn.is_null() {
            // SAFETY: as the caller promises.
            unsafe { lsn.write(place.0) };
        }
        Ok(())
    })
}

/// Waits until the transaction at `lsn` and all earlier ones may be acknowledged under the engine's
/// durability. The job keeps its stack, and other jobs run.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_durable(memory: *mut EbbtideMemory, lsn: u64) -> EbbtideCode {
    guarded(|| {
        let memory = own(memory)?;
        let last = memory.engine().progress().map_or(Lsn::ZERO, |progress| progress.committed);
        if lsn > last.0 {
            let text = format!("lsn is {lsn}: expected one that was given, up to {last}");
            return Err(Failure::input(text));
        }
        Ok(memory.call(|flash| flash.durable(Lsn(lsn)))??)
    })
}

/// Logs the current contents of the words from `at` on, like a flush of persistent memory. Stores
/// outside of transactions may or may not survive a crash. Those in this range do once the place in
/// the log is durable. Returns that place in `*lsn`, if `lsn` is not null. Does nothing inside a
/// transaction.
///
/// # Safety
/// `lsn` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_persist(
    memory: *mut EbbtideMemory,
    at: u64,
    bytes: u64,
    lsn: *mut u64,
) -> EbbtideCode {
    guarded(|| {
        let memory = own(memory)?;
        memory.check(at, bytes)?;
        let place = memory.call(|flash| flash.persist(Addr(at), bytes))??;
        memory.has_committed(place);
        if !lsn.is_null() {
            // SAFETY: as the caller promises.
            unsafe { lsn.write(place.0) };
        }
        Ok(())
    })
}
