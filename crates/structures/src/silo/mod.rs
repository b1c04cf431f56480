//! Silo: serialisable transactions by optimism (Tu, Zheng, Kohler, Liskov and Madden, "Speedy
//! Transactions in Multicore In-Memory Databases", SOSP'13), over any memory.
//!
//! A transaction ([`Transaction`]) runs without a lock: it notes the version of every record it
//! reads and of every index node an absence or a scan depended on, and keeps what it writes to
//! itself. To commit (§4.4), it
//!
//! 1. locks the records it writes, in the order of their addresses, so that nobody deadlocks;
//! 2. reads the global epoch: this is the moment it takes effect;
//! 3. checks that all it read is still the same and held by nobody else, and that no node it
//!    depended on changed, which catches phantoms (§4.6);
//! 4. picks a version ([`Tid`]) of that epoch above all it saw, writes its records and releases
//!    them with it.
//!
//! If a check fails it has written nothing, and is run again ([`Silo::run`]).
//!
//! # What differs from the paper
//! * **Waiting.** A lock is waited for through [`Memory::wait`], so that other jobs of the core
//!   run: its holder may be one of them, waiting for a page. So that locks are rarely held over
//!   a miss, the records to be written are touched before the first is locked.
//! * **Epochs.** There is no background thread. Every [`COMMITS_PER_EPOCH`]th job moves the epoch
//!   on when it has committed; jobs are numbered, so this takes no counter. Epochs order
//!   transactions as the serial order does: a version of a later epoch never comes before one of
//!   an earlier. There is no log to cut at an epoch, and there are no snapshots.
//! * **Where records lie** is the program's business: it names the place of a record it inserts. An
//!   insert first writes the key into the place, absent, and lets the index lead there. There is no
//!   garbage collector: the job that leaves a place without a row, because it removed that or was
//!   aborted after an insert, takes the key out of the index when all else is done; and should it
//!   come to nothing before, the next key of that place does it. Who arrives at a record by an
//!   outdated path finds another key in it and looks again; who noted its version finds it raised.
//! * **Memory order.** Two transactions that each write what the other reads must not both miss the
//!   other's lock: a lock must be visible before any version is checked. This takes a
//!   compare-exchange that is a full fence, as it is on x86-64.
//!
//! # When a page cannot be had
//! A fault before the fourth step releases every lock; nothing was written. From then on the
//! transaction has taken effect. Each store is then tried several times; a record whose page still
//! fails stays locked, so that nobody reads half of it, while all others are finished and released.
//! The job ends with the fault. Who waits for that record meets the fault as well; should the
//! device give the page back after all, they wait for ever, as with a
//! [`latch`](crate::latch). A fault after that, while keys of empty places leave the index,
//! ends the job as well, but changes nothing that it did. What a fault in the midst of a change of
//! the index leaves is said by [`masstree`](crate::masstree).

mod commit;
mod epoch;
mod place;
mod record;
mod table;
mod tid;
mod transaction;

use ebbtide_core::{Addr, Memory};

use epoch::COMMITS_PER_EPOCH;
use epoch::Epoch;
pub use table::{Row, Table};
pub use tid::Tid;
pub use transaction::{Found, Transaction};

use crate::Wrong;
use crate::checksum::Checksums;
use crate::hash::mix;

/// The owner that the checksums of records name. Part of the format: with another, no stored record
/// opens.
const CHECKSUMS_OWNER: u64 = 19;

/// A database: what all its transactions share.
#[derive(Debug, Clone)]
pub struct Silo {
    epoch: Epoch,
    checksums: Checksums,
}

/// What a transaction is checked for before it commits: each level permits what ANSI SQL-92 says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Isolation {
    /// Records it read may have changed since.
    ReadCommitted,
    /// What it read is still the same, but there may be records that it did not see (phantoms).
    RepeatableRead,
    /// It looks as if it had run alone.
    #[default]
    Serializable,
}

/// Why a transaction did not commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Abort {
    /// What it read changed, or is about to.
    Conflict(Conflict),
    /// It decided so itself.
    Rollback,
    /// It read what cannot be right.
    Wrong(Wrong),
}

/// What changed under a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// The record at this address.
    Record(Addr),
    /// The index node at this address.
    Node(Addr),
}

impl From<Wrong> for Abort {
    fn from(wrong: Wrong) -> Abort {
        Abort::Wrong(wrong)
    }
}

/// A transaction that committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed<R> {
    /// What its body gave.
    pub value: R,
    /// The version of all it wrote; the highest version it saw if it wrote nothing.
    pub tid: Tid,
    /// How often it was run.
    pub attempts: u32,
}

impl Silo {
    /// The database whose epoch is the word at `epoch`; `seed` tells its records from another's.
    pub fn new(epoch: Addr, seed: u64) -> Silo {
        let checksums = Checksums::new(CHECKSUMS_OWNER, 0, seed);
        Silo { epoch: Epoch::new(epoch, checksums), checksums }
    }

    /// Runs `reads` only for the pages it touches, so that a transaction right after it has nothing
    /// to wait for between what it reads and its commit; what it finds counts for nothing, and it
    /// must not insert. (Thomson and Abadi, VLDB'10, call that a reconnaissance.) Without it, a
    /// transaction that misses while it depends on what many change is likely to run again.
    pub fn rehearse<'a, M: Memory, R>(
        &'a self,
        memory: &'a mut M,
        reads: impl FnOnce(&mut Transaction<'a, M>) -> Result<R, Abort>,
    ) {
        // A record that seems wrong may have been caught half-way; if not, the transaction finds
        // it.
        let _found = reads(&mut Transaction::new(self, memory, Isolation::ReadCommitted));
    }

    /// Runs `body` as one transaction, as often as it takes to commit. `None` if it rolled back.
    ///
    /// `job` differs between jobs that run at a time. `body` may see a state that never was; so
    /// what it finds wrong counts only if all it read still is as it was.
    ///
    /// # Errors
    /// [`Wrong`] when memory holds what cannot be right.
    pub fn run<'a, M: Memory, R>(
        &'a self,
        memory: &'a mut M,
        job: u64,
        isolation: Isolation,
        mut body: impl FnMut(&mut Transaction<'a, M>) -> Result<R, Abort>,
    ) -> Result<Option<Committed<R>>, Wrong> {
        let mut transaction = Transaction::new(self, memory, isolation);
        let mut attempts = 1;
        let done = loop {
            let done = body(&mut transaction);
            match transaction.finish(done) {
                Ok((value, tid)) => break Some(Committed { value, tid, attempts }),
                Err(Abort::Rollback) => break None,
                Err(Abort::Wrong(wrong)) => return Err(wrong),
                Err(Abort::Conflict(on)) => {
                    let random = mix(job) ^ u64::from(attempts);
                    back_off(transaction.restart(), on, random, attempts);
                    attempts += 1;
                }
            }
        };
        transaction.tidy()?;
        if done.is_some() && job.is_multiple_of(COMMITS_PER_EPOCH) {
            self.epoch.advance(transaction.restart())?;
        }
        Ok(done)
    }
}

/// The longest back-off: 2¹³ instructions, a few microseconds.
const BACK_OFF_SHIFT_MAX: u32 = 13;

/// Lets those go first who were in the way: waits for the record, if somebody holds it, and then
/// for a random while that doubles with every attempt, so that two do not meet again and again.
fn back_off<M: Memory>(memory: &mut M, on: Conflict, random: u64, attempts: u32) {
    if let Conflict::Record(at) = on {
        record::wait_while_locked(memory, at);
    }
    let instructions_max = 1u64 << (attempts + 4).min(BACK_OFF_SHIFT_MAX);
    memory.work(mix(random) % instructions_max);
}
