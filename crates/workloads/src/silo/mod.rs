//! Silo: serialisable transactions with optimistic concurrency control (Tu, Zheng, Kohler, Liskov
//! and Madden, "Speedy Transactions in Multicore In-Memory Databases", SOSP'13), over any memory.
//!
//! A [`Transaction`] runs without locks and buffers its writes. It records the version of every
//! record that it reads. It also records the version of every index node that an absence or a scan
//! depends on. To commit (§4.4), it
//!
//! 1. locks the records it writes, in the order of their addresses, which cannot deadlock;
//! 2. reads the global epoch, which is the moment it takes effect;
//! 3. checks the records it read: they must be unchanged and not locked by others. The index nodes
//!    of its node set must be unchanged too, which detects phantoms (§4.6);
//! 4. picks a version ([`Tid`]) of that epoch above all versions it read, writes its records and
//!    releases them with that version.
//!
//! If a check fails, nothing was written, and [`Silo::run`] runs it again.
//!
//! # What differs from the paper
//! * **Waiting.** A job waits for a lock through [`Memory::wait`](ebbtide_core::Memory::wait), so
//!   that other jobs of the core run. The holder may be one of them, waiting for a page. The
//!   records to be written are touched before the first is locked, so that locks are rarely held
//!   over a miss.
//! * **Epochs.** There is no background thread. Every 1,024th job advances the epoch when it has
//!   committed; jobs are numbered, so this needs no counter. A transaction that finds no version
//!   left in the epoch advances it, too, and runs again. Epochs agree with the serial order: a
//!   version of a later epoch never precedes one of an earlier. There is no log and there are no
//!   snapshots.
//! * **The program decides where records lie**: it names the place of a record it inserts. An
//!   insert first writes the key into the place, marked absent, and lets the index lead there.
//!   There is no garbage collector. A removal, or an abort after an insert, leaves a place without
//!   a row. At its end, that job removes the key from the index. If it fails before, the next key
//!   of that place does it. A job that reaches a record by an outdated path finds another key in it
//!   and looks again. One that had read its version finds it raised.
//! * **Memory order.** Two transactions that each write what the other reads must not both miss the
//!   other's lock. So a lock must be visible before any version is checked, which requires a
//!   compare-exchange that is a full fence, as on x86-64.
//!
//! # Device errors
//! A fault before the fourth step releases every lock, and nothing was written. From the fourth
//! step on, the transaction has taken effect. Each store is then tried eight times. A record whose
//! page still fails stays locked, so that no job reads half of it. All other records are written
//! and released, and the job ends with the fault. Jobs that wait for that record meet the fault
//! too. If the device returns the page after all, they wait for ever, as with a
//! [`latch`](ebbtide_structures::latch). A later fault, while keys of empty places are removed from
//! the index, ends the job but changes none of its effects. For a fault during a change of the
//! index, see [`masstree`](crate::masstree).

mod commit;
mod epoch;
mod place;
mod record;
mod table;
mod tid;
mod transaction;

use ebbtide_core::{Addr, FullMemory};

use epoch::COMMITS_PER_EPOCH;
use epoch::Epoch;
pub use table::{Row, Table};
pub use tid::Tid;
pub use transaction::{Found, Transaction};

use crate::Corrupt;
use ebbtide_structures::checksum::Checksums;
use ebbtide_structures::hash::mix;

/// The owner in the checksums of records. It is part of the format: with another one, no stored
/// record opens.
const CHECKSUMS_OWNER: u64 = 19;

/// A database: the state that all its transactions share.
#[derive(Debug, Clone)]
pub struct Silo {
    epoch: Epoch,
    checksums: Checksums,
}

/// The isolation level of a transaction, as in ANSI SQL-92. It decides what a commit checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Isolation {
    /// Reads see committed rows only. Records that were read may have changed before the commit.
    ReadCommitted,
    /// Records that were read are unchanged at the commit. New ones may have appeared (phantoms).
    RepeatableRead,
    /// The transactions behave as if they ran one after the other.
    #[default]
    Serializable,
}

/// Why a transaction did not commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Abort {
    /// Another transaction changed, or is changing, data that this transaction read.
    Conflict(Conflict),
    /// The body requested a rollback.
    Rollback,
    /// The transaction read invalid data.
    Corrupt(Corrupt),
}

/// The data that changed under a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    /// The record at this address.
    Record(Addr),
    /// The index node at this address.
    Node(Addr),
}

impl From<Corrupt> for Abort {
    fn from(wrong: Corrupt) -> Abort {
        Abort::Corrupt(wrong)
    }
}

/// A transaction that committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed<R> {
    /// The result of its body.
    pub value: R,
    /// The version of the transaction's writes. If it wrote nothing, the highest version that it
    /// read.
    pub tid: Tid,
    /// The number of times that the body ran, at least 1.
    pub attempts: u32,
}

impl Silo {
    /// Returns the database whose epoch is the word at `epoch`. `seed` is part of its checksums, so
    /// records of another database do not match.
    pub fn new(epoch: Addr, seed: u64) -> Silo {
        let checksums = Checksums::new(CHECKSUMS_OWNER, 0, seed);
        Silo { epoch: Epoch::new(epoch, checksums), checksums }
    }

    /// Runs `reads` only to fetch the pages it touches. A transaction right after it then does not
    /// wait between its reads and its commit. The results of `reads` are discarded, and it must not
    /// insert. Without it, a transaction that misses is likely to run again if many others change
    /// the same records. Thomson and Abadi, VLDB'10, call this reconnaissance.
    pub fn rehearse<'a, M: FullMemory, R>(
        &'a self,
        memory: &'a mut M,
        reads: impl FnOnce(&mut Transaction<'a, M>) -> Result<R, Abort>,
    ) {
        // A record that seems wrong may have been read during a change. If it is really wrong, the
        // transaction finds it.
        let _found = reads(&mut Transaction::new(self, memory, Isolation::ReadCommitted));
    }

    /// Runs `body` as one transaction until it commits. Returns `None` if it rolled back.
    ///
    /// Jobs that run at the same time have different numbers `job`. `body` may see an inconsistent
    /// state, so an error it returns counts only if everything it read is unchanged.
    ///
    /// # Errors
    /// [`Corrupt`] when memory holds invalid data.
    pub fn run<'a, M: FullMemory, R>(
        &'a self,
        memory: &'a mut M,
        job: u64,
        isolation: Isolation,
        mut body: impl FnMut(&mut Transaction<'a, M>) -> Result<R, Abort>,
    ) -> Result<Option<Committed<R>>, Corrupt> {
        let mut transaction = Transaction::new(self, memory, isolation);
        let mut attempts = 1;
        let done = loop {
            let done = body(&mut transaction);
            match transaction.finish(done) {
                Ok((value, tid)) => break Some(Committed { value, tid, attempts }),
                Err(Abort::Rollback) => break None,
                Err(Abort::Corrupt(wrong)) => return Err(wrong),
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

/// Waits for the record of the conflict, if it is locked. Then waits for a random time that doubles
/// with every attempt, so that two transactions do not conflict again and again.
fn back_off<M: FullMemory>(memory: &mut M, on: Conflict, random: u64, attempts: u32) {
    if let Conflict::Record(at) = on {
        record::wait_while_locked(memory, at);
    }
    let instructions_max = 1u64 << (attempts + 4).min(BACK_OFF_SHIFT_MAX);
    memory.work(mix(random) % instructions_max);
}

#[cfg(test)]
mod tests {
    use ebbtide_core::Memory;
    use ebbtide_testbed::Plain;

    use super::record::Head;
    use super::*;
    use crate::masstree::Tree;

    #[test]
    fn a_record_whose_epoch_has_no_version_left_is_written_in_the_next() {
        let mut memory = Plain::zeroed(1 << 20);
        let memory = &mut memory;
        let (silo, place) = (&Silo::new(Addr(0), 7), Addr(64));
        memory.store(Addr(0), silo.image_of_epoch());
        memory.store(place, silo.image_of_free_place(place, 0));
        let index = Tree::new(Addr(4096), Tree::bytes(0, 10), 0, 7);
        index.format(memory);
        let table = &Table::<[u64; 2]>::new(index);
        let insert = |memory: &mut Plain, key| {
            let inserted = silo.run(memory, 1, Isolation::Serializable, |silo| {
                silo.insert(table, key, place, &[1, 0])
            });
            inserted.unwrap().unwrap().tid
        };
        let wears_out = |memory: &mut Plain, tid: Tid, row: &[u64]| {
            let head = Head { tid, key: 7 };
            memory.store(place, record::image_line(silo.checksums, place, head, row, 0));
        };
        insert(memory, 7);
        wears_out(memory, Tid::last_of(1), &[1, 0]);
        let put = silo.run(memory, 1, Isolation::Serializable, |silo| {
            let mut found = silo.get(table, 7)?.unwrap();
            found.row = [2, 0];
            silo.put(&found);
            Ok(())
        });
        let put = put.unwrap().unwrap();
        assert_eq!((put.tid.epoch(), put.attempts), (2, 2));
        // A place without a row gets another key.
        wears_out(memory, Tid::last_of(2).with_absent(true), &[]);
        assert_eq!(insert(memory, 8).epoch(), 3);
    }
}
