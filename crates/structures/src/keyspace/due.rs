//! The index of due leaves: leaves with keys or fields that expire, in the order of time.
//!
//! Every database has such a tree in addition to the tree of its keys. A leaf with keys that expire
//! has one record in it, and so has a leaf with hashes whose fields expire. The record holds the
//! hash where the leaf begins, and a second: when that second begins, the leaf's first key or field
//! has expired. The leaf's header has that second too. A key or field that expires earlier moves
//! the record. One that is removed leaves it, so a record may be early and is never late. Due
//! records are at the left end of the tree.

use ebbtide_core::{Addr, FullMemory};

use super::collection::first_expiry;
use super::due_record::{Named, Record, place, record_bytes, record_in};
use super::entry::{Entry, Place, collection_in, encode, expiry_in, load_key};
use super::key::Key;
use super::layout::{HASHES, PageHeader};
use super::leaf::{self, Taken};
use super::order::Order;
use super::tree::{Step, Tree};

/// The offset of this tree's words from those of the tree of the keys.
pub(super) const BESIDE: u64 = 16;

/// How many later seconds a record may be put at when the places of its own second are full.
const LATER_MAX: u32 = 8;

/// Returns the first second at whose start a key has expired; 0 if that is beyond the range of the
/// index.
pub(super) fn second_of(expires_at_ms: u64) -> u32 {
    u32::try_from(expires_at_ms.div_ceil(1000).max(1)).unwrap_or(0)
}

/// When the key of an entry of these bytes expires, or the first field of its hash; `None` if
/// neither does.
pub(super) fn due_in(entry: &[u8]) -> Option<u64> {
    let field = collection_in(entry).and_then(first_expiry);
    expiry_in(entry).into_iter().chain(field).min()
}

/// Returns true if a record of this second is due.
pub(super) fn is_due(second: u32, now_ms: u64) -> bool {
    second != 0 && u64::from(second) * 1000 <= now_ms
}

impl Tree {
    /// The index that belongs to this tree; `None` if this is one.
    pub(super) fn due(&self) -> Option<Tree> {
        match self.order {
            Order::Hashed(_) => Some(Tree { line: self.line + BESIDE, order: Order::Due, ..*self }),
            Order::Due => None,
        }
    }

    /// Adds the record that the `entries` of a leaf need; the leaf's latch is held. Removes that
    /// record from `named` if it is there already. The caller stores the header.
    pub(super) fn name_due<M: FullMemory>(
        &self,
        memory: &mut M,
        header: &mut PageHeader,
        entries: &[Taken],
        named: &mut Named,
    ) {
        let first = entries.iter().filter_map(|taken| due_in(&taken.bytes)).min();
        self.name_first_due(memory, header, first, named);
    }

    /// As [`name_due`](Tree::name_due), of a leaf whose first key or field expires at `first`.
    pub(super) fn name_first_due<M: FullMemory>(
        &self,
        memory: &mut M,
        header: &mut PageHeader,
        first: Option<u64>,
        named: &mut Named,
    ) {
        let Some(due) = self.due() else { return };
        header.due = first.map_or(0, second_of);
        if let Some(index) = named.iter().position(|record| *record == (header.due, header.low)) {
            named.remove(index);
        } else if header.due != 0 {
            header.due = due.add(memory, (header.due, header.low));
        }
    }

    /// Removes records.
    pub(super) fn unname_due<M: FullMemory>(&self, memory: &mut M, named: &[Record]) {
        let Some(due) = self.due() else { return };
        for record in named.iter().filter(|(second, _)| *second != 0) {
            due.remove(memory, *record);
        }
    }

    /// Moves the record of a leaf, whose latch is held, to `expires_at_ms` if that is earlier.
    pub(super) fn note_due<M: FullMemory>(
        &self,
        memory: &mut M,
        page: Addr,
        header: &mut PageHeader,
        expires_at_ms: u64,
    ) {
        let second = second_of(expires_at_ms);
        let earlier = second != 0 && (header.due == 0 || second < header.due);
        if let Some(due) = self.due().filter(|_| earlier) {
            let before = (header.due, header.low);
            header.due = due.add(memory, (second, header.low));
            header.store(memory, page);
            if before.0 != header.due {
                self.unname_due(memory, &[before]);
            }
        }
    }

    /// Adds a record. Returns its second; 0 if there is no room. If a leaf has no record, its
    /// expired keys are removed when the leaf next changes.
    fn add<M: FullMemory>(&self, memory: &mut M, (second, low): Record) -> u32 {
        for later in 0..LATER_MAX {
            let Some(at) = second.checked_add(later) else { break };
            let bytes = record_bytes((at, low));
            let key = Key { bytes: &bytes, hash: place(&bytes) };
            let entry = Entry { value_bytes: 0, expires_at_ms: None, place: Place::Inline };
            let entry = encode(key.bytes, &entry, &[]);
            let added = self.write(memory, key.hash, |memory, page, header| {
                if leaf::find(memory, page, header, &key).is_some() {
                    return Step::Done(());
                }
                let inserted = leaf::insert(memory, page, header, key.hash, &entry);
                inserted.map_or_else(Step::MakeRoom, Step::Done)
            });
            if added.is_ok() {
                return at;
            }
        }
        0
    }

    /// Returns the earliest records that are due, in order, at most `most`.
    pub(super) fn due_records<M: FullMemory>(
        &self,
        memory: &mut M,
        now_ms: u64,
        most: usize,
    ) -> Vec<Record> {
        let mut records = Vec::new();
        let Some(due) = self.due() else { return records };
        let (mut from, mut bytes) = (0, Vec::new());
        while from < HASHES && records.len() < most {
            let known = records.len();
            let read = due.read(memory, from, |memory, page, header| {
                records.truncate(known);
                leaf::each_entry(memory, page, header, |memory, at| {
                    bytes.clear();
                    if load_key(memory, at, leaf::end(page), &mut bytes).is_some() {
                        records.push(record_in(&bytes));
                    }
                });
                header.high
            });
            let Some(high) = read else { break };
            from = high;
            let all = records.len();
            records.retain(|(second, _)| is_due(*second, now_ms));
            if records.len() < all {
                // The records of later leaves are later.
                break;
            }
        }
        records.sort_unstable();
        records.truncate(most);
        records
    }

    /// Removes a record.
    fn remove<M: FullMemory>(&self, memory: &mut M, record: Record) {
        let bytes = record_bytes(record);
        let key = Key { bytes: &bytes, hash: place(&bytes) };
        if self.root(memory).is_none() {
            return;
        }
        let removed = self.write(memory, key.hash, |memory, page, header| {
            if let Some(found) = leaf::find(memory, page, header, &key) {
                leaf::remove(memory, page, header, found);
            }
            Step::Done(header.sparse)
        });
        if removed == Ok(true) {
            self.join(memory, key.hash);
        }
    }
}
