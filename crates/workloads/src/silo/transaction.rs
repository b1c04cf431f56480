//! [`Transaction`]: the reads and buffered writes of a transaction, and the sets that a commit
//! checks.

use std::ops::{ControlFlow, Range, RangeInclusive};

use ebbtide_core::{Addr, FullMemory};
use smallvec::SmallVec;

use super::place::{self, Claimed, Vacant};
use super::record::{self, Head};
use super::table::{NO_KEY, Row, Table, words_of, words_of_mut};
use super::tid::Tid;
use super::{Abort, Conflict, Isolation, Silo};
use crate::Corrupt;
use crate::masstree::{Changed, Seen, Tree, Visitor};

/// A running transaction. Its read, node and write sets are kept in the job, not in the
/// [`FullMemory`].
#[derive(Debug)]
pub struct Transaction<'a, M> {
    pub(super) silo: &'a Silo,
    pub(super) memory: &'a mut M,
    pub(super) isolation: Isolation,
    /// The read set: records and their versions.
    pub(super) reads: SmallVec<[Read; 32]>,
    /// The node set: index nodes on which absences and scans depend, and their versions.
    pub(super) nodes: SmallVec<[Depended<'a>; 16]>,
    /// The write set, with each record once.
    pub(super) writes: SmallVec<[Write<'a>; 32]>,
    /// The rows to be written, one after the other.
    pub(super) words: SmallVec<[u64; 256]>,
    /// Places without rows that it left behind, in this attempt or an earlier one.
    pub(super) vacant: SmallVec<[Vacant<'a>; 4]>,
}

/// A record and the version that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Read {
    pub at: Addr,
    pub tid: Tid,
}

/// A node of an index and the version that was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Depended<'a> {
    pub index: &'a Tree,
    pub seen: Seen,
}

/// A record to be written.
#[derive(Debug, Clone)]
pub(super) struct Write<'a> {
    pub at: Addr,
    pub key: u64,
    /// The version that was read and will be overwritten.
    pub over: Tid,
    /// The version at which it is locked, while it is locked.
    pub held: Option<Tid>,
    pub new: New<'a>,
}

/// The new state of a record.
#[derive(Debug, Clone)]
pub(super) enum New<'a> {
    /// It gets the row in this range of `words`.
    Row(Range<usize>),
    /// It is removed. This is the index that leads to it.
    Gone(&'a Tree),
}

/// A row that a transaction read, or its changed copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<R> {
    /// The key of the row.
    pub key: u64,
    /// The row.
    pub row: R,
    at: Addr,
    tid: Tid,
}

impl<R> Found<R> {
    /// Returns the version that was read.
    pub fn tid(&self) -> Tid {
        self.tid
    }
}

impl<'a, M: FullMemory> Transaction<'a, M> {
    /// Returns a transaction with empty sets.
    pub fn new(silo: &'a Silo, memory: &'a mut M, isolation: Isolation) -> Transaction<'a, M> {
        Transaction {
            silo,
            memory,
            isolation,
            reads: SmallVec::new(),
            nodes: SmallVec::new(),
            writes: SmallVec::new(),
            words: SmallVec::new(),
            vacant: SmallVec::new(),
        }
    }

    /// Clears all sets for another attempt. Returns the memory, for use between the attempts.
    pub fn restart(&mut self) -> &mut M {
        self.reads.clear();
        self.nodes.clear();
        self.writes.clear();
        self.words.clear();
        self.memory
    }

    /// Returns the memory of the transaction, for computing between accesses.
    pub fn memory(&mut self) -> &mut M {
        self.memory
    }

    /// Reads the row of `key`. Returns `None` if there is none.
    ///
    /// # Errors
    /// [`Abort::Corrupt`] if a record or the index is damaged.
    pub fn get<R: Row>(
        &mut self,
        table: &'a Table<R>,
        key: u64,
    ) -> Result<Option<Found<R>>, Abort> {
        let mut row = R::zeroed();
        match self.look_up(&table.index, key, words_of_mut(&mut row))? {
            Ok((at, head)) => Ok(self.see(at, head, row)),
            Err(seen) => {
                self.nodes.push(Depended { index: &table.index, seen });
                Ok(None)
            }
        }
    }

    /// Reads the first `limit` rows with keys in `keys`, in the order of keys.
    ///
    /// # Errors
    /// [`Abort::Corrupt`] if a record or the index is damaged.
    pub fn scan<R: Row>(
        &mut self,
        table: &'a Table<R>,
        keys: RangeInclusive<u64>,
        limit: usize,
    ) -> Result<Vec<Found<R>>, Abort> {
        let mut found = Vec::new();
        let (mut from, to) = keys.into_inner();
        while found.len() < limit && from <= to {
            let asked = limit - found.len();
            let listed = self.list(&table.index, from..=to, asked)?;
            for &(key, at) in &listed {
                found.extend(self.get_listed(table, key, at)?);
            }
            match listed.last() {
                // Some of them were absent.
                Some(&(last, _)) if listed.len() == asked && last < to => from = last + 1,
                _ => break,
            }
        }
        Ok(found)
    }

    /// Returns the first `limit` of `keys` in the index, with the addresses of their records. Adds
    /// the nodes to the node set.
    fn list(
        &mut self,
        index: &'a Tree,
        keys: RangeInclusive<u64>,
        limit: usize,
    ) -> Result<Listed, Abort> {
        let (from, to) = keys.into_inner();
        let mut list = List { index, to, limit, nodes: &mut self.nodes, listed: Listed::new() };
        index.scan_seen(self.memory, &from.to_be_bytes(), &mut list)?;
        Ok(list.listed)
    }

    /// The row of `key`, whose record lay at `at` when the index was read.
    fn get_listed<R: Row>(
        &mut self,
        table: &'a Table<R>,
        key: u64,
        at: u64,
    ) -> Result<Option<Found<R>>, Abort> {
        let mut row = R::zeroed();
        let at = record::address(self.memory, at, R::WORDS)?;
        let head = record::read(self.memory, self.silo.checksums, at, words_of_mut(&mut row))?;
        match head.key == key {
            true => Ok(self.see(at, head, row)),
            // Its place has got another key since.
            false => self.get(table, key),
        }
    }

    /// Writes `found.row` back. This transaction read or wrote the row before.
    pub fn put<R: Row>(&mut self, found: &Found<R>) {
        let new = self.keep(&found.row);
        self.write(found.at, found.key, found.tid, new);
    }

    /// Removes the row, which this transaction read or wrote before.
    pub fn remove<R: Row>(&mut self, table: &'a Table<R>, found: &Found<R>) {
        self.write(found.at, found.key, found.tid, New::Gone(&table.index));
    }

    /// Inserts a row at `place`, which no other row uses. Returns `false` if the key has a row
    /// already. If the key has a place already, as after an abort, it keeps that place.
    ///
    /// # Errors
    /// [`Abort::Corrupt`] if a record or the index is damaged, or `place` has another row in it.
    ///
    /// [`Abort::Conflict`] if this changed a node of the index that others changed before.
    ///
    /// # Panics
    /// When `key` is `u64::MAX`, which no row has.
    pub fn insert<R: Row>(
        &mut self,
        table: &'a Table<R>,
        key: u64,
        place: Addr,
        row: &R,
    ) -> Result<bool, Abort> {
        assert!(key != NO_KEY, "no row has key {NO_KEY}");
        let (at, tid) = loop {
            if let Ok((at, head)) = self.look_up(&table.index, key, &mut [])? {
                self.reads.push(Read { at, tid: head.tid });
                if self.is_there(at, head.tid) {
                    return Ok(false);
                }
                break (at, head.tid);
            }
            let claimed = place::claim(self.silo, self.memory, &table.index, place, key)?;
            if let Some(Claimed { tid, changed }) = claimed {
                self.reads.push(Read { at: place, tid });
                self.vacant.push(Vacant { index: &table.index, place, key, tid });
                self.follow(&changed)?;
                break (place, tid);
            }
            // Another job was faster and took another place.
        };
        let new = self.keep(row);
        self.write(at, key, tid, new);
        Ok(true)
    }

    /// Finds the record of `key` and reads it, with its row into `row`. If no node has the key,
    /// returns the node that would have it.
    fn look_up(
        &mut self,
        index: &Tree,
        key: u64,
        row: &mut [u64],
    ) -> Result<Result<(Addr, Head), Seen>, Abort> {
        let mut other = None;
        loop {
            let at = match index.get_seen(self.memory, &key.to_be_bytes())? {
                (Some(at), _) => record::address(self.memory, at, row.len())?,
                (None, seen) => return Ok(Err(seen)),
            };
            let head = record::read(self.memory, self.silo.checksums, at, row)?;
            if head.key == key {
                return Ok(Ok((at, head)));
            }
            // The place got another key after the index was read, so the key left the index, or the
            // index changed again.
            if other.replace((at, head)) == Some((at, head)) {
                return Err(Abort::Corrupt(Corrupt(format!(
                    "the index leads from key {key} to the record of key {} at {at:?}",
                    head.key
                ))));
            }
        }
    }

    /// Adds the record to the read set and returns its row, if there is one, as this transaction
    /// sees it.
    fn see<R: Row>(&mut self, at: Addr, head: Head, row: R) -> Option<Found<R>> {
        self.reads.push(Read { at, tid: head.tid });
        let Head { tid, key } = head;
        match self.written(at) {
            Some(Write { new: New::Row(range), .. }) => {
                let mut row = row;
                words_of_mut(&mut row).copy_from_slice(&self.words[range.clone()]);
                Some(Found { key, row, at, tid })
            }
            Some(Write { new: New::Gone(_), .. }) => None,
            None => (!tid.is_absent()).then_some(Found { key, row, at, tid }),
        }
    }

    /// Returns true if this transaction sees a row in the record at `at`, which was read at version
    /// `tid`.
    fn is_there(&self, at: Addr, tid: Tid) -> bool {
        self.written(at).map_or(!tid.is_absent(), |write| matches!(write.new, New::Row(_)))
    }

    fn written(&self, at: Addr) -> Option<&Write<'a>> {
        self.writes.iter().find(|write| write.at == at)
    }

    /// Buffers a row until it is written.
    fn keep<R: Row>(&mut self, row: &R) -> New<'a> {
        let start = self.words.len();
        self.words.extend_from_slice(words_of(row));
        New::Row(start..self.words.len())
    }

    fn write(&mut self, at: Addr, key: u64, over: Tid, new: New<'a>) {
        debug_assert!(
            self.reads.contains(&Read { at, tid: over }),
            "the row at {at:?} was found by another transaction"
        );
        match self.writes.iter_mut().find(|write| write.at == at) {
            Some(write) => write.new = new,
            None => self.writes.push(Write { at, key, over, held: None, new }),
        }
    }

    /// Removes the keys of places that it left without rows from the index. If this fails, the next
    /// key of the place does it.
    pub(super) fn tidy(&mut self) -> Result<(), Corrupt> {
        for vacant in self.vacant.drain(..) {
            place::vacate(self.silo, self.memory, vacant)?;
        }
        Ok(())
    }

    /// Updates the node set with the nodes that this transaction's own insert changed.
    fn follow(&mut self, changed: &[Changed]) -> Result<(), Abort> {
        for Changed { before, after } in changed {
            for i in 0..self.nodes.len() {
                let Depended { index, seen } = self.nodes[i];
                if seen.node != before.node {
                    continue;
                }
                if seen.version != before.version {
                    return Err(Abort::Conflict(Conflict::Node(seen.node)));
                }
                let mut after = after.iter().flatten().map(|&seen| Depended { index, seen });
                if let Some(same) = after.next() {
                    self.nodes[i] = same;
                }
                self.nodes.extend(after);
            }
        }
        Ok(())
    }
}

/// Keys and the addresses to which they lead.
type Listed = SmallVec<[(u64, u64); 16]>;

/// Collects keys and the nodes on which the list depends.
struct List<'a, 'b> {
    index: &'a Tree,
    to: u64,
    limit: usize,
    nodes: &'b mut SmallVec<[Depended<'a>; 16]>,
    listed: Listed,
}

impl Visitor for List<'_, '_> {
    fn node(&mut self, seen: Seen) {
        self.nodes.push(Depended { index: self.index, seen });
    }

    fn entry(&mut self, key: &[u8], value: u64) -> ControlFlow<()> {
        // All keys of a table have 8 bytes.
        let Some(key) = key.first_chunk().map(|key| u64::from_be_bytes(*key)) else {
            return ControlFlow::Continue(());
        };
        if key > self.to {
            return ControlFlow::Break(());
        }
        self.listed.push((key, value));
        match self.listed.len() < self.limit {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }
}
