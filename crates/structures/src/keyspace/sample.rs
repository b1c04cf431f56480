//! Chooses leaves at random, and returns their keys. A cache judges them, and removes some.

use ebbtide_core::{Addr, FullMemory};

use super::due_record::record_in;
use super::entry::load_key;
use super::expire::Due;
use super::layout::{HASHES, PageHeader};
use super::tree::Tree;
use super::{Keyspace, inner, leaf, stripe};
use crate::{hash, latch};

/// A key of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The key.
    pub key: Vec<u8>,
    /// Its hash.
    pub hash: u64,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<u64>,
}

impl Keyspace {
    /// Returns a hash whose leaf is chosen by the number `random`; `None` before the first key. All
    /// leaves are about equally likely.
    pub fn random_leaf<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        random: u64,
    ) -> Option<u64> {
        self.tree(database).random_leaf(memory, random)
    }

    /// Appends all keys in the leaf of `hash` to `into`. Returns the hash at which the next leaf
    /// begins; [`HASHES`] at the end.
    pub fn sample<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        hash: u64,
        into: &mut Vec<Sampled>,
    ) -> u64 {
        let start = into.len();
        let next = self.tree(database).read(memory, hash, |memory, page, header| {
            into.truncate(start);
            leaf::each_entry(memory, page, header, |memory, at| {
                let mut key = Vec::new();
                if let Some(expires_at_ms) = load_key(memory, at, leaf::end(page), &mut key) {
                    let hash = self.key(&key).hash;
                    into.push(Sampled { key, hash, expires_at_ms });
                }
            });
            header.high
        });
        next.unwrap_or(HASHES)
    }

    /// Appends leaves with keys or fields that expire to `into`, in the order of time. They are
    /// those of one page of the index of due leaves. Returns the place to go on from; [`HASHES`] at
    /// the end.
    pub fn expiring<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        from: u64,
        into: &mut Vec<Due>,
    ) -> u64 {
        let Some(due) = self.tree(database).due() else { return HASHES };
        let start = into.len();
        let next = due.read(memory, from, |memory, page, header| {
            into.truncate(start);
            leaf::each_entry(memory, page, header, |memory, at| {
                let mut bytes = Vec::new();
                if load_key(memory, at, leaf::end(page), &mut bytes).is_some() {
                    into.push(Due(record_in(&bytes)));
                }
            });
            header.high
        });
        into[start..].sort_unstable_by_key(|due| due.0);
        next.unwrap_or(HASHES)
    }

    /// Returns a place for [`expiring`](Keyspace::expiring), chosen by the number `random`.
    pub fn random_expiring<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        random: u64,
    ) -> Option<u64> {
        self.tree(database).due()?.random_leaf(memory, random)
    }

    /// Runs `body` while it holds those stripes of `hashes` that no job holds. Passes the hashes of
    /// these stripes. A stripe that the caller holds outside of a transaction is not among them.
    /// Never waits.
    pub fn while_free<M: FullMemory, R>(
        &self,
        memory: &mut M,
        hashes: &[u64],
        body: impl FnOnce(&mut M, &[u64]) -> R,
    ) -> R {
        let latch = |hash: &u64| self.latch_of(stripe(*hash));
        let mut latches: Vec<Addr> = hashes.iter().map(latch).collect();
        latches.sort_unstable();
        latches.dedup();
        latch::write_free(memory, &latches, |memory, held| {
            let free: Vec<u64> =
                hashes.iter().copied().filter(|hash| held.contains(&latch(hash))).collect();
            body(memory, &free)
        })
    }
}

impl Tree {
    /// Returns a hash whose leaf is chosen by the number `random`; `None` if there is no tree. On
    /// each level, all children of a page are equally likely.
    fn random_leaf<M: FullMemory>(&self, memory: &mut M, random: u64) -> Option<u64> {
        let (_, mut level) = self.root(memory)?;
        let (mut hash, mut random) = (0, random);
        while level > 0 {
            let seen = self.descend(memory, hash, level)?;
            let header = PageHeader::load(memory, seen.page);
            let index = (random % u64::from(header.count.max(1))) as u16;
            let chosen = inner::slice(memory, seen.page, &header, index..index + 1);
            if !latch::is_still(memory, seen.page, seen.word) {
                continue;
            }
            // The first child also has the hashes before its separator.
            if let Some((separator, _)) = chosen.first().filter(|_| index > 0) {
                hash = *separator;
            }
            random = hash::mix(random);
            level = header.level.min(level) - 1;
        }
        Some(hash)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ebbtide_core::{Memory, PAGE_BYTES};
    use ebbtide_testbed::Plain;

    use super::super::HashSecret;
    use super::*;

    fn filled(memory: &mut Plain, keys: u32, expires: impl Fn(u32) -> Option<u64>) -> Keyspace {
        let pages = memory.size_bytes() / PAGE_BYTES as u64;
        let keyspace = Keyspace::format(memory, Addr(0), pages, HashSecret([3, 4]));
        for number in 0..keys {
            let name = format!("{{tag}}{number}");
            let key = keyspace.key(name.as_bytes());
            keyspace.set(memory, 0, &key, &[7; 100], expires(number)).expect("there is room");
        }
        keyspace
    }

    /// All keys are of one cluster slot, so their leaves have a small part of all hashes.
    #[test]
    fn every_leaf_is_about_equally_likely_even_if_keys_share_a_slot() {
        let mut memory = Plain::zeroed(8 << 20);
        let keyspace = filled(&mut memory, 20_000, |_| None);
        let mut leaves: BTreeMap<u64, (usize, u32)> = BTreeMap::new();
        let mut from = 0;
        while from < HASHES {
            let mut keys = Vec::new();
            from = keyspace.sample(&mut memory, 0, from, &mut keys);
            leaves.insert(from, (keys.len(), 0));
        }
        assert_eq!(leaves.values().map(|(keys, _)| keys).sum::<usize>(), 20_000);
        assert!(leaves.len() > 400, "{} leaves", leaves.len());
        let draws = leaves.len() as u64 * 50;
        for draw in 0..draws {
            let chosen = keyspace.random_leaf(&mut memory, 0, hash::mix(draw)).expect("a leaf");
            let next = keyspace.sample(&mut memory, 0, chosen, &mut Vec::new());
            leaves.get_mut(&next).expect("a leaf").1 += 1;
        }
        let counts = leaves.values().map(|(_, count)| *count);
        // Inner pages have 200 to 400 children.
        assert!(counts.clone().min() > Some(8) && counts.max() < Some(200), "{leaves:?}");
    }

    #[test]
    fn an_empty_database_has_no_leaf_to_choose() {
        let mut memory = Plain::zeroed(1 << 20);
        let keyspace = filled(&mut memory, 10, |_| None);
        assert_eq!(keyspace.random_leaf(&mut memory, 1, 5), None);
        assert_eq!(keyspace.random_expiring(&mut memory, 0, 5), None);
        assert_eq!(keyspace.expiring(&mut memory, 0, 0, &mut Vec::new()), HASHES);
    }

    #[test]
    fn leaves_with_keys_that_expire_come_in_the_order_of_time() {
        let mut memory = Plain::zeroed(8 << 20);
        let expires = |number: u32| {
            (number.is_multiple_of(50)).then(|| (1_000_000 - u64::from(number)) * 1_000)
        };
        let keyspace = filled(&mut memory, 20_000, expires);
        let (mut all, mut from) = (Vec::new(), 0);
        while from < HASHES {
            from = keyspace.expiring(&mut memory, 0, from, &mut all);
        }
        assert!(all.windows(2).all(|two| two[0].second() <= two[1].second()));
        for due in &all {
            let mut keys = Vec::new();
            keyspace.sample(&mut memory, 0, due.hash(), &mut keys);
            let first = keys.iter().filter_map(|key| key.expires_at_ms).min();
            assert!(first.is_some_and(|at| at.div_ceil(1_000) >= u64::from(due.second())));
        }
        let place = keyspace.random_expiring(&mut memory, 0, 99).expect("some expire");
        let mut some = Vec::new();
        keyspace.expiring(&mut memory, 0, place, &mut some);
        assert!(!some.is_empty() && some.iter().all(|due| all.contains(due)));
    }

    #[test]
    fn stripes_that_a_job_holds_are_not_free() {
        let mut memory = Plain::zeroed(1 << 20);
        let keyspace = filled(&mut memory, 10, |_| None);
        let free = keyspace.alone(&mut memory, &[5, 6], |memory| {
            keyspace.while_free(memory, &[5, 7, 5 + super::super::STRIPES], |_, free| free.to_vec())
        });
        assert_eq!(free, [7]);
        let all = keyspace.while_free(&mut memory, &[5, 6, 5], |_, free| free.to_vec());
        assert_eq!(all, [5, 6, 5]);
    }
}
