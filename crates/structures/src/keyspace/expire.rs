//! Removes keys that have expired, a leaf at a time. A packed hash whose fields have all expired is
//! such a key.

use ebbtide_core::{Addr, FullMemory};
use smallvec::SmallVec;

use super::collection::{all_over, first_expiry};
use super::due;
use super::due_record::{Named, Record};
use super::entry::{Entry, entry_bytes, load_key};
use super::kind::Kind;
use super::layout::PageHeader;
use super::leaf::Found;
use super::tree::Step;
use super::{Keyspace, leaf};
use crate::latch;

/// A leaf with a key or a field that has expired, as found in the index of due leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due(pub(super) Record);

impl Due {
    /// Milliseconds since its first key or field had expired for certain.
    pub fn late_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(u64::from(self.0.0) * 1000)
    }

    /// The hash at which the leaf begins.
    pub fn hash(&self) -> u64 {
        self.0.1
    }

    /// The second, since the Unix epoch, at whose start its first key or field has expired.
    pub fn second(&self) -> u32 {
        self.0.0
    }
}

/// An entry that is about to be removed because it has expired.
struct Gone {
    found: Found,
    entry: Entry,
    key: Vec<u8>,
    hash: u64,
}

/// A key that was removed because it had expired, and its hash.
pub type Expired = (Vec<u8>, u64);

impl Keyspace {
    /// Returns the leaf of a database whose first key or field expired earliest; `None` if none has
    /// expired.
    pub fn first_due<M: FullMemory>(&self, memory: &mut M, database: usize) -> Option<Due> {
        self.due(memory, database, 1).pop()
    }

    /// Returns the leaves of a database whose first keys or fields expired earliest, in the order
    /// of time, at most `most`.
    pub fn due<M: FullMemory>(&self, memory: &mut M, database: usize, most: usize) -> Vec<Due> {
        let records = self.tree(database).due_records(memory, self.now_ms, most);
        records.into_iter().map(Due).collect()
    }

    /// Hints the page of a leaf that is due, so that it is fetched ahead.
    pub fn fetch_due_ahead<M: FullMemory>(&self, memory: &mut M, database: usize, due: Due) {
        self.tree(database).hint(memory, due.hash());
    }

    /// Hints the neighbours of a leaf that is due, if it will be joined with them.
    pub fn fetch_beside_ahead<M: FullMemory>(&self, memory: &mut M, database: usize, due: Due) {
        let tree = self.tree(database);
        let bytes = tree.read(memory, due.hash(), |memory, page, header| {
            let mut bytes = 0;
            leaf::each_entry(memory, page, header, |memory, at| {
                let end = leaf::end(page);
                let entry = Entry::load_without_value(memory, at, end);
                let expires_at_ms = entry.and_then(|entry| entry.expires_at_ms);
                if expires_at_ms.is_none_or(|at| at > self.now_ms) {
                    bytes += entry_bytes(memory, at, end);
                }
            });
            bytes
        });
        if bytes.is_some_and(|bytes| bytes <= tree.sparse_bytes_max(memory)) {
            tree.hint_beside(memory, due.hash());
        }
    }

    /// Returns the hashes of the expired keys in the leaf of this hash.
    pub fn expired<M: FullMemory>(&self, memory: &mut M, database: usize, hash: u64) -> Vec<u64> {
        self.expired_if(memory, database, hash, |_| true)
    }

    fn expired_if<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        hash: u64,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Vec<u64> {
        let expired = self.tree(database).read(memory, hash, |memory, page, header| {
            let mut hashes = Vec::new();
            leaf::each_entry(memory, page, header, |memory, at| {
                let end = leaf::end(page);
                let Some(entry) = Entry::load_without_value(memory, at, end) else { return };
                let mut value = Vec::new();
                if entry.kind() == Kind::Hash {
                    Entry::load(memory, at, end, &mut value);
                }
                let is_over = entry.expires_at_ms.is_some_and(|at| at <= self.now_ms)
                    || all_over(&value, self.now_ms);
                let mut key = Vec::new();
                if is_over && wanted(&entry) && load_key(memory, at, end, &mut key).is_some() {
                    hashes.push(self.key(&key).hash);
                }
            });
            hashes
        });
        expired.unwrap_or_default()
    }

    /// Returns the keys in the leaf of this hash that have hashes with expired fields. A packed
    /// hash without other fields is [expired](Keyspace::expired) instead.
    pub fn with_expired_fields<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        hash: u64,
    ) -> Vec<Vec<u8>> {
        let found = self.tree(database).read(memory, hash, |memory, page, header| {
            let mut keys = Vec::new();
            leaf::each_entry(memory, page, header, |memory, at| {
                let (mut value, end) = (Vec::new(), leaf::end(page));
                let entry = Entry::load_without_value(memory, at, end);
                if entry.is_none_or(|entry| entry.kind() != Kind::Hash) {
                    return;
                }
                let Some(entry) = Entry::load(memory, at, end, &mut value) else { return };
                let lives = entry.expires_at_ms.is_none_or(|at| at > self.now_ms)
                    && !all_over(&value, self.now_ms);
                let is_due = first_expiry(&value).is_some_and(|at| at <= self.now_ms);
                let mut key = Vec::new();
                if lives && is_due && load_key(memory, at, end, &mut key).is_some() {
                    keys.push(key);
                }
            });
            keys
        });
        found.unwrap_or_default()
    }

    /// Removes the expired keys of a leaf whose hashes are among `hashes`. The caller holds their
    /// stripes. Returns the removed keys.
    pub fn expire<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        due: Due,
        hashes: &[u64],
    ) -> Vec<Expired> {
        let tree = self.tree(database);
        let Due(record) = due;
        if tree.root(memory).is_none() {
            return Vec::new();
        }
        let written = tree.write(memory, record.1, |memory, page, header| {
            let mut named = Named::new();
            if (header.due, header.low) != record {
                // The leaf was joined with another since.
                tree.unname_due(memory, &[record]);
                return Step::Done(Vec::new());
            }
            named.push(record);
            let (gone, first) = self.split_expired(memory, page, header, hashes);
            tree.name_first_due(memory, header, first, &mut named);
            tree.unname_due(memory, &named);
            // The entries that stay are not moved, because every byte that is stored is logged.
            let found: SmallVec<[Found; 8]> = gone.iter().map(|gone| gone.found).collect();
            leaf::remove_all(memory, page, header, &found);
            Step::Done(gone)
        });
        let gone = written.unwrap_or_default();
        let mut expired = Vec::with_capacity(gone.len());
        for Gone { entry, key, hash, .. } in gone {
            self.count(memory, database, hash, Some(&entry), None);
            self.give_pages(memory, &entry);
            expired.push((key, hash));
        }
        expired
    }

    /// Finds the expired entries of a leaf whose hashes are among `hashes`. Also returns when the
    /// first key or field of the others expires.
    fn split_expired<M: FullMemory>(
        &self,
        memory: &mut M,
        page: Addr,
        header: &PageHeader,
        hashes: &[u64],
    ) -> (Vec<Gone>, Option<u64>) {
        let (mut gone, mut first, end) = (Vec::new(), None::<u64>, leaf::end(page));
        leaf::each_found(memory, page, header, |memory, found| {
            let Some(entry) = Entry::load_without_value(memory, found.at, end) else { return };
            let mut value = Vec::new();
            if entry.kind() == Kind::Hash {
                Entry::load(memory, found.at, end, &mut value);
            }
            let is_over = entry.expires_at_ms.is_some_and(|at| at <= self.now_ms)
                || all_over(&value, self.now_ms);
            let due_at = entry.expires_at_ms.into_iter().chain(first_expiry(&value)).min();
            if is_over {
                let mut key = Vec::new();
                load_key(memory, found.at, end, &mut key);
                let hash = self.key(&key).hash;
                if hashes.contains(&hash) {
                    gone.push(Gone { found, entry, key, hash });
                    return;
                }
            }
            first = first.into_iter().chain(due_at).min();
        });
        (gone, first)
    }

    /// Removes expired keys from the leaf of a hash, if it may have some. Two kinds stay: keys
    /// whose stripe is held, and keys with pages, because a command may still read those.
    pub(super) fn drop_expired<M: FullMemory>(&self, memory: &mut M, database: usize, hash: u64) {
        let tree = self.tree(database);
        let record =
            tree.read(memory, hash, |_, _, header| (header.due, header.low)).unwrap_or_default();
        if !due::is_due(record.0, self.now_ms) {
            return;
        }
        let mut expired = self.expired_if(memory, database, hash, Entry::is_inline);
        let mut stripes: Vec<Addr> =
            expired.iter().map(|hash| self.latch_of(super::stripe(*hash))).collect();
        stripes.sort_unstable();
        stripes.dedup();
        latch::write_free(memory, &stripes, |memory, held| {
            expired.retain(|hash| held.contains(&self.latch_of(super::stripe(*hash))));
            self.expire(memory, database, Due(record), &expired);
        });
    }
}
