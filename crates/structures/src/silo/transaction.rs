//! [`Transaction`]: what a transaction does before it commits, and what it notes meanwhile.

use std::ops::{ControlFlow, Range, RangeInclusive};

use ebbtide_core::{Addr, Memory};
use smallvec::SmallVec;

use super::place::{self, Claimed, Vacant};
use super::record::{self, Head};
use super::table::{NO_KEY, Row, Table, words_of, words_of_mut};
use super::tid::Tid;
use super::{Abort, Conflict, Isolation, Silo};
use crate::Wrong;
use crate::masstree::{Changed, Seen, Tree, Visitor};

/// A transaction under way. What it reads is noted, what it writes is kept here until it commits;
/// all of that is the job's own, none of it lies in the memory.
#[derive(Debug)]
pub struct Transaction<'a, M> {
    pub(super) silo: &'a Silo,
    pub(super) memory: &'a mut M,
    pub(super) isolation: Isolation,
    /// The read set: the versions of records.
    pub(super) reads: SmallVec<[Read; 32]>,
    /// The node set: the versions of index nodes that absences and scans depended on.
    pub(super) nodes: SmallVec<[Depended<'a>; 16]>,
    /// The write set, a record once.
    pub(super) writes: SmallVec<[Write<'a>; 32]>,
    /// The rows to be written, one behind the other.
    pub(super) words: SmallVec<[u64; 256]>,
    /// Places without rows that it left behind, also when it was run before.
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
    /// The version that was read and is overwritten.
    pub over: Tid,
    /// The version it is locked at, while it is.
    pub held: Option<Tid>,
    pub new: New<'a>,
}

/// What becomes of a record.
#[derive(Debug, Clone)]
pub(super) enum New<'a> {
    /// It holds the row that is there in `words`.
    Row(Range<usize>),
    /// It is removed; this is the index that leads to it.
    Gone(&'a Tree),
}

/// A row that a transaction found, as it was found or as the transaction changed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<R> {
    /// Its key.
    pub key: u64,
    /// What it holds.
    pub row: R,
    at: Addr,
    tid: Tid,
}

impl<R> Found<R> {
    /// The version that was read.
    pub fn tid(&self) -> Tid {
        self.tid
    }
}

impl<'a, M: Memory> Transaction<'a, M> {
    /// A transaction that has done nothing yet.
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

    /// Forgets everything it did. Gives the memory, to do something else before it begins again.
    pub fn restart(&mut self) -> &mut M {
        self.reads.clear();
        self.nodes.clear();
        self.writes.clear();
        self.words.clear();
        self.memory
    }

    /// The memory it runs on, for computing between accesses.
    pub fn memory(&mut self) -> &mut M {
        self.memory
    }

    /// The row of `key`, if there is one.
    ///
    /// # Errors
    /// [`Abort::Wrong`] when what it reads is no record or index.
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

    /// The first `limit` rows with keys in `keys`, in order.
    ///
    /// # Errors
    /// [`Abort::Wrong`] when what it reads is no record or index.
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

    /// The first `limit` of `keys` that the index has, and where they lead. What that depends on is
    /// noted.
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
            // Its place was given to another key since.
            false => self.get(table, key),
        }
    }

    /// Writes the row back as it is in `found` now, which this transaction found or wrote.
    pub fn put<R: Row>(&mut self, found: &Found<R>) {
        let new = self.keep(&found.row);
        self.write(found.at, found.key, found.tid, new);
    }

    /// Removes the row, which this transaction found or wrote.
    pub fn remove<R: Row>(&mut self, table: &'a Table<R>, found: &Found<R>) {
        self.write(found.at, found.key, found.tid, New::Gone(&table.index));
    }

    /// Inserts a row at `place`, which no other row needs, and says whether it did: not if there
    /// is a row of this key. (If the key has a place already, as after an abort, it keeps that.)
    ///
    /// # Errors
    /// [`Abort::Wrong`] when what it reads is no record or index, or `place` has another row in it;
    /// [`Abort::Conflict`] when this changed a node of the index that others changed before.
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
            // Somebody was faster, and took another place.
        };
        let new = self.keep(row);
        self.write(at, key, tid, new);
        Ok(true)
    }

    /// Finds the record of `key` and reads it, and its row into `row`; or gives the node that has
    /// no such key.
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
            // The place was given to another key after the index was read. Then it left the index
            // before, or was changed again.
            if other.replace((at, head)) == Some((at, head)) {
                return Err(Abort::Wrong(Wrong(format!(
                    "the index leads from key {key} to the record of key {} at {at:?}",
                    head.key
                ))));
            }
        }
    }

    /// Notes what was read and gives the row, if there is one, as this transaction sees it.
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

    /// Whether this transaction sees a row in the record at `at`, found as `tid`.
    fn is_there(&self, at: Addr, tid: Tid) -> bool {
        self.written(at).map_or(!tid.is_absent(), |write| matches!(write.new, New::Row(_)))
    }

    fn written(&self, at: Addr) -> Option<&Write<'a>> {
        self.writes.iter().find(|write| write.at == at)
    }

    /// Keeps a row until it is written.
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

    /// Takes the keys of places that it left without rows out of the index. (Should that fail, the
    /// next key of the place does it.)
    pub(super) fn tidy(&mut self) -> Result<(), Wrong> {
        for vacant in self.vacant.drain(..) {
            place::vacate(self.silo, self.memory, vacant)?;
        }
        Ok(())
    }

    /// Lets the node set follow what this transaction's own insert changed, also to where keys
    /// moved.
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

/// Keys and where they lead.
type Listed = SmallVec<[(u64, u64); 16]>;

/// Lists keys and notes what the list depends on.
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
        // Tables have no keys of another length.
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
