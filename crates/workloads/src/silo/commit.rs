//! The commit protocol (Silo, SOSP'13, §4.4): lock, read the epoch, check, write and release.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ebbtide_core::{Addr, FullMemory};

use super::place::Vacant;
use super::record::{self, Head};
use super::tid::Tid;
use super::transaction::{Depended, New, Transaction, Write};
use super::{Abort, Conflict, Isolation};
use crate::Corrupt;
use ebbtide_structures::retry::retry_faults;

impl<M: FullMemory> Transaction<'_, M> {
    /// Ends a transaction whose body returned `done`. Commits it, or, if the body failed, checks
    /// that its reads were consistent.
    pub(super) fn finish<R>(&mut self, done: Result<R, Abort>) -> Result<(R, Tid), Abort> {
        match done {
            Ok(value) => Ok((value, self.commit()?)),
            Err(conflict @ Abort::Conflict(_)) => Err(conflict),
            Err(decided) => self.check().and(Err(decided)),
        }
    }

    /// Commits. Returns the version of its writes. If it wrote nothing, returns the highest version
    /// it read.
    ///
    /// # Errors
    /// [`Abort::Conflict`] if another transaction changed a record or node that this one read.
    /// [`Abort::Corrupt`] if a record's version is invalid. Nothing was then written.
    pub fn commit(&mut self) -> Result<Tid, Abort> {
        // This order cannot deadlock.
        self.writes.sort_unstable_by_key(|write| write.at);
        self.touch();
        // A transaction that has lost already need not lock. This check also waits for pages that
        // have left memory since they were read.
        self.check()?;
        // `decide` shares nothing but memory itself, whose words are valid at any moment.
        let decided = catch_unwind(AssertUnwindSafe(|| self.decide()));
        let released = match decided {
            Ok(Ok(tid)) => self.install(tid),
            _ => self.release(),
        };
        // The job ends with the first error.
        decided
            .and_then(|decided| released.map(|()| decided))
            .unwrap_or_else(|payload| resume_unwind(payload))
    }

    /// Waits for pages that were evicted since, while no job waits for this one.
    fn touch(&mut self) {
        for write in &self.writes {
            let _word: u64 = self.memory.load(write.at);
        }
    }

    /// Locks the records to be written and checks those that were read. Returns the version to
    /// commit with.
    fn decide(&mut self) -> Result<Tid, Abort> {
        let mut highest = Tid::NEVER;
        for write in &mut self.writes {
            let tid = record::lock(self.memory, write.at);
            write.held = Some(tid);
            highest = highest.max(tid);
            if !self.isolation.checks_reads() && !write.is_possible(self.memory, tid) {
                return Err(Abort::Conflict(Conflict::Record(write.at)));
            }
        }
        // The transaction takes effect here.
        let epoch = self.silo.epoch.now(self.memory)?;
        self.check()?;
        let highest = self.reads.iter().map(|read| read.tid).fold(highest, Tid::max);
        if self.writes.is_empty() {
            return Ok(highest);
        }
        match highest.next_in(epoch) {
            Some(tid) => Ok(tid),
            // The epoch has no version left. The transaction runs again in the next one.
            None if highest.epoch() == epoch && self.silo.epoch.advance(self.memory)? => {
                Err(Abort::Conflict(Conflict::Record(self.writes[0].at)))
            }
            None => {
                let of = highest.epoch();
                Err(Abort::Corrupt(Corrupt(format!(
                    "a record is of epoch {of}, but it is epoch {epoch}"
                ))))
            }
        }
    }

    /// Checks that all reads are unchanged and not locked by others, as far as the isolation level
    /// requires.
    fn check(&mut self) -> Result<(), Abort> {
        if self.isolation.checks_reads() {
            for read in &self.reads {
                let word = record::word(self.memory, read.at);
                if word.is_locked() && !self.holds(read.at) || word.tid() != read.tid {
                    return Err(Abort::Conflict(Conflict::Record(read.at)));
                }
            }
        }
        if self.isolation.checks_nodes() {
            for Depended { index, seen } in &self.nodes {
                if index.version_of(self.memory, seen.node)? != seen.version {
                    return Err(Abort::Conflict(Conflict::Node(seen.node)));
                }
            }
        }
        Ok(())
    }

    fn holds(&self, at: Addr) -> bool {
        self.writes.iter().any(|write| write.at == at && write.held.is_some())
    }

    /// Releases the records it has locked, unchanged.
    fn release(&mut self) -> std::thread::Result<()> {
        let mut result = Ok(());
        for write in &mut self.writes {
            if let Some(tid) = write.held.take() {
                result = result.and(record::unlock(self.memory, write.at, tid));
            }
        }
        result
    }

    /// Writes all records and releases them. A fault on one record does not prevent the others from
    /// being written.
    fn install(&mut self, tid: Tid) -> std::thread::Result<()> {
        let Transaction { silo, memory, writes, words, vacant, .. } = self;
        let mut result = Ok(());
        for Write { at, key, new, held, .. } in writes.iter_mut() {
            let (tid, row) = match new {
                New::Row(range) => (tid.with_absent(false), &words[range.clone()]),
                New::Gone(index) => {
                    let tid = tid.with_absent(true);
                    vacant.push(Vacant { index, place: *at, key: *key, tid });
                    (tid, &[][..])
                }
            };
            let head = Head { tid, key: *key };
            let written = retry_faults(|| record::write(*memory, silo.checksums, *at, head, row));
            let released = match written {
                Ok(()) => record::unlock(*memory, *at, head.tid),
                Err(payload) => {
                    memory.wake(*at);
                    Err(payload)
                }
            };
            *held = None;
            result = result.and(released);
        }
        result
    }
}

impl Write<'_> {
    /// Returns true if a locked record of version `tid` still has the key and is present or absent
    /// as when it was read. If not, this transaction must not write it.
    fn is_possible<M: FullMemory>(&self, memory: &mut M, tid: Tid) -> bool {
        let same_presence = tid.is_absent() == self.over.is_absent();
        tid == self.over || same_presence && record::key(memory, self.at) == self.key
    }
}

impl Isolation {
    fn checks_reads(self) -> bool {
        self >= Isolation::RepeatableRead
    }

    fn checks_nodes(self) -> bool {
        self == Isolation::Serializable
    }
}
