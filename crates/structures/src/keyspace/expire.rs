//! Removes keys that have expired, a leaf at a time. A packed hash whose fields have all expired is
//! such a key.

use ebbtide_core::{Addr, Memory};

use super::collection::{all_over, first_expiry};
use super::due;
use super::due_record::{Named, Record};
use super::entry::{Entry, key_in, load_key};
use super::kind::Kind;
use super::tree::Step;
use super::{Keyspace, leaf};
use crate::latch;

/// A leaf with a key or a field that has expired, as found in the index of due leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due(Record);

impl Due {
    /// The hash at which the leaf begins.
    pub fn hash(&self) -> u64 {
        self.0.1
    }
}

/// A key that was removed because it had expired, and its hash.
pub type Expired = (Vec<u8>, u64);

impl Keyspace {
    /// Returns the leaf of a database whose first key or field expired earliest; `None` if none has
    /// expired.
    pub fn first_due<M: Memory>(&self, memory: &mut M, database: usize) -> Option<Due> {
        self.tree(database).first_due(memory, self.now_ms).map(Due)
    }

    /// Returns the hashes of the expired keys in the leaf of this hash.
    pub fn expired<M: Memory>(&self, memory: &mut M, database: usize, hash: u64) -> Vec<u64> {
        self.expired_if(memory, database, hash, |_| true)
    }

    fn expired_if<M: Memory>(
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
    pub fn with_expired_fields<M: Memory>(
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
    pub fn expire<M: Memory>(
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
            let over = |(hash, bytes): &leaf::Taken| {
                due::is_over(bytes, self.now_ms) && hashes.contains(hash)
            };
            let all = leaf::read(memory, page, header, &tree.order);
            let (gone, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(over);
            tree.name_due(memory, header, &kept, &mut named);
            tree.unname_due(memory, &named);
            header.sparse |= !gone.is_empty() && leaf::is_sparse(&kept);
            leaf::write(memory, page, header, &kept);
            Step::Done(gone)
        });
        let gone = written.unwrap_or_default();
        let mut expired = Vec::with_capacity(gone.len());
        for (hash, bytes) in gone {
            if let Some(entry) = Entry::decode(&bytes) {
                self.count(memory, database, hash, Some(&entry), None);
                self.give_pages(memory, &entry);
            }
            expired.push((key_in(&bytes).to_vec(), hash));
        }
        expired
    }

    /// Removes expired keys from the leaf of a hash, if it may have some. Two kinds stay: keys
    /// whose stripe is held, and keys with pages, because a command may still read those.
    pub(super) fn drop_expired<M: Memory>(&self, memory: &mut M, database: usize, hash: u64) {
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
